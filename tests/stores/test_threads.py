"""The thread store: one suite for memory, SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.errors import SettingsInvalid, StoreUnavailable
from interlock.stores.threads import Thread, ThreadStore, contains, open_threads, touched
from tests.support.postgres import PostgresServer

KINDS = ("memory", "sqlite", "postgres")


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ThreadStore]:
    url = {"memory": "memory:", "sqlite": "sqlite:turns.db"}.get(request.param)
    if url is None:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.database(request.getfixturevalue("database"))
    opened = open_threads(url, tmp_path)
    yield opened
    await opened.aclose()


async def test_a_thread_belongs_to_a_tenant_and_is_added_once(store: ThreadStore):
    first = Thread(id="t", metadata={"a": ["é", {"b": None}]}, created=1.0, updated=1.0)
    assert await store.add("one", first)
    assert not await store.add("one", replace(first, metadata={}))
    assert await store.add("two", replace(first, metadata={"of": "two"}))
    assert await store.get("one", "t") == first
    assert await store.get("three", "t") is None
    assert [thread.metadata for thread in await store.all("two")] == [{"of": "two"}]


async def test_changes_at_once_are_all_made(store: ThreadStore):
    await store.add("", Thread(id="t"))
    changes = [
        store.change("", "t", lambda known, number=number: touched(known, metadata={**known.metadata, str(number): number}))
        for number in range(20)
    ]
    await asyncio.gather(*changes)
    found = await store.get("", "t")
    assert found is not None
    assert sorted(found.metadata.values()) == list(range(20))
    assert found.updated > 0
    assert await store.change("", "missing", touched) is None


async def test_threads_are_listed_newest_first_without_deleted_ones(store: ThreadStore):
    for number in range(3):
        await store.add("", Thread(id=f"t{number}", created=float(number)))
    await store.change("", "t1", lambda known: replace(known, is_deleted=True))
    assert [thread.id for thread in await store.all("")] == ["t2", "t0"]
    assert not await store.add("", Thread(id="t1"))
    deleted = await store.get("", "t1")
    assert deleted is not None
    assert deleted.is_deleted


async def test_notes_on_turns_are_added_to(store: ThreadStore):
    await store.put_note("", "r1", {"metadata": {"a": 1}, "message_id": "m"})
    await store.put_note("", "r1", {"cancel_reason": "why"})
    await store.put_note("other", "r1", {"metadata": {"a": 2}})
    assert await store.notes("", ["r1", "r2"]) == {"r1": {"metadata": {"a": 1}, "message_id": "m", "cancel_reason": "why"}}
    assert await store.notes("", []) == {}


async def test_a_file_that_cannot_be_used_is_a_typed_error(tmp_path: Path):
    (tmp_path / "threads.db").write_text("this is not a database, whatever its name says")
    with pytest.raises(StoreUnavailable):
        await open_threads(None, tmp_path).all("")
    with pytest.raises(SettingsInvalid):
        open_threads("mysql://x", tmp_path)


def test_metadata_is_contained_with_its_types():
    assert contains({"a": {"b": 1, "c": 2}, "d": []}, {"a": {"b": 1}})
    assert contains({"a": 1}, {})
    for value, wanted in (({"a": 1}, {"a": True}), ({"a": 1}, {"a": {"b": 1}}), ({"a": None}, {"b": None}), ({"a": [1, 2]}, {"a": [1]})):
        assert not contains(value, wanted)
