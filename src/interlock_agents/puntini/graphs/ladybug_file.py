"""One graph in a file of ladybug: what is read from its tables, and steps that change them whole."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pydantic import JsonValue

from interlock.errors import CapabilityError, InterlockError, QueryTimeout, SessionBusy, StoreCorrupt
from interlock_agents.puntini.errors import NotInGraph
from interlock_agents.puntini.graph_store import Change, Changed, Edge, Node, NodeRef, Rows
from interlock_agents.puntini.graphs.checksums import Checksums
from interlock_agents.puntini.graphs.elements import edge_of, for_each, keyed, matched, node_of, pattern
from interlock_agents.puntini.graphs.fair_lock import FairLock
from interlock_agents.puntini.graphs.process import Asked, LadybugProcess, Statement, open_elsewhere
from interlock_agents.puntini.graphs.shown import Shown
from interlock_agents.puntini.graphs.steps import EdgeRef, Foreseen, edge_ref, foreseen, grouped, has, node_ref, settled
from interlock_agents.puntini.graphs.tables import KEPT, KEY, Ends, Table, Tables, merged, quoted
from interlock_agents.puntini.graphs.transaction import Transaction
from interlock_agents.puntini.graphs.writing import Writing

__all__ = ["TITLE", "LadybugFile"]

TITLE = ".title"
"""How the file ends that has the name of a graph."""

_PAGE = 500
_PAUSE_S = 0.02  # between two looks at whether another process has closed the file
_SMALL = 100  # changes
_NOTHING = Changed()
_EDGE = f"RETURN a.{KEY}, e, b.{KEY}"
_Sought = tuple[Asked, Table, tuple[str, str] | None]
"""A statement, the table that it reads, and the labels at the ends of its edges, if it has edges."""


class LadybugFile:
    """Reads and changes one graph. Whoever calls has the `baton`; `is_retired` says that the file was closed, and is another's now."""

    def __init__(self, path: Path, *, name: str, timeout_s: float, max_bytes: int) -> None:
        self.baton = FairLock()
        self.is_retired = False
        self._path, self._checksums, self._name = path, Checksums(path), name
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._process: LadybugProcess | None = None
        self._tables = Tables()

    @property
    def is_open(self) -> bool:
        """Whether there is a process that has it open."""
        return self._process is not None and self._process.is_ours()

    @property
    def pid(self) -> int | None:
        """The process that has it open, if any."""
        return None if self._process is None else self._process.pid

    def open(self) -> None:
        """Open the file, in a thread that may wait for that. Where another process has it open for too long, it is SessionBusy."""
        if self.is_open:
            return
        if self._process is not None:
            self._process.kill()
            self._process = None
        for folder in reversed([folder for folder in self._path.parents if not folder.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        with self._checksums.file.open("ab"):  # to hear from the system itself why that is not possible
            self._checksums.file.chmod(0o600)
        if self._path.exists():
            with self._path.open("r+b"):
                self._path.chmod(0o600)
        if not self._title.exists():
            self._name_it()
        self._process = self._start_process(time.monotonic() + self._timeout_s)
        self._tables = Tables()

    def _name_it(self) -> None:
        """Write the name of the graph, whole or not at all. Others may be about to do the same."""
        with NamedTemporaryFile(dir=self._path.parent, prefix=f"{self._path.stem}.", delete=False) as new:
            made = Path(new.name)
        try:
            made.write_text(self._name, encoding="utf-8", errors="surrogatepass")
            made.replace(self._title)
        finally:
            made.unlink(missing_ok=True)

    @property
    def _title(self) -> Path:
        """The file that has the name of the graph: the others have names made of it."""
        return self._path.with_suffix(TITLE)

    def remove(self) -> None:
        """Delete the graph, in a thread that may wait for that. A file that cannot be read can be deleted too."""
        with suppress(StoreCorrupt):
            self.open()
        self.close()
        for file in self._path.parent.glob(f"{self._path.stem}.*"):
            file.unlink(missing_ok=True)

    def _start_process(self, deadline: float) -> LadybugProcess:
        while True:
            if not self._checksums.is_locked():
                try:
                    return LadybugProcess(self._path, name=self._name, timeout_s=self._timeout_s, max_bytes=self._max_bytes)
                except SessionBusy:
                    if time.monotonic() > deadline:
                        raise
            if time.monotonic() > deadline:
                raise open_elsewhere(self._name)
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Close the file, in a thread that may wait for that."""
        if self._process is not None:
            self._process.close()
            self._process = None

    async def nodes(self, *, label: str | None, key: str | None, properties: Mapping[str, JsonValue], limit: int) -> tuple[Node, ...]:
        """Find nodes, ordered by label and key."""
        await self._learn()
        found: list[Node] = []
        for says in sorted(self._tables.nodes) if label is None else [label]:
            table = self._tables.nodes.get(says)
            if table is not None and len(found) < limit:
                found += await self._nodes_of(table, key, properties, limit - len(found))
        return tuple(found)

    async def edges(self, *, start: NodeRef | None, end: NodeRef | None, relationship: str | None, limit: int) -> tuple[Edge, ...]:
        """Find edges, ordered by start, relationship and end."""
        await self._learn()
        found: list[Edge] = []
        for says, table in self._tables.edges.items():
            if relationship is None or says == relationship:
                for ends in table.ends:
                    found += await self._edges_of(table, ends, start, end, limit)
        return tuple(sorted(found, key=edge_ref)[:limit])

    async def query(self, text: str, parameters: Mapping[str, JsonValue], *, limit: int) -> Rows:
        """Run a query that was checked, in a transaction that cannot write."""
        await self._learn()
        asked: list[Statement] = [("BEGIN TRANSACTION READ ONLY", {}), (text, parameters, limit, self._max_bytes), ("ROLLBACK", {})]
        try:
            _, result, _ = await self._opened.run(asked, within=self._timeout_s)
        except NotInGraph as error:
            await self._opened.undo()
            raise NotInGraph(f"{error.message} {self._tables.named_so()}".strip()) from error
        except InterlockError:
            await self._opened.undo()
            raise
        rows = await Shown(self._tables, self._bounded).rows(result.rows)
        return Rows(columns=result.columns, rows=tuple(rows), more=result.more)

    async def apply(self, changes: tuple[Change, ...]) -> Changed:
        """Make these changes, all or none."""
        seen = foreseen(changes)
        await self._learn()
        sought = [*self._sought_nodes(seen)]
        if seen.edges or seen.around:
            sought += [*self._sought_edges(seen), *self._sought_around(seen)]
        new = self._if_new(changes)
        if new is None:
            rows = await self._transaction().rows(*(asked for asked, _, _ in sought))
        else:
            rows = await self._added(new, sought)
            if not any(rows):
                return new
        changed = settled(changes, *_elements(sought, rows))
        await self._written(changed, self._transaction())
        return changed

    async def preview(self, changes: tuple[Change, ...]) -> Changed:
        """Tell what these changes would come to."""
        seen = foreseen(changes)
        await self._learn()
        sought = [*self._sought_nodes(seen), *self._sought_edges(seen), *self._sought_around(seen)]
        rows = await self._transaction().rows(*(asked for asked, _, _ in sought))
        return settled(changes, *_elements(sought, rows))

    def _if_new(self, changes: tuple[Change, ...]) -> Changed | None:
        """Return what a small step comes to where nothing of it is there; None where it needs something, or the tables would change."""
        if len(changes) > _SMALL:
            return None
        try:
            changed = settled(changes, {}, {})
        except CapabilityError:
            return None
        return changed if changed != _NOTHING and self._tables.take(changed) else None

    async def _added(self, new: Changed, sought: list[_Sought]) -> list[list[list[Any]]]:
        """Add what is new unless something of it is there, and return what is: one way to the process and back."""
        transaction = self._transaction()
        await Writing(self._tables, transaction).keep(new)
        return await transaction.commit_unless(*(asked for asked, _, _ in sought))

    async def _written(self, changed: Changed, transaction: Transaction) -> None:
        try:
            await Writing(self._tables, transaction).keep(changed)
            await transaction.commit()
        except BaseException:
            self._tables = Tables()
            await transaction.undo()
            raise

    @property
    def _opened(self) -> LadybugProcess:
        assert self._process is not None  # noqa: S101 - whoever calls has opened it
        return self._process

    def _transaction(self) -> Transaction:
        return Transaction(self._opened, self._checksums, name=self._name)

    async def _learn(self) -> None:
        """Find out which tables there are, unless that is known."""
        if self._tables.nodes:
            return
        tables, transaction = Tables(), self._transaction()
        (found,) = await transaction.rows(("CALL show_tables() RETURN *", {}))
        known = [tables.learn(name, comment or name, is_edges=kind == "REL") for _, name, kind, _, comment in found]
        edges = [table for table in known if table.is_edges]
        columns: list[Asked] = [(f"CALL table_info('{table.name}') RETURN *", {}) for table in known]
        ends: list[Asked] = [(f"CALL show_connection('{table.name}') RETURN *", {}) for table in edges]
        rows = await transaction.rows(*columns, *ends)
        for table, those in zip(known, rows, strict=False):
            for _, column, kind, *_ in those:
                table.learn(column, kind)
        for table, those in zip(edges, rows[len(known) :], strict=True):
            table.ends = {(start, end) for start, end, *_ in those}
        self._tables = tables

    async def _nodes_of(self, table: Table, key: str | None, properties: Mapping[str, JsonValue], limit: int) -> list[Node]:
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
            return [node for node in await self._read_nodes(table, asked, values) if has(node.properties, properties)]
        found: list[Node] = []
        skip, page = 0, limit if not properties else max(limit, _PAGE)
        while len(found) < limit:
            nodes = await self._read_nodes(table, f"{asked} ORDER BY n.{KEY} SKIP {skip} LIMIT {page}", values)
            found += [node for node in nodes if has(node.properties, properties)]
            skip += page
            if len(nodes) < page:
                break
        return found[:limit]

    async def _read_nodes(self, table: Table, statement: str, values: Mapping[str, JsonValue]) -> list[Node]:
        (rows,) = await self._bounded((statement, values))
        return [node_of(table, row) for row in rows]

    async def _edges_of(self, table: Table, ends: Ends, start: NodeRef | None, end: NodeRef | None, limit: int) -> list[Edge]:
        labels = self._tables.labels(ends)
        where: list[str] = []
        values: dict[str, JsonValue] = {}
        for name, label, ref in (("a", labels[0], start), ("b", labels[1], end)):
            if ref is not None:
                if ref.label != label:
                    return []
                where.append(f"{name}.{KEY} = ${name}")
                values[name] = ref.key
        asked = f"MATCH {pattern(table, ends)} {'WHERE ' + ' AND '.join(where) if where else ''} {_EDGE}"
        (rows,) = await self._bounded((f"{asked} ORDER BY a.{KEY}, b.{KEY} LIMIT {limit}", values))
        return [edge_of(table, labels, row) for row in rows]

    async def _bounded(self, *asked: Asked) -> list[list[list[Any]]]:
        """Ask for rows that are not too many to be shown."""
        statements: list[Statement] = [(text, values, None, self._max_bytes) for text, values in asked]
        results = await self._opened.run(statements, within=self._timeout_s)
        if any(result.more for result in results):
            raise QueryTimeout(f"What was asked for has more than {self._max_bytes:,} bytes: ask for less.")
        return [result.rows for result in results]

    def _sought_nodes(self, seen: Foreseen) -> Iterator[_Sought]:
        for label, keys in grouped((ref.label, ref.key) for ref in seen.nodes).items():
            if table := self._tables.nodes.get(label):
                yield from ((asked, table, None) for asked in keyed(table, keys))

    def _sought_edges(self, seen: Foreseen) -> Iterator[_Sought]:
        for (says, start, end), some in grouped(((ref.relationship, ref.start[0], ref.end[0]), ref) for ref in seen.edges).items():
            table, ends = self._tables.edges.get(says), self._tables.ends(start, end)
            if table is not None and ends is not None and ends in table.ends:
                match = functools.partial(matched, table, ends)
                rows: list[dict[str, JsonValue]] = [{"a": ref.start[1], "b": ref.end[1]} for ref in some]
                yield from ((asked, table, (start, end)) for asked in for_each(rows, match, then=_EDGE))

    def _sought_around(self, seen: Foreseen) -> Iterator[_Sought]:
        for label, keys in grouped((ref.label, ref.key) for ref in seen.around).items():
            for table, ends, side in self._touching(label):
                then = f"MATCH {pattern(table, ends)} {_EDGE}"
                labels = self._tables.labels(ends)
                yield from ((asked, table, labels) for asked in keyed(self._tables.nodes[label], keys, name=side, then=then))

    def _touching(self, label: str) -> list[tuple[Table, Ends, str]]:
        """Return the tables of edges that begin or end at nodes of a label, and at which side."""
        own = self._tables.nodes.get(label)
        return [
            (table, ends, side)
            for table in self._tables.edges.values()
            for ends in table.ends
            for which, side in zip(ends, "ab", strict=True)
            if own is not None and which == own.name
        ]


def _elements(sought: list[_Sought], found: list[list[list[Any]]]) -> tuple[dict[NodeRef, Node], dict[EdgeRef, Edge]]:
    nodes: dict[NodeRef, Node] = {}
    edges: dict[EdgeRef, Edge] = {}
    for (_, table, labels), rows in zip(sought, found, strict=True):
        if labels is None:
            nodes.update((node_ref(node), node) for node in (node_of(table, row) for row in rows))
        else:
            edges.update((edge_ref(edge), edge) for edge in (edge_of(table, labels, row) for row in rows))
    return nodes, edges
