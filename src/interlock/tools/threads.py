"""Daemon threads for blocking work."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

__all__ = ["Threads"]

T = TypeVar("T")


class _Job:
    """A function to run in a thread, and the future that its caller awaits."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.result: object = None
        self.raised: BaseException | None = None
        self.is_abandoned = False

    def run(self) -> None:
        if self.is_abandoned:
            return
        try:
            self.result = self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001 - also SystemExit: the caller must get every error
            self.raised = error
        with suppress(RuntimeError):  # the event loop has closed
            self._loop.call_soon_threadsafe(self._set_done)

    def _set_done(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Threads:
    """Runs blocking functions in at most `at_once` daemon threads, which do not delay the end of the process.

    A thread cannot be stopped. In asyncio's default executor, one that hangs would keep `asyncio.run` from returning and take a
    worker from all other users. Here it takes one worker of this object.
    """

    def __init__(self, at_once: int = 8) -> None:
        self._free = at_once
        self._queue: deque[_Job] = deque()
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function in a thread and return its result. If the caller is cancelled while the function is queued, it never starts."""
        job = _Job(work)
        try:
            self._start(job)
            await job.done
        finally:
            job.is_abandoned = True
        if job.raised is not None:
            raise job.raised
        return cast("T", job.result)

    def _start(self, job: _Job) -> None:
        with self._lock:
            if not self._free:
                self._queue.append(job)
                return
            self._free -= 1
        threading.Thread(target=self._work, args=(job,), name="interlock-tool", daemon=True).start()

    def _work(self, job: _Job | None) -> None:
        while job is not None:
            job.run()
            with self._lock:
                job = self._queue.popleft() if self._queue else None
                if job is None:
                    self._free += 1
