"""The context of a turn, and of one run of a node in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Protocol

from interlock.errors import ContractViolation, JournalFailed
from interlock.runtime.deadlines import Deadlines
from interlock.runtime.events import Run
from interlock.runtime.journal import Journal
from interlock.runtime.limits import Budget
from interlock.runtime.observe import LOGGER
from interlock.runtime.rate_limits import RateLimits
from interlock.runtime.redaction import Redactor

__all__ = ["NodeContext", "TurnContext"]


@dataclass(kw_only=True, slots=True)
class TurnContext:
    """What all graph runs of one turn share."""

    turn: str
    budget: Budget
    redactor: Redactor
    journal: Journal | None = None
    deadlines: Deadlines | None = None
    rate_limits: RateLimits | None = None
    path: list[str] = field(default_factory=list[str])
    """The nodes in the order in which they started, each with the nodes that it is inside: `plan_goal/prompt`."""
    models: dict[str, None] = field(default_factory=dict[str, None])
    """The names of the models that answered, as far as they report one."""
    streamed: list[str] | None = None
    """What models have streamed in the node that is running; None where no partial answer is wanted."""
    calls: int = 0
    """How many calls were started: the sequence number of the last one."""


class _Closable(Protocol):
    async def aclose(self) -> None: ...


class NodeContext:
    """One run of a node. While it is open, the node may use what it was granted."""

    __slots__ = ("_streams", "_tasks", "is_cancelled", "is_open", "node", "run", "task", "turn")

    def __init__(self, node: str, *, run: Run | None, turn: TurnContext) -> None:
        self.node = node
        self.run = run
        self.turn = turn
        self.is_open = True
        self.is_cancelled = False
        self.task = asyncio.current_task()
        self._streams: list[_Closable] | None = None
        self._tasks: set[asyncio.Task[Any]] | None = None

    def check_open(self, method: str) -> None:
        """Raise ContractViolation for a call that is made after the node has ended."""
        if not self.is_open:
            raise ContractViolation(f"'{method}' was called after node '{self.node}' had ended.")

    def enter(self, task: asyncio.Task[Any] | None) -> asyncio.Task[Any] | None:
        """Note a call that is made in a task other than the node's own; return that task, or None for the node's own."""
        if task is self.task or task is None:
            return None
        if self._tasks is None:
            self._tasks = set()
        self._tasks.add(task)
        return task

    def leave(self, task: asyncio.Task[Any] | None) -> None:
        """Note that the call has ended."""
        if task is not None and self._tasks is not None:
            self._tasks.discard(task)

    def add_stream(self, stream: _Closable) -> None:
        """Note a stream, to be closed with the node if it was not closed before."""
        if self._streams is None:
            self._streams = []
        self._streams.append(stream)

    @property
    def has_open_calls(self) -> bool:
        return bool(self._streams or self._tasks)

    async def close(self) -> None:
        """Cancel the calls that the node's tasks are still making, and close its streams."""
        tasks = [task for task in self._tasks or () if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in self._streams or ():
            try:
                await stream.aclose()
            except JournalFailed:
                return  # The turn ends with it as soon as everything is closed.
            except Exception as error:  # noqa: BLE001 - the node has its outcome; how an adapter ends a stream does not change it
                LOGGER.warning("a stream did not end well", extra={"fields": {"node": self.node, "cause": type(error).__name__}})
