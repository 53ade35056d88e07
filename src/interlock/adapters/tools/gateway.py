"""The one place that runs tools: who may ask for which, how often, for how long, and what may be seen of it."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from interlock.adapters.tools.arithmetic import evaluate
from interlock.adapters.tools.catalogue import Catalogue
from interlock.adapters.tools.failure import ToolFailure
from interlock.adapters.tools.functions import FunctionTool, load_function
from interlock.adapters.tools.knowledge import ARTICLES, DOCUMENTS, Collection, Knowledge
from interlock.adapters.tools.threads import Threads
from interlock.capabilities.model import Tool
from interlock.capabilities.tools import ToolRequest, ToolResult
from interlock.errors import (
    CapabilityError,
    CapabilityTimeout,
    ModelTimeout,
    QueryTimeout,
    SettingsInvalid,
    ToolDenied,
    ToolError,
    ToolTimeout,
)
from interlock.runtime.observe import LOGGER

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["ALLOWED", "BACKOFF_S", "MAX_ERROR", "MAX_RESULT", "RETRIES", "OneTool", "Redact", "ToolServer", "Tools", "open_tools"]

MAX_RESULT = 256 * 1024
"""How many bytes a result may have, written as JSON. What is longer is cut and marked."""

MAX_ERROR = 2000
"""How many characters an error may have."""

RETRIES = 2
"""How often a tool is tried again that failed for a reason that may pass."""

BACKOFF_S = 0.1
"""How long to wait before the second try; before each further one twice as long."""

ALLOWED: Mapping[str, Sequence[str]] = {
    "sales": ("inventory.query", "math.evaluate"),
    "support": ("knowledge_base.search", "math.evaluate"),
    "analyst": ("bq_query", "search", "calculate"),
}
"""Who may ask for what, where nothing else is set."""

Redact = Callable[[JsonValue], JsonValue]
"""Takes secrets out of JSON data, which it may change in place. It may be called in a thread."""

_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", re.ASCII)
_MAX_NAME = 64
_NAMED = 200  # characters of a name that nobody has heard of
_AT_ONCE = 64 * 1024  # bytes of a result that are searched for secrets without leaving the loop
_LATE = (ToolTimeout, QueryTimeout, CapabilityTimeout, ModelTimeout)  # what hangs is not asked again


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


@dataclass
class _Tries:
    """How often a tool was tried, and when the time for it is over."""

    until: float
    made: int = 0


class Tools:
    """Offers tools and runs them. `server.*` in a list stands for all tools of a server.

    A LangChain tool is taken as it is. Where nothing is said about who is `allowed` what, everybody may use all tools and servers.

    A tool whose error is `transient`, and no timeout, is run again at most `retries` times, all within `timeout_s`. `redact` takes
    secrets out of what tools return and say, before anything is cut.
    """

    def __init__(
        self,
        tools: Iterable[OneTool | BaseTool],
        *,
        allowed: Mapping[str, Sequence[str]] | None = None,
        servers: Mapping[str, ToolServer] | None = None,
        timeout_s: float = 10.0,
        retries: int = RETRIES,
        backoff_s: float = BACKOFF_S,
        redact: Redact | None = None,
    ) -> None:
        self._tools = {tool.tool.name: tool for tool in map(_one_tool, tools)}
        self._servers = dict(servers or {})
        self._allowed = None if allowed is None else {specialist: tuple(dict.fromkeys(names)) for specialist, names in allowed.items()}
        self._timeout_s = timeout_s
        self._retries = retries
        self._backoff_s = backoff_s
        self._redact = redact
        self._threads = Threads()
        self._closed = 0
        for name in (*self._tools, *self._servers):
            if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
                raise SettingsInvalid(f"A tool cannot be called '{name}': use at most {_MAX_NAME} letters, digits, '_', '-' and dots.")
        for server in self._servers:
            if "." in server or any(name.startswith(f"{server}.") for name in self._tools):
                raise SettingsInvalid(f"A server of tools cannot be called '{server}': it has a dot, or a tool begins with it.")
        for specialist, names in (self._allowed or {}).items():
            for name in names:
                if name not in self._tools and self._server_of(name) is None:
                    raise SettingsInvalid(f"'{specialist}' may use '{name}', which is no tool. There are: {self._known()}.")

    async def offered(self, specialist: str) -> tuple[Tool, ...]:
        """Return the tools on a specialist's list, in its order. A server that cannot be reached is a ToolError."""
        offered: dict[str, Tool] = {}
        for name in self._list(specialist):
            offered.update({tool.name: tool for tool in await self._named(name)})
        return tuple(offered.values())

    async def run(self, specialist: str, request: ToolRequest) -> ToolResult:
        """Run a tool for a specialist. A tool that is not on its list is a ToolDenied; all else is the error of the result."""
        if not self._may(specialist, request.tool):
            raise ToolDenied(f"'{self._said(request.tool, _NAMED)}' is not on the list of '{self._said(specialist, _NAMED)}'.")
        tries = _Tries(asyncio.get_running_loop().time() + self._timeout_s)
        timeout = asyncio.timeout_at(tries.until)
        try:
            async with timeout:
                result = await self._tried(request, tries)
                if result is not None:
                    return result
        except ToolFailure as error:
            return self._failed(request, str(error), ToolError, tries)
        except CapabilityError as error:
            return self._failed(request, str(error), type(error), tries)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if timeout.expired():
                return self._failed(request, f"'{request.tool}' took longer than {self._timeout_s:g} seconds.", ToolTimeout, tries)
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # Only what kind it is: its text may have a secret in it, and whoever asked has no use for a traceback.
            LOGGER.debug("Tool '%s' failed.", request.tool, exc_info=error)
            return self._failed(request, f"'{request.tool}' failed: {type(error).__name__}.", ToolError, tries)
        if request.tool in self._list(specialist):
            return self._failed(request, f"'{request.tool}' cannot be run: its server has no such tool.", ToolError, tries)
        raise ToolDenied(f"'{self._said(request.tool, _NAMED)}' is not on the list of '{specialist}': the server has no such tool.")

    async def aclose(self) -> None:
        """Close the servers. They are opened again if they are needed again."""
        self._closed += 1
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))

    def _list(self, specialist: str) -> tuple[str, ...]:
        if self._allowed is None:
            return (*self._tools, *(f"{server}.*" for server in self._servers))
        return self._allowed.get(specialist, ())

    def _may(self, specialist: str, name: str) -> bool:
        names, server = self._list(specialist), self._server_of(name)
        return not name.endswith(".*") and (name in names or (server is not None and f"{server}.*" in names))

    async def _tried(self, request: ToolRequest, tries: _Tries) -> ToolResult | None:
        """Run a tool, and again while that may help; None is a tool that its server does not have."""
        pause, closed = self._backoff_s, self._closed
        while True:
            tries.made += 1
            try:
                tool = await self._find(request.tool)
                if tool is None:
                    return None
                return ToolResult(tool=request.tool, result=await self._shown(request.tool, await tool.run(request.args)))
            except CapabilityError as error:
                is_over = tries.made > self._retries or asyncio.get_running_loop().time() + pause >= tries.until
                # After a close, another try would open what was closed, for somebody who is leaving.
                if is_over or self._closed != closed or not error.transient or isinstance(error, _LATE):
                    raise
                LOGGER.debug("Tool '%s' failed, and is tried again in %g seconds.", request.tool, pause, exc_info=error)
            await asyncio.sleep(pause)
            pause *= 2

    async def _shown(self, name: str, result: object) -> JsonValue:
        """Make JSON data of a result, without secrets, and cut it if it is too large: in this order, so that no secret is cut in two."""
        data, text = _written(name, result)
        if self._redact is not None:
            redacted = partial(self._redact, data)
            data, text = _written(name, redacted() if len(text) <= _AT_ONCE else await self._threads.run(redacted))
        return data if len(text) <= MAX_RESULT else _cut(text)

    def _failed(self, request: ToolRequest, sentence: str, kind: type[CapabilityError], tries: _Tries) -> ToolResult:
        """Say why there is no result, and how often it was tried."""
        often = f" It was tried {tries.made} times." if tries.made > 1 else ""
        return ToolResult(tool=request.tool, error=f"{self._said(sentence)}{often}", code=kind.code)

    def _said(self, sentence: str, most: int = MAX_ERROR) -> str:
        """Make a sentence one that can be passed on: in characters that can be written, without secrets, in bounded length."""
        # In this order: a pattern finds nothing in what cannot be written, and half of nothing that was cut.
        text = sentence.encode(errors="replace").decode()
        if self._redact is not None:
            try:
                text = str(self._redact(text))
            except Exception as error:  # noqa: BLE001 - of whoever was to keep it secret: then it is
                LOGGER.debug("A sentence could not be redacted: %s.", type(error).__name__)
                text = "What the tool said cannot be shown."
        return text if len(text) <= most else f"{text[:most]} [cut]"

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
    allowed: Mapping[str, Sequence[str]] | None = None,
    functions: Mapping[str, str | Callable[..., Any]] | None = None,
    servers: Mapping[str, Mapping[str, Any]] | None = None,
    extra: Iterable[OneTool] = (),
    catalogue_path: Path | None = None,
    knowledge_path: Path | None = None,
    documents_path: Path | None = None,
    timeout_s: float = 10.0,
    retries: int = RETRIES,
    redact: Redact | None = None,
) -> Tools:
    """Put the tools together. Functions are imported, so that a mistake in one is found now; nothing else is opened before it is used.

    Where nothing is said about who is `allowed` what, it is what ALLOWED says, as far as there are such tools. `functions` are
    MODULE:FUNCTION by the name of the tool; one that is called like a tool of ours, or like one of `extra`, takes its place. `servers`
    are MCP servers by name, each `{"command": [...], "env": {...}, "cwd": ...}` or `{"url": ..., "headers": {...}}`.
    """
    folder = folder.expanduser()
    tools: dict[str, OneTool] = {
        "math.evaluate": FunctionTool("math.evaluate", evaluate),
        "calculate": FunctionTool("calculate", evaluate),
        "inventory.query": FunctionTool("inventory.query", Catalogue(folder, path=_given(catalogue_path)).query),
        "knowledge_base.search": _searching("knowledge_base.search", folder, knowledge_path, ARTICLES),
        "search": _searching("search", folder, documents_path, DOCUMENTS),
    }
    tools |= {one.tool.name: one for one in extra}
    tools |= {name: load_function(name, target) for name, target in (functions or {}).items()}
    opened: dict[str, ToolServer] = {}
    if servers:
        from interlock.adapters.tools.mcp import McpServer  # noqa: PLC0415 - an extra

        opened = {name: McpServer.configured(name, settings) for name, settings in servers.items()}
    if allowed is None:
        allowed = {specialist: [name for name in names if name in tools] for specialist, names in ALLOWED.items()}
    return Tools(tools.values(), allowed=allowed, servers=opened, timeout_s=timeout_s, retries=retries, redact=redact)


def _one_tool(tool: Any) -> OneTool:
    """Take a tool of ours, or one of LangChain's. Who has not loaded LangChain has no tool of it."""
    module = sys.modules.get("langchain_core.tools")
    if module is not None and isinstance(tool, module.BaseTool):
        from interlock.adapters.tools.langchain import LangChainTool  # noqa: PLC0415 - only for such tools

        return LangChainTool(tool)
    if not isinstance(getattr(tool, "tool", None), Tool) or not inspect.iscoroutinefunction(getattr(tool, "run", None)):
        raise SettingsInvalid(f"A '{type(tool).__name__}' is no tool. Fix: pass a LangChain tool, or a FunctionTool of a function.")
    return cast("OneTool", tool)


def _searching(name: str, folder: Path, path: Path | None, collection: Collection) -> FunctionTool:
    knowledge = Knowledge(folder, path=_given(path), collection=collection)
    search = knowledge.look_up if collection is DOCUMENTS else knowledge.search
    return FunctionTool(name, search, description=collection.description)


def _given(path: Path | None) -> Path | None:
    return None if path is None else path.expanduser()


def _written(name: str, result: object) -> tuple[JsonValue, bytes]:
    """Make JSON data of a result, and the text of it."""
    try:
        data: JsonValue = to_jsonable_python(result, bytes_mode="base64", inf_nan_mode="null")
        return data, json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise ToolError(f"'{name}' returned something that is no JSON data: {type(result).__name__}.") from error


def _cut(text: bytes) -> JsonValue:
    return {
        "cut": f"The result has {len(text):,} bytes; these are the first {MAX_RESULT:,}.",
        "text": text[:MAX_RESULT].decode(errors="ignore"),
    }
