"""The connections of one event loop to a Redis server. They end with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

__all__ = ["LIMIT", "Connections", "Unsent"]

LIMIT = 32
"""How many connections an event loop may have. Whoever finds them all in use waits."""


class Unsent(Exception):
    """There was no connection, so the command was not sent."""


class Connections:
    """Keeps connections for those who ask on the running event loop. One that broke is not mended but thrown away.

    A client of redis-py with its pool was tried first. It takes twice the processor time, and does not tell whether a
    command had been sent when the connection broke.
    """

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(LIMIT)
        self._idle: list[AbstractConnection] = []
        self._open = True
        self._life = self._live()

    async def start(self) -> None:
        """Make the event loop close the connections when it ends, as it does with every generator that it knows."""
        await anext(self._life)

    async def call(self, make: Callable[[], AbstractConnection], *command: str | bytes | int) -> Any:
        """Send a command, once, and return the reply."""
        async with self._room:
            connection = await self._take(make)
            try:
                await connection.send_command(*command)
                return cast("Any", await connection.read_response())
            finally:  # where it broke, or where we were cancelled before the reply came, redis-py has closed it
                if connection.is_connected:
                    self._idle.append(connection)
                if not self._open:
                    await self._close()

    async def aclose(self) -> None:
        """Close the connections that nobody uses, and the others as soon as that is so."""
        await self._life.aclose()

    async def _live(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._open = False
            await self._close()

    async def _close(self) -> None:
        while self._idle:
            await self._idle.pop().disconnect()

    async def _take(self, make: Callable[[], AbstractConnection]) -> AbstractConnection:
        while self._idle:
            connection = self._idle.pop()
            if not await connection.can_read():
                return connection
            await connection.disconnect(nowait=True)  # the server has closed it: it has nothing else to say
        connection = make()
        try:
            await connection.connect()
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, RedisError):
                raise Unsent from error
            raise
        return connection
