"""What an agent guarantees beyond its contracts, and how each guarantee is checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from interlock.runtime.events import Event
from interlock.runtime.turn import TurnResult

__all__ = ["Finding", "How", "Invariant", "Lab", "Observed"]

How = Literal["agrees", "decided", "seen"]
"""How something is known: two descriptions agree, all cases were decided, or examples were seen (which proves nothing)."""


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
        """Run the same turn many times at once, each in an application of its own; on every engine one after the other."""
        ...


@dataclass(frozen=True)
class Invariant:
    """A guarantee and its check. The statement must say no more than the check looks at."""

    statement: str
    check: Callable[[Lab], Awaitable[Finding]]
