"""What a server that speaks Bolt keeps of a property, and what it gives for nodes, edges and paths."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any, cast

from pydantic import JsonValue

from interlock_agents.puntini.graph_store import Edge, Node, NodeRef
from interlock_agents.puntini.graphs.steps import kept, read
from interlock_agents.puntini.graphs.tables import KEPT, KEY, kind_of

__all__ = ["KEPT", "KEY", "edge_of", "node_of", "shown", "sought", "stored", "unresolved"]

_OURS = {KEY, KEPT}
_INT64 = 2**63


def stored(properties: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Write properties as the server can keep them."""
    beside = {name: value for name, value in properties.items() if name in _OURS or not _is_plain(value)}
    found = {name: value if _is_plain(value) else kept(value) for name, value in properties.items() if name not in _OURS}
    return {**found, KEPT: kept(beside)} if beside else found


def sought(place: str, parameter: str, name: str, value: JsonValue) -> tuple[str, JsonValue]:
    """Return a condition that holds at least where a property has a value, and the parameter for it."""
    if name in _OURS:
        return "true", None
    if value is None:
        return f"{place} IS NULL", None
    return f"{place} = {parameter}", value if _is_plain(value) else kept(value)


def node_of(label: str, key: str, properties: Mapping[str, Any]) -> Node:
    """Make a node of what the server has of it."""
    return Node(label=label, key=key, properties=_read(properties))


def edge_of(start: tuple[str, str], name: str, end: tuple[str, str], properties: Mapping[str, Any]) -> Edge:
    """Make an edge of what the server has of it."""
    ends = [NodeRef(label=label, key=key) for label, key in (start, end)]
    return Edge(start=ends[0], end=ends[1], relationship=name, properties=_read(properties))


def unresolved(rows: list[Any]) -> set[str]:
    """Find the nodes that edges in a result lead to, of which the server has said no more than who they are."""
    from neo4j.graph import Path, Relationship  # noqa: PLC0415 - an extra

    found: set[str] = set()

    def seek(value: Any) -> None:
        if isinstance(value, Relationship):
            found.update(node.element_id for node in value.nodes if node is not None and not node.labels)
        elif isinstance(value, Path):
            seek(list(value.relationships))
        elif isinstance(value, dict):
            seek(list(cast("dict[str, Any]", value).values()))
        elif isinstance(value, (list, tuple)):
            for item in cast("list[Any]", value):
                seek(item)

    seek(rows)
    return found


def shown(value: Any, known: Mapping[str, tuple[str, str]]) -> JsonValue:
    """Make JSON data of a value: a node, an edge and a path are objects, a time is a text."""
    from neo4j.graph import Node as Found  # noqa: PLC0415 - an extra
    from neo4j.graph import Path, Relationship  # noqa: PLC0415

    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Found):
        return {**_end(value, known), "properties": _read(dict(value.items()))}
    if isinstance(value, Relationship):
        start, end = (_end(node, known) for node in value.nodes)
        return {"start": start, "relationship": value.type, "end": end, "properties": _read(dict(value.items()))}
    if isinstance(value, Path):
        return {"nodes": [shown(node, known) for node in value.nodes], "edges": [shown(edge, known) for edge in value.relationships]}
    if isinstance(value, dict):
        return {str(name): shown(item, known) for name, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [shown(item, known) for item in cast("list[Any]", value)]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return value.iso_format() if hasattr(value, "iso_format") else str(value)


def _end(node: Any, known: Mapping[str, tuple[str, str]]) -> dict[str, JsonValue]:
    if node is None:
        return {"label": None, "key": None}
    label, key = known.get(node.element_id) or (next(iter(sorted(node.labels)), None), node.get(KEY))
    return {"label": label, "key": shown(key, {})}


def _read(properties: Mapping[str, Any]) -> dict[str, JsonValue]:
    found = {name: shown(value, {}) for name, value in properties.items() if name not in _OURS and value is not None}
    beside = cast("dict[str, JsonValue]", read(properties[KEPT])) if isinstance(properties.get(KEPT), str) else {}
    for name, value in beside.items():
        if name in _OURS or found.get(name) == kept(value):
            found[name] = value
    return found


def _is_plain(value: JsonValue) -> bool:
    """Tell whether the server keeps a value as it is: a text, a number, true or false, or a list of one kind of these."""
    return isinstance(value, str) or kind_of(value) != "STRING"
