"""Checkpoints on a PostgreSQL server, by LangGraph's `AsyncPostgresSaver`: the extra `interlock[postgres]`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from interlock.engine.serializer import ClosedSerializer
from interlock.errors import StoreUnavailable, TurnError
from interlock.stores.event_loops import PerEventLoop
from interlock.stores.locks import digest, poll_until_locked, state_conflict
from interlock.stores.postgres import Connection, PostgresServer, first_value, set_up
from interlock.stores.savers import Call, Put, Saver, run_to_completion

__all__ = ["PostgresCheckpoints"]

_SETUP_LOCK = 0x17E8_10CD  # key of the advisory lock: any number, the same in every process
_TRY_LOCK = "SELECT pg_try_advisory_lock(%s) AS held"
_UNLOCK = "SELECT pg_advisory_unlock(%s) AS held"
_LOCK_THREAD = "SELECT pg_advisory_xact_lock(%s)"
_NEWEST = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY checkpoint_id DESC LIMIT 1"
_OWN = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"
_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1

T = TypeVar("T")


class PostgresCheckpoints:
    """Checkpoint store on a PostgreSQL server."""

    def __init__(self, url: str, *, types: Iterable[type], seal: str = "", timeout_s: float) -> None:
        self._server = PostgresServer(url, setting="checkpoint_url", stores="checkpoints", prepare=_set_up, timeout_s=timeout_s)
        self._saver = _PostgresSaver(self._server, types, seal)
        self.locks = PostgresLocks(self._server)

    async def saver(self) -> Saver:
        """Return the checkpointer of all event loops, after creating its tables."""
        await self._saver.open()
        return self._saver

    async def aclose(self) -> None:
        """Close the idle connections. Those in use are closed when their call ends."""
        await self._server.aclose()


async def _set_up(connection: Connection) -> None:
    await set_up(connection, AsyncPostgresSaver, migrations="checkpoint_migrations", lock=_SETUP_LOCK)


class _LangGraphSaver(AsyncPostgresSaver):
    """LangGraph's checkpointer on one connection, with a lock on the thread while a checkpoint is added.

    The lock belongs to the transaction that inserts: if the connection dies, nothing is inserted either.
    """

    conn: Connection

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Add a checkpoint."""
        put = Put(config, checkpoint, metadata, new_versions)
        async with self._locked_thread(put):
            return await super().aput(*put)

    async def aput_after(self, put: Put, expected: str | None) -> None:
        """Add a checkpoint if the newest one is `expected`. Raises StateConflict otherwise, unless it is stored already."""
        async with self._locked_thread(put):
            if expected == await first_value(self.conn, _NEWEST, *put.thread):
                await super().aput(*put)
            elif await first_value(self.conn, _OWN, *put.thread, put.checkpoint["id"]) is None:
                raise state_conflict()

    @asynccontextmanager
    async def _locked_thread(self, put: Put) -> AsyncGenerator[None]:
        async with self.conn.transaction():
            await first_value(self.conn, _LOCK_THREAD, _key("\0".join(put.thread)))
            yield


class _NotJson(NamedTuple):
    """A value that must not be written as JSON."""

    value: Any


class _Serializer(ClosedSerializer):
    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return super().dumps_typed(obj.value if type(obj) is _NotJson else obj)


class _PostgresSaver(Saver):
    """Stores checkpoints in LangGraph's tables, but keeps values out of its JSON column that JSON would change."""

    def __init__(self, server: PostgresServer, types: Iterable[type], seal: str) -> None:
        self._server = server
        self._serializer = _Serializer(types, seal=seal)
        super().__init__(self._serializer)

    async def open(self) -> None:
        """Create the tables if they do not exist."""

        async def nothing(_: Any) -> None:
            pass

        await self._run(nothing)

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Store a checkpoint durably."""
        return await super().aput(config, _escaped(checkpoint), metadata, new_versions)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all but the newest checkpoint of threads, or with the strategy 'delete' all of them."""
        await self._write(lambda inner: inner.aprune(thread_ids, strategy=strategy))

    async def _put_after(self, inner: _LangGraphSaver, put: Put, expected: str | None) -> None:
        await inner.aput_after(put._replace(checkpoint=_escaped(put.checkpoint)), expected)

    async def _run(self, call: Call[T]) -> T:
        return await self._server.run(lambda connection: call(_LangGraphSaver(connection, serde=self._serializer)))


def _escaped(checkpoint: Checkpoint) -> Checkpoint:
    values = {name: value if _is_json(value) else _NotJson(value) for name, value in checkpoint["channel_values"].items()}
    return {**checkpoint, "channel_values": values}


def _is_json(value: Any) -> bool:
    """Return whether JSON keeps a value as it is. In LangGraph's JSON column 1e16 becomes an integer, an enum its text, a NUL an error."""
    if type(value) is str:
        return value.isprintable()
    if type(value) is int:
        return _MIN_INT <= value <= _MAX_INT
    return value is None or type(value) is bool or not isinstance(value, str | int | float)


def _key(name: str) -> int:
    """Return the key of the advisory lock with this name."""
    return int.from_bytes(digest(name)[:8], signed=True)


class PostgresLocks:
    """Locks among processes, by advisory locks on one connection for each event loop.

    The server releases them when the connection ends, so there must be no pooler in between that shares connections. A lost
    connection releases them without notice: the locks only order turns, and `aput_after` detects conflicts. Combine with
    LocalLocks: to the server, all tasks of one event loop are the same lock holder.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._connections = PerEventLoop(_LockConnection, release=_LockConnection.finish)

    @asynccontextmanager
    async def hold(self, session: str, *, deadline: float) -> AsyncGenerator[None]:
        """Hold the lock of a session."""
        key = _key(session)
        lock_connection = self._connections.get()

        async def attempt() -> Connection | None:
            return await run_to_completion(self._attempt(lock_connection, key))

        try:
            connection = await poll_until_locked(attempt, session=session, deadline=deadline)
        except asyncio.CancelledError:
            # The lock may have been acquired after the cancellation.
            await run_to_completion(self._release(lock_connection.connection, key))
            raise
        try:
            yield
        finally:
            await run_to_completion(self._release(connection, key))

    async def aclose(self) -> None:
        """Close the connections, which releases their locks."""
        self._connections.release_all()

    async def _attempt(self, lock_connection: _LockConnection, key: int) -> Connection | None:
        """Try to acquire a lock, on a new connection if the current one has died."""
        for is_last in (False, True):
            async with lock_connection.connecting:
                if lock_connection.connection is None or lock_connection.connection.closed:
                    lock_connection.connection = await self._server.connect()
                connection = lock_connection.connection
            try:
                return connection if await self._server.query_value(connection, _TRY_LOCK, key) else None
            except StoreUnavailable:
                if is_last or not connection.closed:
                    connection.pgconn.finish()  # it may have acquired the lock
                    raise
        return None

    async def _release(self, connection: Connection | None, key: int) -> None:
        if connection is None or connection.closed:
            return
        try:
            await self._server.query_value(connection, _UNLOCK, key)
        except TurnError:
            connection.pgconn.finish()  # which releases the lock


class _LockConnection:
    """The connection that holds the locks of one event loop."""

    def __init__(self) -> None:
        self.connecting = asyncio.Lock()
        self.connection: Connection | None = None

    def finish(self) -> None:
        if self.connection is not None:
            self.connection.pgconn.finish()
