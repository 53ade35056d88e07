"""Runs tools: checks permissions, retries, limits time and size, and redacts secrets."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from interlock.capabilities.capability import Effect
from interlock.capabilities.model import Tool
from interlock.capabilities.tools import ToolRequest, ToolResult
from interlock.contract.policies import ArgumentPolicy
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
from interlock.runtime.origins import Origins
from interlock.tools.arguments import Arguments, check_arguments
from interlock.tools.failure import ToolFailure
from interlock.tools.functions import KEY, load_function
from interlock.tools.threads import Threads

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["BACKOFF_S", "MAX_ERROR", "MAX_RESULT", "RETRIES", "OneTool", "Policies", "Redact", "ToolServer", "Tools", "open_tools"]

MAX_RESULT = 256 * 1024
"""Largest result, in bytes of JSON. A longer one is cut and marked."""

MAX_ERROR = 2000
"""Longest error message, in characters."""

RETRIES = 2
"""How often a tool is retried after a transient error."""

BACKOFF_S = 0.1
"""Seconds to wait before the first retry; each further wait is twice as long."""

Redact = Callable[[JsonValue], JsonValue]
"""Redacts secrets in JSON data, which it may change in place. May be called in a thread."""

Policies = Mapping[str, Mapping[str, ArgumentPolicy]]
"""What arguments accept, by tool and argument."""

_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", re.ASCII)
_MAX_NAME = 64
_MAX_SHOWN_NAME = 200  # longest unknown name in a message, in characters
_REDACT_INLINE = 64 * 1024  # largest result that is redacted on the event loop, in bytes
_TIMEOUTS = (ToolTimeout, QueryTimeout, CapabilityTimeout, ModelTimeout)  # not retried


class OneTool(Protocol):
    """A tool that can be run. It may have an attribute `effect`; without one, its calls must not be repeated."""

    @property
    def tool(self) -> Tool: ...

    async def run(self, args: dict[str, JsonValue]) -> object:
        """Validate the arguments and run the tool. The caller sees the message of a ToolFailure or CapabilityError only."""
        ...


class ToolServer(Protocol):
    """A source of tools that are listed at run time, such as an MCP server."""

    async def tools(self) -> Mapping[str, OneTool]:
        """Return the tools by their names on the server. Raises ToolError if it cannot be reached."""
        ...

    async def aclose(self) -> None: ...


@dataclass
class _Attempts:
    """How often a tool was tried, and its deadline."""

    until: float
    made: int = 0


class Tools:
    """Offers tools and runs them. `server.*` in a list means all tools of a server.

    LangChain tools can be passed directly. `allowed` maps each specialist to its list of tools; without it, every specialist may
    use all tools and servers.

    After a `transient` error that is not a timeout a tool is run again, at most `retries` times and within `timeout_s` in all.
    `redact` removes secrets from results and error messages before they are cut.

    `effects` says what tools do outside, in place of what they say themselves; `server.*` means all tools of a server that are not
    named.

    `policies` says what arguments accept, by tool and argument, in place of what functions declare. If `closed`, every other argument
    of a tool that may have an effect accepts only trusted values, or what a person approves, and the call itself must be decided
    before anything from outside is read. A call that is refused is the error `untrusted_argument` of its result.
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
        effects: Mapping[str, Effect] | None = None,
        policies: Policies | None = None,
        closed: bool = False,
    ) -> None:
        self._tools = {tool.tool.name: tool for tool in map(_one_tool, tools)}
        self._servers = dict(servers or {})
        self._allowed = None if allowed is None else {specialist: tuple(dict.fromkeys(names)) for specialist, names in allowed.items()}
        self._timeout_s = timeout_s
        self._retries = retries
        self._backoff_s = backoff_s
        self._redact = redact
        self._effects: dict[str, Effect] = dict(effects or {})
        self._policies: Policies = dict(policies or {})
        self._closed_by_default = closed
        self.tracks_origins: bool = closed or bool(policies) or any(getattr(tool, "policies", None) for tool in self._tools.values())
        """Whether a tool has a policy, so that it must be known where the values of a turn come from."""
        self._threads = Threads()
        self._closed = 0
        self._check_names()
        self._check_declared()

    async def offered(self, specialist: str) -> tuple[Tool, ...]:
        """Return the tools on a specialist's list, in its order. Raises ToolError if a server cannot be reached."""
        offered: dict[str, Tool] = {}
        for name in self._list(specialist):
            offered.update({tool.name: tool for tool in await self._named(name)})
        return tuple(offered.values())

    async def effect_of(self, request: ToolRequest) -> Effect:
        """Return what a call of a tool does outside. A tool that cannot be found in time may do anything."""
        name = request.tool
        declared = self._declared_effect(name)
        if declared is not None:
            return declared
        try:
            async with asyncio.timeout(self._timeout_s):
                tool = await self._find(name)
        except (CapabilityError, TimeoutError):
            return "once"
        return cast("Effect", getattr(tool, "effect", "once"))

    async def run(self, specialist: str, request: ToolRequest, *, idempotency_key: str = "", origins: Origins | None = None) -> ToolResult:
        """Run a tool for a specialist. Raises ToolDenied if it is not on the list; any other failure is the `error` of the result."""
        if not self._is_allowed(specialist, request.tool):
            raise ToolDenied(
                f"'{self._redacted(request.tool, _MAX_SHOWN_NAME)}' is not on the list of '{self._redacted(specialist, _MAX_SHOWN_NAME)}'."
            )
        attempts = _Attempts(asyncio.get_running_loop().time() + self._timeout_s)
        timeout = asyncio.timeout_at(attempts.until)
        try:
            async with timeout:
                result = await self._run_with_retries(request, attempts, idempotency_key, origins)
                if result is not None:
                    return result
        except ToolFailure as error:
            return self._failed(request, str(error), ToolError, attempts)
        except CapabilityError as error:
            return self._failed(request, str(error), type(error), attempts)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if timeout.expired():
                return self._failed(request, f"'{request.tool}' took longer than {self._timeout_s:g} seconds.", ToolTimeout, attempts)
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # Report the class only: the message may contain a secret.
            LOGGER.debug("Tool '%s' failed.", request.tool, exc_info=error)
            return self._failed(request, f"'{request.tool}' failed: {type(error).__name__}.", ToolError, attempts)
        if request.tool in self._list(specialist):
            return self._failed(request, f"'{request.tool}' cannot be run: its server has no such tool.", ToolError, attempts)
        raise ToolDenied(
            f"'{self._redacted(request.tool, _MAX_SHOWN_NAME)}' is not on the list of '{specialist}': the server has no such tool."
        )

    async def aclose(self) -> None:
        """Close the servers. A later call opens them again."""
        self._closed += 1
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))

    def _check_names(self) -> None:
        for name in (*self._tools, *self._servers):
            if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
                raise SettingsInvalid(f"A tool cannot be called '{name}': use at most {_MAX_NAME} letters, digits, '_', '-' and dots.")
        for server in self._servers:
            if "." in server or any(name.startswith(f"{server}.") for name in self._tools):
                raise SettingsInvalid(f"A tool server cannot be called '{server}': it has a dot, or the name of a tool starts with it.")
        for specialist, names in (self._allowed or {}).items():
            for name in names:
                if name not in self._tools and self._server_of(name) is None:
                    raise SettingsInvalid(f"'{specialist}' may use '{name}', which is not a tool. There are: {self._known()}.")

    def _check_declared(self) -> None:
        for name in (*self._effects, *self._policies):
            if name not in self._tools and self._server_of(name) is None:
                raise SettingsInvalid(f"'{name}' has an effect or a policy, but is not a tool. There are: {self._known()}.")
        for name, tool in self._tools.items():
            known = cast("Mapping[str, Any]", tool.tool.parameters.get("properties") or {})
            if unknown := self._policies.get(name, {}).keys() - known.keys():
                raise SettingsInvalid(f"Tool '{name}' has a policy for '{min(unknown)}', which is not one of its arguments.")

    def _list(self, specialist: str) -> tuple[str, ...]:
        if self._allowed is None:
            return (*self._tools, *(f"{server}.*" for server in self._servers))
        return self._allowed.get(specialist, ())

    def _is_allowed(self, specialist: str, name: str) -> bool:
        names, server = self._list(specialist), self._server_of(name)
        return not name.endswith(".*") and (name in names or (server is not None and f"{server}.*" in names))

    async def _run_with_retries(self, request: ToolRequest, attempts: _Attempts, key: str, origins: Origins | None) -> ToolResult | None:
        """Run a tool, and retry transient errors. Returns None if its server has no such tool."""
        pause, closed = self._backoff_s, self._closed
        while True:
            attempts.made += 1
            try:
                tool = await self._find(request.tool)
                if tool is None:
                    return None
                if attempts.made == 1:
                    check_arguments(request, self._arguments(request.tool, tool), origins)
                keyed = {KEY: key} if getattr(tool, "takes_key", False) else {}
                return ToolResult(tool=request.tool, result=await self._presentable(request.tool, await tool.run(request.args, **keyed)))
            except CapabilityError as error:
                is_over = attempts.made > self._retries or asyncio.get_running_loop().time() + pause >= attempts.until
                # After `aclose`, a retry would reopen the server.
                if is_over or self._closed != closed or not error.transient or isinstance(error, _TIMEOUTS):
                    raise
                LOGGER.debug("Tool '%s' failed and will be retried in %g seconds.", request.tool, pause, exc_info=error)
            await asyncio.sleep(pause)
            pause *= 2

    def _arguments(self, name: str, tool: OneTool) -> Arguments:
        """Return what is known of the arguments of a tool."""
        declared = self._declared_effect(name) or ("once" if getattr(tool, "is_hint", False) else getattr(tool, "effect", "once"))
        policies = {**getattr(tool, "policies", {}), **self._policies.get(name, {})}
        return Arguments(policies=policies, is_closed=self._closed_by_default and declared != "asks")

    async def _presentable(self, name: str, result: object) -> JsonValue:
        """Convert a result to JSON data, redact it, then cut it: in this order, so that no secret is cut in two and missed."""
        data, text = _serialized(name, result)
        if self._redact is not None:
            redacted = partial(self._redact, data)
            data, text = _serialized(name, redacted() if len(text) <= _REDACT_INLINE else await self._threads.run(redacted))
        return data if len(text) <= MAX_RESULT else _cut(text)

    def _failed(self, request: ToolRequest, sentence: str, kind: type[CapabilityError], attempts: _Attempts) -> ToolResult:
        """Return a result with the error and the number of attempts."""
        often = f" It was tried {attempts.made} times." if attempts.made > 1 else ""
        return ToolResult(tool=request.tool, error=f"{self._redacted(sentence)}{often}", code=kind.code)

    def _redacted(self, sentence: str, most: int = MAX_ERROR) -> str:
        """Return a message as valid Unicode, redacted, and cut to `most` characters."""
        # In this order: a pattern does not match around invalid characters, or a secret that is cut in two.
        text = sentence.encode(errors="replace").decode()
        if self._redact is not None:
            try:
                text = str(self._redact(text))
            except Exception as error:  # noqa: BLE001 - if redaction fails, the message is not shown
                LOGGER.debug("A message could not be redacted: %s.", type(error).__name__)
                text = "The message of the tool is not shown, because it could not be redacted."
        return text if len(text) <= most else f"{text[:most]} [cut]"

    async def _find(self, name: str) -> OneTool | None:
        if name in self._tools:
            return self._tools[name]
        server, _, rest = name.partition(".")
        return (await self._servers[server].tools()).get(rest) if server in self._servers else None

    def _declared_effect(self, name: str) -> Effect | None:
        return self._effects.get(name) or self._effects.get(f"{self._server_of(name)}.*")

    def _server_of(self, name: str) -> str | None:
        server, dot, _ = name.partition(".")
        return server if dot and server in self._servers else None

    def _known(self) -> str:
        return ", ".join((*self._tools, *(f"{server}.*" for server in self._servers)))

    async def _named(self, name: str) -> list[Tool]:
        """Return the tools of an entry of a list."""
        if name in self._tools:
            return [self._tools[name].tool]
        server, _, rest = name.partition(".")
        tools = await self._servers[server].tools()
        if rest == "*":
            return [tool.tool for tool in tools.values()]
        if rest not in tools:
            raise SettingsInvalid(f"'{name}' is not a tool: '{server}' has {', '.join(tools) or 'none'}.")
        return [tools[rest].tool]


def open_tools(
    tools: Iterable[OneTool] = (),
    *,
    allowed: Mapping[str, Sequence[str]] | None = None,
    functions: Mapping[str, str | Callable[..., Any]] | None = None,
    servers: Mapping[str, Mapping[str, Any]] | None = None,
    timeout_s: float = 10.0,
    retries: int = RETRIES,
    redact: Redact | None = None,
    effects: Mapping[str, Effect] | None = None,
    policies: Policies | None = None,
    closed: bool = False,
) -> Tools:
    """Combine an agent's own tools with configured functions and MCP servers.

    `functions` maps tool names to MODULE:FUNCTION, and replaces tools of the same name. They are imported now, so that a mistake
    is found before the first turn. `servers` maps names to MCP servers, each `{"command": [...], "env": {...}, "cwd": ...}` or
    `{"url": ..., "headers": {...}}`. They are opened at first use.
    """
    named: dict[str, OneTool] = {one.tool.name: one for one in tools}
    named |= {name: load_function(name, target) for name, target in (functions or {}).items()}
    opened: dict[str, ToolServer] = {}
    if servers:
        from interlock.tools.mcp import McpServer  # noqa: PLC0415 - an extra

        opened = {name: McpServer.configured(name, settings) for name, settings in servers.items()}
    return Tools(
        named.values(),
        allowed=allowed,
        servers=opened,
        timeout_s=timeout_s,
        retries=retries,
        redact=redact,
        effects=effects,
        policies=policies,
        closed=closed,
    )


def _one_tool(tool: Any) -> OneTool:
    """Return the tool, wrapped if it is LangChain's. If LangChain is not imported, it cannot be."""
    module = sys.modules.get("langchain_core.tools")
    if module is not None and isinstance(tool, module.BaseTool):
        from interlock.tools.langchain import LangChainTool  # noqa: PLC0415 - only for such tools

        return LangChainTool(tool)
    if not isinstance(getattr(tool, "tool", None), Tool) or not inspect.iscoroutinefunction(getattr(tool, "run", None)):
        raise SettingsInvalid(f"A '{type(tool).__name__}' is not a tool. Fix: pass a LangChain tool, or a FunctionTool of a function.")
    return cast("OneTool", tool)


def _serialized(name: str, result: object) -> tuple[JsonValue, bytes]:
    """Return a result as JSON data and as JSON text."""
    try:
        data: JsonValue = to_jsonable_python(result, bytes_mode="base64", inf_nan_mode="null")
        return data, json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise ToolError(f"'{name}' returned a value that is not JSON data: {type(result).__name__}.") from error


def _cut(text: bytes) -> JsonValue:
    return {
        "cut": f"The result has {len(text):,} bytes; these are the first {MAX_RESULT:,}.",
        "text": text[:MAX_RESULT].decode(errors="ignore"),
    }
