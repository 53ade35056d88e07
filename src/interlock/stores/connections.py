"""Connections of one event loop to a Redis server. They close with the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, TypeAlias, cast

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import RedisError

__all__ = ["MAX_CONNECTIONS", "Command", "Connections", "Target", "Unsent"]

MAX_CONNECTIONS = 32
"""How many connections an event loop may have. Further commands wait for a free one."""

Command: TypeAlias = tuple[str | bytes | int, ...]


class Target(NamedTuple):
    """The class and the arguments of a connection."""

    connection_class: type[AbstractConnection]
    options: dict[str, Any]


class Unsent(Exception):
    """The connection could not be established, so the command was not sent."""


class _Pool(ConnectionPool):
    """A pool that closes a connection if establishing it was cancelled: the reply to its AUTH may arrive later."""

    async def ensure_connection(self, connection: AbstractConnection) -> None:
        try:
            await super().ensure_connection(connection)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise


class Connections:
    """Connection pool of one event loop.

    It uses the connections of redis-py and not its client, which does not report whether a command had been sent when the
    connection broke. redis-py's blocking pool is not used, because it loses a connection if `release` is cancelled.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
        self._pools: dict[str, _Pool] = {}
        self._is_closed = False
        self._is_started = False
        self._lifetime = self._close_with_loop()

    async def start(self) -> None:
        """Register with the event loop, which closes the connections in `shutdown_asyncgens` when it ends. Repeated calls do nothing."""
        if not self._is_started:
            self._is_started = True
            await anext(self._lifetime)

    async def call(self, target: Target, command: Command) -> Any:
        """Send a command once and return its reply. Raises Unsent, TimeoutError after the time limit, or redis-py's errors."""
        async with asyncio.timeout(self._timeout_s), self._free:
            pool = self._pool(target)
            try:
                connection = await pool.get_connection()
            except RedisError as error:
                raise Unsent from error
            try:
                await connection.send_command(*command)
                return cast("Any", await connection.read_response())  # which disconnects if it is cancelled
            finally:
                if self._is_closed:
                    await connection.disconnect()
                await pool.release(connection)

    async def aclose(self) -> None:
        """Close the idle connections now, and those in use when their command is done."""
        await self._lifetime.aclose()

    def _pool(self, target: Target) -> _Pool:
        path = target.options.get("path", "")  # all else stays the same for one server
        if path not in self._pools:
            self._pools[path] = _Pool(target.connection_class, **target.options)
        return self._pools[path]

    async def _close_with_loop(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._is_closed = True
            for pool in self._pools.values():
                await pool.disconnect(inuse_connections=False)
