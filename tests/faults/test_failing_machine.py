"""A full disk and a clock that jumps, under workers: what was accepted is finished when the machine works again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.faults.amounts import SEED, SERVER_KILLS
from tests.faults.load import Load
from tests.faults.processes import Fleet, Place, all_turns, check_turns, ended, running_fleet, sqlite_settings, until
from tests.faults.tally import LEASE_S, Log, open_app, set_clock
from tests.support.postgres import NOBODY, PostgresServer, fresh_database

WORKERS = 3
DISK_BYTES = 32 * 1024 * 1024
"""More than the log of a SQLite file grows to before it is written back."""
HOUR_S, DAY_S = 3600.0, 86400.0


@pytest.fixture
def small_disk() -> Generator[Path]:
    """A file system that is soon full. Only root can mount one."""
    with tempfile.TemporaryDirectory(prefix="disk-") as name:
        # PostgreSQL, which does not run as root, gets to it through folders that are open to all.
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "tmpfs", name]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("a file system that can be full cannot be mounted here: it takes root")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)  # noqa: S607 - of the system


@contextlib.contextmanager
def filled(folder: Path) -> Generator[None]:
    """Fill a disk to its last byte."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)
    try:
        yield
    finally:
        ballast.unlink()


@pytest.fixture(params=["sqlite", "postgres", "temporal"])
def small_place(request: pytest.FixtureRequest, small_disk: Path, tmp_path: Path) -> Generator[Place]:
    """Stores on a file system that is soon full: in files, or in a database whose tables are there."""
    if request.param != "postgres":
        place = Place(tmp_path, sqlite_settings(small_disk))
        if request.param == "temporal":
            place.settings.update(dispatcher="temporal", temporal_url=request.getfixturevalue("temporal"))
        yield place
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    os.chown(small_disk, NOBODY, NOBODY)
    server.run(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
    try:
        with fresh_database(server, more="TABLESPACE small") as name:
            url = server.database(name)
            yield Place(tmp_path, {"turn_url": url, "checkpoint_url": url})
    finally:
        server.run("DROP TABLESPACE small")


async def test_turns_go_on_when_a_full_disk_has_room_again(small_place: Place, small_disk: Path):
    random, place = Random(SEED), small_place  # noqa: S311 - a schedule
    with running_fleet(place) as fleet:
        app, log = open_app(place.folder, place.settings), Log(place.folder)
        load = Load(app, random, place.settings)
        async with app:
            await app.turns.store.now()
            for _ in range(WORKERS):
                fleet.start()
            await until(lambda: len(fleet.ready()) == WORKERS)

            async def fill() -> None:
                for _ in range(SERVER_KILLS):
                    await asyncio.sleep(random.uniform(0.5, 2.0))
                    with filled(small_disk):
                        # Sometimes for longer than the leases.
                        await asyncio.sleep(random.uniform(0.5, 1.5) * LEASE_S)

            filling = asyncio.ensure_future(fill())
            await asyncio.gather(filling, load.submit(is_over=filling.done, pause_s=0.2))
            has_ended = await ended(app, timeout_s=60)
            # A turn that could not save its session says so.
            wrong = await check_turns(app, log, load.texts, place, allowed={"store_full"})
            turns = await all_turns(app)
        kinds = dict(Counter(turn.code or turn.status for turn in turns))
        print({"seed": SEED, "full": SERVER_KILLS, "turns": kinds, "refused": load.refused})  # noqa: T201 - the figures
        assert has_ended, f"seed {SEED}: {wrong}"
        assert not wrong, f"seed {SEED}: {wrong}"
        assert not fleet.stderr(), f"seed {SEED}"
        assert all(map(fleet.is_alive, fleet.running)), f"seed {SEED}: a worker has not survived it"
        assert load.refused, f"seed {SEED}: the disk was never full"


@pytest.fixture
def clock(place: Place, request: pytest.FixtureRequest) -> Callable[[float], object]:
    """Sets the clock of the turn store ahead or back: of the machine for a file, or of the database."""
    if place.settings["turn_url"].startswith("sqlite:"):
        return partial(set_clock, place.folder)
    server: PostgresServer = request.getfixturevalue("postgres")
    name: str = request.getfixturevalue("database")

    def set_of_server(seconds: float) -> None:
        body = f"SELECT extract(epoch FROM clock_timestamp())::float8 + {seconds!r}"  # noqa: S608 - the test's own
        server.run(f"CREATE OR REPLACE FUNCTION interlock.clock() RETURNS float8 LANGUAGE sql VOLATILE AS '{body}'", database=name)

    return set_of_server


async def test_turns_go_on_when_the_clock_jumps(place: Place, clock: Callable[[float], object]):
    """The clock is set back and ahead while workers are killed: a lease may seem to last for another hour."""
    random = Random(SEED)  # noqa: S311 - a schedule
    jumps = (DAY_S, -HOUR_S, 0.0, HOUR_S, -DAY_S, 10.0) * max(1, SERVER_KILLS // 4)
    with running_fleet(place) as fleet:
        app, log = open_app(place.folder, place.settings), Log(place.folder)
        load = Load(app, random, place.settings)
        async with app:
            await app.turns.store.now()
            for _ in range(WORKERS):
                fleet.start()
            await until(fleet.ready)
            jumping = asyncio.ensure_future(jump(fleet, random, jumps, clock))
            await asyncio.gather(jumping, load.submit(is_over=jumping.done, pause_s=0.15))
            await asyncio.to_thread(clock, -HOUR_S)
            has_ended = await ended(app, timeout_s=60)
            wrong = await check_turns(app, log, load.texts, place)
            turns = await all_turns(app)
        found = {"seed": SEED, "jumps": len(jumps), "kills": len(fleet.killed), "turns": len(turns)}
        print({**found, "resumed": sum(turn.attempts > 1 for turn in turns)})  # noqa: T201 - the figures
        assert has_ended, f"seed {SEED}: {wrong}"
        assert not wrong, f"seed {SEED}: {wrong}"
        assert not fleet.stderr(), f"seed {SEED}"
        assert any(turn.attempts > 1 for turn in turns), f"seed {SEED}: no turn was under way when its worker was killed"


async def jump(fleet: Fleet, random: Random, jumps: tuple[float, ...], clock: Callable[[float], object]) -> None:
    for seconds in jumps:
        await asyncio.sleep(random.uniform(0.3, 1.0))
        await asyncio.to_thread(clock, seconds)
        await asyncio.sleep(random.uniform(0.0, 0.3))
        await until(fleet.ready)
        fleet.kill(random.choice(fleet.ready()))
        fleet.start()
