"""What sam says where there is no model: enough to see the whole path, and honest about what it is."""

from __future__ import annotations

from interlock.capabilities.model import ModelRequest

__all__ = ["reply"]


def reply(request: ModelRequest) -> str:
    """Answer by rule: say what came in."""
    if request.image is not None:
        return f"An image came in ({len(request.image):,} characters of data URI). No language model is configured to look at it."
    words = len(request.prompt.split())
    return f"You said: “{request.prompt}” ({words} {'word' if words == 1 else 'words'}). No language model is configured to say more."
