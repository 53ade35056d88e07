"""Runs DeepAgents' tools through the gate, so that each call is emitted, recorded and redacted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from interlock.capabilities.capability import Effect
from interlock.capabilities.tools import ToolRequest, ToolResult
from interlock.errors import InputTooLarge, MediaUnsupported, ToolDenied, ToolError, ToolInputInvalid
from interlock_agents.gateway.errors import PathDenied
from interlock_agents.gateway.file_tools import READING, FileTools

__all__ = ["MARK", "Handler", "UpstreamTools", "granted", "holding", "one_by_one", "pass_the_gate"]

MARK = "{{secret}}"
"""The placeholder for the secret in everything that a model sees."""

_CODES = re.compile(rf"\b({'|'.join(kind.code for kind in (PathDenied, InputTooLarge, ToolInputInvalid))}):")
_PATHS = re.compile(r"Path traversal not allowed|Windows absolute paths|path_denied", re.IGNORECASE)
_WRONG_ARGS = re.compile(r"^Error invoking tool")
_FILLED = frozenset({"content", "new_string"})  # never a path or a pattern: tools repeat these in their results, also in part

granted: ContextVar[FileTools] = ContextVar("interlock_worker_tools")
"""The tools that were granted for this call of the worker."""

holding: ContextVar[str] = ContextVar("interlock_worker_secret", default="")
"""The secret that the tools put in place of the placeholder."""

one_by_one: ContextVar[asyncio.Lock] = ContextVar("interlock_worker_turn")
"""Serialises the tool calls of one reply: upstream starts them concurrently, and a replayed turn must have the same order."""

Handler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]

_under_way: ContextVar[tuple[ToolCallRequest, Handler]] = ContextVar("interlock_worker_call")


async def pass_the_gate(request: ToolCallRequest, handler: Handler) -> ToolMessage:
    """Run a tool as a capability call of the node."""
    call = request.tool_call
    _under_way.set((request, handler))
    async with one_by_one.get():
        result = await granted.get().run(ToolRequest(tool=call["name"], args=call["args"]))
    status = "success" if result.error is None else "error"
    return ToolMessage(
        content=str(result.result) if result.error is None else result.error, tool_call_id=call["id"], name=call["name"], status=status
    )


class UpstreamTools:
    """Runs the current tool call. Its result is redacted and cut to a size that a model can read."""

    def __init__(self, *, redact: Callable[[Any], Any], max_characters: int = 60_000) -> None:
        self._redact = redact
        self._max_characters = max_characters

    async def effect_of(self, request: ToolRequest) -> Effect:
        """Return what a tool does outside. A file that is written or deleted again is an error, so that is not repeated."""
        return "asks" if request.tool in READING else "once"

    async def run(self, request: ToolRequest) -> ToolResult:
        """Run a tool. Every failure is the error of the result."""
        asked, handler = _under_way.get()
        if asked.tool is None:
            return ToolResult(tool=request.tool, error=f"{ToolDenied.code}: there is no such tool.", code=ToolDenied.code)
        secret = holding.get()
        given = asked.tool_call["args"]
        args = _filled(given, secret)
        try:
            message = await handler(asked.override(tool_call={**asked.tool_call, "args": args}))
        except Exception as error:  # noqa: BLE001 - the worker goes on, whatever a tool does
            return ToolResult(tool=request.tool, error=f"{ToolError.code}: {type(error).__name__}.", code=ToolError.code)
        if not isinstance(message, ToolMessage) or not isinstance(message.content, str):
            return ToolResult(tool=request.tool, error=f"{MediaUnsupported.code}: this is no text.", code=MediaUnsupported.code)
        if args != given and _WRONG_ARGS.search(message.content):  # which quotes all of them, cut in the middle
            says = f"{ToolInputInvalid.code}: the arguments do not fit."
            return ToolResult(tool=request.tool, error=says, code=ToolInputInvalid.code)
        text = self._shown(message.content, secret)
        return ToolResult(tool=request.tool, result=text) if message.status != "error" else _failed(request.tool, text)

    def _shown(self, text: str, secret: str) -> str:
        """Redact the text before it is cut, so that no part of a secret is left."""
        without = str(self._redact(text.replace(secret, MARK) if secret else text))
        if len(without) <= self._max_characters:
            return without
        return f"{without[: self._max_characters]}\n[cut here: {len(without):,} characters; read it in parts]"


def _filled(args: dict[str, Any], secret: str) -> dict[str, Any]:
    """Replace the placeholder by the secret in text that is written into a file."""
    if not secret:
        return args
    return {name: part.replace(MARK, secret) if name in _FILLED and isinstance(part, str) else part for name, part in args.items()}


def _failed(tool: str, text: str) -> ToolResult:
    """Determine the error code of a failed tool."""
    named = _CODES.search(text)
    if named is not None:
        code = named[1]
    elif _PATHS.search(text):
        code, text = PathDenied.code, f"{PathDenied.code}: {text}"
    else:
        code = ToolInputInvalid.code if _WRONG_ARGS.search(text) else ToolError.code
    return ToolResult(tool=tool, error=text, code=code)
