"""Definite assignment: find the nodes that can be reached while a field they read has no value.

A row says which outcomes a node can return, which fields each outcome writes and which node follows it. Every path through a
graph is therefore known when the graph is built. A field is definitely assigned at a node when every path from the entry to
that node has written it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from interlock.contract.node import Node

__all__ = ["UnwrittenRead", "distances", "unwritten_reads"]

Path = tuple[tuple[str, str], ...]
"""The nodes of a path with the outcome that each of them returned."""


@dataclass(frozen=True)
class UnwrittenRead:
    """A node that reads a field, and a shortest path from the entry to that node on which the field is not written."""

    node: str
    field: str
    path: Path

    def describe(self, nodes: Mapping[str, Node]) -> str:
        """Describe the path as `a -> b -> c`, with the outcome in parentheses where a node has more than one."""
        if not self.path:
            return "has no value when a turn starts"
        steps = [name if len(nodes[name].transitions) == 1 else f"{name} ({outcome})" for name, outcome in self.path]
        return f"no node on the path {' -> '.join([*steps, self.node])} has written"


def unwritten_reads(nodes: Mapping[str, Node], entry: str) -> Iterator[UnwrittenRead]:
    """Find each field that some node reads before every path has written it, assuming that the caller passes no fields.

    A turn ends at the first node that reads a field without a value, so nodes that follow it on a path are not reported for
    the same field.
    """
    needed = {name: {read.field.name for read in node.reads if read.needs_value} for name, node in nodes.items()}
    for field in dict.fromkeys(read.field.name for node in nodes.values() for read in node.reads if read.needs_value):
        for name, path in _paths_without(field, nodes, entry, {name for name, fields in needed.items() if field in fields}):
            yield UnwrittenRead(name, field, path)


def _paths_without(field: str, nodes: Mapping[str, Node], entry: str, readers: set[str]) -> Iterator[tuple[str, Path]]:
    """Search breadth first along the outcomes that do not write the field; yield each reader that is reached."""
    paths: dict[str, Path] = {entry: ()}
    queue = [entry]
    for name in queue:
        if name in readers:
            yield name, paths[name]
            continue
        for transition in nodes[name].transitions:
            if transition.target is not None and field not in transition.fields and transition.target not in paths:
                paths[transition.target] = (*paths[name], (name, transition.name))
                queue.append(transition.target)


def distances(edges: Mapping[str, set[str]], starts: list[str]) -> dict[str, int]:
    """Return the distance of each node that can be reached, in edges."""
    found = dict.fromkeys(starts, 0)
    queue = list(starts)
    for name in queue:
        for target in edges[name]:
            if target not in found:
                found[target] = found[name] + 1
                queue.append(target)
    return found
