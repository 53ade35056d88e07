"""Fresh identifiers, as a capability, so that a turn can be repeated."""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability, instant

__all__ = ["Ids"]


class Ids(Capability, Protocol):
    """Makes identifiers."""

    @instant
    async def new(self) -> str:
        """Return an identifier that was never returned before."""
        ...
