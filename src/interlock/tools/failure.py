"""The error of a tool that cannot fulfil a request."""

from __future__ import annotations

__all__ = ["ToolFailure"]


class ToolFailure(ValueError):
    """A tool cannot fulfil the request. The message gives the reason in one sentence."""
