"""The tools of an MCP server: a command that is started here, or a URL."""

from __future__ import annotations

import asyncio
import importlib.util
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

from interlock.adapters.tools.connection import Connection, Streams, started, visited
from interlock.adapters.tools.failure import ToolFailure
from interlock.capabilities.model import Tool
from interlock.errors import SettingsInvalid, ToolError, ToolInputInvalid, ToolTimeout, ToolUnavailable
from interlock.runtime.observe import LOGGER

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as Listed

__all__ = ["MAX_SCHEMA", "MAX_TOOLS", "START_S", "McpServer", "McpSettings", "McpTool"]

MAX_TOOLS = 256
"""How many tools a server may have; the others are left out."""

MAX_SCHEMA = 64 * 1024
"""How many bytes the schema of a tool may have; a tool with a larger one is left out."""

START_S = 30.0
"""How long a server may take to start and list its tools. One that is started for the first time may have to be downloaded."""

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}", re.ASCII)
_DESCRIPTION = 2000  # characters of a description that a model is shown


class McpSettings(BaseModel):
    """How to reach a server: `command`, with what its environment has beside the usual and where it runs, or `url`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    command: Annotated[list[str], Field(min_length=1)] | None = None
    env: dict[str, str] = {}
    cwd: Path | None = None
    url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    headers: dict[str, str] = {}

    @model_validator(mode="after")
    def _check_kind(self) -> McpSettings:
        if (self.command is None) == (self.url is None):
            raise ValueError("give it either a 'command' or a 'url'")
        if self.url is None and self.headers:
            raise ValueError("'headers' go with a 'url'")
        if self.command is None and (self.env or self.cwd):
            raise ValueError("'env' and 'cwd' go with a 'command'")
        return self


class McpTool:
    """One tool of a server."""

    def __init__(self, server: McpServer, listed: Listed) -> None:
        self._server = server
        self._name = listed.name
        description = (listed.description or listed.title or listed.name)[:_DESCRIPTION]
        self.tool = Tool(name=f"{server.name}.{listed.name}", description=description, parameters=listed.input_schema)
        self._validator: Any = None

    async def run(self, args: dict[str, JsonValue]) -> JsonValue:
        """Check the arguments against the server's schema and let it do the work; those that do not fit are a ToolInputInvalid."""
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
                # An empty registry: else a "$ref" in a server's schema would be fetched from wherever it points to.
                self._validator = kind(schema, registry=cast("Any", Registry)())
            problem = cast("Any", exceptions).best_match(self._validator.iter_errors(args))
        except (SchemaError, Unresolvable, re.error, RecursionError) as error:
            raise ToolFailure(f"'{self.tool.name}' has a schema that cannot be used: {type(error).__name__}.") from error
        if problem is not None:
            raise ToolInputInvalid(_wrong(problem))


class McpServer:
    """Opens a server when it is first needed, and again when it has died. Each event loop has a connection of its own."""

    def __init__(self, name: str, settings: McpSettings, *, start_s: float = START_S) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise SettingsInvalid(f"Server '{name}' speaks MCP, which is not installed. Run: pip install 'interlock[mcp]'")
        logging.getLogger("mcp").addHandler(logging.NullHandler())  # else its tracebacks go to the terminal
        self.name = name
        self._settings = settings
        self._start_s = start_s
        self._tools: dict[str, McpTool] | None = None
        self._connections: list[Connection] = []
        self._lock = threading.Lock()

    @classmethod
    def configured(cls, name: str, settings: Mapping[str, Any]) -> McpServer:
        """Make a server of plain settings. A bad one is a SettingsInvalid that names it."""
        try:
            return cls(name, McpSettings.model_validate(settings))
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'it'}: {e['msg']}" for e in error.errors(include_url=False, include_input=False)
            )
            raise SettingsInvalid(f"Server '{name}' cannot be used: {wrong}.") from None

    async def tools(self) -> Mapping[str, McpTool]:
        """Return the server's tools as it last listed them, which it is asked for anew from time to time while it is open."""
        here = asyncio.get_running_loop()
        if self._tools is None:
            await self._reached()
        elif any(connection.is_stale and connection.loop is here for connection in self._connections):
            with suppress(ToolError):  # those that it had are better than none
                await self._reached()
        return self._tools or {}

    async def call(self, tool: str, args: dict[str, JsonValue]) -> JsonValue:
        """Let the server run a tool; whatever goes wrong is a ToolFailure or a ToolError.

        Only a server that was not reached is a ToolUnavailable: of any other call nobody knows what it has done, and it must not be
        made again by itself.
        """
        connection = await self._reached()
        from mcp import MCPError  # noqa: PLC0415
        from mcp.types import CONNECTION_CLOSED  # noqa: PLC0415

        try:
            client = await connection.client()
            return _result(f"{self.name}.{tool}", await client.call_tool(tool, args))
        except ToolFailure:
            raise
        except MCPError as error:
            if self._settings.url is not None:
                connection.drop()  # a server that was started anew does not know the session of the old one
            if error.code == CONNECTION_CLOSED:
                raise ToolError(f"MCP server '{self.name}' went away.") from error
            raise ToolFailure(f"'{self.name}.{tool}' failed: {error.message}") from error
        except Exception as error:
            if not isinstance(error, RuntimeError | ValidationError):  # of the SDK, about an answer: the connection is as good as before
                connection.drop()
            raise ToolError(f"MCP server '{self.name}' gave an answer that cannot be used: {type(error).__name__}.") from error

    async def aclose(self) -> None:
        """Close every connection, also those of other event loops, and wait until the servers are gone."""
        with self._lock:
            connections, self._connections = self._connections, []
        here = asyncio.get_running_loop()
        for connection in connections:
            if connection.loop is here:
                await connection.close()
            elif connection.loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(connection.close(), connection.loop))

    async def _reached(self) -> Connection:
        """Return the connection of this event loop; open one where there is none that lives."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._connections = [connection for connection in self._connections if not connection.is_closed]
            living = (connection for connection in self._connections if connection.loop is loop and not connection.is_over)
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
            self._tools = self._taken(connection.listed)
        return connection

    def _transport(self) -> AbstractAsyncContextManager[Streams]:
        if self._settings.url is not None:
            return visited(self._settings.url, self._settings.headers)
        return started(self.name, self._settings.command or [], self._settings.env, self._settings.cwd)

    def _reason(self, error: BaseException) -> str:
        """Say in a few words why a server was not reached."""
        command, cwd = self._settings.command, self._settings.cwd
        if command is None:
            while isinstance(error, BaseExceptionGroup):
                error = cast("BaseException", error.exceptions[0])
            return type(error).__name__
        if cwd is not None and not cwd.is_dir():
            return f"its folder '{cwd.name}' is not there"
        # A command with a slash in it is looked for where the server runs.
        sought = str((cwd or Path()) / command[0]) if "/" in command[0] else command[0]
        found = shutil.which(sought, path=self._settings.env.get("PATH"))
        return "it ended at once" if found else f"'{command[0]}' is not found"

    def _taken(self, listed: list[Listed]) -> dict[str, McpTool]:
        taken: dict[str, McpTool] = {}
        for tool in listed[:MAX_TOOLS]:
            if _NAME.fullmatch(tool.name) and len(json.dumps(tool.input_schema)) <= MAX_SCHEMA:
                taken[tool.name] = McpTool(self, tool)
        if len(taken) < len(listed):
            LOGGER.warning("Of the %d tools of MCP server '%s', %d cannot be used.", len(listed), self.name, len(listed) - len(taken))
        return taken


def _result(name: str, answer: CallToolResult) -> JsonValue:
    """Take the data out of an answer, else its text; of what is neither, only what kind it is."""
    said = "\n".join(getattr(block, "text", None) or f"[{block.type}]" for block in answer.content)
    if answer.is_error:
        raise ToolFailure(f"'{name}' failed: {said}")
    return said if answer.structured_content is None else answer.structured_content


def _wrong(problem: Any) -> str:
    """Say what is wrong with arguments, without what was passed: it may be a secret."""
    where = ".".join(str(part) for part in problem.absolute_path)
    if problem.validator == "required":
        missing = next((name for name in problem.validator_value if name not in problem.instance), "")
        return f"Argument '{'.'.join(filter(None, (where, missing)))}' is missing."
    if problem.validator == "additionalProperties":
        return f"An argument{f' of {where!r}' if where else ''} is unknown."
    needed = json.dumps(problem.validator_value)[:200]
    return f"Argument '{where}' cannot be used: its '{problem.validator}' has to be {needed}."
