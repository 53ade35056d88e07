# ruff: noqa: ASYNC240, SLF001 - files of a test's own, which nobody waits for; and a look inside
from __future__ import annotations

import asyncio
import enum
import json
import math
import operator
import os
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import ormsgpack
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from interlock.engine.serializer import TAG, ClosedSerializer
from interlock.errors import (
    ExtraMissing,
    InputSchema,
    SessionBusy,
    SettingsInvalid,
    StateUnstorable,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from interlock.stores.checkpoints import Checkpoints, open_checkpoints
from tests.support.nobody import owned_by_nobody
from tests.support.postgres import PASSWORD, PostgresServer, fresh_database

ROOT = Path(__file__).parents[2]


class Mood(enum.StrEnum):
    GOOD = "good"


@dataclass(frozen=True)
class Fact:
    text: str
    tags: tuple[str, ...] = ()


TYPES = (Fact, Mood)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "checkpoints.db"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, path: Path) -> str:
    """Return where checkpoints outlive a process."""
    match request.param:
        case "memory":
            return "memory:"
        case "sqlite":
            return f"sqlite:{path}"
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            return server.database(request.getfixturevalue("database"))


everywhere = pytest.mark.parametrize("url", ["memory", "sqlite", "postgres"], indirect=True)


@asynccontextmanager
async def opened(url: str | Path, *, timeout_s: float = 30) -> AsyncGenerator[Checkpoints]:
    checkpoints = open_checkpoints(
        None if isinstance(url, Path) else url, path=url if isinstance(url, Path) else Path("unused"), types=TYPES, timeout_s=timeout_s
    )
    try:
        yield checkpoints
    finally:
        await checkpoints.aclose()


def at(thread: str = "ada", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **more}}


async def keep(saver: Any, values: dict[str, Any], *, thread: str = "ada", **metadata: Any) -> Any:
    version = saver.get_next_version(None, None)
    checkpoint = {**empty_checkpoint(), "channel_values": values, "channel_versions": dict.fromkeys(values, version)}
    return await saver.aput(
        at(thread), checkpoint, {"source": "loop", "step": 1, "parents": {}, **metadata}, dict.fromkeys(values, version)
    )


async def kept(saver: Any, thread: str = "ada") -> dict[str, Any] | None:
    found = await saver.aget_tuple(at(thread))
    return None if found is None else found.checkpoint["channel_values"]


@contextmanager
def somebody_else(path: Path, *statements: str) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        for statement in statements:
            connection.execute(statement)
        yield connection


async def eventually(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - it does not say when
            await asyncio.sleep(0.005)


def workers() -> list[threading.Thread]:
    """Return the threads of connections to SQLite files."""
    return [thread for thread in threading.enumerate() if "_connection_worker_thread" in thread.name]


# URLs


@pytest.mark.parametrize(
    "url",
    [
        "",
        "memory",
        "memory:x",
        "sqlite",
        "sqlite:",
        "sqlite::memory:",
        "sqlite:///data/x.db",
        "sqlite:a\0b",
        "sqlite:~nobody-of-that-name/x",
        "mysql://host/x",
        "redis://host",
        "firestore:",
        "firestore:a/b/c",
        "firestore:../x",
        "postgresql://user:pass@word@host/x",
        "postgresql://host:port/x",
        "file:///x",
        "/data/x.db",
    ],
)
def test_a_url_of_no_known_store_is_rejected(url: str, path: Path):
    with pytest.raises(SettingsInvalid, match="checkpoint_url"):
        open_checkpoints(url, path=path, types=())
    assert not path.parent.exists()


def test_without_psycopg_the_install_command_is_reported(monkeypatch: pytest.MonkeyPatch, path: Path):
    for name in ("interlock.stores.postgres_saver", "interlock.stores.postgres"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'interlock\[postgres\]'"):
        open_checkpoints("postgresql://host/x", path=path, types=())


def test_without_the_firestore_client_the_install_command_is_reported(monkeypatch: pytest.MonkeyPatch, path: Path):
    monkeypatch.setitem(sys.modules, "google.cloud.firestore", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'interlock\[firestore\]'"):
        open_checkpoints("firestore:project", path=path, types=())


async def test_a_path_may_be_absolute_relative_or_start_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    places = {
        f"sqlite:{tmp_path}/a/absolute.db": tmp_path / "a/absolute.db",
        "sqlite:relative.db": tmp_path / "relative.db",
        "sqlite:~/x/home.db": tmp_path / "home/x/home.db",
        "sqlite:odd ?#%20.db": tmp_path / "odd ?#%20.db",
    }
    for url, place in places.items():
        async with opened(url) as checkpoints:
            await keep(await checkpoints.saver(), {"a": 1})
        assert place.is_file()
    async with opened(tmp_path / "default.db") as checkpoints:
        await checkpoints.saver()
    assert (tmp_path / "default.db").is_file()


def test_opening_creates_no_file_and_imports_no_driver(path: Path):
    code = """if True:
        import sys
        from pathlib import Path
        from interlock.stores.checkpoints import open_checkpoints
        open_checkpoints(None, path=Path(sys.argv[1]), types=())
        open_checkpoints("memory:", path=Path(sys.argv[1]), types=())
        print(sorted({name.partition(".")[0] for name in sys.modules} & {"langgraph", "langchain_core", "psycopg", "aiosqlite", "google"}))
    """
    ran = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True)
    assert ran.stdout == "[]\n"
    assert not path.parent.exists()


async def test_the_file_is_readable_by_its_owner_only(path: Path):
    async with opened(path) as checkpoints:
        await keep(await checkpoints.saver(), {"a": 1})
        async with checkpoints.exclusive("ada"):
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in [path.parent, *path.parent.rglob("*")]}
    assert {name: mode for name, mode in modes.items() if mode != 0o600} == {"kept": 0o700, "checkpoints.db.locks": 0o700}
    assert len(modes) == 6


# Keeping


class Talk(TypedDict, total=False):
    fact: Fact
    said: Annotated[list[Any], operator.add]
    ratio: float
    mood: Mood
    text: str
    big: int
    flag: bool
    none: None
    pair: tuple[int, str]


EXACT: dict[str, Any] = {
    "ratio": 1e16,
    "mood": Mood.GOOD,
    "text": "a\0b",
    "big": 2**90,
    "flag": True,
    "none": None,
    "pair": (1, "a"),
    "fact": Fact("a", ("b",)),
}


def talking(saver: Any) -> Any:
    def talk(state: Talk) -> dict[str, Any]:
        return {"said": [interrupt(("more?", state.get("fact")))], **EXACT}

    builder = StateGraph(Talk)
    builder.add_node("talk", talk)
    builder.add_edge(START, "talk")
    return builder.compile(checkpointer=saver)


async def test_an_interrupted_graph_is_resumed_after_a_restart(url: str, caplog: pytest.LogCaptureFixture):
    async with opened(url) as checkpoints:
        await talking(await checkpoints.saver()).ainvoke({"fact": Fact("why"), "said": [-0.0]}, at())
    async with opened(url) as checkpoints:
        graph = talking(await checkpoints.saver())
        assert (await graph.aget_state(at())).tasks[0].interrupts[0].value == ("more?", Fact("why"))
        await graph.ainvoke(Command(resume=("yes",)), at())
    async with opened(url) as checkpoints:
        graph = talking(await checkpoints.saver())
        found = (await graph.aget_state(at())).values
        assert found == {**EXACT, "said": [-0.0, ("yes",)]}
        assert {name: type(found[name]) for name in EXACT} == {name: type(value) for name, value in EXACT.items()}
        assert len([state async for state in graph.aget_state_history(at())]) == 3
    assert caplog.records == []


ODD: list[Any] = [
    1e16,
    -0.0,
    math.inf,
    math.nan,
    5e-324,
    2**63 - 1,
    2**63,
    -(2**64),
    10**5000,
    "",
    "a\0b",
    "\n",
    "x" * 5000,
    Mood.GOOD,
    True,
    None,
]


def told(value: Any) -> Any:
    return value if type(value) is int else repr(value)


@everywhere
async def test_single_values_are_loaded_as_stored(url: str):
    async with opened(url) as checkpoints:
        saver = await checkpoints.saver()
        await keep(saver, {f"value{number}": value for number, value in enumerate(ODD)})
        found = await kept(saver)
    assert found is not None
    assert [told(found[f"value{number}"]) for number in range(len(ODD))] == list(map(told, ODD))


@everywhere
@pytest.mark.parametrize(
    "value", ["\ud800", ["a", "\udfff"], object(), Path("x"), float], ids=["half", "halves", "object", "path", "class"]
)
async def test_an_unstorable_value_is_rejected_and_the_stored_state_is_unchanged(url: str, value: Any):
    async with opened(url) as checkpoints:
        saver = await checkpoints.saver()
        config = await keep(saver, {"a": "first"})
        with pytest.raises(StateUnstorable):
            await keep(saver, {"a": value})
        with pytest.raises(StateUnstorable):
            await saver.aput_writes(config, [("a", "good"), ("b", value)], "task")
        with pytest.raises(StateUnstorable):
            await keep(saver, {"a": 1}, note=value)
        await keep(saver, {"a": 1}, thread="grace")  # commits nothing of the above
        found = await saver.aget_tuple(at())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": "first"}
    assert found.pending_writes == []


@everywhere
async def test_an_invalid_thread_id_is_rejected(url: str):
    async with opened(url) as checkpoints:
        saver = await checkpoints.saver()
        nameless: Any = {"configurable": {}}
        for config in (nameless, at("\0"), at("\ud800"), at("a", checkpoint_id="\0")):
            with pytest.raises(InputSchema):
                await saver.aget_tuple(config)


@everywhere
async def test_filter_keys_must_be_identifiers(url: str):
    async with opened(url) as checkpoints:
        saver = await checkpoints.saver()
        await keep(saver, {"a": 1}, colour="red")
        await keep(saver, {"a": 2}, colour="blue")
        assert [one.checkpoint["channel_values"] async for one in saver.alist(at(), filter={"colour": "red"})] == [{"a": 1}]
        for key in ("x') OR 1=1 --", "a.b", "a-b", "", "a b", "'"):
            with pytest.raises(InputSchema):
                _ = [one async for one in saver.alist(at(), filter={key: "red"})]


@everywhere
async def test_a_listing_does_not_block_other_calls(url: str):
    async with opened(url) as checkpoints:
        saver = await checkpoints.saver()
        for number in range(3):
            await keep(saver, {"a": number})
        async with asyncio.timeout(20):
            async for one in saver.alist(at()):
                assert await saver.aget_tuple(one.config) is not None
                await keep(saver, {"a": 9}, thread="grace")
                break
            assert await kept(saver) == {"a": 2}


async def test_synchronous_calls_are_not_supported(path: Path):
    async with opened(path) as checkpoints:
        saver: Any = await checkpoints.saver()
        for call in (
            lambda: saver.get_tuple(at()),
            lambda: saver.list(at()),
            lambda: saver.put(at(), {}, {}, {}),
            lambda: saver.put_writes(at(), [], ""),
            lambda: saver.delete_thread("ada"),
        ):
            with pytest.raises(NotImplementedError, match="asynchronous"):
                call()


async def test_langgraph_cannot_extend_the_list_of_classes(path: Path, caplog: pytest.LogCaptureFixture):
    async with opened(path) as checkpoints:
        saver = await checkpoints.saver()
        assert saver.with_allowlist({("os", "system")}) is saver
    assert caplog.records == []


@everywhere
async def test_concurrent_callers_open_the_store_once(url: str):
    async with opened(url) as checkpoints:
        savers = await asyncio.gather(*(checkpoints.saver() for _ in range(10)))
        assert len(set(map(id, savers))) == 1
        assert len(workers()) == url.startswith("sqlite:")
        await asyncio.gather(*(keep(savers[0], {"a": number}, thread=str(number)) for number in range(20)))
        assert [await kept(savers[0], str(number)) for number in range(20)] == [{"a": number} for number in range(20)]


async def test_checkpoints_in_memory_live_as_long_as_their_owner():
    async with opened("memory:") as checkpoints:
        await keep(await checkpoints.saver(), {"a": 1})
        await checkpoints.aclose()
        assert await kept(await checkpoints.saver()) == {"a": 1}
    async with opened("memory:") as checkpoints:
        assert await kept(await checkpoints.saver()) is None


def test_the_store_serves_several_event_loops_and_leaves_nothing_open(url: str):
    before = set(threading.enumerate())
    checkpoints = open_checkpoints(url, path=Path("unused"), types=TYPES)

    async def turn(number: int) -> None:
        async with checkpoints.exclusive("ada"):
            saver = await checkpoints.saver()
            if number:
                assert await kept(saver) == {"a": number - 1}
            await keep(saver, {"a": number})

    for number in range(3):
        asyncio.run(turn(number))
    assert len(set(threading.enumerate()) - before) <= 2
    asyncio.run(checkpoints.aclose())
    asyncio.run(eventually(lambda: set(threading.enumerate()) <= before))


async def test_a_closed_store_is_opened_again(url: str):
    async with opened(url) as checkpoints:
        saver = await checkpoints.saver()
        await keep(saver, {"a": 1})
        await checkpoints.aclose()
        assert await kept(saver) == {"a": 1}
        assert await kept(await checkpoints.saver()) == {"a": 1}


def test_a_process_ends_without_aclose(url: str):
    code = """if True:
        import asyncio, sys
        from pathlib import Path
        from interlock.stores.checkpoints import open_checkpoints

        checkpoints = open_checkpoints(sys.argv[1], path=Path(), types=())
        asyncio.run(checkpoints.saver())
    """
    subprocess.run([sys.executable, "-c", code, url], check=True, timeout=60)


# Rows that somebody has changed


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.canary),))


def tampered(canary: Path) -> list[tuple[Any, Any]]:
    call = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(["os", "system", f"mkdir {canary}"])))
    constructor = json.dumps({"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "args": [str(canary)]}).encode()
    _, good = ClosedSerializer(TYPES).dumps_typed({"id": "a", "fact": Fact("a")})
    _, strange = ClosedSerializer([Strange]).dumps_typed(Strange("a"))
    return [
        ("pickle", pickle.dumps(Trap(canary))),
        ("msgpack", call),
        ("json", constructor),
        ("json", json.dumps({"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {}}).encode()),
        ("bytes", good),
        ("", good),
        (TAG, strange),
        (TAG, good[:-1]),
        (TAG, b""),
        (TAG, bytes([good[0] ^ 1]) + good[1:]),
    ]


@dataclass(frozen=True)
class Strange:
    text: str


async def written(saver: Any) -> None:
    """Keep a checkpoint with a pending write."""
    config = await keep(saver, {"fact": Fact("a"), "list": [1]})
    await saver.aput_writes(config, [("fact", Fact("b"))], "task")


async def is_corrupt(saver: Any) -> None:
    for call in (lambda: saver.aget_tuple(at()), lambda: collected(saver), lambda: talking(saver).aget_state(at())):
        with pytest.raises(StoreCorrupt, match="left as") as caught:
            await call()
        assert type(caught.value) is StoreCorrupt


async def collected(saver: Any) -> list[Any]:
    return [one async for one in saver.alist(at())]


@pytest.mark.parametrize("table", [("checkpoints", "checkpoint"), ("writes", "value")])
async def test_a_changed_row_of_a_file_is_corrupt_and_executes_no_code(path: Path, tmp_path: Path, table: tuple[str, str]):
    name, column = table
    async with opened(path) as checkpoints:
        saver = await checkpoints.saver()
        await written(saver)
        for tag, value in [*tampered(tmp_path / "canary"), (None, None), (TAG, None), (TAG, "text"), (1, 1)]:
            with somebody_else(path) as connection:
                connection.execute(f"UPDATE {name} SET type = ?, {column} = ?", (tag, value))  # noqa: S608 - the test's own
            await is_corrupt(saver)
            with somebody_else(path) as connection:
                assert connection.execute(f"SELECT type, {column} FROM {name}").fetchall() == [(tag if tag != 1 else "1", value)]  # noqa: S608
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("table", ["checkpoint_blobs", "checkpoint_writes"])
async def test_a_changed_row_of_a_server_is_corrupt_and_executes_no_code(
    postgres: PostgresServer, database: str, tmp_path: Path, table: str
):
    async with opened(postgres.database(database)) as checkpoints:
        saver = await checkpoints.saver()
        await written(saver)
        with psycopg.connect(postgres.database(database), autocommit=True) as connection:
            for tag, value in tampered(tmp_path / "canary"):
                connection.execute(cast("Any", f"UPDATE {table} SET type = %s, blob = %s"), (tag, value))  # noqa: S608 - the test's own
                await is_corrupt(saver)
                assert set(connection.execute(cast("Any", f"SELECT type, blob FROM {table}")).fetchall()) == {(tag, value)}  # noqa: S608
    assert not (tmp_path / "canary").exists()


METADATA = ["", "{", "null", "[]", '"a"', "1", '{"a": 1} x', '{"a": "\\ud8', "[" * 100_000]


async def test_changed_metadata_of_a_file_is_corrupt(path: Path):
    async with opened(path) as checkpoints:
        saver = await checkpoints.saver()
        await written(saver)
        for metadata in [*(text.encode() for text in METADATA), b'{"a": "\xff"}', 5]:
            with somebody_else(path) as connection:
                connection.execute("UPDATE checkpoints SET metadata = ?", (metadata,))
            await is_corrupt(saver)
            with suppress(StoreCorrupt):
                assert [one async for one in saver.alist(at(), filter={"source": "loop"})] == []


BENT: list[dict[str, Any]] = [
    {"v": "4"},
    {"v": None},
    {"id": "another"},
    {"ts": 1},
    {"channel_values": []},
    {"channel_versions": None},
    {"channel_versions": {"a": "1", "b": 1}},
    {"channel_versions": {"a": ["1"]}},
    {"versions_seen": {"node": {"a": 1}}},
    {"versions_seen": {"node": ["a"]}},
    {"versions_seen": []},
]


@pytest.mark.parametrize("bent", BENT, ids=repr)
async def test_a_checkpoint_of_another_shape_is_corrupt_in_a_file(path: Path, bent: dict[str, Any]):
    serializer = ClosedSerializer(TYPES)
    async with opened(path) as checkpoints:
        saver = await checkpoints.saver()
        await written(saver)
        with somebody_else(path) as connection:
            ((tag, value),) = connection.execute("SELECT type, checkpoint FROM checkpoints").fetchall()
            changed = serializer.dumps_typed({**serializer.loads_typed((tag, value)), **bent})
            connection.execute("UPDATE checkpoints SET type = ?, checkpoint = ?", changed)
        await is_corrupt(saver)
        with somebody_else(path) as connection:
            connection.execute("UPDATE checkpoints SET type = ?, checkpoint = ?", serializer.dumps_typed([1]))
        await is_corrupt(saver)


@pytest.mark.parametrize("column", ["channel", "task_id"])
async def test_a_write_to_a_channel_without_a_name_is_corrupt(path: Path, column: str):
    async with opened(path) as checkpoints:
        saver = await checkpoints.saver()
        await written(saver)
        with somebody_else(path, f"UPDATE writes SET {column} = x'00'"):  # noqa: S608 - the test's own
            await is_corrupt(saver)


async def test_a_checkpoint_of_another_shape_is_corrupt_on_a_server(postgres: PostgresServer, database: str):
    async with opened(postgres.database(database)) as checkpoints:
        saver = await checkpoints.saver()
        await written(saver)
        with psycopg.connect(postgres.database(database), autocommit=True) as connection:
            ((good,),) = connection.execute("SELECT checkpoint FROM checkpoints").fetchall()
            shapes: list[Any] = [*({**good, **bent} for bent in BENT if bent != {"channel_values": []}), {}, [], 1]
            for bent in shapes:
                connection.execute("UPDATE checkpoints SET checkpoint = %s", (json.dumps(bent),))
                await is_corrupt(saver)
            connection.execute("UPDATE checkpoints SET checkpoint = %s", (json.dumps(good),))
            for metadata in ("[]", "1", '"a"', "null"):
                connection.execute("UPDATE checkpoints SET metadata = %s", (metadata,))
                await is_corrupt(saver)


async def test_an_invalid_channel_version_is_corrupt(path: Path):
    async with opened(path) as checkpoints:
        saver = await checkpoints.saver()
        for version in ("one", "", [1]):
            with pytest.raises(StoreCorrupt):
                saver.get_next_version(cast("Any", version), None)


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_flipped_bytes_in_a_file_are_corrupt_or_harmless(tmp_path: Path, data: st.DataObject):
    """Hold the file to what it says of itself, wherever a byte of a row was flipped."""
    place = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"

    async def flip() -> None:
        async with opened(place) as checkpoints:
            saver = await checkpoints.saver()
            await written(saver)
            good: Any = await saver.aget_tuple(at())
            table, column = data.draw(st.sampled_from([("checkpoints", "checkpoint"), ("checkpoints", "metadata"), ("writes", "value")]))
            with somebody_else(place) as connection:
                ((row,),) = connection.execute(f"SELECT {column} FROM {table}").fetchall()  # noqa: S608 - the test's own
                where, what = data.draw(st.integers(0, len(row) - 1)), data.draw(st.integers(1, 255))
                flipped = row[:where] + bytes([row[where] ^ what]) + row[where + 1 :]
                connection.execute(f"UPDATE {table} SET {column} = ?", (flipped,))  # noqa: S608
            try:
                found = await saver.aget_tuple(at())
            except StoreCorrupt:
                return
            assert column == "metadata"  # which has no checksum, and is JSON: another text is another text
            assert found is not None
            assert found.checkpoint == good.checkpoint

    asyncio.run(flip())


# Files


async def test_acknowledged_checkpoints_are_on_disk(path: Path):
    async with opened(path) as checkpoints:
        saver: Any = await checkpoints.saver()
        for pragma, value in (("journal_mode", "wal"), ("synchronous", 2), ("busy_timeout", 30_000)):
            assert await saver._inner.conn.execute_fetchall(f"PRAGMA {pragma}") == [(value,)]
        await keep(saver, {"a": 1})
        assert not saver._inner.conn.in_transaction


async def test_a_full_disk_is_reported_and_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch):
    async with opened(path) as checkpoints:
        saver = await checkpoints.saver()
        config = await keep(saver, {"a": "before"})
        await checkpoints.aclose()
        connect = sqlite3.connect

        def cramped(*given: Any, **more: Any) -> sqlite3.Connection:
            connection = connect(*given, **more)
            connection.execute("PRAGMA max_page_count = 1").close()
            return connection

        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", cramped)
            for _ in range(2):
                with pytest.raises(StoreFull, match="disk is full"):
                    await keep(saver, {"a": "x" * 60_000})
                with pytest.raises(StoreFull):
                    await saver.aput_writes(config, [("a", 1), ("b", "x" * 60_000)], "task")
                found = await saver.aget_tuple(at())
                assert found is not None
                assert (found.checkpoint["channel_values"], found.pending_writes) == ({"a": "before"}, [])
        await checkpoints.aclose()
        await keep(saver, {"a": "x" * 60_000})
        assert await kept(saver) == {"a": "x" * 60_000}


async def test_a_full_disk_is_reported_when_a_lock_is_acquired(path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    async with opened(path) as checkpoints:
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", full)
            with pytest.raises(StoreFull):
                async with checkpoints.exclusive("ada"):
                    pass
            with pytest.raises(StoreFull):
                await checkpoints.saver()
        async with checkpoints.exclusive("ada"):
            pass


async def test_a_read_only_folder_is_unavailable_until_it_is_writable():
    with owned_by_nobody() as folder:
        folder.chmod(0o500)
        async with opened(folder / "x" / "checkpoints.db") as checkpoints:
            with pytest.raises(StoreUnavailable, match=r"cannot be opened \(Permission denied\)"):
                await checkpoints.saver()
            with pytest.raises(StoreUnavailable, match=r"cannot be used \(Permission denied\)"):
                async with checkpoints.exclusive("ada"):
                    pass
            folder.chmod(0o700)
            async with checkpoints.exclusive("ada"):
                await keep(await checkpoints.saver(), {"a": 1})


async def test_a_read_only_file_is_unavailable():
    with owned_by_nobody() as folder:
        async with opened(folder / "checkpoints.db") as checkpoints:
            await keep(await checkpoints.saver(), {"a": 1})
        (folder / "checkpoints.db").chmod(0o400)
        async with opened(folder / "checkpoints.db") as checkpoints:
            with pytest.raises(StoreUnavailable):
                await checkpoints.saver()


async def test_a_folder_with_the_name_of_the_file_is_unavailable(path: Path):
    path.mkdir(parents=True)
    async with opened(path) as checkpoints:
        with pytest.raises(StoreUnavailable):
            await checkpoints.saver()


@pytest.mark.parametrize(
    "content", [b"this is not a database, but it is long enough to be one" * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
async def test_a_file_that_is_not_a_database_is_corrupt_and_not_changed(path: Path, content: bytes):
    path.parent.mkdir()
    path.write_bytes(content)
    async with opened(path) as checkpoints:
        with pytest.raises(StoreCorrupt):
            await checkpoints.saver()
        await eventually(lambda: not workers())
    assert path.read_bytes() == content


async def test_a_restored_file_is_read_again(path: Path):
    async with opened(path) as checkpoints:
        await keep(await checkpoints.saver(), {"a": "x" * 20_000})
    good = path.read_bytes()
    async with opened(path) as checkpoints:
        saver = await checkpoints.saver()
        path.write_bytes(b"x" * len(good))
        with pytest.raises(StoreCorrupt):
            await kept(saver)
        path.write_bytes(good)
        assert await kept(saver) == {"a": "x" * 20_000}


async def test_tables_of_another_schema_are_corrupt(path: Path):
    path.parent.mkdir()
    with somebody_else(path, "CREATE TABLE checkpoints (a)", "CREATE TABLE writes (a)"):
        pass
    async with opened(path) as checkpoints:
        saver = await checkpoints.saver()
        with pytest.raises(StoreCorrupt):
            await kept(saver)
        with pytest.raises(StoreCorrupt):
            await keep(saver, {"a": 1})


async def test_a_deleted_file_is_created_again(path: Path):
    async with opened(path) as checkpoints:
        saver = await checkpoints.saver()
        await keep(saver, {"a": 1})
        for file in path.parent.glob("checkpoints.db*"):
            file.unlink()
        assert await kept(saver) is None
        await keep(saver, {"a": 2})
    async with opened(path) as checkpoints:
        assert await kept(await checkpoints.saver()) == {"a": 2}


async def test_a_cancelled_write_completes_and_blocks_no_other(path: Path):
    async with opened(path) as checkpoints:
        saver: Any = await checkpoints.saver()
        with somebody_else(path, "BEGIN IMMEDIATE") as other:
            call = asyncio.create_task(keep(saver, {"a": 1}))
            await asyncio.sleep(0.05)
            call.cancel()
            await asyncio.sleep(0.05)
            call.cancel()
            assert not call.done()
            other.execute("COMMIT")
            with pytest.raises(asyncio.CancelledError):
                await call
            other.execute("BEGIN IMMEDIATE")  # does not wait
            other.execute("COMMIT")
        assert await kept(saver) == {"a": 1}


async def test_cancelling_between_statements_leaves_no_open_transaction(path: Path):
    async with opened(path) as checkpoints:
        saver: Any = await checkpoints.saver()
        await keep(saver, {"a": 0})
        for steps in range(1, 12):
            call = asyncio.create_task(keep(saver, {"a": steps}))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            with somebody_else(path, "BEGIN IMMEDIATE", "COMMIT"):
                pass


def test_an_event_loop_that_ends_during_a_write_releases_the_file(path: Path):
    checkpoints = open_checkpoints(None, path=path, types=())

    async def end_early() -> asyncio.Task[Any]:
        task = asyncio.create_task(keep(await checkpoints.saver(), {"a": 1}))
        await asyncio.sleep(0.05)
        return task

    async def go_on() -> None:
        saver = await checkpoints.saver()
        await keep(saver, {"a": 2})
        assert await kept(saver) == {"a": 2}
        await checkpoints.aclose()

    asyncio.run(checkpoints.saver())
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        letting_go = threading.Timer(0.3, other.execute, ["COMMIT"])
        letting_go.start()
        assert asyncio.run(end_early()).cancelled()
        letting_go.join()
    asyncio.run(asyncio.wait_for(go_on(), 20))


async def test_a_locked_file_is_unavailable_after_the_timeout(path: Path):
    async with opened(path, timeout_s=0.2) as checkpoints:
        saver = await checkpoints.saver()
        await keep(saver, {"a": 1})
        with somebody_else(path, "BEGIN IMMEDIATE"):
            with pytest.raises(StoreUnavailable, match="SQLITE_BUSY"):
                await keep(saver, {"a": 2})
            assert await kept(saver) == {"a": 1}
        await keep(saver, {"a": 2})


async def test_a_concurrent_setup_of_the_file_is_retried(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One in two hundred is refused by SQLite at once where twelve do it: here everybody is, the first time."""
    with somebody_else(tmp_path / "other.db", "BEGIN EXCLUSIVE"), pytest.raises(sqlite3.OperationalError) as locked:  # noqa: SIM117
        with somebody_else(tmp_path / "other.db", "BEGIN EXCLUSIVE"):
            pass
    refusals, set_up = [locked.value], AsyncSqliteSaver.setup

    async def refused(saver: AsyncSqliteSaver) -> None:
        if refusals:
            raise refusals.pop()
        await set_up(saver)

    monkeypatch.setattr(AsyncSqliteSaver, "setup", refused)
    async with opened(path) as checkpoints:
        await keep(await checkpoints.saver(), {"a": 1})


SETTING_UP = """if True:
    import asyncio, sys
    from pathlib import Path
    from interlock.stores.checkpoints import open_checkpoints
    from langgraph.checkpoint.base import empty_checkpoint

    async def set_up(url):
        checkpoints = open_checkpoints(url, path=Path(), types=())
        saver = await checkpoints.saver()
        config = {"configurable": {"thread_id": sys.argv[1], "checkpoint_ns": ""}}
        await saver.aput(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})
        assert await saver.aget_tuple(config) is not None
        await checkpoints.aclose()

    print("ready", flush=True)
    for line in sys.stdin:
        asyncio.run(set_up(line.strip()))
        print("done", flush=True)
"""


def test_several_processes_can_set_up_a_store_concurrently(postgres: PostgresServer, tmp_path: Path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", SETTING_UP, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for n in range(3)
    ]
    try:
        assert [process.stdout and process.stdout.readline() for process in processes] == ["ready\n"] * 3
        for number in range(2):
            with fresh_database(postgres) as name:
                for place in (f"sqlite:{tmp_path / str(number)}/x.db", postgres.database(name)):
                    for process in processes:
                        assert process.stdin is not None
                        process.stdin.write(f"{place}\n")
                        process.stdin.flush()
                    assert [process.stdout and process.stdout.readline() for process in processes] == ["done\n"] * 3
    finally:
        for process in processes:
            process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0] * 3


# Servers


async def test_a_stopped_server_is_unavailable_at_once_until_it_runs_again(
    postgres: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
):
    async with opened(postgres.database(database)) as checkpoints:
        saver = await checkpoints.saver()
        config = await keep(saver, {"a": 1})
        async with checkpoints.exclusive("ada"):
            pass
        postgres.stop()
        try:
            begun = time.monotonic()
            for call in (
                lambda: kept(saver),
                lambda: keep(saver, {"a": 2}),
                lambda: saver.aput_writes(config, [("a", 1)], "task"),
                lambda: collected(saver),
                lambda: checkpoints.exclusive("ada").__aenter__(),
            ):
                with pytest.raises(StoreUnavailable, match="cannot be used") as caught:
                    await call()
                assert PASSWORD not in "".join(traceback.format_exception(caught.value))
            assert time.monotonic() - begun < 15
        finally:
            postgres.start()
        assert await kept(saver) == {"a": 1}
        async with checkpoints.exclusive("ada"):
            await keep(saver, {"a": 2})
        assert await kept(saver) == {"a": 2}
    assert caplog.records == []  # the error says it


async def test_a_silent_server_is_unavailable_after_the_timeout(postgres: PostgresServer, database: str):
    async with opened(postgres.database(database), timeout_s=2) as checkpoints:
        saver = await checkpoints.saver()
        with psycopg.connect(postgres.database(database)) as connection:
            connection.execute("LOCK TABLE checkpoints")
            with pytest.raises(StoreUnavailable, match="did not answer within"):
                await kept(saver)
        assert await kept(saver) is None


@pytest.mark.parametrize(
    ("code", "error"), [("53100", StoreFull), ("53200", StoreFull), ("57014", StoreUnavailable), ("XX001", StoreCorrupt)]
)
async def test_errors_of_the_server_are_translated_by_their_sqlstate(
    postgres: PostgresServer, database: str, code: str, error: type[StoreError]
):
    async with opened(postgres.database(database)) as checkpoints:
        saver = await checkpoints.saver()
        await keep(saver, {"a": [1]})
        raising = f"BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END"
        postgres.run(f"CREATE FUNCTION refuse() RETURNS trigger AS $$ {raising} $$ LANGUAGE plpgsql", database=database)
        postgres.run("CREATE TRIGGER refuse BEFORE INSERT ON checkpoints FOR EACH ROW EXECUTE FUNCTION refuse()", database=database)
        with pytest.raises(error) as caught:
            await keep(saver, {"a": [2]})
        assert type(caught.value) is error
        assert await kept(saver) == {"a": [1]}
        ((blobs,),) = postgres.run("SELECT count(*) FROM checkpoint_blobs", database=database)
        assert blobs == 1  # all of a checkpoint or nothing of it


async def test_dropped_tables_are_created_again(postgres: PostgresServer, database: str):
    async with opened(postgres.database(database)) as checkpoints:
        saver = await checkpoints.saver()
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations"):
            postgres.run(f"DROP TABLE {table}", database=database)
        with pytest.raises(StoreCorrupt):
            await kept(saver)
        await keep(saver, {"a": 1})
        assert await kept(saver) == {"a": 1}


async def test_threads_are_pruned(postgres: PostgresServer, database: str):
    async with opened(postgres.database(database)) as checkpoints:
        saver = await checkpoints.saver()
        for number in range(3):
            await keep(saver, {"a": number})
        await saver.aprune(["ada"])
        assert [one.checkpoint["channel_values"] for one in await collected(saver)] == [{"a": 2}]


# One turn of a session at a time


@everywhere
async def test_one_task_at_a_time_holds_a_session_in_order_of_arrival(url: str):
    held: list[int] = []
    most = 0
    async with opened(url) as checkpoints:

        async def turn(number: int) -> None:
            nonlocal most
            async with checkpoints.exclusive("ada"):
                held.append(number)
                most = max(most, len(held))
                await asyncio.sleep(0.001)
                held.remove(number)

        await asyncio.gather(*(turn(number) for number in range(20)))
    assert (held, most) == ([], 1)


@everywhere
async def test_a_held_session_is_busy_after_the_timeout_and_others_are_free(url: str):
    async with opened(url, timeout_s=1) as checkpoints:
        async with checkpoints.exclusive("ada"):
            begun = time.monotonic()
            with pytest.raises(SessionBusy, match="'ada'"):
                async with checkpoints.exclusive("ada"):
                    raise AssertionError
            assert 0.9 < time.monotonic() - begun < 10
            async with checkpoints.exclusive("grace"), checkpoints.exclusive(""), checkpoints.exclusive("\ud800/../x" * 1000):
                pass
        async with checkpoints.exclusive("ada"):
            pass


async def test_two_stores_of_the_same_url_exclude_each_other(url: str):
    async with opened(url) as one, opened(url, timeout_s=1) as other:
        async with one.exclusive("ada"):
            with pytest.raises(SessionBusy):
                await other.exclusive("ada").__aenter__()
        async with other.exclusive("ada"):
            pass


@everywhere
async def test_a_session_is_released_however_its_turn_ends(url: str):
    async with opened(url, timeout_s=5) as checkpoints:
        with pytest.raises(KeyError):
            async with checkpoints.exclusive("ada"):
                raise KeyError

        async def hang() -> None:
            async with checkpoints.exclusive("ada"):
                await asyncio.Event().wait()

        for pause in (0.0, 0.05):
            call = asyncio.create_task(hang())
            await asyncio.sleep(pause)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            async with checkpoints.exclusive("ada"):
                pass


async def test_a_cancelled_waiter_leaves_no_lock(url: str):
    async with opened(url) as waiting, opened(url, timeout_s=10) as other:
        async with waiting.exclusive("grace"):
            pass
        for steps in range(0, 30, 2):
            call = asyncio.create_task(waiting.exclusive("ada").__aenter__())
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            try:
                await call
            except asyncio.CancelledError:
                pass
            else:
                break
            async with other.exclusive("ada"):
                pass
        async with other.exclusive("ada"):
            call = asyncio.create_task(waiting.exclusive("ada").__aenter__())
            await asyncio.sleep(0.05)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        async with other.exclusive("ada"):
            pass


HOLDING = """if True:
    import asyncio, sys
    from pathlib import Path
    from interlock.stores.checkpoints import open_checkpoints

    async def hold():
        checkpoints = open_checkpoints(sys.argv[1], path=Path(), types=())
        async with checkpoints.exclusive("ada"):
            print("held", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
        await checkpoints.aclose()
        print("free", flush=True)
        sys.stdin.readline()

    asyncio.run(hold())
"""


@contextmanager
def holding(url: str) -> Generator[subprocess.Popen[str]]:
    """Run a process that holds a session until it is told to let go."""
    process = subprocess.Popen([sys.executable, "-c", HOLDING, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_a_killed_process_releases_its_lock(url: str):
    with holding(url) as process:
        async with opened(url, timeout_s=1) as checkpoints:
            with pytest.raises(SessionBusy):
                await checkpoints.exclusive("ada").__aenter__()
        async with opened(url, timeout_s=30) as checkpoints:
            waiting = asyncio.create_task(checkpoints.exclusive("ada").__aenter__())
            await asyncio.sleep(0.2)
            assert not waiting.done()
            process.send_signal(signal.SIGKILL)
            begun = time.monotonic()
            await waiting
            assert time.monotonic() - begun < 10


async def test_a_process_releases_its_lock_after_its_turn(url: str):
    with holding(url) as process:
        async with opened(url, timeout_s=30) as checkpoints:
            waiting = asyncio.create_task(checkpoints.exclusive("ada").__aenter__())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            await waiting


async def test_released_locks_leave_no_files(path: Path):
    folder = path.with_name("checkpoints.db.locks")
    async with opened(path) as checkpoints:
        for number in range(20):
            async with checkpoints.exclusive(str(number)), checkpoints.exclusive("ada"):
                assert len(list(folder.iterdir())) == 2
        assert list(folder.iterdir()) == []
        (folder / "left-by-somebody").touch()


async def test_a_lock_whose_file_was_deleted_is_acquired_again(path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two who wait for one file must not both have it: the one that is gone is worth nothing."""
    async with opened(path) as one, opened(path, timeout_s=0.2) as other:
        async with one.exclusive("ada"):
            pass
        opening, raced = os.open, []

        def late(name: Any, flags: int, mode: int = 0o777) -> int:
            made = opening(name, flags, mode)
            if not raced:
                raced.append(made)
                Path(name).unlink()  # by the one who has just had it
            return made

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", late)
            async with one.exclusive("ada"):
                assert raced
                with pytest.raises(SessionBusy):
                    await other.exclusive("ada").__aenter__()


async def test_a_lost_lock_connection_is_replaced(postgres: PostgresServer, database: str):
    url = postgres.database(database)
    async with opened(url) as checkpoints, opened(url) as other:
        ending = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database}'"  # noqa: S608 - the test's own
        async with checkpoints.exclusive("ada"):
            postgres.run(ending)
            async with other.exclusive("ada"):  # as the server sees it, nobody has it
                pass
        async with checkpoints.exclusive("ada"):
            pass
        postgres.run(ending)
        async with checkpoints.exclusive("ada"):
            assert await kept(await checkpoints.saver()) is None


async def test_one_connection_holds_the_locks_of_many_sessions(postgres: PostgresServer, database: str):
    async with opened(postgres.database(database)) as checkpoints:
        both = asyncio.Barrier(51)

        async def turn(session: str) -> None:
            async with checkpoints.exclusive(session):
                await both.wait()
                await both.wait()

        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(turn(str(number)))
            await both.wait()
            ((count,),) = postgres.run(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'")  # noqa: S608
            ((locks,),) = postgres.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
            await both.wait()
        assert (count, locks) == (1, 50)
        ((locks,),) = postgres.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        assert locks == 0
