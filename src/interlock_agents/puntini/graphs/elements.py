"""Nodes and edges in ladybug's tables: how they are matched, and made of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pydantic import JsonValue

from interlock_agents.puntini.graph_store import Edge, Node, NodeRef
from interlock_agents.puntini.graphs.process import Asked
from interlock_agents.puntini.graphs.steps import grouped
from interlock_agents.puntini.graphs.tables import KEY, Ends, Table, quoted

__all__ = ["batches", "by_table", "carried", "edge_of", "for_each", "keyed", "matched", "node_of", "pattern"]

K = TypeVar("K")
T = TypeVar("T")
_BATCH = 5_000
_FEW = 3  # keys that are quicker asked for one by one


def node_of(table: Table, row: Sequence[Any]) -> Node:
    """Make a node of a row that has it alone."""
    return Node(label=table.says, key=row[0][KEY], properties=table.properties(row[0]))


def edge_of(table: Table, labels: tuple[str, str], row: Sequence[Any]) -> Edge:
    """Make an edge of a row: the key of its start, itself, the key of its end."""
    start, end = NodeRef(label=labels[0], key=row[0]), NodeRef(label=labels[1], key=row[2])
    return Edge(start=start, end=end, relationship=table.says, properties=table.properties(row[1]))


def for_each(rows: list[dict[str, JsonValue]], statement: Callable[[str], str], *, then: str = "") -> list[Asked]:
    """Do something for each of some rows. What makes the statement is handed what stands before the name of a value.

    For one row these are its parameters, those that are not None: ladybug takes half the time for that.
    """
    if len(rows) == 1:
        return [(f"{statement('$')} {then}", {name: value for name, value in rows[0].items() if value is not None})]
    return [(f"UNWIND $rows AS r {statement('r.')} {then}", {"rows": some}) for some in batches(rows)]


def keyed(table: Table, keys: list[str], *, name: str = "n", then: str = "RETURN n") -> list[Asked]:
    """Match the nodes that have one of these keys, each by the index."""
    if len(keys) <= _FEW:
        return [(f"MATCH {_at(name, table, '$key')} {then}", {"key": key}) for key in keys]
    return [(f"UNWIND $keys AS k MATCH {_at(name, table, 'k')} {then}", {"keys": some}) for some in batches(keys)]


def pattern(table: Table, ends: Ends) -> str:
    """Match edges between the nodes of two tables."""
    return f"(a:{quoted(ends[0])})-[e:{quoted(table.name)}]->(b:{quoted(ends[1])})"


def matched(table: Table, ends: Ends, at: str) -> str:
    """Match the edge of a row, in two parts: in one, ladybug reads all the nodes for each row."""
    start, end, name = quoted(ends[0]), quoted(ends[1]), quoted(table.name)
    return f"MATCH (a:{start} {{{KEY}: {at}a}}) WITH {carried('a', at)} MATCH (a)-[e:{name}]->(b:{end}) WHERE b.{KEY} = {at}b"


def carried(name: str, at: str) -> str:
    """Carry something to the next part of a statement, and the row with it where there are several."""
    return name if at == "$" else f"{name}, r"


def by_table(edges: Iterable[Edge]) -> dict[tuple[str, str, str], list[Edge]]:
    """Put edges together that are of the same relationship between the same labels."""
    return grouped(((edge.relationship, edge.start.label, edge.end.label), edge) for edge in edges)


def batches(items: list[T]) -> list[list[T]]:
    """Cut a list into parts that are not too long for one statement."""
    return [items[first : first + _BATCH] for first in range(0, len(items), _BATCH)]


def _at(name: str, table: Table, key: str) -> str:
    return f"({name}:{quoted(table.name)} {{{KEY}: {key}}})"
