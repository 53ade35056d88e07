"""How nodes and edges are stored in ladybug's tables: one table for each label and relationship, one typed column for each property.

The type of a column follows from its values: text, integer, float, boolean, or a list of one of these. A value that a column cannot
represent (an object, a mixed list, a number among texts, a property whose name differs from another one only in case) is also stored
as JSON in the column `interlock_kept`. The JSON counts only as long as it agrees with the typed column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import JsonValue

from interlock_agents.puntini.graph_store import is_same, to_json

__all__ = ["KEPT", "KEY", "OLD", "OWN", "Column", "Ends", "Table", "Tables", "column_type", "quoted", "widened"]

KEY, KEPT = "key", "interlock_kept"
OWN, OLD = "interlock_", "interlock_old_"
"""The prefixes of all columns that are not properties, and of columns whose type was changed."""

_INT64 = 2**63
_MAX_NAMES = 30  # labels or relationships in a message
_MAX_COLUMNS = 256  # of a table; further properties are stored in `interlock_kept`
Ends = tuple[str, str]
"""The tables of the nodes that edges start and end at."""


@dataclass(frozen=True)
class Column:
    """The column of a property and the type of its values."""

    name: str
    type: str


@dataclass
class Table:
    """A table of nodes or edges. `label` is the label of its nodes or the relationship of its edges; `old` counts retired columns."""

    name: str
    label: str
    is_edges: bool
    columns: dict[str, Column] = field(default_factory=dict[str, Column])
    ends: set[Ends] = field(default_factory=set[Ends])
    old: int = 0

    def add_column(self, name: str, type_: str) -> None:
        """Record a column of the database."""
        if name.startswith(OLD):
            self.old += 1
        elif name not in {KEY, KEPT}:
            self.columns[name.lower()] = Column(name, type_)

    def column(self, name: str) -> Column | None:
        """Return the column of a property, if it has one."""
        found = self.columns.get(name.lower())
        return found if found is not None and found.name == name else None

    def missing(self, all_properties: Iterable[Mapping[str, JsonValue]]) -> dict[str, str]:
        """Return the columns, each with its type, that have to be created or widened before these properties can be stored."""
        wanted: dict[str, str] = {}
        lower: dict[str, str] = {}
        for properties in all_properties:
            for name, value in properties.items():
                if not self._can_store(name) or lower.setdefault(name.lower(), name) != name:
                    continue
                column = self.column(name)
                wanted[name] = widened(wanted.get(name) or (column.type if column else None), value)
        return {name: type_ for name, type_ in wanted.items() if self.column(name) != Column(name, type_)}

    def _can_store(self, name: str) -> bool:
        if name.lower() == KEY or name.lower().startswith(("_", OWN)):
            return False
        return self.column(name) is not None or (name.lower() not in self.columns and len(self.columns) < _MAX_COLUMNS)

    def row(self, properties: Mapping[str, JsonValue], columns: Iterable[Column]) -> dict[str, JsonValue]:
        """Return the values of these columns as `c0`, `c1` ..., and as `kept` the JSON of what they cannot represent."""
        kept: dict[str, JsonValue] = {}
        for name, value in properties.items():
            column = self.column(name)
            is_exact = column is not None and (column_type(value) == column.type or (value == [] and column.type.endswith("[]")))
            if not is_exact or (column is not None and column.type == "STRING" and not isinstance(value, str)):
                kept[name] = value
        row: dict[str, JsonValue] = {"kept": to_json(kept) if kept else None}
        for number, column in enumerate(columns):
            value = properties.get(column.name)
            row[f"c{number}"] = None if value is None else _converted(value, column.type)
        return row

    def properties(self, row: Mapping[str, Any]) -> dict[str, JsonValue]:
        """Return the properties of a row as they were stored."""
        found: dict[str, JsonValue] = {
            column.name: row[column.name] for column in self.columns.values() if row.get(column.name) is not None
        }
        for name, value in cast("dict[str, JsonValue]", json.loads(row[KEPT]) if row.get(KEPT) else {}).items():
            column = self.column(name)
            if column is None or (name in found and is_same(found[name], _converted(value, column.type))):
                found[name] = value
        return found


@dataclass
class Tables:
    """The tables of a file, by label and by relationship."""

    nodes: dict[str, Table] = field(default_factory=dict[str, Table])
    edges: dict[str, Table] = field(default_factory=dict[str, Table])

    def all(self) -> Iterator[Table]:
        """Yield all tables."""
        yield from self.nodes.values()
        yield from self.edges.values()

    def named(self, name: str) -> Table:
        """Return the table with this name in the database."""
        return next(table for table in self.all() if table.name == name)

    def summary(self) -> str:
        """Return the labels and relationships in words."""
        if not self.nodes:
            return "The graph is empty."
        labels, relationships = (", ".join(sorted(some)[:_MAX_NAMES]) for some in (self.nodes, self.edges))
        return f"Its labels are: {labels}." + (f" Its relationships are: {relationships}." if relationships else "")

    def ends(self, start: str, end: str) -> Ends | None:
        """Return the tables of two labels, if both exist."""
        tables = self.nodes.get(start), self.nodes.get(end)
        return (tables[0].name, tables[1].name) if tables[0] and tables[1] else None

    def labels(self, ends: Ends) -> tuple[str, str]:
        """Return the labels of two tables."""
        return self.named(ends[0]).label, self.named(ends[1]).label

    def add(self, label: str, *, is_edges: bool, name: str = "") -> Table:
        """Add a table. A new one gets a name that is free: ladybug compares the names of all tables without case."""
        taken, number = {table.name.lower() for table in self.all()}, 1
        while not name or (name.lower() in taken):
            name, number = label if number == 1 else f"{label}_{number}", number + 1
        table = Table(name=name, label=label, is_edges=is_edges)
        (self.edges if is_edges else self.nodes)[label] = table
        return table


def column_type(value: JsonValue) -> str:
    """Return the type of a column for a value."""
    if isinstance(value, bool):
        return "BOOL"
    if isinstance(value, int):
        return "INT64" if -_INT64 <= value < _INT64 else "STRING"
    if isinstance(value, float):
        return "DOUBLE"
    if isinstance(value, list):
        types = {column_type(item) if isinstance(item, (bool, int, float, str)) else "" for item in value} or {"STRING"}
        only_texts = types == {"STRING"} and all(isinstance(item, str) for item in value)
        return f"{types.pop()}[]" if len(types) == 1 and (only_texts or not types & {"", "STRING"}) else "STRING"
    return "STRING"


def widened(type_: str | None, value: JsonValue) -> str:
    """Return the type of a column that can also store a value."""
    new = column_type(value)
    if type_ is None or type_ == new:
        return new
    if value == [] and type_.endswith("[]"):
        return type_
    return "DOUBLE" if {type_, new} == {"INT64", "DOUBLE"} else "STRING"


def quoted(name: str) -> str:
    """Quote a name that was checked, or that comes from the database."""
    return f"`{name.replace('`', '')}`"


def _converted(value: JsonValue, type_: str) -> JsonValue:
    if type_ == "STRING":
        return value if isinstance(value, str) else to_json(value)
    return float(value) if type_ == "DOUBLE" and isinstance(value, int) else value
