"""The tool calls that a goal becomes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic import JsonValue

from interlock_agents.puntini.terms import Ref

__all__ = ["Call", "Clause", "add_edge", "add_node", "delete_edge", "set_properties"]


@dataclass(frozen=True)
class Call:
    """A tool call, its description, and a call to make instead if the graph does not have a name that the query uses."""

    tool: str
    args: dict[str, JsonValue]
    text: str
    instead: Call | None = None


@dataclass(frozen=True)
class Clause:
    """The calls of a clause, the nodes that it mentions and creates, and pairs of a node and a label that it must not have."""

    calls: tuple[Call, ...]
    mentioned: tuple[Ref, ...] = ()
    created: tuple[Ref, ...] = ()
    without: tuple[tuple[str, str], ...] = ()


def add_node(ref: Ref, properties: dict[str, JsonValue]) -> Call:
    """Add a node."""
    args: dict[str, JsonValue] = {"label": ref.label, "key": ref.key, "properties": {**properties}}
    having = f" with {', '.join(properties)}" if properties else ""
    return Call("add_node", args, f"add the {ref.text}{having}")


def add_edge(start: Ref, end: Ref, relationship: str) -> Call:
    """Add an edge."""
    text = f"connect {start.text} to {end.text} by {relationship}"
    return Call("add_edge", {**_edge(start, end, relationship), "properties": {}}, text)


def delete_edge(start: Ref, end: Ref, relationship: str) -> Call:
    """Delete an edge."""
    return Call("delete_edge", {"match": _edge(start, end, relationship)}, f"remove {relationship} from {start.text} to {end.text}")


def set_properties(target: Ref | tuple[Ref, Ref, str], properties: dict[str, JsonValue]) -> Call:
    """Set properties of a node, or of an edge given by its nodes and relationship. None removes a property; 'key' renames a node."""
    if isinstance(target, Ref):
        of, match = target.text, str(target)
    else:
        start, end, relationship = target
        of, match = f"{relationship} from {start.text} to {end.text}", _edge(start, end, relationship)
    text = ", ".join(_setting(name, value, of) for name, value in properties.items())
    return Call("update_props", {"target": match, "properties": {**properties}}, text)


def _setting(name: str, value: JsonValue, of: str) -> str:
    if name == "key":
        return f"rename {of} to '{value}'"
    return f"remove {name} of {of}" if value is None else f"set {name} of {of} to {value if isinstance(value, str) else json.dumps(value)}"


def _edge(start: Ref, end: Ref, relationship: str) -> dict[str, JsonValue]:
    return {"from_node": str(start), "to_node": str(end), "relationship": relationship}
