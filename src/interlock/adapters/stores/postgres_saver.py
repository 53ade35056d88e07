"""Checkpoints on a PostgreSQL server, by LangGraph's `AsyncPostgresSaver`: the extra `interlock[postgres]`.

The connections are those of the memory's server, not of psycopg's pool: it makes whoever asks wait until the timeout where a
server is down, tells the log instead, and its connections cannot be closed when their event loop has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar, cast

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import DictRow

from interlock.adapters.stores.exclusion import digest, overtaken, patiently
from interlock.adapters.stores.postgres import (
    CORRUPT,
    RESOURCES,
    UNTRANSLATABLE,
    PostgresServer,
)
from interlock.adapters.stores.savers import Call, Put, Saver, finished
from interlock.engine.serializer import ClosedSerializer
from interlock.errors import SettingsInvalid, StateUnstorable, StoreCorrupt, StoreFull, StoreUnavailable, TurnError

__all__ = ["PostgresCheckpoints"]

_SETTING_UP = 0x17E8_10CD  # the advisory lock: any number, the same in every process
_VERSION = "SELECT coalesce(max(v), -1) AS v FROM checkpoint_migrations"
_TRY = "SELECT pg_try_advisory_lock(%s) AS held"
_RELEASE = "SELECT pg_advisory_unlock(%s) AS held"
_ALONE = "SELECT pg_advisory_xact_lock(%s)"
_NEWEST = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY checkpoint_id DESC LIMIT 1"
_OWN = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"
_LEAST, _MOST = -(2**63), 2**63 - 1

T = TypeVar("T")
Connection = psycopg.AsyncConnection[DictRow]


class PostgresCheckpoints:
    """Keeps checkpoints on a server."""

    def __init__(self, url: str, *, types: Iterable[type], seal: str = "", timeout_s: float) -> None:
        self._server = _Server(url, timeout_s=timeout_s)
        self._saver = _PostgresSaver(self._server, types, seal)
        self.locks = PostgresLocks(self._server)

    async def saver(self) -> Saver:
        """Return the checkpointer, with its tables there. It serves every event loop."""
        await self._saver.open()
        return self._saver

    async def aclose(self) -> None:
        """Close the connections; those in use are closed when they come back."""
        await self._server.aclose()


class _Server(PostgresServer):
    """The connections, each with a checkpointer of LangGraph for as long as it is lent."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        try:
            super().__init__(url, timeout_s=timeout_s)
        except SettingsInvalid as error:
            reason = str(error).replace("memory_url", "checkpoint_url")
        else:
            return
        raise SettingsInvalid(reason)

    async def run(self, call: Call[T], serde: ClosedSerializer) -> T:
        """Run a call on a connection that is free. Where one has died while it was idle the call is made again on another."""
        work: Any = _Work(call, serde)
        try:
            return cast("T", await self._ask(work))
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, TimeoutError):
                raise
        raise StoreUnavailable(f"The checkpoints on '{self._name}' did not answer within {self._timeout_s:g} s.")

    async def connect(self) -> Connection:
        """Make a connection that is nobody else's."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return (await self._connect()).connection
        except TimeoutError as error:
            raise StoreUnavailable(f"The checkpoints on '{self._name}' did not answer within {self._timeout_s:g} s.") from error
        except (psycopg.Error, OSError, UnicodeError) as error:
            raise self._failed(error) from error

    async def ask(self, connection: Connection, statement: Any, *values: Any) -> Any:
        """Run a statement on a connection of one's own, and return the one value that it finds."""
        try:
            async with asyncio.timeout(self._timeout_s):
                row = await (await connection.execute(statement, values)).fetchone()
        except TimeoutError as error:
            raise StoreUnavailable(f"The checkpoints on '{self._name}' did not answer within {self._timeout_s:g} s.") from error
        except (psycopg.Error, OSError) as error:
            raise self._failed(error) from error
        return None if row is None else next(iter(row.values()))

    async def _run(self, connected: Any, operation: Any) -> Any:
        connection: Connection = connected.connection
        saver = _Inner(connection, serde=operation.serde)
        if not self._prepared:
            await _prepare(connection, saver)
            self._prepared = True
        return await operation.call(saver)

    def _failed(self, error: Exception) -> TurnError:
        self._prepared = False  # somebody may have dropped the tables
        state = (error.sqlstate if isinstance(error, psycopg.Error) else None) or ""
        name = f"{type(error).__name__} {state}".strip()
        if state.startswith(RESOURCES):
            return StoreFull(f"There is no room left for the checkpoints on '{self._name}' ({name}).")
        if state in UNTRANSLATABLE:
            return StateUnstorable(f"The encoding of the checkpoints on '{self._name}' lacks a character. Use a database in UTF8.")
        if state.startswith(CORRUPT) or isinstance(error, UnicodeDecodeError):
            return StoreCorrupt(f"The checkpoints on '{self._name}' are damaged or not ours ({name}); they are left as they are.")
        return StoreUnavailable(f"The checkpoints on '{self._name}' cannot be used ({name}).")


class _Work(NamedTuple):
    call: Any
    serde: ClosedSerializer


class _Inner(AsyncPostgresSaver):
    """LangGraph's checkpointer on a connection; whoever adds a checkpoint to a thread has the thread alone.

    The lock belongs to the transaction that inserts: where the connection dies, nothing is inserted either.
    """

    conn: Connection

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Add a checkpoint."""
        put = Put(config, checkpoint, metadata, new_versions)
        async with self._alone(put):
            return await super().aput(*put)

    async def aput_after(self, put: Put, expected: str | None) -> None:
        """Add a checkpoint, if the newest one is the expected one or it is there already, else raise StateConflict."""
        async with self._alone(put):
            if expected == await _first(self.conn, _NEWEST, *put.thread):
                await super().aput(*put)
            elif await _first(self.conn, _OWN, *put.thread, put.checkpoint["id"]) is None:
                raise overtaken()

    @asynccontextmanager
    async def _alone(self, put: Put) -> AsyncGenerator[None]:
        async with self.conn.transaction():
            await _first(self.conn, _ALONE, _key("\0".join(put.thread)))
            yield


class _Whole(NamedTuple):
    """A value that is not to be written as JSON."""

    value: Any


class _Serializer(ClosedSerializer):
    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return super().dumps_typed(obj.value if type(obj) is _Whole else obj)


class _PostgresSaver(Saver):
    """Keeps checkpoints in tables. LangGraph writes single values into a JSON document, where not all of them stay what they are."""

    def __init__(self, server: _Server, types: Iterable[type], seal: str) -> None:
        self._server = server
        self._serializer = _Serializer(types, seal=seal)
        super().__init__(self._serializer)

    async def open(self) -> None:
        """Make the tables unless they are there."""

        async def nothing(_: Any) -> None:
            pass

        await self._run(nothing)

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Keep a checkpoint. When this returns, it outlives the process."""
        return await super().aput(config, _escaped(checkpoint), metadata, new_versions)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Forget all but the newest checkpoint of threads, or with the strategy 'delete' all."""
        await self._write(lambda inner: inner.aprune(thread_ids, strategy=strategy))

    async def _put_after(self, inner: _Inner, put: Put, expected: str | None) -> None:
        await inner.aput_after(put._replace(checkpoint=_escaped(put.checkpoint)), expected)

    async def _run(self, call: Call[T]) -> T:
        return await self._server.run(call, self._serializer)


def _escaped(checkpoint: Checkpoint) -> Checkpoint:
    values = {name: value if _is_json(value) else _Whole(value) for name, value in checkpoint["channel_values"].items()}
    return {**checkpoint, "channel_values": values}


def _is_json(value: Any) -> bool:
    """Tell whether LangGraph may put a value into its JSON: there 1e16 becomes an integer, an enum its text, and a NUL an error."""
    if type(value) is str:
        return value.isprintable()
    if type(value) is int:
        return _LEAST <= value <= _MOST
    return value is None or type(value) is bool or not isinstance(value, str | int | float)


async def _prepare(connection: Connection, saver: AsyncPostgresSaver) -> None:
    """Make the tables unless they are there. LangGraph's own way fails when two processes do that at once."""
    try:
        version = await _first(connection, _VERSION)
    except psycopg.errors.UndefinedTable:
        version = -1
    if version == len(saver.MIGRATIONS) - 1:
        return
    # Not the lock that waits: while one waits for it, an index that is built concurrently waits for whoever waits.
    while not await _first(connection, _TRY, _SETTING_UP):  # noqa: ASYNC110 - another process has it
        await asyncio.sleep(0.02)
    await saver.setup()
    await _first(connection, _RELEASE, _SETTING_UP)


async def _first(connection: Connection, statement: Any, *values: Any) -> Any:
    row = await (await connection.execute(statement, values)).fetchone()
    return None if row is None else next(iter(cast("Mapping[str, Any]", row).values()))


def _key(name: str) -> int:
    """Give a name a number for an advisory lock."""
    return int.from_bytes(digest(name)[:8], signed=True)


class PostgresLocks:
    """Lets one of all processes hold a session, by advisory locks of one connection for each event loop.

    The server lets go of them when the connection ends; there must be no pooler in between that lends one connection to many.
    A connection that is lost lets go without notice: these locks keep turns in order, and what nobody may overwrite is compared when
    it is stored. Who on one event loop may hold a session is for a LocalExclusion to say: to the server they are all the same.
    """

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}

    @asynccontextmanager
    async def hold(self, session: str, *, deadline: float) -> AsyncGenerator[None]:
        """Hold a session."""
        key = _key(session)
        line = self._line()

        async def attempt() -> Connection | None:
            return await finished(self._attempt(line, key))

        try:
            held = await patiently(attempt, session=session, deadline=deadline)
        except asyncio.CancelledError:
            await finished(self._release(line.connection, key))  # it may have been got while nobody waited for it any more
            raise
        try:
            yield
        finally:
            await finished(self._release(held, key))

    async def aclose(self) -> None:
        """Close the connections, and so let go of what they hold."""
        while self._lines:
            self._lines.popitem()[1].finish()

    def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            for gone in [loop for loop in self._lines if loop.is_closed()]:
                self._lines.pop(gone).finish()
            line = self._lines[loop] = _Line()
        return line

    async def _attempt(self, line: _Line, key: int) -> Connection | None:
        """Try to get a lock, on another connection where the one that there was has died."""
        for is_last in (False, True):
            async with line.making:
                if line.connection is None or line.connection.closed:
                    line.connection = await self._server.connect()
                connection = line.connection
            try:
                return connection if await self._server.ask(connection, _TRY, key) else None
            except StoreUnavailable:
                if is_last or not connection.closed:
                    connection.pgconn.finish()  # whether it has the lock is not known
                    raise
        return None

    async def _release(self, connection: Connection | None, key: int) -> None:
        if connection is None or connection.closed:
            return
        try:
            await self._server.ask(connection, _RELEASE, key)
        except TurnError:
            connection.pgconn.finish()  # which lets go of it


class _Line:
    """The connection of one event loop."""

    def __init__(self) -> None:
        self.making = asyncio.Lock()
        self.connection: Connection | None = None

    def finish(self) -> None:
        if self.connection is not None:
            self.connection.pgconn.finish()
