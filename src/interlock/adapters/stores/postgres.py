"""A PostgreSQL server in the layout of LangGraph's store, by `AsyncPostgresStore`: the extra `interlock[postgres]`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar, cast

import psycopg
from langgraph.store.base import GetOp, Item, Op, PutOp, Result
from langgraph.store.postgres import AsyncPostgresStore
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row

from interlock.errors import SettingsInvalid, StateUnstorable, StoreCorrupt, StoreFull, StoreUnavailable, TurnError

__all__ = ["CORRUPT", "RESOURCES", "UNTRANSLATABLE", "PostgresServer"]

_CONNECTIONS = 8
_PATIENCE_S = 0.5
_SETTING_UP = 0x17E8_10CC  # the advisory lock: any number, the same in every process
RESOURCES = "53"
UNTRANSLATABLE = ("22021", "22P05")  # a database whose encoding lacks the character
CORRUPT = ("22", "42703", "42804", "42P01", "42P10", "XX001", "XX002")  # damaged, or tables of another shape

T = TypeVar("T")


class _Connected(AsyncPostgresStore):
    """One connection, of which one caller at a time has the use.

    The shipped store collects operations by a task, which nothing ends when its loop does, and runs one in a pipeline,
    which takes twice as long and warns in the log when the server is gone. Both are left out.
    """

    def __init__(self, connection: psycopg.AsyncConnection[DictRow]) -> None:
        super().__init__(connection, deserializer=lambda value: cast("Any", value))  # what is no object is found out later
        self.connection = connection
        self.died = False

    def _ensure_task(self) -> None:
        pass

    @contextlib.asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncGenerator[psycopg.AsyncCursor[DictRow]]:  # noqa: ARG002 - see above
        async with self.connection.cursor(binary=True) as cursor:
            yield cursor

    async def prepare(self) -> None:
        """Make the tables unless they are there. The shipped store fails when two processes do that at once."""
        if await self._version() == len(self.MIGRATIONS) - 1:
            return
        # Not the lock that waits: while one waits for it, an index that is built concurrently waits for whoever waits.
        while not await self._first("SELECT pg_try_advisory_lock(%s)"):  # noqa: ASYNC110 - another process has it
            await asyncio.sleep(0.02)
        await self.setup()
        await self._first("SELECT pg_advisory_unlock(%s)")

    async def _version(self) -> int:
        try:
            cursor = await self.connection.execute("SELECT coalesce(max(v), -1) AS v FROM store_migrations")
        except psycopg.errors.UndefinedTable:
            return -1
        row = await cursor.fetchone()
        return row["v"] if row is not None else -1

    async def _first(self, lock: Any) -> bool:
        row = await (await self.connection.execute(lock, (_SETTING_UP,))).fetchone()
        return row is not None and True in row.values()

    async def stop(self, task: asyncio.Task[Any]) -> None:
        """End what the server does for a task, so that it is not done later on; a server that does not listen is hung up on."""
        with contextlib.suppress(psycopg.Error, OSError):
            await self.connection.cancel_safe(timeout=_PATIENCE_S)
        await asyncio.wait({task}, timeout=_PATIENCE_S)
        if not task.done():
            # Cancelling the task would ask the server once more, and wait ten seconds for it.
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.connection.pgconn.socket)) as line:
                line.shutdown(socket.SHUT_RDWR)
            await asyncio.wait({task})

    def finish(self) -> None:
        """Close the connection, which needs no event loop, and remember whether it was closed already."""
        self.died = self.connection.closed
        self.connection.pgconn.finish()


class _Pool:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self.idle: list[_Connected] = []
        self.free = asyncio.Semaphore(_CONNECTIONS)

    def finish(self) -> None:
        while self.idle:
            self.idle.pop().finish()


class PostgresServer:
    """Keeps values on a server. Connections are made when they are needed, and made anew when they have died."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._url = url
        self._name = _name(url)
        self._timeout_s = timeout_s
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._prepared = False

    async def aget(self, namespace: tuple[str, ...], key: str) -> Item | None:
        """Return what is kept for a key."""
        return cast("Item | None", await self._ask(GetOp(namespace, key, refresh_ttl=False)))

    async def aput(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        """Replace what is kept for a key."""
        await self._ask(PutOp(namespace, key, value))

    async def aclose(self) -> None:
        """Close the connections; those in use are closed when they come back."""
        while self._pools:
            self._pools.popitem()[1].finish()

    async def _ask(self, operation: Op) -> Result:
        pool = self._pool()
        try:
            async with asyncio.timeout(self._timeout_s), pool.free:
                while pool.idle:
                    connected = pool.idle.pop()
                    try:
                        return await self._lend(pool, connected, operation)
                    except psycopg.OperationalError:
                        if not connected.died:
                            raise
                        # While it was idle or in the middle: either way, an operation may be done twice.
                return await self._lend(pool, await self._connect(), operation)
        except TimeoutError as error:
            raise StoreUnavailable(f"Memory '{self._name}' did not answer within {self._timeout_s:g} s.") from error
        except (psycopg.Error, OSError, UnicodeError) as error:  # the last for a host that no name can have
            raise self._failed(error) from error

    def _pool(self) -> _Pool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for gone in [loop for loop in self._pools if loop.is_closed()]:
                self._pools.pop(gone).finish()
            pool = self._pools[loop] = _Pool()
        return pool

    async def _connect(self) -> _Connected:
        # Without prepared statements, which a pooler between here and the server mixes up.
        connecting = psycopg.AsyncConnection[DictRow].connect(
            self._url, autocommit=True, prepare_threshold=None, row_factory=dict_row, client_encoding="utf8"
        )
        task = asyncio.create_task(connecting)
        try:
            return _Connected(await asyncio.shield(task))
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and task.exception() is None:
                task.result().pgconn.finish()
            raise
        finally:
            # A connection that is half made is open for as long as anything refers to it, such as the traceback of an error.
            del task, connecting

    async def _lend(self, pool: _Pool, connected: _Connected, operation: Op) -> Result:
        try:
            result = await _until_done(connected, self._run(connected, operation))
        except BaseException:
            connected.finish()
            raise
        if self._pools.get(asyncio.get_running_loop()) is pool:
            pool.idle.append(connected)
        else:
            connected.finish()
        return result

    async def _run(self, connected: _Connected, operation: Op) -> Result:
        if not self._prepared:
            await connected.prepare()
            self._prepared = True
        return (await connected.abatch([operation]))[0]

    def _failed(self, error: Exception) -> TurnError:
        self._prepared = False  # somebody may have dropped the tables
        state = (error.sqlstate if isinstance(error, psycopg.Error) else None) or ""
        name = f"{type(error).__name__} {state}".strip()
        if state.startswith(RESOURCES):
            return StoreFull(f"There is no room left for memory '{self._name}' ({name}).")
        if state in UNTRANSLATABLE:
            return StateUnstorable(f"The encoding of memory '{self._name}' lacks a character. Use a database in UTF8.")
        if state.startswith(CORRUPT):
            return StoreCorrupt(f"Memory '{self._name}' is damaged or is not ours ({name}); it is left as it is.")
        return StoreUnavailable(f"Memory '{self._name}' cannot be used ({name}).")


async def _until_done(connected: _Connected, work: Coroutine[Any, Any, T]) -> T:
    """Wait for the work, and stop it where nobody waits for it any more."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            await connected.stop(task)
            task.exception()
    return task.result()


def _name(url: str) -> str:
    """Say which server it is, without the password: none of it may be taken for another part of the URL, which errors show."""
    place = url.partition("://")[2].partition("?")[0]
    host, _, path = place.partition("/")
    if host.count("@") > 1 or "@" in path:
        raise SettingsInvalid("'memory_url' has an '@' too many. In a password write '%40' for '@', '%3A' for ':', '%2F' for '/'.")
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        raise SettingsInvalid("'memory_url' cannot be read. It looks like 'postgresql://user:password@host:5432/database'.") from None
    ports = str(parts.get("port", ""))
    if not ports.replace(",", "").isdecimal() and ports:
        raise SettingsInvalid("'memory_url' has a port that is no number.")
    return f"{parts.get('host', 'localhost')}:{ports or 5432}/{parts.get('dbname', '')}"
