"""Renderings of a graph: data for `--json`, a Markdown table, a Mermaid diagram."""

from __future__ import annotations

from typing import Any

from interlock.contract.graph import Graph
from interlock.contract.node import Node
from interlock.contract.type_hints import format_type

__all__ = ["COLUMNS", "as_data", "cells", "markdown", "mermaid"]

COLUMNS = ("node", "reads", "uses", "writes", "goes", "may not")


def as_data(graph: Graph) -> dict[str, Any]:
    """Return the graph as JSON data, with its nodes in row order."""
    return {
        "name": graph.name,
        "entry": graph.entry,
        "state": {
            name: {"type": format_type(field.hint), "labels": [label.name for label in field.labels]}
            for name, field in graph.state.fields.items()
        },
        "nodes": [_node_data(graph, node) for node in graph.nodes.values()],
    }


def _node_data(graph: Graph, node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "reads": [str(read) for read in node.reads],
        "uses": [grant.name for grant in node.grants],
        "writes": list(node.writes),
        "goes": {transition.name: transition.target or "END" for transition in node.transitions},
        "may_not": list(graph.may_not(node.name)),
    }


def cells(graph: Graph, node: Node) -> tuple[list[str], ...]:
    """Return the cells of a node's row in the contract table, in the order of COLUMNS."""
    data = _node_data(graph, node)
    data |= {"name": [node.name], "goes": [f"{outcome} -> {target}" for outcome, target in data["goes"].items()]}
    return tuple(data.values())


def markdown(graph: Graph) -> str:
    """Render the contract table as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for node in graph.nodes.values():
        shown = [", ".join(f"`{item}`" for item in cell) or "-" for cell in cells(graph, node)]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def mermaid(graph: Graph) -> str:
    """Render the rows as a Mermaid flowchart."""
    lines = ["flowchart TD", f"    START([START]) --> {graph.entry}"]
    for source, outcome, target in graph.edges:
        end = target or "END([END])"
        lines.append(f"    {source} -->|{outcome}| {end}")
    return "\n".join(lines) + "\n"
