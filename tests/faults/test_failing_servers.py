"""Servers that are killed under workers: what was accepted before is finished after they are back, and nothing is repeated."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from interlock.runtime.turns import Page, TurnFilter
from tests.faults.amounts import SEED, SERVER_KILLS
from tests.faults.load import Load
from tests.faults.processes import Place, all_turns, check_turns, ended, running_fleet, sqlite_settings, until
from tests.faults.tally import Log, open_app
from tests.support.postgres import fresh_database, postgres_server
from tests.support.temporal import TemporalServer

WORKERS = 3


async def kill_under_load(place: Place, stop: Callable[[], object], start: Callable[[], object]) -> None:
    """Kill a server again and again while turns are submitted and run; check the turns."""
    random = Random(SEED)  # noqa: S311 - a schedule
    with running_fleet(place) as fleet:
        app, log = open_app(place.folder, place.settings), Log(place.folder)
        load = Load(app, random, place.settings)
        async with app:
            await app.turns.store.now()
            for _ in range(WORKERS):
                fleet.start()
            await until(lambda: len(fleet.ready()) == WORKERS)

            async def kill_server() -> None:
                for _ in range(SERVER_KILLS):
                    await asyncio.sleep(random.uniform(0.5, 2.0))
                    while not await app.turns.store.find(TurnFilter(statuses=("running",)), Page(limit=1)):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    await asyncio.to_thread(stop)
                    await asyncio.sleep(random.uniform(0.0, 1.5))
                    await asyncio.to_thread(start)

            killing = asyncio.ensure_future(kill_server())
            await asyncio.gather(killing, load.submit(is_over=killing.done, pause_s=0.15))
            has_ended = await ended(app, timeout_s=60)
            # A turn that could not read or save its session says so.
            wrong = await check_turns(app, log, load.texts, place, allowed={"store_unavailable"})
            turns = await all_turns(app)
        kinds = dict(Counter(f"{turn.agent} {turn.code or turn.status}" for turn in turns))
        print({"seed": SEED, "kills": SERVER_KILLS, "turns": kinds, "refused": load.refused})  # noqa: T201 - the figures
        assert {turn.agent for turn in turns} == {"sam", "desk", "analyst", "puntini", "tally"}
        assert has_ended, f"seed {SEED}: {wrong}"
        assert not wrong, f"seed {SEED}: {wrong}"
        assert not fleet.stderr(), f"seed {SEED}"
        assert all(map(fleet.is_alive, fleet.running)), f"seed {SEED}: a worker has not survived it"


async def test_turns_survive_the_death_of_their_database(tmp_path: Path, shared: dict[str, str]):
    with postgres_server() as server, fresh_database(server) as name:
        url = server.database(name)
        await kill_under_load(Place(tmp_path, {**shared, "turn_url": url, "checkpoint_url": url}), server.stop, server.start)


async def test_turns_survive_the_death_of_the_queue(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, shared: dict[str, str]):
    server = TemporalServer(tmp_path_factory.mktemp("temporal"))
    server.start()
    try:
        place = Place(tmp_path, {**shared, **sqlite_settings(tmp_path), "dispatcher": "temporal", "temporal_url": server.address})
        await kill_under_load(place, lambda: server.stop(signal.SIGKILL), server.start)
    finally:
        server.stop()
