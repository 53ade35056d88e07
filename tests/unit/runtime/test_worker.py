"""A lease: nothing is shown that is not stored, and a turn that was taken over writes and shows nothing."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from dataclasses import replace

import pytest

from interlock.errors import Fenced, StoreUnavailable, TurnStopped
from interlock.runtime.events import Event
from interlock.runtime.journal import Entry
from interlock.runtime.turns import Claim, NewTurn, Verdict, Writes
from interlock.runtime.worker import Lease, Worker, decode_entry, encode_entry
from interlock.stores.turns_memory import MemoryTurns


class SlowTurns(MemoryTurns):
    """A store whose writes wait until they may be made."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()
        self.has_begun = asyncio.Event()

    async def write(self, turn: str, epoch: int, writes: Writes) -> Verdict:
        self.has_begun.set()
        await self.may_write.wait()
        return await super().write(turn, epoch, writes)


def event(number: int) -> Event:
    return {
        "event": "on_custom_event",
        "name": "n",
        "run_id": f"{number}",
        "parent_ids": [],
        "tags": [],
        "metadata": {},
        "data": {"number": number},
    }


def entry(sequence: int) -> Entry:
    return Entry(turn="t", sequence=sequence, node="n", capability="C", method="m", key=str(sequence), result=sequence)


async def claimed(store: MemoryTurns, worker: str = "w1", *, lease_s: float = 3.0) -> Claim:
    new = NewTurn(turn="t", agent="agent", session="s", header=b"", fingerprint="f")
    claim = (await store.accept(new, worker=worker, lease_s=lease_s)).claim
    assert claim is not None
    return claim


async def test_an_event_is_shown_after_it_was_stored():
    store, shown = SlowTurns(), list[Event]()
    lease = Lease(store, await claimed(store), listener=shown.append)
    lease.on_event(event(1))
    writing = asyncio.ensure_future(lease.append([entry(1)]))
    await store.has_begun.wait()
    assert shown == []
    store.may_write.set()
    await writing
    assert [one["data"] for one in shown] == [{"number": 1}]
    assert len(await store.events("t")) == 1


async def test_entries_whose_writers_were_cancelled_one_after_the_other_are_stored_once():
    store = SlowTurns()
    lease = Lease(store, await claimed(store))
    entries = [entry(number) for number in (1, 2, 3)]
    store.may_write.set()
    for count in (1, 2, 3):
        store.has_begun.clear()
        writing = asyncio.create_task(lease.append(entries[:count]))
        await store.has_begun.wait()
        if count < 3:
            writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    assert [decode_entry(line) for line in await store.journal("t")] == entries


async def test_a_write_that_fails_after_its_caller_was_cancelled_is_not_reported_as_a_fault_of_the_program():
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    store = SlowTurns()
    lease = Lease(store, await claimed(store, lease_s=-1))
    writing = asyncio.create_task(lease.append([entry(1)]))
    await store.has_begun.wait()
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert len(await store.claim("w2", fingerprints=["f"])) == 1
    failed = asyncio.Event()
    lease.on_failure = failed.set
    store.may_write.set()
    await failed.wait()
    del writing
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()
    assert reported == []
    assert isinstance(lease.failure, Fenced)


async def test_a_turn_that_was_taken_over_stores_and_shows_nothing():
    store, shown = MemoryTurns(), list[Event]()
    lease = Lease(store, await claimed(store, lease_s=-1), listener=shown.append)
    assert len(await store.claim("w2", fingerprints=["f"])) == 1
    lease.on_event(event(1))
    with pytest.raises(Fenced):
        await lease.append([entry(1)])
    assert (shown, await store.events("t"), await store.journal("t")) == ([], [], [])


async def test_a_turn_that_is_wanted_to_end_is_interrupted_by_its_next_write():
    store = MemoryTurns()
    lease = Lease(store, await claimed(store))
    interrupted: list[bool] = []
    lease.on_failure = lambda: interrupted.append(True)
    await store.cancel("t")
    with pytest.raises(TurnStopped):
        await lease.append([entry(1)])
    assert interrupted == [True]
    assert len(await store.journal("t")) == 1


async def test_what_a_store_raises_while_events_wait_ends_the_turn_with_a_typed_error():
    class BrokenTurns(MemoryTurns):
        async def write(self, turn: str, epoch: int, writes: Writes) -> Verdict:
            raise OSError("the disk is gone")

    store = BrokenTurns()
    lease = Lease(store, await claimed(store))
    interrupted = asyncio.Event()
    lease.on_failure = interrupted.set
    lease.on_event(event(1))
    await asyncio.wait_for(interrupted.wait(), 10)
    assert isinstance(lease.failure, StoreUnavailable)
    # What was interrupted writes nothing more, whatever the store would say.
    with pytest.raises(StoreUnavailable):
        await lease.append([entry(1)])


async def test_a_turn_that_was_taken_over_is_interrupted_when_its_events_are_stored():
    store = MemoryTurns()
    lease = Lease(store, await claimed(store, lease_s=-1))
    assert len(await store.claim("w2", fingerprints=["f"])) == 1
    interrupted = asyncio.Event()
    lease.on_failure = interrupted.set
    lease.on_event(event(1))
    await asyncio.wait_for(interrupted.wait(), 10)
    assert isinstance(lease.failure, Fenced)


async def test_a_store_that_cannot_renew_leases_does_not_end_the_turns(caplog: pytest.LogCaptureFixture):
    class UnreachableTurns(MemoryTurns):
        is_asked = asyncio.Event()

        async def renew(self, worker: str, turns: Mapping[str, int], *, lease_s: float = 3.0) -> dict[str, Verdict]:
            self.is_asked.set()
            raise StoreUnavailable

    store = UnreachableTurns()
    worker = Worker(store, name="w1", lease_s=0.03)
    lease = Lease(store, await claimed(store))
    async with worker.holding(lease):
        await asyncio.wait_for(store.is_asked.wait(), 10)
        await asyncio.sleep(0)
    assert lease.failure is None
    assert "leases are not renewed" in caplog.text


def test_an_entry_with_half_of_a_surrogate_pair_is_stored_and_read_back():
    written = replace(entry(1), result="\ud800")
    assert decode_entry(encode_entry(written)) == written
