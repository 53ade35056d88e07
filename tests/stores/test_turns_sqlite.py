"""The turn store in a SQLite file: group commit, several processes, and processes that are killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import SessionBusy, SettingsInvalid, StateUnstorable, StoreCorrupt, StoreFull, StoreUnavailable
from interlock.runtime.turns import TurnFilter, Writes
from interlock.stores import turns_sqlite_statements, turns_sqlite_transactions
from interlock.stores.turns import open_turns
from interlock.stores.turns_memory import MemoryTurns
from interlock.stores.turns_sqlite import SqliteTurns
from tests.stores.turning import NOTHING, OVER_S, SUCCESS, a_turn

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "turns.db"


@pytest.fixture
async def store(path: Path) -> AsyncGenerator[SqliteTurns]:
    opened = SqliteTurns(path)
    yield opened
    await opened.aclose()


def run(path: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute(statement).fetchall()
        connection.commit()
        return rows
    finally:
        connection.close()


# The file


async def test_the_file_and_its_folder_are_for_the_owner_only(store: SqliteTurns, path: Path):
    await store.accept(a_turn())
    assert [os.stat(place).st_mode & 0o777 for place in (path, path.parent)] == [0o600, 0o700]  # noqa: PTH116 - as good
    assert run(path, "PRAGMA journal_mode") == [("wal",)]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("PRAGMA user_version = 4", "newer"),
        ("PRAGMA user_version = 2", "before its first release"),
        ("PRAGMA application_id = 1", "not a file of turns"),
    ],
)
async def test_a_file_of_a_newer_version_or_of_another_program_is_left_as_it_is(path: Path, statement: str, says: str):
    first = SqliteTurns(path)
    await first.accept(a_turn("t"))
    await first.aclose()
    run(path, statement)
    second = SqliteTurns(path)
    with pytest.raises(StoreCorrupt, match=says):
        await second.accept(a_turn("u"))
    with pytest.raises(StoreCorrupt, match=says):
        await second.get("t")
    await second.aclose()
    assert run(path, "SELECT turn FROM turns") == [("t",)]


def test_a_file_that_is_no_database_is_left_as_it_is(path: Path):
    async def use() -> None:
        store = SqliteTurns(path)
        with pytest.raises(StoreCorrupt):
            await store.accept(a_turn())
        await store.aclose()

    path.parent.mkdir()
    path.write_bytes(b"some notes" * 100)
    asyncio.run(use())
    assert path.read_bytes() == b"some notes" * 100


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path):
    (tmp_path / "file").touch()
    store = SqliteTurns(tmp_path / "file" / "turns.db")
    for call in (store.accept(a_turn()), store.get("t")):
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            await call
    await store.aclose()


async def test_a_deleted_file_is_made_again_instead_of_written_to(store: SqliteTurns, path: Path):
    await store.accept(a_turn("t"))
    for name in ("turns.db", "turns.db-wal", "turns.db-shm"):
        (path.parent / name).unlink(missing_ok=True)
    await store.accept(a_turn("u"))
    assert [turn.turn for turn in await store.find(TurnFilter())] == ["u"]
    assert run(path, "SELECT turn FROM turns") == [("u",)]


async def test_it_can_be_used_again_after_it_was_closed(store: SqliteTurns):
    await store.accept(a_turn("t"))
    await store.aclose()
    await store.aclose()
    assert await store.get("t") is not None
    await store.accept(a_turn("u"))


async def test_text_that_is_not_text_is_refused_alone(store: SqliteTurns):
    answers = await asyncio.gather(
        store.accept(a_turn("t")), store.accept(a_turn("\ud800")), store.accept(a_turn("u")), return_exceptions=True
    )
    assert isinstance(answers[1], StateUnstorable)
    assert {turn.turn for turn in await store.find(TurnFilter())} == {"t", "u"}


@pytest.mark.parametrize(("level", "number"), [("NORMAL", 1), ("FULL", 2)])
async def test_how_safe_a_commit_is_against_a_power_cut_can_be_chosen(path: Path, level: str, number: int, monkeypatch: pytest.MonkeyPatch):
    levels: list[int] = []

    def look(db: sqlite3.Connection, *_: object) -> int:
        levels.append(db.execute("PRAGMA synchronous").fetchone()[0])
        return 0

    monkeypatch.setattr(turns_sqlite_transactions, "prune", look)
    store = SqliteTurns(path, synchronous="FULL" if level == "FULL" else "NORMAL")
    await store.prune(ended_before=0)
    await store.aclose()
    assert levels == [number]


# Group commit


async def test_what_arrives_during_a_commit_goes_into_the_next_one_together(store: SqliteTurns, path: Path):
    await store.accept(a_turn())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = [asyncio.create_task(store.accept(a_turn(f"t{number}"))) for number in range(50)]
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in waiting)
    (before,) = other.execute("PRAGMA data_version").fetchone()
    other.execute("COMMIT")
    await asyncio.gather(*waiting)
    (after,) = other.execute("PRAGMA data_version").fetchone()
    other.close()
    # The first one may have been on its way alone.
    assert 1 <= after - before <= 2


async def test_a_job_that_fails_leaves_the_others_of_its_commit_as_they_are(store: SqliteTurns, path: Path):
    await store.accept(a_turn("first"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    news = [a_turn(f"t{number}", session="s") for number in range(10)]
    # It is refused after it has taken a position of the session.
    news.insert(5, a_turn("bad", session="s", policy="reject"))
    calls = [asyncio.create_task(store.accept(new)) for new in news]
    await asyncio.sleep(0.05)
    other.execute("COMMIT")
    other.close()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert [type(error) for error in refused] == [SessionBusy]
    found = await store.find(TurnFilter(session="s"))
    assert [(turn.turn, turn.position) for turn in reversed(found)] == [(f"t{number}", number + 1) for number in range(10)]


async def test_a_caller_that_is_cancelled_does_not_stop_its_job(store: SqliteTurns, path: Path):
    await store.accept(a_turn())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    call = asyncio.create_task(store.accept(a_turn("t")))
    await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    other.execute("COMMIT")
    other.close()
    await store.accept(a_turn())
    assert await store.get("t") is not None


async def test_a_file_that_stays_locked_is_unavailable_and_works_again_later(path: Path):
    store = SqliteTurns(path, timeout_s=0.1)
    await store.accept(a_turn("t"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="SQLITE_BUSY"):
        await store.accept(a_turn("u"))
    assert await store.get("t") is not None
    other.execute("COMMIT")
    other.close()
    await store.accept(a_turn("u"))
    await store.aclose()


async def test_a_full_disk_is_reported_and_what_was_acknowledged_stays(path: Path, monkeypatch: pytest.MonkeyPatch):
    connect = sqlite3.connect

    def cramped(*given: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(*given, **more)
        connection.execute("PRAGMA max_page_count = 60").close()
        return connection

    store = SqliteTurns(path)
    acknowledged: set[str] = set()
    refused: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", cramped)
        for part in range(5):
            news = [a_turn(f"{part}-{number}", header=b"x" * 5000 * number) for number in range(6)]
            answers = await asyncio.gather(*(store.accept(new) for new in news), return_exceptions=True)
            refused += [answer for answer in answers if isinstance(answer, Exception)]
            acknowledged |= {answer.turn.turn for answer in answers if not isinstance(answer, BaseException)}
        await store.aclose()
    assert {type(error) for error in refused} == {StoreFull}
    assert acknowledged
    assert {turn.turn for turn in await store.find(TurnFilter())} == acknowledged
    assert (await store.accept(a_turn("later", header=b"x" * 20_000))).is_new
    await store.aclose()


async def test_two_stores_on_one_file_race_for_a_turn_and_exactly_one_wins(path: Path):
    stores = [SqliteTurns(path) for _ in range(4)]
    for number in range(25):
        await stores[0].accept(a_turn(f"t{number}"))
        claims = await asyncio.gather(*(store.claim(f"w{place}", fingerprints=["f1"], lease_s=60) for place, store in enumerate(stores)))
        assert sum(len(one) for one in claims) == 1
    for store in stores:
        await store.aclose()


async def test_a_change_by_another_store_is_noticed(path: Path):
    first, second = SqliteTurns(path), SqliteTurns(path)
    async with asyncio.timeout(20):
        seen = await first.changed(timeout_s=0.1)
        for number in range(3):
            following = asyncio.create_task(until(first, f"t{number}", seen))
            await asyncio.sleep(0.05 * number)
            await second.accept(a_turn(f"t{number}"))
            seen = await following
    for store in (first, second):
        await store.aclose()


async def test_no_call_reads_the_whole_table(store: SqliteTurns, path: Path):
    await store.accept(a_turn())
    statements = [
        turns_sqlite_statements.CAN_CLAIM,
        f"{turns_sqlite_statements.FIND_EXPIRED} ORDER BY lease_until, number",
        f"{turns_sqlite_statements.FIND_READY} ORDER BY startable, number LIMIT 1",
        *(
            getattr(turns_sqlite_statements, name)
            for name in (
                "NEXT_READY",
                "OLD",
                "UNPACKED",
                "OPEN_OF_PLACE",
                "BY_KEY",
                "HELD",
                "EVENTS",
                "JOURNAL",
                "CONTENTS",
                "DICTIONARY",
                "SAMPLES",
            )
        ),
    ]
    connection = sqlite3.connect(path)
    for statement in statements:
        values: Any = {"now": 1, "latest": 5, "fingerprints": "[]"} if ":now" in statement else (1,) * statement.count("?")
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        # The indexes of ready and of running turns have only these in them.
        few = ("json_each", "CONSTANT", "turns_ready", "turns_leased")
        assert not [step for step in plan if step.startswith("SCAN") and not any(name in step for name in few)], statement
    connection.close()


async def until(store: SqliteTurns, turn: str, seen: int) -> int:
    while await store.get(turn) is None:
        seen = await store.changed(timeout_s=60, since=seen)
    return seen


# Processes

WRITER = """
import asyncio, sys
from pathlib import Path
from interlock.runtime.turns import NewTurn, TurnEnd, Writes
from interlock.stores.turns_sqlite import SqliteTurns

async def main(path, name):
    store = SqliteTurns(Path(path), timeout_s=60)
    async def turns(place):
        for number in range(1_000_000):
            turn = f"{name}-{place}-{number}"
            new = NewTurn(turn=turn, agent="a", session=f"{name}-{place}", header=b"h", fingerprint="f1")
            await store.accept(new, worker=name, lease_s=60)
            print("accepted", turn, flush=True)
            await store.write(turn, 1, Writes(entries=[b"1", b"2"], events=[turn.encode()]))
            print("wrote", turn, flush=True)
            end = TurnEnd(status="success", result=b"{}", state=turn.encode())
            await store.end(turn, 1, end, Writes(events=[b"end"], first_event=1))
            print("ended", turn, flush=True)
    await asyncio.gather(*(turns(place) for place in range(3)))

asyncio.run(main(*sys.argv[1:]))
"""


def writer(path: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE, text=True, cwd=ROOT)


async def test_what_was_acknowledged_is_there_after_a_kill_at_any_moment(path: Path):
    """Two processes write to one file and are killed, again and again."""
    seed = random.randrange(2**32)  # noqa: S311 - not a secret
    print("seed", seed)  # noqa: T201 - so that a failure can be repeated
    moments = random.Random(seed)  # noqa: S311 - likewise
    said: dict[str, set[str]] = {"accepted": set(), "wrote": set(), "ended": set()}
    for kill in range(15):
        writers = [writer(path, f"p{kill}{place}") for place in "ab"]
        for process in writers:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(moments.uniform(0, 0.05))  # noqa: ASYNC251 - no other task runs
        for process in writers:
            os.kill(process.pid, signal.SIGKILL)
        for process in writers:
            out, _ = process.communicate()
            # The last line may be cut off by the kill.
            for line in out.split("\n")[:-1]:
                what, turn = line.split()
                said[what].add(turn)
    assert len(said["ended"]) > 15
    store = SqliteTurns(path)
    assert run(path, "PRAGMA integrity_check") == [("ok",)]
    for turn in said["accepted"]:
        assert await store.get(turn) is not None
    for turn in said["wrote"]:
        assert await store.journal(turn) == [b"1", b"2"]
    for turn in said["ended"]:
        ended = await store.get(turn)
        assert ended is not None
        assert ended.status == "success"
        assert await store.events(turn) == [turn.encode(), b"end"]
        kept = await store.state("", "a", ended.session)
        assert kept is not None
        assert int(kept.turn.rpartition("-")[2]) >= int(turn.rpartition("-")[2])
        assert kept.values == kept.turn.encode()
    # What the killed processes had begun is taken over, with all that was written.
    run(path, "UPDATE turns SET lease_until = 0 WHERE status = 'running'")
    for claim in await store.claim("heir", fingerprints=["f1"], limit=1000, lease_s=60):
        assert (claim.turn.epoch, claim.turn.owner) == (2, "heir")
        assert len(claim.journal) == 2 * len(claim.events)
        assert await store.end(claim.turn.turn, 2, SUCCESS, NOTHING) == "ok"
    assert await store.find(TurnFilter(statuses=["queued", "ready", "running"])) == []
    await store.aclose()


def test_processes_that_open_a_new_file_at_once_all_can(path: Path):
    processes = [writer(path, f"p{number}") for number in range(6)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("accepted")
    for process in processes:
        process.kill()
        process.communicate()


async def test_a_worker_that_comes_back_after_its_lease_is_lost_in_another_process(path: Path):
    first, second = SqliteTurns(path), SqliteTurns(path)
    accepted = await first.accept(a_turn("t"), worker="w1", lease_s=OVER_S)
    assert accepted.claim is not None
    assert len(await second.claim("w2", fingerprints=["f1"], lease_s=60)) == 1
    assert await first.write("t", 1, Writes(events=[b"late"])) == "lost"
    for store in (first, second):
        await store.aclose()


# Opening by URL


async def test_a_url_names_the_store(tmp_path: Path):
    assert isinstance(open_turns("memory:", tmp_path), MemoryTurns)
    for url, name in ((None, "turns.db"), ("sqlite:other.db", "other.db"), (f"sqlite:{tmp_path}/third.db", "third.db")):
        store = open_turns(url, tmp_path)
        await store.accept(a_turn())
        await store.aclose()
        assert (tmp_path / name).exists()


@pytest.mark.parametrize("url", ["", "sqlite:", "sqlite:///a/b", "mysql://host", "turns.db", "postgresql://a@b@c/d"])
def test_a_url_that_names_no_store_is_refused(url: str, tmp_path: Path):
    with pytest.raises(SettingsInvalid):
        open_turns(url, tmp_path)
