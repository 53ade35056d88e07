"""Cypher that writes, taken apart: what it reads first, and the changes that it makes for each row.

No database ever runs such a query. Its reading part is asked like any other query, together with the values that it writes, and the
changes are made like those of any other tool: keys, labels and names are checked, and one transaction has them all.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from pydantic import JsonValue

from interlock.errors import QueryDenied, ToolInputInvalid
from interlock_agents.puntini.graph_store import (
    AddEdge,
    AddNode,
    Change,
    DeleteEdge,
    DeleteNode,
    Edge,
    GraphStore,
    Node,
    NodeRef,
    UpdateEdge,
    UpdateNode,
)
from interlock_agents.puntini.graphs import cypher
from interlock_agents.puntini.graphs.guard import Reader, check_name
from interlock_agents.puntini.graphs.steps import node_ref
from interlock_agents.puntini.graphs.tables import KEY

__all__ = ["changes_of", "is_writing"]

T = TypeVar("T")

MAX_ROWS = 1000
"""For how many rows a query may write."""

_WRITES = ("CREATE", "MERGE", "SET", "REMOVE", "DELETE", "DETACH")


def is_writing(text: str) -> bool:
    """Tell whether a query has a word that writes to the graph, outside of texts, comments and names in backticks."""
    return any(word.upper() in cypher.WRITING for word in cypher.bare_words(text))


async def changes_of(store: GraphStore, graph: str, text: str, parameters: dict[str, JsonValue]) -> tuple[Change, ...]:
    """Find out which changes a query makes. Raises QueryDenied for one that does anything but read and change nodes and edges."""
    writer = _Writer(cypher.cleaned(text))
    writer.parse()
    rows: tuple[tuple[JsonValue, ...], ...] = ((),)
    asked = writer.question()
    if asked is not None:
        found = await store.query(graph, asked, parameters, limit=MAX_ROWS)
        if found.more:
            raise ToolInputInvalid(f"The query writes for more than {MAX_ROWS:,} rows: narrow it down, and do it in parts.")
        rows = found.rows
    changes: list[Change] = []
    for row in rows:
        made = _Row(dict(zip(writer.asked, row, strict=True)))
        for write in writer.writes:
            changes += await made.changes(write, store, graph)
    return _ordered(changes)


def _ordered(changes: list[Change]) -> tuple[Change, ...]:
    """Put what is deleted last, each once, and edges before their nodes: several rows may have the same one."""
    deleted = [change for change in changes if isinstance(change, DeleteEdge | DeleteNode)]
    others = [change for change in changes if not isinstance(change, DeleteEdge | DeleteNode)]
    return *others, *sorted(dict.fromkeys(deleted), key=lambda change: isinstance(change, DeleteNode))


@dataclass(frozen=True)
class _Element:
    """A node or an edge of a pattern: its variable, its label or relationship, and its properties as columns of the rows."""

    variable: str
    name: str | None
    properties: dict[str, str]
    starts_left: bool = True
    """Whether an edge leads from the node before it to the one behind it."""


@dataclass(frozen=True)
class _Create:
    elements: list[_Element]
    merges: bool = False
    on_create: list[_Set] = field(default_factory=list["_Set"])
    on_match: list[_Set] = field(default_factory=list["_Set"])


@dataclass(frozen=True)
class _Set:
    """Properties of a variable that are set, each to a column of the rows, or removed (None)."""

    variable: str
    properties: dict[str, str | None]


@dataclass(frozen=True)
class _Delete:
    variable: str
    detach: bool


_Write = _Create | _Set | _Delete


class _Writer(Reader):
    """Goes through a query that writes: the clauses that read as they are, then the clauses that write, then what it returns."""

    def __init__(self, text: str) -> None:
        super().__init__(cypher.tokens(text, writing=True), "neo4j")
        self._text = text
        self._before = ""
        self._created: set[str] = set()
        self._unnamed = 0
        self.asked: list[str] = []
        """The columns of the rows: variables and values."""
        self._values: dict[str, str] = {}
        self.writes: list[_Write] = []

    def parse(self) -> None:
        while not self._sees_write():
            if not self._reads():
                raise self._unexpected("MATCH, UNWIND, WITH or a clause that writes")
        self._before = self._text[: self._token.start]
        while self._sees_write():
            self.writes += self._write()
        if self._takes("RETURN"):
            self._projection()
        if self._token.kind is not cypher.Kind.END:
            raise self._unexpected("CREATE, MERGE, SET, REMOVE, DELETE or the end")

    def question(self) -> str | None:
        """Return the query for the rows; None where nothing has to be asked."""
        if not self.asked:
            return f"{self._before} RETURN 1 AS `one`" if self._before.strip() else None
        columns = ", ".join(f"{self._values.get(name, f'`{name}`')} AS `c{number}`" for number, name in enumerate(self.asked))
        return f"{self._before} RETURN {columns}"

    def _sees_write(self) -> bool:
        return any(self._sees(word) for word in _WRITES)

    def _write(self) -> Iterator[_Write]:
        if self._takes("CREATE"):
            yield _Create(self._created_path())
            while self._takes(","):
                yield _Create(self._created_path())
        elif self._takes("MERGE"):
            yield self._merged()
        elif self._takes("SET"):
            yield from self._set_items()
        elif self._takes("REMOVE"):
            yield from self._each(self._removed)
        else:
            detach = self._takes("DETACH")
            self._needs("DELETE")
            yield from self._each(lambda: _Delete(self._known(), detach))

    def _each(self, take: Callable[[], T]) -> Iterator[T]:
        yield take()
        while self._takes(","):
            yield take()

    def _merged(self) -> _Create:
        elements, sets = self._created_path(), {"CREATE": list[_Set](), "MATCH": list[_Set]()}
        while self._takes("ON"):
            which = "CREATE" if self._takes("CREATE") else "MATCH"
            if which == "MATCH":
                self._needs("MATCH")
            self._needs("SET")
            sets[which] += self._set_items()
        return _Create(elements, merges=True, on_create=sets["CREATE"], on_match=sets["MATCH"])

    def _set_items(self) -> Iterator[_Set]:
        yield from self._each(self._set_item)

    def _set_item(self) -> _Set:
        variable = self._known()
        if self._takes("."):
            name = check_name(self._named("a property"), "property")
            self._needs("=")
            return _Set(variable, {name: self._value()})
        if self._takes("+", "="):
            return _Set(variable, dict(self._given()))
        raise QueryDenied("SET takes properties: write 'SET n.name = value' or 'SET n += {name: value}'.")

    def _removed(self) -> _Set:
        variable = self._known()
        if not self._takes("."):
            raise QueryDenied("REMOVE takes properties: write 'REMOVE n.name'. The label of a node stays what it is.")
        return _Set(variable, {check_name(self._named("a property"), "property"): None})

    # Patterns

    def _created_path(self) -> list[_Element]:
        found = [self._created_node()]
        while self._sees("-") or self._sees("<", "-"):
            found += [self._created_edge(), self._created_node()]
        return found

    def _created_node(self) -> _Element:
        self._needs("(")
        variable = self._new_variable()
        label = check_name(self._named("a label"), "label") if self._takes(":") else None
        properties = dict(self._given()) if self._sees("{") else {}
        self._needs(")")
        if label is None and not properties and variable not in self._created:
            self._ask(variable)
        elif label is None or KEY not in properties:
            raise QueryDenied("A new node has one label and a key: write (:Task {key: 'Design'}).")
        else:
            self._created.add(variable)
        return _Element(variable, label, properties)

    def _created_edge(self) -> _Element:
        is_retired = self._takes("<")
        self._needs("-", "[")
        variable = self._new_variable()
        self._needs(":")
        name = check_name(self._named("a relationship"), "relationship")
        properties = dict(self._given()) if self._sees("{") else {}
        self._needs("]", "-")
        if not is_retired:
            self._needs(">")
        self._created.add(variable)
        return _Element(variable, name, properties, starts_left=not is_retired)

    def _new_variable(self) -> str:
        if self._is_variable():
            return self._named("a variable")
        self._unnamed += 1
        return f" {self._unnamed}"

    def _given(self) -> Iterator[tuple[str, str]]:
        """Take a map of properties, each with the column that has its value."""
        self._needs("{")
        while not self._takes("}"):
            name = check_name(self._named("a property"), "property")
            self._needs(":")
            yield name, self._value()
            if not self._sees("}"):
                self._needs(",")

    # Names and values

    def _named(self, wanted: str) -> str:
        token = self._token
        self._name(wanted)
        return token.text.strip("`")

    def _known(self) -> str:
        """Take a variable that the query has: one that it reads, or one that it has created."""
        variable = self._named("a variable")
        if variable not in self._created:
            self._ask(variable)
        return variable

    def _ask(self, variable: str) -> None:
        if variable not in self.asked:
            self.asked.append(variable)

    def _value(self) -> str:
        begun = self._at
        self._expression()
        used = self._tokens[begun : self._at]
        if any(token.text.strip("`") in self._created for token in used if token.kind in {cypher.Kind.WORD, cypher.Kind.QUOTED}):
            raise QueryDenied("A value cannot be made of what the same query creates: write it in two queries.")
        column = f" value {len(self._values)}"
        self._values[column] = self._text[used[0].start : self._token.start].strip()
        self.asked.append(column)
        return column


class _Row:
    """One row of what is read, and what is created for it."""

    def __init__(self, values: Mapping[str, JsonValue]) -> None:
        self._values = dict(values)

    async def changes(self, write: _Write, store: GraphStore, graph: str) -> list[Change]:
        match write:
            case _Create():
                return [change async for change in self._create(write, store, graph)]
            case _Set(variable=variable, properties=properties):
                return self._update(variable, {name: None if of is None else self._values[of] for name, of in properties.items()})
            case _Delete(variable=variable, detach=detach):
                return self._delete(variable, detach=detach)

    async def _create(self, write: _Create, store: GraphStore, graph: str) -> AsyncGenerator[Change, None]:
        nodes = [self._node(element) for element in write.elements[::2]]
        for element, node in zip(write.elements[::2], nodes, strict=True):
            if element.name is None:
                continue
            is_there = write.merges and bool(await store.nodes(graph, label=node.label, key=node.key, limit=1))
            if write.merges and node.properties:
                raise QueryDenied("MERGE finds a node by its key alone: write MERGE (n:Task {key: 'Design'}) SET n.name = value.")
            if not write.merges and await store.nodes(graph, label=node.label, key=node.key, limit=1):
                raise ToolInputInvalid(f"There is a {node.label} '{node.key[:100]}' already. MERGE takes the one that is there.")
            yield AddNode(node=node)
            for one in write.on_match if is_there else write.on_create:
                for change in await self.changes(one, store, graph):
                    yield change
        for element, start, end in zip(write.elements[1::2], nodes, nodes[1:], strict=False):
            ends = (start, end) if element.starts_left else (end, start)
            refs = [node_ref(node) for node in ends]
            properties = {name: self._values[of] for name, of in element.properties.items()}
            edge = Edge(start=refs[0], end=refs[1], relationship=str(element.name), properties=properties)
            self._values[element.variable] = _as_data(edge)
            yield AddEdge(edge=edge)

    def _node(self, element: _Element) -> Node:
        """Return the node of a pattern: one that was read or created before, or a new one."""
        if element.name is None:
            known = self._values.get(element.variable)
            if not isinstance(known, dict) or KEY not in known:
                raise ToolInputInvalid("An edge needs a node at both ends, and one of them is none.")
            return Node(label=str(known["label"]), key=str(known[KEY]))
        properties = {name: self._values[of] for name, of in element.properties.items()}
        key = properties.pop(KEY)
        if not isinstance(key, str):
            raise ToolInputInvalid("The key of a node is a text.")
        self._values[element.variable] = {"label": element.name, KEY: key, "properties": properties}
        return Node(label=element.name, key=key, properties=properties)

    def _update(self, variable: str, properties: dict[str, JsonValue]) -> list[Change]:
        found = self._values.get(variable)
        if not isinstance(found, dict):
            return []
        if KEY in properties:
            raise QueryDenied("The key of a node is its name: rename it by 'update_props'.")
        if KEY in found:
            return [UpdateNode(ref=_ref(found), properties=properties)]
        start, end, name = _ends(found)
        return [UpdateEdge(start=start, end=end, relationship=name, properties=properties)]

    def _delete(self, variable: str, *, detach: bool) -> list[Change]:
        found = self._values.get(variable)
        if not isinstance(found, dict):
            return []
        if KEY in found:
            return [DeleteNode(ref=_ref(found), detach=detach)]
        start, end, name = _ends(found)
        return [DeleteEdge(start=start, end=end, relationship=name)]


def _ref(data: Mapping[str, Any]) -> NodeRef:
    return NodeRef(label=str(data["label"]), key=str(data[KEY]))


def _ends(data: Mapping[str, Any]) -> tuple[NodeRef, NodeRef, str]:
    if "relationship" not in data:
        raise ToolInputInvalid("Only nodes and edges can be changed or deleted, and this is neither.")
    return _ref(data["start"]), _ref(data["end"]), str(data["relationship"])


def _as_data(edge: Edge) -> JsonValue:
    ends = {name: {"label": ref.label, KEY: ref.key} for name, ref in (("start", edge.start), ("end", edge.end))}
    return cast("JsonValue", {**ends, "relationship": edge.relationship, "properties": edge.properties})
