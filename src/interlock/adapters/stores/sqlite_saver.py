"""Checkpoints in a SQLite file, by LangGraph's `AsyncSqliteSaver`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from interlock.adapters.stores.exclusion import overtaken
from interlock.adapters.stores.savers import Call, Put, Saver, finished
from interlock.adapters.stores.sqlite import (
    BUSY,
    CORRUPT,
    FULL,
    LONGEST_S,
    PRIMARY,
    check_writable,
    create,
)
from interlock.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable

__all__ = ["SqliteSaver"]

_ROWS = 64
_NEWEST = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id DESC LIMIT 1"
_OWN = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"

T = TypeVar("T")


class SqliteSaver(Saver):
    """Keeps checkpoints in a file, by one connection, of which one caller at a time has the use. It belongs to one event loop.

    A call that is cancelled is first brought to its end: what it has begun would hold up every other process.
    """

    def __init__(self, path: Path, *, serde: SerializerProtocol, timeout_s: float) -> None:
        super().__init__(serde)
        self._path = path.absolute()
        self._timeout_s = min(timeout_s, LONGEST_S)
        self._lock = asyncio.Lock()
        self._inner: AsyncSqliteSaver | None = None
        self._file: tuple[int, int] | None = None

    async def open(self) -> None:
        """Make the file and its tables unless they are there."""

        async def nothing(_: Any) -> None:
            pass

        await self._run(nothing)

    async def aclose(self) -> None:
        """Close the file when nobody uses it; a later call opens it anew."""
        async with self._lock:
            await finished(self._close())

    async def abandon(self) -> None:
        """Close the file where the event loop that used it has ended, and with it whoever might still use it."""
        await self._close()

    async def _put_after(self, inner: AsyncSqliteSaver, put: Put, expected: str | None) -> None:
        await inner.conn.execute_fetchall("BEGIN IMMEDIATE")  # from here to the commit nobody else writes to the file
        if expected == await _first(inner.conn, _NEWEST, *put.thread):
            await inner.aput(*put)  # which commits
        elif await _first(inner.conn, _OWN, *put.thread, put.checkpoint["id"]) is None:
            raise overtaken()
        else:
            await inner.conn.rollback()

    async def _run(self, call: Call[T]) -> T:
        async with self._lock:
            return await finished(self._translated(call))

    async def _translated(self, call: Call[T]) -> T:
        try:
            inner = await self._opened()
            try:
                return await call(inner)
            except BaseException:
                await inner.conn.rollback()  # comes after what is still being done in the connection's thread
                raise
        except sqlite3.Error as error:
            await self._close()  # the next one begins with what is on the disk then
            raise self._failed(error) from error
        except OSError as error:
            raise self._unopened(error) from error

    async def _opened(self) -> AsyncSqliteSaver:
        if self._inner is not None and self._file == self._seen():
            return self._inner
        await self._close()
        create(self._path)
        check_writable(self._path)
        file = self._seen()
        made = await asyncio.to_thread(sqlite3.connect, self._path, timeout=self._timeout_s, check_same_thread=False)
        connection = aiosqlite.Connection(lambda: made, iter_chunk_size=_ROWS)  # where it connects itself and fails, its thread outlives it
        _thread(connection).daemon = True  # a process whose owner forgets to close it ends all the same
        inner = AsyncSqliteSaver(await connection, serde=self.serde)
        try:
            await connection.execute_fetchall("PRAGMA synchronous = FULL")  # what was acknowledged outlives a power cut
            await self._set_up(inner)
        except BaseException:
            await connection.close()
            raise
        self._inner, self._file = inner, file
        return inner

    async def _set_up(self, inner: AsyncSqliteSaver) -> None:
        """Make the tables. SQLite does not wait by itself for others who do the same."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        while True:
            try:
                await inner.setup()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & PRIMARY not in BUSY or loop.time() > deadline:
                    raise
                await asyncio.sleep(0.005)
            else:
                return

    def _seen(self) -> tuple[int, int] | None:
        """Tell which file it is: one that was deleted takes what is written with it."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    async def _close(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None and _thread(inner.conn).is_alive():  # or there is nobody who would answer
            with contextlib.suppress(sqlite3.Error):
                await inner.conn.close()

    def _failed(self, error: sqlite3.Error) -> StoreError:
        code: int | None = getattr(error, "sqlite_errorcode", None)
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if code is not None and {code, code & PRIMARY} & FULL:
            return StoreFull(f"There is no room left for the checkpoints in '{self._path}'.")
        if code is not None and code & PRIMARY in CORRUPT:
            return StoreCorrupt(f"The file '{self._path}' is damaged or holds no checkpoints ({name}); it is left as it is.")
        return StoreUnavailable(f"The checkpoints in '{self._path}' cannot be used ({name}).")

    def _unopened(self, error: OSError) -> StoreError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StoreFull(f"There is no room left for the checkpoints in '{self._path}'.")
        return StoreUnavailable(f"The checkpoints in '{self._path}' cannot be opened ({error.strerror or os.strerror(error.errno or 0)}).")


async def _first(connection: aiosqlite.Connection, statement: str, *values: str) -> Any:
    for row in await connection.execute_fetchall(statement, values):
        return row[0]
    return None


def _thread(connection: aiosqlite.Connection) -> threading.Thread:
    return getattr(connection, "_thread")  # noqa: B009 - it has no other name
