"""One graph in a file of ladybug: its tables, what is read from them, and steps that change them whole."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from interlock.adapters.graphs.lodging import Lodging, Result
from interlock.adapters.graphs.steps import EdgeRef, Foreseen, edge_ref, foreseen, has, node_ref, settled
from interlock.adapters.graphs.tables import KEPT, KEY, OLD, Column, Table, merged, quoted
from interlock.capabilities.graph_store import Change, Changed, Edge, Node, NodeRef, Rows
from interlock.errors import InterlockError, QueryTimeout, StoreUnavailable, ToolInputInvalid

__all__ = ["LadybugFile"]

_WRITE_S = 60.0  # for one statement of a step
_PAGE = 500
_BATCH = 5_000


class LadybugFile:
    """Reads and changes one graph. Whoever calls holds `lock`; `is_left` says that the file was closed for others."""

    def __init__(self, path: Path, *, name: str, timeout_s: float, max_bytes: int) -> None:
        self.lock = threading.Lock()
        self.is_left = False
        self._path, self._name = path, name
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._lodging: Lodging | None = None
        self._nodes: dict[str, Table] = {}
        self._edges: dict[str, Table] = {}

    def close(self) -> None:
        """Close the file, once nobody uses it."""
        with self.lock:
            self.is_left = True
            if self._lodging is not None:
                self._lodging.close()
                self._lodging = None

    def nodes(self, *, label: str | None, key: str | None, properties: Mapping[str, JsonValue], limit: int) -> tuple[Node, ...]:
        """Find nodes, ordered by label and key."""
        self._open()
        found: list[Node] = []
        for says in sorted(self._nodes) if label is None else [label]:
            table = self._nodes.get(says)
            if table is not None and len(found) < limit:
                found += self._nodes_of(table, key, properties, limit - len(found))
        return tuple(found)

    def edges(self, *, start: NodeRef | None, end: NodeRef | None, relationship: str | None, limit: int) -> tuple[Edge, ...]:
        """Find edges, ordered by start, relationship and end."""
        self._open()
        found: list[Edge] = []
        for says, table in self._edges.items():
            if relationship is None or says == relationship:
                for ends in table.ends:
                    found += self._edges_of(table, ends, start, end, limit)
        return tuple(sorted(found, key=edge_ref)[:limit])

    def query(self, text: str, parameters: Mapping[str, JsonValue], *, limit: int) -> Rows:
        """Run a query that was checked, in a transaction that cannot write."""
        self._open()
        self._run("BEGIN TRANSACTION READ ONLY")
        try:
            result = self._run(text, parameters, rows=limit, most=self._max_bytes)
            shown = _Shown(self).rows(result.rows)
        finally:
            self._undo()
        return Rows(columns=result.columns, rows=tuple(shown), more=result.more)

    def apply(self, changes: tuple[Change, ...]) -> Changed:
        """Make these changes, all or none."""
        seen = foreseen(changes)
        self._open()
        self._write("BEGIN TRANSACTION")
        try:
            changed = settled(changes, *self._before(seen))
            self._keep(changed)
            if changed == Changed():
                self._undo()
            else:
                self._commit()
        except BaseException:
            self._undo()
            self._forget()
            raise
        return changed

    def table(self, name: str) -> Table:
        """Return a table by the name that ladybug has for it."""
        return next(table for table in (*self._nodes.values(), *self._edges.values()) if table.name == name)

    def elements(self, table: Table, offsets: list[int]) -> list[tuple[tuple[int, int], JsonValue]]:
        """Read nodes or edges by the places that they have in a table, as they are shown to whoever asks."""
        places: dict[str, JsonValue] = {"places": cast("JsonValue", offsets)}
        if not table.is_edges:
            rows = self._bounded(f"MATCH (n:{quoted(table.name)}) WHERE offset(id(n)) IN $places RETURN id(n), n", places)
            return [(_place(at), {"label": table.says, "key": row[KEY], "properties": table.properties(row)}) for at, row in rows]
        rows = self._bounded(
            f"MATCH (a)-[e:{quoted(table.name)}]->(b) WHERE offset(id(e)) IN $places RETURN id(e), e, label(a), a.{KEY}, label(b), b.{KEY}",
            places,
        )
        return [
            (
                _place(at),
                {
                    "start": {"label": self.table(start).says, "key": start_key},
                    "relationship": table.says,
                    "end": {"label": self.table(end).says, "key": end_key},
                    "properties": table.properties(row),
                },
            )
            for at, row, start, start_key, end, end_key in rows
        ]

    def _open(self) -> Lodging:
        if self._lodging is not None and not self._lodging.is_ours():
            self._lodging.kill()
            self._lodging = None
        if self._lodging is None:
            for folder in reversed([folder for folder in self._path.parents if not folder.exists()]):
                folder.mkdir(mode=0o700, exist_ok=True)
            with self._path.open("ab"):  # to hear from the system itself why that is not possible
                self._path.chmod(0o600)
            self._lodging = Lodging(self._path, name=self._name, timeout_s=self._timeout_s, max_bytes=self._max_bytes)
            self._forget()
        if not self._nodes:
            self._learn()
        return self._lodging

    def _run(self, statement: str, parameters: Mapping[str, JsonValue] | None = None, **most: int) -> Result:
        assert self._lodging is not None  # noqa: S101 - every way here opens it
        return self._lodging.run(statement, parameters, within=self._timeout_s, **most)

    def _write(self, statement: str, parameters: Mapping[str, JsonValue] | None = None) -> list[list[Any]]:
        assert self._lodging is not None  # noqa: S101 - every way here opens it
        try:
            return self._lodging.run(statement, parameters, within=_WRITE_S).rows
        except QueryTimeout as error:
            raise StoreUnavailable(f"Graph '{self._name:.100}' could not be changed in time, or with the memory there is.") from error

    def _commit(self) -> None:
        """Commit. Where that fails, what was written of it is cut off, or the file could not be opened again."""
        log = self._path.with_name(f"{self._path.name}.wal")
        before = log.stat().st_size if log.exists() else 0
        try:
            self._write("COMMIT")
        except BaseException:
            if self._lodging is not None:
                self._lodging.kill()
            is_merging = self._path.with_name(f"{self._path.name}.shadow").exists()
            if not is_merging and log.exists() and log.stat().st_size > before:
                os.truncate(log, before)
            raise

    def _undo(self) -> None:
        if self._lodging is not None and self._lodging.is_ours():
            try:
                self._lodging.run("ROLLBACK", within=_WRITE_S)
            except ToolInputInvalid:
                pass  # ladybug undoes a transaction by itself when a statement fails
            except InterlockError:
                self._lodging.kill()

    def _forget(self) -> None:
        self._nodes, self._edges = {}, {}

    def _learn(self) -> None:
        for _, name, kind, _, comment in self._write("CALL show_tables() RETURN *"):
            table = Table(name=name, says=comment or name, is_edges=kind == "REL")
            for _, column, column_kind, *_ in self._write(f"CALL table_info('{name}') RETURN *"):
                table.learn(column, column_kind)
            if table.is_edges:
                table.ends = {(start, end) for start, end, *_ in self._write(f"CALL show_connection('{name}') RETURN *")}
            (self._edges if table.is_edges else self._nodes)[table.says] = table

    # What is read.

    def _nodes_of(self, table: Table, key: str | None, properties: Mapping[str, JsonValue], limit: int) -> list[Node]:
        where: list[str] = []
        values: dict[str, JsonValue] = {}
        if key is not None:
            where.append(f"n.{KEY} = $key")
            values["key"] = key
        for number, (name, value) in enumerate(properties.items()):
            column = table.column(name)
            if column is None:
                where.append(f"n.{KEPT} IS NOT NULL" if value is not None else "true")
            elif value is None:
                where.append(f"n.{quoted(name)} IS NULL")
            elif merged(column.kind, value) != column.kind:
                return []  # a value that would have widened the column was never put in
            else:
                where.append(f"n.{quoted(name)} = CAST($p{number} AS {column.kind})")
                values[f"p{number}"] = table.row({name: value}, [column])["c0"]
        asked = f"MATCH (n:{quoted(table.name)}) {'WHERE ' + ' AND '.join(where) if where else ''} RETURN n"
        if key is not None:
            return [node for node in self._read_nodes(table, asked, values) if has(node.properties, properties)]
        found: list[Node] = []
        skip, page = 0, limit if not properties else max(limit, _PAGE)
        while len(found) < limit:
            nodes = self._read_nodes(table, f"{asked} ORDER BY n.{KEY} SKIP {skip} LIMIT {page}", values)
            found += [node for node in nodes if has(node.properties, properties)]
            skip += page
            if len(nodes) < page:
                break
        return found[:limit]

    def _read_nodes(self, table: Table, statement: str, values: Mapping[str, JsonValue]) -> list[Node]:
        return [Node(label=table.says, key=row[KEY], properties=table.properties(row)) for (row,) in self._bounded(statement, values)]

    def _edges_of(self, table: Table, ends: tuple[str, str], start: NodeRef | None, end: NodeRef | None, limit: int) -> list[Edge]:
        labels = [self.table(name).says for name in ends]
        where: list[str] = []
        values: dict[str, JsonValue] = {}
        for name, label, ref in (("a", labels[0], start), ("b", labels[1], end)):
            if ref is not None:
                if ref.label != label:
                    return []
                where.append(f"{name}.{KEY} = ${name}")
                values[name] = ref.key
        rows = self._bounded(
            f"MATCH {_pattern(table, ends)} {'WHERE ' + ' AND '.join(where) if where else ''} "
            f"RETURN a.{KEY}, e, b.{KEY} ORDER BY a.{KEY}, b.{KEY} LIMIT {limit}",
            values,
        )
        return [_edge(table, labels, row) for row in rows]

    def _bounded(self, statement: str, values: Mapping[str, JsonValue]) -> list[list[Any]]:
        result = self._run(statement, values, most=self._max_bytes)
        if result.more:
            raise QueryTimeout(f"What was asked for has more than {self._max_bytes:,} bytes: ask for less.")
        return result.rows

    def _before(self, seen: Foreseen) -> tuple[dict[NodeRef, Node], dict[EdgeRef, Edge]]:
        """Read all that a step is about."""
        nodes: dict[NodeRef, Node] = {}
        for label, keys in _grouped((ref.label, ref.key) for ref in seen.nodes).items():
            if table := self._nodes.get(label):
                for some in _batches(keys):
                    for (row,) in self._write(f"{_keyed('n', table.name, some)} RETURN n", {"keys": _keys(some)}):
                        node = Node(label=label, key=row[KEY], properties=table.properties(row))
                        nodes[node_ref(node)] = node
        edges: dict[EdgeRef, Edge] = {}
        for (says, start, end), pairs in _grouped(
            ((ref.relationship, ref.start[0], ref.end[0]), (ref.start[1], ref.end[1])) for ref in seen.edges
        ).items():
            table, ends = self._edges.get(says), self._ends(start, end)
            if table is not None and ends in table.ends:
                for some in _batches(pairs):
                    statement = f"UNWIND $rows AS r {_found(table, ends)} RETURN a.{KEY}, e, b.{KEY}"
                    for row in self._write(statement, {"rows": [{"a": a, "b": b} for a, b in some]}):
                        edge = _edge(table, [start, end], row)
                        edges[edge_ref(edge)] = edge
        for label, keys in _grouped((ref.label, ref.key) for ref in seen.around if ref in nodes).items():
            edges |= self._around(label, keys)
        return nodes, edges

    def _around(self, label: str, keys: list[str]) -> dict[EdgeRef, Edge]:
        found: dict[EdgeRef, Edge] = {}
        name = self._nodes[label].name
        for table in self._edges.values():
            for ends in table.ends:
                for which, side in zip(ends, "ab", strict=True):
                    for some in _batches(keys) if which == name else ():
                        keyed = _keyed(side, name, some)
                        statement = f"{keyed} MATCH {_pattern(table, ends)} RETURN a.{KEY}, e, b.{KEY}"
                        for row in self._write(statement, {"keys": _keys(some)}):
                            edge = _edge(table, [self.table(end).says for end in ends], row)
                            found[edge_ref(edge)] = edge
        return found

    def _ends(self, start: str, end: str) -> tuple[str, str] | None:
        tables = self._nodes.get(start), self._nodes.get(end)
        return (tables[0].name, tables[1].name) if tables[0] and tables[1] else None

    # What is written.

    def _keep(self, changed: Changed) -> None:
        for (says, start, end), some in _by_table(changed.edges_removed).items():
            ends = self._ends(start, end)
            assert ends is not None  # noqa: S101 - they were read from there
            rows = [{"a": edge.start.key, "b": edge.end.key} for edge in some]
            self._each(f"{_found(self._edges[says], ends)} DELETE e", rows)
        for label, some in _grouped((node.label, node) for node in changed.nodes_removed).items():
            self._each(f"MATCH (n:{quoted(self._nodes[label].name)} {{{KEY}: r.a}}) DELETE n", [{"a": node.key} for node in some])
        for label, some in _grouped((node.label, node) for node in changed.nodes_added).items():
            table = self._nodes.get(label) or self._new_nodes(label)
            self._grow(table, some)
            self._create_nodes(table, some)
        for label, some in _grouped((node.label, node) for node in changed.nodes_changed).items():
            self._grow(self._nodes[label], some)
            self._set_nodes(self._nodes[label], some)
        for (says, start, end), some in _by_table(changed.edges_added).items():
            table, ends = self._joined(says, start, end)
            self._grow(table, some)
            self._create_edges(table, ends, some)
        for (says, _, _), some in _by_table(changed.edges_changed).items():
            self._grow(self._edges[says], some)
            self._set_edges(self._edges[says], some)

    def _new_nodes(self, says: str) -> Table:
        table = Table(name=self._free(says), says=says, is_edges=False)
        self._write(f"CREATE NODE TABLE {quoted(table.name)}({KEY} STRING PRIMARY KEY, {KEPT} STRING)")
        return self._named(table, self._nodes)

    def _joined(self, says: str, start: str, end: str) -> tuple[Table, tuple[str, str]]:
        """Return the table of a relationship, one that takes edges between nodes of these labels."""
        ends = self._ends(start, end)
        assert ends is not None  # noqa: S101 - both nodes are there
        between = f"FROM {quoted(ends[0])} TO {quoted(ends[1])}"
        table = self._edges.get(says)
        if table is None:
            table = Table(name=self._free(says), says=says, is_edges=True)
            self._write(f"CREATE REL TABLE {quoted(table.name)}({between}, {KEPT} STRING)")
            self._named(table, self._edges)
        elif ends not in table.ends:
            self._write(f"ALTER TABLE {quoted(table.name)} ADD {between}")
        table.ends.add(ends)
        return table, ends

    def _named(self, table: Table, among: dict[str, Table]) -> Table:
        if table.name != table.says:
            self._write(f"COMMENT ON TABLE {quoted(table.name)} IS '{table.says}'")
        among[table.says] = table
        return table

    def _free(self, says: str) -> str:
        """Return a name for a table: ladybug has one for labels and relationships, in upper or lower case."""
        taken = {table.name.lower() for table in (*self._nodes.values(), *self._edges.values())}
        name, number = says, 1
        while name.lower() in taken:
            number += 1
            name = f"{says}_{number}"
        return name

    def _grow(self, table: Table, some: Iterable[Node] | Iterable[Edge]) -> None:
        """Make the columns that these need. One that has to be of another type is emptied, put aside, and made anew.

        It is not dropped: after a column was dropped, ladybug 0.22 can crash while it plans a query of the table.
        """
        missing = table.missing(one.properties for one in some)
        outgrown = [name for name in missing if table.column(name)]
        nodes, edges = ([], self._using_edges(table, outgrown)) if table.is_edges else (self._using_nodes(table, outgrown), [])
        for name, kind in missing.items():
            if name in outgrown:
                table.old += 1
                element = "()-[e:{}]->()" if table.is_edges else "(e:{})"
                self._write(f"MATCH {element.format(quoted(table.name))} WHERE e.{quoted(name)} IS NOT NULL SET e.{quoted(name)} = NULL")
                self._write(f"ALTER TABLE {quoted(table.name)} RENAME {quoted(name)} TO {OLD}{table.old}")
            self._write(f"ALTER TABLE {quoted(table.name)} ADD {quoted(name)} {kind}")
            table.learn(name, kind)
        self._set_nodes(table, nodes)
        self._set_edges(table, edges)

    def _using_nodes(self, table: Table, names: list[str]) -> list[Node]:
        if not names:
            return []
        used = " OR ".join(f"n.{quoted(name)} IS NOT NULL" for name in names)
        rows = self._write(f"MATCH (n:{quoted(table.name)}) WHERE {used} RETURN n")
        return [Node(label=table.says, key=row[KEY], properties=table.properties(row)) for (row,) in rows]

    def _using_edges(self, table: Table, names: list[str]) -> list[Edge]:
        if not names:
            return []
        used = " OR ".join(f"e.{quoted(name)} IS NOT NULL" for name in names)
        found: list[Edge] = []
        for ends in table.ends:
            labels = [self.table(end).says for end in ends]
            rows = self._write(f"MATCH {_pattern(table, ends)} WHERE {used} RETURN a.{KEY}, e, b.{KEY}")
            found += [_edge(table, labels, row) for row in rows]
        return found

    def _create_nodes(self, table: Table, some: list[Node]) -> None:
        columns = _used(table, some)
        values = [f"{KEY}: r.{KEY}", f"{KEPT}: CAST(r.beside AS STRING)", *(f"{quoted(c.name)}: {v}" for c, v in _casts(columns))]
        rows = [{KEY: node.key, **table.row(node.properties, columns)} for node in some]
        self._each(f"CREATE (:{quoted(table.name)} {{{', '.join(values)}}})", rows)

    def _create_edges(self, table: Table, ends: tuple[str, str], some: list[Edge]) -> None:
        columns = _used(table, some)
        values = [f"{KEPT}: CAST(r.beside AS STRING)", *(f"{quoted(c.name)}: {v}" for c, v in _casts(columns))]
        a, b = (f"({side}:{quoted(end)} {{{KEY}: r.{side}}})" for side, end in zip("ab", ends, strict=True))
        rows = [{"a": edge.start.key, "b": edge.end.key, **table.row(edge.properties, columns)} for edge in some]
        self._each(f"MATCH {a} WITH a, r MATCH {b} CREATE (a)-[:{quoted(table.name)} {{{', '.join(values)}}}]->(b)", rows)

    def _set_nodes(self, table: Table, some: list[Node]) -> None:
        columns = list(table.columns.values())
        rows = [{"a": node.key, **table.row(node.properties, columns)} for node in some]
        self._each(f"MATCH (n:{quoted(table.name)} {{{KEY}: r.a}}) SET {_set('n', columns)}", rows)

    def _set_edges(self, table: Table, some: list[Edge]) -> None:
        columns = list(table.columns.values())
        for (_, start, end), these in _by_table(some).items():
            ends = self._ends(start, end)
            assert ends is not None  # noqa: S101 - they were read from there
            rows = [{"a": edge.start.key, "b": edge.end.key, **table.row(edge.properties, columns)} for edge in these]
            self._each(f"{_found(table, ends)} SET {_set('e', columns)}", rows)

    def _each(self, statement: str, rows: list[Any]) -> None:
        for some in _batches(rows):
            self._write(f"UNWIND $rows AS r {statement}", {"rows": some})


class _Shown:
    """Makes of what ladybug gives for nodes, edges and paths what they are: one read, of each table, for all of them."""

    def __init__(self, file: LadybugFile) -> None:
        self._file = file
        self._asked: dict[str, set[int]] = defaultdict(set)
        self._known: dict[tuple[int, int], JsonValue] = {}

    def rows(self, rows: list[list[Any]]) -> list[tuple[JsonValue, ...]]:
        self._seek(rows)
        for name, offsets in self._asked.items():
            for some in _batches(sorted(offsets)):
                self._known.update(self._file.elements(self._file.table(name), some))
        return [tuple(self._show(value) for value in row) for row in rows]

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
            return [self._show(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        found = cast("dict[str, Any]", value)
        if _is_element(found):
            return self._known.get(_place(found["_ID"]))
        if set(found) == {"_NODES", "_RELS"}:
            return {"nodes": self._show(found["_NODES"]), "edges": self._show(found["_RELS"])}
        return {name: self._show(item) for name, item in found.items()}


def _is_element(value: Mapping[str, Any]) -> bool:
    identity = value.get("_ID")
    return isinstance(identity, dict) and "_LABEL" in value and set(cast("dict[str, Any]", identity)) == {"offset", "table"}


def _place(identity: Mapping[str, int]) -> tuple[int, int]:
    return identity["table"], identity["offset"]


def _pattern(table: Table, ends: tuple[str, str]) -> str:
    return f"(a:{quoted(ends[0])})-[e:{quoted(table.name)}]->(b:{quoted(ends[1])})"


def _found(table: Table, ends: tuple[str, str]) -> str:
    """Match the edge of a row `r`, in two parts: in one, ladybug reads all the nodes for each row."""
    start, end = (quoted(name) for name in ends)
    return f"MATCH (a:{start} {{{KEY}: r.a}}) WITH a, r MATCH (a)-[e:{quoted(table.name)}]->(b:{end}) WHERE b.{KEY} = r.b"


def _edge(table: Table, labels: list[str], row: list[Any]) -> Edge:
    start, end = NodeRef(label=labels[0], key=row[0]), NodeRef(label=labels[1], key=row[2])
    return Edge(start=start, end=end, relationship=table.says, properties=table.properties(row[1]))


def _keyed(name: str, table: str, keys: list[str]) -> str:
    """Match the nodes that have one of `$keys`, each by the index."""
    if len(keys) == 1:
        return f"MATCH ({name}:{quoted(table)} {{{KEY}: $keys}})"
    return f"UNWIND $keys AS k MATCH ({name}:{quoted(table)} {{{KEY}: k}})"


def _keys(keys: list[str]) -> JsonValue:
    return keys[0] if len(keys) == 1 else cast("JsonValue", keys)


def _casts(columns: Iterable[Column]) -> list[tuple[Column, str]]:
    return [(column, f"CAST(r.c{number} AS {column.kind})") for number, column in enumerate(columns)]


def _set(name: str, columns: Iterable[Column]) -> str:
    return ", ".join([f"{name}.{KEPT} = CAST(r.beside AS STRING)", *(f"{name}.{quoted(c.name)} = {value}" for c, value in _casts(columns))])


def _used(table: Table, some: Iterable[Node] | Iterable[Edge]) -> list[Column]:
    names = {name for one in some for name in one.properties}
    return [column for column in table.columns.values() if column.name in names]


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for name, value in pairs:
        groups[name].append(value)
    return groups


def _by_table(edges: Iterable[Edge]) -> dict[tuple[str, str, str], list[Edge]]:
    return _grouped(((edge.relationship, edge.start.label, edge.end.label), edge) for edge in edges)


def _batches(items: list[Any]) -> Iterable[list[Any]]:
    return (items[first : first + _BATCH] for first in range(0, len(items), _BATCH))
