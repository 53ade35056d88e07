from __future__ import annotations

import asyncio
import gc
import hashlib
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from interlock.capabilities.memory import Memory
from interlock.errors import ExtraMissing, InterlockError, SettingsInvalid, StateUnstorable, StoreCorrupt, StoreError
from interlock.stores.memory import MAX_BYTES, StoredMemory, open_memory
from tests.support.postgres import PASSWORD, PostgresServer, fresh_database

REMEMBERING = Path(__file__).with_name("remembering.py")
ANY = st.text(st.characters(), max_size=20)  # with half surrogate pairs
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200)


class Place(NamedTuple):
    """Where to remember, and how to get there behind the memory's back."""

    url: str | None
    path: Path
    run: Callable[[str], list[tuple[Any, ...]]]

    def open(self, *, timeout_s: float = 30) -> StoredMemory:
        return open_memory(self.url, path=self.path, timeout_s=timeout_s)


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Callable[[], Place]]:
    with ExitStack() as stack:

        def place() -> Place:
            path = tmp_path / str(len(list(tmp_path.iterdir()))) / "memory.sqlite"
            if request.param == "sqlite":
                return Place(None, path, partial(in_file, path))
            server: PostgresServer = request.getfixturevalue("postgres")
            name = stack.enter_context(fresh_database(server))
            return Place(server.database(name), path, partial(server.run, database=name))

        yield place


@pytest.fixture
def place(places: Callable[[], Place]) -> Place:
    return places()


def in_file(path: Path, statement: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def memory_is_a_memory(memory: StoredMemory) -> Memory:
    return memory


def base_store_is_taken(store: BaseStore) -> StoredMemory:
    return StoredMemory(store)


async def test_a_memory_is_recalled_replaced_and_survives_a_restart(place: Place):
    memory = place.open()
    assert await memory.recall("ada") is None
    await memory.remember("ada", "likes tea")
    assert await memory.recall("ada") == "likes tea"
    await memory.remember("ada", "likes coffee ☕")
    assert await memory.recall("grace") is None
    await memory.aclose()
    again = place.open()
    assert await again.recall("ada") == "likes coffee ☕"
    await again.remember("ada", "")
    assert await again.recall("ada") == ""
    await again.aclose()


@pytest.fixture
def running(place: Place) -> Generator[tuple[StoredMemory, asyncio.Runner]]:
    memory = place.open()
    with asyncio.Runner() as runner:
        yield memory, runner
        runner.run(memory.aclose())


@given(told=st.lists(st.tuples(ANY, TEXT), max_size=6))
@example(told=[(subject, subject.encode("utf-8", "backslashreplace").decode().replace("\0", "")) for subject in ["", ".", "a.b", "a", "A"]])
@example(told=[("a ", "1"), ("a", "2"), ("\u00e9", "3"), ("e\u0301", "4"), ("\ud83d\ude00", "5"), ("\U0001f600", "6"), ("\0", "7")])
@example(told=[("\ud800", "1"), ("?", "2"), ("\udfff", "3"), ("ping", "4"), ("desk", "5"), ("x" * 1_000_000, "6"), ("..", "7")])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_subject_has_its_own_entry_and_any_text_is_stored(running: tuple[StoredMemory, asyncio.Runner], told: list[tuple[str, str]]):
    memory, runner = running

    async def scene() -> None:
        for subject, text in told:
            await memory.remember(subject, text)
        last = dict(told)
        assert {subject: await memory.recall(subject) for subject in last} == last

    runner.run(scene())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a\0b", "NUL"),
        ("a\ud800b", "surrogate"),
        ("\udc00", "surrogate"),
        ("x" * (MAX_BYTES + 1), "65,537 bytes"),
        ("\u20ac" * 21_846, "65,538 bytes"),
    ],
    ids=["nul", "high", "low", "long", "long-in-bytes"],
)
async def test_text_that_some_store_cannot_hold_is_rejected_by_all(place: Place, text: str, says: str):
    memory = place.open()
    await memory.remember("ada", "likes tea")
    with pytest.raises(StateUnstorable, match=says):
        await memory.remember("ada", text)
    assert await memory.recall("ada") == "likes tea"
    await memory.remember("ada", "x" * MAX_BYTES)
    assert await memory.recall("ada") == "x" * MAX_BYTES
    await memory.aclose()


async def test_two_hundred_concurrent_subjects_do_not_mix(place: Place):
    memory = place.open()
    await asyncio.gather(*(memory.remember(f"ada {n}", f"has {n}") for n in range(100)))
    mixed = [memory.recall(f"ada {n}") for n in range(100)] + [memory.remember(f"ada {n}", f"had {n}") for n in range(100)]
    recalled = (await asyncio.gather(*mixed))[:100]
    assert all(text in (f"has {n}", f"had {n}") for n, text in enumerate(recalled))
    assert await asyncio.gather(*(memory.recall(f"ada {n}") for n in range(200))) == [f"had {n}" for n in range(100)] + [None] * 100
    await asyncio.gather(*(memory.remember("ada", str(n)) for n in range(200)))
    assert int(await memory.recall("ada") or -1) in range(200)
    await memory.aclose()


def test_several_processes_can_set_up_and_use_one_store_concurrently(places: Callable[[], Place]):
    names = ["ada", "grace", "joan", "mary"]
    processes = [
        subprocess.Popen([sys.executable, REMEMBERING, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in names
    ]
    try:
        rounds = [places() for _ in range(4)]
        said = [[process.stdout.readline() for process in processes if process.stdout]]
        for place in rounds:
            for process in processes:
                assert process.stdin
                process.stdin.write(f"{place.url or place.path}\n")
                process.stdin.flush()
            said.append([process.stdout.readline() for process in processes if process.stdout])
        assert said == [["ready\n"] * 4] + [["done\n"] * 4] * 4
    finally:
        for process in processes:
            process.communicate()

    async def recalled(place: Place) -> set[str | None]:
        memory = place.open()
        texts = {await memory.recall(f"{name} {n}") for name in names for n in range(5)}
        await memory.aclose()
        return texts

    for place in rounds:
        assert asyncio.run(recalled(place)) == {f"what {name} knows of {n}" for name in names for n in range(5)}


def test_a_memory_serves_several_event_loops_and_leaves_nothing_open(place: Place):
    memory = place.open()
    before = {thread.name for thread in threading.enumerate()}

    async def turn(number: int) -> None:
        assert await memory.recall("ada") == (f"was here {number - 1}" if number else None)
        await asyncio.gather(*(memory.remember("ada", f"was here {number}") for _ in range(20)))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    for number in range(4):
        asyncio.run(turn(number))
        gc.collect()  # a connection that nobody closed would warn
    asyncio.run(memory.aclose())  # of a loop that has opened nothing
    gc.collect()
    assert {thread.name for thread in threading.enumerate()} <= before
    asyncio.run(turn(4))  # it opens anew
    asyncio.run(memory.aclose())
    asyncio.run(memory.aclose())


def test_two_concurrent_event_loops_can_share_a_memory(place: Place):
    memory = place.open()
    wrong: list[object] = []

    async def turns(name: str) -> None:
        for number in range(30):
            await memory.remember(name, str(number))
            if await memory.recall(name) != str(number):
                wrong.append((name, number))

    threads = [threading.Thread(target=asyncio.run, args=[turns(name)]) for name in ("ada", "grace", "joan")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(memory.aclose())
    gc.collect()
    assert wrong == []


@pytest.mark.parametrize(
    "value",
    ['["likes tea"]', '"likes tea"', "1", "null", "{}", '{"text": null}', '{"text": 1}', '{"text": ["likes tea"]}'],
)
async def test_a_row_of_another_shape_is_corrupt_and_not_changed(place: Place, value: str):
    memory = place.open()
    await memory.remember("ada", "likes tea")
    place.run(f"UPDATE store SET value = '{value}'")  # noqa: S608 - the test's own
    kept = place.run("SELECT prefix, key, value FROM store")
    with pytest.raises(StoreCorrupt, match=r"'desk\.memory\.[0-9a-f]{64}' does not contain a text .* It is left as it is\.") as caught:
        await memory.recall("ada")
    assert type(caught.value) is StoreCorrupt
    assert place.run("SELECT prefix, key, value FROM store") == kept
    await memory.remember("ada", "likes coffee")
    assert await memory.recall("ada") == "likes coffee"
    await memory.aclose()


async def test_a_row_over_the_size_limit_is_corrupt(place: Place):
    memory = place.open()
    await memory.remember("ada", "likes tea")
    place.run('UPDATE store SET value = \'{"text": "' + "x" * (MAX_BYTES + 1) + "\"}'")
    with pytest.raises(StoreCorrupt):
        await memory.recall("ada")
    await memory.aclose()


async def test_a_table_of_another_schema_is_corrupt_and_not_changed(place: Place):
    place.path.parent.mkdir()
    place.run("CREATE TABLE store (shelf text, goods text)")
    place.run("INSERT INTO store VALUES ('a', 'b')")
    memory = place.open()
    for call in (lambda: memory.recall("ada"), lambda: memory.remember("ada", "likes tea"), memory.ping):
        with pytest.raises(StoreCorrupt):
            await call()
    assert place.run("SELECT * FROM store") == [("a", "b")]
    await memory.aclose()


async def test_a_ping_belongs_to_no_subject(place: Place):
    memory = place.open()
    await memory.ping()
    await memory.ping()
    assert [await memory.recall(subject) for subject in ("ping", "", "desk.memory.ping")] == [None] * 3
    await memory.remember("ping", "is a game")
    await memory.ping()
    assert await memory.recall("ping") == "is a game"
    await memory.aclose()


async def test_rows_are_stored_under_the_digest_of_the_subject(place: Place):
    memory = place.open()
    await memory.remember("ada", "likes tea")
    assert place.run("SELECT prefix, key FROM store") == [(f"desk.memory.{hashlib.sha256(b'ada').hexdigest()}", "summary")]
    await memory.aclose()


async def test_opening_a_memory_opens_no_file(place: Place):
    memory = place.open()
    await memory.aclose()
    assert not place.path.parent.exists()
    if place.url is not None:
        assert place.run("SELECT count(*) FROM pg_class WHERE relname = 'store'") == [(0,)]


# Any other store of LangGraph


async def test_any_langgraph_store_can_be_used():
    store = InMemoryStore()
    memory = base_store_is_taken(store)
    await memory.ping()
    await memory.remember("ada", "likes tea")
    assert await memory_is_a_memory(memory).recall("ada") == "likes tea"
    assert [item.value async for item in found(store)] == [{"text": ""}, {"text": "likes tea"}]
    await memory.aclose()


async def found(store: BaseStore):
    for item in sorted(await store.asearch(("desk", "memory")), key=lambda item: item.value["text"]):
        yield item


class Broken(InMemoryStore):
    """Raises what only its author knows."""

    async def abatch(self, ops: Any) -> Any:
        raise LookupError(f"no such thing: {PASSWORD}")


class Forgetful(InMemoryStore):
    """Takes everything and keeps nothing."""

    async def abatch(self, ops: Any) -> Any:
        return [None for _ in ops]


async def test_errors_of_other_stores_are_translated():
    memory = StoredMemory(Broken())
    for call in (lambda: memory.recall("ada"), lambda: memory.remember("ada", "likes tea"), memory.ping):
        with pytest.raises(StoreError, match=r"^The memory's store failed \(LookupError\)\.$") as caught:
            await call()
        assert type(caught.value) is StoreError


async def test_a_ping_detects_a_store_that_loses_rows():
    with pytest.raises(StoreError, match="did not return"):
        await StoredMemory(Forgetful()).ping()


# Settings


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://ada:hunter2@localhost/memory", "start with 'postgresql://'"),
        ("hunter2", "start with 'postgresql://'"),
        ("", "start with 'postgresql://'"),
        ("postgresql://ada:hun@ter2@localhost/memory", "'%40'"),
        ("postgresql://ada:hun/ter2@localhost/memory", "'%2F'"),
        ("postgresql://ada:12/hunter2@localhost/memory", "'%2F'"),
        ("postgresql://ada:hunter2%zz@localhost/memory", "cannot be read"),
        ("postgresql://ada:pw@localhost/memory?hunter2=1", "cannot be read"),
        ("postgresql://ada:pw@localhost:hunter2/memory", "port that is not a number"),
    ],
)
def test_an_invalid_url_is_reported_without_its_password(tmp_path: Path, url: str, says: str):
    with pytest.raises(SettingsInvalid, match=says) as caught:
        open_memory(url, path=tmp_path / "memory.sqlite", timeout_s=1)
    assert_hidden(caught.value, "hunter2", "ter2", "hun@", "hun/")


def assert_hidden(error: InterlockError, *secrets: str) -> None:
    """Look at all that a log would show of it."""
    shown = "".join(traceback.format_exception(error))
    assert not [secret for secret in secrets if secret in shown]
    assert str(error).endswith((".", "'"))


def test_without_the_extra_the_install_command_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "interlock.stores.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ExtraMissing, match=r"Run: pip install 'interlock\[postgres\]'"):
        open_memory("postgresql://localhost/memory", path=tmp_path / "memory.sqlite", timeout_s=1)
    open_memory(None, path=tmp_path / "memory.sqlite", timeout_s=1)
