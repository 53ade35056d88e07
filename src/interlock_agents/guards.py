"""Guards that several agents use."""

from __future__ import annotations

from interlock.contract import guard

__all__ = ["is_blank"]


@guard
def is_blank(text: str) -> bool:
    """Return whether a text is empty or white space."""
    return not text.strip()
