"""The current time. It is a capability so that a turn can be replayed."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from interlock.capabilities.capability import Capability, asks, instant

__all__ = ["Clock"]


class Clock(Capability, Protocol):
    """Returns the current time."""

    @asks
    @instant
    async def now(self) -> datetime:
        """Return the current time in UTC."""
        ...
