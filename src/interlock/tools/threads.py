"""Daemon threads for blocking work."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

__all__ = ["Threads"]

T = TypeVar("T")


class Threads:
    """Runs blocking functions in at most `at_once` daemon threads, which do not delay the end of the process.

    A thread cannot be stopped. In a ThreadPoolExecutor, one that hangs would keep the process from ending. Here it takes one
    worker of this object.
    """

    def __init__(self, at_once: int = 8) -> None:
        self._free = at_once
        self._queue: deque[tuple[Future[Any], Callable[[], object]]] = deque()
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function in a thread and return its result. If the caller is cancelled while the function is queued, it never starts."""
        context = contextvars.copy_context()
        future = Future[Any]()
        self._queue.append((future, lambda: context.run(work)))
        with self._lock:
            is_needed = self._free > 0
            self._free -= is_needed
        if is_needed:
            threading.Thread(target=self._work, name="interlock-tool", daemon=True).start()
        returned, raised = await asyncio.wrap_future(future)
        if raised is not None:
            raise raised
        return cast("T", returned)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._free += 1
                    return
                future, work = self._queue.popleft()
            if future.set_running_or_notify_cancel():
                future.set_result(_outcome(work))


def _outcome(work: Callable[[], object]) -> tuple[object, BaseException | None]:
    """Call a function and return its result and its exception. An asyncio future does not accept every exception."""
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001 - also SystemExit: the caller must get every error
        return None, error
