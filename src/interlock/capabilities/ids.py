"""Unique identifiers. They are a capability so that a turn can be replayed."""

from __future__ import annotations

from typing import Annotated, Protocol

from interlock.capabilities.capability import Capability, asks, instant
from interlock.labels import Trusted

__all__ = ["Ids"]


class Ids(Capability, Protocol):
    """Creates unique identifiers."""

    @asks
    @instant
    async def new(self) -> Annotated[str, Trusted]:
        """Return an identifier that was never returned before."""
        ...
