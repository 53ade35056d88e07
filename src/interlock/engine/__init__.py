"""Who walks the rows. An engine compiles a Graph; the runtime hands it a step and gets the final state back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from interlock.contract.node import Node, StepResult
from interlock.contract.state import Values

__all__ = ["ENGINES", "Compiled", "EngineName", "RunNode"]

EngineName = Literal["langgraph", "direct"]
ENGINES: tuple[EngineName, ...] = ("langgraph", "direct")

RunNode: TypeAlias = Callable[[Node, Mapping[str, Any]], Awaitable[StepResult]]
"""Run one node on the state: the runtime's side of a turn. It holds the node to its contract."""


class Compiled(Protocol):
    """A graph that an engine can walk."""

    async def run(self, given: Values, run_node: RunNode, kept: Values | None = None) -> Values:
        """Go from the entry to END, one node at a time, and return the final state. What is kept of earlier turns is there first."""
        ...
