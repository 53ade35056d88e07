"""The direct engine: the rows, walked by a loop."""

from __future__ import annotations

from interlock.contract import Graph
from interlock.contract.state import Values
from interlock.engine import TakeStep
from interlock.engine.ambient import no_ambient_access

__all__ = ["DirectGraph"]


class DirectGraph:
    """A graph that is walked as it is declared."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def walk(self, given: Values, take_step: TakeStep) -> Values:
        """Go from the entry to END, one node at a time, and return the final state."""
        nodes, state = self._graph.nodes, self._graph.state
        values = state.begin(given)
        name: str | None = self._graph.entry
        with no_ambient_access():
            while name is not None:
                ending, update = await take_step(nodes[name], values)
                state.apply(values, update)
                name = ending.target
        return values
