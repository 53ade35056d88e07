"""The connections of one event loop to a Redis server. They end with it.

What is asked in one step of the event loop goes to the server together, and is answered together: with many sessions at
once most of the time of a command goes into the calls of the operating system and into waking up, which they share.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

__all__ = ["LIMIT", "TOGETHER", "Command", "Connections", "Unsent"]

LIMIT = 32
"""How many connections an event loop may have. Whoever finds them all in use waits."""

TOGETHER = 32
"""How many commands go over a connection together: whoever asks for little waits for no more large answers than these."""

Command: TypeAlias = tuple[str | bytes | int, ...]
Make: TypeAlias = Callable[[], AbstractConnection]


class Unsent(Exception):
    """There was no connection, so the command was not sent."""


class _Asked(NamedTuple):
    """A command, and where its answer goes."""

    command: Command
    answer: asyncio.Future[Any]


class Connections:
    """Keeps connections for those who ask on the running event loop. One that broke is not mended but thrown away.

    A client of redis-py with its pool was tried first. It takes twice the processor time, and does not tell whether a
    command had been sent when the connection broke. A command at a time on each connection took twice as long as this.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._room = asyncio.Semaphore(LIMIT)
        self._idle: list[AbstractConnection] = []
        self._asked: list[_Asked] = []
        self._carrying: set[asyncio.Task[None]] = set()
        self._open = True
        self._life = self._live()

    async def start(self) -> None:
        """Make the event loop close the connections when it ends, as it does with every generator that it knows."""
        await anext(self._life)

    def call(self, make: Make, command: Command) -> asyncio.Future[Any]:
        """Send a command, once, and return the reply. Raises TimeoutError where that takes too long.

        One that is cancelled before it is sent is not sent; one that is cancelled later does not disturb the others.
        """
        loop = asyncio.get_running_loop()
        asked = _Asked(command, loop.create_future())
        self._asked.append(asked)
        if len(self._asked) == 1:  # it begins after whoever asks in this step has asked
            task = loop.create_task(self._carry_all(make))
            self._carrying.add(task)
            task.add_done_callback(self._carrying.discard)
        return asked.answer

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

    async def _carry_all(self, make: Make) -> None:
        """Carry what was asked: a part of it here, the rest at the same time on other connections."""
        asked, self._asked = self._asked, []
        parts = [asked[start : start + TOGETHER] for start in range(0, len(asked), TOGETHER)]
        if len(parts) == 1:
            await self._carry(make, parts[0])
        else:
            await asyncio.gather(*(self._carry(make, part) for part in parts))

    async def _carry(self, make: Make, asked: Sequence[_Asked]) -> None:
        """Send commands and hand out the replies; whatever goes wrong goes to those who have none yet."""
        try:
            async with asyncio.timeout(self._timeout_s), self._room:
                left = [one for one in asked if not one.answer.done()]
                if left:
                    await self._exchange(make, left)
        except Exception as error:  # noqa: BLE001 - it is theirs to judge
            for one in asked:
                if not one.answer.done():
                    one.answer.set_exception(error)
        finally:
            for one in asked:
                one.answer.cancel()  # where we are cancelled, which is the end of the event loop

    async def _exchange(self, make: Make, asked: Sequence[_Asked]) -> None:
        connection = await self._take(make)
        try:
            await connection.send_packed_command(b"".join([_packed(one.command) for one in asked]))
            for one in asked:
                _hand_out(one.answer, await _reply(connection))
        finally:  # where it broke, or where we were cancelled before the reply came, redis-py has closed it
            if connection.is_connected:
                self._idle.append(connection)
            if not self._open:
                await self._close()

    async def _take(self, make: Make) -> AbstractConnection:
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


_packed = cast("Callable[[Command], bytes]", hiredis.pack_command)  # its own stub says that a command is one word


async def _reply(connection: AbstractConnection) -> Any:
    """Read a reply; one that says that the command failed is returned, because the others may not have."""
    try:
        return cast("Any", await connection.read_response())
    except RedisError as error:
        if not connection.is_connected:
            raise
        return error


def _hand_out(answer: asyncio.Future[Any], reply: Any) -> None:
    if answer.done():  # its caller has left
        return
    if isinstance(reply, RedisError):
        answer.set_exception(reply)
    else:
        answer.set_result(reply)
