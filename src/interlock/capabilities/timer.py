"""Delays. They are a capability so that a replayed turn does not wait again."""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability, asks

__all__ = ["Timer"]


class Timer(Capability, Protocol):
    """Pauses a node."""

    @asks
    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...
