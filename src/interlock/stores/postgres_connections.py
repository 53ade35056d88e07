"""Connections to a PostgreSQL server for calls of one statement each, which are repeated when a connection is cut.

psycopg_pool is not used: with a server that is down, its callers wait until the timeout while the error goes to the log only, and
its connections cannot be closed after their event loop has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from interlock.errors import InterlockError, SettingsInvalid, StateUnstorable, StoreCorrupt, StoreFull, StoreUnavailable
from interlock.stores.event_loops import PerEventLoop

__all__ = ["Connection", "PostgresConnections", "Rows"]

Connection = psycopg.AsyncConnection[Any]
Rows = list[tuple[Any, ...]]

_CONNECTIONS = 8
_ATTEMPTS = 5
_REPEATABLE = ("40001", "40P01")  # rolled back: a concurrent transaction was first, or a deadlock
_RESOURCES = "53"
_UNTRANSLATABLE = ("22021", "22P05")  # the encoding of the database lacks the character
_CORRUPT = ("22", "42", "3F", "XX001", "XX002")  # damaged, or tables of another schema

T = TypeVar("T")


class _IdleConnections:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self.idle: list[Connection] = []
        self.free = asyncio.Semaphore(_CONNECTIONS)
        self.tasks: set[asyncio.Task[Any]] = set()

    def finish(self) -> None:
        while self.idle:
            connection = self.idle.pop()  # a name for it: psycopg warns of a connection that is deleted before it is closed
            connection.pgconn.finish()


class PostgresConnections:
    """Runs statements, each of them a transaction. Connects at first use, and replaces connections that have died.

    `set_up` is called with the first connection, and again after a failure. `what` names in messages what is stored. A statement that
    was sent runs to its end even if its caller is cancelled.
    """

    def __init__(self, url: str, *, what: str, set_up: Callable[[Connection], Awaitable[None]], timeout_s: float) -> None:
        self._url = url
        self._name = f"{what} on '{_server_name(url)}'"
        self._set_up = set_up
        self._timeout_s = timeout_s
        self._is_set_up = False
        self._pools = PerEventLoop(_IdleConnections, release=_IdleConnections.finish)

    async def query(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        """Run a statement and return its rows. If the connection is cut before the answer arrives, it is run a second time."""
        pool = self._pools.get()
        task = asyncio.create_task(self._query(pool, statement, values))
        pool.tasks.add(task)
        task.add_done_callback(pool.tasks.discard)
        task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    async def connect(self) -> Connection:
        """Open a connection that is not shared, and set it up."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._connected()
        except (TimeoutError, psycopg.Error, OSError, UnicodeError) as error:
            raise self._translated(error) from error

    async def aclose(self) -> None:
        """Wait for the statements that were sent, and close the connections of all event loops."""
        pool = self._pools.pop()
        if pool is not None:
            if pool.tasks:
                await asyncio.wait(set(pool.tasks))
            pool.finish()
        self._pools.release_all()

    async def _query(self, pool: _IdleConnections, statement: str, values: Sequence[Any]) -> Rows:
        try:
            async with asyncio.timeout(self._timeout_s), pool.free:
                return await self._repeated(pool, statement, values)
        except InterlockError:
            raise
        except (TimeoutError, psycopg.Error, OSError, UnicodeError) as error:
            self._is_set_up = False  # the tables may have been dropped
            raise self._translated(error) from error

    async def _repeated(self, pool: _IdleConnections, statement: str, values: Sequence[Any]) -> Rows:
        is_last = False
        for _ in range(_ATTEMPTS):
            connection = await self._acquired(pool, is_new=is_last)
            try:
                return await self._run_on(pool, connection, statement, values)
            except psycopg.OperationalError as error:
                if error.sqlstate in _REPEATABLE:
                    continue
                if is_last or not connection.closed:
                    raise
                pool.finish()  # the others have died as well
                is_last = True
        raise StoreUnavailable(f"{self._name} is changed by too many others at once. Try again.")

    async def _acquired(self, pool: _IdleConnections, *, is_new: bool) -> Connection:
        while pool.idle and not is_new:
            connection = pool.idle.pop()
            if not connection.closed:
                return connection
        return await self._connected()

    async def _run_on(self, pool: _IdleConnections, connection: Connection, statement: Any, values: Sequence[Any]) -> Rows:
        try:
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(statement, values, prepare=True)
                rows: Rows = await cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error:
            self._keep(pool, connection)
            raise
        except BaseException:
            connection.pgconn.finish()  # a timeout: the answer may still arrive
            raise
        self._keep(pool, connection)
        return rows

    def _keep(self, pool: _IdleConnections, connection: Connection) -> None:
        if connection.closed or not self._pools.has(pool):
            connection.pgconn.finish()
        else:
            pool.idle.append(connection)

    async def _connected(self) -> Connection:
        connection = await _open(self._url)
        try:
            if not self._is_set_up:
                await self._set_up(connection)
                self._is_set_up = True
        except BaseException:
            connection.pgconn.finish()
            raise
        return connection

    def _translated(self, error: Exception) -> InterlockError:
        if isinstance(error, TimeoutError):
            return StoreUnavailable(f"{self._name} did not answer within {self._timeout_s:g} s.")
        state = (error.sqlstate if isinstance(error, psycopg.Error) else None) or ""
        name = f"{type(error).__name__} {state}".strip()
        if state.startswith(_RESOURCES):
            return StoreFull(f"{self._name} has run out of resources ({name}). Free some space.")
        is_data = isinstance(error, psycopg.DataError) and not state  # such as a NUL, which psycopg does not send
        if state in _UNTRANSLATABLE or is_data or isinstance(error, UnicodeEncodeError):
            return StateUnstorable("An id or a key holds a character that PostgreSQL cannot store.")
        if state.startswith(_CORRUPT):
            return StoreCorrupt(f"{self._name} is damaged, or has other tables ({name}). It is left as it is.")
        return StoreUnavailable(f"{self._name} cannot be used ({name}). Check its URL and the server.")


async def _open(url: str) -> Connection:
    """Open a connection. One that is opened although the caller was cancelled is closed."""
    task: asyncio.Task[Connection] = asyncio.create_task(psycopg.AsyncConnection.connect(url, autocommit=True, client_encoding="utf8"))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is None:
            task.result().pgconn.finish()
        raise
    finally:
        # A half-open connection stays open while anything refers to it, such as the traceback of an error.
        del task


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from reporting the error of a task whose caller was cancelled."""
    if not task.cancelled():
        task.exception()


def _server_name(url: str) -> str:
    """Return host, port and database of a URL. Raises SettingsInvalid if a part of the password could be taken for one of them."""
    place = url.partition("://")[2].partition("?")[0]
    host, _, path = place.partition("/")
    if host.count("@") > 1 or "@" in path:
        raise SettingsInvalid("The URL of a database has two '@'. In a password write '%40' for '@', '%3A' for ':', '%2F' for '/'.")
    parts: dict[str, Any] = {}
    with contextlib.suppress(psycopg.Error):
        parts = conninfo_to_dict(url)
    ports = str(parts.get("port", ""))
    if not parts or (ports and not ports.replace(",", "").isdecimal()):
        raise SettingsInvalid("The URL of a database cannot be read. It looks like 'postgresql://user:password@host:5432/database'.")
    return f"{parts.get('host', 'localhost')}:{ports or 5432}/{parts.get('dbname', '')}"
