"""Questions that need no Cypher: what is found, counted and compared, and what is said of names that the graph does not have."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.adapters.graphs.registry import GraphTools
from interlock.capabilities import ToolRequest
from interlock.capabilities.registry import GraphToolResult
from interlock.spelling import closest, edit_distance
from tests.support.puntini import Closing, opened

NUMBERS = itertools.count()


class Asked:
    """A graph with a project, two tasks and two people, and its tools."""

    def __init__(self, store: Closing) -> None:
        self.store, self.graph = store, f"questions{next(NUMBERS)}"

    async def __call__(self, name: str, /, **args: Any) -> GraphToolResult:
        return await GraphTools().call(self.graph, ToolRequest(tool=name, args=args), store=self.store)

    async def ask(self, **args: Any) -> Any:
        found = await self("query_graph", **args)
        assert found.error is None, found.error
        return found.result


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncGenerator[Asked]:
    store = opened("ladybug", tmp_path)
    made = Asked(store)
    for label, key, properties in (
        ("Project", "Apollo", {}),
        ("Task", "Design", {"status": "open", "priority": 3, "due": "2030-01-01"}),
        ("Task", "Build", {"status": "Done", "priority": 1, "urgent": True}),
        ("Person", "Ada", {"age": 36}),
        ("Person", "Bob", {"age": 25}),
    ):
        await made("add_node", label=label, key=key, properties=properties)
    for start, relationship, end in (("Apollo", "HAS_TASK", "Design"), ("Apollo", "HAS_TASK", "Build"), ("Ada", "ASSIGNED_TO", "Design")):
        await made("add_edge", from_node=start, to_node=end, relationship=relationship)
    yield made
    await store.aclose()


async def test_questions_about_many_nodes(graph: Asked):
    assert await graph.ask(label="Task", wants="count") == 2
    assert await graph.ask(label="Task", wants="count", near={"node": "Apollo"}) == 2
    assert await graph.ask(label="Task", wants="count", where=[{"value": "done"}]) == 1
    assert await graph.ask(label="Task", wants="count", where=[{"value": "urgent"}]) == 1
    assert (await graph.ask(wants="names", near={"node": "design", "relationship": "ASSIGNED_TO"}))["rows"] == [["Ada"]]
    assert (await graph.ask(label="Person", wants="names", where=[{"property": "age", "test": "more", "value": 30}]))["rows"] == [["Ada"]]
    due = {"property": "due", "test": "less", "value": "2031-01-01"}
    assert (await graph.ask(label="Task", wants="names", where=[due]))["rows"] == [["Design"]]
    unassigned = {"test": "unconnected", "value": "ASSIGNED_TO"}
    assert (await graph.ask(label="Task", wants="names", where=[unassigned]))["rows"] == [["Build"]]
    assert await graph.ask(label="Person", wants="highest", property="age") == "Ada (age: 36)"
    assert await graph.ask(label="Person", wants="average", property="age") == "30.5"
    assert await graph.ask(wants="sum", property="priority") == "4 (3 of 5 without a number for 'priority')"


async def test_questions_with_yes_or_no(graph: Asked):
    assert (await graph.ask(key="Design", wants="yes_no")).startswith("Yes. Task Design")
    assert (await graph.ask(key="Ada", wants="yes_no", near={"node": "Design", "relationship": "ASSIGNED_TO"})).startswith("Yes.")
    other = await graph.ask(key="Ada", wants="yes_no", near={"node": "Design", "relationship": "MANAGES"})
    assert other == "No. There is: Ada -[ASSIGNED_TO]-> Design"
    assert await graph.ask(key="Ada", wants="yes_no", near={"node": "Bob"}) == "No. Ada and Bob are not connected to each other."
    assert (await graph.ask(key="Design", wants="yes_no", where=[{"value": "done"}])).startswith("No. Task Design (status: open")
    assert (await graph.ask(key="Ada", label="Task", wants="yes_no")).startswith("No. Person Ada")
    assert (await graph.ask(key="Ada", label="Robot", wants="yes_no")).startswith(
        "The graph does not say whether it is Robot. It says: Person Ada"
    )
    backwards = {"node": "Apollo", "relationship": "HAS_TASK", "direction": "to"}
    assert (await graph.ask(key="Design", wants="yes_no", near=backwards)).startswith("No.")


async def test_what_the_graph_says_by_an_edge_or_not_at_all_is_not_denied(graph: Asked):
    await graph("add_edge", from_node="Bob", to_node="Build", relationship="REVIEWED")
    reviewed = await graph.ask(key="Build", wants="yes_no", where=[{"value": "reviewed"}])
    assert reviewed.startswith("The graph does not say whether it is reviewed. It says: Task Build")
    assert "Bob -[REVIEWED]-> Build" in reviewed
    assert (await graph.ask(key="Bob", wants="yes_no", where=[{"value": "tall"}])).startswith("The graph does not say whether it is tall.")
    assert (await graph.ask(key="Design", wants="yes_no", where=[{"value": "cancelled"}])).startswith("No. Task Design (status: open")


async def test_a_number_of_what_is_a_property_is_its_value(graph: Asked):
    await graph("update_props", target="Design", properties={"hours": 40})
    takes = {"node": "Design", "relationship": "TAKES", "direction": "from"}
    assert await graph.ask(label="Hour", wants="count", near=takes) == "40 (hours of Task Design)"
    assert (await graph.ask(label="Week", wants="count", near=takes)).startswith("0. No Week is connected to Task Design by TAKES.")


async def test_nodes_that_others_connect_are_not_called_unconnected(graph: Asked):
    said = await graph.ask(key="Ada", wants="connections", near={"node": "Build"})
    assert said.splitlines()[1:] == ["Ada -[ASSIGNED_TO]-> Design", "Apollo -[HAS_TASK]-> Design", "Apollo -[HAS_TASK]-> Build"]
    assert said.startswith("Ada and Build are not connected directly")
    assert (await graph.ask(key="Ada", wants="yes_no", near={"node": "Build"})).startswith("No. Ada and Build are not connected directly")


async def test_a_name_that_the_graph_does_not_have_is_an_answer_with_the_names_that_could_be_meant(graph: Asked):
    meant = "There is no node 'Desing' in the graph. Did you mean 'Task Design'?"
    assert await graph.ask(key="Desing", wants="property", property="status") == meant
    assert await graph.ask(label="Task", wants="count", near={"node": "Desing"}) == meant
    assert await graph.ask(key="Desing", wants="yes_no") == f"No. {meant}"
    assert await graph.ask(label="Taks", wants="count") == "0. No node has the label Taks. Did you mean 'Task'?"
    assert await graph.ask(label="Robot", wants="names") == "No node has the label Robot. There are: Person, Project, Task."
    assert "no 'colour'. It has: status, priority, due." in await graph.ask(key="Design", wants="property", property="colour")
    assert "Did you mean 'status'?" in await graph.ask(key="Design", wants="property", property="statsu")
    assert "ASSIGNED_TO, HAS_TASK" in await graph.ask(wants="names", near={"node": "Design", "relationship": "BLOCKS"})


async def test_names_are_found_whatever_their_case_and_misspelt_ones_are_not_changed(graph: Asked):
    assert (await graph("update_props", target="design", properties={"status": "done"})).error is None
    assert (await graph("update_props", target="task:build", properties={"status": "open"})).error is None
    failed = await graph("delete_node", match="Bulid")
    assert (failed.code, failed.error) == ("not_in_graph", "There is no node 'Bulid' in the graph. Did you mean 'Task Build'?")
    await graph("add_node", label="Task", key="design")
    assert (await graph("update_props", target="design", properties={"x": 1})).error is None, "the exact name is the one"


async def test_a_node_that_is_added_only_if_it_is_missing(graph: Asked):
    for label, key in (("Person", "ada"), ("Person", "Design")):
        added = await graph("add_node", label=label, key=key, if_missing=True)
        assert added.changed is not None
        assert not added.changed.nodes_added
    misspelt = await graph("add_node", label="Person", key="Adda", if_missing=True)
    assert misspelt.error is not None
    assert "Did you mean 'Person Ada'?" in misspelt.error
    added = await graph("add_node", label="Person", key="Grace", if_missing=True)
    assert added.changed is not None
    assert [node.key for node in added.changed.nodes_added] == ["Grace"]


async def test_a_node_can_be_renamed_with_its_properties_and_edges(graph: Asked):
    await graph("add_edge", from_node="Design", to_node="Design", relationship="LIKE", properties={"w": 1})
    renamed = await graph("update_props", target="design", properties={"key": "Draft", "status": "new"})
    assert renamed.error is None
    nodes = {node.key: node.properties for node in await graph.store.nodes(graph.graph, label="Task")}
    assert nodes["Draft"] == {"status": "new", "priority": 3, "due": "2030-01-01"}
    assert "Design" not in nodes
    edges = {(edge.start.key, edge.relationship, edge.end.key, *edge.properties.values()) for edge in await graph.store.edges(graph.graph)}
    assert {("Apollo", "HAS_TASK", "Draft"), ("Ada", "ASSIGNED_TO", "Draft"), ("Draft", "LIKE", "Draft", 1)} < edges
    taken = await graph("update_props", target="Draft", properties={"key": "Build"})
    assert (taken.code, taken.error) == ("tool_input_invalid", "There is a Task 'Build' already.")
    for wrong in ("", 3, None, "x" * 501):
        assert (await graph("update_props", target="Draft", properties={"key": wrong})).code == "tool_input_invalid"
    assert (await graph("update_props", target="Draft", properties={"key": "draft"})).error is None, "another spelling is another name"


def test_known_words_that_a_misspelt_one_could_be():
    assert closest("Desing", ["Build", "Design", "Resign"]) == ["Design", "Resign"], "the closest comes first"
    assert closest("Bob", ["Ada", "Rob", "Eve"]) == ["Rob"]
    assert closest("Eva", ["Ada"]) == [], "two changes make another name of three letters"


@given(one=st.text("ab", max_size=8), other=st.text("ab", max_size=8))
def test_the_distance_of_two_words_is_one(one: str, other: str):
    assert edit_distance(one, other) == edit_distance(other, one)
    assert (edit_distance(one, other) == 0) == (one == other)
    assert edit_distance(one, f"{one}x") == 1
