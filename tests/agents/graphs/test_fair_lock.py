from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.tools.threads import Threads
from interlock_agents.puntini.graphs.fair_lock import FairLock


@given(st.lists(st.sampled_from(["use", "leave", "lend", "leave a thread"]), max_size=12))
def test_one_at_a_time_whoever_comes_and_whoever_leaves(comers: list[str]) -> None:
    inside = most = done = 0

    async def come(baton: FairLock, threads: Threads, how: str) -> None:
        nonlocal inside, most, done

        def work() -> None:
            nonlocal inside, most, done
            inside += 1
            most = max(most, inside)
            inside -= 1
            done += 1

        await baton.take()
        if how.startswith("le") and how != "leave":
            await baton.lend(threads, work)
            return
        try:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
        finally:
            inside -= 1
            done += 1
            baton.give()

    async def main() -> None:
        baton, threads = FairLock(), Threads(2)
        tasks = [asyncio.create_task(come(baton, threads, how)) for how in comers]
        await asyncio.sleep(0)
        for task, how in zip(tasks, comers, strict=True):
            if how.startswith("leave"):
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(baton.take(), 5)  # a thread that nobody waits for gives it back too
        assert most <= 1
        assert done >= sum(not how.startswith("leave") for how in comers)
        baton.give()
        assert not baton.is_taken

    asyncio.run(main())


async def test_it_goes_round_in_the_order_in_which_they_came() -> None:
    baton, came = FairLock(), list[int]()

    async def come(number: int) -> None:
        await baton.take()
        came.append(number)
        baton.give()

    await baton.take()
    tasks = [asyncio.create_task(come(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert came == []
    baton.give()
    await asyncio.gather(*tasks)
    assert came == [0, 1, 2, 3, 4]


async def test_it_goes_from_one_event_loop_to_another() -> None:
    baton = FairLock()
    await baton.take()
    waits = threading.Event()

    async def elsewhere() -> bool:
        asyncio.get_running_loop().call_soon(waits.set)
        await baton.take()
        baton.give()
        return True

    other = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(elsewhere())))
    await asyncio.to_thread(waits.wait)
    baton.give()
    assert await other
    assert not baton.is_taken


async def test_work_that_nobody_waits_for_keeps_it_to_its_end() -> None:
    baton, begun, end = FairLock(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        end.wait(10)

    await baton.take()
    lent = asyncio.create_task(baton.lend(Threads(1), work))
    await asyncio.to_thread(begun.wait)
    lent.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lent
    assert baton.is_taken
    end.set()
    await asyncio.wait_for(baton.take(), 10)
