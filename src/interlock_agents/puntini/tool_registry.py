"""The tools that read and change a property graph: their catalogue, and the registry that calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from interlock.capabilities.capability import Capability, asks, emits
from interlock.capabilities.model import Tool
from interlock.capabilities.tools import ToolRequest, ToolResult
from interlock_agents.puntini.graph_store import Changed

__all__ = ["GraphToolResult", "GraphUndo", "ToolCatalogue", "ToolRegistry"]


@dataclass(frozen=True, kw_only=True)
class GraphToolResult(ToolResult):
    """The result of a graph tool, with what it changed and whether a retry may help.

    Where a name matches several nodes, `named` is that name and `candidates` are the nodes as 'Label:key'. Where a person has to
    approve the call, `approval` is the exact text to be approved.
    """

    changed: Changed | None = None
    transient: bool = False
    named: str = ""
    candidates: tuple[str, ...] = ()
    approval: str = ""


class ToolCatalogue(Capability, Protocol):
    """Lists the tools of a property graph. It does not call them."""

    @asks
    async def offered(self) -> tuple[Tool, ...]:
        """Return the tools with the JSON schemas of their arguments."""
        ...

    @asks
    async def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        ...

    @asks
    async def check(self, request: ToolRequest) -> str | None:
        """Return why a call would be refused (unknown tool, invalid arguments), or None if it is valid."""
        ...


class ToolRegistry(Capability, Protocol):
    """Calls the tools of a property graph."""

    @emits("tool")
    async def call(self, graph: str, request: ToolRequest, *, approved: str = "") -> GraphToolResult:
        """Call a tool on a graph, in one transaction. A failure is the `error` of the result and leaves the graph unchanged.

        `approved` is the text that a person has approved: a query that writes is run only if it is exactly that text.
        """
        ...


class GraphUndo(Capability, Protocol):
    """Undoes what tools changed in a property graph."""

    async def take_back(self, graph: str, changes: tuple[Changed, ...]) -> GraphToolResult:
        """Undo these changes, the last one first, in one transaction. A failure is the `error` of the result and undoes nothing."""
        ...
