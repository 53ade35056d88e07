"""Property graphs on a server that speaks Bolt: Neo4j, ArcadeDB. Needs the extra `neo4j`."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from pydantic import JsonValue

from interlock.errors import CapabilityError, QueryTimeout, SettingsInvalid, StateConflict, StoreUnavailable, ToolInputInvalid
from interlock.extras import require
from interlock_agents.puntini.graph_store import (
    AddNode,
    Change,
    Changed,
    Edge,
    EdgeRef,
    Node,
    NodeRef,
    Rows,
    StoredGraph,
    grouped,
    to_json,
)
from interlock_agents.puntini.graphs.bolt_values import condition, edge_of, node_of, plain, stored, unresolved_nodes
from interlock_agents.puntini.graphs.dialects import prepare
from interlock_agents.puntini.graphs.effects import Needed, check_limit, effect_of, has, needed_for
from interlock_agents.puntini.graphs.guard import check_name
from interlock_agents.puntini.graphs.tables import KEY

__all__ = ["BoltGraphs", "open_bolt"]

_WRITE_S = 60.0  # for one transaction that writes
_CONNECT_S = 5.0
_GRACE_S = 0.5  # for the server to end a query by itself
_PAGE = 500
_BATCH = 5_000
_MAX_REASON = 400
_DATABASE = re.compile(r"[a-z][a-z0-9.-]{2,62}")


def open_bolt(
    url: str, *, user: str, password: str, database: str = "{graph}", timeout_s: float, max_rows: int, max_bytes: int
) -> BoltGraphs:
    """Store graphs on a server, which is connected to when it is first needed.

    `{graph}` in the name of the database is replaced by the name of the graph, or by a digest if a database cannot have that name.
    Without it, all graphs share one database. The databases have to exist.
    """
    require("neo4j", extra="neo4j", what="Neo4j's client")
    return BoltGraphs(url, user=user, password=password, database=database, timeout_s=timeout_s, max_rows=max_rows, max_bytes=max_bytes)


class _Connection:
    """The driver of one event loop, which is closed with the loop, and a lock for each database that is written to."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.writing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # asyncio.run closes the generators of its event loop that are still suspended.
        self.life = self._live()

    async def _live(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self.driver.close()


class BoltGraphs:
    """Stores graphs in the databases of a server.

    The key of a node is its property `key`. A value that the server cannot store (an object, a mixed list, a large number) is a text
    there, and JSON in `interlock_kept`.
    """

    def __init__(self, url: str, *, user: str, password: str, database: str, timeout_s: float, max_rows: int, max_bytes: int) -> None:
        self._url, self._user, self._password, self._database_name = url, user, password, database
        self._timeout_s, self._max_rows, self._max_bytes = timeout_s, max_rows, max_bytes
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connection] = WeakKeyDictionary()
        self._constrained: set[tuple[str, str]] = set()

    async def nodes(
        self,
        graph: str,
        *,
        label: str | None = None,
        key: str | None = None,
        properties: dict[str, JsonValue] | None = None,
        limit: int = 100,
    ) -> tuple[Node, ...]:
        """Find nodes, ordered by label and key."""
        most, wanted = check_limit(limit), properties or {}
        where = [f"n.{KEY} {'IS NOT NULL' if key is None else '= $key'}"]
        values: dict[str, JsonValue] = {} if key is None else {"key": key}
        for number, (name, value) in enumerate(wanted.items()):
            test, values[f"p{number}"] = condition(f"n.{_quoted(name, 'property')}", f"$p{number}", name, value)
            where.append(test)
        text = (
            f"MATCH (n{_label(label)}) WHERE {' AND '.join(where)} RETURN head(labels(n)) AS label, n.{KEY} AS key, properties(n) AS kept "
            f"ORDER BY label, key"
        )
        page, found = most if not wanted else max(most, _PAGE), list[Node]()
        async with self._transaction(graph) as run:
            for skip in range(0, 2**62, page):
                rows = await self._all(run, f"{text} SKIP {skip} LIMIT {page}", values)
                nodes = [node_of(label or row[0], row[1], row[2]) for row in rows]
                found += [node for node in nodes if has(node.properties, wanted)]
                if len(rows) < page or len(found) >= most:
                    break
        return tuple(sorted(found[:most], key=lambda node: node.ref))

    async def edges(
        self, graph: str, *, start: NodeRef | None = None, end: NodeRef | None = None, relationship: str | None = None, limit: int = 100
    ) -> tuple[Edge, ...]:
        """Find edges, ordered by start, relationship and end."""
        most = check_limit(limit)
        where = [f"a.{KEY} {'= $a' if start else 'IS NOT NULL'}", f"b.{KEY} {'= $b' if end else 'IS NOT NULL'}"]
        values: dict[str, JsonValue] = {name: ref.key for name, ref in (("a", start), ("b", end)) if ref}
        of = f":{_quoted(relationship, 'relationship')}" if relationship is not None else ""
        text = (
            f"MATCH (a{_label(start.label if start else None)})-[e{of}]->(b{_label(end.label if end else None)}) "
            f"WHERE {' AND '.join(where)} "
            f"RETURN head(labels(a)) AS la, a.{KEY} AS ka, type(e) AS r, properties(e) AS kept, head(labels(b)) AS lb, b.{KEY} AS kb "
            f"ORDER BY la, ka, r, lb, kb LIMIT {most}"
        )
        async with self._transaction(graph) as run:
            rows = await self._all(run, text, values)
        found = [
            edge_of((start.label if start else la, ka), name, (end.label if end else lb, kb), properties)
            for la, ka, name, properties, lb, kb in rows
        ]
        return tuple(sorted(found, key=lambda edge: edge.ref))

    async def query(self, graph: str, text: str, parameters: dict[str, JsonValue], *, limit: int = 100) -> Rows:
        """Run a read-only Cypher query. Only the guard ensures that it does not write: some servers write in reading sessions."""
        prepared, most = prepare(text, dialect="neo4j"), min(check_limit(limit), self._max_rows)
        async with self._transaction(graph) as run:
            columns, records, more = await self._some(run, prepared.text, parameters, most)
            ids, known = set(unresolved_nodes(records)), dict[str, tuple[str, str]]()
            if ids:
                ends = f"MATCH (n) WHERE elementId(n) IN $ids RETURN elementId(n), head(labels(n)), n.{KEY}"
                rows = await self._all(run, ends, {"ids": cast("JsonValue", sorted(ids))})
                known = {identity: (label, key) for identity, label, key in rows}
        return Rows(columns=columns, rows=tuple(tuple(plain(value, known) for value in row) for row in records), more=more)

    async def preview(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Return what these changes would change. Nothing is written."""
        needed = needed_for(changes)
        async with self._transaction(graph) as run:
            return effect_of(changes, *await self._before(run, needed, locks=False))

    async def apply(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Apply these changes in order, all or none."""
        needed = needed_for(changes)
        new_labels = {change.node.label for change in changes if isinstance(change, AddNode)}
        async with self._transaction(graph, writes=True, new_labels=new_labels) as run:
            changed = effect_of(changes, *await self._before(run, needed))
            await self._write(run, changed)
        return changed

    async def graphs(self) -> tuple[StoredGraph, ...]:
        """Raise StoreUnavailable: only the server can list its databases."""
        raise StoreUnavailable("These graphs are databases of a server. List them there.")

    async def delete(self, graph: str) -> None:
        """Raise StoreUnavailable: all sessions may share one database."""
        raise StoreUnavailable(f"Graph '{graph:.100}' is database '{self._database(graph)}' of a server. Delete it there.")

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.life.aclose()

    @asynccontextmanager
    async def _transaction(self, graph: str, *, writes: bool = False, new_labels: Iterable[str] = ()) -> AsyncGenerator[Any, None]:
        """Run statements in a transaction. It is committed if it writes and nothing fails, and otherwise rolled back.

        Transactions that write to one database take turns. The keys of new labels are made unique first.
        """
        connection, database = await self._connection(), self._database(graph)
        seconds = _WRITE_S if writes else self._timeout_s
        lock = connection.writing.setdefault(database, asyncio.Lock()) if writes else nullcontext()
        try:
            async with lock, asyncio.timeout(seconds if writes else seconds + _GRACE_S):
                await self._constrain(connection, database, new_labels)
                async with _begun(connection, database, timeout=seconds, writes=writes) as run:
                    yield run
        except TimeoutError as error:
            if writes:
                raise StoreUnavailable("The graph server did not finish the change in time.") from error
            raise QueryTimeout(f"The query took longer than {seconds:g} seconds: ask for less.") from error
        except CapabilityError:
            raise
        except Exception as error:
            raise self._error(error, writes=writes) from error

    # Reading.

    async def _some(self, run: Any, text: str, parameters: Mapping[str, JsonValue], most: int) -> tuple[tuple[str, ...], list[Any], bool]:
        result = await run(text, parameters)
        records: list[Any] = []
        size = 0
        async for record in result:
            values = record.values()
            size += len(to_json(plain(values, {})).encode())
            if len(records) >= most or size > self._max_bytes:
                return tuple(result.keys()), records, True
            records.append(values)
        return tuple(result.keys()), records, False

    async def _all(self, run: Any, text: str, parameters: Mapping[str, JsonValue]) -> list[Any]:
        _, rows, more = await self._some(run, text, parameters, 2**31)
        if more:
            raise QueryTimeout(f"The result has more than {self._max_bytes:,} bytes: ask for less.")
        return rows

    async def _before(self, run: Any, needed: Needed, *, locks: bool = True) -> tuple[dict[NodeRef, Node], dict[EdgeRef, Edge]]:
        """Read what changes need. If it `locks` the nodes, no other transaction can change them until this one has ended."""
        nodes: dict[NodeRef, Node] = {}
        for label, keys in grouped((ref.label, ref.key) for ref in needed.nodes).items():
            lock = f"SET n.{KEY} = n.{KEY} " if locks else ""
            text = f"UNWIND $rows AS k MATCH (n{_label(label)} {{{KEY}: k}}) {lock}RETURN k, properties(n)"
            async for key, properties in _each(run, text, keys):
                node = node_of(label, key, properties)
                nodes[node.ref] = node
        edges: dict[EdgeRef, Edge] = {}
        for (name, start, end), pairs in grouped(
            ((ref.relationship, ref.start.label, ref.end.label), {"a": ref.start.key, "b": ref.end.key}) for ref in needed.edges
        ).items():
            text = f"UNWIND $rows AS r {_pattern(name, start, end)} RETURN r.a, properties(e), r.b"
            async for a, properties, b in _each(run, text, pairs):
                edge = edge_of((start, a), name, (end, b), properties)
                edges[edge.ref] = edge
        for label, keys in grouped((ref.label, ref.key) for ref in needed.around if ref in nodes).items():
            for arrow in (("-", "->"), ("<-", "-")):
                pattern = f"(n{_label(label)} {{{KEY}: k}}){arrow[0]}[e]{arrow[1]}(m)"
                text = f"UNWIND $rows AS k MATCH {pattern} RETURN k, type(e), properties(e), head(labels(m)), m.{KEY}"
                async for key, name, properties, other, other_key in _each(run, text, keys):
                    ends = ((label, key), (other, str(other_key)))
                    edge = edge_of(ends[arrow[0] == "<-"], name, ends[arrow[0] == "-"], properties)
                    edges[edge.ref] = edge
        return nodes, edges

    # Writing.

    async def _write(self, run: Any, changed: Changed) -> None:
        writes: list[tuple[str, list[Any]]] = []
        for (name, start, end), some in _by_kind(changed.edges_removed).items():
            writes.append((f"{_pattern(name, start, end)} DELETE e", some))
        for label, some in _by_label(changed.nodes_removed).items():
            writes.append((f"MATCH (n{_label(label)} {{{KEY}: r.key}}) DETACH DELETE n", some))
        for label, some in _by_label(changed.nodes_added).items():
            writes.append((f"MERGE (n{_label(label)} {{{KEY}: r.key}}) ON CREATE SET n += r.properties", some))
        for label, some in _by_label(changed.nodes_changed).items():
            writes.append((f"MATCH (n{_label(label)} {{{KEY}: r.key}}) SET n = r.properties", some))
        for (name, start, end), some in _by_kind(changed.edges_added).items():
            ends = f"MATCH (a{_label(start)} {{{KEY}: r.a}}) MATCH (b{_label(end)} {{{KEY}: r.b}})"
            writes.append((f"{ends} MERGE (a)-[e:{_quoted(name, 'relationship')}]->(b) ON CREATE SET e += r.properties", some))
        for (name, start, end), some in _by_kind(changed.edges_changed).items():
            writes.append((f"{_pattern(name, start, end)} SET e = r.properties", some))
        for text, rows in writes:
            async for _ in _each(run, f"UNWIND $rows AS r {text}", rows):
                pass

    async def _constrain(self, connection: _Connection, database: str, labels: Iterable[str]) -> None:
        """Create a constraint that makes keys unique, so that two processes cannot add the same node. It is also an index."""
        from neo4j.exceptions import ClientError  # noqa: PLC0415 - an extra

        for label in sorted(labels):
            if (database, label) in self._constrained:
                continue
            async with connection.driver.session(database=database) as session:
                try:
                    made = await session.run(f"CREATE CONSTRAINT IF NOT EXISTS FOR (n{_label(label)}) REQUIRE n.{KEY} IS UNIQUE")
                    await made.consume()
                except ClientError as error:
                    if not str(error.code).startswith(("Neo.ClientError.Schema", "Neo.ClientError.Statement")):
                        raise  # the server has no constraints, or existing nodes violate this one: write without it
            self._constrained.add((database, label))

    # The server.

    def _database(self, graph: str) -> str:
        plain = graph if _DATABASE.fullmatch(graph) else f"g{hashlib.sha256(graph.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"
        return self._database_name.replace("{graph}", plain)

    async def _connection(self) -> _Connection:
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            connection = self._connections[loop] = _Connection(self._driver())
            await anext(connection.life)
        return connection

    def _driver(self) -> Any:
        from neo4j import AsyncGraphDatabase  # noqa: PLC0415 - an extra
        from neo4j.exceptions import ConfigurationError  # noqa: PLC0415

        try:
            return AsyncGraphDatabase.driver(
                self._url,
                auth=(self._user, self._password),
                connection_timeout=_CONNECT_S,
                connection_acquisition_timeout=_CONNECT_S + _CONNECT_S,
                max_transaction_retry_time=0,
                telemetry_disabled=True,
                user_agent="interlock",
            )
        except (ConfigurationError, ValueError) as error:
            raise SettingsInvalid("The address of the graph server is not valid.") from error

    def _error(self, error: Exception, *, writes: bool) -> CapabilityError:
        from neo4j import exceptions as failed  # noqa: PLC0415 - an extra

        code = str(getattr(error, "code", None) or "")
        if "TransactionTimedOut" in code or "OutOfMemory" in code or "MemoryPool" in code:
            return QueryTimeout(f"The query took longer than {self._timeout_s:g} seconds, or too much memory: ask for less.")
        if isinstance(error, failed.AuthError) or code.startswith("Neo.ClientError.Security"):
            return StoreUnavailable("The graph server rejects the configured user and password.")
        if "Database.DatabaseNotFound" in code:
            return StoreUnavailable("The graph server has no database for this graph: create it, or configure another one.")
        if isinstance(error, (failed.TransientError, failed.ConstraintError)):
            return StateConflict("Another transaction changes the graph at the same time.")
        if isinstance(error, (failed.DriverError, OSError)):
            return StoreUnavailable("The graph server cannot be reached.")
        if isinstance(error, failed.ClientError) or (isinstance(error, failed.Neo4jError) and not writes):
            return ToolInputInvalid(f"The graph server rejects this: {' '.join(str(error.message).split())[:_MAX_REASON]}")
        if isinstance(error, (ValueError, TypeError, OverflowError)):
            return ToolInputInvalid("The graph server rejects one of the values.")
        return StoreUnavailable("The graph server failed.")


@asynccontextmanager
async def _begun(connection: _Connection, database: str, *, timeout: float, writes: bool) -> AsyncGenerator[Any, None]:  # noqa: ASYNC109 - the server's
    async with connection.driver.session(database=database, default_access_mode="WRITE" if writes else "READ") as session:
        transaction = await session.begin_transaction(timeout=timeout)
        try:
            yield transaction.run
            if writes:
                await transaction.commit()
            else:
                await transaction.rollback()
        except asyncio.CancelledError:
            transaction.cancel()
            raise
        finally:
            await transaction.close()


async def _each(run: Any, text: str, rows: list[Any]) -> AsyncGenerator[Any, None]:
    for first in range(0, len(rows), _BATCH):
        result = await run(text, {"rows": rows[first : first + _BATCH]})
        for record in await result.values():
            yield record


def _quoted(name: str, what: str) -> str:
    return f"`{check_name(name, what)}`"


def _label(label: str | None) -> str:
    return "" if label is None else f":{_quoted(label, 'label')}"


def _pattern(name: str, start: str, end: str) -> str:
    a, b = f"(a{_label(start)} {{{KEY}: r.a}})", f"(b{_label(end)} {{{KEY}: r.b}})"
    return f"MATCH {a}-[e:{_quoted(name, 'relationship')}]->{b}"


def _by_label(nodes: Iterable[Node]) -> dict[str, list[Any]]:
    return grouped((node.label, {"key": node.key, "properties": {**stored(node.properties), KEY: node.key}}) for node in nodes)


def _by_kind(edges: Iterable[Edge]) -> dict[tuple[str, str, str], list[Any]]:
    return grouped(
        (
            (edge.relationship, edge.start.label, edge.end.label),
            {"a": edge.start.key, "b": edge.end.key, "properties": stored(edge.properties)},
        )
        for edge in edges
    )
