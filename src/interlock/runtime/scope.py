"""One run of one node, as the gate sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, cast

from interlock.errors import ContractViolation
from interlock.runtime.budget import Heard
from interlock.runtime.events import Run
from interlock.runtime.logs import LOGGER
from interlock.runtime.watch import Wait, Watch

if TYPE_CHECKING:
    from interlock.runtime.walk import Shared

__all__ = ["Scope", "Stream"]


class Scope:
    """While it is open, the node may use what it was granted."""

    __slots__ = (
        "_others",
        "_task",
        "_watch",
        "budget",
        "is_cancelled",
        "is_open",
        "ledger",
        "node",
        "redactor",
        "run",
        "shared",
        "streams",
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
        self.streams: list[Stream] = []
        self._task = asyncio.current_task()
        self._others: set[asyncio.Task[Any]] = set()

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

    def begin_wait(self, until: float | None = None) -> Wait | None:
        """Begin to wait for a part of a call, for as long as it may take."""
        return None if self._watch is None else self._watch.begin(self.budget.call_until() if until is None else until)

    def end_wait(self, wait: Wait | None) -> None:
        """Stop waiting."""
        if wait is not None:
            cast("Watch", self._watch).end(wait)

    def enter(self) -> asyncio.Task[Any] | None:
        """Take note of a call that a task of the node's own makes; return the task."""
        task = asyncio.current_task()
        if task is self._task or task is None:
            return None
        self._others.add(task)
        return task

    def leave(self, task: asyncio.Task[Any] | None) -> None:
        """Forget a call."""
        if task is not None:
            self._others.discard(task)

    @property
    def has_open_ends(self) -> bool:
        return bool(self.streams or self._others)

    async def close(self) -> None:
        """End everything that the node left open: calls that its own tasks still make, and streams."""
        others = [task for task in self._others if not task.done()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for stream in self.streams:
            try:
                await stream.aclose()
            except Exception as error:  # noqa: BLE001 - the node has its outcome; what an adapter leaves behind is not its fault
                LOGGER.warning("a stream did not end well", extra={"fields": {"node": self.node, "cause": type(error).__name__}})


class Stream:
    """What a node reads that comes in pieces."""

    def __init__(self, scope: Scope, called: str, pieces: AsyncGenerator[Any, None]) -> None:
        self._scope = scope
        self._called = called
        self._pieces = pieces

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:
        self._scope.check_open(self._called)
        task = self._scope.enter()
        try:
            return await anext(self._pieces)
        finally:
            self._scope.leave(task)

    async def aclose(self) -> None:
        """Stop reading."""
        await self._pieces.aclose()
