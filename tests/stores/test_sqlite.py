# ruff: noqa: ASYNC240 - files of a test's own, which nobody waits for
from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.sqlite import SqliteStore

from interlock.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from interlock.stores.memory import StoredMemory, open_memory
from tests.support.nobody import owned_by_nobody


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "memory.sqlite"


def opened(path: Path, *, timeout_s: float = 30) -> StoredMemory:
    return open_memory(None, path=path, timeout_s=timeout_s)


async def told(path: Path, *, times: int = 1) -> None:
    """Leave a file in which something is remembered of ada."""
    memory = opened(path)
    for number in range(times):
        await memory.remember(f"ada {number}", "x" * 2000)
    await memory.remember("ada", "likes tea")
    await memory.aclose()


@contextmanager
def somebody_else(path: Path, *statements: str) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        for statement in statements:
            connection.execute(statement)
        yield connection


async def fails(memory: StoredMemory, error: type[StoreError], *, says: str | None = None) -> None:
    for call in (lambda: memory.recall("ada"), lambda: memory.remember("ada", "likes coffee"), memory.ping):
        with pytest.raises(error, match=says) as caught:
            await call()
        assert type(caught.value) is error
        assert str(caught.value).endswith(".")


# Fast


async def test_the_file_is_used_by_one_thread_that_ends_with_aclose(path: Path, monkeypatch: pytest.MonkeyPatch):
    await told(path)
    connect, opened_in = sqlite3.connect, list[threading.Thread]()

    def watched(*given: Any, **more: Any) -> sqlite3.Connection:
        opened_in.append(threading.current_thread())
        return connect(*given, **{**more, "check_same_thread": True})  # so that SQLite refuses every other thread

    monkeypatch.setattr(sqlite3, "connect", watched)
    memory = opened(path)
    before = set(threading.enumerate())
    assert [await memory.recall("ada"), await memory.recall("grace")] == ["likes tea", None]
    await memory.remember("ada", "likes coffee")
    assert await memory.recall("ada") == "likes coffee"
    assert set(threading.enumerate()) - before == set(opened_in)
    assert len(opened_in) == 1
    await memory.aclose()
    assert set(threading.enumerate()) <= before


def test_langgraph_is_imported_only_for_a_new_file(path: Path):
    asyncio.run(told(path))
    code = """if True:
        import asyncio, sys
        from pathlib import Path
        from interlock.stores.memory import open_memory

        async def turn():
            memory = open_memory(None, path=Path(sys.argv[1]), timeout_s=30)
            assert await memory.recall("ada") == "likes tea"
            await memory.remember("ada", "likes coffee")
            await memory.aclose()

        asyncio.run(turn())
        assert not [name for name in sys.modules if name.startswith(("langgraph", "langchain", "psycopg"))]
    """
    subprocess.run([sys.executable, "-c", code, path], check=True)


async def test_waiting_for_a_lock_does_not_block_the_event_loop(path: Path):
    await told(path)
    memory = opened(path)
    loop = asyncio.get_running_loop()
    with somebody_else(path, "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE") as other:
        calls = [asyncio.create_task(memory.recall("ada")), asyncio.create_task(memory.remember("grace", "likes tea"))]
        begun = loop.time()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert loop.time() - begun < 10
        assert not any(call.done() for call in calls)
        other.execute("COMMIT")
        other.close()
        assert (await asyncio.gather(*calls))[0] == "likes tea"
    await memory.aclose()


# Several at once


async def test_a_file_can_be_read_while_another_process_writes(path: Path):
    await told(path)
    memory = opened(path, timeout_s=0.2)
    with somebody_else(path, "BEGIN IMMEDIATE", "UPDATE store SET value = '{}'"):
        assert await memory.recall("ada") == "likes tea"
        with pytest.raises(StoreUnavailable):
            await memory.remember("ada", "likes coffee")
    assert await memory.recall("ada") == "likes tea"
    await memory.aclose()


async def test_a_write_that_timed_out_is_not_applied_later(path: Path):
    await told(path)
    memory = opened(path, timeout_s=0.6)
    with somebody_else(path, "BEGIN IMMEDIATE"):
        first = asyncio.create_task(memory.remember("ada", "likes coffee"))  # has the thread, and leaves it to the next one
        await asyncio.sleep(0.3)
        with pytest.raises(StoreUnavailable):
            await memory.remember("ada", "likes cocoa")
        with pytest.raises(StoreUnavailable):
            await first
    assert await memory.recall("ada") == "likes tea"
    await memory.remember("ada", "likes water")
    assert await memory.recall("ada") == "likes water"
    await memory.aclose()


async def test_a_locked_file_is_unavailable_within_one_timeout_for_all_callers(path: Path):
    await told(path)
    memory = opened(path, timeout_s=0.3)
    loop = asyncio.get_running_loop()
    with somebody_else(path, "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"):
        begun = loop.time()
        calls = [memory.recall("ada") for _ in range(10)] + [memory.remember("ada", "likes coffee") for _ in range(10)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(end) for end in ends} == {StoreUnavailable}
        assert loop.time() - begun < 4
    assert await memory.recall("ada") == "likes tea"
    await memory.aclose()


async def test_a_file_can_be_written_while_another_process_reads(path: Path):
    await told(path)
    memory = opened(path, timeout_s=5)
    with somebody_else(path, "BEGIN") as other:
        before = other.execute("SELECT * FROM store").fetchall()
        await memory.remember("ada", "likes coffee")
        assert await memory.recall("ada") == "likes coffee"
        assert other.execute("SELECT * FROM store").fetchall() == before
    await memory.aclose()


@pytest.mark.parametrize("timeout_s", [30, 1 << 31])
@pytest.mark.parametrize(
    "held",
    [
        ["CREATE TABLE other (a)", "BEGIN EXCLUSIVE"],
        ["CREATE TABLE other (a)", "BEGIN IMMEDIATE"],
        ["CREATE TABLE other (a)", "BEGIN", "SELECT * FROM other"],
        ["PRAGMA journal_mode = WAL", "CREATE TABLE store_migrations (v INTEGER PRIMARY KEY)", "BEGIN IMMEDIATE"],
    ],
    ids=["written", "to-be-written", "read", "set-up"],
)
async def test_setup_waits_for_a_locked_new_file(path: Path, timeout_s: float, held: list[str]):
    path.parent.mkdir()
    memory = opened(path, timeout_s=timeout_s)
    with somebody_else(path, *held) as other:
        await is_waited_for(memory, other)


@pytest.mark.parametrize("timeout_s", [30, 1 << 31])
async def test_a_write_waits_for_another_writer(path: Path, timeout_s: float):
    memory = opened(path, timeout_s=timeout_s)
    await memory.ping()
    with somebody_else(path, "BEGIN IMMEDIATE") as other:
        await is_waited_for(memory, other)


async def is_waited_for(memory: StoredMemory, other: sqlite3.Connection) -> None:
    call = asyncio.create_task(memory.remember("ada", "likes tea"))
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert not call.done()
    other.execute("COMMIT")
    await call
    assert await memory.recall("ada") == "likes tea"
    await memory.aclose()


async def test_opening_a_file_keeps_the_locks_of_other_connections(path: Path):
    path.parent.mkdir()
    memory = opened(path, timeout_s=0.2)
    with somebody_else(path, "CREATE TABLE other (a)", "BEGIN EXCLUSIVE"):
        with pytest.raises(StoreUnavailable):
            await memory.remember("ada", "likes tea")
        code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('INSERT INTO other VALUES (1)')"
        outside = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)  # noqa: ASYNC221
        assert "database is locked" in outside.stderr
    await memory.aclose()


async def test_tables_are_created_atomically(path: Path, monkeypatch: pytest.MonkeyPatch):
    memory = opened(path)
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "MIGRATIONS", [*SqliteStore.MIGRATIONS, "CREATE NONSENSE"])
        await fails(memory, StoreCorrupt)
    with somebody_else(path) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == []
    await memory.remember("ada", "likes tea")
    assert await memory.recall("ada") == "likes tea"
    await memory.aclose()


async def test_the_file_is_compatible_with_langgraphs_store(path: Path):
    await told(path)
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        (item,) = store.search(("desk", "memory"), filter={"text": "likes tea"})
        store.put(item.namespace, item.key, {"text": "likes coffee"})
    memory = opened(path)
    assert await memory.recall("ada") == "likes coffee"
    await memory.aclose()

    other = path.with_name("other.sqlite")
    with SqliteStore.from_conn_string(str(other)) as store:
        store.setup()
        store.put(item.namespace, item.key, {"text": "likes water"})
    memory = opened(other)
    assert await memory.recall("ada") == "likes water"
    await memory.remember("ada", "likes wine")
    await memory.aclose()
    with SqliteStore.from_conn_string(str(other)) as store:
        again = store.get(item.namespace, item.key)
        assert again is not None
        assert again.value == {"text": "likes wine"}


# Private


@pytest.mark.parametrize("mask", [0o000, 0o022])
async def test_the_file_and_its_folders_are_private(tmp_path: Path, mask: int):
    tmp_path.chmod(0o755)
    path = tmp_path / "a" / "b" / "memory.sqlite"
    before = os.umask(mask)
    try:
        memory = opened(path)
        await memory.remember("ada", "likes tea")
        files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert files == {"memory.sqlite": 0o600, "memory.sqlite-wal": 0o600, "memory.sqlite-shm": 0o600}
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)] == [0o700, 0o700]
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    await memory.aclose()
    assert [file.name for file in path.parent.iterdir()] == ["memory.sqlite"]


async def test_a_file_name_may_have_characters_that_urls_escape(tmp_path: Path):
    path = tmp_path / "a b?mode=ro#%41" / "é memory.sqlite"
    await told(path)
    memory = opened(path)
    assert await memory.recall("ada") == "likes tea"
    await memory.aclose()
    assert [[one.name for one in folder.iterdir()] for folder in (tmp_path, path.parent)] == [[path.parent.name], [path.name]]


async def test_a_deleted_file_is_forgotten_and_created_again(path: Path):
    memory = opened(path)
    await memory.remember("ada", "likes tea")
    assert await memory.recall("ada") == "likes tea"
    for file in path.parent.iterdir():
        file.unlink()
    assert await memory.recall("ada") is None
    for file in path.parent.iterdir():
        file.unlink()
    await memory.remember("ada", "likes coffee")
    assert await memory.recall("ada") == "likes coffee"
    await memory.aclose()
    again = opened(path)
    assert await again.recall("ada") == "likes coffee"
    await again.aclose()


async def test_a_replaced_file_is_used(path: Path):
    await told(path)
    memory = opened(path)
    assert await memory.recall("ada") == "likes tea"
    other = opened(path.with_name("other.sqlite"))
    await other.remember("ada", "likes water")
    await other.aclose()
    path.with_name("other.sqlite").replace(path)
    assert await memory.recall("ada") == "likes water"
    await memory.aclose()


# What goes wrong


async def test_a_folder_with_the_name_of_the_file_is_unavailable(path: Path):
    path.mkdir(parents=True)
    memory = opened(path)
    await fails(memory, StoreUnavailable, says=r"memory\.sqlite' cannot be used")
    path.rmdir()
    await memory.remember("ada", "likes tea")
    await memory.aclose()


async def test_a_file_with_the_name_of_the_folder_is_unavailable(path: Path):
    path.parent.write_text("in the way")
    memory = opened(path)
    await fails(memory, StoreUnavailable, says="cannot be opened")
    assert path.parent.read_text() == "in the way"
    await memory.aclose()


async def test_a_read_only_folder_is_unavailable_until_it_is_writable():
    with owned_by_nobody() as folder:
        folder.chmod(0o500)
        memory = opened(folder / "memory.sqlite")
        await fails(memory, StoreUnavailable, says=r"cannot be opened \(Permission denied\)")
        folder.chmod(0o700)
        await memory.remember("ada", "likes tea")
        await memory.aclose()


async def test_a_read_only_file_is_unavailable_until_it_is_writable():
    with owned_by_nobody() as folder:
        path = folder / "memory.sqlite"
        await told(path)
        path.chmod(0o400)
        memory = opened(path)
        await fails(memory, StoreUnavailable, says=r"cannot be opened \(Permission denied\)")
        path.chmod(0o600)
        assert await memory.recall("ada") == "likes tea"
        await memory.remember("ada", "likes coffee")
        assert await memory.recall("ada") == "likes coffee"
        await memory.aclose()


async def test_a_folder_that_becomes_read_only_is_unavailable():
    with owned_by_nobody() as folder:
        path = folder / "memory.sqlite"
        await told(path)
        folder.chmod(0o500)
        memory = opened(path)
        await fails(memory, StoreUnavailable, says="cannot be used")
        folder.chmod(0o700)
        await memory.remember("ada", "likes coffee")
        assert await memory.recall("ada") == "likes coffee"
        await memory.aclose()


async def test_a_full_disk_is_reported_and_keeps_stored_texts(path: Path, monkeypatch: pytest.MonkeyPatch):
    await told(path)
    connect, made = sqlite3.connect, list[sqlite3.Connection]()

    def cramped(*given: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(*given, **more)
        connection.execute("PRAGMA max_page_count = 1").close()
        made.append(connection)
        return connection

    memory = opened(path)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", cramped)
        for _ in range(2):
            with pytest.raises(StoreFull, match="disk is full"):
                await memory.remember("grace", "x" * 60_000)
            assert await memory.recall("ada") == "likes tea"
    made[-1].execute("PRAGMA max_page_count = 1000000").close()  # there is room again
    await memory.remember("grace", "x" * 60_000)
    assert await memory.recall("grace") == "x" * 60_000
    await memory.aclose()


@pytest.mark.parametrize(
    "content", [b"this is not a database, but it is long enough to be one" * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
async def test_a_file_that_is_not_a_database_is_corrupt_and_not_changed(path: Path, content: bytes):
    path.parent.mkdir()
    path.write_bytes(content)
    memory = opened(path)
    await fails(memory, StoreCorrupt, says=r"It is left as it is\.$")
    await memory.aclose()
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


async def test_a_file_with_damaged_pages_is_corrupt_and_not_changed(path: Path):
    await told(path, times=50)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    memory = opened(path)
    await fails(memory, StoreCorrupt, says="SQLITE_CORRUPT")
    await memory.aclose()
    assert path.read_bytes() == content


async def test_a_repaired_file_is_used_without_a_restart(path: Path):
    await told(path)
    content = path.read_bytes()
    path.write_bytes(b"no database" * 500)
    memory = opened(path)
    await fails(memory, StoreCorrupt)
    path.write_bytes(content)
    assert await memory.recall("ada") == "likes tea"
    await memory.aclose()


@pytest.mark.parametrize(
    "value",
    ["''", "'{'", '\'{"text": "x\'', "X'FF7B7D'", "CAST(X'7BFF7D' AS TEXT)", '\'{"text": "\\ud800"}\'', '\'{"text": "\\u0000"}\''],
)
async def test_a_row_that_is_not_json_text_is_corrupt_and_not_changed(path: Path, value: str):
    await told(path)
    with somebody_else(path, f"UPDATE store SET value = {value}") as other:  # noqa: S608 - the test's own
        before = other.execute("SELECT hex(value) FROM store").fetchall()
        memory = opened(path)
        with pytest.raises(StoreCorrupt, match="It is left as it is") as caught:
            await memory.recall("ada")
        assert type(caught.value) is StoreCorrupt
        assert other.execute("SELECT hex(value) FROM store").fetchall() == before
        await memory.aclose()


async def test_a_row_that_is_nested_too_deep_is_corrupt(path: Path):
    await told(path)
    with somebody_else(path, "UPDATE store SET value = '" + "[" * 200_000 + "'"):
        memory = opened(path)
        with pytest.raises(StoreCorrupt):
            await memory.recall("ada")
        await memory.aclose()


async def test_an_empty_file_is_set_up_as_a_new_one(path: Path):
    path.parent.mkdir()
    path.touch()
    memory = opened(path)
    assert await memory.recall("ada") is None
    await memory.remember("ada", "likes tea")
    assert await memory.recall("ada") == "likes tea"
    await memory.aclose()


async def test_aclose_releases_the_file(path: Path):
    memory = opened(path)
    await memory.remember("ada", "likes tea")
    assert await memory.recall("ada") == "likes tea"
    await memory.aclose()
    with somebody_else(path, "PRAGMA journal_mode = DELETE") as other:  # refused while anybody has it open
        assert other.execute("PRAGMA journal_mode").fetchall() == [("delete",)]


def test_a_killed_process_loses_no_acknowledged_write(path: Path):
    code = """if True:
        import asyncio, os, signal, sys
        from pathlib import Path
        from interlock.stores.memory import open_memory

        async def turn():
            memory = open_memory(None, path=Path(sys.argv[1]), timeout_s=30)
            for number in range(20):
                await memory.remember("ada", str(number))
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(turn())
    """
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == -9

    async def recalled() -> str | None:
        memory = opened(path)
        text = await memory.recall("ada")
        await memory.aclose()
        return text

    assert asyncio.run(recalled()) == "19"
