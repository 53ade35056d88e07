"""What a tool says when it cannot do what it was asked."""

from __future__ import annotations

__all__ = ["ToolFailure"]


class ToolFailure(ValueError):
    """A tool cannot do what it was asked, and says why in one sentence."""
