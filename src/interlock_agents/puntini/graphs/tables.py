"""How nodes and edges are kept in ladybug's tables: a table per label and relationship, a column per property, of one type.

Types of columns follow from what is put in: a text, a whole number, a fraction, true or false, or a list of one of these. What fits no
column as it is (an object, a mixed list, a number among texts, a name that differs from another's in upper and lower case only) is also
in the column `interlock_kept`, as JSON, and counts for as long as the column beside it says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import JsonValue

from interlock_agents.puntini.graph_store import Changed
from interlock_agents.puntini.graphs.steps import is_same, kept, read

__all__ = ["KEPT", "KEY", "OLD", "OURS", "Column", "Ends", "Table", "Tables", "kind_of", "merged", "quoted"]

KEY, KEPT = "key", "interlock_kept"
OLD = "interlock_old_"
OURS = "interlock_"
_INT64 = 2**63
_NAMED = 30  # labels, or relationships, in a message
_MOST = 256  # columns of a table; further properties are kept beside them
Ends = tuple[str, str]
"""The tables of the nodes that edges go from and to."""


@dataclass(frozen=True)
class Column:
    """A property's column and the type of its values."""

    name: str
    kind: str


@dataclass
class Table:
    """A table of nodes, or of edges: what it is called, whose it is, and which columns it has."""

    name: str
    says: str
    is_edges: bool
    columns: dict[str, Column] = field(default_factory=dict[str, Column])
    ends: set[Ends] = field(default_factory=set[Ends])
    old: int = 0

    def learn(self, name: str, kind: str) -> None:
        """Take note of a column."""
        if name.startswith(OLD):
            self.old += 1
        elif name not in {KEY, KEPT}:
            self.columns[name.lower()] = Column(name, kind)

    def column(self, name: str) -> Column | None:
        """Return the column of a property, if it has one."""
        found = self.columns.get(name.lower())
        return found if found is not None and found.name == name else None

    def takes(self, name: str) -> bool:
        """Tell whether there can be a column for a property."""
        if name.lower() == KEY or name.lower().startswith(("_", OURS)):
            return False
        return self.column(name) is not None or (name.lower() not in self.columns and len(self.columns) < _MOST)

    def missing(self, all_properties: Iterable[Mapping[str, JsonValue]]) -> dict[str, str]:
        """Tell which columns have to be there, and with which type, for these properties, and are not."""
        wanted: dict[str, str] = {}
        lower: dict[str, str] = {}
        for properties in all_properties:
            for name, value in properties.items():
                if not self.takes(name) or lower.setdefault(name.lower(), name) != name:
                    continue
                have = self.column(name)
                before = wanted.get(name) or (have.kind if have else None)
                wanted[name] = merged(before, value)
        return {name: kind for name, kind in wanted.items() if self.column(name) != Column(name, kind)}

    def row(self, properties: Mapping[str, JsonValue], columns: Iterable[Column]) -> dict[str, JsonValue]:
        """Write properties as the values of these columns, and what they do not hold as it is beside them."""
        beside: dict[str, JsonValue] = {}
        for name, value in properties.items():
            column = self.column(name)
            if column is None or not _fits(value, column.kind):
                beside[name] = value
        row: dict[str, JsonValue] = {"beside": kept(beside) if beside else None}
        for number, column in enumerate(columns):
            value = properties.get(column.name)
            row[f"c{number}"] = None if value is None else _written(value, column.kind)
        return row

    def properties(self, row: Mapping[str, Any]) -> dict[str, JsonValue]:
        """Read properties from a row, as they were put in."""
        found: dict[str, JsonValue] = {
            column.name: row[column.name] for column in self.columns.values() if row.get(column.name) is not None
        }
        beside = cast("dict[str, JsonValue]", read(row[KEPT])) if row.get(KEPT) else {}
        for name, value in beside.items():
            column = self.column(name)
            if column is None or (name in found and is_same(found[name], _written(value, column.kind))):
                found[name] = value
        return found


@dataclass
class Tables:
    """The tables of a file, by the label or relationship whose they are."""

    nodes: dict[str, Table] = field(default_factory=dict[str, Table])
    edges: dict[str, Table] = field(default_factory=dict[str, Table])

    def named(self, name: str) -> Table:
        """Return a table by the name that ladybug has for it."""
        return next(table for table in self._all() if table.name == name)

    def named_so(self) -> str:
        """Say which labels and relationships there are."""
        if not self.nodes:
            return "The graph is empty."
        labels, relationships = (", ".join(sorted(some)[:_NAMED]) for some in (self.nodes, self.edges))
        return f"Its labels are: {labels}." + (f" Its relationships are: {relationships}." if relationships else "")

    def ends(self, start: str, end: str) -> Ends | None:
        """Return the tables of two labels, if both have one."""
        tables = self.nodes.get(start), self.nodes.get(end)
        return (tables[0].name, tables[1].name) if tables[0] and tables[1] else None

    def labels(self, ends: Ends) -> tuple[str, str]:
        """Return the labels of two tables."""
        return self.named(ends[0]).says, self.named(ends[1]).says

    def take(self, changed: Changed) -> bool:
        """Tell whether all that a step adds has its table, and that its columns."""
        for node in changed.nodes_added:
            table = self.nodes.get(node.label)
            if table is None or table.missing([node.properties]):
                return False
        for edge in changed.edges_added:
            table = self.edges.get(edge.relationship)
            if table is None or table.missing([edge.properties]) or self.ends(edge.start.label, edge.end.label) not in table.ends:
                return False
        return True

    def add(self, says: str, *, is_edges: bool) -> Table:
        """Make a table, by a name that is free: ladybug has one for labels and relationships, in upper or lower case."""
        taken = {table.name.lower() for table in self._all()}
        name, number = says, 1
        while name.lower() in taken:
            number += 1
            name = f"{says}_{number}"
        table = Table(name=name, says=says, is_edges=is_edges)
        (self.edges if is_edges else self.nodes)[says] = table
        return table

    def learn(self, name: str, says: str, *, is_edges: bool) -> Table:
        """Take note of a table that is there."""
        table = Table(name=name, says=says, is_edges=is_edges)
        (self.edges if is_edges else self.nodes)[says] = table
        return table

    def _all(self) -> Iterable[Table]:
        return (*self.nodes.values(), *self.edges.values())


def kind_of(value: JsonValue) -> str:
    """Return the type that a column for a value has."""
    if isinstance(value, bool):
        return "BOOL"
    if isinstance(value, int):
        return "INT64" if -_INT64 <= value < _INT64 else "STRING"
    if isinstance(value, float):
        return "DOUBLE"
    if isinstance(value, list):
        kinds = {kind_of(item) if isinstance(item, (bool, int, float, str)) else "" for item in value} or {"STRING"}
        texts_only = kinds == {"STRING"} and all(isinstance(item, str) for item in value)
        return f"{kinds.pop()}[]" if len(kinds) == 1 and (texts_only or not kinds & {"", "STRING"}) else "STRING"
    return "STRING"


def merged(kind: str | None, value: JsonValue) -> str:
    """Return the type of a column that also takes a value."""
    new = kind_of(value)
    if kind is None or kind == new:
        return new
    if value == [] and kind.endswith("[]"):
        return kind
    return "DOUBLE" if {kind, new} == {"INT64", "DOUBLE"} else "STRING"


def quoted(name: str) -> str:
    """Quote a name that was checked, or that the database has."""
    return f"`{name.replace('`', '')}`"


def _fits(value: JsonValue, kind: str) -> bool:
    """Tell whether a value comes back from a column as it was put in."""
    if kind == "STRING":
        return isinstance(value, str)
    return kind_of(value) == kind or (value == [] and kind.endswith("[]"))


def _written(value: JsonValue, kind: str) -> JsonValue:
    if kind == "STRING":
        return value if isinstance(value, str) else kept(value)
    if kind == "DOUBLE" and isinstance(value, int):
        return float(value)
    return value
