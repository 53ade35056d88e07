"""The direct engine: a loop over the rows."""

from __future__ import annotations

from interlock.contract import Graph
from interlock.contract.state import Values
from interlock.engine import RunNode
from interlock.engine.ambient import alone

__all__ = ["DirectGraph"]


class DirectGraph:
    """Runs a graph as it is declared, without compiling it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def run(self, given: Values, run_node: RunNode, persisted: Values | None = None) -> Values:
        nodes, state = self._graph.nodes, self._graph.state
        values = state.initial(given, persisted)
        name: str | None = self._graph.entry
        with alone():
            while name is not None:
                transition, update = await run_node(nodes[name], values)
                state.apply(values, update)
                name = transition.target
        return values
