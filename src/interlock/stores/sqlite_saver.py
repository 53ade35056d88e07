"""Checkpoints in a SQLite file, by LangGraph's `AsyncSqliteSaver`."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from interlock.stores.locks import state_conflict
from interlock.stores.savers import Call, Put, Saver, run_to_completion
from interlock.stores.sqlite import BUSY, LONGEST_S, PRIMARY, check_writable, create, file_identity, store_error

__all__ = ["SqliteSaver"]

_ROWS = 64
_NEWEST = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id DESC LIMIT 1"
_OWN = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"

T = TypeVar("T")


class SqliteSaver(Saver):
    """Stores checkpoints in a SQLite file over one connection, for one caller at a time. Belongs to one event loop.

    A cancelled call runs to its end first: an open transaction would block every other process.
    """

    def __init__(self, path: Path, *, serde: SerializerProtocol, timeout_s: float) -> None:
        super().__init__(serde)
        self._path = path.absolute()
        self._timeout_s = min(timeout_s, LONGEST_S)
        self._lock = asyncio.Lock()
        self._inner: AsyncSqliteSaver | None = None
        self._file: tuple[int, int] | None = None

    async def open(self) -> None:
        """Create the file and its tables if they do not exist."""

        async def nothing(_: Any) -> None:
            pass

        await self._run(nothing)

    async def aclose(self) -> None:
        """Close the file after the running call. A later call opens it again."""
        async with self._lock:
            await run_to_completion(self._close())

    async def abandon(self) -> None:
        """Close the file of an event loop that has ended, without waiting for its lock."""
        await self._close()

    async def _put_after(self, inner: AsyncSqliteSaver, put: Put, expected: str | None) -> None:
        await inner.conn.execute_fetchall("BEGIN IMMEDIATE")  # no other writer until the commit
        if expected == await _first(inner.conn, _NEWEST, *put.thread):
            await inner.aput(*put)  # which commits
        elif await _first(inner.conn, _OWN, *put.thread, put.checkpoint["id"]) is None:
            raise state_conflict()
        else:
            await inner.conn.rollback()

    async def _run(self, call: Call[T]) -> T:
        async with self._lock:
            return await run_to_completion(self._translated(call))

    async def _translated(self, call: Call[T]) -> T:
        try:
            inner = await self._opened()
            try:
                return await call(inner)
            except BaseException:
                await inner.conn.rollback()  # is queued after the statements that the connection's thread still runs
                raise
        except (sqlite3.Error, OSError) as error:
            await self._close()  # the next call reopens the file
            raise store_error(error, f"checkpoint file '{self._path}'") from error

    async def _opened(self) -> AsyncSqliteSaver:
        if self._inner is not None and self._file == file_identity(self._path):
            return self._inner
        await self._close()
        create(self._path)
        check_writable(self._path)
        file = file_identity(self._path)
        made = await asyncio.to_thread(sqlite3.connect, self._path, timeout=self._timeout_s, check_same_thread=False)
        # Connected above: if aiosqlite fails to connect, its thread never ends.
        connection = aiosqlite.Connection(lambda: made, iter_chunk_size=_ROWS)
        _thread(connection).daemon = True  # so that the process can end without `aclose`
        inner = AsyncSqliteSaver(await connection, serde=self.serde)
        try:
            await connection.execute_fetchall("PRAGMA synchronous = FULL")  # acknowledged writes survive a power cut
            await self._set_up(inner)
        except BaseException:
            await connection.close()
            raise
        self._inner, self._file = inner, file
        return inner

    async def _set_up(self, inner: AsyncSqliteSaver) -> None:
        """Create the tables. Retries while another process does the same, because SQLite's timeout does not apply here."""
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

    async def _close(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None and _thread(inner.conn).is_alive():  # a dead thread would never reply
            with contextlib.suppress(sqlite3.Error):
                await inner.conn.close()


async def _first(connection: aiosqlite.Connection, statement: str, *values: str) -> Any:
    for row in await connection.execute_fetchall(statement, values):
        return row[0]
    return None


def _thread(connection: aiosqlite.Connection) -> threading.Thread:
    return getattr(connection, "_thread")  # noqa: B009 - aiosqlite has no public name for it
