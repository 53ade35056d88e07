"""Deadlines of a turn's calls, enforced with one timer for all turns of an event loop.

`asyncio.timeout()` arms a timer for each call; with calls of a microsecond and limits of a minute that is most of the work.
Here a call only notes its deadline, and the timer checks the notes when it fires. A new deadline is nearly always later than
the one that the timer is set for, so the timer is rarely set again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from typing_extensions import override

from interlock.runtime.layers import Layer
from interlock.runtime.limits import GRACE

if TYPE_CHECKING:
    from interlock.runtime.call import Call, Target
    from interlock.runtime.context import TurnFeatures

__all__ = ["CallDeadline", "ChunkDeadline", "CloseStream", "Deadline", "Deadlines"]

Task: TypeAlias = asyncio.Task[Any]

_GRACE_ROUNDS = 25
"""A grace period ends only when the event loop has come round to it this often: a process that stands still in it loses nothing."""

_RETRY_SECONDS = 0.1
"""After this time a task that did not end when it was cancelled is cancelled again."""


class Deadline:
    """A moment until which a task may wait for something."""

    __slots__ = ("_cancellations", "_round_seconds", "_rounds_left", "cancelling", "moment", "task", "was_missed")

    def __init__(self, task: Task, moment: float, grace: float) -> None:
        self.task = task
        self.moment = moment
        self._round_seconds = grace / _GRACE_ROUNDS
        self._rounds_left = _GRACE_ROUNDS if grace else 0
        self.was_missed = False
        self._cancellations = 0
        self.cancelling = task.cancelling()

    def expire(self, now: float) -> None:
        """Cancel the task; with a grace period, only when that is over too."""
        if self._rounds_left:
            self._rounds_left -= 1
            self.moment = now + self._round_seconds
            return
        self.was_missed = True
        self._cancellations += 1
        self.moment += _RETRY_SECONDS
        self.task.cancel()

    def start_grace(self, now: float) -> None:
        """Start the grace period again."""
        self._rounds_left = _GRACE_ROUNDS
        self.expire(now)

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
    """The deadlines of all turns of one event loop, with the timer that they share.

    The timer is set again only for a moment before the one that it is set for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._deadlines: set[Deadline] = set()
        self._fires_at = math.inf
        self._handle: asyncio.TimerHandle | None = None

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> Deadlines:
        """Return the deadlines of an event loop."""
        found = _loops.get(loop)
        if found is None:
            for closed in [known for known in list(_loops) if known.is_closed()]:
                _loops.pop(closed, None)
            found = _loops.setdefault(loop, Deadlines(loop))
        return found

    def begin(self, moment: float, task: Task | None = None, *, grace: float = 0.0) -> Deadline:
        """Set a deadline for a task, the current one where none is given.

        The seconds of a grace period count from when the missed deadline is noticed, which on a busy machine is long after it:
        inner deadlines that were missed at the same time fire first.
        """
        deadline = Deadline(task or _current_task(), moment, grace)
        self._deadlines.add(deadline)
        if moment < self._fires_at:
            self._set_timer(moment)
        return deadline

    def move(self, deadline: Deadline, moment: float, task: Task | None) -> bool:
        """Use a deadline again for the next chunk. Return False where it was missed, or is another task's."""
        if deadline.was_missed or deadline.task is not task:
            return False
        deadline.moment, deadline.cancelling = moment, deadline.task.cancelling()
        if moment < self._fires_at:
            self._set_timer(moment)
        return True

    def end(self, deadline: Deadline) -> None:
        """Remove a deadline. It cancels nothing from now on."""
        self._deadlines.discard(deadline)
        if deadline.was_missed:
            deadline.uncancel()

    def _set_timer(self, moment: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._fires_at = moment
        self._handle = self._loop.call_at(moment, self._fire)

    def _fire(self) -> None:
        self._handle, self._fires_at = None, math.inf
        now = self._loop.time()
        for deadline in [deadline for deadline in self._deadlines if deadline.moment <= now]:
            deadline.expire(now)
        following = min((deadline.moment for deadline in self._deadlines), default=math.inf)
        if following < math.inf:
            self._set_timer(following)


def _current_task() -> Task:
    return cast("Task", asyncio.current_task())


_loops: dict[asyncio.AbstractEventLoop, Deadlines] = {}
"""Keyed by loop, not by thread: a host may move an event loop from one thread to another."""


class CallDeadline(Layer):
    """Limits how long a call may take."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return turn.deadlines and target.has_deadline and not target.method.is_stream

    @override
    def wait(self, call: Call) -> Awaitable[None] | None:
        turn = call.node.turn
        until = turn.budget.call_until()
        if not until:
            return _wait_late(call)
        call.deadline = turn.deadlines.begin(until, call.task)
        return None

    @override
    def end(self, call: Call) -> None:
        _remove(call)

    @override
    def fail(self, call: Call, error: BaseException) -> BaseException:
        is_late = isinstance(error, asyncio.CancelledError) and call.deadline is not None and call.deadline.caused_cancellation()
        _remove(call)
        return call.late() if is_late else error


class ChunkDeadline(CallDeadline):
    """Limits how long a stream may take for each chunk. Between two chunks no time counts."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return turn.deadlines and target.has_deadline and target.method.is_stream

    @override
    def wait(self, call: Call) -> Awaitable[None] | None:
        deadline, turn = call.deadline, call.node.turn
        until = turn.budget.call_until()
        if until and deadline is not None and turn.deadlines.move(deadline, until, call.task):
            return None
        _remove(call)
        return super().wait(call)

    @override
    def chunk(self, call: Call, chunk: Any) -> Any:
        if call.deadline is not None:  # pragma: no branch - `wait` has set it
            call.deadline.pause()
        return chunk


class CloseStream(Layer):
    """Closes the source of a stream, within the time that a call may take."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return target.method.is_stream

    @override
    async def end(self, call: Call) -> None:
        turn = call.node.turn
        deadline = turn.deadlines.begin(turn.budget.call_until())
        try:
            if call.source is not None:
                await call.source.aclose()
        except asyncio.CancelledError:
            if deadline.caused_cancellation():
                raise call.late() from None
            raise
        finally:
            turn.deadlines.end(deadline)

    @override
    async def fail(self, call: Call, error: BaseException) -> BaseException:
        await self.end(call)
        return error


async def _wait_late(call: Call) -> None:
    """Refuse a call where the turn's time is up, unless it takes no time."""
    # Yield to the event loop so that a node which retries again and again cannot starve other turns.
    await asyncio.sleep(0)
    if not call.target.method.is_instant:
        raise call.late()
    turn = call.node.turn
    call.deadline = turn.deadlines.begin(turn.budget.now(), call.task, grace=GRACE)


def _remove(call: Call) -> None:
    deadline, call.deadline = call.deadline, None
    if deadline is not None:
        call.node.turn.deadlines.end(deadline)
