"""The tools that change and ask a property graph: what they take, and the one place that calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from interlock.capabilities.capability import Capability, emits
from interlock.capabilities.graph_store import Changed
from interlock.capabilities.model import Tool
from interlock.capabilities.tools import ToolRequest, ToolResult

__all__ = ["GraphToolResult", "GraphUndo", "ToolCatalogue", "ToolRegistry"]


@dataclass(frozen=True, kw_only=True)
class GraphToolResult(ToolResult):
    """What came of a tool of a property graph: also what it changed, and whether trying again may help.

    Where a name fits several nodes, `named` is that name and `candidates` are the nodes as 'Label:key'. Where a person has to
    approve the call, `approval` is the exact text to be approved.
    """

    changed: Changed | None = None
    transient: bool = False
    named: str = ""
    candidates: tuple[str, ...] = ()
    approval: str = ""


class ToolCatalogue(Capability, Protocol):
    """Knows the tools of a property graph. Calls none."""

    async def offered(self) -> tuple[Tool, ...]:
        """Return the tools with the JSON schemas of their arguments."""
        ...

    async def names(self) -> tuple[str, ...]:
        """Return the names of the tools alone."""
        ...

    async def check(self, request: ToolRequest) -> str | None:
        """Tell why a tool cannot be called so: it is unknown, or its arguments are not what it takes. None is that it can."""
        ...


class ToolRegistry(Capability, Protocol):
    """Calls the tools of a property graph."""

    @emits("tool")
    async def call(self, graph: str, request: ToolRequest, *, approved: str = "") -> GraphToolResult:
        """Call a tool on a graph, in one transaction. Whatever goes wrong is the `error` of the result, and the graph is as it was.

        `approved` is the text that a person has approved: a query that writes is run only if it is exactly that text.
        """
        ...


class GraphUndo(Capability, Protocol):
    """Takes back what tools changed in a property graph."""

    async def take_back(self, graph: str, changes: tuple[Changed, ...]) -> GraphToolResult:
        """Undo these changes, the last one first, in one transaction. What goes wrong is the `error`, and then nothing is undone."""
        ...
