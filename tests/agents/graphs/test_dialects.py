"""Everyday Cypher runs on every database, says its columns as they were written, and lets nothing through that the guard refuses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.errors import QueryDenied, ToolInputInvalid
from interlock_agents.puntini.errors import NotInGraph
from interlock_agents.puntini.graph_store import AddEdge, AddNode, Edge, GraphStore, Node, NodeRef
from interlock_agents.puntini.graphs.cypher import FORBIDDEN, Dialect
from interlock_agents.puntini.graphs.dialects import prepare
from interlock_agents.puntini.graphs.guard import check_reading
from tests.agents.graphs.hostile_cypher import Targets, hostile
from tests.agents.graphs.legal_cypher import BOTH, LADYBUG, NEO4J
from tests.support.puntini import STORES, fresh, opened

DIALECTS: tuple[Dialect, ...] = ("ladybug", "neo4j")
FAMILIES = hostile(Targets())
Graph = tuple[GraphStore, str]


@pytest.fixture(params=STORES)
async def graph(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Graph]:
    store, name = opened(request.param, tmp_path), fresh(request.param)
    await store.apply(name, CHANGES)
    yield store, name
    await store.aclose()


def node(label: str, key: str, **properties: JsonValue) -> AddNode:
    return AddNode(node=Node(label=label, key=key, properties=properties))


def edge(start: tuple[str, str], relationship: str, end: tuple[str, str]) -> AddEdge:
    ends = [NodeRef(label=label, key=key) for label, key in (start, end)]
    return AddEdge(edge=Edge(start=ends[0], end=ends[1], relationship=relationship))


CHANGES = (
    node("Task", "Design", size=3, tags=["a", "b"]),
    node("Task", "Build"),
    node("Person", "Ada"),
    edge(("Task", "Build"), "DEPENDS_ON", ("Task", "Design")),
    edge(("Person", "Ada"), "ASSIGNED_TO", ("Task", "Build")),
)
EVERYDAY: dict[str, tuple[list[str], list[list[JsonValue]]]] = {
    "MATCH (n:Task) RETURN n.key ORDER BY n.key;": (["n.key"], [["Build"], ["Design"]]),
    "MATCH (n:Task) RETURN count(*) ; ": (["count(*)"], [[2]]),
    "// how many?\nMATCH (n:Task) /* all of them */ RETURN count(n) AS many": (["many"], [[2]]),
    "MATCH (a)-[r]->(b) RETURN type(r) ORDER BY type(r)": (["type(r)"], [["ASSIGNED_TO"], ["DEPENDS_ON"]]),
    "MATCH (a)-[r]->(b) WHERE type(r) = 'ASSIGNED_TO' RETURN a.key, b.key": (["a.key", "b.key"], [["Ada", "Build"]]),
    "MATCH (n) WHERE n:Person RETURN n.key": (["n.key"], [["Ada"]]),
    "MATCH (n) WHERE NOT n:Person AND n.key <> 'Build' RETURN n.key AS `the key`": (["the key"], [["Design"]]),
    "MATCH (n:Person) RETURN labels(n) AS l": (["l"], [[["Person"]]]),
    "MATCH (n) WHERE 'Person' IN labels(n) RETURN head(labels(n))": (["head(labels(n))"], [["Person"]]),
    "MATCH (n:Task) WHERE exists(n.size) RETURN toString(n.size)": (["toString(n.size)"], [["3"]]),
    "MATCH (n:Task) WHERE NOT exists(n.size) RETURN n.key": (["n.key"], [["Build"]]),
    "MATCH (n:Task) WHERE exists((n)-[:DEPENDS_ON]->()) RETURN n.key": (["n.key"], [["Build"]]),
    "RETURN toInteger('3') + 1 AS a, toFloat('1.5') AS b, split('x,y', ',') AS c": (["a", "b", "c"], [[4, 1.5, ["x", "y"]]]),
    "MATCH (n:Task {key: 'Design'}) RETURN last(n.tags)": (["last(n.tags)"], [["b"]]),
    "MATCH p = shortestPath((a:Person {key: 'Ada'})-[*..5]-(b:Task {key: 'Design'})) RETURN length(p) AS hops": (["hops"], [[2]]),
    "MATCH (n:Person) RETURN n.key, '// no comment; DELETE' AS text": (["n.key", "text"], [["Ada", "// no comment; DELETE"]]),
}


async def test_everyday_cypher_runs_and_names_its_columns_as_they_were_written(graph: Graph):
    store, name = graph
    for text, expected in EVERYDAY.items():
        found = await store.query(name, text, {})
        assert (list(found.columns), [list(row) for row in found.rows]) == expected, text


async def test_internal_columns_are_not_in_results(graph: Graph):
    store, name = graph
    for text in (
        "MATCH (n:Task) RETURN properties(n)",
        "MATCH (n:Task) RETURN keys(n)",
        "MATCH (n) RETURN n",
        "MATCH (n) RETURN collect(n)",
        "MATCH (n:Task) RETURN id(n)",
    ):
        found = str(await store.query(name, text, {}))
        for ours in ("interlock_", "_ID", "_LABEL", "offset", "_SRC"):
            assert ours not in found, text


async def test_an_unknown_name_is_reported_with_the_known_names(tmp_path: Path):
    store = opened("ladybug", tmp_path)
    await store.apply("mine", CHANGES)
    for text, names in {
        "MATCH (n:Taks) RETURN n": ("'Taks'", "Person, Task"),
        "MATCH (a)-[:NEEDS]->(b) RETURN a": ("'NEEDS'", "ASSIGNED_TO, DEPENDS_ON"),
        "MATCH (n) RETURN n.colour": ("'colour'", "Task"),
    }.items():
        with pytest.raises(NotInGraph) as missing:
            await store.query("mine", text, {})
        assert all(part in missing.value.message for part in names)
    await store.aclose()


async def test_a_failed_query_is_an_error_without_exception_names(tmp_path: Path):
    store = opened("ladybug", tmp_path)
    await store.apply("mine", CHANGES)
    for text in ("RETURN 1/0", "MATCH (n) RETURN m", "MATCH (n:Task) RETURN sum(n.key)", "RETURN toInteger('x')"):
        with pytest.raises(ToolInputInvalid) as failed:
            await store.query("mine", text, {})
        assert "exception" not in failed.value.message.lower()
        assert "oC_" not in failed.value.message
    await store.aclose()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_columns_of_a_subquery_are_not_columns_of_the_query(dialect: Dialect):
    text = "MATCH (n) WHERE EXISTS { MATCH (n)-[:KNOWS]->(m) RETURN m UNION MATCH (n)-[:LIKES]->(m) RETURN m } RETURN n, n.key AS k"
    assert prepare(text, dialect=dialect).columns == ("n", "k")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_hostile_query_is_refused_after_translation(family: str, dialect: Dialect):
    for text in FAMILIES[family]:
        with pytest.raises(QueryDenied):
            prepare(text, dialect=dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_accepted_query_is_still_accepted_after_translation(dialect: Dialect):
    for text in [*BOTH, *(LADYBUG if dialect == "ladybug" else NEO4J)]:
        check_reading(text, dialect=dialect)
        check_reading(prepare(text, dialect=dialect).text, dialect=dialect)


@given(
    comment=st.text(st.characters(codec="ascii"), max_size=30), word=st.sampled_from(sorted(FORBIDDEN)), dialect=st.sampled_from(DIALECTS)
)
def test_a_comment_hides_nothing(comment: str, word: str, dialect: Dialect):
    for text in (f"MATCH (n) RETURN n // {comment} {word}", f"MATCH (n) /* {comment} {word} */ RETURN n"):
        with pytest.raises(QueryDenied):
            prepare(text, dialect=dialect)


@given(text=st.text(st.sampled_from("MATCH (n) RETURN n;'\"`/*\\ \n:Task.key=DELETE"), max_size=60), dialect=st.sampled_from(DIALECTS))
def test_the_guard_accepts_every_translated_query(text: str, dialect: Dialect):
    try:
        ready = prepare(text, dialect=dialect)
    except QueryDenied:
        return
    check_reading(ready.text, dialect=dialect)
