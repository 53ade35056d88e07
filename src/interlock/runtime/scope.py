"""One run of one node, as the gate sees it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, cast

from interlock.errors import ContractViolation
from interlock.runtime.budget import Heard
from interlock.runtime.events import Run
from interlock.runtime.ledger import JournalFailed
from interlock.runtime.observe import LOGGER
from interlock.runtime.watch import Wait, Watch

if TYPE_CHECKING:
    from interlock.runtime.walk import Shared

__all__ = ["Scope"]


class Closing(Protocol):
    """Something that is left open."""

    async def aclose(self) -> None: ...


class Scope:
    """While it is open, the node may use what it was granted."""

    __slots__ = (
        "_others",
        "_streams",
        "_watch",
        "budget",
        "is_cancelled",
        "is_open",
        "ledger",
        "node",
        "redactor",
        "run",
        "shared",
        "task",
    )

    def __init__(self, node: str, *, run: Run | None, shared: Shared) -> None:
        self.node = node
        self.run = run
        self.shared = shared
        self._watch = shared.watch
        self.budget = shared.budget
        self.ledger = shared.ledger
        self.redactor = shared.redactor
        self.is_open = True
        self.is_cancelled = False
        self._streams: list[Closing] | None = None
        self.task = asyncio.current_task()
        self._others: set[asyncio.Task[Any]] | None = None

    def check_open(self, called: str) -> None:
        """Refuse what comes after the node has ended."""
        if not self.is_open:
            raise ContractViolation(f"'{called}' was called after node '{self.node}' had ended.")

    def hear_model(self, heard: Heard, said: Any) -> None:
        """Count what a model said, and take note of who it was."""
        self.budget.hear_model(heard, said)
        name = getattr(said, "model", None)
        if isinstance(name, str) and name:
            self.shared.models[name] = None

    def hear_piece(self, heard: Heard, piece: Any) -> None:
        """Count a piece of what a model says; what goes over the budget was still said."""
        spoken = self.shared.spoken
        if spoken is not None:
            spoken.append(piece if isinstance(piece, str) else getattr(piece, "text", ""))
        self.hear_model(heard, piece)

    def hear_text(self, heard: Heard, text: str, model: str) -> None:
        """Count a piece that is nothing but ASCII text."""
        shared = self.shared
        if shared.spoken is not None:
            shared.spoken.append(text)
        self.budget.hear_bytes(heard, len(text))
        if model:
            shared.models[model] = None

    def begin_wait(self, until: float | None = None) -> Wait | None:
        """Begin to wait for a part of a call, for as long as it may take."""
        return None if self._watch is None else self._watch.begin(self.budget.call_until() if until is None else until)

    def end_wait(self, wait: Wait | None) -> None:
        """Stop waiting."""
        if wait is not None:
            cast("Watch", self._watch).end(wait)

    def enter(self, task: asyncio.Task[Any] | None) -> asyncio.Task[Any] | None:
        """Take note of a call that a task of the node's own makes; return the task then."""
        if task is self.task or task is None:
            return None
        if self._others is None:  # as nearly always: most nodes make their calls themselves, and one after the other
            self._others = set()
        self._others.add(task)
        return task

    def leave(self, task: asyncio.Task[Any] | None) -> None:
        """Forget a call."""
        if task is not None and self._others is not None:
            self._others.discard(task)

    def leave_open(self, stream: Closing) -> None:
        """Take note of a stream: it is closed with the node, if not before."""
        if self._streams is None:
            self._streams = []
        self._streams.append(stream)

    @property
    def has_open_ends(self) -> bool:
        return bool(self._streams or self._others)

    async def close(self) -> None:
        """End everything that the node left open: calls that its own tasks still make, and streams."""
        others = [task for task in self._others or () if not task.done()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for stream in self._streams or ():
            try:
                await stream.aclose()
            except JournalFailed:
                return  # the turn ends with that, as soon as everything is closed
            except Exception as error:  # noqa: BLE001 - the node has its outcome; what an adapter leaves behind is not its fault
                LOGGER.warning("a stream did not end well", extra={"fields": {"node": self.node, "cause": type(error).__name__}})
