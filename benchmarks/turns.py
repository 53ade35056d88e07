"""What it costs that a turn is stored: beside one bare transaction, beside LangGraph's checkpointer, and beside a turn in memory."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from figures import Figure, at_least, at_most, ratio
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from sam_by_hand import by_hand_sam

from interlock import Interlock, Settings
from interlock.runtime.events import Event
from interlock.runtime.turns import OPEN, Page, TurnFilter, TurnStore
from interlock_agents.sam.backends import StubBackend

ROOT = Path(__file__).parents[1]
ROUNDS, TURNS = 9, 40
RATE_TURNS, WORKERS = 4000, 2
DISK_TURNS = 100
DISK_KB = {"sam": 2.0, "analyst": 2.0, "desk": 4.0, "puntini": 4.0}
INPUTS = {
    "sam": ["hello there, number {}", "good morning {}", "what is {}?"],
    "analyst": [
        "How many orders are there?",
        "How many customers are there?",
        "How many products are there?",
        "What was the revenue in 2025?",
    ],
    "desk": ["What is {}+3?", "Do you have order {}?", "hello, I am number {}"],
    "puntini": ["Create a project P{0} with task T{0}", "Create a project P{0}"],
}

Turn = Callable[[int], Awaitable[object]]


def _check(is_so: bool, what: str) -> None:  # noqa: FBT001 - as in an assertion
    """Stop where what is measured is not what should be: a failed turn is fast."""
    if not is_so:
        raise RuntimeError(f"It is not so that {what}.")


def _app(url: str, folder: Path, **settings: object) -> Interlock:
    given = {"engine": "direct", "model": "offline", "turn_url": url, "checkpoint_url": "memory:", "data_dir": folder}
    return Interlock(Settings.model_validate({**given, **settings}))


def stored_sam(app: Interlock, name: str) -> Turn:
    async def turn(number: int) -> object:
        result = await app.run("sam", "hello there", turn=f"{name}-{number}")
        _check(result.status == "success", "the turn succeeds")
        return result

    return turn


def remembered_sam(app: Interlock) -> Turn:
    """A turn that is not stored, with its events in memory."""

    async def turn(number: int) -> object:
        events: list[Event] = []
        result = await app.run("sam", "hello there", on_event=events.append)
        _check(result.status == "success", "the turn succeeds")
        return number, events

    return turn


def bare_transaction(path: Path, size: int) -> Turn:
    """One transaction of as many bytes, on a connection that is open."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = wal")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("CREATE TABLE turns (number INTEGER PRIMARY KEY, name TEXT, turn BLOB)")

    written = os.urandom(size)

    async def turn(number: int) -> object:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO turns (name, turn) VALUES (?, ?)", (f"turn-{number}", written))
        db.execute("COMMIT")
        return number

    return turn


async def _bytes_of(store: TurnStore, turn: str) -> int:
    """Return how many bytes a turn has in the store."""
    (found,) = await store.find(TurnFilter(key=turn))
    lines = [*await store.journal(turn), *await store.events(turn)]
    return len(found.header) + len(found.result or b"") + sum(map(len, lines))


async def _rounds(turns: dict[str, Turn]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Measure seconds and CPU seconds a turn, everyone once in every round, so that a slow moment hits all of them."""
    took: dict[str, list[float]] = {name: [] for name in turns}
    cpu: dict[str, list[float]] = {name: [] for name in turns}
    numbers = iter(range(1_000_000))
    for is_measured in (False, *[True] * ROUNDS):
        for name, turn in turns.items():
            gc.collect()
            times: list[float] = []
            began = time.process_time()
            for _ in range(TURNS):
                start = time.perf_counter()
                await turn(next(numbers))
                times.append(time.perf_counter() - start)
            if is_measured:
                cpu[name].append((time.process_time() - began) / TURNS)
                took[name].append(statistics.median(times))
    return took, cpu


async def _one_turn(folder: Path, postgres: str) -> list[Figure]:
    sqlite, server, in_memory = _app(f"sqlite:{folder}/turns.db", folder), _app(postgres, folder), _app("memory:", folder)
    # SqliteSaver is part of LangGraph, so what storing costs is compared on its engine too.
    by_langgraph = _app(f"sqlite:{folder}/turns.db", folder, engine="langgraph")
    await stored_sam(sqlite, "first")(0)
    size = await _bytes_of(sqlite.turns.store, "first-0")
    async with AsyncSqliteSaver.from_conn_string(str(folder / "saver.db")) as saver:
        await saver.setup()
        # As durable as the turn store by default: the saver's own setting would wait for the disk at each commit.
        await saver.conn.execute("PRAGMA synchronous = NORMAL")
        saved, unsaved = by_hand_sam(StubBackend(), checkpointer=saver), by_hand_sam(StubBackend())
        turns: dict[str, Turn] = {
            "one bare transaction": bare_transaction(folder / "bare.db", size),
            "events in memory": remembered_sam(in_memory),
            "stored in SQLite": stored_sam(sqlite, "turn"),
            "stored in PostgreSQL": stored_sam(server, "turn"),
            "stored in SQLite, LangGraph engine": stored_sam(by_langgraph, "by-langgraph"),
            "LangGraph by hand": lambda _: unsaved("hello there"),
            "LangGraph by hand with SqliteSaver": lambda _: saved("hello there"),
        }
        took, cpu = await _rounds(turns)
    for app in (sqlite, server, in_memory, by_langgraph):
        await app.close()
    memory, bare, stored = cpu["events in memory"], took["one bare transaction"], took["stored in SQLite"]
    more = [a - b for a, b in zip(stored, took["events in memory"], strict=True)]
    saver_more = [a - b for a, b in zip(took["LangGraph by hand with SqliteSaver"], took["LangGraph by hand"], strict=True)]
    return [
        *(Figure(f"a turn of sam: {name}", statistics.median(times) * 1e6, "us") for name, times in took.items()),
        Figure("a turn of sam: bytes that are stored", size, "bytes"),
        at_most("stored in SQLite / one bare transaction", ratio(stored, bare), 3),
        Figure("what storing adds / one bare transaction", ratio(more, bare), "x"),
        at_most(
            "stored in SQLite, LangGraph engine / by hand with SqliteSaver",
            ratio(took["stored in SQLite, LangGraph engine"], took["LangGraph by hand with SqliteSaver"]),
            1,
        ),
        at_most("what storing adds / what SqliteSaver adds", ratio(more, saver_more), 1),
        at_most("CPU of a turn: SQLite / events in memory", ratio(cpu["stored in SQLite"], memory), 3),
        at_most("CPU of a turn: PostgreSQL / events in memory", ratio(cpu["stored in PostgreSQL"], memory), 8),
    ]


@contextmanager
def _workers(folder: Path, url: str) -> Generator[None]:
    """Run workers of the command line until the block ends."""
    env = {**os.environ, "INTERLOCK_TURN_URL": url, "INTERLOCK_DATA_DIR": str(folder), "INTERLOCK_ENGINE": "direct"}
    ready = [folder / f"ready-{number}" for number in range(WORKERS)]
    command = [Path(sys.executable).with_name("interlock"), "worker", "sam", "--concurrency", "8", "--ready-file"]
    started = [subprocess.Popen([*command, path], env=env, stderr=subprocess.DEVNULL) for path in ready]  # noqa: S603 - the command is our own
    try:
        while not all(path.exists() for path in ready):
            _check(all(worker.poll() is None for worker in started), "the workers start")
            time.sleep(0.05)
        yield
    finally:
        for worker in started:
            worker.terminate()
        for worker in started:
            worker.wait()


async def _rate(folder: Path, url: str) -> float:
    """Count turns a second that two workers run. All of them are submitted before."""
    app = _app(url, folder)
    async with app:
        store = app.turns.store
        submitted = [app.submit("sam", f"hello {number}", session=f"s{number}", turn=f"queued-{number}") for number in range(RATE_TURNS)]
        await asyncio.gather(*submitted)
        with _workers(folder, url):
            seen = await _counted(store, RATE_TURNS // 10)
            start = time.perf_counter()
            last = await _counted(store, RATE_TURNS)
            seconds = time.perf_counter() - start
        found = [turn for turn in await store.find(TurnFilter(), Page(limit=100_000)) if turn.turn.startswith("queued-")]
        _check([turn.status for turn in found] == ["success"] * RATE_TURNS, "every turn succeeds")
        return (last - seen) / seconds


async def _counted(store: TurnStore, count: int) -> int:
    """Wait until so many turns have ended. They are counted by the clock of who waits, not by times in the store."""
    while True:
        left = len(await store.find(TurnFilter(statuses=OPEN), Page(limit=100_000)))
        if RATE_TURNS - left >= count:
            return RATE_TURNS - left
        await asyncio.sleep(0.1)


async def _disk(folder: Path, agent: str) -> float:
    """Return the bytes that a turn takes on disk, after compaction. Every turn is of another session and says something else."""
    sizes: list[int] = []
    app = _app(f"sqlite:{folder}/{agent}.db", folder)
    async with app:
        for part in range(2):
            for number in range(part * DISK_TURNS, (part + 1) * DISK_TURNS):
                text = INPUTS[agent][number % len(INPUTS[agent])].format(number)
                result = await app.run(agent, text, turn=f"turn-{number}", session=f"s{number}")
                _check(result.status == "success", "the turn succeeds")
            await app.turns.store.compact(ended_before=await app.turns.store.now() + 1, limit=1000)
            with sqlite3.connect(folder / f"{agent}.db") as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                pages, free, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
            sizes.append((pages - free) * size)
    return (sizes[1] - sizes[0]) / DISK_TURNS


@contextmanager
def _postgres() -> Generator[str]:
    """Run the PostgreSQL server of the tests, set up as for use."""
    sys.path.insert(0, str(ROOT))
    from tests.support.postgres import postgres_server  # noqa: PLC0415 - outside of the package

    # With fsync, as a server that promises durability has it; the tests run it without.
    with postgres_server(fsync="on") as server:
        yield server.url


async def measure_turns() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as name, _postgres() as postgres:
        folder = Path(name)
        figures = await _one_turn(folder, postgres)
        figures.append(at_least("2 workers on SQLite", await _rate(folder, f"sqlite:{folder}/rate.db"), 400, "turns/s"))
        figures.append(at_least("2 workers on PostgreSQL", await _rate(folder, postgres), 150, "turns/s"))
        for agent, most in DISK_KB.items():
            figures.append(at_most(f"disk of a turn of {agent}, compressed", await _disk(folder, agent) / 1000, most, "kB"))
    return figures
