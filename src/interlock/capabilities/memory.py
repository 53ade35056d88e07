"""Long-term memory: text about a subject that outlives a session."""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability, asks, keyed

__all__ = ["Memory", "MemoryReader", "MemoryWriter"]


class MemoryReader(Capability, Protocol):
    """Reads memory."""

    @asks
    async def recall(self, subject: str) -> str | None:
        """Return the text stored about a subject, or None."""
        ...


class MemoryWriter(Capability, Protocol):
    """Writes memory."""

    @keyed
    async def remember(self, subject: str, text: str) -> None:
        """Replace the text stored about a subject."""
        ...


class Memory(MemoryReader, MemoryWriter, Protocol):
    """Reads and writes memory."""
