"""The one place that runs tools: who may ask for which, for how long, and with how much to say."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from interlock.adapters.tools.arithmetic import evaluate
from interlock.adapters.tools.catalogue import Catalogue
from interlock.adapters.tools.failure import ToolFailure
from interlock.adapters.tools.functions import FunctionTool, load_function
from interlock.adapters.tools.knowledge import Knowledge
from interlock.capabilities.model import Tool
from interlock.capabilities.tools import ToolRequest, ToolResult
from interlock.errors import CapabilityError, SettingsInvalid, ToolDenied, ToolError
from interlock.runtime.logs import LOGGER

__all__ = ["ALLOWED", "MAX_ERROR", "MAX_RESULT", "OneTool", "ToolServer", "Tools", "open_tools"]

MAX_RESULT = 256 * 1024
"""How many bytes a result may have, written as JSON. What is longer is cut and marked."""

MAX_ERROR = 2000
"""How many characters an error may have."""

ALLOWED: Mapping[str, Sequence[str]] = {
    "sales": ("inventory.query", "math.evaluate"),
    "support": ("knowledge_base.search", "math.evaluate"),
}
"""Who may ask for what, where nothing else is set."""

_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", re.ASCII)
_MAX_NAME = 64


class OneTool(Protocol):
    """A tool that can be run."""

    @property
    def tool(self) -> Tool: ...

    async def run(self, args: dict[str, JsonValue]) -> object:
        """Check the arguments and do it; whatever whoever asked may be told is a ToolFailure or a CapabilityError."""
        ...


class ToolServer(Protocol):
    """Somebody else's tools, which are not known before they are asked for."""

    async def tools(self) -> Mapping[str, OneTool]:
        """Return the tools by their names on the server. One that cannot be reached is a ToolError."""
        ...

    async def aclose(self) -> None: ...


class Tools:
    """Offers tools and runs them. `server.*` in a list stands for all tools of a server."""

    def __init__(
        self,
        tools: Iterable[OneTool],
        *,
        allowed: Mapping[str, Sequence[str]],
        servers: Mapping[str, ToolServer] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._tools = {tool.tool.name: tool for tool in tools}
        self._servers = dict(servers or {})
        self._allowed = {specialist: tuple(dict.fromkeys(names)) for specialist, names in allowed.items()}
        self._timeout_s = timeout_s
        for name in (*self._tools, *self._servers):
            if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
                raise SettingsInvalid(f"A tool cannot be called '{name}': use at most {_MAX_NAME} letters, digits, '_', '-' and dots.")
        for server in self._servers:
            if "." in server or any(name.startswith(f"{server}.") for name in self._tools):
                raise SettingsInvalid(f"A server of tools cannot be called '{server}': it has a dot, or a tool begins with it.")
        for specialist, names in self._allowed.items():
            for name in names:
                if name not in self._tools and self._server_of(name) is None:
                    raise SettingsInvalid(f"'{specialist}' may use '{name}', which is no tool. There are: {self._known()}.")

    async def offered(self, specialist: str) -> tuple[Tool, ...]:
        """Return the tools on a specialist's list, in its order. A server that cannot be reached is a ToolError."""
        offered: dict[str, Tool] = {}
        for name in self._allowed.get(specialist, ()):
            offered.update({tool.name: tool for tool in await self._named(name)})
        return tuple(offered.values())

    async def run(self, specialist: str, request: ToolRequest) -> ToolResult:
        """Run a tool for a specialist. A tool that is not on its list is a ToolDenied; all else is the error of the result."""
        if not self._may(specialist, request.tool):
            raise ToolDenied(f"'{request.tool}' is not on the list of '{specialist}'.")
        timeout = asyncio.timeout(self._timeout_s)
        try:
            async with timeout:
                tool = await self._find(request.tool)
                if tool is not None:
                    return ToolResult(tool=request.tool, result=_bounded(request.tool, await tool.run(request.args)))
        except (ToolFailure, CapabilityError) as error:
            return _failed(request, str(error))
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if timeout.expired():
                return _failed(request, f"'{request.tool}' took longer than {self._timeout_s:g} seconds.")
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # Only what kind it is: its text may have a secret in it, and whoever asked has no use for a traceback.
            LOGGER.debug("Tool '%s' failed.", request.tool, exc_info=error)
            return _failed(request, f"'{request.tool}' failed: {type(error).__name__}.")
        if request.tool in self._allowed[specialist]:
            return _failed(request, f"'{request.tool}' cannot be run: its server has no such tool.")
        raise ToolDenied(f"'{request.tool}' is not on the list of '{specialist}': the server has no such tool.")

    async def aclose(self) -> None:
        """Close the servers. They are opened again if they are needed again."""
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))

    def _may(self, specialist: str, name: str) -> bool:
        names, server = self._allowed.get(specialist, ()), self._server_of(name)
        return not name.endswith(".*") and (name in names or (server is not None and f"{server}.*" in names))

    async def _find(self, name: str) -> OneTool | None:
        if name in self._tools:
            return self._tools[name]
        server, _, rest = name.partition(".")
        return (await self._servers[server].tools()).get(rest)

    def _server_of(self, name: str) -> str | None:
        server, dot, _ = name.partition(".")
        return server if dot and server in self._servers else None

    def _known(self) -> str:
        return ", ".join((*self._tools, *(f"{server}.*" for server in self._servers)))

    async def _named(self, name: str) -> list[Tool]:
        """Return what an entry of a list stands for."""
        if name in self._tools:
            return [self._tools[name].tool]
        server, _, rest = name.partition(".")
        tools = await self._servers[server].tools()
        if rest == "*":
            return [tool.tool for tool in tools.values()]
        if rest not in tools:
            raise SettingsInvalid(f"'{name}' is no tool: '{server}' has {', '.join(tools) or 'none'}.")
        return [tools[rest].tool]


def open_tools(
    folder: Path,
    *,
    allowed: Mapping[str, Sequence[str]] = ALLOWED,
    functions: Mapping[str, str | Callable[..., Any]] | None = None,
    servers: Mapping[str, Mapping[str, Any]] | None = None,
    catalogue_path: Path | None = None,
    knowledge_path: Path | None = None,
    timeout_s: float = 10.0,
) -> Tools:
    """Put the tools together. Functions are imported, so that a mistake in one is found now; nothing else is opened before it is used.

    `functions` are MODULE:FUNCTION by the name of the tool; one that is called like a tool of ours takes its place. `servers` are MCP
    servers by name, each `{"command": [...], "env": {...}, "cwd": ...}` or `{"url": ..., "headers": {...}}`.
    """
    folder = folder.expanduser()
    tools: dict[str, OneTool] = {
        "math.evaluate": FunctionTool("math.evaluate", evaluate),
        "inventory.query": FunctionTool("inventory.query", Catalogue(folder, path=_given(catalogue_path)).query),
        "knowledge_base.search": FunctionTool("knowledge_base.search", Knowledge(folder, path=_given(knowledge_path)).search),
    }
    tools |= {name: load_function(name, target) for name, target in (functions or {}).items()}
    opened: dict[str, ToolServer] = {}
    if servers:
        from interlock.adapters.tools.mcp import McpServer  # noqa: PLC0415 - an extra

        opened = {name: McpServer.configured(name, settings) for name, settings in servers.items()}
    return Tools(tools.values(), allowed=allowed, servers=opened, timeout_s=timeout_s)


def _given(path: Path | None) -> Path | None:
    return None if path is None else path.expanduser()


def _failed(request: ToolRequest, sentence: str) -> ToolResult:
    """Say why there is no result: in bounded length, and in characters that can be written."""
    text = sentence.encode(errors="replace").decode()
    return ToolResult(tool=request.tool, error=text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]} [cut]")


def _bounded(name: str, result: object) -> JsonValue:
    """Make JSON data of a result; one that is too large is cut, and says so."""
    try:
        data: JsonValue = to_jsonable_python(result, bytes_mode="base64", inf_nan_mode="null")
        text = json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise ToolError(f"'{name}' returned something that is no JSON data: {type(result).__name__}.") from error
    if len(text) <= MAX_RESULT:
        return data
    return {
        "cut": f"The result has {len(text):,} bytes; these are the first {MAX_RESULT:,}.",
        "text": text[:MAX_RESULT].decode(errors="ignore"),
    }
