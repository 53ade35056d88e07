"""Tools: the catalogue of a specialist, and the gateway that runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from interlock.capabilities.capability import Capability, asks, emits
from interlock.capabilities.model import Tool

__all__ = ["ToolGateway", "ToolRequest", "ToolResult", "Toolbox"]


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


class Toolbox(Capability, Protocol):
    """Lists the tools that a specialist may use. It does not run them."""

    @asks
    async def offered(self, specialist: str) -> tuple[Tool, ...]:
        """Return the tools that a specialist may use, in their configured order."""
        ...


class ToolGateway(Capability, Protocol):
    """Runs tools."""

    @emits("tool")
    async def run(self, specialist: str, request: ToolRequest) -> ToolResult:
        """Run a tool for a specialist.

        Raises ToolDenied for a tool that the specialist may not use. Every other failure (invalid arguments, a tool that fails
        or times out) is the `error` of the result.
        """
        ...
