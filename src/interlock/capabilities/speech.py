"""Speech: what a node says by itself, in chunks, as a model's answer comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from interlock.capabilities.capability import Capability, emits
from interlock.capabilities.model import Chunk

__all__ = ["Speech"]


class Speech(Capability, Protocol):
    """Says a text that no model wrote. A caller who streams answers sees it come as answers do; it asks no model."""

    @emits("chat_model", asks_model=False)
    def say(self, text: str) -> AsyncIterator[Chunk]:
        """Say a text: `async for piece in speech.say(...)`."""
        ...
