"""Questions about a graph that need no Cypher: which nodes, how many, yes or no, what is connected.

A name that the graph does not have is an answer, with the names that could be meant; it is never mistaken for 'nothing'.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, cast

from pydantic import Field, JsonValue

from interlock.adapters.graphs.conditions import Arguments, Condition, Name, fits, in_words, is_equal, number_of, shown, value_of
from interlock.adapters.graphs.guard import check_name
from interlock.capabilities.graph_store import Edge, GraphStore, Node, NodeRef
from interlock.errors import MatchAmbiguous, NotInGraph, QueryDenied, ToolInputInvalid
from interlock.spelling import closest

__all__ = ["MAX_NODES", "Key", "Near", "Question", "ask", "find_node", "missing"]

MAX_NODES = 1000
"""How many nodes are looked at one by one; a question about more is for Cypher."""

_REF = re.compile(r"(?P<label>[^\W\d_]\w{0,63}):(?P<key>.+)", re.DOTALL)
_SHOWN = 100
_PART_OF = ("PART_OF", "BELONGS_TO", "IN", "CONTAINED_IN")
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
        return f"No. {error.message}" if question.wants == "yes_no" else error.message


def _names(question: Question) -> Iterable[tuple[str, str]]:
    near = question.near
    said = [(question.label, "label"), (question.property, "property"), (near and near.relationship, "relationship")]
    said += [(one.property, "property") for one in question.where]
    return [(name, kind) for name, kind in said if name is not None]


# Finding a node by its name.


async def find_node(store: GraphStore, graph: str, text: str) -> Node:
    """Find the node that is meant: by label and key, or by a key that only one node has; case counts only where it has to.

    Raises NotInGraph, with the names that could be meant, or MatchAmbiguous.
    """
    found = await _named(store, graph, text)
    if len(found) > 1:
        which = ", ".join(f"'{node.label}:{node.key}'" for node in found[:5])
        message = f"'{text[:_SHOWN]}' could be {which}. Say which, with its label."
        raise MatchAmbiguous(message, named=text, candidates=(f"{node.label}:{node.key}" for node in found[:5]))
    return found[0]


async def _named(store: GraphStore, graph: str, text: str) -> Sequence[Node]:
    said = _REF.fullmatch(text)
    label = said["label"] if said is not None and _is_label(said["label"]) else None
    key = said["key"] if said is not None and label is not None else text
    exact = (label is not None and await store.nodes(graph, label=label, key=key, limit=1)) or await store.nodes(graph, key=text, limit=6)
    if exact:
        return exact
    known = await store.nodes(graph, limit=MAX_NODES)
    # 'The Beatles' may have lost its article on the way.
    names = {key.casefold(), f"the {key}".casefold()}
    alike = [node for node in known if node.key.casefold() in names and (label is None or node.label.casefold() == label.casefold())]
    if not alike and label is None:
        # 'shelf s2' is the shelf S2, if there is one.
        first, _, rest = key.casefold().partition(" ")
        alike = [node for node in known if (node.label.casefold(), node.key.casefold()) == (first, rest)]
    if not alike:
        raise NotInGraph(missing(key, label, known))
    return alike


def missing(key: str, label: str | None, known: Sequence[Node]) -> str:
    """Say that there is no such node, and which could be meant."""
    of_label = [node for node in known if label is None or node.label == label]
    elsewhere = [node for node in known if node.key.casefold() == key.casefold()]
    names = closest(key, (node.key for node in of_label)) or [node.key for node in elsewhere[:3]]
    near = [node for node in (elsewhere or of_label) if node.key in names]
    what = f"There is no {label} '{key[:_SHOWN]}'" if label else f"There is no node '{key[:_SHOWN]}'"
    return f"{what} in the graph.{_did_you_mean([f'{node.label} {node.key}' for node in near[:3]])}"


def _did_you_mean(names: Sequence[str]) -> str:
    return f" Did you mean {' or '.join(f'{name!r}' for name in names)}?" if names else ""


def _is_label(text: str) -> bool:
    try:
        check_name(text, "label")
    except QueryDenied:
        return False
    return True


# About one node.


async def _about_one(store: GraphStore, graph: str, question: Question, key: str) -> JsonValue:
    if question.wants in {"nodes", "yes_no", "property"} and question.near is None:
        nodes = await _named(store, graph, key)
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
    ends = [edge.end if edge.start == _ref(node) else edge.start for edge in edges]
    labels = {name.casefold(), name.casefold().removesuffix("s"), f"{name.casefold().removesuffix('ies')}y"}
    return ", ".join(sorted({ref.key for ref in ends if ref.label.casefold() in labels}))


def _property(node: Node, name: str, *, is_one: bool) -> str:
    found = next((known for known in node.properties if known.casefold() == name.casefold()), None)
    if found is not None:
        return shown(node.properties[found]) if is_one else f"{node.label} {node.key}: {shown(node.properties[found])}"
    has = f"It has: {', '.join(node.properties)}." if node.properties else "It has no properties."
    near = _did_you_mean(closest(name, node.properties))
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
    if question.label is None and not any(_speaks_of(edge, str(word)) for edge in edges for word in words):
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
    ends = {_ref(node), _ref(other)}
    edges = [edge for edge in await _edges(store, graph, node, Near(node=node.key)) if {edge.start, edge.end} == ends]
    wanted = [edge for edge in edges if near.relationship in {None, edge.relationship} and _leads(edge, _ref(other), near.direction)]
    if near.relationship in _PART_OF and near.direction == "to":
        wanted += [edge for edge in edges if edge.start == _ref(other) and edge.relationship.startswith(_WHOLE)]
    if question.wants == "yes_no":
        said = "\n".join(map(_edge, wanted or edges))
        if not said and near.relationship is None:
            return f"No. {await _indirectly(store, graph, node, other)}"
        return f"{'Yes' if wanted else 'No'}.{' ' if wanted or not said else ' There is: '}{said}".strip()
    return "\n".join(map(_edge, edges)) or await _indirectly(store, graph, node, other)


async def _indirectly(store: GraphStore, graph: str, node: Node, other: Node) -> str:
    """Tell by which other nodes two are connected that have no edge between them."""
    edges = await store.edges(graph, limit=MAX_NODES)
    ways: dict[NodeRef, list[Edge]] = {_ref(node): []}
    reached = [_ref(node)]
    for ref in reached:
        for edge in edges:
            end = edge.end if edge.start == ref else edge.start if edge.end == ref else ref
            if end not in ways:
                ways[end] = [*ways[ref], edge]
                reached.append(end)
    both = f"{node.key} and {other.key}"
    if _ref(other) in ways:
        return f"{both} are not connected directly, but by others:\n" + "\n".join(map(_edge, ways[_ref(other)]))
    return f"{both} are not connected directly." if len(edges) >= MAX_NODES else f"{both} are not connected to each other."


# About many.


async def _about_many(store: GraphStore, graph: str, question: Question) -> JsonValue:
    if question.wants == "count" and question.near is None and not question.where:
        counted = await _count(store, graph, question.label)
        return counted or await _none_of(store, graph, question.label)
    nodes = await _nodes(store, graph, question)
    fitting = await _fitting(store, graph, question, nodes)
    if not nodes and (instead := await _instead(store, graph, question)) is not None:
        return instead
    if not fitting and question.wants != "count":
        why = await _why_none(store, graph, question, nodes)
        return f"No. {why}" if question.wants == "yes_no" else why
    match question.wants:
        case "count":
            why = "" if fitting else await _why_none(store, graph, question, nodes)
            is_known = all(one.property is not None or one.test != "equal" for one in question.where)
            return len(fitting) if not why else f"{len(fitting)}. {why}" if is_known else why
        case "yes_no":
            return f"Yes. {', '.join(node.key for node in fitting[:20])}{', ...' if len(fitting) > 20 else ''}."  # noqa: PLR2004 - a line
        case "names":
            return {"columns": ["name"], "rows": [[key] for key in dict.fromkeys(node.key for node in fitting)], "more": False}
        case "highest" | "lowest" | "sum" | "average":
            return _figure(fitting, question)
        case _:
            return _as_nodes(fitting)


async def _none_of(store: GraphStore, graph: str, label: str | None) -> str:
    """Say that no node has a label; what is the name of a property may be meant, and has no number of its own."""
    names = set[str]() if label is None else {label.casefold(), f"{label}s".casefold()}
    having = [
        (node.label, name) for node in await store.nodes(graph, limit=MAX_NODES) for name in node.properties if name.casefold() in names
    ]
    if not having:
        return f"0. {await _no_such_label(store, graph, label)}"
    of, name = having[0]
    return f"'{name}' is a property of {of} nodes, and no node of its own. Ask for the total {name} of them, or of one of them."


async def _fitting(store: GraphStore, graph: str, question: Question, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that meet all conditions; a label that no node has may be a name: 'show hermes'."""
    fitting = [node for node in nodes if fits(node, question.where)]
    for one in question.where:
        if one.test == "unconnected":
            ends = await _connected(store, graph, str(one.value))
            fitting = [node for node in fitting if _ref(node) not in ends]
    if not fitting and question.wants == "nodes" and question.label is not None and question.near is None and not question.where:
        names = {question.label.casefold(), f"{question.label}s".casefold()}
        fitting = [node for node in await store.nodes(graph, limit=MAX_NODES) if node.key.casefold() in names]
    return fitting


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
    said = Near(node=question.near.node, relationship=f"{question.label}_OF".upper(), direction="to")
    ends = [edge.start.key for edge in await _edges(store, graph, node, said)]
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
    ends = {edge.end if edge.start == _ref(node) else edge.start for edge in edges}
    known: dict[NodeRef, Node] = {}
    for ref in sorted(ends, key=lambda ref: (ref.label, ref.key)):
        if question.label in {None, ref.label}:
            known |= {_ref(found): found for found in await store.nodes(graph, label=ref.label, key=ref.key, limit=1)}
    return list(known.values())


async def _edges(store: GraphStore, graph: str, node: Node, near: Near) -> list[Edge]:
    """Return the edges of a node that lead the way that is asked for."""
    ref, found = _ref(node), list[Edge]()
    if near.direction in {"from", "any"}:
        found += await store.edges(graph, start=ref, relationship=near.relationship, limit=MAX_NODES)
    if near.direction in {"to", "any"}:
        found += await store.edges(graph, end=ref, relationship=near.relationship, limit=MAX_NODES)
    if len(found) >= MAX_NODES:
        raise ToolInputInvalid(f"'{node.key}' has more than {MAX_NODES:,} edges. Ask in Cypher: MATCH (n)--(m) WHERE ... RETURN ...")
    return list({(edge.start, edge.relationship, edge.end): edge for edge in found}.values())


async def _connected(store: GraphStore, graph: str, relationship: str) -> set[NodeRef]:
    edges = await store.edges(graph, relationship=check_name(relationship, "relationship"), limit=MAX_NODES)
    if len(edges) >= MAX_NODES:
        raise ToolInputInvalid(f"There are more than {MAX_NODES:,} edges {relationship}. Ask in Cypher.")
    return {ref for edge in edges for ref in (edge.start, edge.end)}


async def _why_none(store: GraphStore, graph: str, question: Question, nodes: Sequence[Node]) -> str:
    """Say what exactly was looked for and not found."""
    near = question.near
    what = question.label or "node"
    if near is not None and not nodes:
        node = await find_node(store, graph, near.node)
        name = (near.relationship or "").removesuffix("_OF").casefold()
        if near.relationship == f"{name}_of".upper() and (value := value_of(node, name)) is not None:
            return f"{shown(value)} ({name} of {node.label} {node.key})"
        kinds = sorted({edge.relationship for edge in await _edges(store, graph, node, Near(node=near.node))})
        by = f" by {near.relationship}" if near.relationship else ""
        has = f" {node.key} has only {', '.join(kinds)}." if kinds and near.relationship and near.relationship not in kinds else ""
        return f"No {what} is connected to {node.label} {node.key}{by}.{has}"
    if not nodes:
        return await _no_such_label(store, graph, question.label)
    for one in question.where:
        names = {name for node in nodes for name in node.properties}
        if one.property is not None and one.test != "missing" and one.property.casefold() not in {name.casefold() for name in names}:
            return f"No {what} has a property '{one.property}'.{_did_you_mean(closest(one.property, names))}"
    return f"No {what} {in_words(question.where)}."


async def _no_such_label(store: GraphStore, graph: str, label: str | None) -> str:
    labels = list(dict.fromkeys(node.label for node in await store.nodes(graph, limit=MAX_NODES)))
    if not labels or label is None:
        return "The graph is empty."
    near = _did_you_mean(closest(label, labels))
    return f"No node has the label {label}.{near or ' There are: ' + ', '.join(labels) + '.'}"


def _figure(nodes: Sequence[Node], question: Question) -> str:
    """Compare or add up the values of a property."""
    name = question.property or ""
    values = [(node, number_of(value_of(node, name))) for node in nodes]
    known = [(node, value) for node, value in values if value is not None]
    left_out = f" ({len(nodes) - len(known)} of {len(nodes)} without a number for '{name}')" if len(known) < len(nodes) else ""
    if not known:
        return f"No {question.label or 'node'} has a number for '{name}'."
    numbers = [value for _, value in known]
    if question.wants in {"sum", "average"}:
        total = sum(numbers) / (len(numbers) if question.wants == "average" else 1)
        return f"{_plain(total)}{left_out}"
    best = max(numbers) if question.wants == "highest" else min(numbers)
    return f"{', '.join(node.key for node, value in known if value == best)} ({name}: {_plain(best)}){left_out}"


def _plain(value: float) -> str:
    return f"{value:.10g}"


def _properties(node: Node) -> str:
    return f" ({', '.join(f'{name}: {shown(value)}' for name, value in node.properties.items())})" if node.properties else ""


def _as_nodes(nodes: Sequence[Node]) -> JsonValue:
    return cast("JsonValue", {"nodes": [dataclasses.asdict(node) for node in nodes], "more": False})


def _ref(node: Node) -> NodeRef:
    return NodeRef(label=node.label, key=node.key)


def _leads(edge: Edge, other: NodeRef, direction: str) -> bool:
    return direction == "any" or (edge.end == other if direction == "to" else edge.start == other)


def _edge(edge: Edge) -> str:
    return f"{edge.start.key} -[{edge.relationship}]-> {edge.end.key}"
