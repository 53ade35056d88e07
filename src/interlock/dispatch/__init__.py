"""Dispatchers: which process runs accepted turns."""

__all__: list[str] = []
