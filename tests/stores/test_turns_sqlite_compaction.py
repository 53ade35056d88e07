"""Turns that have ended, compressed in a SQLite file with what they have in common."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from interlock.errors import StoreCorrupt
from interlock.runtime.turns import TurnEnd, TurnFilter, Writes
from interlock.stores.turns_packing import Contents, common_text, pack_turn, unpack_turn
from interlock.stores.turns_sqlite import SqliteTurns
from tests.stores.turning import Clock, a_turn

DAY_S = 24 * 60 * 60
NOISE = "".join(chr(33 + number * 7919 % 90) for number in range(4000)).replace('"', "'").replace("\\", "/")
"""Hard to compress."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncGenerator[SqliteTurns]:
    opened = SqliteTurns(tmp_path / "turns.db", now=clock)
    yield opened
    await opened.aclose()


async def ended(store: SqliteTurns, name: str, *, session: str | None = None, fingerprint: str = "f1", says: str = "") -> None:
    """Run a turn of which most is as in others."""
    header = json.dumps({"input": says, "limits": NOISE[:500]}).encode()
    await store.accept(a_turn(name, session=session or f"of {name}", header=header, fingerprint=fingerprint), worker="w")
    lines = [json.dumps({"event": name, "metadata": NOISE, "data": f"{says} {name}"}).encode()] * 2
    end = TurnEnd(status="success", result=json.dumps({"output": says, "state": NOISE}).encode())
    assert await store.end(name, 1, end, Writes(entries=[b'{"key":"%s"}' % name.encode()], events=lines)) == "ok"


def query(tmp_path: Path, statement: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(tmp_path / "turns.db") as db:
        rows = db.execute(statement).fetchall()
    db.close()
    return rows


async def compacted(store: SqliteTurns, clock: Clock) -> int:
    clock.move(1)
    return await store.compact(ended_before=clock())


async def test_turns_of_the_same_contracts_take_a_tenth_with_a_dictionary(store: SqliteTurns, clock: Clock, tmp_path: Path):
    for number in range(20):
        await ended(store, f"t{number}")
    whole = [(await store.get(turn), await store.journal(turn), await store.events(turn)) for turn in ("t0", "t19")]
    assert await compacted(store, clock) == 20
    assert [(await store.get(turn), await store.journal(turn), await store.events(turn)) for turn in ("t0", "t19")] == whole
    assert len(await store.find(TurnFilter())) == 20
    ((longest,),) = query(tmp_path, "SELECT max(length(contents)) FROM packed")
    assert isinstance(longest, int)
    assert longest < len(NOISE) / 10
    assert query(tmp_path, "SELECT count(*) FROM dictionaries") == [(1,)]
    for table in ("headers", "results", "journal", "events"):
        assert query(tmp_path, f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608 - constants


async def test_a_dictionary_has_only_what_most_turns_of_several_sessions_have(store: SqliteTurns, clock: Clock, tmp_path: Path):
    for number in range(4):
        await ended(store, f"t{number}", session=f"s{number}")
    for number in range(4):
        await ended(store, f"u{number}", session="s0")
    assert await compacted(store, clock) == 8
    assert query(tmp_path, "SELECT count(*) FROM dictionaries") == [(0,)]
    await ended(store, "v", session="s4", says="my name is Ada Lovelace")
    assert await compacted(store, clock) == 1
    ((text,),) = query(tmp_path, "SELECT text FROM dictionaries")
    assert isinstance(text, bytes)
    assert NOISE[:100].encode() in text
    assert b"Ada" not in text
    assert json.loads((await store.get("v") or a_turn()).header)["input"] == "my name is Ada Lovelace"


async def test_contracts_have_dictionaries_of_their_own_for_a_day(store: SqliteTurns, clock: Clock, tmp_path: Path):
    for day in range(2):
        for number in range(5):
            await ended(store, f"t{day}-{number}", fingerprint="f1")
            await ended(store, f"u{day}-{number}", fingerprint="f2")
        await compacted(store, clock)
        await ended(store, f"later-{day}")
        await compacted(store, clock)
        clock.move(DAY_S)
    assert query(tmp_path, "SELECT fingerprint, count(*) FROM dictionaries GROUP BY fingerprint") == [("f1", 2), ("f2", 2)]


async def test_a_dictionary_is_deleted_with_the_last_turn_that_it_was_used_for(store: SqliteTurns, clock: Clock, tmp_path: Path):
    for number in range(6):
        await ended(store, f"t{number}")
        clock.move(1)
    await compacted(store, clock)
    clock.move(2 * DAY_S)
    await ended(store, "recent", fingerprint="f2")
    assert await store.prune(ended_before=clock(), limit=5) == 5
    assert query(tmp_path, "SELECT count(*) FROM dictionaries") == [(1,)]
    assert len(await store.events("t5")) == 2
    assert await store.prune(ended_before=clock()) == 1
    assert query(tmp_path, "SELECT count(*) FROM dictionaries") == [(0,)]
    assert await store.get("recent") is not None


async def test_a_turn_without_a_result_has_none_afterwards(store: SqliteTurns, clock: Clock):
    await store.accept(a_turn("t"))
    await store.cancel("t")
    before = await store.get("t")
    assert await compacted(store, clock) == 1
    assert await store.get("t") == before
    assert before is not None
    assert before.result is None


@pytest.mark.parametrize("damage", ["substr(contents, 1, length(contents) - 5)", "zeroblob(40)"])
async def test_damaged_contents_are_reported(store: SqliteTurns, clock: Clock, tmp_path: Path, damage: str):
    await ended(store, "t")
    await compacted(store, clock)
    query(tmp_path, f"UPDATE packed SET contents = {damage}")  # noqa: S608 - constants
    for reading in (store.get("t"), store.events("t"), store.journal("t")):
        with pytest.raises(StoreCorrupt):
            await reading


def test_another_dictionary_is_noticed():
    contents = Contents(b"header", None, [b"entry"], [b"line"])
    packed = pack_turn(contents, b"one dictionary")
    assert unpack_turn(packed, b"one dictionary") == contents
    with pytest.raises(StoreCorrupt):
        unpack_turn(packed, b"another dictionary")


def test_text_that_is_no_json_is_taken_as_well():
    samples = [Contents(b'un"finished', b"", [], [b'\\"\xff', b"{}"]) for _ in range(5)]
    assert b'un"finished' in common_text(samples)
