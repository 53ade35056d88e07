"""Engines: each compiles a Graph and runs its nodes from the entry to END. The runtime passes in how one node is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from interlock.contract.node import Node, StepResult
from interlock.contract.state import Values

__all__ = ["ENGINES", "Compiled", "EngineName", "RunNode"]

EngineName = Literal["langgraph", "direct"]
ENGINES: tuple[EngineName, ...] = ("langgraph", "direct")

RunNode: TypeAlias = Callable[[Node, Mapping[str, Any]], Awaitable[StepResult]]
"""Run one node on the state and validate its outcome. The runtime provides this function."""


class Compiled(Protocol):
    """A graph that an engine can run."""

    async def run(self, given: Values, run_node: RunNode, persisted: Values | None = None) -> Values:
        """Run the nodes from the entry to END and return the final state. It starts with the persisted fields, then the input."""
        ...
