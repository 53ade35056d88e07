"""Memory in a SQLite file with the tables of LangGraph's store.

Only the tables of `langgraph.store.sqlite` are used, so `SqliteStore` can open the same file. Its classes were tried first:

    AsyncSqliteStore  465 us a read, through a task and a thread; a concurrent read and write become one transaction, which
                      a write of another process fails at once, whatever the timeout
    SqliteStore       33 us a read; commits after a failure, so that a full disk is reported as "no transaction is active";
                      fails when two processes create the tables at once, and leaves them unusable if killed meanwhile
    plain SQL         6 us a read, plus a thread: reading on the event loop would block it while the disk is slow
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

__all__ = [
    "BUSY",
    "CORRUPT",
    "FULL",
    "LONGEST_S",
    "PRIMARY",
    "Row",
    "SqliteFile",
    "check_writable",
    "create",
    "file_identity",
    "log_ahead",
    "store_error",
]

# As bytes: the error about damaged text would quote it.
_READ = "SELECT CAST(value AS BLOB) FROM store WHERE prefix = ? AND key = ?"
_WRITE = (
    "INSERT INTO store (prefix, key, value) VALUES (?, ?, ?) "
    "ON CONFLICT (prefix, key) DO UPDATE SET value = excluded.value, updated_at = CURRENT_TIMESTAMP"
)
_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'store'"

FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})  # the second: no space for the index of the WAL
CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR})
BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
PRIMARY = 0xFF  # an extended code holds its primary one in the low byte

LONGEST_S = 86_400.0  # SQLite counts milliseconds, and treats more than fit into an int as no timeout

_CREATING = threading.Lock()

T = TypeVar("T")


class Row(NamedTuple):
    """The value of a key, as LangGraph's `Item` has it."""

    value: Any


class SqliteFile:
    """Key-value store in a file. All work runs in a thread, because a slow disk would block the event loop."""

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        self._path = path.absolute()
        self._timeout_s = min(timeout_s, LONGEST_S)
        self._lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._writes: tuple[int, int] | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def aget(self, namespace: tuple[str, ...], key: str) -> Row | None:
        """Return the row of a key, or None."""
        row = (".".join(namespace), key)
        return self._row(await self._in_thread(lambda _: self._opened().execute(_READ, row).fetchall()))

    async def aput(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        """Replace the value of a key durably. If this fails, the value is unchanged."""
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
            raise StoreCorrupt(f"A row of '{self._path}' is not JSON. It is left as it is.") from error

    def _put(self, row: tuple[str, str, str], decided: threading.Lock) -> None:
        """Write a row, unless the caller has already got a timeout error."""
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE").close()
            connection.execute(_WRITE, row).close()
            if not decided.acquire(blocking=False):
                connection.rollback()

    async def _in_thread(self, work: Callable[[threading.Lock], T]) -> T:
        """Run in the one worker thread, so that waiting for a lock or the disk does not block the event loop.

        The thread continues after the caller has timed out. So `decided` is acquired exactly once: by the thread, which may then
        commit and is waited for, or by the caller, which then raises the timeout error.
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
            raise StoreUnavailable(f"Memory '{self._path}' was locked for more than {self._timeout_s:g} s. Try again.")
        return await result

    def _translated(self, work: Callable[[threading.Lock], T], decided: threading.Lock) -> T:
        try:
            return work(decided)
        except (sqlite3.Error, OSError) as error:
            self._close_writer()  # the next call reopens the file
            raise store_error(error, f"memory '{self._path}'") from error

    def _opened(self) -> sqlite3.Connection:
        if self._writer is not None and self._writes == file_identity(self._path):
            return self._writer
        self._close_writer()
        create(self._path)
        check_writable(self._path)
        self._writes = file_identity(self._path)
        self._writer = sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False)
        log_ahead(self._writer, time.monotonic() + self._timeout_s)
        if self._writer.execute(_TABLE).fetchone() is None:
            _set_up(self._writer)
        return self._writer

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def store_error(error: sqlite3.Error | OSError, what: str) -> StoreError:
    """Translate an error about a file. `what` names the store and its file."""
    if isinstance(error, OSError):
        if error.errno in _NO_ROOM:
            return StoreFull(f"The disk is full: {what} cannot be written. Free some space.")
        return StoreUnavailable(f"The {what} cannot be opened ({error.strerror or type(error).__name__}).")
    code: int | None = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code is not None and {code, code & PRIMARY} & FULL:
        return StoreFull(f"The disk is full: {what} cannot be written. Free some space.")
    if code is not None and code & PRIMARY in CORRUPT:
        return StoreCorrupt(f"The {what} is damaged, or has other tables ({name}). It is left as it is.")
    return StoreUnavailable(f"The {what} cannot be used ({name}).")


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, or None. A deleted file stays readable while it is open, but what is written to it is lost."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def create(path: Path) -> None:
    """Create the file and its folders with access for the owner only. Existing ones are not changed."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    # Closing a file releases every POSIX lock of the process on it, including those of other connections. So it is opened
    # here only when it is new, and by one thread at a time.
    with _CREATING, contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def check_writable(path: Path) -> None:
    """Raise PermissionError for a read-only file: SQLite would open it and create read-only WAL files beside it, which stay."""
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def log_ahead(connection: sqlite3.Connection, deadline: float) -> None:
    """Switch to write-ahead logging, so that readers and a writer do not block each other. SQLite's timeout does not apply here."""
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
    """Create LangGraph's tables in one transaction, so that a killed or a concurrent process leaves none half done."""
    from langgraph.store.sqlite import SqliteStore  # noqa: PLC0415 - takes a third of a second, once in the life of a file

    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE IF NOT EXISTS store_migrations (v INTEGER PRIMARY KEY)")
        done: int = connection.execute("SELECT coalesce(max(v), -1) FROM store_migrations").fetchone()[0]
        for version, migration in enumerate(SqliteStore.MIGRATIONS):
            if version > done:
                connection.execute(migration)
                connection.execute("INSERT INTO store_migrations (v) VALUES (?)", (version,))
