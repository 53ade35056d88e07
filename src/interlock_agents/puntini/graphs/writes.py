"""Cypher that writes: what it reads first, and the changes that it makes for each row.

No database runs such a query. Its reading part runs like any other query, together with the values to write. The changes are applied
like those of the other tools: keys, labels and names are checked, and one transaction applies all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, cast

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
from interlock_agents.puntini.graphs.cypher import Kind
from interlock_agents.puntini.graphs.grammar import Tree, parse
from interlock_agents.puntini.graphs.guard import check_limits, check_name
from interlock_agents.puntini.graphs.tables import KEY

__all__ = ["changes_of", "is_writing"]

MAX_ROWS = 1000
"""For how many rows a query may write."""


def is_writing(text: str) -> bool:
    """Return whether a query has a word that writes to the graph, outside of strings, comments and names in backticks."""
    return any(word.upper() in cypher.WRITING for word in cypher.bare_words(text))


async def changes_of(store: GraphStore, graph: str, text: str, parameters: dict[str, JsonValue]) -> tuple[Change, ...]:
    """Return the changes that a query makes. Raises QueryDenied for one that does anything but read and change nodes and edges."""
    query = _WritingQuery(cypher.cleaned(text))
    rows: tuple[tuple[JsonValue, ...], ...] = ((),)
    if query.reading is not None:
        found = await store.query(graph, query.reading, parameters, limit=MAX_ROWS)
        if found.more:
            raise ToolInputInvalid(f"The query writes for more than {MAX_ROWS:,} rows: narrow it down, and run it in parts.")
        rows = found.rows
    changes: list[Change] = []
    for row in rows:
        values = dict(zip(query.columns, row, strict=False))
        for clause in query.clauses:
            changes += [change async for change in query.changes(clause, values, store, graph)]
    # Several rows may delete the same element. Edges are deleted before their nodes.
    deleted = [change for change in changes if isinstance(change, DeleteEdge | DeleteNode)]
    others = [change for change in changes if not isinstance(change, DeleteEdge | DeleteNode)]
    return *others, *sorted(dict.fromkeys(deleted), key=lambda change: isinstance(change, DeleteNode))


class _WritingQuery:
    """A parsed query: the part that reads, which returns a column for each variable and value, and the clauses that write."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens = text, cypher.tokens(text, writing=True)
        tree = parse(self._tokens, "writing_query")
        check_limits(tree, self._tokens, cypher.FUNCTIONS["neo4j"])
        self.clauses = [clause for write in tree.of("write") for clause in write.children]
        created = {self._element(part)[0] for part in tree.all("new_node", "new_edge") if self._is_new(part)}
        values = list(tree.all("value"))
        if any(self._name(place) in created for value in values for place in range(value.begin, value.end)):
            raise QueryDenied("A value cannot depend on an element that the same query creates: write two queries.")
        known = dict.fromkeys(variable for clause in self.clauses for variable in self._variables(clause) if variable not in created)
        self.columns = [*known, *(str(value.begin) for value in values)]
        """The variables that are read, then the values that are written, each by the place of its first token."""
        before = text[: self._tokens[self.clauses[0].begin].start]
        returned = [*(f"`{name}`" for name in known), *(self._span(value) for value in values)]
        columns = ", ".join(f"{one} AS `c{number}`" for number, one in enumerate(returned)) or "1 AS `one`"
        self.reading = f"{before} RETURN {columns}" if returned or before.strip() else None

    async def changes(self, clause: Tree, row: dict[str, Any], store: GraphStore, graph: str) -> AsyncIterator[Change]:
        """Yield the changes that a clause makes for a row. Elements that it creates are added to the row."""
        for path in clause.of("new_path"):
            async for change in self._create(clause, path, row, store, graph):
                yield change
        for change in self._updates(clause, row):
            yield change

    def _updates(self, clause: Tree, row: Mapping[str, Any]) -> Iterator[Change]:
        match clause.rule:
            case "set":
                for assignment in clause.of("assignment"):
                    yield from _update(row.get(self._name(assignment.begin)), self._assigned(assignment, row))
            case "remove":
                for place in range(clause.begin + 1, clause.end, 4):
                    yield from _update(row.get(self._name(place)), {check_name(self._name(place + 2), "property"): None})
            case "delete":
                for variable in self._variables(clause):
                    yield from _delete(row.get(variable), detach=self._tokens[clause.begin].folded == "DETACH")
            case _:
                pass

    async def _create(self, clause: Tree, path: Tree, row: dict[str, Any], store: GraphStore, graph: str) -> AsyncIterator[Change]:
        merges, nodes = clause.rule == "merge", list[NodeRef]()
        for part in path.of("new_node"):
            if not self._is_new(part):
                nodes.append(_ref(row.get(self._element(part)[0])))
                continue
            node = self._new_node(part, row)
            if merges and node.properties:
                raise QueryDenied("MERGE finds a node by its key alone: write MERGE (n:Task {key: 'Design'}) SET n.name = value.")
            is_there = bool(await store.nodes(graph, label=node.label, key=node.key, limit=1))
            if is_there and not merges:
                raise ToolInputInvalid(f"There is a {node.label} '{node.key[:100]}' already. MERGE takes the one that is there.")
            nodes.append(node.ref)
            yield AddNode(node=node)
            for on in clause.of("on"):
                if (self._tokens[on.begin + 1].folded == "MATCH") == is_there:
                    for change in self._updates(on.children[0], row):
                        yield change
        for part, first, second in zip(path.of("new_edge"), nodes, nodes[1:], strict=False):
            variable, name, properties = self._element(part, row)
            start, end = (second, first) if self._tokens[part.begin].folded == "<" else (first, second)
            row[variable] = {
                "start": {"label": start.label, KEY: start.key},
                "end": {"label": end.label, KEY: end.key},
                "relationship": name,
            }
            yield AddEdge(edge=Edge(start=start, end=end, relationship=str(name), properties=properties))

    def _new_node(self, part: Tree, row: dict[str, Any]) -> Node:
        variable, label, properties = self._element(part, row)
        if label is None or KEY not in properties:
            raise QueryDenied("A new node has one label and a key: write (:Task {key: 'Design'}).")
        key = properties.pop(KEY)
        if not isinstance(key, str):
            raise ToolInputInvalid("The key of a node is a text.")
        row[variable] = {"label": label, KEY: key}
        return Node(label=label, key=key, properties=properties)

    def _element(self, part: Tree, row: Mapping[str, Any] | None = None) -> tuple[str, str | None, dict[str, JsonValue]]:
        """Return the variable of a node or edge in a pattern, its label or relationship, and its properties in a row.

        One without a variable has the place of its first token instead.
        """
        end = next((one.begin for one in part.of("new_map")), part.end)
        names = [place for place in range(part.begin, end) if self._tokens[place].kind in {Kind.WORD, Kind.QUOTED}]
        labels = [place for place in names if self._tokens[place - 1].folded == ":"]
        what = "label" if part.rule == "new_node" else "relationship"
        label = check_name(self._name(labels[0]), what) if labels else None
        variable = self._name(names[0]) if names and names != labels else f" {part.begin}"
        return variable, label, {name: value for one in part.of("new_map") for name, value in self._map(one, row)}

    def _map(self, found: Tree, row: Mapping[str, Any] | None) -> list[tuple[str, JsonValue]]:
        entries = [(check_name(self._name(entry.begin), "property"), entry.of("value")[0]) for entry in found.of("new_entry")]
        return [(name, None if row is None else row[str(value.begin)]) for name, value in entries]

    def _assigned(self, assignment: Tree, row: Mapping[str, Any]) -> dict[str, JsonValue]:
        for value in assignment.of("value"):
            return {check_name(self._name(assignment.begin + 2), "property"): row[str(value.begin)]}
        return dict(self._map(assignment.of("new_map")[0], row))

    def _is_new(self, part: Tree) -> bool:
        """Return whether a pattern creates this element: an edge always, a node unless it is only a variable."""
        _, label, properties = self._element(part)
        return part.rule == "new_edge" or label is not None or bool(properties)

    def _variables(self, clause: Tree) -> list[str]:
        """Return the variables that a clause uses: those of nodes in patterns, and those that it changes or deletes."""
        found = [self._element(part)[0] for part in clause.all("new_node")]
        found += [self._name(assignment.begin) for assignment in clause.all("assignment")]
        if clause.rule == "remove":
            found += [self._name(place) for place in range(clause.begin + 1, clause.end, 4)]
        if clause.rule == "delete":
            first = clause.begin + 1 + (self._tokens[clause.begin].folded == "DETACH")
            found += [self._name(place) for place in range(first, clause.end, 2)]
        return found

    def _name(self, place: int) -> str:
        token = self._tokens[place]
        return token.text.strip("`") if token.kind in {Kind.WORD, Kind.QUOTED} else ""

    def _span(self, tree: Tree) -> str:
        return self._text[self._tokens[tree.begin].start : self._tokens[tree.end - 1].end]


def _update(element: Any, properties: dict[str, JsonValue]) -> list[Change]:
    data = _data(element)
    if not data:
        return []
    if KEY in properties:
        raise QueryDenied("The key of a node is its name: rename it with 'update_props'.")
    if KEY in data:
        return [UpdateNode(ref=_ref(data), properties=properties)]
    return [UpdateEdge(**_ends(data), properties=properties)]


def _delete(element: Any, *, detach: bool) -> list[Change]:
    data = _data(element)
    if not data:
        return []
    return [DeleteNode(ref=_ref(data), detach=detach)] if KEY in data else [DeleteEdge(**_ends(data))]


def _data(element: Any) -> dict[str, Any]:
    """Return a node or edge as data; nothing for the null of an optional match."""
    return cast("dict[str, Any]", element) if isinstance(element, dict) else {}


def _ref(element: Any) -> NodeRef:
    data = _data(element)
    if KEY not in data:
        raise ToolInputInvalid("An edge needs a node at both ends, and one of these is not a node.")
    return NodeRef(label=str(data["label"]), key=str(data[KEY]))


def _ends(data: Mapping[str, Any]) -> dict[str, Any]:
    if "relationship" not in data:
        raise ToolInputInvalid("Only nodes and edges can be changed or deleted.")
    return {"start": _ref(data["start"]), "end": _ref(data["end"]), "relationship": str(data["relationship"])}
