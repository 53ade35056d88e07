"""The time, as a capability, so that a turn can be repeated."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from interlock.capabilities.capability import Capability, instant

__all__ = ["Clock"]


class Clock(Capability, Protocol):
    """Tells the time."""

    @instant
    async def now(self) -> datetime:
        """Return the current time in UTC."""
        ...
