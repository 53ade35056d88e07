"""Connections of one event loop to a Redis server, with commands sent in pipelines.

Commands issued in the same iteration of the event loop are sent to the server in one batch: with many concurrent sessions,
most of the time of a command goes into system calls and task switches, which a batch shares. The connections close with the
event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

__all__ = ["MAX_BATCH", "MAX_CONNECTIONS", "Command", "Connections", "Unsent"]

MAX_CONNECTIONS = 32
"""How many connections an event loop may have. Further commands wait for a free one."""

MAX_BATCH = 32
"""How many commands one batch has. Limits how many large replies a small command may have to wait for."""

Command: TypeAlias = tuple[str | bytes | int, ...]
ConnectionFactory: TypeAlias = Callable[[], AbstractConnection]


class Unsent(Exception):
    """The connection could not be established, so the command was not sent."""


class _PendingCommand(NamedTuple):
    """A command and the future of its reply."""

    command: Command
    reply: asyncio.Future[Any]


class Connections:
    """Connection pool of one event loop. A broken connection is discarded, not repaired.

    The client of redis-py with its pool was tried first. It takes twice the processor time, and does not report whether a
    command had been sent when the connection broke. One command at a time on each connection took twice as long as batches.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: list[AbstractConnection] = []
        self._pending: list[_PendingCommand] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = True
        self._is_started = False
        self._lifetime = self._close_with_loop()

    async def start(self) -> None:
        """Register with the event loop, which closes the connections in `shutdown_asyncgens` when it ends. Repeated calls do nothing."""
        if not self._is_started:
            self._is_started = True
            await anext(self._lifetime)

    def call(self, factory: ConnectionFactory, command: Command) -> asyncio.Future[Any]:
        """Send a command once and return the future of its reply, which raises TimeoutError after the time limit.

        A command that is cancelled before it is sent is not sent. Cancelling it later does not affect the other commands.
        """
        loop = asyncio.get_running_loop()
        pending = _PendingCommand(command, loop.create_future())
        self._pending.append(pending)
        if len(self._pending) == 1:  # the task starts in the next iteration, after all commands of this one have been added
            task = loop.create_task(self._send_all(factory))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return pending.reply

    async def aclose(self) -> None:
        """Close the idle connections now, and those in use when their batch is done."""
        await self._lifetime.aclose()

    async def _close_with_loop(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._open = False
            await self._close()

    async def _close(self) -> None:
        while self._idle:
            await self._idle.pop().disconnect()

    async def _send_all(self, factory: ConnectionFactory) -> None:
        """Send the pending commands in batches, each on its own connection."""
        pending, self._pending = self._pending, []
        parts = [pending[start : start + MAX_BATCH] for start in range(0, len(pending), MAX_BATCH)]
        if len(parts) == 1:
            await self._send_batch(factory, parts[0])
        else:
            await asyncio.gather(*(self._send_batch(factory, part) for part in parts))

    async def _send_batch(self, factory: ConnectionFactory, pending: Sequence[_PendingCommand]) -> None:
        """Send a batch of commands and resolve their replies. An error is set on every reply that has not arrived."""
        try:
            async with asyncio.timeout(self._timeout_s), self._slots:
                left = [one for one in pending if not one.reply.done()]
                if left:
                    await self._exchange(factory, left)
        except Exception as error:  # noqa: BLE001 - the callers translate it
            for one in pending:
                if not one.reply.done():
                    one.reply.set_exception(error)
        finally:
            for one in pending:
                one.reply.cancel()  # only where this task was cancelled, because the event loop ends

    async def _exchange(self, factory: ConnectionFactory, pending: Sequence[_PendingCommand]) -> None:
        connection = await self._acquire(factory)
        try:
            await connection.send_packed_command(b"".join([_pack(one.command) for one in pending]))
            for one in pending:
                _resolve(one.reply, await _read_reply(connection))
        finally:  # redis-py has closed the connection if it broke, or if this task was cancelled before the reply arrived
            if connection.is_connected:
                self._idle.append(connection)
            if not self._open:
                await self._close()

    async def _acquire(self, factory: ConnectionFactory) -> AbstractConnection:
        while self._idle:
            connection = self._idle.pop()
            if not await connection.can_read():
                return connection
            await connection.disconnect(nowait=True)  # readable without a pending command: the server has closed it
        connection = factory()
        try:
            await connection.connect()
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, RedisError):
                raise Unsent from error
            raise
        return connection


_pack = cast("Callable[[Command], bytes]", hiredis.pack_command)  # the type stub declares a command as a single word


async def _read_reply(connection: AbstractConnection) -> Any:
    """Read a reply. An error reply is returned, not raised: the other commands of the batch may have succeeded."""
    try:
        return cast("Any", await connection.read_response())
    except RedisError as error:
        if not connection.is_connected:
            raise
        return error


def _resolve(answer: asyncio.Future[Any], reply: Any) -> None:
    if answer.done():  # the caller has cancelled it
        return
    if isinstance(reply, RedisError):
        answer.set_exception(reply)
    else:
        answer.set_result(reply)
