"""The rows of a query as they are shown to whoever asked: nodes, edges and paths as plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from pydantic import JsonValue

from interlock_agents.puntini.graphs.elements import batches
from interlock_agents.puntini.graphs.process import Asked
from interlock_agents.puntini.graphs.tables import KEPT, KEY, OURS, Table, Tables, quoted

__all__ = ["Shown"]

_Place = tuple[int, int]
Read = Callable[[Asked], Awaitable[list[list[list[Any]]]]]


class Shown:
    """Makes of what ladybug gives for nodes, edges and paths what they are: one read, of each table, for all of them."""

    def __init__(self, tables: Tables, read: Read) -> None:
        self._tables, self._read = tables, read
        self._asked: dict[str, set[int]] = defaultdict(set)
        self._known: dict[_Place, JsonValue] = {}

    async def rows(self, rows: list[list[Any]]) -> list[tuple[JsonValue, ...]]:
        """Show rows."""
        self._seek(rows)
        for name, offsets in self._asked.items():
            table = self._tables.named(name)
            for some in batches(sorted(offsets)):
                (found,) = await self._read(_elements(table, some))
                self._known.update((_place(row[0]), self._element(table, row)) for row in found)
        return [tuple(self._show(value) for value in row) for row in rows]

    def _element(self, table: Table, row: list[Any]) -> JsonValue:
        if not table.is_edges:
            return {"label": table.says, "key": row[1][KEY], "properties": table.properties(row[1])}
        _, edge, start, start_key, end, end_key = row
        return {
            "start": {"label": self._tables.named(start).says, "key": start_key},
            "relationship": table.says,
            "end": {"label": self._tables.named(end).says, "key": end_key},
            "properties": table.properties(edge),
        }

    def _seek(self, value: Any) -> None:
        if isinstance(value, list):
            for item in cast("list[Any]", value):
                self._seek(item)
        elif isinstance(value, dict):
            found = cast("dict[str, Any]", value)
            if _is_element(found):
                self._asked[found["_LABEL"]].add(found["_ID"]["offset"])
            else:
                self._seek(list(found.values()))

    def _show(self, value: Any) -> JsonValue:
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [self._show(item) for item in (_names(items) if KEPT in items else items)]
        if not isinstance(value, dict):
            return value
        found = cast("dict[str, Any]", value)
        if _is_element(found):
            return self._known.get(_place(found["_ID"]))
        if set(found) == {"_NODES", "_RELS"}:
            return {"nodes": self._show(found["_NODES"]), "edges": self._show(found["_RELS"])}
        if set(found) == {"offset", "table"}:
            return f"{found['table']}:{found['offset']}"
        if KEPT in found:  # all the columns of a node or an edge, by properties(n)
            found = {name: item for name, item in found.items() if item is not None and not name.startswith(OURS)}
        return {name: self._show(item) for name, item in found.items()}


def _names(items: list[Any]) -> list[Any]:
    """Leave out what stands among the names of properties for us alone."""
    return [item for item in items if not (isinstance(item, str) and item.startswith(OURS))]


def _elements(table: Table, offsets: list[int]) -> Asked:
    """Read nodes or edges by the places that they have in a table."""
    name = quoted(table.name)
    if not table.is_edges:
        return f"MATCH (n:{name}) WHERE offset(id(n)) IN $places RETURN id(n), n", {"places": offsets}
    edge = f"MATCH (a)-[e:{name}]->(b) WHERE offset(id(e)) IN $places RETURN id(e), e, label(a), a.{KEY}, label(b), b.{KEY}"
    return edge, {"places": offsets}


def _is_element(value: Mapping[str, Any]) -> bool:
    identity = value.get("_ID")
    return isinstance(identity, dict) and "_LABEL" in value and set(cast("dict[str, Any]", identity)) == {"offset", "table"}


def _place(identity: Mapping[str, int]) -> _Place:
    return identity["table"], identity["offset"]
