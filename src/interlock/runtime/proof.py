"""What an agent promises beyond its contracts, and how each promise is shown to hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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

    def told(self, kind: str) -> Sequence[Event]:
        """Return the events of a kind, such as `on_tool_start`."""
        return [event for event in self.events if event["event"] == kind]


class Lab(Protocol):
    """Where turns are taken under known conditions: a scripted model, a fixed clock, counted ids, stores of its own.

    `replies` are the script: see interlock.testing.ScriptedModel.
    """

    async def observe(
        self, text: str | Mapping[str, Any], *replies: Any, session: str | None = None, role: str | None = None, **settings: Any
    ) -> Sequence[Observed]:
        """Take the same turn on every engine; each has sessions of its own. `settings` are other than the default ones."""
        ...

    async def observe_at_once(self, text: str, *replies: Any, session: str, times: int) -> Sequence[Observed]:
        """Take the same turn many times at once, on every engine one after the other."""
        ...


@dataclass(frozen=True)
class Invariant:
    """A promise, and the way to find out whether it holds."""

    statement: str
    check: Callable[[Lab], Awaitable[Finding]]
