"""Adapters of stores: sessions, long-term memory and checkpoints."""
