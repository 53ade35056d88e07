"""A lock that is granted in the order of the requests, across event loops and threads."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from interlock.tools.threads import Threads

__all__ = ["FairLock"]

T = TypeVar("T")


class FairLock:
    """A first-in, first-out lock for tasks of any event loop and for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._is_taken = False

    @property
    def is_taken(self) -> bool:
        """Whether the lock is held."""
        return self._is_taken

    async def take(self) -> None:
        """Acquire the lock."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            place: Future[None] = Future()
            self._waiting.append(place)
        try:
            await asyncio.wrap_future(place)
        except asyncio.CancelledError:
            if not place.cancel():  # it was granted, and the waiter is gone
                self.give()
            raise

    def give(self) -> None:
        """Release the lock to the next waiter."""
        with self._lock:
            while self._waiting:
                place = self._waiting.popleft()
                if place.set_running_or_notify_cancel():
                    break
            else:
                self._is_taken = False
                return
        place.set_result(None)

    async def lend(self, threads: Threads, work: Callable[[], T]) -> T:
        """Run `work` in a thread that releases the lock when it ends, even if the caller was cancelled."""
        begun = threading.Lock()

        def do() -> T:
            if not begun.acquire(blocking=False):
                raise asyncio.CancelledError
            try:
                return work()
            finally:
                self.give()

        try:
            return await threads.run(do)
        finally:
            if begun.acquire(blocking=False):  # its caller left before it had a thread
                self.give()
