"""Compare a graph with its architecture document and list every difference."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.contract.document import Document, Edge
from interlock.contract.graph import Graph

__all__ = ["differences"]


def differences(graph: Graph, document: Document) -> list[str]:
    """List what only the document has and what only the rows have. The list is empty if they agree."""
    found: list[str] = []
    found += _both_ways("entry", {graph.entry}, document.entry)
    found += _both_ways("node", graph.nodes, document.nodes)
    found += _both_ways("edge", *_edges(graph, document))
    found += _both_ways("line of the table", graph.nodes, document.duties)
    for name, node in graph.nodes.items():
        if name not in document.duties:
            continue
        rows = {
            "may read": {str(read) for read in node.reads},
            "may write": set(node.writes),
            "may use": {grant.name for grant in node.grants},
            "must not": set(graph.may_not(name)),
        }
        for duty, allowed in rows.items():
            found += _both_ways(f"node '{name}', '{duty}':", allowed, document.duties[name][duty])
    return found


def _edges(graph: Graph, document: Document) -> tuple[set[Edge], set[Edge]]:
    """Return the edges to compare. Where the document gives no outcome for an edge, the outcome is ignored."""
    unlabelled = {(edge.source, edge.target) for edge in document.edges if not edge.outcome}
    rows = {
        Edge(source, "" if (source, target or "END") in unlabelled else outcome, target or "END") for source, outcome, target in graph.edges
    }
    return rows, set(document.edges)


def _both_ways(what: str, rows: Iterable[object], document: Iterable[object]) -> list[str]:
    ours, theirs = {str(item) for item in rows}, {str(item) for item in document}
    missing = [f"{what} '{item}' is in the document but not in the rows" for item in sorted(theirs - ours)]
    extra = [f"{what} '{item}' is in the rows but not in the document" for item in sorted(ours - theirs)]
    return missing + extra
