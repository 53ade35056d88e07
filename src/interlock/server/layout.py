"""Graphs as data for drawing: levels from the top, edges that lead back apart. A page draws it without a layout library."""

from __future__ import annotations

from collections import defaultdict

from interlock.contract import Graph
from interlock.server.shapes import Edge, Layout, LayoutNode

__all__ = ["lay_out"]


def lay_out(graph: Graph) -> Layout:
    """Return the layout of a graph. A node is below all nodes that lead to it, except by an edge that leads back."""
    outcomes: defaultdict[tuple[str, str | None], list[str]] = defaultdict(list)
    for source, outcome, target in graph.edges:
        outcomes[source, target].append(outcome)
    back = _back_edges(graph.entry, outcomes)
    levels = dict.fromkeys(graph.nodes, 0)
    # Without the edges that lead back there is no cycle, so this ends after as many rounds as there are nodes.
    for _ in levels:
        for source, target in outcomes:
            if target is not None and (source, target) not in back:
                levels[target] = max(levels[target], levels[source] + 1)
    columns: defaultdict[int, int] = defaultdict(int)
    nodes: list[LayoutNode] = []
    for name, level in levels.items():
        nodes.append(LayoutNode(name=name, level=level, column=columns[level]))
        columns[level] += 1
    edges = [Edge(source=s, target=t, outcomes=names, is_back=(s, t) in back) for (s, t), names in outcomes.items()]
    return Layout(levels=max(levels.values()) + 1, columns=max(columns.values()), nodes=nodes, edges=edges)


def _back_edges(entry: str, edges: dict[tuple[str, str | None], list[str]]) -> set[tuple[str, str | None]]:
    """Return the edges to a node that is being visited: those that close a cycle."""
    follows: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        if target is not None:
            follows[source].append(target)
    back: set[tuple[str, str | None]] = set()
    open_, seen = [entry], {entry}
    pending = [iter(follows[entry])]
    while pending:
        target = next(pending[-1], None)
        if target is None:
            pending.pop()
            open_.pop()
        elif target in open_:
            back.add((open_[-1], target))
        elif target not in seen:
            seen.add(target)
            open_.append(target)
            pending.append(iter(follows[target]))
    return back
