"""The statements that read and write nodes and edges in ladybug's tables, and that create and widen the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import JsonValue

from interlock_agents.puntini.graph_store import Changed, Edge, Node, NodeRef, grouped
from interlock_agents.puntini.graphs.process import Statement
from interlock_agents.puntini.graphs.tables import KEPT, KEY, OLD, Column, Ends, Table, Tables, quoted

__all__ = ["Read", "Rows", "Target", "batches", "writing_statements"]

T = TypeVar("T")
Rows = list[list[list[Any]]]
"""The rows of each of several statements."""
Read = Callable[[Sequence[Statement]], Rows]
_Kind = tuple[str, str, str]
"""A label and two empty texts, or a relationship and the labels of the nodes that it connects."""
_BATCH = 5_000


def batches(items: Sequence[T]) -> list[Sequence[T]]:
    """Split a sequence into parts that one statement can take."""
    return [items[first : first + _BATCH] for first in range(0, len(items), _BATCH)]


@dataclass(frozen=True)
class Target:
    """A table of nodes, or a table of edges with the tables of the nodes at both ends."""

    table: Table
    ends: Ends | None
    labels: tuple[str, str]

    def element(self, row: Sequence[Any]) -> Node | Edge:
        """Return the node or edge of a row of `returned`."""
        table = self.table
        if self.ends is None:
            return Node(label=table.label, key=row[0], properties=table.properties(row[1]))
        start, end = (NodeRef(label=label, key=key) for label, key in zip(self.labels, (row[0], row[2]), strict=True))
        return Edge(start=start, end=end, relationship=table.label, properties=table.properties(row[1]))

    @property
    def returned(self) -> str:
        """The columns of a row."""
        return f"RETURN e.{KEY}, e" if self.ends is None else f"RETURN a.{KEY}, e, b.{KEY}"

    @property
    def pattern(self) -> str:
        """The pattern that matches all elements."""
        if self.ends is None:
            return f"(e:{quoted(self.table.name)})"
        return f"(a:{quoted(self.ends[0])})-[e:{quoted(self.table.name)}]->(b:{quoted(self.ends[1])})"

    def row(self, element: Node | Edge, columns: Iterable[Column] | None = None) -> dict[str, JsonValue]:
        """Return the parameters of an element: the keys that identify it as `a` and `b`, and the values of columns."""
        keys: dict[str, JsonValue] = {"a": element.key} if isinstance(element, Node) else {"a": element.start.key, "b": element.end.key}
        return keys if columns is None else {**keys, **self.table.row(element.properties, columns)}

    def each(self, rows: list[dict[str, JsonValue]], then: Callable[[str], str]) -> list[Statement]:
        """Match the element of each row, and do something with it."""
        return _for_each(rows, lambda at: f"{self._match(at)} {then(at)}")

    def _match(self, at: str) -> str:
        """Match an element. An edge is matched in two parts: in one part, ladybug reads all nodes for each row."""
        if self.ends is None:
            return f"MATCH (e:{quoted(self.table.name)} {{{KEY}: {at}a}})"
        start, end = map(quoted, self.ends)
        first = f"MATCH (a:{start} {{{KEY}: {at}a}}) WITH {_carried(at)}"
        return f"{first} MATCH (a)-[e:{quoted(self.table.name)}]->(b:{end}) WHERE b.{KEY} = {at}b"

    def create(self, elements: Sequence[Node | Edge]) -> list[Statement]:
        """Create elements."""
        names = {name for one in elements for name in one.properties}
        columns = [column for column in self.table.columns.values() if column.name in names]
        rows = [self.row(one, columns) for one in elements]

        def statement(at: str) -> str:
            values = ", ".join(f"{name}: {value}" for name, value in _values(columns, rows, at) if value != "NULL")
            if self.ends is None:
                return f"CREATE (:{quoted(self.table.name)} {{{KEY}: {at}a{', ' if values else ''}{values}}})"
            a, b = (f"({side}:{quoted(end)} {{{KEY}: {at}{side}}})" for side, end in zip("ab", self.ends, strict=True))
            return (
                f"MATCH {a} WITH {_carried(at)} MATCH {b} CREATE (a)-[:{quoted(self.table.name)} {f'{{{values}}}' if values else ''}]->(b)"
            )

        return _for_each(rows, statement)

    def set(self, elements: Sequence[Node | Edge]) -> list[Statement]:
        """Set all columns of existing elements."""
        columns = list(self.table.columns.values())
        rows = [self.row(one, columns) for one in elements]
        return self.each(rows, lambda at: "SET " + ", ".join(f"e.{name} = {value}" for name, value in _values(columns, rows, at)))


def _for_each(rows: list[dict[str, JsonValue]], statement: Callable[[str], str]) -> list[Statement]:
    """Run a statement for each row. One row becomes the parameters of the statement, which takes ladybug half the time."""
    if len(rows) == 1:
        return [(statement("$"), {name: value for name, value in rows[0].items() if value is not None})]
    return [(f"UNWIND $rows AS r {statement('r.')}", {"rows": list(some)}) for some in batches(rows)]


def _carried(at: str) -> str:
    """Carry the start of an edge to the next part of a statement, and the row if there are several."""
    return "a" if at == "$" else "a, r"


def _values(columns: Iterable[Column], rows: Sequence[dict[str, JsonValue]], at: str) -> list[tuple[str, str]]:
    """Return the columns with their values in a statement; a column that no row has a value for is NULL."""
    kinds = [(KEPT, "kept", "STRING"), *((quoted(column.name), f"c{number}", column.type) for number, column in enumerate(columns))]
    return [
        (name, f"CAST({at}{value} AS {type_})" if any(row[value] is not None for row in rows) else "NULL") for name, value, type_ in kinds
    ]


def writing_statements(changed: Changed, tables: Tables, read: Read) -> list[Statement]:
    """Return the statements that write a change, removals first, and record the tables and columns that they create."""
    found: list[Statement] = []
    for kind, some in [*_by_kind(changed.edges_removed).items(), *_by_kind(changed.nodes_removed).items()]:
        target = _target(kind, tables, [])
        found += target.each([target.row(one) for one in some], lambda _: "DELETE e")
    for added, updated in ((changed.nodes_added, changed.nodes_changed), (changed.edges_added, changed.edges_changed)):
        new, old = _by_kind(added), _by_kind(updated)
        existing = {table.name: _targets(table, tables) for table in tables.all()}
        targets = {kind: _target(kind, tables, found) for kind in dict.fromkeys([*new, *old])}
        for table in {target.table.name: target.table for target in targets.values()}.values():
            elements = [
                one for kind, target in targets.items() if target.table is table for one in (*new.get(kind, ()), *old.get(kind, ()))
            ]
            found += _widen(table, elements, existing.get(table.name, []), read)
        for kind, target in targets.items():
            found += target.create(new[kind]) if kind in new else []
            found += target.set(old[kind]) if kind in old else []
    return found


def _targets(table: Table, tables: Tables) -> list[Target]:
    return [Target(table, ends, tables.labels(ends)) for ends in table.ends] if table.is_edges else [Target(table, None, ("", ""))]


def _by_kind(elements: Sequence[Node | Edge]) -> dict[_Kind, list[Node | Edge]]:
    return grouped(
        ((one.label, "", "") if isinstance(one, Node) else (one.relationship, one.start.label, one.end.label), one) for one in elements
    )


def _target(kind: _Kind, tables: Tables, creating: list[Statement]) -> Target:
    """Return the table of a kind. If it does not exist yet, add the statements that create it."""
    label, start, end = kind
    ends = tables.ends(start, end)
    table = (tables.nodes if ends is None else tables.edges).get(label)
    between = "" if ends is None else f"FROM {quoted(ends[0])} TO {quoted(ends[1])}"
    if table is None:
        table = tables.add(label, is_edges=ends is not None)
        columns = between or f"{KEY} STRING PRIMARY KEY"
        creating.append((f"CREATE {'NODE' if ends is None else 'REL'} TABLE {quoted(table.name)}({columns}, {KEPT} STRING)", {}))
        if table.name != label:
            creating.append((f"COMMENT ON TABLE {quoted(table.name)} IS '{label}'", {}))
    elif ends is not None and ends not in table.ends:
        creating.append((f"ALTER TABLE {quoted(table.name)} ADD {between}", {}))
    if ends is not None:
        table.ends.add(ends)
    return Target(table, ends, (start, end))


def _widen(table: Table, elements: Sequence[Node | Edge], existing: Sequence[Target], read: Read) -> list[Statement]:
    """Create the columns that elements need. A column that needs another type is emptied, renamed, and created again.

    It is not dropped: after a column was dropped, ladybug 0.22 can crash while it plans a query of the table.
    """
    missing = table.missing(one.properties for one in elements)
    outgrown = [name for name in missing if table.column(name)]
    used = " OR ".join(f"e.{quoted(name)} IS NOT NULL" for name in outgrown)
    rows = read([(f"MATCH {target.pattern} WHERE {used} {target.returned}", {}) for target in existing]) if outgrown else []
    stored = [(target, [target.element(row) for row in some]) for target, some in zip(existing, rows, strict=False)]
    found: list[Statement] = []
    for name, type_ in missing.items():
        if name in outgrown:
            table.old += 1
            pattern = f"()-[e:{quoted(table.name)}]->()" if table.is_edges else f"(e:{quoted(table.name)})"
            found.append((f"MATCH {pattern} WHERE e.{quoted(name)} IS NOT NULL SET e.{quoted(name)} = NULL", {}))
            found.append((f"ALTER TABLE {quoted(table.name)} RENAME {quoted(name)} TO {OLD}{table.old}", {}))
        found.append((f"ALTER TABLE {quoted(table.name)} ADD {quoted(name)} {type_}", {}))
        table.add_column(name, type_)
    return [*found, *(statement for target, some in stored if some for statement in target.set(some))]
