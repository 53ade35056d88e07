"""What is remembered of a subject from one session to the next."""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability

__all__ = ["Memory", "MemoryReader", "MemoryWriter"]


class MemoryReader(Capability, Protocol):
    """Recalls across sessions."""

    async def recall(self, subject: str) -> str | None:
        """Return what is remembered of a subject."""
        ...


class MemoryWriter(Capability, Protocol):
    """Remembers across sessions."""

    async def remember(self, subject: str, text: str) -> None:
        """Replace what is remembered of a subject."""
        ...


class Memory(MemoryReader, MemoryWriter, Protocol):
    """Remembers and recalls across sessions."""
