"""One graph in a ladybug file: reading its tables, and changing them in transactions. All methods block; one thread calls them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pydantic import JsonValue

from interlock.errors import InterlockError, QueryTimeout, SessionBusy, StoreCorrupt
from interlock_agents.puntini.errors import NotInGraph
from interlock_agents.puntini.graph_store import Change, Changed, Edge, EdgeRef, Node, NodeRef, Rows, grouped
from interlock_agents.puntini.graphs.checksums import Checksums
from interlock_agents.puntini.graphs.effects import Needed, effect_of, has, needed_for
from interlock_agents.puntini.graphs.process import LadybugProcess, Statement, open_elsewhere
from interlock_agents.puntini.graphs.results import plain_rows
from interlock_agents.puntini.graphs.statements import Target, writing_statements
from interlock_agents.puntini.graphs.tables import KEPT, KEY, Table, Tables, quoted, widened

__all__ = ["TITLE", "LadybugFile"]

TITLE = ".title"
"""The suffix of the file with the name of a graph. The other files have a digest of it as their name."""

_PAGE = 500
_PAUSE_S = 0.02  # between two checks whether another process has closed the file
_Search = tuple[Statement, Target]


class LadybugFile:
    """Reads and changes one graph. The process that has its file open is started when it is needed."""

    def __init__(self, path: Path, *, name: str, timeout_s: float, max_bytes: int) -> None:
        self._path, self._checksums, self._name = path, Checksums(path), name
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._process: LadybugProcess | None = None
        self._tables = Tables()

    @property
    def is_open(self) -> bool:
        """Whether a process has it open."""
        return self._process is not None and self._process.is_ours()

    @property
    def pid(self) -> int | None:
        """The process that has it open, if any."""
        return None if self._process is None else self._process.pid

    def _opened(self) -> LadybugProcess:
        """Return the process that has the file open. Raises SessionBusy if another process keeps it open for too long."""
        if self._process is not None and self._process.is_ours():
            return self._process
        self.kill()
        for folder in reversed([folder for folder in self._path.parents if not folder.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        with self._checksums.file.open("ab"):  # to get the system's own error if that is not possible
            self._checksums.file.chmod(0o600)
        if self._path.exists():
            with self._path.open("r+b"):
                self._path.chmod(0o600)
        if not self._path.with_suffix(TITLE).exists():
            self._write_title()
        self._process = self._start_process(time.monotonic() + self._timeout_s)
        self._tables = Tables()
        return self._process

    def _write_title(self) -> None:
        """Write the name of the graph atomically: another process may write it at the same time."""
        with NamedTemporaryFile(dir=self._path.parent, prefix=f"{self._path.stem}.", delete=False) as new:
            made = Path(new.name)
        try:
            made.write_text(self._name, encoding="utf-8", errors="surrogatepass")
            made.replace(self._path.with_suffix(TITLE))
        finally:
            made.unlink(missing_ok=True)

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

    def remove(self) -> None:
        """Delete the graph. A file that cannot be read can be deleted too."""
        with suppress(StoreCorrupt):
            self._opened()
        self.close()
        for file in self._path.parent.glob(f"{self._path.stem}.*"):
            file.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file. It is opened again when it is needed."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def kill(self) -> None:
        """Kill the process that has the file open. Another thread may call this, to end a call that its caller has abandoned."""
        if self._process is not None:
            self._process.kill()

    # Reading.

    def nodes(self, *, label: str | None, key: str | None, properties: Mapping[str, JsonValue], limit: int) -> tuple[Node, ...]:
        """Find nodes, ordered by label and key."""
        tables = self._read_tables()
        found: list[Node] = []
        for name in sorted(tables.nodes) if label is None else [label]:
            table = tables.nodes.get(name)
            if table is not None and len(found) < limit:
                found += self._nodes_of(table, key, properties, limit - len(found))
        return tuple(found)

    def _nodes_of(self, table: Table, key: str | None, properties: Mapping[str, JsonValue], limit: int) -> list[Node]:
        where = [] if key is None else [f"e.{KEY} = $key"]
        values: dict[str, JsonValue] = {} if key is None else {"key": key}
        for number, (name, value) in enumerate(properties.items()):
            column = table.column(name)
            if column is None:
                where.append(f"e.{KEPT} IS NOT NULL" if value is not None else "true")
            elif value is None:
                where.append(f"e.{quoted(name)} IS NULL")
            elif widened(column.type, value) != column.type:
                return []  # storing this value would have widened the column
            else:
                where.append(f"e.{quoted(name)} = CAST($p{number} AS {column.type})")
                values[f"p{number}"] = table.row({name: value}, [column])["c0"]
        target, found, page = Target(table, None, ("", "")), list[Node](), limit if not properties else max(limit, _PAGE)
        statement = f"MATCH {target.pattern} {_where(where)} {target.returned} ORDER BY e.{KEY}"
        for skip in range(0, 2**62, page):
            (rows,) = self._read([(f"{statement} SKIP {skip} LIMIT {page}", values)])
            nodes = [node for row in rows if isinstance(node := target.element(row), Node)]
            found += [node for node in nodes if has(node.properties, properties)]
            if len(rows) < page or len(found) >= limit:
                break
        return found[:limit]

    def edges(self, *, start: NodeRef | None, end: NodeRef | None, relationship: str | None, limit: int) -> tuple[Edge, ...]:
        """Find edges, ordered by start, relationship and end."""
        tables = self._read_tables()
        found: list[Edge] = []
        for name, table in tables.edges.items():
            for ends in table.ends if relationship in {None, name} else ():
                target, refs = Target(table, ends, tables.labels(ends)), {"a": start, "b": end}
                if all(ref is None or ref.label == label for ref, label in zip(refs.values(), target.labels, strict=True)):
                    values = {side: ref.key for side, ref in refs.items() if ref is not None}
                    where = _where([f"{side}.{KEY} = ${side}" for side in values])
                    statement = f"MATCH {target.pattern} {where} {target.returned} ORDER BY a.{KEY}, b.{KEY} LIMIT {limit}"
                    (rows,) = self._read([(statement, values)])
                    found += [edge for row in rows if isinstance(edge := target.element(row), Edge)]
        return tuple(sorted(found, key=lambda edge: edge.ref)[:limit])

    def query(self, text: str, parameters: Mapping[str, JsonValue], *, limit: int) -> Rows:
        """Run a query that was checked, in a transaction that cannot write."""
        tables, process = self._read_tables(), self._opened()
        query: list[Statement] = [("BEGIN TRANSACTION READ ONLY", {}), (text, parameters, limit, self._max_bytes), ("ROLLBACK", {})]
        try:
            _, result, _ = process.run(query, within=self._timeout_s)
        except InterlockError as error:
            process.roll_back()
            if isinstance(error, NotInGraph):
                raise NotInGraph(f"{error.message} {tables.summary()}") from error
            raise
        return Rows(columns=result.columns, rows=plain_rows(result.rows, tables, self._read), more=result.more)

    def _read(self, statements: Sequence[Statement]) -> list[list[list[Any]]]:
        """Return the rows of statements. Raises QueryTimeout if they have too many bytes."""
        limited: list[Statement] = [(text, values, None, self._max_bytes) for text, values, *_ in statements]
        results = self._opened().run(limited, within=self._timeout_s) if statements else []
        if any(result.more for result in results):
            raise QueryTimeout(f"The result has more than {self._max_bytes:,} bytes: ask for less.")
        return [result.rows for result in results]

    def _read_tables(self) -> Tables:
        """Return the tables of the file, from the database unless they are known."""
        process = self._opened()
        if self._tables.nodes:
            return self._tables
        tables = Tables()
        (found,) = process.read([("CALL show_tables() RETURN *", {})])
        known = [tables.add(comment or name, is_edges=kind == "REL", name=name) for _, name, kind, _, comment in found]
        edges = [table for table in known if table.is_edges]
        columns: list[Statement] = [(f"CALL table_info('{table.name}') RETURN *", {}) for table in known]
        ends: list[Statement] = [(f"CALL show_connection('{table.name}') RETURN *", {}) for table in edges]
        rows = process.read([*columns, *ends])
        for table, some in zip(known, rows, strict=False):
            for _, column, type_, *_ in some:
                table.add_column(column, type_)
        for table, some in zip(edges, rows[len(known) :], strict=True):
            table.ends = {(start, end) for start, end, *_ in some}
        self._tables = tables
        return tables

    # Changing.

    def preview(self, changes: tuple[Change, ...]) -> Changed:
        """Return what these changes would change."""
        needed = needed_for(changes)
        self._read_tables()
        searches = list(self._searches(needed))
        nodes: dict[NodeRef, Node] = {}
        edges: dict[EdgeRef, Edge] = {}
        for (_, target), rows in zip(searches, self._opened().read([statement for statement, _ in searches]), strict=True):
            for element in map(target.element, rows):
                if isinstance(element, Node):
                    nodes[element.ref] = element
                else:
                    edges[element.ref] = element
        return effect_of(changes, nodes, edges)

    def apply(self, changes: tuple[Change, ...]) -> Changed:
        """Apply these changes, all or none."""
        changed = self.preview(changes)
        try:
            process = self._opened()
            statements = writing_statements(changed, self._tables, process.read)
            if statements:
                process.commit(statements, self._checksums)
        except BaseException:
            self._tables = Tables()
            raise
        return changed

    def _searches(self, needed: Needed) -> Iterator[_Search]:
        """Yield the statements that read what changes need."""
        tables = self._tables
        for label, keys in grouped((ref.label, ref.key) for ref in needed.nodes).items():
            if table := tables.nodes.get(label):
                target = Target(table, None, ("", ""))
                yield from ((one, target) for one in target.each([{"a": key} for key in keys], lambda _, t=target: t.returned))
        for (name, start, end), refs in grouped(((ref.relationship, ref.start.label, ref.end.label), ref) for ref in needed.edges).items():
            pairs: list[dict[str, JsonValue]] = [{"a": ref.start.key, "b": ref.end.key} for ref in refs]
            table, ends = tables.edges.get(name), tables.ends(start, end)
            if table is not None and ends is not None and ends in table.ends:
                target = Target(table, ends, (start, end))
                yield from ((one, target) for one in target.each(pairs, lambda _, t=target: t.returned))
        for label, keys in grouped((ref.label, ref.key) for ref in needed.around).items():
            for target, side in self._touching(label):
                statement = f"UNWIND $keys AS k MATCH ({side}:{quoted(tables.nodes[label].name)} {{{KEY}: k}}) MATCH {target.pattern}"
                yield (f"{statement} {target.returned}", {"keys": keys}), target

    def _touching(self, label: str) -> list[tuple[Target, str]]:
        """Return the tables of edges that start or end at nodes of a label, and the side of these nodes."""
        own, found = self._tables.nodes.get(label), list[tuple[Target, str]]()
        for table in self._tables.edges.values() if own is not None else ():
            for ends in table.ends:
                target = Target(table, ends, self._tables.labels(ends))
                found += [(target, side) for name, side in zip(ends, "ab", strict=True) if own is not None and name == own.name]
        return found


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""
