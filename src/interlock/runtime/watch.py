"""The watch of a turn: it ends what takes too long, with one timer for all calls of all turns.

asyncio.timeout() would do for each call alone, but arms a timer for each: with calls of a microsecond and limits of a
minute that is most of the work. Here a call only notes its deadline; the timer looks at the notes when it goes off.
A deadline is nearly always later than the one that the timer is set for, so it is hardly ever set.
"""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any, cast

__all__ = ["Wait", "Watch"]

_AGAIN = 0.1  # seconds until something that did not end when it was told to is told again


class Wait:
    """One thing that is waited for: until when, and by which task."""

    __slots__ = ("_grace", "_told", "cancelling", "deadline", "is_over", "task")

    def __init__(self, task: asyncio.Task[Any], deadline: float, grace: float) -> None:
        self.task = task
        self.deadline = deadline
        self._grace = grace
        self.is_over = False
        self._told = 0
        self.cancelling = task.cancelling()

    def end(self, now: float) -> None:
        """Stop waiting, the time being up; with a grace, not before that is over too."""
        if self._grace:
            self.deadline, self._grace = now + self._grace, 0.0
            return
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
    """Ends what takes too long in one turn. Once it is closed, nothing of the turn can be ended any more."""

    __slots__ = ("_alarm", "_waits")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waits: set[Wait] = set()
        self._alarm = _alarm_of(loop)
        self._alarm.watches.add(self)

    def begin(self, deadline: float, *, grace: float = 0.0) -> Wait:
        """Wait for something in the current task.

        What has a grace gives way to what it waits for: its seconds count from when the deadline is noticed, which on a
        busy machine is long after it, so there is time for others to end by themselves.
        """
        wait = Wait(cast("asyncio.Task[Any]", asyncio.current_task()), deadline, grace)
        self._waits.add(wait)
        if deadline < self._alarm.rings:
            self._alarm.set(deadline)
        return wait

    def again(self, wait: Wait | None, deadline: float, task: asyncio.Task[Any] | None) -> Wait:
        """Wait for the next of several things, in the current task."""
        if wait is None or wait.is_over or wait.task is not task:
            if wait is not None:
                self.end(wait)
            return self.begin(deadline)
        wait.deadline = deadline
        wait.cancelling = wait.task.cancelling()
        if deadline < self._alarm.rings:
            self._alarm.set(deadline)
        return wait

    def end(self, wait: Wait) -> None:
        """Forget a wait that has ended."""
        self._waits.discard(wait)
        if wait.is_over:
            wait.settle()

    def close(self) -> None:
        """Stop watching."""
        self._alarm.watches.discard(self)

    def look(self, now: float) -> float:
        """End the waits whose time is up; return when to look again."""
        for wait in [wait for wait in self._waits if wait.deadline <= now]:
            wait.end(now)
        return min((wait.deadline for wait in self._waits), default=math.inf)


class Alarm:
    """The one timer for all turns of an event loop. It is set anew only for a deadline before the one that it is set for."""

    __slots__ = ("_timer", "loop", "rings", "watches")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.watches: set[Watch] = set()
        self.rings = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def set(self, moment: float) -> None:
        """Ring at this moment."""
        if self._timer is not None:
            self._timer.cancel()
        self.rings = moment
        self._timer = self.loop.call_at(moment, self._ring)

    def _ring(self) -> None:
        self._timer, self.rings = None, math.inf
        now = self.loop.time()
        following = min([watch.look(now) for watch in self.watches], default=math.inf)
        if following < math.inf:
            self.set(following)


class _Thread(threading.local):
    """The alarm of the event loop that a thread runs."""

    alarm: Alarm | None = None


_THREAD = _Thread()


def _alarm_of(loop: asyncio.AbstractEventLoop) -> Alarm:
    alarm = _THREAD.alarm
    if alarm is None or alarm.loop is not loop:
        alarm = _THREAD.alarm = Alarm(loop)
    return alarm
