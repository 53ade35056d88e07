"""Questions that need no Cypher: what is found, counted and compared, and what is said of names that the graph does not have."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.capabilities import ToolRequest
from interlock.spelling import closest, edit_distance
from interlock_agents.puntini.graphs.registry import GraphTools
from interlock_agents.puntini.tool_registry import GraphToolResult
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
    assert other == "The graph has no edges MANAGES, so I cannot say. There is: Ada -[ASSIGNED_TO]-> Design"
    backwards = {"node": "Build", "relationship": "HAS_TASK", "direction": "to"}
    assert await graph.ask(key="Design", wants="yes_no", near=backwards) == "No."
    assert await graph.ask(key="Ada", wants="yes_no", near={"node": "Bob"}) == "No. Ada and Bob are not connected to each other."
    assert (await graph.ask(key="Design", wants="yes_no", where=[{"value": "done"}])).startswith("No. Task Design (status: open")
    assert (await graph.ask(key="Ada", label="Task", wants="yes_no")).startswith("No. Person Ada")
    assert (await graph.ask(key="Ada", label="Robot", wants="yes_no")).startswith(
        "The graph does not say whether it is Robot. It says: Person Ada"
    )
    backwards = {"node": "Apollo", "relationship": "HAS_TASK", "direction": "to"}
    assert await graph.ask(key="Design", wants="yes_no", near=backwards) == "No. There is: Apollo -[HAS_TASK]-> Design"


async def test_a_condition_that_only_an_edge_can_decide_is_not_denied(graph: Asked):
    await graph("add_edge", from_node="Bob", to_node="Build", relationship="REVIEWED")
    reviewed = await graph.ask(key="Build", wants="yes_no", where=[{"value": "reviewed"}])
    assert reviewed == "The graph says: Bob -[REVIEWED]-> Build."
    assert (await graph.ask(key="Bob", wants="yes_no", where=[{"value": "tall"}])).startswith("The graph does not say whether it is tall.")
    assert (await graph.ask(key="Design", wants="yes_no", where=[{"value": "cancelled"}])).startswith("No. Task Design (status: open")


async def test_counting_a_property_returns_its_value(graph: Asked):
    await graph("update_props", target="Design", properties={"hours": 40})
    takes = {"node": "Design", "relationship": "TAKES", "direction": "from"}
    assert await graph.ask(label="Hour", wants="count", near=takes) == "40 (hours of Task Design)"
    assert (await graph.ask(label="Week", wants="count", near=takes)).startswith("No node has the label Week, so I cannot say. Design has:")


async def test_a_question_with_unknown_names_is_not_denied(graph: Asked):
    await graph("add_edge", from_node="Ada", to_node="Bob", relationship="MOTHER_OF")
    for wants in ("count", "names", "yes_no"):
        children = await graph.ask(label="Child", wants=wants, near={"node": "Ada"})
        assert children.startswith("No node has the label Child, so I cannot say. Ada has: Ada -[")
        assert "Ada -[MOTHER_OF]-> Bob" in children
    reachable = {"node": "Bob", "relationship": "REACHABLE_FROM", "direction": "to"}
    said = await graph.ask(key="Design", wants="yes_no", near=reachable)
    assert said.startswith(
        "The graph has no edges REACHABLE_FROM, so I cannot say. Design and Bob are not connected directly, but by others:"
    )
    assert (await graph.ask(label="Apollo", wants="count")) == "No node has the label Apollo, but there is Project Apollo."
    assert (await graph.ask(label="Apollo", wants="yes_no")) == "No node has the label Apollo, but there is Project Apollo."
    assert await graph.ask(key="done", wants="nodes") == "There is no node 'done' in the graph. 'done' is the status of Task Build."


async def test_a_value_that_cannot_be_compared_is_reported(graph: Asked):
    await graph("update_props", target="Ada", properties={"age": "36 years"})
    older = [{"property": "age", "test": "more", "value": 30}]
    asked = await graph("query_graph", label="Person", wants="count", where=older)
    assert asked.error == (
        "'age' of Person Ada is '36 years', which cannot be compared with '30': only numbers and dates as 2030-01-31 can."
    )
    assert await graph.ask(label="Person", wants="highest", property="age") == "I cannot say: not every 'age' is a number (Ada: 36 years)."
    exactly = await graph("query_graph", label="Person", wants="nodes", where=[{"property": "age", "value": 36}])
    assert exactly.error == asked.error.replace("'30'", "'36'")


async def test_a_word_that_may_mean_a_relationship_is_reported(graph: Asked):
    for test in ("equal", "not_equal"):
        assert await graph.ask(label="Task", wants="nodes", where=[{"test": test, "value": "assigned"}]) == (
            "No property says what is 'assigned', but there are edges ASSIGNED_TO: ask for one of these."
        )
    await graph("add_edge", from_node="Design", to_node="Build", relationship="BLOCKS")
    assert "edges BLOCKS" in await graph.ask(label="Task", wants="count", where=[{"value": "blocked"}])
    assert await graph.ask(label="Task", wants="count", where=[{"test": "not_equal", "value": "done"}]) == 1


async def test_a_missing_property_that_no_node_has_is_an_error(graph: Asked):
    without = [{"property": "sister", "test": "missing"}]
    asked = await graph("query_graph", label="Person", wants="nodes", where=without)
    assert asked.error == "None of the nodes has a property 'sister', so I cannot tell them apart by it."


async def test_the_whole_of_a_part_is_found_by_the_inverse_relationship(graph: Asked):
    whole = {"node": "Design", "relationship": "BELONGS_TO", "direction": "from"}
    assert (await graph.ask(label="Project", wants="names", near=whole))["rows"] == [["Apollo"]]


async def test_a_sum_has_all_of_its_digits(graph: Asked):
    await graph("update_props", target="Design", properties={"cost": 12_345_678_901})
    await graph("update_props", target="Build", properties={"cost": 1})
    assert await graph.ask(label="Task", wants="sum", property="cost") == "12345678902"


async def test_a_person_is_not_created_beside_another_person(graph: Asked):
    beside = {"node": "Ada", "not_of": ["Person"]}
    refused = await graph("add_node", label="Person", key="Laundry", if_missing=True, beside=beside)
    assert refused.error == "There is no node 'Laundry' in the graph. Say what it is first: 'create a task Laundry'."
    missing = await graph("add_node", label="Person", key="Eve", if_missing=True, beside={"node": "Nowhere", "not_of": ["Person"]})
    assert missing.code == "not_in_graph"
    added = await graph("add_node", label="Person", key="Eve", if_missing=True, beside={"node": "Design", "not_of": ["Person"]})
    assert added.changed is not None
    assert added.changed.count == 1


async def test_deleting_an_edge_in_the_wrong_direction_reports_the_existing_edge(graph: Asked):
    gone = await graph("delete_edge", match={"from_node": "Design", "to_node": "Ada", "relationship": "ASSIGNED_TO"})
    assert gone.error == (
        "There is no edge ASSIGNED_TO from Task 'Design' to Person 'Ada' in the graph. There is: Ada -[ASSIGNED_TO]-> Design."
    )


async def test_an_indirect_connection_is_reported(graph: Asked):
    said = await graph.ask(key="Ada", wants="connections", near={"node": "Build"})
    assert said.splitlines()[1:] == ["Ada -[ASSIGNED_TO]-> Design", "Apollo -[HAS_TASK]-> Design", "Apollo -[HAS_TASK]-> Build"]
    assert said.startswith("Ada and Build are not connected directly")
    assert (await graph.ask(key="Ada", wants="yes_no", near={"node": "Build"})).startswith("Ada and Build are not connected directly")


async def test_an_unknown_name_is_answered_with_similar_names(graph: Asked):
    meant = "There is no node 'Desing' in the graph. Did you mean 'Task Design'?"
    assert await graph.ask(key="Desing", wants="property", property="status") == meant
    assert await graph.ask(label="Task", wants="count", near={"node": "Desing"}) == meant
    assert await graph.ask(key="Desing", wants="yes_no") == f"No. {meant}"
    assert await graph.ask(label="Taks", wants="count") == "0. No node has the label Taks. Did you mean 'Task'?"
    assert await graph.ask(label="Robot", wants="names") == "No node has the label Robot. There are: Person, Project, Task."
    assert "no 'colour'. It has: status, priority, due." in await graph.ask(key="Design", wants="property", property="colour")
    assert "Did you mean 'status'?" in await graph.ask(key="Design", wants="property", property="statsu")
    assert "Ada -[ASSIGNED_TO]-> Design; Apollo -[HAS_TASK]-> Design" in await graph.ask(
        wants="names", near={"node": "Design", "relationship": "BLOCKS"}
    )


async def test_names_are_found_without_case_and_misspelt_names_are_errors(graph: Asked):
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


def test_closest_words_of_a_misspelling():
    assert closest("Desing", ["Build", "Design", "Resign"]) == ["Design", "Resign"], "the closest comes first"
    assert closest("Bob", ["Ada", "Rob", "Eve"]) == ["Rob"]
    assert closest("Eva", ["Ada"]) == [], "two changes make another name of three letters"


@given(one=st.text("ab", max_size=8), other=st.text("ab", max_size=8))
def test_edit_distance_is_a_metric(one: str, other: str):
    assert edit_distance(one, other) == edit_distance(other, one)
    assert (edit_distance(one, other) == 0) == (one == other)
    assert edit_distance(one, f"{one}x") == 1
