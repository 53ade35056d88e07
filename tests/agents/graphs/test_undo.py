"""What a step changed can be taken back: whatever it was, the graph is as it was before, and what cannot be taken back stays whole."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.errors import CapabilityError
from interlock_agents.puntini.graph_store import (
    AddEdge,
    AddNode,
    Change,
    Changed,
    DeleteEdge,
    DeleteNode,
    Edge,
    EdgeRef,
    Node,
    NodeRef,
    UpdateEdge,
    UpdateNode,
)
from interlock_agents.puntini.graphs.effects import effect_of
from interlock_agents.puntini.graphs.registry import GraphTools
from tests.support.puntini import opened

REFS = [NodeRef(label=label, key=key) for label in ("Task", "Person") for key in ("a", "b")]
VALUES: st.SearchStrategy[JsonValue] = st.sampled_from([None, 1, 1.0, True, "x", [1, 2], {"y": None}])
PROPERTIES = st.dictionaries(st.sampled_from(["p", "q"]), VALUES, max_size=2)
ENDS = st.tuples(st.sampled_from(REFS), st.sampled_from(REFS), st.sampled_from(["R", "S"]))


@st.composite
def changes(draw: st.DrawFn) -> Change:
    ref, properties = draw(st.sampled_from(REFS)), draw(PROPERTIES)
    start, end, relationship = draw(ENDS)
    return draw(
        st.sampled_from(
            [
                AddNode(node=Node(label=ref.label, key=ref.key, properties=properties)),
                UpdateNode(ref=ref, properties=properties),
                DeleteNode(ref=ref, detach=True),
                AddEdge(edge=Edge(start=start, end=end, relationship=relationship, properties=properties)),
                UpdateEdge(start=start, end=end, relationship=relationship, properties=properties),
                DeleteEdge(start=start, end=end, relationship=relationship),
            ]
        )
    )


Graph = tuple[dict[NodeRef, Node], dict[EdgeRef, Edge]]


def after(graph: Graph, changed: Changed) -> Graph:
    nodes = {ref: node for ref, node in graph[0].items() if node not in changed.nodes_removed}
    edges = {ref: edge for ref, edge in graph[1].items() if edge not in changed.edges_removed}
    nodes |= {node.ref: node for node in (*changed.nodes_added, *changed.nodes_changed)}
    edges |= {edge.ref: edge for edge in (*changed.edges_added, *changed.edges_changed)}
    return nodes, edges


@settings(max_examples=500)
@given(steps=st.lists(st.lists(changes(), min_size=1, max_size=4), min_size=1, max_size=6))
def test_the_inverse_undoes_any_change(steps: list[list[Change]]):
    graph: Graph = ({}, {})
    done: list[tuple[Graph, Changed]] = []
    for step in steps:
        try:
            changed = effect_of(step, *graph)
        except CapabilityError:
            continue
        done.append((graph, changed))
        graph = after(graph, changed)
    for before, changed in reversed(done):
        graph = after(graph, effect_of(changed.inverse(), *graph))
        assert graph == before


async def test_a_change_that_others_depend_on_is_not_undone(tmp_path: Path):
    store = opened("ladybug", tmp_path)
    added = await store.apply("mine", (AddNode(node=Node(label="Task", key="a")), AddNode(node=Node(label="Task", key="b"))))
    edge = Edge(start=REFS[0], end=REFS[1], relationship="R")
    await store.apply("mine", (AddEdge(edge=edge),))
    result = await GraphTools().take_back("mine", (added,), store=store)
    assert result.code == "node_has_edges"
    assert (len(await store.nodes("mine")), await store.edges("mine")) == (2, (edge,)), "all of it or nothing"
    await store.aclose()
