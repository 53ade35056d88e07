"""How a Bolt server stores properties, and the nodes, edges and paths of its results as plain data."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import JsonValue

from interlock_agents.puntini.graph_store import Edge, Node, NodeRef, to_json
from interlock_agents.puntini.graphs.tables import KEPT, KEY, column_type

__all__ = ["condition", "edge_of", "node_of", "plain", "stored", "unresolved_nodes"]

_OWN = {KEY, KEPT}
_INT64 = 2**63


def stored(properties: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return properties as the server can store them: a value of another type as JSON text, and once more in `interlock_kept`."""
    kept = {name: value for name, value in properties.items() if name in _OWN or not _is_storable(value)}
    found = {name: value if _is_storable(value) else to_json(value) for name, value in properties.items() if name not in _OWN}
    return {**found, KEPT: to_json(kept)} if kept else found


def condition(place: str, parameter: str, name: str, value: JsonValue) -> tuple[str, JsonValue]:
    """Return a condition that is true at least if a property has a value, and its parameter."""
    if name in _OWN:
        return "true", None
    if value is None:
        return f"{place} IS NULL", None
    return f"{place} = {parameter}", value if _is_storable(value) else to_json(value)


def node_of(label: str, key: str, properties: Mapping[str, Any]) -> Node:
    """Return the node that the server stores like this."""
    return Node(label=label, key=key, properties=_read(properties))


def edge_of(start: tuple[str, str], name: str, end: tuple[str, str], properties: Mapping[str, Any]) -> Edge:
    """Return the edge that the server stores like this."""
    ends = [NodeRef(label=label, key=key) for label, key in (start, end)]
    return Edge(start=ends[0], end=ends[1], relationship=name, properties=_read(properties))


def unresolved_nodes(value: Any) -> Iterator[str]:
    """Yield the ids of nodes at the ends of edges of which the server has returned nothing else."""
    from neo4j.graph import Path, Relationship  # noqa: PLC0415 - an extra

    if isinstance(value, Relationship):
        yield from (node.element_id for node in value.nodes if node is not None and not node.labels)
    elif isinstance(value, Path | dict | list | tuple):
        parts = cast("Any", value)
        for item in parts.relationships if isinstance(value, Path) else parts.values() if isinstance(value, dict) else parts:
            yield from unresolved_nodes(item)


def plain(value: Any, known: Mapping[str, tuple[str, str]]) -> JsonValue:
    """Convert a value to JSON data: nodes, edges and paths are objects, times are texts. `known` has the labels and keys of nodes by id."""
    from neo4j.graph import Node as Found  # noqa: PLC0415 - an extra
    from neo4j.graph import Path, Relationship  # noqa: PLC0415

    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -_INT64 <= value < _INT64 else str(value)
        case float():
            return value if math.isfinite(value) else None
        case Found():
            return {**_end(value, known), "properties": _read(dict(value.items()))}
        case Relationship():
            start, end = (_end(node, known) for node in value.nodes)
            return {"start": start, "relationship": value.type, "end": end, "properties": _read(dict(value.items()))}
        case Path():
            return {"nodes": [plain(node, known) for node in value.nodes], "edges": [plain(edge, known) for edge in value.relationships]}
        case dict():
            return {str(name): plain(item, known) for name, item in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [plain(item, known) for item in cast("list[Any]", value)]
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case _:
            return value.iso_format() if hasattr(value, "iso_format") else str(value)


def _end(node: Any, known: Mapping[str, tuple[str, str]]) -> dict[str, JsonValue]:
    if node is None:
        return {"label": None, "key": None}
    label, key = known.get(node.element_id) or (next(iter(sorted(node.labels)), None), node.get(KEY))
    return {"label": label, "key": plain(key, {})}


def _read(properties: Mapping[str, Any]) -> dict[str, JsonValue]:
    found = {name: plain(value, {}) for name, value in properties.items() if name not in _OWN and value is not None}
    kept: dict[str, JsonValue] = json.loads(properties[KEPT]) if isinstance(properties.get(KEPT), str) else {}
    return found | {name: value for name, value in kept.items() if name in _OWN or found.get(name) == to_json(value)}


def _is_storable(value: JsonValue) -> bool:
    """Return whether the server stores a value as it is: a text, number or boolean, or a list of one of these types."""
    return isinstance(value, str) or column_type(value) != "STRING"
