"""Deadlines of many turns, and the one timer that they share."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.runtime.deadlines import Deadlines
from tests.support.passing import pass_time


async def waits_for_ever(watch: Deadlines, deadline: float) -> bool:
    """Wait until the watch ends it; tell whether it was the watch."""
    wait = watch.begin(deadline)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return wait.caused_cancellation()
    finally:
        watch.end(wait)
    return False


class Timers(asyncio.SelectorEventLoop):
    """An event loop that counts its timers."""

    count = 0

    def call_at(self, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        self.count += 1
        return super().call_at(*args, **kwargs)


async def test_turns_are_ended_in_the_order_of_their_deadlines_and_not_of_their_beginnings():
    loop = asyncio.get_running_loop()
    ended: list[str] = []

    async def turn(name: str, deadline: float) -> None:
        assert await waits_for_ever(Deadlines.of(loop), deadline)
        ended.append(name)

    await asyncio.gather(turn("late", loop.time() + 0.06), turn("soon", loop.time() + 0.02))
    assert ended == ["soon", "late"]


async def test_a_deadline_that_was_removed_is_left_alone_by_the_timer_of_the_others():
    loop = asyncio.get_running_loop()
    deadlines = Deadlines.of(loop)
    over = deadlines.begin(loop.time() + 0.01)
    deadlines.end(over)
    assert await asyncio.create_task(waits_for_ever(deadlines, loop.time() + 0.03))
    assert not over.was_missed


def test_turns_one_after_the_other_set_the_timer_once():
    async def many() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(100):
            deadlines = Deadlines.of(loop)
            for _ in range(10):
                deadlines.end(deadlines.begin(loop.time() + 60))

    loop = Timers()
    try:
        loop.run_until_complete(many())
    finally:
        loop.close()
    assert loop.count == 1


@pytest.mark.parametrize("run", [1, 2])
def test_every_event_loop_has_a_timer_of_its_own(run: int):
    del run

    async def one() -> bool:
        loop = asyncio.get_running_loop()
        Deadlines.of(loop).begin(loop.time() + 60)  # left behind: its loop is gone before it is due
        return await asyncio.create_task(waits_for_ever(Deadlines.of(loop), loop.time() + 0.01))

    assert asyncio.run(one())
    assert asyncio.run(one())


@pytest.mark.usefixtures("time_passes")
async def test_a_grace_counts_from_when_the_deadline_is_noticed():
    loop = asyncio.get_running_loop()
    watch = Deadlines.of(loop)
    outer, ended = watch.begin(loop.time() + 1, grace=0.05), False
    inner = asyncio.create_task(waits_for_ever(watch, loop.time() + 0.5))
    await asyncio.sleep(0)
    pass_time(60)  # the loop is held up for longer than both have
    try:
        await inner
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        ended = outer.caused_cancellation()
    finally:
        watch.end(outer)
    assert ended
    assert inner.result(), "it was ended by its own deadline"
