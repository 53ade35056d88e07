"""Tools: the catalogue of a specialist, and the gateway that runs them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import JsonValue

from interlock.capabilities.capability import Capability, asks, emits
from interlock.capabilities.human import Question
from interlock.capabilities.model import Tool
from interlock.labels import Trusted

__all__ = ["APPROVE", "REFUSE", "ToolGateway", "ToolRequest", "ToolResult", "Toolbox", "approval_question"]

APPROVE, REFUSE = "approve", "refuse"
"""The options of a question whether a call may be made."""

_MAX_SHOWN = 4000  # longest arguments in a question, in characters


@dataclass(frozen=True, kw_only=True)
class ToolRequest:
    """A request to run a tool."""

    tool: str
    args: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """The result of a tool, or the error message and error code."""

    tool: str
    result: JsonValue = None
    error: str | None = None
    code: str | None = None


def approval_question(request: ToolRequest) -> Question:
    """Return the question to a person whether this call may be made with these arguments.

    Ask it where a tool answered with the code `untrusted_argument`. If the person approves, the same call is made once.
    """
    args = json.dumps(request.args, ensure_ascii=False, sort_keys=True)
    if len(args) > _MAX_SHOWN:
        args = f"{args[:_MAX_SHOWN]} [cut: {len(args):,} characters, SHA-256 {hashlib.sha256(args.encode()).hexdigest()}]"
    return Question(text=f"May '{request.tool}' be called with {args}?", options=(APPROVE, REFUSE), recommended=REFUSE)


class Toolbox(Capability, Protocol):
    """Lists the tools that a specialist may use. It does not run them."""

    @asks
    async def offered(self, specialist: str) -> Annotated[tuple[Tool, ...], Trusted]:
        """Return the tools that a specialist may use, in their configured order."""
        ...


class ToolGateway(Capability, Protocol):
    """Runs tools."""

    @emits("tool")
    async def run(self, specialist: str, request: ToolRequest) -> ToolResult:
        """Run a tool for a specialist.

        Raises ToolDenied for a tool that the specialist may not use. Every other failure (invalid arguments, a tool that fails
        or times out) is the `error` of the result.

        An adapter that knows what its tools do has a method `async def effect_of(request: ToolRequest) -> Effect`: a call has the
        effect of its tool. Without it, no call is repeated.
        """
        ...
