"""Tools of MCP servers, which are started by a command or reached at a URL."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import threading
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from interlock.capabilities.capability import Effect
from interlock.capabilities.model import Tool
from interlock.errors import SettingsInvalid, ToolError, ToolInputInvalid, ToolTimeout, ToolUnavailable
from interlock.extras import require
from interlock.runtime.observe import LOGGER
from interlock.tools.connection import Connection, Streams, http_transport, stdio_transport
from interlock.tools.failure import ToolFailure

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as Listed

__all__ = ["MAX_SCHEMA", "MAX_TOOLS", "START_S", "McpServer", "McpSettings", "McpTool"]

MAX_TOOLS = 256
"""How many tools of a server are used; further ones are ignored."""

MAX_SCHEMA = 64 * 1024
"""Largest schema of a tool, in characters of JSON; a tool with a larger one is ignored."""

START_S = 30.0
"""How long a server may take to start and list its tools. The first start may include a download."""

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}", re.ASCII)
_DESCRIPTION = 2000  # longest description that is sent to a model, in characters


class McpSettings(BaseModel):
    """Settings of a server: either `command` with additional environment variables and a working directory, or `url` with headers."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    command: Annotated[list[str], Field(min_length=1)] | None = None
    env: dict[str, str] = {}
    cwd: Path | None = None
    url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    headers: dict[str, str] = {}

    @model_validator(mode="after")
    def _check_kind(self) -> McpSettings:
        if (self.command is None) == (self.url is None):
            raise ValueError("set either 'command' or 'url'")
        if self.url is None and self.headers:
            raise ValueError("'headers' can only be set with 'url'")
        if self.command is None and (self.env or self.cwd):
            raise ValueError("'env' and 'cwd' can only be set with 'command'")
        return self


class McpTool:
    """One tool of a server. Its effect is what the server's annotations say; without any, its calls must not be repeated.

    A server may say what it likes, and gets the arguments: its annotations do not exempt a tool from a policy (`is_hint`).
    """

    def __init__(self, server: McpServer, listed: Listed) -> None:
        self._server = server
        self._name = listed.name
        description = (listed.description or listed.title or listed.name)[:_DESCRIPTION]
        self.tool = Tool(name=f"{server.name}.{listed.name}", description=description, parameters=listed.input_schema)
        self.effect = _effect(listed)
        self.is_hint = True
        self._validator: Any = None

    async def run(self, args: dict[str, JsonValue]) -> JsonValue:
        """Validate the arguments against the server's schema and call the tool. Raises ToolInputInvalid if they do not match."""
        self._check(args)
        return await self._server.call(self._name, args)

    def _check(self, args: dict[str, JsonValue]) -> None:
        from jsonschema import SchemaError, exceptions, validators  # noqa: PLC0415 - comes with the extra
        from referencing import Registry  # noqa: PLC0415
        from referencing.exceptions import Unresolvable  # noqa: PLC0415

        schema: Any = self.tool.parameters
        try:
            if self._validator is None:
                kind: Any = validators.validator_for(schema, default=validators.Draft202012Validator)
                kind.check_schema(schema)
                # With an empty registry a "$ref" in a server's schema is not fetched over the network.
                self._validator = kind(schema, registry=cast("Any", Registry)())
            problem = cast("Any", exceptions).best_match(self._validator.iter_errors(args))
        except (SchemaError, Unresolvable, re.error, RecursionError) as error:
            raise ToolFailure(f"'{self.tool.name}' has a schema that cannot be used: {type(error).__name__}.") from error
        if problem is not None:
            raise ToolInputInvalid(_invalid_argument(problem))


class McpServer:
    """An MCP server. Connects at first use and reconnects when the server has ended. Each event loop has its own connection."""

    def __init__(self, name: str, settings: McpSettings, *, start_s: float = START_S) -> None:
        require("mcp", extra="mcp", what=f"MCP, which server '{name}' speaks,")
        logging.getLogger("mcp").addHandler(logging.NullHandler())  # otherwise its tracebacks go to the terminal
        self.name = name
        self._settings = settings
        self._start_s = start_s
        self._tools: dict[str, McpTool] | None = None
        self._connections: list[Connection] = []
        self._lock = threading.Lock()

    @classmethod
    def configured(cls, name: str, settings: Mapping[str, Any]) -> McpServer:
        """Create a server from plain settings. Raises SettingsInvalid with the server's name if they are invalid."""
        try:
            return cls(name, McpSettings.model_validate(settings))
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'it'}: {e['msg']}" for e in error.errors(include_url=False, include_input=False)
            )
            raise SettingsInvalid(f"Server '{name}' cannot be used: {wrong}.") from None

    async def tools(self) -> Mapping[str, McpTool]:
        """Return the server's tools. While it is connected, the list is read again after RELIST_S seconds or when it has changed."""
        loop = asyncio.get_running_loop()
        if self._tools is None:
            await self._connected()
        elif any(connection.is_stale and connection.loop is loop for connection in self._connections):
            with suppress(ToolError):  # keep the previous list
                await self._connected()
        return self._tools or {}

    async def call(self, tool: str, args: dict[str, JsonValue]) -> JsonValue:
        """Call a tool on the server. Raises ToolFailure if the tool fails, and ToolError if the connection or the answer does.

        ToolUnavailable, which may be retried, is raised only if the connection failed. Any other call may have had an effect, so it
        must not be repeated automatically.
        """
        connection = await self._connected()
        from mcp import MCPError  # noqa: PLC0415
        from mcp.types import CONNECTION_CLOSED  # noqa: PLC0415

        try:
            client = await connection.client()
            return _result(f"{self.name}.{tool}", await client.call_tool(tool, args))
        except ToolFailure:
            raise
        except MCPError as error:
            if self._settings.url is not None:
                connection.drop()  # a restarted server does not know the old session
            if error.code == CONNECTION_CLOSED:
                raise ToolError(f"MCP server '{self.name}' closed the connection during the call.") from error
            raise ToolFailure(f"'{self.name}.{tool}' failed: {error.message}") from error
        except Exception as error:
            if not isinstance(error, RuntimeError | ValidationError):  # the SDK raises these for a bad answer on a working connection
                connection.drop()
            raise ToolError(f"MCP server '{self.name}' sent an invalid answer: {type(error).__name__}.") from error

    async def aclose(self) -> None:
        """Close the connections of all event loops, and wait until the servers have ended."""
        with self._lock:
            connections, self._connections = self._connections, []
        loop = asyncio.get_running_loop()
        for connection in connections:
            if connection.loop is loop:
                await connection.close()
            elif connection.loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(connection.close(), connection.loop))

    async def _connected(self) -> Connection:
        """Return the connection of this event loop. Opens one at the first call, and again after it has ended."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._connections = [connection for connection in self._connections if not connection.is_closed]
            living = (connection for connection in self._connections if connection.loop is loop and not connection.is_ended)
            connection = next(living, None)
            is_new = connection is None
            if connection is None:
                connection = Connection(self._transport, start_s=self._start_s)
                self._connections.append(connection)
        try:
            await connection.client()
            if connection.is_stale:
                await connection.relist()
                is_new = True
        except TimeoutError as error:
            raise ToolTimeout(f"MCP server '{self.name}' did not start within {self._start_s:g} seconds.") from error
        except Exception as error:
            raise ToolUnavailable(f"MCP server '{self.name}' cannot be reached: {self._reason(error)}.") from error
        if is_new or self._tools is None:
            self._tools = self._usable(connection.listed)
        return connection

    def _transport(self) -> AbstractAsyncContextManager[Streams]:
        if self._settings.url is not None:
            return http_transport(self._settings.url, self._settings.headers)
        return stdio_transport(self.name, self._settings.command or [], self._settings.env, self._settings.cwd)

    def _reason(self, error: BaseException) -> str:
        """Return in a few words why connecting failed."""
        command, cwd = self._settings.command, self._settings.cwd
        if command is None:
            while isinstance(error, BaseExceptionGroup):
                error = cast("BaseException", error.exceptions[0])
            return type(error).__name__
        if cwd is not None and not cwd.is_dir():
            return f"its folder '{cwd.name}' does not exist"
        # A command with a slash is relative to the working directory of the server.
        sought = str((cwd or Path()) / command[0]) if "/" in command[0] else command[0]
        found = shutil.which(sought, path=self._settings.env.get("PATH"))
        return "it ended at once" if found else f"'{command[0]}' was not found"

    def _usable(self, listed: list[Listed]) -> dict[str, McpTool]:
        taken: dict[str, McpTool] = {}
        for tool in listed[:MAX_TOOLS]:
            if _NAME.fullmatch(tool.name) and len(json.dumps(tool.input_schema)) <= MAX_SCHEMA:
                taken[tool.name] = McpTool(self, tool)
        if len(taken) < len(listed):
            LOGGER.warning("Of the %d tools of MCP server '%s', %d cannot be used.", len(listed), self.name, len(listed) - len(taken))
        return taken


def _effect(listed: Listed) -> Effect:
    hints = listed.annotations
    if hints is None:
        return "once"
    if hints.read_only_hint:
        return "asks"
    return "keyed" if hints.idempotent_hint else "once"


def _result(name: str, answer: CallToolResult) -> JsonValue:
    """Return the structured content of an answer, or its text. Other content is replaced by its type, such as [image]."""
    text = "\n".join(getattr(block, "text", None) or f"[{block.type}]" for block in answer.content)
    if answer.is_error:
        raise ToolFailure(f"'{name}' failed: {text}")
    return text if answer.structured_content is None else answer.structured_content


def _invalid_argument(problem: Any) -> str:
    """Describe an invalid argument without its value, which may be secret."""
    where = ".".join(str(part) for part in problem.absolute_path)
    if problem.validator == "required":
        missing = next((name for name in problem.validator_value if name not in problem.instance), "")
        return f"Argument '{'.'.join(filter(None, (where, missing)))}' is missing."
    if problem.validator == "additionalProperties":
        return f"An argument{f' of {where!r}' if where else ''} is unknown."
    needed = json.dumps(problem.validator_value)[:200]
    return f"Argument '{where}' is invalid: its '{problem.validator}' must be {needed}."
