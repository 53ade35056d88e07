"""What a step comes to: which nodes and edges it is about, and what there is to write once they are known."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from pydantic import JsonValue

from interlock.errors import ToolInputInvalid
from interlock_agents.puntini.errors import NodeHasEdges, NotInGraph
from interlock_agents.puntini.graph_store import (
    AddEdge,
    AddNode,
    Change,
    Changed,
    DeleteEdge,
    DeleteNode,
    Edge,
    Node,
    NodeRef,
    UpdateEdge,
    UpdateNode,
)
from interlock_agents.puntini.graphs.guard import check_name

__all__ = [
    "EdgeRef",
    "Foreseen",
    "at_least_one",
    "edge_ref",
    "foreseen",
    "grouped",
    "has",
    "is_same",
    "kept",
    "node_ref",
    "read",
    "settled",
]

T = TypeVar("T", Node, Edge)
R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")
_DEPTH = 64
_BITS = 1024


@dataclass(frozen=True, order=True)
class EdgeRef:
    """Which edge: there is at most one of a relationship from one node to another."""

    start: tuple[str, str]
    relationship: str
    end: tuple[str, str]


@dataclass
class Foreseen:
    """What has to be read before a step can be settled; `around` are the nodes whose edges all matter."""

    nodes: set[NodeRef] = field(default_factory=set[NodeRef])
    edges: set[EdgeRef] = field(default_factory=set[EdgeRef])
    around: set[NodeRef] = field(default_factory=set[NodeRef])


def at_least_one(limit: int) -> int:
    """Return a limit of what is asked for, or refuse one that would find nothing."""
    if limit < 1:
        raise ToolInputInvalid(f"A limit of {limit} finds nothing: ask for one or more.")
    return limit


def node_ref(node: Node) -> NodeRef:
    """Return which node it is."""
    return NodeRef(label=node.label, key=node.key)


def edge_ref(edge: Edge | UpdateEdge | DeleteEdge) -> EdgeRef:
    """Return which edge it is."""
    return EdgeRef((edge.start.label, edge.start.key), edge.relationship, (edge.end.label, edge.end.key))


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Put together what has the same name."""
    groups: dict[K, list[V]] = defaultdict(list)
    for name, value in pairs:
        groups[name].append(value)
    return groups


def kept(value: JsonValue) -> str:
    """Write a value as a text that is equal for equal values of equal types only."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def read(text: str) -> JsonValue:
    """Read what `kept` wrote."""
    return cast("JsonValue", json.loads(text))


def is_same(one: JsonValue, other: JsonValue) -> bool:
    """Tell whether two values are equal, and of equal types: 1, 1.0 and True are three."""
    return kept(one) == kept(other)


def has(properties: Mapping[str, JsonValue], asked: Mapping[str, JsonValue]) -> bool:
    """Tell whether there are these properties among the others; None asks for one that is not there."""
    return all(is_same(properties.get(name), value) for name, value in asked.items())


def foreseen(changes: Iterable[Change]) -> Foreseen:
    """Check the names and values of a step, and tell what it is about."""
    seen = Foreseen()
    for change in changes:
        match change:
            case AddNode(node=node):
                _checked(node.properties)
                seen.nodes.add(_node(node_ref(node)))
            case UpdateNode(ref=ref, properties=properties):
                _checked(properties)
                seen.nodes.add(_node(ref))
            case DeleteNode(ref=ref):
                seen.nodes.add(_node(ref))
                seen.around.add(ref)
            case AddEdge(edge=edge):
                _checked(edge.properties)
                seen.edges.add(_edge(edge))
                seen.nodes |= {edge.start, edge.end}
            case UpdateEdge(properties=properties):
                _checked(properties)
                seen.edges.add(_edge(change))
            case DeleteEdge():
                seen.edges.add(_edge(change))
    return seen


def settled(changes: Iterable[Change], nodes: Mapping[NodeRef, Node], edges: Mapping[EdgeRef, Edge]) -> Changed:
    """Make the changes to what was read, one after the other, and tell in what the end differs from the beginning."""
    state = _State(nodes, edges)
    for change in changes:
        match change:
            case AddNode(node=node):
                state.nodes.setdefault(node_ref(node), replace(node, properties=_given(node.properties)))
            case UpdateNode(ref=ref, properties=properties):
                state.nodes[ref] = _updated(state.node(ref), properties)
            case DeleteNode(ref=ref, detach=detach):
                state.remove(ref, detach=detach)
            case AddEdge(edge=edge):
                state.add(edge)
            case UpdateEdge(properties=properties):
                state.edges[edge_ref(change)] = _updated(state.edge(change), properties)
            case DeleteEdge():
                state.edge(change)
                del state.edges[edge_ref(change)]
    added, changed, removed = _difference(nodes, state.nodes)
    edges_added, edges_changed, edges_removed = _difference(edges, state.edges)
    return Changed(
        nodes_added=added,
        nodes_changed=changed,
        nodes_removed=removed,
        edges_added=edges_added,
        edges_changed=edges_changed,
        edges_removed=edges_removed,
        nodes_before=tuple(nodes[node_ref(node)] for node in changed),
        edges_before=tuple(edges[edge_ref(edge)] for edge in edges_changed),
    )


class _State:
    """The nodes and edges that a step is about, as it goes on."""

    def __init__(self, nodes: Mapping[NodeRef, Node], edges: Mapping[EdgeRef, Edge]) -> None:
        self.nodes, self.edges = dict(nodes), dict(edges)
        self._around: dict[NodeRef, set[EdgeRef]] = {}
        for ref, edge in edges.items():
            self._note(ref, edge)

    def node(self, ref: NodeRef) -> Node:
        if ref not in self.nodes:
            raise NotInGraph(f"There is no {ref.label} '{ref.key:.100}' in the graph.")
        return self.nodes[ref]

    def edge(self, change: UpdateEdge | DeleteEdge) -> Edge:
        found = self.edges.get(edge_ref(change))
        if found is None:
            start, end = (f"{ref.label} '{ref.key:.100}'" for ref in (change.start, change.end))
            raise NotInGraph(f"There is no edge {change.relationship} from {start} to {end} in the graph.")
        return found

    def add(self, edge: Edge) -> None:
        self.node(edge.start)
        self.node(edge.end)
        ref = edge_ref(edge)
        self.edges.setdefault(ref, replace(edge, properties=_given(edge.properties)))
        self._note(ref, edge)

    def remove(self, ref: NodeRef, *, detach: bool) -> None:
        self.node(ref)
        around = {edge for edge in self._around.get(ref, set()) if edge in self.edges}
        if around and not detach:
            raise NodeHasEdges(f"{ref.label} '{ref.key:.100}' has edges ({len(around)}). Delete it and its edges, or those first.")
        for edge in around:
            del self.edges[edge]
        del self.nodes[ref]

    def _note(self, ref: EdgeRef, edge: Edge) -> None:
        for end in (edge.start, edge.end):
            self._around.setdefault(end, set()).add(ref)


def _difference(before: Mapping[R, T], after: Mapping[R, T]) -> tuple[tuple[T, ...], tuple[T, ...], tuple[T, ...]]:
    if not before:
        return tuple(after.values()), (), ()
    added = tuple(one for ref, one in after.items() if ref not in before)
    changed = tuple(one for ref, one in after.items() if ref in before and not _is_same(before[ref], one))
    return added, changed, tuple(one for ref, one in before.items() if ref not in after)


def _is_same(one: Node | Edge, other: Node | Edge) -> bool:
    return one is other or is_same(one.properties, other.properties)


def _updated(one: T, properties: Mapping[str, JsonValue]) -> T:
    return replace(one, properties=_given({**one.properties, **properties}))


def _given(properties: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in properties.items() if value is not None}


def _node(ref: NodeRef) -> NodeRef:
    check_name(ref.label, "label")
    if not ref.key:
        raise ToolInputInvalid("The key of a node is empty.")
    _text(ref.key, "The key of a node")
    return ref


def _edge(edge: Edge | UpdateEdge | DeleteEdge) -> EdgeRef:
    check_name(edge.relationship, "relationship")
    _node(edge.start)
    _node(edge.end)
    return edge_ref(edge)


def _checked(properties: Mapping[str, JsonValue]) -> None:
    for name, value in properties.items():
        check_name(name, "property")
        _value(name, value, _DEPTH)


def _value(name: str, value: JsonValue, depth: int) -> None:
    if not depth:
        raise ToolInputInvalid(f"Property '{name}' is nested too deeply.")
    if isinstance(value, str):
        _text(value, f"Property '{name}'")
    elif (isinstance(value, float) and not math.isfinite(value)) or (isinstance(value, int) and value.bit_length() > _BITS):
        raise ToolInputInvalid(f"Property '{name}' has a number that cannot be kept.")
    elif isinstance(value, list):
        for item in value:
            _value(name, item, depth - 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            _text(key, f"Property '{name}'")
            _value(name, item, depth - 1)


def _text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolInputInvalid(f"{what} is no valid text.") from error
