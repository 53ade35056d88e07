"""The desk's nodes, one module for each kind of graph."""
