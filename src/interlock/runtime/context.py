"""The context of a turn, and of one run of a node in it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, Protocol, Self

from interlock.errors import ContractViolation, JournalFailed
from interlock.runtime.events import Run
from interlock.runtime.journal import Journal
from interlock.runtime.layers import is_cancelled
from interlock.runtime.limits import Budget
from interlock.runtime.observe import LOGGER
from interlock.runtime.origins import Origins
from interlock.runtime.rate_limits import RateLimits
from interlock.runtime.redaction import Redactor

__all__ = ["NodeContext", "TurnContext", "TurnFeatures"]


class TurnFeatures(NamedTuple):
    """What a turn has, beside what every turn has. It decides which layers its calls pass."""

    events: bool = False
    """Whether a listener or an observer gets its events."""
    journal: bool = False
    deadlines: bool = False
    rate_limits: bool = False
    origins: bool = False
    """Whether a tool has a policy, so that it must be known where the values of the turn come from."""


@dataclass(kw_only=True, slots=True)
class TurnContext:
    """What all graph runs of one turn share."""

    turn: str
    features: TurnFeatures
    budget: Budget
    redactor: Redactor
    journal: Journal | None = None
    rate_limits: RateLimits | None = None
    origins: Origins | None = None
    path: list[str] = field(default_factory=list[str])
    """The nodes in the order in which they started, each with the nodes that it is inside: `plan_goal/prompt`."""
    models: dict[str, None] = field(default_factory=dict[str, None])
    """The names of the models that answered, as far as they report one."""
    streamed: list[str] | None = None
    """What models have streamed in the node that is running; None where no partial answer is wanted."""
    calls: int = 0
    """How many calls have a sequence number: the number of the last one."""

    def next_sequence(self) -> int:
        self.calls += 1
        return self.calls


class _Closable(Protocol):
    async def aclose(self) -> None: ...


class NodeContext:
    """One run of a node. While it is open, the node may use what it was granted. Used as a context manager around the node."""

    __slots__ = ("is_cancelled", "is_open", "node", "run", "streams", "task", "tasks", "turn")

    def __init__(self, node: str, *, run: Run | None, turn: TurnContext) -> None:
        self.node = node
        self.run = run
        self.turn = turn
        self.is_open = True
        self.is_cancelled = False
        self.task = asyncio.current_task()
        self.streams: list[_Closable] = []
        """The streams that the node has opened, to be closed with it."""
        self.tasks: set[asyncio.Task[Any] | None] = set()
        """The tasks other than the node's own that are making a call."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End the calls of the node. Raise the failure of the journal, whatever the node returned or raised."""
        self.is_cancelled = self.is_cancelled or isinstance(error, asyncio.CancelledError)
        self.is_open = False
        if self.streams or self.tasks:
            await self._close()
        journal = self.turn.journal
        if journal is None or (self.is_cancelled and is_cancelled()):
            return
        if self.run is not None and not journal.shows_late:
            # The end event of the node shows what rests on its calls.
            with suppress(JournalFailed):
                await journal.commit()
        if journal.failure is not None:
            raise journal.failure from None

    def refuse(self, method: str) -> NoReturn:
        """Raise the error of a call that is made after the node has ended."""
        raise ContractViolation(f"'{method}' was called after node '{self.node}' had ended.")

    async def _close(self) -> None:
        """Cancel the calls that the node's tasks are still making, and close its streams."""
        tasks = [task for task in self.tasks if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in self.streams:
            try:
                await stream.aclose()
            except JournalFailed:
                return  # The turn ends with it as soon as everything is closed.
            except Exception as error:  # noqa: BLE001 - the node has its outcome; how an adapter ends a stream does not change it
                LOGGER.warning("a stream did not end well", extra={"fields": {"node": self.node, "cause": type(error).__name__}})
