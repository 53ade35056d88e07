"""Questions about a graph that need no Cypher: which nodes, how many, yes or no, what is connected.

A name that the graph does not have is an answer, with the names that could be meant; it is never mistaken for 'nothing'.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
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
from interlock_agents.puntini.graphs.steps import node_ref

__all__ = ["Key", "Near", "Question", "ask"]

_SHOWN_EDGES, _EXACT = 10, 1e15
_PART_OF = ("PART_OF", "BELONGS_TO", "IN", "CONTAINED_IN", "MEMBER_OF")
_WHOLE = ("HAS_", "CONTAINS", "INCLUDES")
"""Relationships that say the same from the other end."""
_STATES = ("status", "state")
"""Properties that say of a node how it is: what is not their value is not so."""
Key = Annotated[str, Field(min_length=1, max_length=500)]


class Near(Arguments):
    """Nodes that are connected to this one, by any relationship in any direction unless said otherwise.

    `to` is an edge from what is looked for to this node, `from` an edge from this node.
    """

    node: Key
    relationship: Name | None = None
    direction: Literal["to", "from", "any"] = "any"


class Question(Arguments):
    """What is asked: about the node `key`, or about all nodes of a label."""

    label: Name | None = None
    key: Key | None = None
    where: list[Condition] = Field(default_factory=list[Condition])
    near: Near | None = None
    wants: Literal["nodes", "names", "count", "yes_no", "connections", "property", "highest", "lowest", "sum", "average"] = "nodes"
    property: Name | None = None


async def ask(store: GraphStore, graph: str, question: Question) -> JsonValue:
    """Answer a question: nodes, rows, or a sentence."""
    for name, kind in _names(question):
        check_name(name, kind)
    try:
        if question.key is not None:
            return await _about_one(store, graph, question, question.key)
        return await _about_many(store, graph, question)
    except NotInGraph as error:
        # Whether what is not there is 'done' or 'gone' is not known.
        return f"No. {error.message}" if question.wants == "yes_no" and not question.where else error.message


def _names(question: Question) -> Iterable[tuple[str, str]]:
    near = question.near
    said = [(question.label, "label"), (question.property, "property"), (near and near.relationship, "relationship")]
    said += [(one.property, "property") for one in question.where]
    return [(name, kind) for name, kind in said if name is not None]


# About one node.


async def _about_one(store: GraphStore, graph: str, question: Question, key: str) -> JsonValue:
    if question.wants in {"nodes", "yes_no", "property"} and question.near is None:
        nodes = await find_nodes(store, graph, key)
        match question.wants:
            case "nodes":
                return _as_nodes(nodes)
            case "property":
                is_one, name = len(nodes) == 1, question.property or ""
                return "\n".join([await _named_of(store, graph, node, name) or _property(node, name, is_one=is_one) for node in nodes])
            case _:
                return await _is_so(store, graph, nodes, question)
    node = await find_node(store, graph, key)
    if question.near is None:
        edges = await _edges(store, graph, node, Near(node=key))
        return "\n".join(map(_edge, edges)) or f"{node.key} is not connected to anything."
    other = await find_node(store, graph, question.near.node)
    return await _between(store, graph, node, other, question)


async def _named_of(store: GraphStore, graph: str, node: Node, name: str) -> str:
    """List the nodes of a label that a node is connected to, where it is asked for as a property: 'what ingredients does it have'."""
    if value_of(node, name) is not None:
        return ""
    edges = await _edges(store, graph, node, Near(node=node.key))
    ends = [edge.end if edge.start == node_ref(node) else edge.start for edge in edges]
    labels = {name.casefold(), name.casefold().removesuffix("s"), f"{name.casefold().removesuffix('ies')}y"}
    return ", ".join(sorted({ref.key for ref in ends if ref.label.casefold() in labels}))


def _property(node: Node, name: str, *, is_one: bool) -> str:
    found = next((known for known in node.properties if known.casefold() == name.casefold()), None)
    if found is not None:
        return shown(node.properties[found]) if is_one else f"{node.label} {node.key}: {shown(node.properties[found])}"
    has = f"It has: {', '.join(node.properties)}." if node.properties else "It has no properties."
    near = did_you_mean(closest(name, node.properties))
    return f"{node.label} {node.key} has no '{name}'.{near} {has}"


async def _is_so(store: GraphStore, graph: str, nodes: Sequence[Node], question: Question) -> str:
    """Answer yes or no. A word that is the value of no property that the node has is neither: then its edges are told as well."""
    fitting = [node for node in nodes if question.label in {None, node.label} and fits(node, question.where)]
    known = "; ".join(f"{node.label} {node.key}{_properties(node)}" for node in (fitting or nodes))
    others = await store.nodes(graph, limit=MAX_NODES)
    words = [one.value for one in question.where if one.property is None and one.test == "equal"]
    if question.label is not None and question.label not in {node.label for node in others}:
        words.append(question.label)
    if fitting or not words:
        return f"{'Yes' if fitting else 'No'}. {known}."
    edges = [edge for node in nodes for edge in await _edges(store, graph, node, Near(node=node.key))]
    spoken = [edge for edge in edges if any(_speaks_of(edge, str(word)) for word in words)]
    if question.label is None and spoken:
        return f"The graph says: {'; '.join(map(_edge, spoken))}."
    if question.label is None:
        names = {name for node in others for name, value in node.properties.items() if any(is_equal(value, word) for word in words)}
        if any({*names, *_STATES} & {*node.properties} or value_of(node, str(word)) is not None for node in nodes for word in words):
            return f"No. {known}."
    said = f"The graph does not say whether it is {' and '.join(map(shown, words))}. It says: {known}."
    return "\n".join([said, *map(_edge, edges)])


def _speaks_of(edge: Edge, word: str) -> bool:
    """Tell whether a word is a part of a relationship, or the name of a node at its end: 'borrowed', 'fiction'."""
    return word.casefold() in {*edge.relationship.casefold().split("_"), edge.start.key.casefold(), edge.end.key.casefold()}


async def _between(store: GraphStore, graph: str, node: Node, other: Node, question: Question) -> str:
    near = question.near or Near(node=other.key)
    ends = {node_ref(node), node_ref(other)}
    edges = [edge for edge in await _edges(store, graph, node, Near(node=node.key)) if {edge.start, edge.end} == ends]
    wanted = [edge for edge in await _edges(store, graph, other, near) if edge in edges]
    if question.wants != "yes_no":
        return "\n".join(map(_edge, edges)) or await _indirectly(store, graph, node, other)
    if wanted:
        return f"Yes. {'; '.join(map(_edge, wanted))}"
    there = f"There is: {'; '.join(map(_edge, edges))}" if edges else ""
    if near.relationship is None:
        return await _indirectly(store, graph, node, other, no="No. ")
    if near.relationship not in _PART_OF and not await store.edges(graph, relationship=near.relationship, limit=1):
        there = there or await _indirectly(store, graph, node, other)
        return f"The graph has no edges {near.relationship}, so I cannot say. {there}"
    return f"No. {there}".strip()


async def _indirectly(store: GraphStore, graph: str, node: Node, other: Node, *, no: str = "") -> str:
    """Tell by which other nodes two are connected that have no edge between them."""
    edges = await store.edges(graph, limit=MAX_NODES)
    ways: dict[NodeRef, list[Edge]] = {node_ref(node): []}
    reached = [node_ref(node)]
    for ref in reached:
        for edge in edges:
            end = edge.end if edge.start == ref else edge.start if edge.end == ref else ref
            if end not in ways:
                ways[end] = [*ways[ref], edge]
                reached.append(end)
    both = f"{node.key} and {other.key}"
    if node_ref(other) in ways:
        return f"{both} are not connected directly, but by others:\n" + "\n".join(map(_edge, ways[node_ref(other)]))
    return f"{both} are not connected directly." if len(edges) >= MAX_NODES else f"{no}{both} are not connected to each other."


# About many.


async def _about_many(store: GraphStore, graph: str, question: Question) -> JsonValue:
    is_plain = question.wants == "count" and question.near is None and not question.where
    if is_plain and (counted := await _count(store, graph, question.label)):
        return counted
    nodes = await _nodes(store, graph, question)
    if not nodes and (instead := await _instead(store, graph, question)) is not None:
        return instead
    if why := undecided(nodes, question.where):
        raise ToolInputInvalid(why)
    fitting = await _fitting(store, graph, question, nodes)
    if why := await _said_by_edges(store, graph, question, nodes):
        return why
    if not fitting:
        why, is_sure = await _why_none(store, graph, question, nodes)
        return {"count": f"0. {why}", "yes_no": f"No. {why}"}.get(question.wants, why) if is_sure else why
    match question.wants:
        case "count":
            return len(fitting)
        case "yes_no":
            return f"Yes. {', '.join(node.key for node in fitting[:20])}{', ...' if len(fitting) > 20 else ''}."  # noqa: PLR2004 - a line
        case "names":
            return {"columns": ["name"], "rows": [[key] for key in dict.fromkeys(node.key for node in fitting)], "more": False}
        case "highest" | "lowest" | "sum" | "average":
            return _figure(fitting, question)
        case _:
            return _as_nodes(fitting)


async def _fitting(store: GraphStore, graph: str, question: Question, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that meet all conditions; a label that no node has may be a name: 'show hermes'."""
    fitting = [node for node in nodes if fits(node, question.where)]
    for one in question.where:
        if one.test == "unconnected":
            ends = await _connected(store, graph, str(one.value))
            fitting = [node for node in fitting if node_ref(node) not in ends]
    if not fitting and question.wants == "nodes" and question.label is not None and question.near is None and not question.where:
        names = {question.label.casefold(), f"{question.label}s".casefold()}
        fitting = [node for node in await store.nodes(graph, limit=MAX_NODES) if node.key.casefold() in names]
    return fitting


async def _said_by_edges(store: GraphStore, graph: str, question: Question, nodes: Sequence[Node]) -> str:
    """Say which relationships a word may mean that is the value of no property: the tasks that are 'blocked' may be at edges BLOCKS."""
    words = [str(one.value) for one in question.where if one.property is None and one.test != "unconnected"]
    unknown = [word for word in words if not any(fits(node, [Condition(value=word)]) for node in nodes)]
    if not unknown:
        return ""
    kinds = sorted({edge.relationship for edge in await store.edges(graph, limit=MAX_NODES)})
    said = [kind for kind in kinds for word in unknown if {_stem(word)} & {*map(_stem, kind.split("_"))}]
    return f"No property says what is '{unknown[0]}', but there are edges {', '.join(said)}: ask for one of these." if said else ""


def _stem(word: str) -> str:
    return re.sub(r"(?:e?d|e?s|ing|e)$", "", word.casefold())


async def _instead(store: GraphStore, graph: str, question: Question) -> JsonValue:
    """Answer about what is no node but a property or a relationship; None where it is neither.

    The hours of 'how many hours does Backend take' are a property, the members of 'the members of Core' are at an edge MEMBER_OF.
    """
    if question.near is None or question.label is None:
        return None
    node = await find_node(store, graph, question.near.node)
    names = {question.label.casefold(), f"{question.label}s".casefold()}
    name = next((name for name in node.properties if name.casefold() in names), None)
    if name is not None:
        return f"{shown(node.properties[name])} ({name} of {node.label} {node.key})"
    elsewhere = {
        name for one in await store.nodes(graph, label=node.label, limit=MAX_NODES) for name in one.properties if name.casefold() in names
    }
    if elsewhere:
        return _property(node, min(elsewhere), is_one=True)
    ends = [
        (edge.end if edge.start == node_ref(node) else edge.start).key
        for near in (
            Near(node=node.key, relationship=f"{question.label}_OF".upper(), direction="to"),
            Near(node=node.key, relationship=f"{question.label}S_WITH".upper()),
        )
        for edge in await _edges(store, graph, node, near)
    ]
    if ends:
        return len(ends) if question.wants == "count" else ", ".join(ends)
    having = [
        f"{one.key} ({name}: {node.key})"
        for one in await store.nodes(graph, label=question.label, limit=MAX_NODES)
        for name, value in one.properties.items()
        if is_equal(value, node.key)
    ]
    return f"No {question.label} is connected to {node.label} {node.key}, but by a property: {', '.join(having)}." if having else None


async def _count(store: GraphStore, graph: str, label: str | None) -> int:
    query = f"MATCH (n{'' if label is None else f':`{label}`'}) RETURN count(n) AS `count`"
    try:
        rows = await store.query(graph, query, {})
    except NotInGraph:
        return 0
    return int(cast("int", rows.rows[0][0])) if rows.rows else 0


async def _nodes(store: GraphStore, graph: str, question: Question) -> Sequence[Node]:
    """Return the nodes of the label that are near the given one."""
    near = question.near
    if near is None:
        nodes = await store.nodes(graph, label=question.label, limit=MAX_NODES)
        if len(nodes) >= MAX_NODES:
            raise ToolInputInvalid(
                f"More than {MAX_NODES:,} nodes would have to be looked at. Ask in Cypher: MATCH (n) WHERE ... RETURN ..."
            )
        return nodes
    node = await find_node(store, graph, near.node)
    edges = await _edges(store, graph, node, near)
    ends = {edge.end if edge.start == node_ref(node) else edge.start for edge in edges}
    known: dict[NodeRef, Node] = {}
    for ref in sorted(ends, key=lambda ref: (ref.label, ref.key)):
        if question.label in {None, ref.label}:
            known |= {node_ref(found): found for found in await store.nodes(graph, label=ref.label, key=ref.key, limit=1)}
    return list(known.values())


async def _edges(store: GraphStore, graph: str, node: Node, near: Near) -> list[Edge]:
    """Return the edges of a node that lead the way that is asked for."""
    ref, found = node_ref(node), list[Edge]()
    for relationship in _PART_OF if near.relationship in _PART_OF else (near.relationship,):
        if near.direction in {"from", "any"}:
            found += await store.edges(graph, start=ref, relationship=relationship, limit=MAX_NODES)
        if near.direction in {"to", "any"}:
            found += await store.edges(graph, end=ref, relationship=relationship, limit=MAX_NODES)
    if near.relationship in _PART_OF and near.direction != "any":
        opposite = await _edges(store, graph, node, Near(node=near.node, direction="from" if near.direction == "to" else "to"))
        found += [edge for edge in opposite if edge.relationship.startswith(_WHOLE)]
    if len(found) >= MAX_NODES:
        raise ToolInputInvalid(f"'{node.key}' has more than {MAX_NODES:,} edges. Ask in Cypher: MATCH (n)--(m) WHERE ... RETURN ...")
    return list({(edge.start, edge.relationship, edge.end): edge for edge in found}.values())


async def _connected(store: GraphStore, graph: str, relationship: str) -> set[NodeRef]:
    edges = await store.edges(graph, relationship=check_name(relationship, "relationship"), limit=MAX_NODES)
    if len(edges) >= MAX_NODES:
        raise ToolInputInvalid(f"There are more than {MAX_NODES:,} edges {relationship}. Ask in Cypher.")
    return {ref for edge in edges for ref in (edge.start, edge.end)}


async def _why_none(store: GraphStore, graph: str, question: Question, nodes: Sequence[Node]) -> tuple[str, bool]:
    """Say what exactly was looked for and not found, and whether that means that there is none.

    A label that no node has does not: the children that are asked for may be at edges MOTHER_OF, the hammers may be one Item.
    """
    near = question.near
    what = question.label or "node"
    known = await store.nodes(graph, limit=MAX_NODES)
    is_label = question.label is None or question.label in {node.label for node in known}
    if near is not None and not nodes:
        node = await find_node(store, graph, near.node)
        name = (near.relationship or "").removesuffix("_OF").casefold()
        if near.relationship == f"{name}_of".upper() and (value := value_of(node, name)) is not None:
            return f"{shown(value)} ({name} of {node.label} {node.key})", False
        edges = await _edges(store, graph, node, Near(node=near.node))
        kinds = {edge.relationship for edge in edges}
        if edges and not is_label:
            return f"No node has the label {what}, so I cannot say. {node.key} has: {'; '.join(map(_edge, edges[:_SHOWN_EDGES]))}.", False
        by = f" by {near.relationship}" if near.relationship else ""
        only = f" {node.key} has: {'; '.join(map(_edge, edges[:_SHOWN_EDGES]))}." if edges and near.relationship not in kinds else ""
        has = f" It has: {_properties(node)[2:-1]}." if node.properties and near.relationship else ""
        return f"No {what} is connected to {node.label} {node.key}{by}.{only}{has}", not edges or near.relationship in kinds
    if not nodes:
        return _no_such_label(question.label, known)
    for one in question.where:
        names = {name for node in nodes for name in node.properties}
        if one.property is not None and one.property.casefold() not in {name.casefold() for name in names}:
            return f"No {what} has a property '{one.property}'.{did_you_mean(closest(one.property, names))}", False
    is_known = all(one.property is not None or one.test != "equal" for one in question.where)
    return f"No {what} {in_words(question.where)}.", is_known or question.wants == "yes_no"


def _no_such_label(label: str | None, known: Sequence[Node]) -> tuple[str, bool]:
    """Say that no node has a label. It may be the name of a node or of a property: then that does not mean that there is none."""
    if not known or label is None:
        return "The graph is empty.", True
    names = {label.casefold(), f"{label}s".casefold()}
    there = [f"{node.label} {node.key}{_properties(node)}" for node in known if node.key.casefold() in names]
    if there:
        return f"No node has the label {label}, but there is {', '.join(there)}.", False
    having = next(((node.label, name) for node in known for name in node.properties if name.casefold() in names), None)
    if having is not None:
        of, name = having
        return f"'{name}' is a property of {of} nodes, and no node of its own. Ask for the total {name} of them, or of one of them.", False
    labels = list(dict.fromkeys(node.label for node in known))
    near = did_you_mean(closest(label, labels)) or f" There are: {', '.join(labels)}."
    return f"No node has the label {label}.{near}", True


def _figure(nodes: Sequence[Node], question: Question) -> str:
    """Compare or add up the values of a property."""
    name = question.property or ""
    values = [(node, number_of(value_of(node, name))) for node in nodes]
    known = [(node, value) for node, value in values if value is not None]
    left_out = f" ({len(nodes) - len(known)} of {len(nodes)} without a number for '{name}')" if len(known) < len(nodes) else ""
    texts = [f"{node.key}: {shown(value_of(node, name))}" for node, value in values if value is None and value_of(node, name) is not None]
    if texts:
        return f"I cannot say: not every '{name}' is a number ({', '.join(texts[:_SHOWN_EDGES])})."
    if not known:
        return f"No {question.label or 'node'} has a number for '{name}'."
    numbers = [value for _, value in known]
    if question.wants in {"sum", "average"}:
        total = sum(numbers) / (len(numbers) if question.wants == "average" else 1)
        return f"{_plain(total)}{left_out}"
    best = max(numbers) if question.wants == "highest" else min(numbers)
    return f"{', '.join(node.key for node, value in known if value == best)} ({name}: {_plain(best)}){left_out}"


def _plain(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < _EXACT else f"{value:.10g}"


def _properties(node: Node) -> str:
    return f" ({', '.join(f'{name}: {shown(value)}' for name, value in node.properties.items())})" if node.properties else ""


def _as_nodes(nodes: Sequence[Node]) -> JsonValue:
    return cast("JsonValue", {"nodes": [dataclasses.asdict(node) for node in nodes], "more": False})


def _edge(edge: Edge) -> str:
    return f"{edge.start.key} -[{edge.relationship}]-> {edge.end.key}"
