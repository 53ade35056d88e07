"""The seven tools of a property graph: the schemas of their arguments, and their calls of the store."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field, JsonValue, ValidationError

from interlock.capabilities import ToolRequest
from interlock.capabilities.model import Tool
from interlock.contract.schema import error_summary
from interlock.errors import CapabilityError, SessionBusy, StoreCorrupt, ToolInputInvalid
from interlock_agents.puntini.errors import ApprovalNeeded, MatchAmbiguous, NotInGraph
from interlock_agents.puntini.graph_store import (
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
from interlock_agents.puntini.graphs.conditions import Arguments, Name
from interlock_agents.puntini.graphs.guard import check_name
from interlock_agents.puntini.graphs.lookup import MAX_NODES, find_node, missing
from interlock_agents.puntini.graphs.questions import Key, Question, ask, plain_nodes
from interlock_agents.puntini.graphs.writes import changes_of, is_writing
from interlock_agents.puntini.tool_registry import GraphToolResult

__all__ = ["GraphTools"]

_MOST_ROWS = 1000
_LONGEST_KEY = 500
_VERBS = {"added": "add", "changed": "change", "removed": "remove"}

Properties = Annotated[dict[Name, JsonValue], Field(max_length=100)]
Limit = Annotated[int, Field(ge=1, le=_MOST_ROWS)]


class _EdgeMatch(Arguments):
    from_node: Annotated[Key, Field(description="its start: 'Label:key', or a key that only one node has")]
    to_node: Annotated[Key, Field(description="its end")]
    relationship: Name


class _Beside(Arguments):
    node: Key
    not_of: list[Name]


class _AddNode(Arguments):
    """Add a node. An existing node with this label and key is left unchanged."""

    label: Name
    key: Key
    properties: Properties = Field(default_factory=dict)
    if_missing: Annotated[bool, Field(description="only if no node of any label has this key")] = False
    beside: Annotated[_Beside | None, Field(description="with if_missing: only if this node exists and has none of these labels")] = None


class _AddEdge(_EdgeMatch):
    """Add an edge between two existing nodes. An existing edge is left unchanged."""

    properties: Properties = Field(default_factory=dict)


class _UpdateProps(Arguments):
    """Set properties of a node or an edge; null removes one, others are kept. A new `key` renames a node."""

    target: Annotated[Key | _EdgeMatch, Field(description="a node as 'Label:key' or key, or an edge")]
    properties: Annotated[Properties, Field(min_length=1)]


class _DeleteNode(Arguments):
    """Delete a node. A node with edges is deleted only with `detach`, which deletes its edges too."""

    match: Annotated[Key, Field(description="the node: 'Label:key', or a key that only one node has")]
    detach: bool = False


class _DeleteEdge(Arguments):
    """Delete an edge."""

    match: _EdgeMatch


class _QueryGraph(Question):
    """Find nodes by label, key and properties. With `wants`, `where` or `near`, answer a question."""

    properties: Properties | None = None
    limit: Limit = 100


class _CypherQuery(Arguments):
    """Run a Cypher query; values go in `parameters`. A query that writes runs only after a person has approved it."""

    query: Annotated[str, Field(min_length=1, max_length=20_000)]
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    limit: Limit = 100


A = TypeVar("A", bound=Arguments)
Found = tuple[JsonValue, Changed | None]
Do = Callable[[GraphStore, str, Any], Awaitable[Found]]


async def _add_node(store: GraphStore, graph: str, wanted: _AddNode) -> Found:
    if wanted.if_missing:
        known = await store.nodes(graph, key=wanted.key, limit=1) or await store.nodes(graph, limit=MAX_NODES)
        if any(node.key.casefold() == wanted.key.casefold() for node in known):
            return {"changed": 0}, Changed()
        if "Did you mean" in (says := missing(wanted.key, wanted.label, known)):
            raise NotInGraph(f"{says} To add another one, say 'create a {wanted.label.lower()} {wanted.key}' first.")
        if wanted.beside is not None and (await find_node(store, graph, wanted.beside.node)).label in wanted.beside.not_of:
            raise NotInGraph(
                f"There is no node '{wanted.key[:100]}' in the graph. Say what it is first: 'create a task {wanted.key[:100]}'."
            )
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
        node = await find_node(store, graph, wanted.target)
        if "key" in properties:
            return await _renamed(store, graph, node, properties)
        return await _applied(store, graph, UpdateNode(ref=node.ref, properties=properties))
    start, end = await _ends(store, graph, wanted.target)
    change = UpdateEdge(start=start, end=end, relationship=check_name(wanted.target.relationship, "relationship"), properties=properties)
    return await _applied(store, graph, change)


async def _renamed(store: GraphStore, graph: str, node: Node, properties: Mapping[str, JsonValue]) -> Found:
    """Replace a node by one with another key, with its properties and edges, in one transaction."""
    key = properties["key"]
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
        raise ToolInputInvalid(f"The key of a node is a text of 1 to {_LONGEST_KEY} characters.")
    old, new = node.ref, NodeRef(label=node.label, key=key)
    if await store.nodes(graph, label=node.label, key=key, limit=1):
        raise ToolInputInvalid(f"There is a {node.label} '{key[:100]}' already.")
    edges = [*await store.edges(graph, start=old, limit=MAX_NODES), *await store.edges(graph, end=old, limit=MAX_NODES)]
    if len(edges) >= MAX_NODES:
        raise ToolInputInvalid(f"'{node.key}' has {MAX_NODES:,} edges or more, too many to rename it.")
    kept: dict[str, JsonValue] = {
        name: value for name, value in {**node.properties, **properties}.items() if name != "key" and value is not None
    }
    moved = [
        dataclasses.replace(edge, start=new if edge.start == old else edge.start, end=new if edge.end == old else edge.end)
        for edge in edges
    ]
    changes = [AddNode(node=Node(label=node.label, key=key, properties=kept)), *(AddEdge(edge=edge) for edge in moved)]
    return await _applied(store, graph, *changes, DeleteNode(ref=old, detach=True))


async def _delete_node(store: GraphStore, graph: str, wanted: _DeleteNode) -> Found:
    return await _applied(store, graph, DeleteNode(ref=await _ref(store, graph, wanted.match), detach=wanted.detach))


async def _delete_edge(store: GraphStore, graph: str, wanted: _DeleteEdge) -> Found:
    start, end = await _ends(store, graph, wanted.match)
    relationship = check_name(wanted.match.relationship, "relationship")
    there = [
        *await store.edges(graph, start=start, end=end, limit=MAX_NODES),
        *await store.edges(graph, start=end, end=start, limit=MAX_NODES),
    ]
    if there and not any((edge.start, edge.relationship) == (start, relationship) for edge in there):
        message = f"There is no edge {relationship} from {start.label} '{start.key[:100]}' to {end.label} '{end.key[:100]}' in the graph."
        said = sorted(str(edge.ref) for edge in there)
        raise NotInGraph(f"{message} There is: {', '.join(said)}.")
    return await _applied(store, graph, DeleteEdge(start=start, end=end, relationship=relationship))


async def _query_graph(store: GraphStore, graph: str, wanted: _QueryGraph) -> Found:
    question = Question.model_validate(wanted.model_dump(exclude={"properties", "limit"}))
    is_question = bool(question.wants != "nodes" or question.where or question.near is not None)
    if is_question or ("wants" in wanted.model_fields_set and question.key is not None):
        return await ask(store, graph, question), None
    label = None if wanted.label is None else check_name(wanted.label, "label")
    properties = None if wanted.properties is None else _checked(wanted.properties)
    nodes = await store.nodes(graph, label=label, key=wanted.key, properties=properties, limit=wanted.limit + 1)
    if not nodes and "wants" in wanted.model_fields_set:
        return await ask(store, graph, question), None
    return plain_nodes(nodes[: wanted.limit], more=len(nodes) > wanted.limit), None


async def _cypher_query(store: GraphStore, graph: str, wanted: _CypherQuery) -> Found:
    rows = await store.query(graph, wanted.query, wanted.parameters, limit=wanted.limit)
    return {"columns": list(rows.columns), "rows": [list(row) for row in rows.rows], "more": rows.more}, None


_TOOLS: dict[str, tuple[type[Arguments], Do]] = {
    "add_node": (_AddNode, _add_node),
    "add_edge": (_AddEdge, _add_edge),
    "update_props": (_UpdateProps, _update_props),
    "delete_node": (_DeleteNode, _delete_node),
    "delete_edge": (_DeleteEdge, _delete_edge),
    "query_graph": (_QueryGraph, _query_graph),
    "cypher_query": (_CypherQuery, _cypher_query),
}


class GraphTools:
    """Calls the tools on a store. A failure is the `error` of the result, and leaves the graph unchanged."""

    async def offered(self) -> tuple[Tool, ...]:
        """Return the tools with the JSON schemas of their arguments."""
        return _OFFERED

    async def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        return tuple(_TOOLS)

    async def check(self, request: ToolRequest) -> str | None:
        """Return why a call would be refused, or None if it is valid."""
        wanted = _arguments(request)
        return wanted if isinstance(wanted, str) else None

    async def call(self, graph: str, request: ToolRequest, *, approved: str = "", store: GraphStore) -> GraphToolResult:
        """Call a tool. SessionBusy and StoreCorrupt are raised: neither another call nor a person's answer can help."""
        wanted = _arguments(request)
        if isinstance(wanted, str):
            return GraphToolResult(tool=request.tool, error=wanted, code="tool_input_invalid")
        try:
            if isinstance(wanted, _CypherQuery) and is_writing(wanted.query):
                return await _write(store, graph, wanted, approved)
            result, changed = await _TOOLS[request.tool][1](store, graph, wanted)
        except (SessionBusy, StoreCorrupt):
            raise
        except MatchAmbiguous as error:
            return GraphToolResult(tool=request.tool, error=error.message, code=error.code, named=error.named, candidates=error.candidates)
        except CapabilityError as error:
            return GraphToolResult(tool=request.tool, error=error.message, code=error.code, transient=error.transient)
        return GraphToolResult(tool=request.tool, result=result, changed=changed)

    async def take_back(self, graph: str, changes: tuple[Changed, ...], *, store: GraphStore) -> GraphToolResult:
        """Undo these changes, the last one first, in one transaction."""
        inverse = tuple(change for one in reversed(changes) for change in one.inverse())
        try:
            undone = await store.apply(graph, inverse)
        except CapabilityError as error:
            return GraphToolResult(tool="take_back", error=error.message, code=error.code, transient=error.transient)
        return GraphToolResult(tool="take_back", result={"changed": undone.count}, changed=undone)


async def _write(store: GraphStore, graph: str, wanted: _CypherQuery, approved: str) -> GraphToolResult:
    """Run a query that writes if a person has approved exactly this text. Otherwise return what it would change."""
    changes = await changes_of(store, graph, wanted.query, wanted.parameters)
    text = approval_text(wanted.query, wanted.parameters)
    if approved == text and changes:
        changed = await store.apply(graph, changes)
        return GraphToolResult(tool="cypher_query", result={"changed": changed.count, "matched": len(changes)}, changed=changed)
    would = await store.preview(graph, changes) if changes else Changed()
    if not would.count:
        return GraphToolResult(tool="cypher_query", result={"changed": 0, "matched": len(changes)}, changed=would)
    says = f"This Cypher writes, so a person has to approve it. It would {_in_words(would)}."
    return GraphToolResult(tool="cypher_query", error=says, code=ApprovalNeeded.code, approval=text)


def approval_text(query: str, parameters: Mapping[str, JsonValue]) -> str:
    """Return the text that a person approves: the query and its parameters."""
    return f"{query}\n{json.dumps(parameters, ensure_ascii=False, sort_keys=True)}" if parameters else query


def _in_words(changed: Changed) -> str:
    """Return a change in words: 'add 1 node and remove 2 edges'."""
    parts = [f"{_VERBS[how]} {number} {what}" for how, what, number in changed.counts()]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "change nothing"


def _arguments(request: ToolRequest) -> Arguments | str:
    """Return the arguments of a call, or what is wrong with them."""
    if request.tool not in _TOOLS:
        return f"There is no tool '{request.tool[:64]}'. There are: {', '.join(_TOOLS)}."
    try:
        return _TOOLS[request.tool][0].model_validate(request.args)
    except ValidationError as error:
        return f"'{request.tool}' does not take such arguments: {error_summary(error)}."


def _checked(properties: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {check_name(name, "property"): value for name, value in properties.items()}


async def _applied(store: GraphStore, graph: str, *changes: Change) -> Found:
    changed = await store.apply(graph, changes)
    return {"changed": changed.count}, changed


async def _ends(store: GraphStore, graph: str, edge: _EdgeMatch) -> tuple[NodeRef, NodeRef]:
    return await _ref(store, graph, edge.from_node), await _ref(store, graph, edge.to_node)


async def _ref(store: GraphStore, graph: str, text: str) -> NodeRef:
    return (await find_node(store, graph, text)).ref


def _tool(name: str, arguments: type[Arguments]) -> Tool:
    schema = arguments.model_json_schema()
    description = str(schema.pop("description", name))
    return Tool(name=name, description=description, parameters=cast("dict[str, JsonValue]", schema))


_OFFERED = tuple(_tool(name, arguments) for name, (arguments, _) in _TOOLS.items())
