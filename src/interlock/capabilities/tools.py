"""Tools: what a specialist may ask for, and the one place that runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from interlock.capabilities.capability import Capability, emits
from interlock.capabilities.model import Tool

__all__ = ["ToolGateway", "ToolRequest", "ToolResult", "Toolbox"]


@dataclass(frozen=True, kw_only=True)
class ToolRequest:
    """A tool that is to be run."""

    tool: str
    args: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """What came of a tool: a result, or why there is none, in a sentence and as the code of an error."""

    tool: str
    result: JsonValue = None
    error: str | None = None
    code: str | None = None


class Toolbox(Capability, Protocol):
    """Knows which tools a specialist may ask for. Runs none."""

    async def offered(self, specialist: str) -> tuple[Tool, ...]:
        """Return the tools on a specialist's list, in its order."""
        ...


class ToolGateway(Capability, Protocol):
    """Runs tools."""

    @emits("tool")
    async def run(self, specialist: str, request: ToolRequest) -> ToolResult:
        """Run a tool for a specialist.

        Raises ToolDenied for a tool that is not on the specialist's list. Everything else that goes wrong, arguments that
        do not fit, a tool that fails or takes too long, is the `error` of the result.
        """
        ...
