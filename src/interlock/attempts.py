"""One attempt at a stored turn: it is run under a lease, and what becomes of it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from pydantic_core import to_json

from interlock.engine import Compiled
from interlock.errors import Fenced, InterlockError, JournalFailed, TurnStopped
from interlock.runtime.journal import Journal
from interlock.runtime.recording import Header
from interlock.runtime.turn import Turn, TurnResult
from interlock.runtime.turns import TurnEnd
from interlock.runtime.worker import Lease

__all__ = ["run_attempt", "seconds_left", "wait_until_done"]

_SAVE_S = 5.0
"""How long a save may still take when its turn is interrupted: its result should say what it has saved."""


def seconds_left(header: Header, lease: Lease) -> float | None:
    """Return what is left of the time of a stored turn, None where it has no limit.

    Its time begins when a worker first claims the turn, and again with a person's answer. It is counted in leases, not by two readings
    of a clock: a clock that is set ahead, or an hour in which no worker runs, does not use it up.
    """
    seconds = header.limits.max_turn_seconds
    return None if seconds is None else max(0.0, seconds - lease.turn.used)


async def run_attempt(
    lease: Lease,
    journal: Journal,
    turn: Turn,
    compiled: Compiled,
    *,
    gives_back: bool,
    before_end: Callable[[TurnResult], Awaitable[None]] | None = None,
) -> TurnResult:
    """Run a claimed turn and store how it ended, or leave it to another attempt. Raises Fenced where another one has it."""
    running = asyncio.create_task(turn.run(compiled))

    def interrupt() -> None:
        if turn.is_saving:
            asyncio.get_running_loop().call_later(_SAVE_S, running.cancel)
        else:
            running.cancel()

    lease.on_failure = interrupt
    if lease.failure is not None:
        interrupt()
    is_caller_cancelled = await wait_until_done(running, interrupt)
    try:
        return await _end(lease, journal, turn, running, gives_back=gives_back, before_end=before_end)
    finally:
        if is_caller_cancelled:
            raise asyncio.CancelledError


async def wait_until_done(task: asyncio.Task[Any], on_cancel: Callable[[], object] = lambda: None) -> bool:
    """Wait for a task that is not cancelled with the one that waits. Return whether that one was, which then calls `on_cancel`."""
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            is_cancelled = True
            on_cancel()
    return is_cancelled


async def _end(
    lease: Lease,
    journal: Journal,
    turn: Turn,
    running: asyncio.Task[TurnResult],
    *,
    gives_back: bool,
    before_end: Callable[[TurnResult], Awaitable[None]] | None,
) -> TurnResult:
    if not running.cancelled():
        result = running.result()
    elif lease.failure is None:
        with suppress(InterlockError, JournalFailed):
            await _leave(lease, journal, turn, gives_back=gives_back)
        raise asyncio.CancelledError
    elif not isinstance(lease.failure, TurnStopped):
        raise lease.failure
    else:
        result = turn.cancelled()
    if isinstance(journal.failure, Fenced):
        raise journal.failure
    if isinstance(journal.failure, TurnStopped):
        result = turn.cancelled()
    elif journal.is_left_open:
        if await _give_back_later(lease, journal):
            raise Fenced(f"Turn '{lease.turn.turn}' was given back: a store that it needs could not be used.")
        # The turn store itself cannot be reached. The turn is open in it: a worker that can reach it resumes the turn.
        return result
    if before_end is not None:
        await before_end(result)
    await lease.end(_turn_end(result, is_suspended=journal.is_suspended), journal.take_pending())
    if lease.listener_error is not None:
        raise lease.listener_error
    return result


async def _leave(lease: Lease, journal: Journal, turn: Turn, *, gives_back: bool) -> None:
    """End a turn that was cancelled here, or let another worker resume it."""
    if gives_back:
        await journal.commit()
        await lease.give_back()
    else:
        await lease.end(_turn_end(turn.cancelled()), journal.take_pending())


_SHORTEST_S, _LONGEST_S = 0.05, 5.0
"""How long a turn waits for a store that cannot be reached: twice as long after each attempt."""


async def _give_back_later(lease: Lease, journal: Journal) -> bool:
    """Let another attempt follow in a while, the later the more there were. Return whether the turn store has taken the turn back."""
    try:
        await asyncio.sleep(min(_LONGEST_S, _SHORTEST_S * 2 ** (lease.turn.attempts - 1)))
    finally:
        is_given_back = False
        with suppress(InterlockError):
            await lease.append(journal.take_pending())
            await lease.give_back()
            is_given_back = True
    return is_given_back


def _turn_end(result: TurnResult, *, is_suspended: bool = False) -> TurnEnd:
    """Return what is stored of a result. An agent may call its reply `waiting`, but only a turn with a question is suspended."""
    status = "success" if result.status == "waiting" and not is_suspended else result.status
    return TurnEnd(status=status, result=to_json(result.to_json()), code=result.error and result.error.code)
