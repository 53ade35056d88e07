"""A property graph: nodes with a label and a key, and edges between them. Changes are applied in transactions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from interlock.capabilities.capability import Capability, asks, keyed

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
    "Node",
    "NodeRef",
    "Rows",
    "StoredGraph",
    "UpdateEdge",
    "UpdateNode",
    "differing",
    "is_same",
]


@dataclass(frozen=True, kw_only=True)
class NodeRef:
    """A reference to a node. Label and key together are unique."""

    label: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with its properties. The key is not a property."""

    label: str
    key: str
    properties: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, kw_only=True)
class Edge:
    """An edge. Two nodes have at most one edge of each relationship in each direction."""

    start: NodeRef
    end: NodeRef
    relationship: str
    properties: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, kw_only=True)
class AddNode:
    """Add a node. An existing node is left unchanged."""

    node: Node


@dataclass(frozen=True, kw_only=True)
class AddEdge:
    """Add an edge. An existing edge is left unchanged; both nodes have to exist."""

    edge: Edge


@dataclass(frozen=True, kw_only=True)
class UpdateNode:
    """Set these properties of a node; None removes a property, other properties are kept."""

    ref: NodeRef
    properties: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class UpdateEdge:
    """Set these properties of an edge; None removes a property, other properties are kept."""

    start: NodeRef
    end: NodeRef
    relationship: str
    properties: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class DeleteNode:
    """Delete a node, and its edges if `detach` is set."""

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
    """What a transaction changed: added and changed elements as they are now, removed ones as they were. Unchanged ones are left out.

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
        """Return the changes that undo this one. Edges are deleted before their nodes, and nodes are restored before their edges."""
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
    return {name: then.properties.get(name) for name in names if not is_same(now.properties.get(name), then.properties.get(name))}


def is_same(one: JsonValue, other: JsonValue) -> bool:
    """Compare values and their types: 1, 1.0 and True are three values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows that a query returned. `more` is set if the limit cut them off."""

    columns: tuple[str, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class StoredGraph:
    """A stored graph: its name (that of its session), its size in bytes, and the time of its last change in ISO 8601."""

    name: str
    size: int
    changed: str


class GraphReader(Capability, Protocol):
    """Reads a property graph. `graph` names it: every session has one of its own unless settings say otherwise."""

    @asks
    async def nodes(
        self,
        graph: str,
        *,
        label: str | None = None,
        key: str | None = None,
        properties: dict[str, JsonValue] | None = None,
        limit: int = 100,
    ) -> tuple[Node, ...]:
        """Find nodes, ordered by label and key. Criteria that are None are ignored."""
        ...

    @asks
    async def edges(
        self, graph: str, *, start: NodeRef | None = None, end: NodeRef | None = None, relationship: str | None = None, limit: int = 100
    ) -> tuple[Edge, ...]:
        """Find edges, ordered by start, relationship and end. Criteria that are None are ignored."""
        ...

    @asks
    async def query(self, graph: str, text: str, parameters: dict[str, JsonValue], *, limit: int = 100) -> Rows:
        """Run a read-only Cypher query.

        In the rows a node is an object of `label`, `key` and `properties`, an edge of `start`, `relationship`, `end` and `properties`,
        and a path of `nodes` and `edges`. Raises QueryDenied for any other query, QueryTimeout for one that exceeds its time or memory,
        ToolInputInvalid for one that is not valid, and NotInGraph for an unknown name, where the database reports it.
        """
        ...


class GraphWriter(Capability, Protocol):
    """Changes a property graph."""

    @keyed
    async def apply(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Apply these changes in order, in one transaction.

        Raises NotInGraph for a node or an edge that is missing, NodeHasEdges for a node that is deleted without its edges,
        QueryDenied for an invalid label, relationship or property name, ToolInputInvalid for a key or value that cannot be stored,
        StoreUnavailable, StoreFull or StateConflict where the database cannot do it now, and StoreCorrupt where it cannot be read.
        A failure leaves the graph unchanged.
        """
        ...

    @asks
    async def preview(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Return what these changes would change, and raise what `apply` would raise. Nothing is written."""
        ...


class GraphStore(GraphReader, GraphWriter, Protocol):
    """Reads and changes property graphs."""
