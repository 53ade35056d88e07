"""What a step changes, as statements on ladybug's tables, which are made and widened as it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pydantic import JsonValue

from interlock_agents.puntini.graph_store import Changed, Edge, Node
from interlock_agents.puntini.graphs.elements import by_table, carried, edge_of, for_each, matched, node_of, pattern
from interlock_agents.puntini.graphs.process import Asked
from interlock_agents.puntini.graphs.steps import grouped
from interlock_agents.puntini.graphs.tables import KEPT, KEY, OLD, Column, Ends, Table, Tables, quoted
from interlock_agents.puntini.graphs.transaction import Transaction

__all__ = ["Writing"]

_Rows = list[dict[str, JsonValue]]
_NULL = "NULL"


class Writing:
    """Writes what a step changed, in one transaction."""

    def __init__(self, tables: Tables, transaction: Transaction) -> None:
        self._tables, self._transaction = tables, transaction

    async def keep(self, changed: Changed) -> None:
        """Write it all, removals first."""
        if changed.edges_removed or changed.nodes_removed:
            self._remove(changed)
        if changed.nodes_added or changed.nodes_changed:
            await self._keep_nodes(changed)
        if changed.edges_added or changed.edges_changed:
            await self._keep_edges(changed)

    def _remove(self, changed: Changed) -> None:
        tables = self._tables
        for (says, start, end), some in by_table(changed.edges_removed).items():
            self._remove_edges(tables.edges[says], self._ends(start, end), some)
        for label, some in grouped((node.label, node) for node in changed.nodes_removed).items():
            self._remove_nodes(tables.nodes[label], some)

    async def _keep_nodes(self, changed: Changed) -> None:
        tables = self._tables
        for label, some in grouped((node.label, node) for node in changed.nodes_added).items():
            table = tables.nodes.get(label) or self._new_nodes(label)
            await self._grow(table, some)
            self._create_nodes(table, some)
        for label, some in grouped((node.label, node) for node in changed.nodes_changed).items():
            await self._grow(tables.nodes[label], some)
            self._set_nodes(tables.nodes[label], some)

    async def _keep_edges(self, changed: Changed) -> None:
        for (says, start, end), some in by_table(changed.edges_added).items():
            table, ends = self._joined(says, start, end)
            await self._grow(table, some)
            self._create_edges(table, ends, some)
        for (says, _, _), some in by_table(changed.edges_changed).items():
            await self._grow(self._tables.edges[says], some)
            self._set_edges(self._tables.edges[says], some)

    # Tables and columns.

    def _new_nodes(self, says: str) -> Table:
        table = self._tables.add(says, is_edges=False)
        self._transaction.later(f"CREATE NODE TABLE {quoted(table.name)}({KEY} STRING PRIMARY KEY, {KEPT} STRING)")
        self._name(table)
        return table

    def _joined(self, says: str, start: str, end: str) -> tuple[Table, Ends]:
        """Return the table of a relationship, one that takes edges between nodes of these labels."""
        ends = self._ends(start, end)
        between = f"FROM {quoted(ends[0])} TO {quoted(ends[1])}"
        table = self._tables.edges.get(says)
        if table is None:
            table = self._tables.add(says, is_edges=True)
            self._transaction.later(f"CREATE REL TABLE {quoted(table.name)}({between}, {KEPT} STRING)")
            self._name(table)
        elif ends not in table.ends:
            self._transaction.later(f"ALTER TABLE {quoted(table.name)} ADD {between}")
        table.ends.add(ends)
        return table, ends

    def _name(self, table: Table) -> None:
        if table.name != table.says:
            self._transaction.later(f"COMMENT ON TABLE {quoted(table.name)} IS '{table.says}'")

    def _ends(self, start: str, end: str) -> Ends:
        ends = self._tables.ends(start, end)
        assert ends is not None  # noqa: S101 - both nodes are there
        return ends

    async def _grow(self, table: Table, some: Iterable[Node] | Iterable[Edge]) -> None:
        """Make the columns that these need. One that has to be of another type is emptied, put aside, and made anew.

        It is not dropped: after a column was dropped, ladybug 0.22 can crash while it plans a query of the table.
        """
        missing = table.missing(one.properties for one in some)
        if not missing:
            return
        outgrown = [name for name in missing if table.column(name)]
        nodes, edges = ([], await self._using_edges(table, outgrown)) if table.is_edges else (await self._using_nodes(table, outgrown), [])
        for name, kind in missing.items():
            if name in outgrown:
                table.old += 1
                element = f"()-[e:{quoted(table.name)}]->()" if table.is_edges else f"(e:{quoted(table.name)})"
                self._transaction.later(f"MATCH {element} WHERE e.{quoted(name)} IS NOT NULL SET e.{quoted(name)} = NULL")
                self._transaction.later(f"ALTER TABLE {quoted(table.name)} RENAME {quoted(name)} TO {OLD}{table.old}")
            self._transaction.later(f"ALTER TABLE {quoted(table.name)} ADD {quoted(name)} {kind}")
            table.learn(name, kind)
        self._set_nodes(table, nodes)
        self._set_edges(table, edges)

    async def _using_nodes(self, table: Table, names: list[str]) -> list[Node]:
        if not names:
            return []
        used = " OR ".join(f"n.{quoted(name)} IS NOT NULL" for name in names)
        (rows,) = await self._transaction.rows((f"MATCH (n:{quoted(table.name)}) WHERE {used} RETURN n", {}))
        return [node_of(table, row) for row in rows]

    async def _using_edges(self, table: Table, names: list[str]) -> list[Edge]:
        if not names:
            return []
        used = " OR ".join(f"e.{quoted(name)} IS NOT NULL" for name in names)
        all_ends = list(table.ends)
        asked: list[Asked] = [(f"MATCH {pattern(table, ends)} WHERE {used} RETURN a.{KEY}, e, b.{KEY}", {}) for ends in all_ends]
        found = zip(all_ends, await self._transaction.rows(*asked), strict=True)
        return [edge_of(table, self._tables.labels(ends), row) for ends, rows in found for row in rows]

    # Nodes and edges.

    def _create_nodes(self, table: Table, some: list[Node]) -> None:
        columns = _used(table, some)
        rows: _Rows = [{KEY: node.key, **table.row(node.properties, columns)} for node in some]

        def statement(at: str) -> str:
            return f"CREATE (:{quoted(table.name)} {{{', '.join([f'{KEY}: {at}{KEY}', *_put(columns, rows, at)])}}})"

        self._each(rows, statement)

    def _create_edges(self, table: Table, ends: Ends, some: list[Edge]) -> None:
        columns = _used(table, some)
        rows: _Rows = [{"a": edge.start.key, "b": edge.end.key, **table.row(edge.properties, columns)} for edge in some]

        def statement(at: str) -> str:
            a, b = (f"({side}:{quoted(end)} {{{KEY}: {at}{side}}})" for side, end in zip("ab", ends, strict=True))
            put = _put(columns, rows, at)
            edge = f"{quoted(table.name)} {{{', '.join(put)}}}" if put else quoted(table.name)
            return f"MATCH {a} WITH {carried('a', at)} MATCH {b} CREATE (a)-[:{edge}]->(b)"

        self._each(rows, statement)

    def _set_nodes(self, table: Table, some: list[Node]) -> None:
        columns = list(table.columns.values())
        rows: _Rows = [{"a": node.key, **table.row(node.properties, columns)} for node in some]
        self._each(rows, lambda at: f"MATCH (n:{quoted(table.name)} {{{KEY}: {at}a}}) SET {_set('n', columns, rows, at)}")

    def _set_edges(self, table: Table, some: list[Edge]) -> None:
        for (_, start, end), these in by_table(some).items():
            self._set_between(table, self._ends(start, end), these)

    def _set_between(self, table: Table, ends: Ends, some: list[Edge]) -> None:
        columns = list(table.columns.values())
        rows: _Rows = [{"a": edge.start.key, "b": edge.end.key, **table.row(edge.properties, columns)} for edge in some]
        self._each(rows, lambda at: f"{matched(table, ends, at)} SET {_set('e', columns, rows, at)}")

    def _remove_nodes(self, table: Table, some: list[Node]) -> None:
        rows: _Rows = [{"a": node.key} for node in some]
        self._each(rows, lambda at: f"MATCH (n:{quoted(table.name)} {{{KEY}: {at}a}}) DELETE n")

    def _remove_edges(self, table: Table, ends: Ends, some: list[Edge]) -> None:
        rows: _Rows = [{"a": edge.start.key, "b": edge.end.key} for edge in some]
        self._each(rows, lambda at: f"{matched(table, ends, at)} DELETE e")

    def _each(self, rows: _Rows, statement: Callable[[str], str]) -> None:
        for text, values in for_each(rows, statement):
            self._transaction.later(text, values)


def _used(table: Table, some: Iterable[Node] | Iterable[Edge]) -> list[Column]:
    names = {name for one in some for name in one.properties}
    return [column for column in table.columns.values() if column.name in names]


def _put(columns: Iterable[Column], rows: _Rows, at: str) -> list[str]:
    return [f"{name}: {value}" for name, value in _values(columns, rows, at) if value != _NULL]


def _set(element: str, columns: Iterable[Column], rows: _Rows, at: str) -> str:
    return ", ".join(f"{element}.{name} = {value}" for name, value in _values(columns, rows, at))


def _values(columns: Iterable[Column], rows: _Rows, at: str) -> list[tuple[str, str]]:
    """Return the columns with their values in a statement; where no row has one, that is said in the statement itself."""
    kinds = [(KEPT, "beside", "STRING"), *((quoted(column.name), f"c{number}", column.kind) for number, column in enumerate(columns))]
    return [(name, f"CAST({at}{value} AS {kind})" if any(row[value] is not None for row in rows) else _NULL) for name, value, kind in kinds]
