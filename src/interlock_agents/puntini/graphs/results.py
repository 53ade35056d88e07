"""The rows of a ladybug query as plain data: nodes, edges and paths as objects with their properties as they were stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import JsonValue

from interlock_agents.puntini.graphs.process import Statement
from interlock_agents.puntini.graphs.statements import Read, batches
from interlock_agents.puntini.graphs.tables import KEPT, KEY, OWN, Table, Tables, quoted

__all__ = ["plain_rows"]

_Place = tuple[int, int]
"""The table and the offset of an element."""


def plain_rows(rows: list[list[Any]], tables: Tables, read: Read) -> tuple[tuple[JsonValue, ...], ...]:
    """Convert rows. The nodes and edges in them are read once more, with one statement for each table."""
    offsets: dict[str, set[int]] = defaultdict(set)
    for element in _elements(rows):
        offsets[element["_LABEL"]].add(element["_ID"]["offset"])
    known: dict[_Place, JsonValue] = {}
    for name, found in offsets.items():
        table = tables.named(name)
        for some in batches(sorted(found)):
            (read_rows,) = read([_reading(table, list(some))])
            known.update((_place(row[0]), _element(table, row, tables)) for row in read_rows)
    return tuple(tuple(_plain(value, known) for value in row) for row in rows)


def _is_element(value: Mapping[str, Any]) -> bool:
    identity = value.get("_ID")
    return isinstance(identity, dict) and "_LABEL" in value and set(cast("dict[str, Any]", identity)) == {"offset", "table"}


def _elements(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and _is_element(cast("dict[str, Any]", value)):
        yield cast("dict[str, Any]", value)
    elif isinstance(value, list | dict):
        for item in cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value):
            yield from _elements(item)


def _reading(table: Table, offsets: list[int]) -> Statement:
    name = quoted(table.name)
    if not table.is_edges:
        return f"MATCH (n:{name}) WHERE offset(id(n)) IN $places RETURN id(n), n", {"places": offsets}
    edge = f"MATCH (a)-[e:{name}]->(b) WHERE offset(id(e)) IN $places RETURN id(e), e, label(a), a.{KEY}, label(b), b.{KEY}"
    return edge, {"places": offsets}


def _element(table: Table, row: list[Any], tables: Tables) -> JsonValue:
    if not table.is_edges:
        return {"label": table.label, "key": row[1][KEY], "properties": table.properties(row[1])}
    _, edge, start, start_key, end, end_key = row
    return {
        "start": {"label": tables.named(start).label, "key": start_key},
        "relationship": table.label,
        "end": {"label": tables.named(end).label, "key": end_key},
        "properties": table.properties(edge),
    }


def _plain(value: Any, known: Mapping[_Place, JsonValue]) -> JsonValue:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        # keys(n) lists the columns that are not properties too.
        items = [item for item in items if not (isinstance(item, str) and item.startswith(OWN))] if KEPT in items else items
        return [_plain(item, known) for item in items]
    if not isinstance(value, dict):
        return value
    found = cast("dict[str, Any]", value)
    if _is_element(found):
        return known.get(_place(found["_ID"]))
    if set(found) == {"_NODES", "_RELS"}:
        return {"nodes": _plain(found["_NODES"], known), "edges": _plain(found["_RELS"], known)}
    if set(found) == {"offset", "table"}:
        return f"{found['table']}:{found['offset']}"
    if KEPT in found:  # properties(n) has all columns
        found = {name: item for name, item in found.items() if item is not None and not name.startswith(OWN)}
    return {name: _plain(item, known) for name, item in found.items()}


def _place(identity: Mapping[str, int]) -> _Place:
    return identity["table"], identity["offset"]
