"""The current time. It is a capability so that a turn can be replayed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Protocol

from interlock.capabilities.capability import Capability, asks, instant
from interlock.labels import Trusted

__all__ = ["Clock"]


class Clock(Capability, Protocol):
    """Returns the current time."""

    @asks
    @instant
    async def now(self) -> Annotated[datetime, Trusted]:
        """Return the current time in UTC."""
        ...
