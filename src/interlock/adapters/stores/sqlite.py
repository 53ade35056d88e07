"""A SQLite file in the layout of LangGraph's store.

Of `langgraph.store.sqlite` only the tables are taken; `SqliteStore` opens the same file. Its classes were tried first:

    AsyncSqliteStore  465 us a read, by way of a task and a thread; a read and a write of the same moment become one
                      transaction, which another process's write fails at once, whatever the timeout
    SqliteStore       33 us a read; commits what has failed, so that a full disk is reported as "no transaction is active";
                      two processes that make the tables at once fail, and one that is killed then leaves them unusable
    the rows          6 us a read, and a thread around it: reading on the event loop blocks it while the disk is slow
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic_core import from_json

from interlock.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable

__all__ = ["BUSY", "CORRUPT", "FULL", "LONGEST_S", "PRIMARY", "Row", "SqliteFile", "check_writable", "create"]

# As bytes: text that is damaged would be quoted in the error.
_READ = "SELECT CAST(value AS BLOB) FROM store WHERE prefix = ? AND key = ?"
_WRITE = (
    "INSERT INTO store (prefix, key, value) VALUES (?, ?, ?) "
    "ON CONFLICT (prefix, key) DO UPDATE SET value = excluded.value, updated_at = CURRENT_TIMESTAMP"
)
_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'store'"

FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})  # the second: no room for the index of the log
CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR})
BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
PRIMARY = 0xFF  # an extended code holds its primary one in the low byte

LONGEST_S = 86_400.0  # SQLite counts milliseconds, and takes more of them than an int holds for none

_CREATING = threading.Lock()

T = TypeVar("T")


class Row(NamedTuple):
    """What is kept for a key."""

    value: Any


class SqliteFile:
    """Keeps values in a file. All work is done in a thread, because a file blocks the event loop for as long as the disk takes."""

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        self._path = path.absolute()
        self._name = str(self._path)
        self._timeout_s = min(timeout_s, LONGEST_S)
        self._lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._writes: tuple[int, int] | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def aget(self, namespace: tuple[str, ...], key: str) -> Row | None:
        """Return what is kept for a key."""
        row = (".".join(namespace), key)
        return self._row(await self._in_thread(lambda _: self._opened().execute(_READ, row).fetchall()))

    async def aput(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        """Replace what is kept for a key. When this returns, it outlives the process; when it fails, nothing is replaced."""
        row = (".".join(namespace), key, json.dumps(value, ensure_ascii=False))
        await self._in_thread(lambda decided: self._put(row, decided))

    async def aclose(self) -> None:
        """Close the file and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self._close_writer)
        finally:
            thread.shutdown()

    def _row(self, found: list[tuple[bytes]]) -> Row | None:
        if not found:
            return None
        try:
            return Row(from_json(found[0][0]))
        except ValueError as error:
            raise StoreCorrupt(f"A row of '{self._path}' is not JSON; it is left as it is.") from error

    def _file(self) -> tuple[int, int]:
        """Tell which file it is: one that was deleted stays readable to whoever has it open, and takes what is written with it."""
        found = os.stat(self._name)  # noqa: PTH116 - a third of the time
        return found.st_dev, found.st_ino

    def _put(self, row: tuple[str, str, str], decided: threading.Lock) -> None:
        """Write a row, unless whoever wanted that has been told by now that it was not done in time."""
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE").close()
            connection.execute(_WRITE, row).close()
            if not decided.acquire(blocking=False):
                connection.rollback()

    async def _in_thread(self, work: Callable[[threading.Lock], T]) -> T:
        """Run in the one thread, so that whoever waits for a lock or the disk holds nobody up but others who would wait too.

        The thread goes on when nobody waits for it any more. So there is a lock, which is taken once: by the thread, which may then commit
        and is waited for, or by whoever has waited too long.
        """
        with self._lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interlock-memory")
            thread = self._thread
        decided = threading.Lock()
        result = asyncio.get_running_loop().run_in_executor(thread, self._translated, work, decided)
        try:
            await asyncio.wait({result}, timeout=self._timeout_s)
        except asyncio.CancelledError:
            decided.acquire(blocking=False)
            result.cancel()
            raise
        if not result.done() and decided.acquire(blocking=False):
            result.cancel()
            raise StoreUnavailable(f"Memory '{self._path}' was not free within {self._timeout_s:g} s.")
        return await result

    def _translated(self, work: Callable[[threading.Lock], T], decided: threading.Lock) -> T:
        try:
            return work(decided)
        except sqlite3.Error as error:
            self._close_writer()  # the next one begins with what is on the disk then
            raise self._failed(error) from error
        except OSError as error:
            raise StoreUnavailable(f"Memory '{self._path}' cannot be opened ({error.strerror}).") from error

    def _failed(self, error: sqlite3.Error) -> StoreError:
        code: int | None = getattr(error, "sqlite_errorcode", None)
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if code is not None and {code, code & PRIMARY} & FULL:
            return StoreFull(f"There is no room left for memory '{self._path}'.")
        if code is not None and code & PRIMARY in CORRUPT:
            return StoreCorrupt(f"Memory '{self._path}' is damaged or is no file of ours ({name}); it is left as it is.")
        return StoreUnavailable(f"Memory '{self._path}' cannot be used ({name}).")

    def _opened(self) -> sqlite3.Connection:
        if self._writer is not None and self._writes == self._seen():
            return self._writer
        self._close_writer()
        create(self._path)
        check_writable(self._path)
        self._writes = self._file()
        self._writer = sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False)
        _log_ahead(self._writer, time.monotonic() + self._timeout_s)
        if self._writer.execute(_TABLE).fetchone() is None:
            _set_up(self._writer)
        return self._writer

    def _seen(self) -> tuple[int, int] | None:
        try:
            return self._file()
        except FileNotFoundError:
            return None

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def create(path: Path) -> None:
    """Make the file and its folders, for their owner only. What exists is left as it is."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    # Closing a file lets go of every lock that the process has on it, also those of somebody else's connection: so it is
    # only ever opened when it is new, and by one thread at a time.
    with _CREATING, contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def check_writable(path: Path) -> None:
    """Refuse a file that is read-only: SQLite would open it, and leave read-only files beside it that outlast the reason."""
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _log_ahead(connection: sqlite3.Connection, deadline: float) -> None:
    """Have readers and a writer not wait for one another. SQLite does not wait by itself for others who do the same."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & PRIMARY not in BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return


def _set_up(connection: sqlite3.Connection) -> None:
    """Make LangGraph's tables in one step: all of them or none, also when several processes do it or one is killed."""
    from langgraph.store.sqlite import SqliteStore  # noqa: PLC0415 - takes a third of a second, once in the life of a file

    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE IF NOT EXISTS store_migrations (v INTEGER PRIMARY KEY)")
        done: int = connection.execute("SELECT coalesce(max(v), -1) FROM store_migrations").fetchone()[0]
        for version, migration in enumerate(SqliteStore.MIGRATIONS):
            if version > done:
                connection.execute(migration)
                connection.execute("INSERT INTO store_migrations (v) VALUES (?)", (version,))
