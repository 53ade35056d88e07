"""The calls of tools that a goal becomes, and the queries that answer questions.

A label, relationship or property that a graph never had is an error in some databases: `instead` is asked then, and finds nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic import JsonValue

from interlock.agents.puntini.words import Ref

__all__ = [
    "Call",
    "add_edge",
    "add_node",
    "count_all",
    "count_near",
    "delete_edge",
    "list_label",
    "list_near",
    "look",
    "related",
    "set_edge",
    "set_properties",
    "show_property",
]


@dataclass(frozen=True)
class Call:
    """A call of a tool, in a sentence what it does, and what to ask instead where the graph lacks a name that the query has."""

    tool: str
    args: dict[str, JsonValue]
    says: str
    instead: Call | None = None


def add_node(ref: Ref, properties: dict[str, JsonValue]) -> Call:
    """Add a node."""
    args: dict[str, JsonValue] = {"label": ref.label, "key": ref.key, "properties": {**properties}}
    having = f" with {', '.join(properties)}" if properties else ""
    return Call("add_node", args, f"add the {ref.said}{having}")


def add_edge(start: Ref, end: Ref, relationship: str) -> Call:
    """Add an edge."""
    args: dict[str, JsonValue] = {"from_node": str(start), "to_node": str(end), "relationship": relationship, "properties": {}}
    return Call("add_edge", args, f"connect {start.said} to {end.said} by {relationship}")


def delete_edge(start: Ref, end: Ref, relationship: str) -> Call:
    """Delete an edge."""
    edge: JsonValue = {"from_node": str(start), "to_node": str(end), "relationship": relationship}
    return Call("delete_edge", {"match": edge}, f"remove {relationship} from {start.said} to {end.said}")


def set_properties(ref: Ref, properties: dict[str, JsonValue]) -> Call:
    """Set properties of a node; None removes one."""
    says = ", ".join(
        f"remove {name} of {ref.said}" if value is None else f"set {name} of {ref.said} to {_shown(value)}"
        for name, value in properties.items()
    )
    return Call("update_props", {"target": str(ref), "properties": {**properties}}, says)


def look(ref: Ref) -> Call:
    """Show a node."""
    args: dict[str, JsonValue] = {"key": ref.key}
    return Call("query_graph", args if ref.label is None else {"label": ref.label, **args}, f"show {ref.said}")


def set_edge(start: Ref, end: Ref, relationship: str, properties: dict[str, JsonValue]) -> Call:
    """Set properties of an edge."""
    target: JsonValue = {"from_node": str(start), "to_node": str(end), "relationship": relationship}
    says = f"set {', '.join(properties)} of {relationship} from {start.said} to {end.said}"
    return Call("update_props", {"target": target, "properties": {**properties}}, says)


def list_label(label: str, properties: dict[str, JsonValue] | None = None) -> Call:
    """List the nodes of a label."""
    args: dict[str, JsonValue] = {"label": label, "properties": {**properties}} if properties else {"label": label}
    return Call("query_graph", args, f"list the nodes with the label {label}")


def count_all(label: str | None) -> Call:
    """Count the nodes of a label, or all."""
    query = f"MATCH (n{_typed(label)}) RETURN count(n) AS `count`"
    instead = None if label is None else list_label(label)
    return Call("cypher_query", {"query": query, "parameters": {}}, f"count the {label or 'graph'} nodes", instead)


def count_near(label: str, ref: Ref) -> Call:
    """Count the nodes of a label that a node is connected to; a node that is not there has no count."""
    query = (
        f"MATCH (n{_typed(ref.label)}) WHERE n.key = $key OPTIONAL MATCH (n)--(m{_typed(label)}) "
        "WITH n, count(DISTINCT m) AS `count` RETURN `count`"
    )
    return _ask(query, ref, f"count the {label} nodes next to {ref.said}", list_label(label))


def list_near(label: str, ref: Ref) -> Call:
    """List the nodes of a label that a node is connected to."""
    query = f"MATCH (n{_typed(label)})--(m{_typed(ref.label)}) WHERE m.key = $key RETURN DISTINCT n.key AS `name` ORDER BY `name`"
    return _ask(query, ref, f"list the {label} nodes next to {ref.said}", list_label(label))


def related(label: str | None, ref: Ref, *, arrow: str, relationship: str, is_counted: bool) -> Call:
    """Find or count the nodes that are at the other end of a relationship; the arrow is '->' to the node, '<-' from it, or '--'."""
    left, right = {"->": ("-", "->"), "<-": ("<-", "-"), "--": ("-", "-")}[arrow]
    what = "count(DISTINCT n) AS `count`" if is_counted else "DISTINCT n.key AS `name` ORDER BY `name`"
    query = f"MATCH (n{_typed(label)}){left}[:`{relationship}`]{right}(m{_typed(ref.label)}) WHERE m.key = $key RETURN {what}"
    nothing = f"MATCH (n) WHERE false RETURN {'count(n) AS `count`' if is_counted else 'n'}"
    instead = Call("cypher_query", {"query": nothing, "parameters": {}}, f"say that nothing in the graph is {relationship}")
    how = f"{relationship} leads to from {ref.said}" if arrow == "<-" else f"leads to {ref.said} by {relationship}"
    return _ask(query, ref, f"{'count' if is_counted else 'find'} what {how}", instead)


def show_property(name: str, ref: Ref) -> Call:
    """Find the value of a property."""
    query = f"MATCH (n{_typed(ref.label)}) WHERE n.key = $key RETURN n.`{name}` AS `{name}`"
    return _ask(query, ref, f"find {name} of {ref.said}", look(ref))


def _ask(query: str, ref: Ref, says: str, instead: Call) -> Call:
    return Call("cypher_query", {"query": query, "parameters": {"key": ref.key}}, says, instead)


def _shown(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _typed(label: str | None) -> str:
    return "" if label is None else f":`{label}`"
