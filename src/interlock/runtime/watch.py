"""The watch of a turn: it ends what takes too long, with one timer for all of its calls.

asyncio.timeout() would do for each call alone, but arms a timer for each: with calls of a microsecond and limits of a
minute that is most of the work. Here a call only notes its deadline; the timer looks at the notes when it goes off.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, cast

__all__ = ["Wait", "Watch"]

_AGAIN = 0.1  # seconds until something that did not end when it was told to is told again


class Wait:
    """One thing that is waited for: until when, and by which task."""

    __slots__ = ("_told", "cancelling", "deadline", "is_over", "task")

    def __init__(self, task: asyncio.Task[Any], deadline: float) -> None:
        self.task = task
        self.deadline = deadline
        self.is_over = False
        self._told = 0
        self.cancelling = task.cancelling()

    def end(self) -> None:
        """Stop waiting: the time is up."""
        self.is_over = True
        self._told += 1
        self.deadline += _AGAIN
        self.task.cancel()

    def rest(self) -> None:
        """Wait for nothing, until there is something to wait for again."""
        self.deadline = math.inf
        if self.is_over:
            self.settle()

    def was_ended(self) -> bool:
        """Tell whether a cancellation is this wait's doing and nobody else's."""
        return self.is_over and self.settle() <= self.cancelling

    def settle(self) -> int:
        """Take back what this wait asked of the task; return how many others want it to end."""
        while self._told:
            self._told -= 1
            self.task.uncancel()
        return self.task.cancelling()


class Watch:
    """Ends waits whose time is up."""

    __slots__ = ("_armed", "_loop", "_timer", "_waits")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waits: set[Wait] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._armed = math.inf

    def begin(self, deadline: float) -> Wait:
        """Wait for something in the current task."""
        wait = Wait(cast("asyncio.Task[Any]", asyncio.current_task()), deadline)
        self._waits.add(wait)
        if (self._timer is None or deadline < self._timer.when()) and deadline < math.inf:
            self._arm(deadline)
        return wait

    def again(self, wait: Wait | None, deadline: float, task: asyncio.Task[Any] | None) -> Wait:
        """Wait for the next of several things, in the current task."""
        if wait is None or wait.is_over or wait.task is not task:
            if wait is not None:
                self.end(wait)
            return self.begin(deadline)
        wait.deadline = deadline
        wait.cancelling = wait.task.cancelling()
        if self._timer is None or deadline < self._armed:
            self._arm(deadline)
        return wait

    def end(self, wait: Wait) -> None:
        """Forget a wait that has ended."""
        self._waits.discard(wait)
        if wait.is_over:
            wait.settle()

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, deadline: float) -> None:
        self.close()
        self._armed = deadline
        self._timer = self._loop.call_at(deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        for wait in [wait for wait in self._waits if wait.deadline <= now]:
            wait.end()
        following = min((wait.deadline for wait in self._waits), default=math.inf)
        if following < math.inf:
            self._arm(following)
