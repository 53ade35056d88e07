"""The seven tools of a property graph: their arguments, checked before any call, and what each does to the store."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from interlock.adapters.graphs.guard import check_name
from interlock.capabilities import ToolRequest
from interlock.capabilities.graph_store import (
    AddEdge,
    AddNode,
    Change,
    Changed,
    DeleteEdge,
    DeleteNode,
    Edge,
    GraphStore,
    Node,
    NodeRef,
    UpdateEdge,
    UpdateNode,
)
from interlock.capabilities.model import Tool
from interlock.capabilities.registry import GraphToolResult
from interlock.contract.values import reasons
from interlock.errors import CapabilityError, MatchAmbiguous, NotInGraph, QueryDenied

__all__ = ["GraphTools"]

_REF = re.compile(r"(?P<label>[^\W\d_]\w{0,63}):(?P<key>.+)", re.DOTALL)
_SEVERAL = 2
_MOST_ROWS = 1000

Name = Annotated[str, Field(min_length=1, max_length=64)]
Key = Annotated[str, Field(min_length=1, max_length=500)]
Properties = Annotated[dict[Name, JsonValue], Field(max_length=100)]
Limit = Annotated[int, Field(ge=1, le=_MOST_ROWS)]


class _Arguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _EdgeMatch(_Arguments):
    from_node: Annotated[Key, Field(description="where it begins: 'Label:key', or a key that only one node has")]
    to_node: Annotated[Key, Field(description="where it ends")]
    relationship: Name


class _AddNode(_Arguments):
    """Add a node. One with this label and key that is there already stays as it is."""

    label: Name
    key: Key
    properties: Properties = {}


class _AddEdge(_EdgeMatch):
    """Add an edge between two nodes that are there. One that is there already stays as it is."""

    properties: Properties = {}


class _UpdateProps(_Arguments):
    """Set properties of a node, or of an edge; null removes one, the others stay."""

    target: Annotated[Key | _EdgeMatch, Field(description="a node as 'Label:key' or key, or an edge")]
    properties: Annotated[Properties, Field(min_length=1)]


class _DeleteNode(_Arguments):
    """Delete a node; with `detach` its edges too, without it only a node that has none."""

    match: Annotated[Key, Field(description="the node: 'Label:key', or a key that only one node has")]
    detach: bool = False


class _DeleteEdge(_Arguments):
    """Delete an edge."""

    match: _EdgeMatch


class _QueryGraph(_Arguments):
    """Find nodes by label, key and properties; what is left out is not asked for."""

    label: Name | None = None
    key: Key | None = None
    properties: Properties | None = None
    limit: Limit = 100


class _CypherQuery(_Arguments):
    """Ask the graph in Cypher. Only what reads is let through; values go in `parameters`."""

    query: Annotated[str, Field(min_length=1, max_length=20_000)]
    parameters: dict[str, JsonValue] = {}
    limit: Limit = 100


A = TypeVar("A", bound=_Arguments)
Found = tuple[JsonValue, Changed | None]
Do = Callable[[GraphStore, str, Any], Awaitable[Found]]


async def _add_node(store: GraphStore, graph: str, wanted: _AddNode) -> Found:
    node = Node(label=check_name(wanted.label, "label"), key=wanted.key, properties=_checked(wanted.properties))
    return await _applied(store, graph, AddNode(node=node))


async def _add_edge(store: GraphStore, graph: str, wanted: _AddEdge) -> Found:
    start, end = await _ends(store, graph, wanted)
    relationship = check_name(wanted.relationship, "relationship")
    edge = Edge(start=start, end=end, relationship=relationship, properties=_checked(wanted.properties))
    return await _applied(store, graph, AddEdge(edge=edge))


async def _update_props(store: GraphStore, graph: str, wanted: _UpdateProps) -> Found:
    properties = _checked(wanted.properties)
    if isinstance(wanted.target, str):
        return await _applied(store, graph, UpdateNode(ref=await _ref(store, graph, wanted.target), properties=properties))
    start, end = await _ends(store, graph, wanted.target)
    change = UpdateEdge(start=start, end=end, relationship=check_name(wanted.target.relationship, "relationship"), properties=properties)
    return await _applied(store, graph, change)


async def _delete_node(store: GraphStore, graph: str, wanted: _DeleteNode) -> Found:
    return await _applied(store, graph, DeleteNode(ref=await _ref(store, graph, wanted.match), detach=wanted.detach))


async def _delete_edge(store: GraphStore, graph: str, wanted: _DeleteEdge) -> Found:
    start, end = await _ends(store, graph, wanted.match)
    relationship = check_name(wanted.match.relationship, "relationship")
    return await _applied(store, graph, DeleteEdge(start=start, end=end, relationship=relationship))


async def _query_graph(store: GraphStore, graph: str, wanted: _QueryGraph) -> Found:
    label = None if wanted.label is None else check_name(wanted.label, "label")
    properties = None if wanted.properties is None else _checked(wanted.properties)
    nodes = await store.nodes(graph, label=label, key=wanted.key, properties=properties, limit=wanted.limit + 1)
    found = [dataclasses.asdict(node) for node in nodes[: wanted.limit]]
    return cast("JsonValue", {"nodes": found, "more": len(nodes) > wanted.limit}), None


async def _cypher_query(store: GraphStore, graph: str, wanted: _CypherQuery) -> Found:
    rows = await store.query(graph, wanted.query, wanted.parameters, limit=wanted.limit)
    return {"columns": list(rows.columns), "rows": [list(row) for row in rows.rows], "more": rows.more}, None


_TOOLS: dict[str, tuple[type[_Arguments], Do]] = {
    "add_node": (_AddNode, _add_node),
    "add_edge": (_AddEdge, _add_edge),
    "update_props": (_UpdateProps, _update_props),
    "delete_node": (_DeleteNode, _delete_node),
    "delete_edge": (_DeleteEdge, _delete_edge),
    "query_graph": (_QueryGraph, _query_graph),
    "cypher_query": (_CypherQuery, _cypher_query),
}


class GraphTools:
    """Calls the tools on a store. A result is a result, and an error is one, with its code; nothing is changed by halves."""

    async def offered(self) -> tuple[Tool, ...]:
        """Return the tools with the JSON schemas of their arguments."""
        return _OFFERED

    async def names(self) -> tuple[str, ...]:
        """Return the names of the tools alone."""
        return tuple(_TOOLS)

    async def check(self, request: ToolRequest) -> str | None:
        """Tell why a tool cannot be called so; None is that it can."""
        wanted = _arguments(request)
        return wanted if isinstance(wanted, str) else None

    async def call(self, graph: str, request: ToolRequest, *, store: GraphStore) -> GraphToolResult:
        """Call a tool. Whatever goes wrong is the error of the result."""
        wanted = _arguments(request)
        if isinstance(wanted, str):
            return GraphToolResult(tool=request.tool, error=wanted, code="tool_input_invalid")
        try:
            result, changed = await _TOOLS[request.tool][1](store, graph, wanted)
        except CapabilityError as error:
            return GraphToolResult(tool=request.tool, error=error.message, code=error.code, transient=error.transient)
        return GraphToolResult(tool=request.tool, result=result, changed=changed)


def _arguments(request: ToolRequest) -> _Arguments | str:
    """Make the arguments of a call, or say what is wrong with it."""
    if request.tool not in _TOOLS:
        return f"There is no tool '{request.tool[:64]}'. There are: {', '.join(_TOOLS)}."
    try:
        return _TOOLS[request.tool][0].model_validate(request.args)
    except ValidationError as error:
        return f"'{request.tool}' does not take such arguments: {reasons(error)}."


def _checked(properties: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {check_name(name, "property"): value for name, value in properties.items()}


async def _applied(store: GraphStore, graph: str, change: Change) -> Found:
    changed = await store.apply(graph, (change,))
    return {"changed": sum(map(len, vars(changed).values()))}, changed


async def _ends(store: GraphStore, graph: str, edge: _EdgeMatch) -> tuple[NodeRef, NodeRef]:
    return await _ref(store, graph, edge.from_node), await _ref(store, graph, edge.to_node)


async def _ref(store: GraphStore, graph: str, text: str) -> NodeRef:
    """Find the node that is meant: by label and key, or by a key that only one node has."""
    named = _REF.fullmatch(text)
    if named is not None:
        try:
            label = check_name(named["label"], "label")
        except QueryDenied:
            label = None
        if label is not None and await store.nodes(graph, label=label, key=named["key"], limit=1):
            return NodeRef(label=label, key=named["key"])
    found = await store.nodes(graph, key=text, limit=_SEVERAL + 3)
    if not found:
        raise NotInGraph(f"There is no node '{text[:100]}' in the graph.")
    if len(found) >= _SEVERAL:
        which = ", ".join(f"'{node.label}:{node.key}'" for node in found)
        raise MatchAmbiguous(f"'{text[:100]}' could be {which}. Say which, with its label.")
    return NodeRef(label=found[0].label, key=found[0].key)


def _tool(name: str, arguments: type[_Arguments]) -> Tool:
    schema = arguments.model_json_schema()
    description = str(schema.pop("description", name))
    return Tool(name=name, description=description, parameters=cast("dict[str, JsonValue]", schema))


_OFFERED = tuple(_tool(name, arguments) for name, (arguments, _) in _TOOLS.items())
