"""Property graphs on a server that speaks Bolt: Neo4j, ArcadeDB. Needs the extra `neo4j`."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from pydantic import JsonValue

from interlock.errors import (
    CapabilityError,
    QueryTimeout,
    SettingsInvalid,
    StateConflict,
    StoreUnavailable,
    ToolInputInvalid,
)
from interlock.extras import require
from interlock_agents.puntini.graph_store import AddNode, Change, Changed, Edge, Node, NodeRef, Rows, StoredGraph
from interlock_agents.puntini.graphs.bolt_values import KEY, edge_of, node_of, shown, sought, stored, unresolved
from interlock_agents.puntini.graphs.dialects import prepare
from interlock_agents.puntini.graphs.guard import check_name
from interlock_agents.puntini.graphs.steps import EdgeRef, Foreseen, at_least_one, edge_ref, foreseen, grouped, has, kept, node_ref, settled

__all__ = ["BoltGraphs", "open_bolt"]

T = TypeVar("T")
_WRITE_S = 60.0  # for a step
_CONNECT_S = 5.0
_GRACE_S = 0.5  # for the server to end a query by itself
_PAGE = 500
_BATCH = 5_000
_MAX_REASON = 400
_DATABASE = re.compile(r"[a-z][a-z0-9.-]{2,62}")


def open_bolt(
    url: str, *, user: str, password: str, database: str = "{graph}", timeout_s: float, max_rows: int, max_bytes: int
) -> BoltGraphs:
    """Keep graphs on a server. A connection is made when it is first needed.

    `{graph}` in the name of the database stands for the graph's name, or a digest of one that no database can have. Without it all
    graphs are one. The databases have to be there.
    """
    require("neo4j", extra="neo4j", what="Neo4j's client")
    return BoltGraphs(url, user=user, password=password, database=database, timeout_s=timeout_s, max_rows=max_rows, max_bytes=max_bytes)


class _Connected:
    """The driver of one event loop, which ends with it, and whose turn it is to write."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.writing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.life = self._live()

    async def _live(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self.driver.close()


class BoltGraphs:
    """Keeps graphs in the databases of a server.

    A node has its key as the property `key`. What the server cannot keep as it is (an object, a mixed list, a large number) is a text
    there, and beside it, as JSON, in `interlock_kept`.
    """

    def __init__(self, url: str, *, user: str, password: str, database: str, timeout_s: float, max_rows: int, max_bytes: int) -> None:
        self._url, self._user, self._password, self._named = url, user, password, database
        self._timeout_s, self._max_rows, self._max_bytes = timeout_s, max_rows, max_bytes
        self._connected: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connected] = WeakKeyDictionary()
        self._unique: set[tuple[str, str]] = set()

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
        most = at_least_one(limit)
        asked = properties or {}
        where = [f"n.{KEY} {'IS NOT NULL' if key is None else '= $key'}"]
        values: dict[str, JsonValue] = {} if key is None else {"key": key}
        for number, (name, value) in enumerate(asked.items()):
            condition, wanted = sought(f"n.{_quoted(name, 'property')}", f"$p{number}", name, value)
            where.append(condition)
            values[f"p{number}"] = wanted
        text = (
            f"MATCH (n{_label(label)}) WHERE {' AND '.join(where)} RETURN head(labels(n)) AS label, n.{KEY} AS key, properties(n) AS kept "
            f"ORDER BY label, key"
        )
        page = most if not asked else max(most, _PAGE)

        async def find(run: Any) -> tuple[Node, ...]:
            found: list[Node] = []
            skip = 0
            while len(found) < most:
                rows = await self._bounded(run, f"{text} SKIP {skip} LIMIT {page}", values)
                nodes = [node_of(label or row[0], row[1], row[2]) for row in rows]
                found += [node for node in nodes if has(node.properties, asked)]
                skip += page
                if len(rows) < page:
                    break
            return tuple(sorted(found[:most], key=lambda node: (node.label, node.key)))

        return await self._reading(graph, find)

    async def edges(
        self, graph: str, *, start: NodeRef | None = None, end: NodeRef | None = None, relationship: str | None = None, limit: int = 100
    ) -> tuple[Edge, ...]:
        """Find edges, ordered by start, relationship and end."""
        most = at_least_one(limit)
        where = [f"a.{KEY} {'= $a' if start else 'IS NOT NULL'}", f"b.{KEY} {'= $b' if end else 'IS NOT NULL'}"]
        values: dict[str, JsonValue] = {name: ref.key for name, ref in (("a", start), ("b", end)) if ref}
        of = f":{_quoted(relationship, 'relationship')}" if relationship is not None else ""
        text = (
            f"MATCH (a{_label(start.label if start else None)})-[e{of}]->(b{_label(end.label if end else None)}) "
            f"WHERE {' AND '.join(where)} "
            f"RETURN head(labels(a)) AS la, a.{KEY} AS ka, type(e) AS r, properties(e) AS kept, head(labels(b)) AS lb, b.{KEY} AS kb "
            f"ORDER BY la, ka, r, lb, kb LIMIT {most}"
        )

        async def find(run: Any) -> tuple[Edge, ...]:
            rows = await self._bounded(run, text, values)
            found = [
                edge_of((start.label if start else la, ka), name, (end.label if end else lb, kb), properties)
                for la, ka, name, properties, lb, kb in rows
            ]
            return tuple(sorted(found, key=edge_ref))

        return await self._reading(graph, find)

    async def query(self, graph: str, text: str, parameters: dict[str, JsonValue], *, limit: int = 100) -> Rows:
        """Ask in Cypher what only reads. The guard is what makes that so: not every server's reading sessions only read."""
        asked = prepare(text, dialect="neo4j")
        most = self._limited(limit)

        async def find(run: Any) -> Rows:
            columns, records, more = await self._some(run, asked.text, parameters, most)
            missing = unresolved(records)
            known: dict[str, tuple[str, str]] = {}
            if missing:
                ends = f"MATCH (n) WHERE elementId(n) IN $ids RETURN elementId(n), head(labels(n)), n.{KEY}"
                rows = await self._bounded(run, ends, {"ids": cast("JsonValue", sorted(missing))})
                known = {identity: (label, key) for identity, label, key in rows}
            return Rows(columns=columns, rows=tuple(tuple(shown(value, known) for value in row) for row in records), more=more)

        return await self._reading(graph, find)

    async def preview(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Tell what these changes would come to. Nothing is written."""
        seen = foreseen(changes)

        async def find(run: Any) -> Changed:
            return settled(changes, *await self._before(run, seen, holds=False))

        return await self._reading(graph, find)

    async def apply(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Make these changes in their order, all or none."""
        seen = foreseen(changes)
        database = self._database(graph)
        connected = await self._here()
        lock = connected.writing.setdefault(database, asyncio.Lock())
        try:
            async with lock, asyncio.timeout(_WRITE_S):
                await self._constrain(connected, database, {change.node.label for change in changes if isinstance(change, AddNode)})
                async with _transaction(connected, database, timeout=_WRITE_S, writes=True) as run:
                    changed = settled(changes, *await self._before(run, seen))
                    await self._keep(run, changed)
        except TimeoutError as error:
            raise StoreUnavailable("The graph server does not finish the change in time.") from error
        except CapabilityError:
            raise
        except Exception as error:
            raise self._typed(error, writes=True) from error
        return changed

    async def graphs(self) -> tuple[StoredGraph, ...]:
        """Refuse to list: which databases there are is the server's to say."""
        raise StoreUnavailable("These graphs are databases of a server. List them there.")

    async def delete(self, graph: str) -> None:
        """Refuse to delete: all sessions may work on one database."""
        raise StoreUnavailable(f"Graph '{graph:.100}' is database '{self._database(graph)}' of a server. Delete it there.")

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        connected = self._connected.pop(asyncio.get_running_loop(), None)
        if connected is not None:
            await connected.life.aclose()

    # What is read.

    async def _reading(self, graph: str, find: Callable[[Any], Awaitable[T]]) -> T:
        connected = await self._here()
        try:
            async with (
                asyncio.timeout(self._timeout_s + _GRACE_S),
                _transaction(connected, self._database(graph), timeout=self._timeout_s, writes=False) as run,
            ):
                return await find(run)
        except TimeoutError as error:
            raise QueryTimeout(f"The query took longer than {self._timeout_s:g} seconds: ask for less.") from error
        except CapabilityError:
            raise
        except Exception as error:
            raise self._typed(error, writes=False) from error

    async def _some(self, run: Any, text: str, parameters: Mapping[str, JsonValue], most: int) -> tuple[tuple[str, ...], list[Any], bool]:
        result = await run(text, parameters)
        records: list[Any] = []
        size = 0
        async for record in result:
            values = record.values()
            size += len(kept(shown(values, {})).encode())
            if len(records) >= most or size > self._max_bytes:
                return tuple(result.keys()), records, True
            records.append(values)
        return tuple(result.keys()), records, False

    async def _bounded(self, run: Any, text: str, parameters: Mapping[str, JsonValue]) -> list[Any]:
        _, rows, more = await self._some(run, text, parameters, 2**31)
        if more:
            raise QueryTimeout(f"What was asked for has more than {self._max_bytes:,} bytes: ask for less.")
        return rows

    async def _before(self, run: Any, seen: Foreseen, *, holds: bool = True) -> tuple[dict[NodeRef, Node], dict[EdgeRef, Edge]]:
        """Read all that a step is about; where it `holds` them, keep others from changing the nodes until it has ended."""
        nodes: dict[NodeRef, Node] = {}
        for label, keys in grouped((ref.label, ref.key) for ref in seen.nodes).items():
            held = f"SET n.{KEY} = n.{KEY} " if holds else ""
            text = f"UNWIND $rows AS k MATCH (n{_label(label)} {{{KEY}: k}}) {held}RETURN k, properties(n)"
            async for key, properties in _each(run, text, keys):
                node = node_of(label, key, properties)
                nodes[node_ref(node)] = node
        edges: dict[EdgeRef, Edge] = {}
        for (name, start, end), pairs in grouped(
            ((ref.relationship, ref.start[0], ref.end[0]), {"a": ref.start[1], "b": ref.end[1]}) for ref in seen.edges
        ).items():
            text = f"UNWIND $rows AS r {_pattern(name, start, end)} RETURN r.a, properties(e), r.b"
            async for a, properties, b in _each(run, text, pairs):
                edge = edge_of((start, a), name, (end, b), properties)
                edges[edge_ref(edge)] = edge
        for label, keys in grouped((ref.label, ref.key) for ref in seen.around if ref in nodes).items():
            for arrow in (("-", "->"), ("<-", "-")):
                pattern = f"(n{_label(label)} {{{KEY}: k}}){arrow[0]}[e]{arrow[1]}(m)"
                text = f"UNWIND $rows AS k MATCH {pattern} RETURN k, type(e), properties(e), head(labels(m)), m.{KEY}"
                async for key, name, properties, other, other_key in _each(run, text, keys):
                    ends = ((label, key), (other, str(other_key)))
                    edge = edge_of(ends[arrow[0] == "<-"], name, ends[arrow[0] == "-"], properties)
                    edges[edge_ref(edge)] = edge
        return nodes, edges

    # What is written.

    async def _keep(self, run: Any, changed: Changed) -> None:
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

    async def _constrain(self, connected: _Connected, database: str, labels: set[str]) -> None:
        """Make keys unique, so that two processes cannot add one node twice; and found by an index."""
        from neo4j.exceptions import ClientError  # noqa: PLC0415 - an extra

        for label in sorted(labels):
            if (database, label) in self._unique:
                continue
            async with connected.driver.session(database=database) as session:
                try:
                    made = await session.run(f"CREATE CONSTRAINT IF NOT EXISTS FOR (n{_label(label)}) REQUIRE n.{KEY} IS UNIQUE")
                    await made.consume()
                except ClientError as error:
                    if not str(error.code).startswith(("Neo.ClientError.Schema", "Neo.ClientError.Statement")):
                        raise  # a server that has no such thing, or nodes without it, is no reason to do nothing
            self._unique.add((database, label))

    # The server.

    def _database(self, graph: str) -> str:
        plain = graph if _DATABASE.fullmatch(graph) else f"g{hashlib.sha256(graph.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"
        return self._named.replace("{graph}", plain)

    async def _here(self) -> _Connected:
        loop = asyncio.get_running_loop()
        connected = self._connected.get(loop)
        if connected is None:
            connected = self._connected[loop] = _Connected(self._driver())
            await anext(connected.life)
        return connected

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
            raise SettingsInvalid("The address of the graph server is none.") from error

    def _typed(self, error: Exception, *, writes: bool) -> CapabilityError:
        from neo4j import exceptions as failed  # noqa: PLC0415 - an extra

        code = str(getattr(error, "code", None) or "")
        if "TransactionTimedOut" in code or "OutOfMemory" in code or "MemoryPool" in code:
            return QueryTimeout(f"The query took longer than {self._timeout_s:g} seconds, or too much memory: ask for less.")
        if isinstance(error, failed.AuthError) or code.startswith("Neo.ClientError.Security"):
            return StoreUnavailable("The graph server does not take the name and password that are set.")
        if "Database.DatabaseNotFound" in code:
            return StoreUnavailable("The graph server has no database for this graph: make it, or name another one.")
        if isinstance(error, (failed.TransientError, failed.ConstraintError)):
            return StateConflict("Somebody else changes the graph at the same time.")
        if isinstance(error, (failed.DriverError, OSError)):
            return StoreUnavailable("The graph server cannot be reached.")
        if isinstance(error, failed.ClientError) or (isinstance(error, failed.Neo4jError) and not writes):
            return ToolInputInvalid(f"The graph server does not take this: {' '.join(str(error.message).split())[:_MAX_REASON]}")
        if isinstance(error, (ValueError, TypeError, OverflowError)):
            return ToolInputInvalid("The graph server does not take one of the values.")
        return StoreUnavailable("The graph server fails.")

    def _limited(self, limit: int) -> int:
        return min(at_least_one(limit), self._max_rows)


@asynccontextmanager
async def _transaction(connected: _Connected, database: str, *, timeout: float, writes: bool) -> AsyncGenerator[Any, None]:  # noqa: ASYNC109 - the server's
    """Run statements in a transaction. It is committed if it writes and nothing fails; what is left in the middle is dropped."""
    async with connected.driver.session(database=database, default_access_mode="WRITE" if writes else "READ") as session:
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
