"""Property graphs: where they are kept, and what may be asked of them."""
