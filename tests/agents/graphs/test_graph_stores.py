"""What every graph store does, on a file of ladybug and on a server that speaks Bolt; then what is special about each."""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.errors import (
    QueryDenied,
    QueryTimeout,
    SessionBusy,
    StateConflict,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
    ToolInputInvalid,
)
from interlock_agents.puntini.errors import NodeHasEdges, NotInGraph
from interlock_agents.puntini.graph_store import (
    AddEdge,
    AddNode,
    Change,
    Changed,
    DeleteEdge,
    DeleteNode,
    Edge,
    GraphStore,
    Node,
    NodeRef,
    UpdateEdge,
    UpdateNode,
    is_same,
)
from interlock_agents.puntini.graphs import process
from interlock_agents.puntini.graphs.bolt import BoltGraphs, open_bolt
from interlock_agents.puntini.graphs.dialects import Prepared
from interlock_agents.puntini.graphs.ladybug import LadybugGraphs, open_ladybug
from interlock_agents.puntini.graphs.ladybug_file import LadybugFile
from interlock_agents.puntini.graphs.process import Statement
from interlock_agents.puntini.graphs.statements import Target
from tests.support.arcadedb import Served, shared_server

NUMBERS = itertools.count()
LIMITS: dict[str, Any] = {"timeout_s": 10.0, "max_rows": 1000, "max_bytes": 500_000}
RIVAL = Path(__file__).parent / "store_rival.py"


class Closing(GraphStore, Protocol):
    async def aclose(self) -> None: ...


@dataclass
class StoredState:
    """A store, an empty graph in it, and another store of the same graphs."""

    store: Closing
    graph: str
    kind: str
    folder: Path

    async def apply(self, *changes: Change) -> Changed:
        return await self.store.apply(self.graph, changes)

    async def nodes(self, **asked: Any) -> tuple[Node, ...]:
        return await self.store.nodes(self.graph, **asked)

    async def edges(self, **asked: Any) -> tuple[Edge, ...]:
        return await self.store.edges(self.graph, **asked)

    async def rows(self, text: str, **parameters: JsonValue) -> tuple[tuple[JsonValue, ...], ...]:
        return (await self.store.query(self.graph, text, parameters)).rows

    async def all(self) -> tuple[tuple[Node, ...], tuple[Edge, ...]]:
        return await self.nodes(limit=1000), await self.edges(limit=1000)


def opened(kind: str, folder: Path, **limits: Any) -> LadybugGraphs | BoltGraphs:
    if kind == "ladybug":
        return open_ladybug(folder, **{**LIMITS, **limits})
    served = shared_server()
    return open_bolt(served.url, user=served.user, password=served.password, **{**LIMITS, **limits})


def fresh(kind: str) -> str:
    """Name a graph that nobody has used; on a server there has to be a database for it."""
    graph = f"graph{next(NUMBERS)}"
    if kind == "bolt":
        shared_server().make(graph)
    return graph


@pytest.fixture(params=["ladybug", "bolt"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[StoredState]:
    store = opened(request.param, tmp_path / "graphs")
    yield StoredState(store, fresh(request.param), request.param, tmp_path / "graphs")
    await store.aclose()


@pytest.fixture
async def file(tmp_path: Path) -> AsyncGenerator[StoredState]:
    store = opened("ladybug", tmp_path / "graphs")
    yield StoredState(store, "mine", "ladybug", tmp_path / "graphs")
    await store.aclose()


@pytest.fixture
def server() -> Served:
    return shared_server()


def node(key: str, label: str = "Task", /, **properties: JsonValue) -> Node:
    return Node(label=label, key=key, properties=properties)


def ref(key: str, label: str = "Task") -> NodeRef:
    return NodeRef(label=label, key=key)


def add(key: str, label: str = "Task", /, **properties: JsonValue) -> AddNode:
    return AddNode(node=node(key, label, **properties))


def edge(start: str, end: str, relationship: str = "NEXT", /, **properties: JsonValue) -> Edge:
    return Edge(start=ref(start), end=ref(end), relationship=relationship, properties=properties)


def join(start: str, end: str, relationship: str = "NEXT", /, **properties: JsonValue) -> AddEdge:
    return AddEdge(edge=edge(start, end, relationship, **properties))


# Both: what is changed.


async def test_added_elements_are_found_and_reported(kept: StoredState) -> None:
    person = Node(label="Person", key="ada")
    owns = Edge(start=ref("ada", "Person"), end=ref("a"), relationship="OWNS", properties={"since": 2020})
    changed = await kept.apply(add("a", status="open", size=3), AddNode(node=person), AddEdge(edge=owns))
    assert changed == Changed(nodes_added=(node("a", status="open", size=3), person), edges_added=(owns,))
    assert await kept.all() == ((person, node("a", status="open", size=3)), (owns,))


async def test_a_repeated_addition_changes_nothing(kept: StoredState) -> None:
    await kept.apply(add("a", n=1), add("b"), join("a", "b", w=1))
    before = await kept.all()
    assert await kept.apply(add("a", n=2, other=True), add("b"), join("a", "b", w=2)) == Changed()
    assert await kept.all() == before


async def test_an_update_sets_and_removes_properties_and_keeps_the_others(kept: StoredState) -> None:
    await kept.apply(add("a", x=1, y=2, z=3), add("b"), join("a", "b", w=1, v=2))
    changed = await kept.apply(
        UpdateNode(ref=ref("a"), properties={"x": None, "y": 5}),
        UpdateEdge(start=ref("a"), end=ref("b"), relationship="NEXT", properties={"w": None, "u": "new"}),
    )
    assert changed == Changed(
        nodes_changed=(node("a", y=5, z=3),),
        edges_changed=(edge("a", "b", v=2, u="new"),),
        nodes_before=(node("a", x=1, y=2, z=3),),
        edges_before=(edge("a", "b", w=1, v=2),),
    )
    assert await kept.all() == ((node("a", y=5, z=3), node("b")), (edge("a", "b", v=2, u="new"),))


async def test_an_update_without_effect_is_not_reported(kept: StoredState) -> None:
    await kept.apply(add("a", x=1, o={"deep": [1]}))
    assert await kept.apply(UpdateNode(ref=ref("a"), properties={"x": 1, "o": {"deep": [1]}, "none": None})) == Changed()


async def test_a_deletion_reports_the_deleted_elements(kept: StoredState) -> None:
    await kept.apply(add("a", x=1), add("b"), add("c"), join("a", "b", w=1), join("b", "a"), join("c", "a"))
    changed = await kept.apply(DeleteEdge(start=ref("c"), end=ref("a"), relationship="NEXT"))
    assert changed == Changed(edges_removed=(edge("c", "a"),))
    changed = await kept.apply(DeleteNode(ref=ref("a"), detach=True))
    assert changed.nodes_removed == (node("a", x=1),)
    assert set(map(str, changed.edges_removed)) == set(map(str, (edge("a", "b", w=1), edge("b", "a"))))
    assert await kept.all() == ((node("b"), node("c")), ())


async def test_a_node_with_edges_is_deleted_only_with_detach(kept: StoredState) -> None:
    await kept.apply(add("a"), add("b"), join("a", "b"), join("b", "b"))
    before = await kept.all()
    for key in ("a", "b"):
        with pytest.raises(NodeHasEdges):
            await kept.apply(DeleteNode(ref=ref(key)))
    assert await kept.all() == before
    changed = await kept.apply(DeleteNode(ref=ref("b"), detach=True))
    assert len(changed.edges_removed) == 2


MISSING: list[Change] = [
    join("a", "nobody"),
    join("nobody", "a"),
    UpdateNode(ref=ref("nobody"), properties={"x": 1}),
    UpdateNode(ref=ref("a", "Nothing"), properties={"x": 1}),
    UpdateEdge(start=ref("a"), end=ref("a"), relationship="NEXT", properties={}),
    DeleteNode(ref=ref("nobody")),
    DeleteEdge(start=ref("a"), end=ref("b"), relationship="OTHER"),
]


async def test_a_missing_element_is_named_and_the_transaction_changes_nothing(kept: StoredState) -> None:
    await kept.apply(add("a", x=1), add("b"), join("a", "b"))
    before = await kept.all()
    for wrong in MISSING:
        step = (add("new", "Fresh"), UpdateNode(ref=ref("a"), properties={"x": "text", "y": 2}), wrong, add("later"))
        with pytest.raises(NotInGraph):
            await kept.apply(*step)
        assert await kept.all() == before


async def test_changes_are_applied_in_order_and_the_final_effect_is_reported(kept: StoredState) -> None:
    await kept.apply(add("a", x=1), add("b"), join("a", "b"))
    changed = await kept.apply(
        add("c"),
        UpdateNode(ref=ref("c"), properties={"x": 1}),
        add("gone"),
        join("gone", "c"),
        DeleteNode(ref=ref("gone"), detach=True),
        DeleteNode(ref=ref("a"), detach=True),
        add("a", x=2),
    )
    assert changed == Changed(
        nodes_added=(node("c", x=1),), nodes_changed=(node("a", x=2),), edges_removed=(edge("a", "b"),), nodes_before=(node("a", x=1),)
    )
    assert await kept.all() == ((node("a", x=2), node("b"), node("c", x=1)), ())


async def test_a_failure_during_writing_rolls_back_the_transaction(kept: StoredState, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.apply(add("a", x=1))
    before = await kept.all()

    create = Target.create

    def fail(self: Target, elements: Sequence[Node | Edge]) -> list[Statement]:
        return create(self, elements) if self.ends is None else [("RETURN nothing", {})]

    if kept.kind == "ladybug":
        monkeypatch.setattr(Target, "create", fail)
    step = add("new", "Fresh"), UpdateNode(ref=ref("a"), properties={"x": "text"}), join("a", "a", "Task")
    with pytest.raises(ToolInputInvalid):  # ArcadeDB has no relationship that is named as a label is
        await kept.apply(*step)
    monkeypatch.undo()
    assert await kept.all() == before
    assert (await kept.apply(*step[:2])).nodes_added == (node("new", "Fresh"),)


async def test_concurrent_transactions_lose_nothing(kept: StoredState) -> None:
    await kept.apply(add("hub"))
    step = [(add(f"k{n:02}", n=n), join("hub", f"k{n:02}"), UpdateNode(ref=ref("hub"), properties={f"p{n}": n})) for n in range(50)]
    changed = await asyncio.gather(*(kept.apply(*changes) for changes in step))
    assert all(len(one.nodes_added) == len(one.nodes_changed) == len(one.edges_added) == 1 for one in changed)
    nodes, edges = await kept.all()
    assert (len(nodes), len(edges)) == (51, 50)
    assert nodes[0].properties == {f"p{n}": n for n in range(50)}


# Both: values and names.

NAMES = st.sampled_from(
    ["x", "X", "key", "interlock_kept", "Interlock_Kept", "status", "match", "id", "label", "c0", "beside", "r", "type"]
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["1", "1.5", "true", "[]", "{}", "null", "2020-01-01"]
)
SCALARS: st.SearchStrategy[JsonValue] = st.one_of(
    TEXTS, st.integers(), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    SCALARS,
    st.lists(TEXTS, max_size=3),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    st.recursive(SCALARS | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6),
)
PROPERTIES = st.dictionaries(NAMES, VALUES, max_size=5)


@pytest.mark.parametrize("kind", ["ladybug", "bolt"])
def test_every_value_is_read_as_it_was_stored(kind: str, tmp_path: Path) -> None:
    graph = fresh(kind)
    store = opened(kind, tmp_path)
    numbers = itertools.count()
    everything: dict[str, dict[str, JsonValue]] = {}

    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(TEXTS.filter(bool), PROPERTIES, PROPERTIES)
    def check(text: str, first: dict[str, JsonValue], second: dict[str, JsonValue]) -> None:
        loop.run_until_complete(put(f"{next(numbers)} {text}", first, second))

    async def put(key: str, first: dict[str, JsonValue], second: dict[str, JsonValue]) -> None:
        loops = Edge(start=ref(key), end=ref(key), relationship="LOOP", properties=second)
        await store.apply(graph, (AddNode(node=Node(label="Task", key=key, properties=first)), AddEdge(edge=loops)))
        (found,) = await store.nodes(graph, label="Task", key=key)
        assert is_same(found.properties, present(first))
        (found_edge,) = await store.edges(graph, start=ref(key))
        assert is_same(found_edge.properties, present(second))
        await store.apply(graph, (UpdateNode(ref=ref(key), properties=second),))
        everything[key] = present({**first, **second})
        for name, value in list(everything[key].items())[:1]:
            asked = await store.nodes(graph, label="Task", properties={name: value}, limit=1000)
            assert [one.key for one in asked] == sorted(k for k, has in everything.items() if name in has and is_same(has[name], value))

    loop = asyncio.new_event_loop()
    try:
        check()
        found = loop.run_until_complete(store.nodes(graph, limit=1000))
        assert is_same({one.key: one.properties for one in found}, everything)  # pyright: ignore[reportArgumentType] - JSON in JSON
        loop.run_until_complete(store.aclose())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def present(properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in properties.items() if value is not None}


async def test_an_invalid_value_is_refused_and_changes_nothing(kept: StoredState) -> None:
    deep: JsonValue = []
    for _ in range(100):
        deep = [deep]
    wrong_ones: list[JsonValue] = [float("nan"), float("inf"), "\ud800", ["\udfff"], {"\ud800": 1}, deep, 10**5000]
    for wrong in wrong_ones:
        with pytest.raises(ToolInputInvalid):
            await kept.apply(add("fine"), add("a", x=wrong))
    for key in ("", "\ud800"):
        with pytest.raises(ToolInputInvalid):
            await kept.apply(add("fine"), add(key))
    assert await kept.all() == ((), ())


INJECTED = ["a b", "Task`) DETACH DELETE n //", "x}) DELETE n //", "`", "", "1a", "a.b", "T|U", "a:B", "\u202eabc", "a\x00", "x" * 500]


async def test_injected_names_are_denied_and_change_nothing(kept: StoredState) -> None:
    await kept.apply(add("a", x=1))
    before = await kept.all()
    for name in INJECTED:
        changes: list[Change] = [
            add("b", name),
            add("b", "Task", **{name: 1}),
            UpdateNode(ref=ref("a"), properties={name: 1}),
            UpdateNode(ref=ref("a", name), properties={}),
            DeleteNode(ref=ref("a", name)),
            join("a", "a", name),
            join("a", "a", "NEXT", **{name: 1}),
            DeleteEdge(start=ref("a"), end=ref("a"), relationship=name),
        ]
        for change in changes:
            with pytest.raises(QueryDenied):
                await kept.apply(add("first"), change)
        with pytest.raises(QueryDenied):
            await kept.nodes(label=name)
        with pytest.raises(QueryDenied):
            await kept.nodes(properties={name: 1})
        with pytest.raises(QueryDenied):
            await kept.edges(relationship=name)
        with pytest.raises(QueryDenied):
            await kept.edges(start=ref("a", name))
        with pytest.raises(QueryDenied):
            await kept.edges(end=ref("a", name))
    assert await kept.all() == before


async def test_values_are_never_part_of_a_statement(kept: StoredState) -> None:
    bad = "x'}) MATCH (n) DETACH DELETE n //`\"\\"
    await kept.apply(
        add(bad, x=bad), add("b"), AddEdge(edge=Edge(start=ref(bad), end=ref("b"), relationship="NEXT", properties={"w": bad}))
    )
    assert await kept.nodes(key=bad, properties={"x": bad}) == (node(bad, x=bad),)
    assert (await kept.edges(start=ref(bad)))[0].properties == {"w": bad}
    assert await kept.rows("MATCH (n:Task) WHERE n.x = $x RETURN n.key", x=bad) == ((bad,),)


async def test_keywords_of_cypher_are_valid_names(kept: StoredState) -> None:
    await kept.apply(add("a", "Match", where=1, RETURN="r"), add("b", "Order"))
    step = Edge(start=ref("a", "Match"), end=ref("b", "Order"), relationship="CREATE", properties={"delete": 1})
    await kept.apply(AddEdge(edge=step))
    assert (await kept.nodes(label="Match"), await kept.edges()) == ((node("a", "Match", where=1, RETURN="r"),), (step,))


# Both: what is asked.


async def test_nodes_are_found_by_criteria_in_order(kept: StoredState) -> None:
    await kept.apply(*(add(key, label, n=n % 2) for n, (label, key) in enumerate(itertools.product(("B", "A"), ("3", "1", "20", "2")))))
    assert [(one.label, one.key) for one in await kept.nodes()] == sorted(itertools.product("AB", ("1", "2", "20", "3")))
    assert [(one.label, one.key) for one in await kept.nodes(limit=5)] == [("A", "1"), ("A", "2"), ("A", "20"), ("A", "3"), ("B", "1")]
    assert [one.key for one in await kept.nodes(label="B", properties={"n": 1})] == ["1", "2"]
    assert await kept.nodes(properties={"n": 1.0}) == ()
    assert await kept.nodes(properties={"n": True}) == ()
    assert await kept.nodes(properties={"nothing": 1}) == ()
    assert len(await kept.nodes(properties={"nothing": None})) == 8
    assert await kept.nodes(label="C") == await kept.nodes(key="4") == ()
    with pytest.raises(ToolInputInvalid):
        await kept.nodes(limit=0)


async def test_edges_are_found_by_criteria_in_order(kept: StoredState) -> None:
    pairs = [("b", "a", "Y"), ("a", "b", "Y"), ("a", "b", "X"), ("a", "a", "Y"), ("b", "b", "X")]
    await kept.apply(add("a"), add("b"), *(join(*pair) for pair in pairs))
    assert await kept.edges() == tuple(edge(a, b, name) for a, name, b in sorted((a, name, b) for a, b, name in pairs))
    assert await kept.edges(limit=2) == (edge("a", "b", "X"), edge("a", "a", "Y"))
    assert await kept.edges(start=ref("b")) == (edge("b", "b", "X"), edge("b", "a", "Y"))
    assert await kept.edges(end=ref("a"), relationship="Y") == (edge("a", "a", "Y"), edge("b", "a", "Y"))
    assert await kept.edges(relationship="Z") == await kept.edges(start=ref("a", "Other")) == ()


async def test_a_query_returns_nodes_edges_and_paths_as_plain_data(kept: StoredState) -> None:
    await kept.apply(add("a", status="done", o={"k": [1, None]}, key="inner"), add("b", status="open"), join("a", "b", w=1.5))
    start = {"label": "Task", "key": "a", "properties": {"status": "done", "o": {"k": [1, None]}, "key": "inner"}}
    end = {"label": "Task", "key": "b", "properties": {"status": "open"}}
    ends = {"start": {"label": "Task", "key": "a"}, "end": {"label": "Task", "key": "b"}}
    shown = {**ends, "relationship": "NEXT", "properties": {"w": 1.5}}
    assert await kept.rows("MATCH (t:Task) WHERE t.status = 'done' RETURN t.key, t.status") == (("a", "done"),)
    assert await kept.rows("MATCH (t:Task) RETURN t ORDER BY t.key") == ((start,), (end,))
    assert await kept.rows("MATCH ()-[e]->() RETURN e") == ((shown,),)
    assert await kept.rows("MATCH (a)-[e]->(b) RETURN a.key AS k, e, b") == (("a", shown, end),)
    assert await kept.rows("MATCH p = (a)-[e]->(b) RETURN p") == (({"nodes": [start, end], "edges": [shown]},),)
    assert await kept.rows("MATCH (t:Task) RETURN count(t) AS n") == ((2,),)
    found = await kept.store.query(kept.graph, "MATCH (t:Task) RETURN t.key AS name, 1 AS one ORDER BY name", {})
    assert (found.columns, found.rows, found.more) == (("name", "one"), (("a", 1), ("b", 1)), False)


async def test_a_query_that_writes_is_denied_and_the_graph_is_unchanged(kept: StoredState) -> None:
    await kept.apply(add("a"))
    before = await kept.all()
    for text in ("MATCH (n) DETACH DELETE n", "CREATE (n:Task {key: 'b'})", "MATCH (n) SET n.x = 1", "RETURN 1; MATCH (n) DELETE n"):
        with pytest.raises(QueryDenied):
            await kept.rows(text)
    assert await kept.all() == before


async def test_a_failing_query_is_a_typed_error_and_the_next_one_works(kept: StoredState) -> None:
    await kept.apply(add("a", x="text"))
    with pytest.raises((ToolInputInvalid, NotInGraph)):
        await kept.rows("MATCH (n:Task) RETURN m.x")
    with pytest.raises(ToolInputInvalid):
        await kept.rows("RETURN $x", x=2**70)
    assert await kept.rows("MATCH (n:Task) RETURN n.x") == (("text",),)


async def test_rows_and_bytes_are_capped(tmp_path: Path, kept: StoredState) -> None:
    await kept.apply(*(add(f"k{n:03}", text="x" * 100) for n in range(300)))
    found = await kept.store.query(kept.graph, "MATCH (n:Task) RETURN n.key", {}, limit=10)
    assert (len(found.rows), found.more) == (10, True)
    found = await kept.store.query(kept.graph, "MATCH (n:Task) RETURN n.key", {}, limit=300)
    assert (len(found.rows), found.more) == (300, False)
    await kept.store.aclose()
    small = opened(kept.kind, kept.folder, max_rows=50, max_bytes=2000)
    try:
        found = await small.query(kept.graph, "MATCH (n:Task) RETURN n.key", {}, limit=300)
        assert (len(found.rows), found.more) == (50, True)
        found = await small.query(kept.graph, "MATCH (n:Task) RETURN n.text", {}, limit=300)
        assert 10 <= len(found.rows) < 30
        assert found.more
        assert len(await small.nodes(kept.graph, limit=5)) == 5
        with pytest.raises(QueryTimeout):
            await small.nodes(kept.graph, limit=300)
    finally:
        await small.aclose()


async def test_a_cartesian_product_ends_in_time(kept: StoredState) -> None:
    await kept.apply(*(add(f"k{n}", n=n) for n in range(1500 if kept.kind == "ladybug" else 300)))
    await kept.store.aclose()
    hasty = opened(kept.kind, kept.folder, timeout_s=0.7)
    try:
        await hasty.nodes(kept.graph, limit=1)
        began = time.monotonic()
        with pytest.raises(QueryTimeout):
            await hasty.query(kept.graph, "MATCH (a:Task), (b:Task), (c:Task) WHERE a.n + b.n + c.n = -1 RETURN count(*)", {})
        assert time.monotonic() - began < 10
        assert len(await hasty.nodes(kept.graph, label="Task", key="k1")) == 1
    finally:
        await hasty.aclose()


async def test_graphs_are_isolated(kept: StoredState) -> None:
    other = fresh(kept.kind)
    await kept.apply(add("a"))
    assert await kept.store.nodes(other) == ()


async def test_stored_data_is_read_by_another_store(kept: StoredState) -> None:
    await kept.apply(add("a", x=1, o={"y": None}), add("b", x="one"), join("a", "b", w=2))
    before = await kept.all()
    await kept.store.aclose()
    again = opened(kept.kind, kept.folder)
    try:
        assert (await again.nodes(kept.graph), await again.edges(kept.graph)) == before
        assert await again.apply(kept.graph, (add("a"), join("a", "b"))) == Changed()
    finally:
        await again.aclose()
    assert await kept.all() == before  # a store that was closed opens again


# Ladybug.


async def test_a_label_and_a_relationship_may_have_the_same_name_or_differ_in_case(file: StoredState) -> None:
    await file.apply(add("a", "Task", x=1), add("a", "task", x="one"), add("a", "TASK"))
    loop = Edge(start=ref("a", "task"), end=ref("a", "TASK"), relationship="Task", properties={"x": [1]})
    await file.apply(AddEdge(edge=loop))
    await file.store.aclose()
    assert await file.all() == ((node("a", "TASK"), node("a", "Task", x=1), node("a", "task", x="one")), (loop,))
    found = await file.rows("MATCH (n) RETURN n")
    assert sorted(str(row[0]["label"]) for row in found if isinstance(row[0], dict)) == ["TASK", "Task", "task"]


async def test_a_failed_query_works_once_the_graph_has_the_missing_name(file: StoredState) -> None:
    asked = "MATCH (n:Late) WHERE n.key = $key RETURN count(n)"
    with pytest.raises(NotInGraph):
        await file.store.query(file.graph, asked, {"key": "a"})
    await file.store.apply(file.graph, (AddNode(node=Node(label="Late", key="a")),))
    assert (await file.store.query(file.graph, asked, {"key": "a"})).rows == ((1,),)


async def test_a_property_is_typed_in_queries_until_a_value_of_another_type_is_stored(file: StoredState) -> None:
    await file.apply(add("a", n=1, tags=["x", "y"]), add("b", n=7))
    assert await file.rows("MATCH (t:Task) WHERE t.n > 5 RETURN t.key, t.n + 1") == (("b", 8),)
    assert await file.rows("MATCH (t:Task) WHERE 'x' IN t.tags RETURN t.key") == (("a",),)
    await file.apply(add("c", n=2.5))
    assert await file.rows("MATCH (t:Task) RETURN sum(t.n)") == ((10.5,),)
    await file.apply(add("d", n="many"))
    assert await file.rows("MATCH (t:Task) RETURN t.n ORDER BY t.key") == (("1",), ("7",), ("2.5",), ("many",))
    assert [one.properties["n"] for one in await file.nodes()] == [1, 7, 2.5, "many"]
    assert await file.nodes(properties={"n": 7}) == (node("b", n=7),)
    assert await file.nodes(properties={"n": "7"}) == ()


async def test_more_properties_than_columns_are_stored(file: StoredState) -> None:
    many = {f"p{n}": n for n in range(400)}
    await file.apply(AddNode(node=Node(label="Task", key="a", properties=dict(many))))
    assert (await file.nodes())[0].properties == many


async def test_unused_names_are_not_in_the_graph(file: StoredState) -> None:
    await file.apply(add("a"))
    for text in ("MATCH (n:Nothing) RETURN n", "MATCH (n:Task) RETURN n.nothing"):
        with pytest.raises(NotInGraph):
            await file.rows(text)


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every query through: the process is what holds should there be a way past the guard."""
    from interlock_agents.puntini.graphs import ladybug  # noqa: PLC0415

    monkeypatch.setattr(ladybug, "prepare", lambda text, dialect: Prepared(text, None))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


@pytest.mark.usefixtures("unguarded")
async def test_a_query_over_its_memory_limit_ends_and_the_next_one_works(file: StoredState) -> None:
    await file.apply(add("a"))
    for text in ("RETURN size(range(1, 100000000))", "UNWIND range(1, 1000000000) AS x RETURN count(x)"):
        with pytest.raises(QueryTimeout):
            await file.rows(text)
    assert await file.nodes() == (node("a"),)


@pytest.mark.usefixtures("unguarded")
async def test_a_query_cannot_write_without_the_guard(file: StoredState) -> None:
    await file.apply(add("a"))
    for text in ("CREATE (n:Task {key: 'b'})", "MATCH (n) DETACH DELETE n", "CREATE NODE TABLE Other(key STRING PRIMARY KEY)"):
        with pytest.raises(ToolInputInvalid):
            await file.rows(text)
    assert await file.nodes() == (node("a"),)


async def test_a_hanging_process_is_replaced_in_time(file: StoredState) -> None:
    await file.apply(add("a"))
    await file.store.aclose()
    hasty = StoredState(opened("ladybug", file.folder, timeout_s=0.5), file.graph, file.kind, file.folder)
    await hasty.nodes()
    os.kill(process_of(hasty), signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(QueryTimeout):
        await hasty.rows("MATCH (n:Task) RETURN n")
    assert time.monotonic() - began < 10
    assert await hasty.nodes() == (node("a"),)
    await hasty.store.aclose()


def rivalling(kept: StoredState) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(RIVAL), str(kept.folder), kept.graph], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


async def test_a_file_that_another_process_has_open_is_session_busy_after_a_wait(file: StoredState) -> None:
    hurried = opened("ladybug", file.folder, timeout_s=0.1)
    with rivalling(file) as rival:
        assert rival.stdout is not None
        assert rival.stdin is not None
        assert await asyncio.to_thread(rival.stdout.readline) == b"open\n"
        with pytest.raises(SessionBusy, match="another process") as caught:
            await hurried.apply(file.graph, (add("a"),))
        assert caught.value.transient
        with pytest.raises(SessionBusy):
            await hurried.nodes(file.graph)
        waits = asyncio.create_task(file.nodes())
        await asyncio.sleep(0.05)
        assert not waits.done()
        rival.stdin.close()
        assert await waits == (node("theirs"),)
        assert await asyncio.to_thread(rival.wait, 20) == 0
    await hurried.aclose()


def file_of(kept: StoredState) -> LadybugFile:
    assert isinstance(kept.store, LadybugGraphs)
    return kept.store._open[kept.graph].file  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def process_of(kept: StoredState) -> int:
    pid = file_of(kept).pid
    assert pid is not None
    return pid


async def test_committed_changes_survive_a_killed_process(file: StoredState) -> None:
    await file.apply(add("a"))
    killed = process_of(file)
    os.kill(killed, signal.SIGKILL)
    await asyncio.to_thread(os.waitid, os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    assert await file.nodes() == (node("a"),)
    assert (await file.apply(add("b"))).nodes_added == (node("b"),)


async def test_a_full_disk_is_store_full_and_writing_works_again_with_space(file: StoredState) -> None:
    await file.apply(add("a"))
    before = await file.all()
    size = max(one.stat().st_size for one in file.folder.iterdir())
    process = process_of(file)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size + 4096, resource.RLIM_INFINITY))
    with pytest.raises(StoreFull):
        await file.apply(*(add(f"k{n}", text="x" * 1000) for n in range(1000)))
    if file_of(file).is_open:
        resource.prlimit(process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert await file.all() == before
    assert (await file.apply(add("b"))).nodes_added == (node("b"),)


async def test_a_full_disk_is_store_full_for_a_single_statement(file: StoredState) -> None:
    await file.apply(add("a", text="short"))
    before = await file.all()
    size = max(one.stat().st_size for one in file.folder.iterdir())
    process = process_of(file)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size + 4096, resource.RLIM_INFINITY))
    with pytest.raises(StoreFull):
        await file.apply(add("b", text="x" * 500_000))
    if file_of(file).is_open:
        resource.prlimit(process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert await file.all() == before
    assert (await file.apply(add("b", text="y"))).nodes_added == (node("b", text="y"),)


async def test_the_title_is_written_once_there_is_disk_space(file: StoredState) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    try:
        with pytest.raises((StoreFull, StoreUnavailable)):
            await file.apply(add("a"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await file.apply(add("a"))
    assert isinstance(file.store, LadybugGraphs)
    assert [one.name for one in await file.store.graphs()] == ["mine"]


async def test_a_cancelled_transaction_is_complete_or_absent_and_the_next_one_works(file: StoredState) -> None:
    await file.apply(add("a", x=1))
    os.kill(process_of(file), signal.SIGSTOP)
    left = asyncio.create_task(file.apply(add("b", x=2)))
    waits = asyncio.create_task(file.nodes())
    await asyncio.sleep(0.05)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    assert await waits == (node("a", x=1),)
    assert (await file.apply(add("b", x=3))).nodes_added == (node("b", x=3),)


@pytest.mark.parametrize("step", [(add("b", x=2),), (add("b", x=2), add("c", "Fresh"))], ids=["one statement", "a transaction"])
async def test_a_transaction_that_times_out_changes_nothing(
    file: StoredState, step: tuple[Change, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    await file.apply(add("a", x=1))
    os.kill(process_of(file), signal.SIGSTOP)
    with monkeypatch.context() as hurry:
        hurry.setattr(process, "_WRITE_S", 0.05)
        with pytest.raises(StoreUnavailable, match="in time"):
            await file.apply(*step)
    assert await file.nodes() == (node("a", x=1),)
    assert (await file.apply(*step)).nodes_added[0] == node("b", x=2)


async def test_files_are_readable_only_by_their_owner(file: StoredState) -> None:
    await file.apply(add("a"))
    assert stat.S_IMODE(file.folder.stat().st_mode) == 0o700
    files = list(file.folder.iterdir())
    assert files
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in files)


async def test_names_of_graphs_cannot_escape_the_folder(file: StoredState) -> None:
    for graph in ("../up", "/tmp/x", "a" * 100_000, "\x00", "\ud800", "*", ""):  # noqa: S108
        await file.store.apply(graph, (add("a", x=graph[:5].encode("utf-8", "replace").decode()),))
        assert len(await file.store.nodes(graph)) == 1
    assert {one.suffix for one in file.folder.iterdir()} <= {".lbug", ".wal", ".sum", ".title"}
    assert [one.name for one in file.folder.parent.iterdir()] == ["graphs"]


@pytest.mark.parametrize("damage", ["cut", "overwritten", "junk"])
async def test_a_damaged_file_is_store_corrupt_and_unchanged(file: StoredState, damage: str) -> None:
    await file.apply(*(add(f"k{n}", n=n) for n in range(200)))
    await file.store.aclose()
    (path,) = file.folder.glob("*.lbug")
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[: len(whole) // 2], "overwritten": bytes(64) + whole[64:], "junk": os.urandom(9000)}[damage])
    broken = path.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreCorrupt):
            await file.nodes()
        with pytest.raises(StoreCorrupt):
            await file.apply(add("a"))
    assert path.read_bytes() == broken
    path.write_bytes(whole)
    assert len(await file.nodes(limit=500)) == 200


async def test_an_unusable_folder_is_store_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = opened("ladybug", tmp_path / "file" / "graphs")
    with pytest.raises(StoreUnavailable):
        await store.nodes("mine")
    store = opened("ladybug", Path("/proc/nothing"))
    with pytest.raises(StoreUnavailable):
        await store.apply("mine", (add("a"),))


async def test_graphs_over_the_limit_of_open_files_take_turns(tmp_path: Path) -> None:
    store = LadybugGraphs(tmp_path, **LIMITS, max_open=2)
    try:
        for _ in range(2):
            await asyncio.gather(*(store.apply(f"g{n}", (add(f"a{n}"),)) for n in range(4)))
        assert [await store.nodes(f"g{n}") for n in range(4)] == [(node(f"a{n}"),) for n in range(4)]
        assert len(store._open) == 2  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    finally:
        await store.aclose()


def test_a_store_works_in_one_event_loop_after_another(tmp_path: Path) -> None:
    for kind in ("ladybug", "bolt"):
        graph = fresh(kind)
        store = opened(kind, tmp_path)
        asyncio.run(store.apply(graph, (add("a"),)))
        assert asyncio.run(store.nodes(graph)) == (node("a"),)
        asyncio.run(store.aclose())


async def test_many_nodes_are_added_in_one_fast_transaction(file: StoredState) -> None:
    step = tuple(add(f"k{n}", n=n, name=f"name {n}") for n in range(10_000))
    began = time.monotonic()
    changed = await file.apply(*step)
    took = time.monotonic() - began
    assert len(changed.nodes_added) == 10_000
    assert took < 10  # about 0.7 s alone on a machine
    assert await file.rows("MATCH (n:Task) RETURN count(n), sum(n.n)") == ((10_000, 49_995_000),)


# Bolt.


async def test_two_stores_that_add_the_same_node_concurrently_add_it_once(server: Served, tmp_path: Path) -> None:
    graph = fresh("bolt")
    stores = opened("bolt", tmp_path), opened("bolt", tmp_path)

    async def insistently(store: BoltGraphs | LadybugGraphs, *changes: Change) -> None:
        for _ in range(50):
            try:
                await store.apply(graph, changes)
            except StateConflict:
                continue
            return
        raise AssertionError("it never worked")

    try:
        await stores[0].apply(graph, (add("hub"),))
        await asyncio.gather(
            *(insistently(stores[n % 2], add(f"k{n // 2}"), UpdateNode(ref=ref("hub"), properties={f"p{n}": n})) for n in range(20))
        )
        found = await stores[0].nodes(graph)
        assert [one.key for one in found] == ["hub", *(f"k{n}" for n in range(10))]
        assert found[0].properties == {f"p{n}": n for n in range(20)}
    finally:
        for store in stores:
            await store.aclose()


async def test_an_unreachable_server_or_a_wrong_password_is_store_unavailable(server: Served) -> None:
    for url, password in (("bolt://127.0.0.1:1", "any"), (server.url, "wrong")):
        store = open_bolt(url, user=server.user, password=password, **LIMITS)
        for call in (store.nodes("graph"), store.query("graph", "RETURN 1", {}), store.apply("graph", (add("a"),))):
            with pytest.raises(StoreUnavailable) as caught:
                await call
            assert "wrong" not in str(caught.value)
        await store.aclose()


async def test_a_graph_without_a_database_is_unavailable(server: Served) -> None:
    store = open_bolt(server.url, user=server.user, password=server.password, **LIMITS)
    for graph in ("nosuchgraph", "../x", "A b", "\ud800"):
        with pytest.raises(StoreUnavailable):
            await store.apply(graph, (add("a"),))
    await store.aclose()


async def test_all_graphs_may_share_one_database(server: Served) -> None:
    name = fresh("bolt")
    store = open_bolt(server.url, user=server.user, password=server.password, database=name, **LIMITS)
    await store.apply("one", (add("a"),))
    assert await store.nodes("two") == (node("a"),)
    await store.aclose()


async def test_a_cancelled_transaction_changes_nothing(kept: StoredState) -> None:
    await kept.apply(add("a"))
    task = asyncio.create_task(kept.apply(*(add(f"k{n}", n=n) for n in range(3000))))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(await kept.nodes(limit=1000)) in {1, 1000}
