"""Turns that have ended are compressed and deleted in time; turns that no worker can run end, if the settings say so."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest

from interlock import Interlock, Settings
from interlock.dispatch.results import result_of
from interlock.dispatch.retention import Retention
from interlock.runtime.turns import NewTurn, TurnFilter, find_all
from interlock.settings import SecretUrl
from interlock.stores.turns_memory import MemoryTurns
from interlock.stores.turns_sqlite import SqliteTurns
from tests.support.parcels import agent

DAY_S = 24 * 60 * 60


@pytest.fixture
async def app(tmp_path: Path) -> Interlock:
    return Interlock(Settings(data_dir=tmp_path, turn_url=SecretUrl(f"sqlite:{tmp_path}/turns.db"), engine="direct"))


def later(tmp_path: Path, seconds: float) -> SqliteTurns:
    """Open the turns with a clock that is ahead."""
    return SqliteTurns(tmp_path / "turns.db", now=lambda: time.time() + seconds)


def accepted(number: int, *, fingerprint: str) -> NewTurn:
    return NewTurn(turn=f"turn-{number}", agent="a", session=f"s{number}", header=b"", fingerprint=fingerprint)


async def test_old_turns_are_compressed_and_read_as_before(app: Interlock, tmp_path: Path):
    await app.run(agent, "box", session="s", turn="t")
    before = [event async for event in app.turns.events("t")]
    store = later(tmp_path, 3600)
    await Retention(store, days=30).tidy()
    assert await store.compact(ended_before=await store.now()) == 0  # all of them are
    assert [event async for event in app.turns.events("t")] == before
    await store.aclose()
    await app.close()


@pytest.mark.parametrize(("days", "kept"), [(None, 1), (2.0, 1), (0.5, 0)])
async def test_turns_are_deleted_after_the_days_of_the_settings(app: Interlock, tmp_path: Path, days: float | None, kept: int):
    await app.run(agent, "box", session="s", turn="t")
    store = later(tmp_path, DAY_S)
    await Retention(store, days=days).tidy()
    assert len(await store.find(TurnFilter())) == kept
    await store.aclose()
    await app.close()


async def test_a_program_that_closes_deletes_old_turns(app: Interlock, tmp_path: Path):
    await app.run(agent, "box", session="s", turn="old")
    await app.close()
    brief = Interlock(Settings(data_dir=tmp_path, turn_url=SecretUrl(f"sqlite:{tmp_path}/turns.db"), engine="direct", turn_days=1e-9))
    await brief.run(agent, "box", session="s", turn="new")
    await brief.close()
    assert await app.turns.store.get("old") is None
    await app.close()


@pytest.mark.parametrize(("unserved_s", "status"), [(None, "ready"), (7200.0, "ready"), (60.0, "error")])
async def test_a_turn_that_no_worker_can_run_waits_or_ends(app: Interlock, tmp_path: Path, unserved_s: float | None, status: str):
    await app.submit(agent, "box", session="s", turn="t")
    store = later(tmp_path, 3600)
    await Retention(store, unserved_s=unserved_s).end_unserved("w", ["other contracts"])
    found = await store.get("t")
    assert found is not None
    assert found.status == status
    if status == "error":
        error = result_of(found).error
        assert error is not None
        assert error.code == found.code == "version_unserved"
        # The session goes on.
        assert (await app.run(agent, "next", session="s")).status == "success"
    await store.aclose()
    await app.close()


async def test_a_turn_that_this_worker_can_run_does_not_end(app: Interlock, tmp_path: Path):
    await app.submit(agent, "box", session="s", turn="t")
    store = later(tmp_path, 3600)
    found = await store.get("t")
    assert found is not None
    await Retention(store, unserved_s=1.0).end_unserved("w", [found.fingerprint])
    found = await store.get("t")
    assert found is not None
    assert found.status == "ready"
    await store.aclose()
    await app.close()


async def test_an_old_turn_that_no_worker_can_run_ends_behind_many_newer_ones():
    times = iter([0.0] * 450)
    store = MemoryTurns(now=lambda: next(times, 3600.0))
    for number in range(450):
        await store.accept(accepted(number, fingerprint="old" if number == 0 else "new"))
    await Retention(store, unserved_s=60.0).end_unserved("w", ["new"])
    assert [turn.turn async for turn in find_all(store, TurnFilter(statuses=("error",)))] == ["turn-0"]


async def test_a_worker_compresses_all_turns_that_are_due(tmp_path: Path):
    store = later(tmp_path, 0)
    for number in range(250):
        await store.accept(accepted(number, fingerprint="f"))
        await store.cancel(f"turn-{number}")
    ahead = later(tmp_path, 3600)
    keeping = asyncio.create_task(Retention(ahead).keep("w", ["f"]))
    with sqlite3.connect(tmp_path / "turns.db") as db:
        async with asyncio.timeout(30):
            while db.execute("SELECT count(*) FROM turns WHERE is_packed = 0").fetchone()[0]:
                await ahead.changed(timeout_s=0.05)
    db.close()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    for one in (store, ahead):
        await one.aclose()


async def test_a_worker_looks_after_the_turns(tmp_path: Path):
    settings = Settings(data_dir=tmp_path, engine="direct", turn_unserved_seconds=1e-9)
    async with Interlock(settings) as app:
        await app.submit(agent, "box", session="s", turn="t")
        await app.turns.store.accept(NewTurn(turn="u", agent="parcels", session="u", header=b"", fingerprint="of another version"))
        working = asyncio.create_task(app.work([agent]))
        async with asyncio.timeout(30):
            while (found := await app.turns.store.get("u")) is None or found.status != "error":
                await app.turns.store.changed(timeout_s=0.1)
            while (found := await app.turns.store.get("t")) is None or found.status != "success":
                await app.turns.store.changed(timeout_s=0.1)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
