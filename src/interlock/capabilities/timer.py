"""Time that passes, as a capability, so that a turn that is repeated need not wait again."""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability

__all__ = ["Timer"]


class Timer(Capability, Protocol):
    """Waits."""

    async def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        ...
