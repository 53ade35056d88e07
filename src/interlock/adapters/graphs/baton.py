"""Who may use something that takes one at a time: whoever has the baton."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from interlock.adapters.tools.threads import Threads

__all__ = ["Baton"]

T = TypeVar("T")


class Baton:
    """Goes from one to the next in the order in which they came, from whichever event loop or thread they come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._is_taken = False

    @property
    def is_taken(self) -> bool:
        """Whether somebody has it."""
        return self._is_taken

    async def take(self) -> None:
        """Take it, as soon as it is there."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            place: Future[None] = Future()
            self._waiting.append(place)
        try:
            await asyncio.wrap_future(place)
        except asyncio.CancelledError:
            if not place.cancel():  # it came, and nobody is here to take it
                self.give()
            raise

    def give(self) -> None:
        """Give it to the next who waits."""
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
        """Do some work in a thread that gives the baton back when it is done, also where nobody waits for that any more."""
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
