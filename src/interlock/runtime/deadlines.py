"""Deadlines of a turn's calls, enforced with one timer for all turns of an event loop.

`asyncio.timeout()` arms a timer for each call; with calls of a microsecond and limits of a minute that is most of the work.
Here a call only notes its deadline, and the timer checks the notes when it fires. A new deadline is nearly always later than
the one that the timer is set for, so the timer is rarely set again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import override

from interlock.runtime.layers import Layer
from interlock.runtime.limits import GRACE

if TYPE_CHECKING:
    from interlock.runtime.call import Call, Target

__all__ = ["CallDeadline", "CloseStream", "Deadline", "Deadlines"]

_RETRY_SECONDS = 0.1
"""After this time a task that did not end when it was cancelled is cancelled again."""


class Deadline:
    """A moment until which a task may wait for something."""

    __slots__ = ("_cancellations", "_grace", "cancelling", "moment", "task", "was_missed")

    def __init__(self, task: asyncio.Task[Any], moment: float, grace: float) -> None:
        self.task = task
        self.moment = moment
        self._grace = grace
        self.was_missed = False
        self._cancellations = 0
        self.cancelling = task.cancelling()

    def expire(self, now: float) -> None:
        """Cancel the task; with a grace period, only when that is over too."""
        if self._grace:
            self.moment, self._grace = now + self._grace, 0.0
            return
        self.was_missed = True
        self._cancellations += 1
        self.moment += _RETRY_SECONDS
        self.task.cancel()

    def pause(self) -> None:
        """Suspend the deadline until the next chunk is waited for."""
        self.moment = math.inf
        if self.was_missed:
            self.uncancel()

    def caused_cancellation(self) -> bool:
        """Return whether a cancellation was caused by this deadline alone."""
        return self.was_missed and self.uncancel() <= self.cancelling

    def uncancel(self) -> int:
        """Withdraw this deadline's cancellations; return how many others the task has."""
        while self._cancellations:
            self._cancellations -= 1
            self.task.uncancel()
        return self.task.cancelling()


class Deadlines:
    """The deadlines of one turn. Once they are closed, none of them can cancel anything."""

    __slots__ = ("_deadlines", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._deadlines: set[Deadline] = set()
        self._timer = _timer_of(loop)
        self._timer.turns.add(self)

    def begin(self, moment: float, *, grace: float = 0.0) -> Deadline:
        """Set a deadline for the current task.

        The seconds of a grace period count from when the missed deadline is noticed, which on a busy machine is long after it:
        inner deadlines that were missed at the same time fire first.
        """
        deadline = Deadline(cast("asyncio.Task[Any]", asyncio.current_task()), moment, grace)
        self._deadlines.add(deadline)
        if moment < self._timer.fires_at:
            self._timer.set(moment)
        return deadline

    def again(self, deadline: Deadline | None, moment: float) -> Deadline:
        """Set a deadline for the next chunk, reusing the last one where that is possible."""
        task = asyncio.current_task()
        if deadline is None or deadline.was_missed or deadline.task is not task:
            if deadline is not None:
                self.end(deadline)
            return self.begin(moment)
        deadline.moment = moment
        deadline.cancelling = deadline.task.cancelling()
        if moment < self._timer.fires_at:
            self._timer.set(moment)
        return deadline

    def end(self, deadline: Deadline) -> None:
        """Remove a deadline."""
        self._deadlines.discard(deadline)
        if deadline.was_missed:
            deadline.uncancel()

    def close(self) -> None:
        """Remove all deadlines of the turn."""
        self._timer.turns.discard(self)

    def check(self, now: float) -> float:
        """Expire the deadlines that were missed; return the next one."""
        for deadline in [deadline for deadline in self._deadlines if deadline.moment <= now]:
            deadline.expire(now)
        return min((deadline.moment for deadline in self._deadlines), default=math.inf)


class LoopTimer:
    """The timer of an event loop. It is set again only for a moment before the one that it is set for."""

    __slots__ = ("_handle", "fires_at", "loop", "turns")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.turns: set[Deadlines] = set()
        self.fires_at = math.inf
        self._handle: asyncio.TimerHandle | None = None

    def set(self, moment: float) -> None:
        """Fire at this moment."""
        if self._handle is not None:
            self._handle.cancel()
        self.fires_at = moment
        self._handle = self.loop.call_at(moment, self._fire)

    def _fire(self) -> None:
        self._handle, self.fires_at = None, math.inf
        now = self.loop.time()
        following = min([turn.check(now) for turn in self.turns], default=math.inf)
        if following < math.inf:
            self.set(following)


_timers: dict[asyncio.AbstractEventLoop, LoopTimer] = {}
"""Keyed by loop, not by thread: a host may move an event loop from one thread to another."""


def _timer_of(loop: asyncio.AbstractEventLoop) -> LoopTimer:
    timer = _timers.get(loop)
    if timer is None:
        for closed in [known for known in list(_timers) if known.is_closed()]:
            _timers.pop(closed, None)
        timer = _timers.setdefault(loop, LoopTimer(loop))
    return timer


class CallDeadline(Layer):
    """Limits how long a call may take, or each chunk of a call that streams."""

    @override
    def applies(self, target: Target) -> bool:
        return target.has_deadline

    @override
    def wait(self, call: Call) -> Awaitable[None] | None:
        turn = call.node.turn
        if turn.deadlines is None:
            return None
        until = turn.budget.call_until()
        if not until:
            return _start_late(call, turn.deadlines)
        call.deadline = turn.deadlines.again(call.deadline, until)
        return None

    @override
    def chunk(self, call: Call, chunk: Any) -> Any:
        if call.deadline is not None:
            call.deadline.pause()
        return chunk

    @override
    def end(self, call: Call) -> None:
        _remove(call)

    @override
    def fail(self, call: Call, error: BaseException) -> BaseException:
        is_late = isinstance(error, asyncio.CancelledError) and call.deadline is not None and call.deadline.caused_cancellation()
        _remove(call)
        return call.late() if is_late else error


class CloseStream(Layer):
    """Closes the source of a stream, within the time that a call may take."""

    @override
    def applies(self, target: Target) -> bool:
        return target.method.is_stream

    @override
    def end(self, call: Call) -> Awaitable[None]:
        return _close(call)

    @override
    async def fail(self, call: Call, error: BaseException) -> BaseException:
        await _close(call)
        return error


async def _close(call: Call) -> None:
    deadlines, budget = call.node.turn.deadlines, call.node.turn.budget
    deadline = None if deadlines is None else deadlines.begin(budget.call_until())
    try:
        if call.source is not None:
            await call.source.aclose()
    except asyncio.CancelledError:
        if deadline is not None and deadline.caused_cancellation():
            raise call.late() from None
        raise
    finally:
        if deadline is not None and deadlines is not None:
            deadlines.end(deadline)


async def _start_late(call: Call, deadlines: Deadlines) -> None:
    """Refuse a call where the turn's time is up, unless it takes no time."""
    # Yield to the event loop so that a node which retries again and again cannot starve other turns.
    await asyncio.sleep(0)
    if not call.target.method.is_instant:
        raise call.late()
    call.deadline = deadlines.again(call.deadline, call.node.turn.budget.now() + GRACE)


def _remove(call: Call) -> None:
    deadline, call.deadline = call.deadline, None
    if deadline is not None and call.node.turn.deadlines is not None:
        call.node.turn.deadlines.end(deadline)
