"""Questions about a graph that need no Cypher: which nodes, how many, yes or no, how they are connected.

A name that the graph does not have is answered with the names that could be meant, and is never taken for 'nothing'.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Annotated, Literal, cast

from pydantic import Field, JsonValue

from interlock.errors import ToolInputInvalid
from interlock.spelling import closest
from interlock_agents.puntini.errors import NotInGraph
from interlock_agents.puntini.graph_store import Edge, GraphStore, Node, NodeRef
from interlock_agents.puntini.graphs.conditions import (
    Arguments,
    Condition,
    Name,
    fits,
    in_words,
    is_equal,
    number_of,
    shown,
    undecided,
    value_of,
)
from interlock_agents.puntini.graphs.guard import check_name
from interlock_agents.puntini.graphs.lookup import MAX_NODES, did_you_mean, find_node, find_nodes

__all__ = ["Key", "Near", "Question", "ask", "plain_nodes"]

_MAX_EDGES, _MAX_LISTED, _EXACT = 10, 20, 1e15
_PART_OF = ("PART_OF", "BELONGS_TO", "IN", "CONTAINED_IN", "MEMBER_OF")
_WHOLE = ("HAS_", "CONTAINS", "INCLUDES")
"""Relationships that mean the same from the other end."""
_STATES = ("status", "state")
"""Properties that have one value at a time: a node that has another value is not in the state that is asked for."""
Key = Annotated[str, Field(min_length=1, max_length=500)]


class Near(Arguments):
    """Nodes that are connected to this one, by any relationship in any direction unless it is given.

    `to` is an edge from the wanted nodes to this node, `from` an edge from this node.
    """

    node: Key
    relationship: Name | None = None
    direction: Literal["to", "from", "any"] = "any"


class Question(Arguments):
    """A question about the node `key`, or about all nodes of a label."""

    label: Name | None = None
    key: Key | None = None
    where: list[Condition] = Field(default_factory=list[Condition])
    near: Near | None = None
    wants: Literal["nodes", "names", "count", "yes_no", "connections", "property", "highest", "lowest", "sum", "average"] = "nodes"
    property: Name | None = None


async def ask(store: GraphStore, graph: str, question: Question) -> JsonValue:
    """Answer a question with nodes, rows or a sentence."""
    near = question.near
    names = [(question.label, "label"), (question.property, "property"), (near and near.relationship, "relationship")]
    for name, kind in [*names, *((one.property, "property") for one in question.where)]:
        if name is not None:
            check_name(name, kind)
    asker = _Asker(store, graph, question)
    try:
        return await (asker.about_many() if question.key is None else asker.about_one(question.key))
    except NotInGraph as error:
        # It is not known whether a missing node would meet a condition.
        return f"No. {error.message}" if question.wants == "yes_no" and not question.where else error.message


def plain_nodes(nodes: Sequence[Node], *, more: bool = False) -> JsonValue:
    """Return nodes as plain data; `more` is set if a limit cut them off."""
    return cast("JsonValue", {"nodes": [dataclasses.asdict(node) for node in nodes], "more": more})


class _Asker:
    """Reads what one question needs, and answers it."""

    def __init__(self, store: GraphStore, graph: str, question: Question) -> None:
        self._store, self._graph, self._question = store, graph, question

    # About one node.

    async def about_one(self, key: str) -> JsonValue:
        question = self._question
        if question.wants in {"nodes", "yes_no", "property"} and question.near is None:
            nodes = await find_nodes(self._store, self._graph, key)
            match question.wants:
                case "nodes":
                    return plain_nodes(nodes)
                case "property":
                    return "\n".join([await self._property(node, question.property or "", is_one=len(nodes) == 1) for node in nodes])
                case _:
                    return await self._has(nodes)
        node = await self._node(key)
        if question.near is None:
            return "\n".join(_texts(await self._edges(node))) or f"{node.key} is not connected to anything."
        return await self._between(node, await self._node(question.near.node), question.near)

    async def _property(self, node: Node, name: str, *, is_one: bool) -> str:
        """Return a property, or else the nodes that have its name as a label: 'what ingredients does it have'."""
        value = value_of(node, name)
        if value is not None:
            return shown(value) if is_one else f"{node.label} {node.key}: {shown(value)}"
        labels = {name.casefold(), name.casefold().removesuffix("s"), f"{name.casefold().removesuffix('ies')}y"}
        ends = {end.key for end in _other_ends(node, await self._edges(node)) if end.label.casefold() in labels}
        return ", ".join(sorted(ends)) or _no_property(node, name)

    async def _has(self, nodes: Sequence[Node]) -> str:
        """Answer whether nodes have a label and meet conditions. If no property decides it, report that, and the edges."""
        question = self._question
        fitting = [node for node in nodes if question.label in {None, node.label} and fits(node, question.where)]
        known = "; ".join(map(_described, fitting or nodes))
        others = await self._all()
        words = [str(one.value) for one in question.where if one.property is None and one.test == "equal"]
        if question.label is not None and question.label not in {node.label for node in others}:
            words.append(question.label)
        if fitting or not words:
            return f"{'Yes' if fitting else 'No'}. {known}."
        edges = [edge for node in nodes for edge in await self._edges(node)]
        if question.label is None:
            named = [edge for edge in edges if any(_names(edge, word) for word in words)]
            if named:
                return f"The graph says: {'; '.join(_texts(named))}."
            names = {name for node in others for name, value in node.properties.items() if any(is_equal(value, word) for word in words)}
            if any({*names, *_STATES} & {*node.properties} or value_of(node, word) is not None for node in nodes for word in words):
                return f"No. {known}."
        return "\n".join([f"The graph does not say whether it is {' and '.join(words)}. It says: {known}.", *_texts(edges)])

    async def _between(self, node: Node, other: Node, near: Near) -> str:
        edges = [edge for edge in await self._edges(node) if {edge.start, edge.end} == {node.ref, other.ref}]
        if self._question.wants != "yes_no":
            return "\n".join(_texts(edges)) or await self._indirect(node, other)
        wanted = [edge for edge in await self._edges(other, near) if edge in edges]
        if wanted:
            return f"Yes. {'; '.join(_texts(wanted))}"
        there = f"There is: {'; '.join(_texts(edges))}" if edges else ""
        if near.relationship is None:
            return await self._indirect(node, other, no="No. ")
        if near.relationship not in _PART_OF and not await self._store.edges(self._graph, relationship=near.relationship, limit=1):
            return f"The graph has no edges {near.relationship}, so I cannot say. {there or await self._indirect(node, other)}"
        return f"No. {there}".strip()

    async def _indirect(self, node: Node, other: Node, *, no: str = "") -> str:
        """Return the shortest path between two nodes that have no edge between them."""
        edges = await self._store.edges(self._graph, limit=MAX_NODES)
        paths: dict[NodeRef, list[Edge]] = {node.ref: []}
        reached = [node.ref]
        for ref in reached:
            for edge in edges:
                end = edge.end if edge.start == ref else edge.start if edge.end == ref else ref
                if end not in paths:
                    paths[end] = [*paths[ref], edge]
                    reached.append(end)
        both = f"{node.key} and {other.key}"
        if other.ref in paths:
            return "\n".join([f"{both} are not connected directly, but by others:", *_texts(paths[other.ref])])
        return f"{both} are not connected directly." if len(edges) >= MAX_NODES else f"{no}{both} are not connected to each other."

    # About many nodes.

    async def about_many(self) -> JsonValue:
        question = self._question
        if question.wants == "count" and question.near is None and not question.where and (counted := await self._count()):
            return counted
        nodes = await self._near_nodes()
        if not nodes and (instead := await self._instead()) is not None:
            return instead
        if why := undecided(nodes, question.where):
            raise ToolInputInvalid(why)
        fitting = await self._fitting(nodes)
        if why := await self._edges_instead(nodes):
            return why
        if not fitting:
            why, is_sure = await self._why_none(nodes)
            return {"count": f"0. {why}", "yes_no": f"No. {why}"}.get(question.wants, why) if is_sure else why
        match question.wants:
            case "count":
                return len(fitting)
            case "yes_no":
                more = ", ..." if len(fitting) > _MAX_LISTED else ""
                return f"Yes. {', '.join(node.key for node in fitting[:_MAX_LISTED])}{more}."
            case "names":
                return {"columns": ["name"], "rows": [[key] for key in dict.fromkeys(node.key for node in fitting)], "more": False}
            case "highest" | "lowest" | "sum" | "average":
                return _figure(fitting, question)
            case _:
                return plain_nodes(fitting)

    async def _count(self) -> int:
        label = "" if self._question.label is None else f":`{self._question.label}`"
        try:
            rows = await self._store.query(self._graph, f"MATCH (n{label}) RETURN count(n) AS `count`", {})
        except NotInGraph:
            return 0
        return int(cast("int", rows.rows[0][0])) if rows.rows else 0

    async def _near_nodes(self) -> Sequence[Node]:
        """Return the nodes of the label that are connected to the given node."""
        label, near = self._question.label, self._question.near
        if near is None:
            nodes = await self._store.nodes(self._graph, label=label, limit=MAX_NODES)
            if len(nodes) >= MAX_NODES:
                raise ToolInputInvalid(f"The graph has more than {MAX_NODES:,} such nodes. Ask in Cypher: MATCH (n) WHERE ... RETURN ...")
            return nodes
        node = await self._node(near.node)
        found: list[Node] = []
        for ref in sorted(set(_other_ends(node, await self._edges(node, near)))):
            if label in {None, ref.label}:
                found += await self._store.nodes(self._graph, label=ref.label, key=ref.key, limit=1)
        return found

    async def _fitting(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes that meet all conditions. A label that no node has may be a name: 'show hermes'."""
        question = self._question
        fitting = [node for node in nodes if fits(node, question.where)]
        for one in question.where:
            if one.test == "unconnected":
                edges = await self._store.edges(self._graph, relationship=check_name(str(one.value), "relationship"), limit=MAX_NODES)
                if len(edges) >= MAX_NODES:
                    raise ToolInputInvalid(f"There are more than {MAX_NODES:,} edges {one.value}. Ask in Cypher.")
                fitting = [node for node in fitting if not any(node.ref in {edge.start, edge.end} for edge in edges)]
        if not fitting and question.wants == "nodes" and question.label is not None and question.near is None and not question.where:
            fitting = [node for node in await self._all() if node.key.casefold() in _forms(question.label)]
        return fitting

    async def _edges_instead(self, nodes: Sequence[Node]) -> str:
        """Return relationships that a word may mean that is the value of no property: 'blocked' tasks may be at edges BLOCKS."""
        words = [str(one.value) for one in self._question.where if one.property is None and one.test != "unconnected"]
        unknown = [word for word in words if not any(fits(node, [Condition(value=word)]) for node in nodes)]
        edges = await self._store.edges(self._graph, limit=MAX_NODES) if unknown else ()
        stems = {_stem(word) for word in unknown}
        found = sorted({edge.relationship for edge in edges if stems & {*map(_stem, edge.relationship.split("_"))}})
        return f"No property says what is '{unknown[0]}', but there are edges {', '.join(found)}: ask for one of these." if found else ""

    async def _instead(self) -> JsonValue:
        """Answer about a label that is a property or a relationship of the graph; None if it is neither.

        The hours of 'how many hours does Backend take' are a property, the members of 'the members of Core' are at edges MEMBER_OF.
        """
        label, near = self._question.label, self._question.near
        if near is None or label is None:
            return None
        node = await self._node(near.node)
        alike = [node, *await self._store.nodes(self._graph, label=node.label, limit=MAX_NODES)]
        for name in (name for one in alike for name in one.properties if name.casefold() in _forms(label)):
            value = value_of(node, name)
            return _no_property(node, name) if value is None else f"{shown(value)} ({name} of {node.label} {node.key})"
        member = Near(node=node.key, relationship=f"{label}_OF".upper(), direction="to")
        friend = Near(node=node.key, relationship=f"{label}S_WITH".upper())
        ends = [end.key for one in (member, friend) for end in _other_ends(node, await self._edges(node, one))]
        if ends:
            return len(ends) if self._question.wants == "count" else ", ".join(ends)
        others = await self._store.nodes(self._graph, label=label, limit=MAX_NODES)
        having = [
            f"{one.key} ({name}: {node.key})" for one in others for name, value in one.properties.items() if is_equal(value, node.key)
        ]
        return f"No {label} is connected to {node.label} {node.key}, but by a property: {', '.join(having)}." if having else None

    async def _why_none(self, nodes: Sequence[Node]) -> tuple[str, bool]:
        """Return what was not found, and whether that is certain.

        It is not certain for a label that no node has: the children may be at edges MOTHER_OF, the hammers may be one Item.
        """
        question, near = self._question, self._question.near
        what = question.label or "node"
        if near is not None and not nodes:
            return await self._why_not_near(near, what)
        if not nodes:
            return _no_label(question.label, await self._all())
        names = {name for node in nodes for name in node.properties}
        for one in question.where:
            if one.property is not None and one.property.casefold() not in {name.casefold() for name in names}:
                return f"No {what} has a property '{one.property}'.{did_you_mean(closest(one.property, names))}", False
        is_known = all(one.property is not None or one.test != "equal" for one in question.where)
        return f"No {what} {in_words(question.where)}.", is_known or question.wants == "yes_no"

    async def _why_not_near(self, near: Near, what: str) -> tuple[str, bool]:
        node = await self._node(near.node)
        name = (near.relationship or "").removesuffix("_OF").casefold()
        value = value_of(node, name) if near.relationship == f"{name}_of".upper() else None
        if value is not None:
            return f"{shown(value)} ({name} of {node.label} {node.key})", False
        edges = await self._edges(node)
        there = f"{node.key} has: {'; '.join(_texts(edges[:_MAX_EDGES]))}."
        if edges and self._question.label is not None and what not in {one.label for one in await self._all()}:
            return f"No node has the label {what}, so I cannot say. {there}", False
        is_used = near.relationship in {edge.relationship for edge in edges}
        by = f" by {near.relationship}" if near.relationship else ""
        only = f" {there}" if edges and not is_used else ""
        has = f" It has: {_properties(node)[2:-1]}." if node.properties and near.relationship else ""
        return f"No {what} is connected to {node.label} {node.key}{by}.{only}{has}", not edges or is_used

    # Reading.

    async def _node(self, text: str) -> Node:
        return await find_node(self._store, self._graph, text)

    async def _all(self) -> Sequence[Node]:
        return await self._store.nodes(self._graph, limit=MAX_NODES)

    async def _edges(self, node: Node, near: Near | None = None) -> list[Edge]:
        """Return the edges of a node with the relationship and direction of `near`; all of them without it."""
        near, found = near or Near(node=node.key), list[Edge]()
        is_part = near.relationship in _PART_OF
        for relationship in _PART_OF if is_part else (near.relationship,):
            if near.direction in {"from", "any"}:
                found += await self._store.edges(self._graph, start=node.ref, relationship=relationship, limit=MAX_NODES)
            if near.direction in {"to", "any"}:
                found += await self._store.edges(self._graph, end=node.ref, relationship=relationship, limit=MAX_NODES)
        if is_part and near.direction != "any":
            opposite = await self._edges(node, Near(node=near.node, direction="from" if near.direction == "to" else "to"))
            found += [edge for edge in opposite if edge.relationship.startswith(_WHOLE)]
        if len(found) >= MAX_NODES:
            raise ToolInputInvalid(f"'{node.key}' has more than {MAX_NODES:,} edges. Ask in Cypher: MATCH (n)--(m) WHERE ... RETURN ...")
        return list({edge.ref: edge for edge in found}.values())


def _no_label(label: str | None, known: Sequence[Node]) -> tuple[str, bool]:
    """Say that no node has a label. If it is the name of a node or property, the answer is not certain."""
    if not known or label is None:
        return "The graph is empty.", True
    there = [_described(node) for node in known if node.key.casefold() in _forms(label)]
    if there:
        return f"No node has the label {label}, but there is {', '.join(there)}.", False
    for node in known:
        for name in node.properties:
            if name.casefold() in _forms(label):
                return (
                    f"'{name}' is a property of {node.label} nodes, not a node. Ask for the total {name} of them, or of one of them.",
                    False,
                )
    labels = list(dict.fromkeys(node.label for node in known))
    near = did_you_mean(closest(label, labels)) or f" There are: {', '.join(labels)}."
    return f"No node has the label {label}.{near}", True


def _figure(nodes: Sequence[Node], question: Question) -> str:
    """Compare or add up the values of a property."""
    name = question.property or ""
    values = [(node, value_of(node, name)) for node in nodes]
    texts = [f"{node.key}: {shown(value)}" for node, value in values if value is not None and number_of(value) is None]
    if texts:
        return f"I cannot say: not every '{name}' is a number ({', '.join(texts[:_MAX_EDGES])})."
    known = [(node, number) for node, value in values if (number := number_of(value)) is not None]
    if not known:
        return f"No {question.label or 'node'} has a number for '{name}'."
    left_out = f" ({len(nodes) - len(known)} of {len(nodes)} without a number for '{name}')" if len(known) < len(nodes) else ""
    numbers = [number for _, number in known]
    if question.wants in {"sum", "average"}:
        return f"{_number(sum(numbers) / (len(numbers) if question.wants == 'average' else 1))}{left_out}"
    best = max(numbers) if question.wants == "highest" else min(numbers)
    return f"{', '.join(node.key for node, number in known if number == best)} ({name}: {_number(best)}){left_out}"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < _EXACT else f"{value:.10g}"


def _no_property(node: Node, name: str) -> str:
    has = f"It has: {', '.join(node.properties)}." if node.properties else "It has no properties."
    return f"{node.label} {node.key} has no '{name}'.{did_you_mean(closest(name, node.properties))} {has}"


def _names(edge: Edge, word: str) -> bool:
    """Return whether a word is part of a relationship, or the name of a node at its end: 'borrowed', 'fiction'."""
    return word.casefold() in {*edge.relationship.casefold().split("_"), edge.start.key.casefold(), edge.end.key.casefold()}


def _forms(label: str) -> set[str]:
    return {label.casefold(), f"{label}s".casefold()}


def _stem(word: str) -> str:
    return re.sub(r"(?:e?d|e?s|ing|e)$", "", word.casefold())


def _described(node: Node) -> str:
    return f"{node.label} {node.key}{_properties(node)}"


def _properties(node: Node) -> str:
    return f" ({', '.join(f'{name}: {shown(value)}' for name, value in node.properties.items())})" if node.properties else ""


def _other_ends(node: Node, edges: Sequence[Edge]) -> list[NodeRef]:
    return [edge.end if edge.start == node.ref else edge.start for edge in edges]


def _texts(edges: Sequence[Edge]) -> list[str]:
    return [str(edge.ref) for edge in edges]
