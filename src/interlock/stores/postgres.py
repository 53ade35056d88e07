"""Memory on a PostgreSQL server in the tables of LangGraph's `AsyncPostgresStore`: the extra `interlock[postgres]`."""

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
from interlock.stores.event_loops import PerEventLoop

__all__ = ["CORRUPT", "RESOURCES", "UNTRANSLATABLE", "PostgresServer"]

_CONNECTIONS = 8
_CANCEL_S = 0.5
_SETUP_LOCK = 0x17E8_10CC  # key of the advisory lock: any number, the same in every process
RESOURCES = "53"
UNTRANSLATABLE = ("22021", "22P05")  # the encoding of the database lacks the character
CORRUPT = ("22", "42703", "42804", "42P01", "42P10", "XX001", "XX002")  # damaged, or tables of another schema

T = TypeVar("T")


class _ConnectionStore(AsyncPostgresStore):
    """LangGraph's store on one connection, for one caller at a time.

    LangGraph's own version batches operations in a task that is never stopped when its event loop ends, and runs a single
    operation in a pipeline, which takes twice as long and logs a warning when the server is gone. Both are disabled here.
    """

    def __init__(self, connection: psycopg.AsyncConnection[DictRow]) -> None:
        super().__init__(connection, deserializer=lambda value: cast("Any", value))  # the caller validates the value
        self.connection = connection
        self.died = False

    def _ensure_task(self) -> None:
        pass

    @contextlib.asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncGenerator[psycopg.AsyncCursor[DictRow]]:  # noqa: ARG002 - see above
        async with self.connection.cursor(binary=True) as cursor:
            yield cursor

    async def prepare(self) -> None:
        """Create the tables if they do not exist. LangGraph's `setup` alone fails when two processes run it concurrently."""
        if await self._version() == len(self.MIGRATIONS) - 1:
            return
        # Poll with `pg_try_advisory_lock`: a blocked `pg_advisory_lock` deadlocks with CREATE INDEX CONCURRENTLY.
        while not await self._lock_query("SELECT pg_try_advisory_lock(%s)"):  # noqa: ASYNC110 - another process has it
            await asyncio.sleep(0.02)
        await self.setup()
        await self._lock_query("SELECT pg_advisory_unlock(%s)")

    async def _version(self) -> int:
        try:
            cursor = await self.connection.execute("SELECT coalesce(max(v), -1) AS v FROM store_migrations")
        except psycopg.errors.UndefinedTable:
            return -1
        row = await cursor.fetchone()
        return row["v"] if row is not None else -1

    async def _lock_query(self, lock: Any) -> bool:
        row = await (await self.connection.execute(lock, (_SETUP_LOCK,))).fetchone()
        return row is not None and True in row.values()

    async def stop(self, task: asyncio.Task[Any]) -> None:
        """Cancel the query of a task on the server, so that it takes no effect later. Closes the socket if the server does not react."""
        with contextlib.suppress(psycopg.Error, OSError):
            await self.connection.cancel_safe(timeout=_CANCEL_S)
        await asyncio.wait({task}, timeout=_CANCEL_S)
        if not task.done():
            # Cancelling the task would send another cancel request to the server, and wait ten seconds for it.
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.connection.pgconn.socket)) as raw_socket:
                raw_socket.shutdown(socket.SHUT_RDWR)
            await asyncio.wait({task})

    def finish(self) -> None:
        """Close the connection, which needs no event loop. `died` records whether it was closed already."""
        self.died = self.connection.closed
        self.connection.pgconn.finish()


class _Pool:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self.idle: list[_ConnectionStore] = []
        self.free = asyncio.Semaphore(_CONNECTIONS)

    def finish(self) -> None:
        while self.idle:
            self.idle.pop().finish()


class PostgresServer:
    """Key-value store on a PostgreSQL server. Opens connections at first use, and replaces those that have died."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._url = url
        self._name = _server_name(url)
        self._timeout_s = timeout_s
        self._pools = PerEventLoop(_Pool, release=_Pool.finish)
        self._prepared = False

    async def aget(self, namespace: tuple[str, ...], key: str) -> Item | None:
        """Return the item of a key, or None."""
        return cast("Item | None", await self._execute(GetOp(namespace, key, refresh_ttl=False)))

    async def aput(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        """Replace the value of a key."""
        await self._execute(PutOp(namespace, key, value))

    async def aclose(self) -> None:
        """Close the idle connections. Those in use are closed when their operation ends."""
        self._pools.release_all()

    async def _execute(self, operation: Op) -> Result:
        pool = self._pools.get()
        try:
            async with asyncio.timeout(self._timeout_s), pool.free:
                while pool.idle:
                    store = pool.idle.pop()
                    try:
                        return await self._run_on(pool, store, operation)
                    except psycopg.OperationalError:
                        if not store.died:
                            raise
                        # It died while idle or during the operation. In both cases the operation may be run twice.
                return await self._run_on(pool, await self._connect(), operation)
        except TimeoutError as error:
            raise StoreUnavailable(f"Memory '{self._name}' did not answer within {self._timeout_s:g} s.") from error
        except (psycopg.Error, OSError, UnicodeError) as error:  # UnicodeError for an invalid host name
            raise self._failed(error) from error

    async def _connect(self) -> _ConnectionStore:
        # Without prepared statements: a connection pooler in between would mix them up.
        connecting = psycopg.AsyncConnection[DictRow].connect(
            self._url, autocommit=True, prepare_threshold=None, row_factory=dict_row, client_encoding="utf8"
        )
        task = asyncio.create_task(connecting)
        try:
            return _ConnectionStore(await asyncio.shield(task))
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and task.exception() is None:
                task.result().pgconn.finish()
            raise
        finally:
            # A half-open connection stays open while anything refers to it, such as the traceback of an error.
            del task, connecting

    async def _run_on(self, pool: _Pool, store: _ConnectionStore, operation: Op) -> Result:
        try:
            result = await _run_cancellable(store, self._run(store, operation))
        except BaseException:
            store.finish()
            raise
        if self._pools.has(pool):
            pool.idle.append(store)
        else:
            store.finish()
        return result

    async def _run(self, store: _ConnectionStore, operation: Op) -> Result:
        if not self._prepared:
            await store.prepare()
            self._prepared = True
        return (await store.abatch([operation]))[0]

    def _failed(self, error: Exception) -> TurnError:
        self._prepared = False  # the tables may have been dropped
        state = (error.sqlstate if isinstance(error, psycopg.Error) else None) or ""
        name = f"{type(error).__name__} {state}".strip()
        if state.startswith(RESOURCES):
            return StoreFull(f"The server of memory '{self._name}' has run out of resources ({name}). Free some space.")
        if state in UNTRANSLATABLE:
            return StateUnstorable(f"The encoding of memory '{self._name}' lacks a character of the text. Use a database in UTF8.")
        if state.startswith(CORRUPT):
            return StoreCorrupt(f"Memory '{self._name}' is damaged, or its tables are not LangGraph's ({name}). It is left as it is.")
        return StoreUnavailable(f"Memory '{self._name}' cannot be used ({name}). Check 'memory_url' and the server.")


async def _run_cancellable(store: _ConnectionStore, work: Coroutine[Any, Any, T]) -> T:
    """Run a query. If the caller is cancelled, cancel the query on the server too."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            await store.stop(task)
            task.exception()
    return task.result()


def _server_name(url: str) -> str:
    """Return host, port and database of a URL. Raises SettingsInvalid if a part of the password could be taken for one of them."""
    place = url.partition("://")[2].partition("?")[0]
    host, _, path = place.partition("/")
    if host.count("@") > 1 or "@" in path:
        raise SettingsInvalid("'memory_url' has more than one '@'. In a password write '%40' for '@', '%3A' for ':', '%2F' for '/'.")
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        raise SettingsInvalid("'memory_url' cannot be read. It looks like 'postgresql://user:password@host:5432/database'.") from None
    ports = str(parts.get("port", ""))
    if not ports.replace(",", "").isdecimal() and ports:
        raise SettingsInvalid("'memory_url' has a port that is not a number.")
    return f"{parts.get('host', 'localhost')}:{ports or 5432}/{parts.get('dbname', '')}"
