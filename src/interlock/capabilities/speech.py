"""Speech: text that a node streams itself, in the same form as the reply of a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from interlock.capabilities.capability import Capability, asks, emits
from interlock.capabilities.model import Chunk

__all__ = ["Speech"]


class Speech(Capability, Protocol):
    """Streams a text that no model wrote, with the events of a streamed reply. It calls no model."""

    @asks
    @emits("chat_model", asks_model=False)
    def say(self, text: str) -> AsyncIterator[Chunk]:
        """Stream a text: `async for chunk in speech.say(...)`."""
        ...
