"""The direct engine: the rows, walked by a loop."""

from __future__ import annotations

from interlock.contract import Graph
from interlock.contract.state import Values
from interlock.engine import RunNode
from interlock.engine.ambient import alone

__all__ = ["DirectGraph"]


class DirectGraph:
    """A graph that is walked as it is declared."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def run(self, given: Values, run_node: RunNode, kept: Values | None = None) -> Values:
        """Go from the entry to END, one node at a time, and return the final state."""
        nodes, state = self._graph.nodes, self._graph.state
        values = state.initial(given, kept)
        name: str | None = self._graph.entry
        with alone():
            while name is not None:
                ending, update = await run_node(nodes[name], values)
                if state.reduced:
                    state.apply(values, update)
                else:
                    values.update(update)
                name = ending.target
        return values
