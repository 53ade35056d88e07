"""What an agent promises beyond its contracts, and how each promise is shown to hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from interlock.capabilities.backend import ModelResponse
from interlock.runtime.events import Event
from interlock.runtime.turn import TurnResult

__all__ = ["Finding", "Invariant", "Lab", "Observed"]


@dataclass(frozen=True)
class Finding:
    """Whether a promise was seen to hold, and by what."""

    holds: bool
    proof: str


@dataclass(frozen=True)
class Observed:
    """A turn that was taken to see what happens."""

    result: TurnResult
    events: Sequence[Event]


class Lab(Protocol):
    """Where turns are taken under known conditions: a scripted model, a fixed clock, counted ids."""

    async def observe(self, text: str, *replies: str | ModelResponse | Exception) -> Sequence[Observed]:
        """Take the same turn on every engine."""
        ...


@dataclass(frozen=True)
class Invariant:
    """A promise, and the way to find out whether it holds."""

    statement: str
    check: Callable[[Lab], Awaitable[Finding]]
