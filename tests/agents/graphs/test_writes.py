"""Cypher that writes: run only after a person has approved exactly that text, with what it changes told before, on every store."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.capabilities import ToolRequest
from interlock_agents.puntini.graph_store import AddEdge, AddNode, Edge, Node, NodeRef
from interlock_agents.puntini.graphs.registry import GraphTools, approval_text
from interlock_agents.puntini.graphs.writes import is_writing
from interlock_agents.puntini.tool_registry import GraphToolResult
from tests.agents.graphs.hostile_cypher import Targets, harmful, hostile
from tests.support.puntini import STORES, Closing, Watched, fresh, opened

TOOLS = GraphTools()
A, B, ADA = ({"label": label, "key": key} for label, key in (("Task", "a"), ("Task", "b"), ("Person", "Ada")))
START = (
    AddNode(node=Node(label="Task", key="a", properties={"size": 1})),
    AddNode(node=Node(label="Task", key="b", properties={"size": 2})),
    AddNode(node=Node(label="Person", key="Ada")),
    AddEdge(edge=Edge(start=NodeRef(**A), end=NodeRef(**B), relationship="NEEDS", properties={"w": 1})),
)


class Graph:
    """A graph with two tasks, a person and an edge, and what tools do to it."""

    def __init__(self, store: Closing, name: str) -> None:
        self.store, self.name = store, name

    async def call(self, query: str, *, approved: str = "", **parameters: JsonValue) -> GraphToolResult:
        args: dict[str, Any] = {"query": query, "parameters": parameters}
        return await TOOLS.call(self.name, ToolRequest(tool="cypher_query", args=args), approved=approved, store=self.store)

    async def all(self) -> Any:
        return await self.store.nodes(self.name, limit=1000), await self.store.edges(self.name, limit=1000)

    async def told(self) -> set[str]:
        nodes, edges = await self.all()
        said = {f"{node.label} {node.key} {node.properties}" for node in nodes}
        return said | {f"{edge.start.key}-{edge.relationship}-{edge.end.key} {edge.properties}" for edge in edges}


@pytest.fixture(params=STORES)
async def graph(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Graph]:
    store, name = opened(request.param, tmp_path), fresh(request.param)
    await store.apply(name, START)
    yield Graph(store, name)
    await store.aclose()


WRITES: dict[str, tuple[str, set[str], set[str]]] = {
    "CREATE (:Task {key: 'c', size: 1 + 2})": ("add 1 node", {"Task c {'size': 3}"}, set()),
    "CREATE (n:Note {key: 'c'})-[:ABOUT {w: 2}]->(m:Note {key: 'd'}) RETURN n": (
        "add 2 nodes and add 1 edge",
        {"Note c {}", "Note d {}", "c-ABOUT-d {'w': 2}"},
        set(),
    ),
    "MATCH (n:Task) SET n.size = n.size + 10, n.new = toUpper(n.key)": (
        "change 2 nodes",
        {"Task a {'size': 11, 'new': 'A'}", "Task b {'size': 12, 'new': 'B'}"},
        {"Task a {'size': 1}", "Task b {'size': 2}"},
    ),
    "MATCH (n:Task {key: 'a'}) SET n += {x: true, y: [1, 2]};": (
        "change 1 node",
        {"Task a {'size': 1, 'x': True, 'y': [1, 2]}"},
        {"Task a {'size': 1}"},
    ),
    "MATCH (n:Task) WHERE n.size > 1 REMOVE n.size": ("change 1 node", {"Task b {}"}, {"Task b {'size': 2}"}),
    "MATCH (:Task)-[e:NEEDS]->() SET e.w = 5": ("change 1 edge", {"a-NEEDS-b {'w': 5}"}, {"a-NEEDS-b {'w': 1}"}),
    "MATCH (:Task)-[e:NEEDS]->() DELETE e": ("remove 1 edge", set(), {"a-NEEDS-b {'w': 1}"}),
    "MATCH (n:Person) DELETE n": ("remove 1 node", set(), {"Person Ada {}"}),
    "match (n:Task) detach delete n": (
        "remove 2 nodes and remove 1 edge",
        set(),
        {"Task a {'size': 1}", "Task b {'size': 2}", "a-NEEDS-b {'w': 1}"},
    ),
    "MATCH (n:Task)-[e]-(m) DELETE e, n": (
        "remove 2 nodes and remove 1 edge",
        set(),
        {"Task a {'size': 1}", "Task b {'size': 2}", "a-NEEDS-b {'w': 1}"},
    ),
    "MATCH (p:Person), (t:Task) MERGE (p)-[:KNOWS]->(t)": ("add 2 edges", {"Ada-KNOWS-a {}", "Ada-KNOWS-b {}"}, set()),
    "MATCH (t:Task {key: 'a'}) CREATE (t)<-[:ABOUT]-(:Note {key: 'on ' + t.key})": (
        "add 1 node and add 1 edge",
        {"Note on a {}", "on a-ABOUT-a {}"},
        set(),
    ),
    "MERGE (n:Task {key: 'a'}) ON CREATE SET n.made = true ON MATCH SET n.seen = true": (
        "change 1 node",
        {"Task a {'size': 1, 'seen': True}"},
        {"Task a {'size': 1}"},
    ),
    "MERGE (n:Task {key: 'z'}) ON CREATE SET n.made = true ON MATCH SET n.seen = true": ("add 1 node", {"Task z {'made': True}"}, set()),
    "UNWIND $names AS name CREATE (:Person {key: name})": ("add 2 nodes", {"Person Bob {}", "Person Eve {}"}, set()),
    "MATCH (n:Task) WITH n ORDER BY n.size DESC LIMIT 1 SET n.largest = true": (
        "change 1 node",
        {"Task b {'size': 2, 'largest': True}"},
        {"Task b {'size': 2}"},
    ),
}


async def test_a_writing_query_runs_only_after_approval_of_exactly_its_text(graph: Graph):
    for query in WRITES:
        await check_write(graph, query)


async def check_write(graph: Graph, query: str) -> None:
    would, new, gone = WRITES[query]
    given: dict[str, JsonValue] = {"names": ["Bob", "Eve"]} if "$names" in query else {}
    before, told = await graph.all(), await graph.told()
    text = approval_text(query, given)
    for approved in ("", "yes", query.swapcase(), f"{text} ", text[:-1]):
        result = await graph.call(query, approved=approved, **given)
        assert (result.code, result.approval, result.changed) == ("approval_needed", text, None)
        assert f"It would {would}." in str(result.error)
        assert await graph.all() == before
    result = await graph.call(query, approved=text, **given)
    assert (result.error, result.changed is not None) == (None, True)
    assert await graph.told() == (told - gone) | new
    assert result.changed is not None
    back = await TOOLS.take_back(graph.name, (result.changed,), store=graph.store)
    assert back.error is None
    assert await graph.all() == before, "what was done can be undone"


REFUSED = [
    ("CREATE (:Task {name: 'x'})", "query_denied"),
    ("CREATE (:Task)", "query_denied"),
    ("CREATE (n)", "tool_input_invalid"),
    ("CREATE (:Task {key: 5})", "tool_input_invalid"),
    ("CREATE (:Task {key: 'a'})", "tool_input_invalid"),
    ("MATCH (n:Task) SET n.key = 'x'", "query_denied"),
    ("MATCH (n:Task) SET n:Other", "query_denied"),
    ("MATCH (n:Task) REMOVE n:Task", "query_denied"),
    ("MATCH (n:Task) SET n = {}", "query_denied"),
    ("MATCH (n:Task {key: 'a'}) DELETE n", "node_has_edges"),
    ("MERGE (n:Task {key: 'a', size: 1})", "query_denied"),
    ("CREATE (n:Task {key: 'x'}) SET n.m = n.key", "query_denied"),
    ("MATCH (n) DELETE m", "tool_input_invalid"),
    ("MATCH (n) SET n.interlock = 1 RETURN n MATCH (m) DELETE m", "query_denied"),
    ("UNWIND range(1, 2000) AS i CREATE (:Task {key: toString(i)})", "tool_input_invalid"),
]


async def test_an_invalid_writing_query_is_refused_and_changes_nothing(graph: Graph):
    before = await graph.all()
    for query, code in REFUSED:
        for approved in ("", query):
            result = await graph.call(query, approved=approved)
            assert (result.code, result.approval) == (code, ""), (query, result.error)
    assert await graph.all() == before


async def test_a_writing_query_without_effect_needs_no_approval(graph: Graph):
    result = await graph.call("MATCH (n:Task {key: 'nobody'}) SET n.x = 1")
    assert result.error is None
    assert isinstance(result.result, dict)
    assert result.result["changed"] == 0


async def test_no_writing_query_reaches_the_database(graph: Graph, tmp_path: Path):
    seen: list[str] = []

    class Seeing(Watched):
        async def query(self, graph: str, text: str, parameters: dict[str, JsonValue], *, limit: int = 100) -> Any:
            seen.append(text)
            return await super().query(graph, text, parameters, limit=limit)

    before = await graph.all()
    texts = [
        *harmful(Targets(folder=str(tmp_path))),
        *(text for family in hostile(Targets()).values() for text in family if is_writing(text)),
    ]
    for text in texts[:400]:
        result = await GraphTools().call(
            graph.name,
            ToolRequest(tool="cypher_query", args={"query": text}),
            approved="yes",
            store=Seeing(graph.store),
        )
        assert result.error is not None or (isinstance(result.result, dict) and result.result["changed"] == 0), text
    assert not any(is_writing(text) for text in seen)
    assert await graph.all() == before


@given(text=st.text(max_size=60))
def test_writing_words_in_strings_and_comments_do_not_write(text: str):
    plain = text.replace("'", "").replace("\\", "")
    assert not is_writing(f"RETURN '{plain} DELETE'")
    assert not is_writing("RETURN 1 // DELETE n")
    assert is_writing(f"MATCH (n) DELETE n // {text}")
