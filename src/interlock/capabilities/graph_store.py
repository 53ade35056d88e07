"""A property graph: nodes with a label and a key, edges between them, changed in whole steps."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from interlock.capabilities.capability import Capability

__all__ = [
    "AddEdge",
    "AddNode",
    "Change",
    "Changed",
    "DeleteEdge",
    "DeleteNode",
    "Edge",
    "GraphReader",
    "GraphStore",
    "GraphWriter",
    "KeptGraph",
    "Node",
    "NodeRef",
    "Rows",
    "UpdateEdge",
    "UpdateNode",
    "differing",
]


@dataclass(frozen=True, kw_only=True)
class NodeRef:
    """Which node: label and key are unique together."""

    label: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with its properties; the key is not one of them."""

    label: str
    key: str
    properties: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, kw_only=True)
class Edge:
    """An edge: there is at most one of a relationship from one node to another."""

    start: NodeRef
    end: NodeRef
    relationship: str
    properties: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, kw_only=True)
class AddNode:
    """Add a node. One that is there already stays as it is."""

    node: Node


@dataclass(frozen=True, kw_only=True)
class AddEdge:
    """Add an edge. One that is there already stays as it is; both ends have to be there."""

    edge: Edge


@dataclass(frozen=True, kw_only=True)
class UpdateNode:
    """Set these properties of a node; None removes one, the others stay."""

    ref: NodeRef
    properties: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class UpdateEdge:
    """Set these properties of an edge; None removes one, the others stay."""

    start: NodeRef
    end: NodeRef
    relationship: str
    properties: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class DeleteNode:
    """Delete a node, and its edges only where that is asked for."""

    ref: NodeRef
    detach: bool = False


@dataclass(frozen=True, kw_only=True)
class DeleteEdge:
    """Delete an edge."""

    start: NodeRef
    end: NodeRef
    relationship: str


Change = AddNode | AddEdge | UpdateNode | UpdateEdge | DeleteNode | DeleteEdge


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What a step changed, each node and edge as it is now, or was before it went. What was so already is not in it.

    `nodes_before` and `edges_before` are the changed ones as they were before, in the same order.
    """

    nodes_added: tuple[Node, ...] = ()
    nodes_changed: tuple[Node, ...] = ()
    nodes_removed: tuple[Node, ...] = ()
    edges_added: tuple[Edge, ...] = ()
    edges_changed: tuple[Edge, ...] = ()
    edges_removed: tuple[Edge, ...] = ()
    nodes_before: tuple[Node, ...] = ()
    edges_before: tuple[Edge, ...] = ()

    @property
    def count(self) -> int:
        """How many nodes and edges were added, changed or removed."""
        nodes = (self.nodes_added, self.nodes_changed, self.nodes_removed)
        edges = (self.edges_added, self.edges_changed, self.edges_removed)
        return sum(map(len, nodes)) + sum(map(len, edges))

    def inverse(self) -> tuple[Change, ...]:
        """Return the changes that undo this step: edges that were added go before their nodes, nodes come back before their edges."""
        nodes = zip(self.nodes_changed, self.nodes_before, strict=True)
        edges = zip(self.edges_changed, self.edges_before, strict=True)
        return (
            *(DeleteEdge(start=edge.start, end=edge.end, relationship=edge.relationship) for edge in self.edges_added),
            *(DeleteNode(ref=NodeRef(label=node.label, key=node.key)) for node in self.nodes_added),
            *(AddNode(node=node) for node in self.nodes_removed),
            *(AddEdge(edge=edge) for edge in self.edges_removed),
            *(UpdateNode(ref=NodeRef(label=now.label, key=now.key), properties=differing(now, then)) for now, then in nodes),
            *(
                UpdateEdge(start=now.start, end=now.end, relationship=now.relationship, properties=differing(now, then))
                for now, then in edges
            ),
        )


def differing(now: Node | Edge, then: Node | Edge) -> dict[str, JsonValue]:
    """Return the properties in which `now` differs, each with its value in `then`; None for one that `then` does not have."""
    names = dict.fromkeys([*then.properties, *now.properties])
    return {name: then.properties.get(name) for name in names if not _is_same(now.properties.get(name), then.properties.get(name))}


def _is_same(one: JsonValue, other: JsonValue) -> bool:
    """Compare values and their types: 1, 1.0 and True are three values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a query found. `more` says that there was more than the limit let through."""

    columns: tuple[str, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class KeptGraph:
    """A graph that is kept: its name, which is that of its session, its size in bytes, and when it was changed last, in ISO 8601."""

    name: str
    size: int
    changed: str


class GraphReader(Capability, Protocol):
    """Reads a property graph. `graph` names it: every session has one of its own unless settings say otherwise."""

    async def nodes(
        self,
        graph: str,
        *,
        label: str | None = None,
        key: str | None = None,
        properties: dict[str, JsonValue] | None = None,
        limit: int = 100,
    ) -> tuple[Node, ...]:
        """Find nodes, ordered by label and key. What is not given is not asked for."""
        ...

    async def edges(
        self, graph: str, *, start: NodeRef | None = None, end: NodeRef | None = None, relationship: str | None = None, limit: int = 100
    ) -> tuple[Edge, ...]:
        """Find edges, ordered by start, relationship and end. What is not given is not asked for."""
        ...

    async def query(self, graph: str, text: str, parameters: dict[str, JsonValue], *, limit: int = 100) -> Rows:
        """Ask in Cypher what only reads.

        In the rows a node is an object of `label`, `key` and `properties`, an edge of `start`, `relationship`, `end` and `properties`,
        and a path of `nodes` and `edges`. Raises QueryDenied for anything else, QueryTimeout for what takes too long or too much,
        ToolInputInvalid for what cannot be run, and NotInGraph for a name that the graph does not have, where the database minds.
        """
        ...


class GraphWriter(Capability, Protocol):
    """Changes a property graph."""

    async def apply(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Make these changes in their order, all or none.

        Raises NotInGraph for a node or an edge that is missing, NodeHasEdges for a node that is deleted without its edges,
        QueryDenied for a label, relationship or property name that is none, ToolInputInvalid for a key or value that cannot be kept,
        StoreUnavailable, StoreFull or StateConflict where the database cannot do it now, and StoreCorrupt where it cannot be read.
        The graph is then as it was.
        """
        ...

    async def preview(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Tell what these changes would come to, and raise what `apply` would raise for them. Nothing is written."""
        ...


class GraphStore(GraphReader, GraphWriter, Protocol):
    """Keeps property graphs."""
