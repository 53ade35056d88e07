"""A property graph: nodes with a label and a key, and edges between them. Changes are applied in transactions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pydantic import JsonValue

from interlock.capabilities.capability import Capability, asks, keyed

__all__ = [
    "AddEdge", "AddNode", "Change", "Changed", "DeleteEdge", "DeleteNode", "Edge", "EdgeRef", "GraphStore",
    "Node", "NodeRef", "Properties", "Rows", "StoredGraph", "UpdateEdge", "UpdateNode", "differing", "grouped", "is_same", "to_json",
]  # fmt: skip

K = TypeVar("K")
V = TypeVar("V")
Properties = dict[str, JsonValue]


def to_json(value: JsonValue) -> str:
    """Return the JSON of a value. It is equal only for equal values of equal types."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def is_same(one: JsonValue, other: JsonValue) -> bool:
    """Compare values and their types: 1, 1.0 and True are three values."""
    return to_json(one) == to_json(other)


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Collect the values of each key."""
    groups: dict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


@dataclass(frozen=True, kw_only=True, order=True)
class NodeRef:
    """A reference to a node. Label and key together are unique."""

    label: str
    key: str


@dataclass(frozen=True, kw_only=True, order=True)
class EdgeRef:
    """A reference to an edge. Two nodes have at most one edge of each relationship in each direction."""

    start: NodeRef
    relationship: str
    end: NodeRef

    def __str__(self) -> str:
        return f"{self.start.key} -[{self.relationship}]-> {self.end.key}"


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with its properties. The key is not a property."""

    label: str
    key: str
    properties: Properties = field(default_factory=Properties)

    @property
    def ref(self) -> NodeRef:
        """The reference to it."""
        return NodeRef(label=self.label, key=self.key)


@dataclass(frozen=True, kw_only=True)
class _EdgeFields:
    start: NodeRef
    end: NodeRef
    relationship: str

    @property
    def ref(self) -> EdgeRef:
        """The reference to the edge."""
        return EdgeRef(start=self.start, relationship=self.relationship, end=self.end)


@dataclass(frozen=True, kw_only=True)
class Edge(_EdgeFields):
    """An edge with its properties."""

    properties: Properties = field(default_factory=Properties)


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
    properties: Properties


@dataclass(frozen=True, kw_only=True)
class UpdateEdge(_EdgeFields):
    """Set these properties of an edge; None removes a property, other properties are kept."""

    properties: Properties


@dataclass(frozen=True, kw_only=True)
class DeleteNode:
    """Delete a node, and its edges if `detach` is set."""

    ref: NodeRef
    detach: bool = False


@dataclass(frozen=True, kw_only=True)
class DeleteEdge(_EdgeFields):
    """Delete an edge."""


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
        return sum(number for _, _, number in self.counts())

    def counts(self) -> list[tuple[str, str, int]]:
        """Return how many elements were changed how: ('added', 'nodes', 2) ..., without zeros."""
        found = [(how, what, len(getattr(self, f"{what}_{how}"))) for how in ("added", "changed", "removed") for what in ("nodes", "edges")]
        return [(how, what if number > 1 else what[:-1], number) for how, what, number in found if number]

    def inverse(self) -> tuple[Change, ...]:
        """Return the changes that undo this one. Edges are deleted before their nodes, and nodes are restored before their edges."""
        nodes = zip(self.nodes_changed, self.nodes_before, strict=True)
        edges = zip(self.edges_changed, self.edges_before, strict=True)
        return (
            *(DeleteEdge(start=edge.start, end=edge.end, relationship=edge.relationship) for edge in self.edges_added),
            *(DeleteNode(ref=node.ref) for node in self.nodes_added),
            *(AddNode(node=node) for node in self.nodes_removed),
            *(AddEdge(edge=edge) for edge in self.edges_removed),
            *(UpdateNode(ref=now.ref, properties=differing(now, then)) for now, then in nodes),
            *(
                UpdateEdge(start=now.start, end=now.end, relationship=now.relationship, properties=differing(now, then))
                for now, then in edges
            ),
        )


def differing(now: Node | Edge, then: Node | Edge) -> Properties:
    """Return the properties in which `now` differs, each with its value in `then`; None for one that `then` does not have."""
    names = dict.fromkeys([*then.properties, *now.properties])
    return {name: then.properties.get(name) for name in names if not is_same(now.properties.get(name), then.properties.get(name))}


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


class GraphStore(Capability, Protocol):
    """Reads and changes property graphs. `graph` names one: every session has its own unless the settings say otherwise."""

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
