"""The effect of changes: the nodes and edges that have to be read first, and what differs once the changes are applied to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

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
    EdgeRef,
    Node,
    NodeRef,
    Properties,
    UpdateEdge,
    UpdateNode,
    is_same,
)
from interlock_agents.puntini.graphs.guard import check_name

__all__ = ["Needed", "check_limit", "effect_of", "has", "needed_for"]

T = TypeVar("T", Node, Edge)
R = TypeVar("R")
_MAX_DEPTH = 64
_MAX_BITS = 1024


@dataclass
class Needed:
    """What has to be read before the effect of changes is known; `around` are nodes of which all edges are needed."""

    nodes: set[NodeRef] = field(default_factory=set[NodeRef])
    edges: set[EdgeRef] = field(default_factory=set[EdgeRef])
    around: set[NodeRef] = field(default_factory=set[NodeRef])


def check_limit(limit: int) -> int:
    """Return a limit, or raise ToolInputInvalid for one below 1."""
    if limit < 1:
        raise ToolInputInvalid(f"A limit of {limit} finds nothing: ask for one or more.")
    return limit


def has(properties: Mapping[str, JsonValue], wanted: Mapping[str, JsonValue]) -> bool:
    """Return whether these properties include the wanted ones; None means that a property is absent."""
    return all(is_same(properties.get(name), value) for name, value in wanted.items())


def needed_for(changes: Iterable[Change]) -> Needed:
    """Check the names and values of changes, and return what has to be read."""
    needed = Needed()
    for change in changes:
        element = change.node if isinstance(change, AddNode) else change.edge if isinstance(change, AddEdge) else change
        if not isinstance(element, DeleteNode | DeleteEdge):
            _check_properties(element.properties)
        ref = element.ref
        if isinstance(ref, NodeRef):
            needed.nodes.add(_check_node(ref))
        else:
            check_name(ref.relationship, "relationship")
            needed.edges.add(ref)
            ends = {_check_node(ref.start), _check_node(ref.end)}
            needed.nodes |= ends if isinstance(change, AddEdge) else set()
        if isinstance(change, DeleteNode):
            needed.around.add(change.ref)
    return needed


def effect_of(changes: Iterable[Change], nodes: Mapping[NodeRef, Node], edges: Mapping[EdgeRef, Edge]) -> Changed:
    """Apply changes in order to what was read, and return in what the result differs."""
    after = _Elements(nodes, edges)
    for change in changes:
        match change:
            case AddNode(node=node):
                after.nodes.setdefault(node.ref, replace(node, properties=_present(node.properties)))
            case UpdateNode(ref=ref, properties=properties):
                after.nodes[ref] = _updated(after.node(ref), properties)
            case DeleteNode(ref=ref, detach=detach):
                after.remove(ref, detach=detach)
            case AddEdge(edge=edge):
                after.add(edge)
            case UpdateEdge(properties=properties):
                after.edges[change.ref] = _updated(after.edge(change.ref), properties)
            case DeleteEdge():
                after.edge(change.ref)
                del after.edges[change.ref]
    nodes_added, nodes_changed, nodes_removed = _difference(nodes, after.nodes)
    edges_added, edges_changed, edges_removed = _difference(edges, after.edges)
    return Changed(
        nodes_added=nodes_added,
        nodes_changed=nodes_changed,
        nodes_removed=nodes_removed,
        edges_added=edges_added,
        edges_changed=edges_changed,
        edges_removed=edges_removed,
        nodes_before=tuple(nodes[node.ref] for node in nodes_changed),
        edges_before=tuple(edges[edge.ref] for edge in edges_changed),
    )


class _Elements:
    """The nodes and edges that changes are applied to."""

    def __init__(self, nodes: Mapping[NodeRef, Node], edges: Mapping[EdgeRef, Edge]) -> None:
        self.nodes, self.edges = dict(nodes), dict(edges)
        self._around: dict[NodeRef, set[EdgeRef]] = {}
        for ref in edges:
            self._index(ref)

    def node(self, ref: NodeRef) -> Node:
        if ref not in self.nodes:
            raise NotInGraph(f"There is no {ref.label} '{ref.key:.100}' in the graph.")
        return self.nodes[ref]

    def edge(self, ref: EdgeRef) -> Edge:
        if ref not in self.edges:
            start, end = (f"{node.label} '{node.key:.100}'" for node in (ref.start, ref.end))
            raise NotInGraph(f"There is no edge {ref.relationship} from {start} to {end} in the graph.")
        return self.edges[ref]

    def add(self, edge: Edge) -> None:
        self.node(edge.start)
        self.node(edge.end)
        self.edges.setdefault(edge.ref, replace(edge, properties=_present(edge.properties)))
        self._index(edge.ref)

    def remove(self, ref: NodeRef, *, detach: bool) -> None:
        self.node(ref)
        around = {edge for edge in self._around.get(ref, set()) if edge in self.edges}
        if around and not detach:
            raise NodeHasEdges(f"{ref.label} '{ref.key:.100}' has edges ({len(around)}). Delete it and its edges, or those first.")
        for edge in around:
            del self.edges[edge]
        del self.nodes[ref]

    def _index(self, ref: EdgeRef) -> None:
        for end in (ref.start, ref.end):
            self._around.setdefault(end, set()).add(ref)


def _difference(before: Mapping[R, T], after: Mapping[R, T]) -> tuple[tuple[T, ...], tuple[T, ...], tuple[T, ...]]:
    added = tuple(one for ref, one in after.items() if ref not in before)
    both = [(before[ref], one) for ref, one in after.items() if ref in before]
    changed = tuple(one for old, one in both if old is not one and not is_same(old.properties, one.properties))
    return added, changed, tuple(one for ref, one in before.items() if ref not in after)


def _updated(one: T, properties: Properties) -> T:
    return replace(one, properties=_present({**one.properties, **properties}))


def _present(properties: Properties) -> Properties:
    return {name: value for name, value in properties.items() if value is not None}


def _check_node(ref: NodeRef) -> NodeRef:
    check_name(ref.label, "label")
    if not ref.key:
        raise ToolInputInvalid("The key of a node is empty.")
    _check_text(ref.key, "The key of a node")
    return ref


def _check_properties(properties: Properties) -> None:
    for name, value in properties.items():
        check_name(name, "property")
        _check_value(f"Property '{name}'", value, _MAX_DEPTH)


def _check_value(what: str, value: JsonValue, depth: int) -> None:
    if not depth:
        raise ToolInputInvalid(f"{what} is nested too deep.")
    if isinstance(value, str):
        _check_text(value, what)
    elif (isinstance(value, float) and not math.isfinite(value)) or (isinstance(value, int) and value.bit_length() > _MAX_BITS):
        raise ToolInputInvalid(f"{what} has a number that cannot be stored.")
    elif isinstance(value, list | dict):
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            _check_value(what, item, depth - 1)


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolInputInvalid(f"{what} is not valid text.") from error
