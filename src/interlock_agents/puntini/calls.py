"""The calls of tools that a goal becomes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic import JsonValue

from interlock_agents.puntini.words import Ref

__all__ = ["Call", "Clause", "add_edge", "add_node", "delete_edge", "is_same", "set_edge", "set_properties"]


@dataclass(frozen=True)
class Call:
    """A call of a tool, in a sentence what it does, and what to ask instead where the graph lacks a name that the query has."""

    tool: str
    args: dict[str, JsonValue]
    says: str
    instead: Call | None = None


@dataclass(frozen=True)
class Clause:
    """What a clause asks for: the calls, the nodes that it speaks of and makes, and labels that a node is to have none of."""

    calls: tuple[Call, ...]
    about: tuple[Ref, ...] = ()
    made: tuple[Ref, ...] = ()
    without: tuple[tuple[str, str], ...] = ()


def is_same(one: JsonValue, other: JsonValue) -> bool:
    """Tell whether two values are the same, 1 and 1.0 and true not being so."""
    return type(one) is type(other) and one == other


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


def set_edge(start: Ref, end: Ref, relationship: str, properties: dict[str, JsonValue]) -> Call:
    """Set properties of an edge."""
    target: JsonValue = {"from_node": str(start), "to_node": str(end), "relationship": relationship}
    says = f"set {', '.join(properties)} of {relationship} from {start.said} to {end.said}"
    return Call("update_props", {"target": target, "properties": {**properties}}, says)


def _shown(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)
