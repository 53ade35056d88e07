"""What is remembered of a subject from one session to the next."""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability

__all__ = ["Memory"]


class Memory(Capability, Protocol):
    """Remembers across sessions."""

    async def recall(self, subject: str) -> str | None:
        """Return what is remembered of a subject."""
        ...

    async def remember(self, subject: str, text: str) -> None:
        """Replace what is remembered of a subject."""
        ...
