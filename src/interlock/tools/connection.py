"""A connection to an MCP server, which is opened and closed in a dedicated task.

The SDK requires that a connection is closed by the task that opened it, but tools are called from the tasks of many turns.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from interlock.processes import die_with_parent
from interlock.runtime.observe import LOGGER

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool as Listed

__all__ = ["MAX_PAGES", "RELIST_S", "Connection", "Streams", "http_transport", "stdio_transport"]

MAX_PAGES = 32
"""How many pages of a server's list of tools are read."""

Streams = tuple[Any, Any]
"""The read and write streams of a connection. The SDK's own name for this type is private."""

RELIST_S = 60.0
"""How old a list of tools may be before it is read again, in seconds."""

_DIE_WITH_PARENT = Path(die_with_parent.__file__)
_CONNECT_S = 30.0
_SILENT_S = 300.0  # how long a server's stream may be silent; a call has its own time limit
_LINE = 2000  # longest log line of a server, in characters


class Connection:
    """A connection to a server, with the server's list of tools. Belongs to the event loop that created it."""

    def __init__(self, transport: Callable[[], AbstractAsyncContextManager[Streams]], *, start_s: float) -> None:
        self._transport = transport
        self._start_s = start_s
        self._closing = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[Client] = self.loop.create_future()
        self.listed: list[Listed] = []
        self._listed_at = -math.inf
        self._task = self.loop.create_task(self._run())

    @property
    def is_ended(self) -> bool:
        """Whether the connection is closing or closed, or was never established."""
        return self._closing.is_set() or self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether there is nothing left to close."""
        return self._task.done() or self.loop.is_closed()

    async def client(self) -> Client:
        """Wait until the connection is established. Cancelling one waiter does not affect the others."""
        return await asyncio.shield(self.opened)

    async def close(self) -> None:
        """Close the connection, and wait until the server has ended."""
        self._closing.set()
        if not self.opened.done():
            self._task.cancel()  # it is still connecting, and might never finish
        await asyncio.wait({self._task})

    def drop(self) -> None:
        """Close the connection without waiting."""
        self._closing.set()

    @property
    def is_stale(self) -> bool:
        """Whether the list of tools should be read again: the server announced a change, or the list is old. Not all servers do."""
        return self.loop.time() > self._listed_at + RELIST_S

    async def relist(self) -> None:
        """Read the list of tools again."""
        self.listed = await self._list(await self.client())

    async def _run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                # Not anyio's timeout: what is opened inside its scope must be closed inside it.
                async with asyncio.timeout(self._start_s):
                    client = await stack.enter_async_context(await self._client())
                    self.listed = await self._list(client)
                self.opened.set_result(client)
                await self._closing.wait()
        except BaseException as error:
            self._closing.set()
            if not self.opened.done():
                self.opened.set_exception(error if isinstance(error, Exception) else ConnectionAbortedError())
            if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
                raise
            LOGGER.debug("The connection to an MCP server ended.", exc_info=error)

    async def _client(self) -> Client:
        await asyncio.to_thread(importlib.import_module, "mcp")  # takes most of a second, which must not block the event loop
        from mcp import Client  # noqa: PLC0415 - an extra
        from mcp.types import ToolListChangedNotification  # noqa: PLC0415

        async def on_message(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                self._listed_at = -math.inf

        return Client(_notify_on_end(self._transport(), self._closing), message_handler=on_message)

    async def _list(self, client: Client) -> list[Listed]:
        self._listed_at = self.loop.time()
        tools: list[Listed] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return tools


@asynccontextmanager
async def _notify_on_end(transport: AbstractAsyncContextManager[Streams], ended: asyncio.Event) -> AsyncGenerator[Streams, None]:
    """Set `ended` when the server closes the stream, even while no call is running."""
    async with transport as (read, write):
        yield _NotifyingStream(read, ended), write


class _NotifyingStream:
    """A stream of messages that sets an event when it ends."""

    def __init__(self, stream: Any, ended: asyncio.Event) -> None:
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._ended.set()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> bool | None:
        return await self._stream.__aexit__(*raised)


@asynccontextmanager
async def stdio_transport(name: str, command: list[str], env: dict[str, str], cwd: Path | None) -> AsyncGenerator[Streams, None]:
    """Start a server as a child process that the kernel kills with this process."""
    from mcp import StdioServerParameters, stdio_client  # noqa: PLC0415

    if sys.platform == "linux":  # on other systems a server must end by itself when its input is closed
        command = [sys.executable, "-I", "-S", str(_DIE_WITH_PARENT), str(os.getpid()), *command]
    log = _log_pipe(name)
    try:
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=cwd)
        async with stdio_client(parameters, errlog=log) as streams:
            log.close()
            yield streams
    finally:
        log.close()


@asynccontextmanager
async def http_transport(url: str, headers: dict[str, str]) -> AsyncGenerator[Streams, None]:
    """Connect to a server over HTTP."""
    import httpx2  # noqa: PLC0415 - comes with the extra
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    timeout = httpx2.Timeout(_CONNECT_S, read=_SILENT_S)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout) as http, streamable_http_client(url, http_client=http) as streams:
        yield streams


def _log_pipe(name: str) -> TextIO:
    """Return a pipe for a server's stderr whose lines go to the log, not to the terminal."""
    reading, writing = os.pipe()

    def forward() -> None:
        with os.fdopen(reading, errors="replace") as lines:
            while line := lines.readline(_LINE):
                LOGGER.debug("%s: %s", name, line.rstrip("\n"))

    threading.Thread(target=forward, name="interlock-mcp-log", daemon=True).start()
    return os.fdopen(writing, "w")
