"""Connections to a PostgreSQL server, and the memory in the tables of LangGraph's `AsyncPostgresStore`: the extra `interlock[postgres]`.

psycopg_pool is not used: with a server that is down, its callers wait until the timeout while the error goes to the log only,
its connections cannot be closed after their event loop has ended, and a query of a silent server is cancelled for ten seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine, Generator
from typing import Any, LiteralString, TypeAlias, TypeVar

import psycopg
from langgraph.store.postgres import AsyncPostgresStore
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

from interlock.errors import SettingsInvalid, StateUnstorable, StoreCorrupt, StoreFull, StoreUnavailable, TurnError
from interlock.stores.event_loops import PerEventLoop
from interlock.stores.sqlite import Row

__all__ = ["Connection", "PostgresMemory", "PostgresServer", "first_value", "set_up"]

_CONNECTIONS = 8
_CANCEL_S = 0.5
_SETUP_LOCK = 0x17E8_10CC  # key of the advisory lock: any number, the same in every process
_RESOURCES = "53"
_UNTRANSLATABLE = ("22021", "22P05")  # the encoding of the database lacks the character
_CORRUPT = ("22", "42703", "42804", "42P01", "42P10", "XX001", "XX002")  # damaged, or tables of another schema
_READ = "SELECT value FROM store WHERE prefix = %s AND key = %s"
_WRITE = (
    "INSERT INTO store (prefix, key, value) VALUES (%s, %s, %s) "
    "ON CONFLICT (prefix, key) DO UPDATE SET value = excluded.value, updated_at = CURRENT_TIMESTAMP"
)

T = TypeVar("T")
Connection: TypeAlias = psycopg.AsyncConnection[DictRow]
Query: TypeAlias = Callable[[Connection], Coroutine[Any, Any, T]]


class _LoopConnections:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self.idle: list[Connection] = []
        self.free = asyncio.Semaphore(_CONNECTIONS)

    def finish(self) -> None:
        for connection in self.idle:
            connection.pgconn.finish()
        self.idle.clear()


class PostgresServer:
    """Runs queries on a PostgreSQL server. Opens connections at first use, and replaces those that have died.

    `stores` names what is stored there, for messages, and `setting` is the setting with the URL. `prepare` creates the tables.
    """

    def __init__(self, url: str, *, setting: str, stores: str, prepare: Query[None], timeout_s: float) -> None:
        self._url = url
        self._setting = setting
        self._name = f"{stores} on '{_server_name(url, setting)}'"
        self._prepare = prepare
        self._timeout_s = timeout_s
        self._pools = PerEventLoop(_LoopConnections, release=_LoopConnections.finish)
        self._prepared = False

    async def run(self, query: Query[T]) -> T:
        """Run a query on a free connection. If the connection died while it was idle or in use, run it again on another one."""
        pool = self._pools.get()
        with self._translated():
            async with asyncio.timeout(self._timeout_s), pool.free:
                while True:
                    is_new = not pool.idle
                    connection = await self._connect() if is_new else pool.idle.pop()
                    try:
                        result = await _run_cancellable(connection, self._prepared_query(connection, query))
                    except BaseException as error:
                        has_died = connection.closed and isinstance(error, psycopg.OperationalError)
                        connection.pgconn.finish()
                        if is_new or not has_died:
                            raise
                        continue
                    if self._pools.has(pool):
                        pool.idle.append(connection)
                    else:
                        connection.pgconn.finish()
                    return result

    async def connect(self) -> Connection:
        """Open a connection outside the pool."""
        with self._translated():
            async with asyncio.timeout(self._timeout_s):
                return await self._connect()

    async def query_value(self, connection: Connection, statement: Any, *values: Any) -> Any:
        """Run a statement on a connection outside the pool, and return the first value of its first row."""
        with self._translated():
            async with asyncio.timeout(self._timeout_s):
                return await first_value(connection, statement, *values)

    async def aclose(self) -> None:
        """Close the idle connections. Those in use are closed when their query ends."""
        self._pools.release_all()

    async def _connect(self) -> Connection:
        # Without prepared statements: a connection pooler in between would mix them up.
        connecting = Connection.connect(self._url, autocommit=True, prepare_threshold=None, row_factory=dict_row, client_encoding="utf8")
        task = asyncio.create_task(connecting)
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
            del task, connecting

    async def _prepared_query(self, connection: Connection, query: Query[T]) -> T:
        if not self._prepared:
            await self._prepare(connection)
            self._prepared = True
        return await query(connection)

    @contextlib.contextmanager
    def _translated(self) -> Generator[None]:
        """Raise the errors of the client as those of a store."""
        try:
            yield
        except TimeoutError as error:
            raise StoreUnavailable(f"The {self._name} did not answer within {self._timeout_s:g} s.") from error
        except (psycopg.Error, OSError, UnicodeError) as error:  # UnicodeError for an invalid host name, or a damaged row
            self._prepared = False  # the tables may have been dropped
            raise self._translate_error(error) from error

    def _translate_error(self, error: Exception) -> TurnError:
        state = (error.sqlstate if isinstance(error, psycopg.Error) else None) or ""
        name = f"{type(error).__name__} {state}".strip()
        if state.startswith(_RESOURCES):
            return StoreFull(f"The server of the {self._name} has run out of resources ({name}). Free some space.")
        if state in _UNTRANSLATABLE:
            return StateUnstorable(f"The encoding of the {self._name} lacks a character of the text. Use a database in UTF8.")
        if state.startswith(_CORRUPT) or isinstance(error, UnicodeDecodeError):
            return StoreCorrupt(f"The {self._name}: the data is damaged, or the tables are not LangGraph's ({name}). It is left as it is.")
        return StoreUnavailable(f"The {self._name} cannot be used ({name}). Check '{self._setting}' and the server.")


class PostgresMemory:
    """Key-value store on a PostgreSQL server, in the table of LangGraph's `AsyncPostgresStore`.

    LangGraph's class itself batches operations in a task that is never stopped when its event loop ends, and runs a single
    operation in a pipeline, which takes twice as long and logs a warning when the server is gone.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._server = PostgresServer(url, setting="memory_url", stores="memory", prepare=_set_up_store, timeout_s=timeout_s)

    async def aget(self, namespace: tuple[str, ...], key: str) -> Row | None:
        """Return the row of a key, or None."""

        async def read(connection: Connection) -> DictRow | None:
            return await (await connection.execute(_READ, (".".join(namespace), key))).fetchone()

        found = await self._server.run(read)
        return None if found is None else Row(found["value"])

    async def aput(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        """Replace the value of a key."""

        async def write(connection: Connection) -> None:
            await connection.execute(_WRITE, (".".join(namespace), key, Jsonb(value)))

        await self._server.run(write)

    async def aclose(self) -> None:
        """Close the idle connections. Those in use are closed when their query ends."""
        await self._server.aclose()


class _Tables(AsyncPostgresStore):
    """LangGraph's store without its task, for its tables only."""

    def _ensure_task(self) -> None:
        pass


async def _set_up_store(connection: Connection) -> None:
    await set_up(connection, _Tables, migrations="store_migrations", lock=_SETUP_LOCK)


async def set_up(connection: Connection, langgraph: Any, *, migrations: LiteralString, lock: int) -> None:
    """Create the tables of a class of LangGraph's if they do not exist.

    Its `setup` alone fails when two processes run it concurrently.
    """
    try:
        version = await first_value(connection, sql.SQL("SELECT coalesce(max(v), -1) FROM {}").format(sql.Identifier(migrations)))
    except psycopg.errors.UndefinedTable:
        version = -1
    if version == len(langgraph.MIGRATIONS) - 1:
        return
    # Poll with `pg_try_advisory_lock`: a blocked `pg_advisory_lock` deadlocks with CREATE INDEX CONCURRENTLY.
    while not await first_value(connection, "SELECT pg_try_advisory_lock(%s)", lock):  # noqa: ASYNC110 - another process has it
        await asyncio.sleep(0.02)
    await langgraph(connection).setup()
    await first_value(connection, "SELECT pg_advisory_unlock(%s)", lock)


async def first_value(connection: Connection, statement: Any, *values: Any) -> Any:
    """Run a statement and return the first value of its first row, or None."""
    row = await (await connection.execute(statement, values)).fetchone()
    return None if row is None else next(iter(row.values()))


async def _run_cancellable(connection: Connection, work: Coroutine[Any, Any, T]) -> T:
    """Run a query. If the caller is cancelled, cancel the query on the server too."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            await _stop(connection, task)
            task.exception()
    return task.result()


async def _stop(connection: Connection, task: asyncio.Task[Any]) -> None:
    """Cancel the query of a task on the server, so that it takes no effect later. Closes the socket if the server does not react."""
    with contextlib.suppress(psycopg.Error, OSError):
        await connection.cancel_safe(timeout=_CANCEL_S)
    await asyncio.wait({task}, timeout=_CANCEL_S)
    if not task.done():
        # Cancelling the task would send another cancel request to the server, and wait ten seconds for it.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.pgconn.socket)) as raw_socket:
            raw_socket.shutdown(socket.SHUT_RDWR)
        await asyncio.wait({task})


def _server_name(url: str, setting: str) -> str:
    """Return host, port and database of a URL. Raises SettingsInvalid if a part of the password could be taken for one of them."""
    place = url.partition("://")[2].partition("?")[0]
    host, _, path = place.partition("/")
    if host.count("@") > 1 or "@" in path:
        raise SettingsInvalid(f"'{setting}' has more than one '@'. In a password write '%40' for '@', '%3A' for ':', '%2F' for '/'.")
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        raise SettingsInvalid(f"'{setting}' cannot be read. It looks like 'postgresql://user:password@host:5432/database'.") from None
    ports = str(parts.get("port", ""))
    if not ports.replace(",", "").isdecimal() and ports:
        raise SettingsInvalid(f"'{setting}' has a port that is not a number.")
    return f"{parts.get('host', 'localhost')}:{ports or 5432}/{parts.get('dbname', '')}"
