"""Invariants: what an agent guarantees beyond its contracts, each with a check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from interlock.runtime.events import Event
from interlock.runtime.turn import TurnResult

__all__ = ["Finding", "How", "Invariant", "Lab", "Observed"]

How = Literal["proved", "agrees", "decided", "seen", "trusted"]
"""How a result is known: it holds on every path, two descriptions agree, every case was decided, only examples were seen, which is no
proof, or nothing shows it and the rest relies on it."""


@dataclass(frozen=True)
class Finding:
    """The result of a check: whether the guarantee holds, what was looked at, and how it is known.

    `decided` is for a check that looks at every case there is, such as all rows of a graph. A check that runs turns, or
    tries some inputs out of many, has `seen` them.
    """

    holds: bool
    proof: str
    how: How = "seen"


@dataclass(frozen=True)
class Observed:
    """A turn that was run for a check: its result and its events."""

    result: TurnResult
    events: Sequence[Event]

    def emitted(self, kind: str) -> Sequence[Event]:
        """Return the events of a kind, such as `on_tool_start`."""
        return [event for event in self.events if event["event"] == kind]


class Lab(Protocol):
    """Runs turns under known conditions: a scripted model, a fixed clock, counted ids and stores of its own.

    `replies` are the script of the model: see interlock.testing.ScriptedModel.
    """

    async def observe(
        self, text: str | Mapping[str, Any], *replies: Any, session: str | None = None, role: str | None = None, **settings: Any
    ) -> Sequence[Observed]:
        """Run the same turn on every engine, each with its own sessions. `settings` replace the default ones."""
        ...

    async def observe_at_once(self, text: str, *replies: Any, session: str, times: int) -> Sequence[Observed]:
        """Run the same turn several times concurrently, each in its own application, on one engine after the other."""
        ...


@dataclass(frozen=True)
class Invariant:
    """A guarantee and its check. The statement must not claim more than the check looks at."""

    statement: str
    check: Callable[[Lab], Awaitable[Finding]]
