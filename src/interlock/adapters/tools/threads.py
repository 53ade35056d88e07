"""Threads for work that blocks."""

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
    """Work, and who waits for it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.result: object = None
        self.raised: BaseException | None = None
        self.is_left = False

    def do(self) -> None:
        if self.is_left:
            return
        try:
            self.result = self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001 - also sys.exit() in somebody's function: whoever waits must hear of it
            self.raised = error
        with suppress(RuntimeError):  # the loop has closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Threads:
    """Does a few things at once beside the loop, in threads that nobody waits for when the process ends.

    A thread cannot be stopped. In asyncio's own pool one that hangs would keep `asyncio.run` from returning, and take the place of
    everybody else's work; here it takes one place of whoever started it.
    """

    def __init__(self, at_once: int = 8) -> None:
        self._free = at_once
        self._waiting: deque[_Job] = deque()
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Do some work and wait for it. Work that is still waiting for a thread when its caller leaves is never begun."""
        job = _Job(work)
        try:
            self._begin(job)
            await job.ended
        finally:
            job.is_left = True
        if job.raised is not None:
            raise job.raised
        return cast("T", job.result)

    def _begin(self, job: _Job) -> None:
        with self._lock:
            if not self._free:
                self._waiting.append(job)
                return
            self._free -= 1
        threading.Thread(target=self._work, args=(job,), name="interlock-tool", daemon=True).start()

    def _work(self, job: _Job | None) -> None:
        while job is not None:
            job.do()
            with self._lock:
                job = self._waiting.popleft() if self._waiting else None
                if job is None:
                    self._free += 1
