"""A connection to an MCP server: opened, kept and closed in a task of its own.

What the SDK opens has to be closed by the task that opened it, and tools are called by whatever task a turn runs in.
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

from interlock.adapters import leash
from interlock.runtime.observe import LOGGER

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool as Listed

__all__ = ["MAX_PAGES", "RELIST_S", "Connection", "Streams", "started", "visited"]

MAX_PAGES = 32
"""How many pages of tools a server may list."""

Streams = tuple[Any, Any]
"""What messages come from and go to; the SDK has a name for it, which is private."""

RELIST_S = 60.0
"""How old a list of tools may be, in seconds."""

_LEASH = Path(leash.__file__)
_CONNECT_S = 30.0
_SILENT_S = 300.0  # how long a stream of a server's may be silent; a call has a time of its own
_LINE = 2000  # characters of a line that a server logs


class Connection:
    """A server that is reached, with the tools that it listed. It belongs to the event loop that it was made in."""

    def __init__(self, transport: Callable[[], AbstractAsyncContextManager[Streams]], *, start_s: float) -> None:
        self._transport = transport
        self._start_s = start_s
        self._closing = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[Client] = self.loop.create_future()
        self.listed: list[Listed] = []
        self._listed_at = -math.inf
        self._task = self.loop.create_task(self._live())

    @property
    def is_over(self) -> bool:
        """Tell whether the server is gone, or was left, or was never reached."""
        return self._closing.is_set() or self.is_closed

    @property
    def is_closed(self) -> bool:
        """Tell whether nothing is left to be closed."""
        return self._task.done() or self.loop.is_closed()

    async def client(self) -> Client:
        """Wait until the server is reached. Many may wait, and each may leave."""
        return await asyncio.shield(self.opened)

    async def close(self) -> None:
        """Leave the server, and wait until it is gone."""
        self._closing.set()
        if not self.opened.done():
            self._task.cancel()  # it is still being started, and may never be
        await asyncio.wait({self._task})

    def drop(self) -> None:
        """Leave the server without waiting."""
        self._closing.set()

    @property
    def is_stale(self) -> bool:
        """Tell whether the tools should be listed anew: the server said so, or it is a while ago. Not every server says so."""
        return self.loop.time() > self._listed_at + RELIST_S

    async def relist(self) -> None:
        """Ask for the tools anew."""
        self.listed = await self._list(await self.client())

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                # Not anyio's own timeout: what is opened inside one must be closed inside it.
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
        await asyncio.to_thread(importlib.import_module, "mcp")  # takes most of a second, in which others may go on
        from mcp import Client  # noqa: PLC0415 - an extra
        from mcp.types import ToolListChangedNotification  # noqa: PLC0415

        async def hear(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                self._listed_at = -math.inf

        return Client(_watched(self._transport(), self._closing), message_handler=hear)

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
async def _watched(transport: AbstractAsyncContextManager[Streams], ended: asyncio.Event) -> AsyncGenerator[Streams, None]:
    """Notice when a server goes away while nobody is asking it anything."""
    async with transport as (read, write):
        yield _Watched(read, ended), write


class _Watched:
    """A stream of messages that tells when there are no more."""

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
async def started(name: str, command: list[str], env: dict[str, str], cwd: Path | None) -> AsyncGenerator[Streams, None]:
    """Start a server as a process that does not outlive this one."""
    from mcp import StdioServerParameters, stdio_client  # noqa: PLC0415

    if sys.platform == "linux":  # elsewhere a server has to end by itself when its input does
        command = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), *command]
    said = _logged(name)
    try:
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=cwd)
        async with stdio_client(parameters, errlog=said) as streams:
            said.close()
            yield streams
    finally:
        said.close()


@asynccontextmanager
async def visited(url: str, headers: dict[str, str]) -> AsyncGenerator[Streams, None]:
    """Speak to a server over HTTP."""
    import httpx2  # noqa: PLC0415 - comes with the extra
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    patience = httpx2.Timeout(_CONNECT_S, read=_SILENT_S)
    async with httpx2.AsyncClient(headers=headers, timeout=patience) as http, streamable_http_client(url, http_client=http) as streams:
        yield streams


def _logged(name: str) -> TextIO:
    """Return where a server writes what is no message: our log. The terminal is somebody else's."""
    reading, writing = os.pipe()

    def log() -> None:
        with os.fdopen(reading, errors="replace") as lines:
            while line := lines.readline(_LINE):
                LOGGER.debug("%s: %s", name, line.rstrip("\n"))

    threading.Thread(target=log, name="interlock-mcp-log", daemon=True).start()
    return os.fdopen(writing, "w")
