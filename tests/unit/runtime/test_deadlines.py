"""Deadlines of calls and turns."""

from __future__ import annotations

import asyncio

import pytest

from interlock.runtime.limits import Deadline
from tests.support.passing import pass_time


async def waits_for_ever(moment: float) -> bool:
    """Wait until the deadline ends it; tell whether it was the deadline."""
    deadline = Deadline(moment)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return deadline.caused_cancellation()
    finally:
        deadline.end()
    return False


async def test_turns_are_ended_in_the_order_of_their_deadlines_and_not_of_their_beginnings():
    loop = asyncio.get_running_loop()
    ended: list[str] = []

    async def turn(name: str, deadline: float) -> None:
        assert await waits_for_ever(deadline)
        ended.append(name)

    await asyncio.gather(turn("late", loop.time() + 0.06), turn("soon", loop.time() + 0.02))
    assert ended == ["soon", "late"]


async def test_a_deadline_that_was_removed_does_not_fire():
    loop = asyncio.get_running_loop()
    over = Deadline(loop.time() + 0.01)
    over.end()
    assert await asyncio.create_task(waits_for_ever(loop.time() + 0.03))
    assert not over.caused_cancellation()


@pytest.mark.usefixtures("time_passes")
async def test_a_grace_counts_from_when_the_deadline_is_noticed():
    loop = asyncio.get_running_loop()
    outer, ended = Deadline(loop.time() + 1, grace=0.05), False
    inner = asyncio.create_task(waits_for_ever(loop.time() + 0.5))
    await asyncio.sleep(0)
    pass_time(60)  # the loop is held up for longer than both have
    try:
        await inner
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        ended = outer.caused_cancellation()
    finally:
        outer.end()
    assert ended
    assert inner.result(), "it was ended by its own deadline"
