"""The eight scenes of puntini, offline and with a scripted model, on both engines and on both stores."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from interlock.adapters.people import ScriptedHuman
from interlock.agents.puntini.nodes import MAX_RETRIES, PAUSE_S
from interlock.agents.puntini.spec import MORE, OPTIONS
from interlock.capabilities import Human
from interlock.engine import ENGINES, EngineName
from interlock.errors import InputError, InputSchema, ModelUnavailable, StateConflict, StoreUnavailable
from interlock.runtime.events import Event
from interlock.testing import Scripted
from tests.support.puntini import (
    ESCALATED,
    SIMPLE,
    STEP,
    STORES,
    Desk,
    Watched,
    codes,
    count,
    final,
    fresh,
    many,
    opened,
    simple,
    step,
    told,
    unclear,
)

CREATE = "Create a project Apollo with tasks Design and Build, and assign Ada to Design"
STEPS: list[dict[str, Any]] = [
    step("add_node", label="Project", key="Apollo"),
    step("add_node", label="Task", key="Design"),
    step("add_node", label="Task", key="Build"),
    step("add_node", label="Person", key="Ada"),
    step("add_edge", from_node="Apollo", to_node="Design", relationship="HAS_TASK"),
    step("add_edge", from_node="Project:Apollo", to_node="Task:Build", relationship="HAS_TASK"),
    final("add_edge", from_node="Ada", to_node="Design", relationship="ASSIGNED_TO"),
]
NODES: list[tuple[str, str, dict[str, JsonValue]]] = [
    ("Person", "Ada", {}),
    ("Project", "Apollo", {}),
    ("Task", "Build", {}),
    ("Task", "Design", {}),
]
EDGES = [("Ada", "ASSIGNED_TO", "Design"), ("Apollo", "HAS_TASK", "Build"), ("Apollo", "HAS_TASK", "Design")]
COUNT = "MATCH (p:Project {key: $key})-[:HAS_TASK]->(t:Task) RETURN count(t) AS tasks"


@pytest.fixture(params=itertools.product(ENGINES, STORES), ids="-".join)
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Desk]:
    """Every engine with every store."""
    engine, kind = request.param
    store = opened(kind, tmp_path / "graphs")
    yield Desk(engine, tmp_path, Watched(store), fresh(kind))
    await store.aclose()


async def test_scene_1_a_goal_becomes_nodes_and_edges(desk: Desk):
    result = await desk.take(CREATE, many(*(f"step {number}" for number in range(7))), *STEPS)
    assert (result.status, result.path) == ("success", ("parse_goal", *STEP * 7, "answer"))
    assert (await desk.nodes(), sorted(await desk.edges())) == (NODES, EDGES)
    assert all(len(changes) == 1 for changes in desk.store.applied), "each step is one transaction"
    assert len(desk.store.applied) == 7
    for line in ("added Project Apollo", "added Task Design", "added Ada -[ASSIGNED_TO]-> Design"):
        assert line in result.output
    assert {**result.metadata, "models": None} == {"steps": 7, "failures": 0, "escalated": False, "next": None, "models": None}
    again = await desk.take(CREATE, many("all of it"), *STEPS)
    assert (again.status, again.output) == ("success", f"Asked: {CREATE}\n\nNothing changed in the graph: it was so already.")
    assert (await desk.nodes(), sorted(await desk.edges())) == (NODES, EDGES)


async def test_scene_1_offline(desk: Desk):
    result = await desk.take(CREATE)
    assert (result.status, result.metadata["escalated"]) == ("success", False)
    assert await desk.nodes() == NODES
    found = {(start, end) for start, _, end in await desk.edges()}
    assert {("Apollo", "Design"), ("Apollo", "Build")} <= found
    assert {("Ada", "Design"), ("Design", "Ada")} & found
    async with desk.app() as app:
        nodes, edges = await app.property_graph(desk.session)
    assert (len(nodes), len(edges)) == (4, 3), "the graph that is drawn is the one that the turns work on"
    count = await desk.take("How many tasks does Apollo have?")
    assert "2" in count.output
    assert count.path == SIMPLE


async def test_scene_2_a_question_is_one_call_and_changes_nothing(desk: Desk):
    await desk.take(CREATE, many("all of it"), *STEPS)
    before, applied = await desk.all(), len(desk.store.applied)
    result = await desk.take("How many?", simple("cypher_query", query=COUNT, parameters={"key": "Apollo"}))
    assert (result.path, result.output) == (SIMPLE, "2")
    assert (await desk.all(), len(desk.store.applied)) == (before, applied)
    listed = await desk.take("List.", simple("query_graph", label="Task"))
    assert listed.output.splitlines()[2:] == ["| Task | Build |", "| Task | Design |"]


async def test_scene_3_an_update(desk: Desk):
    await desk.take(CREATE, many("all of it"), *STEPS)
    result = await desk.take("Set it.", simple("update_props", target="Design", properties={"status": "done"}))
    assert result.path == SIMPLE
    assert ("Task", "Design", {"status": "done"}) in await desk.nodes()
    assert "changed Task Design (status: done)" in result.output
    offline = await desk.take("Set the status of Build to open")
    assert offline.status == "success"
    assert ("Task", "Build", {"status": "open"}) in await desk.nodes()


async def test_scene_4_two_nodes_of_a_name_are_asked_about(desk: Desk):
    twins = many("a", "b"), step("add_node", label="Task", key="Design"), final("add_node", label="Person", key="Design")
    await desk.take("Twins.", *twins)
    before = await desk.all()
    wanted = simple("update_props", target="Design", properties={"status": "done"})
    human = ScriptedHuman("I mean Task:Design.")
    result = await desk.take("Set it.", wanted, final("update_props", target="Design", properties={"x": 1}), grants={Human: human})
    assert codes(result) == ["match_ambiguous", "match_ambiguous"]
    assert result.path[-2:] == ESCALATED
    [question] = human.asked
    assert "'Person:Design', 'Task:Design'" in question.text
    assert question.options == OPTIONS
    assert await desk.all() == before
    assert result.metadata["next"] == "Set it."
    said = simple("update_props", target="Task:Design", properties={"status": "done"})
    after = await desk.take("Set it.", said)
    assert desk.model is not None
    assert told(desk.model)[0]["person"] == "I mean Task:Design."
    assert ("Task", "Design", {"status": "done"}) in await desk.nodes()
    assert ("Person", "Design", {}) in await desk.nodes()
    assert after.state["carried"] == ""


async def test_scene_4_offline(desk: Desk):
    await desk.take("Create a task Design")
    await desk.take("Create a person Design")
    before = await desk.all()
    human = ScriptedHuman("abort")
    result = await desk.take("Set the status of Design to done", grants={Human: human})
    assert "match_ambiguous" in codes(result)
    assert len(human.asked) == 1
    assert (await desk.all(), result.metadata["next"]) == (before, None)


async def test_scene_5_a_tool_that_there_is_not_is_refused_and_planned_anew(desk: Desk):
    email = step("send_email", to="Ada")
    result = await desk.take("Tell Ada.", many("tell"), email, final("add_node", label="Note", key="tell Ada"))
    assert result.path == ("parse_goal", "plan_step", "route_tool", "diagnose", *STEP, "answer")
    assert (codes(result), await desk.nodes()) == (["tool_input_invalid"], [("Note", "tell Ada", {})])
    assert "On the way: send_email failed" in result.output


async def test_scene_5_again_and_again_is_a_persons_business(desk: Desk):
    email = step("send_email", to="Ada")
    result = await desk.take("Tell Ada.", many("tell"), email)
    assert (count(result.path, "call_tool"), result.path[-2:]) == (0, ESCALATED)
    assert desk.store.applied == []
    offline = await desk.take("Send an email to Ada")
    assert (offline.metadata["escalated"], desk.store.applied) == (True, [])


async def test_scene_6_a_contradiction_is_escalated_with_its_options(desk: Desk):
    result = await desk.take("Create it and do not create it.", unclear("It is to be there and not to be there."))
    assert result.path == ("parse_goal", "diagnose", *ESCALATED)
    assert "It is to be there and not to be there." in result.output
    assert all(f"- {option}" in result.output for option in OPTIONS)
    assert result.state["escalation"].recommended_action == MORE
    offline = await desk.take("Create a task Test and delete the task Test")
    assert offline.path == ("parse_goal", "diagnose", *ESCALATED)
    assert "contradicts" in offline.output
    assert (desk.store.applied, await desk.nodes()) == ([], [])


@pytest.mark.parametrize("error", [StoreUnavailable("Not now."), StateConflict("Somebody else.")])
async def test_scene_7_a_store_that_fails_once_is_asked_again(desk: Desk, error: Exception):
    desk.store.fails = {2: error}
    plans = step("add_node", label="Task", key="a"), step("add_node", label="Task", key="b"), final("add_node", label="Task", key="c")
    result = await desk.take("Add.", many("a", "b", "c"), *plans)
    assert result.status == "success"
    assert [key for _, key, _ in await desk.nodes()] == ["a", "b", "c"]
    assert desk.waited.seconds == [PAUSE_S]
    assert desk.store.applied[1] == desk.store.applied[2], "the same call"
    assert desk.model is not None
    assert len(desk.model.messages) == 4, "the model need not plan it again"
    assert (result.state["retry_count"], len(desk.store.applied)) == (0, 4)
    assert "was tried again" in result.output


async def test_scene_7_a_store_that_always_fails_is_a_persons_business_and_the_graph_is_as_it_was(desk: Desk):
    await desk.take("Add.", simple("add_node", label="Task", key="kept"))
    before = await desk.all()
    desk.store.applied.clear()
    desk.store.always = StoreUnavailable("Not now.")
    for replies in ((simple("add_node", label="Task", key="a"),), (many("a"), final("add_node", label="Task", key="a")), ()):
        desk.store.applied.clear()
        desk.waited.seconds.clear()
        result = await desk.take("Create a task a", *replies)
        assert result.path[-2:] == ESCALATED
        assert codes(result) == ["store_unavailable"] * 2
        assert (len(desk.store.applied), desk.waited.seconds) == (2, [PAUSE_S])
        assert result.state["diagnosis"].kind == "identical"
        assert await desk.all() == before


async def test_scene_7_a_store_that_cannot_be_read_is_no_crash(desk: Desk):
    desk.store.reads_fail = StoreUnavailable("Not now.")
    for replies in ((simple("query_graph"),), (simple("delete_node", match="a"),), (simple("cypher_query", query=COUNT),)):
        result = await desk.take("Look.", *replies)
        assert (result.status, codes(result)) == ("success", ["store_unavailable"] * 2)
        assert result.metadata["escalated"]


async def test_scene_8_cypher_that_writes_is_denied(desk: Desk):
    await desk.take(CREATE, many("all of it"), *STEPS)
    before, applied = await desk.all(), len(desk.store.applied)
    raw = "MATCH (n) DETACH DELETE n"
    for replies in ((simple("cypher_query", query=raw), final("cypher_query", query=raw)), ()):
        result = await desk.take(raw, *replies)
        assert "query_denied" in codes(result) or not replies, result.output
        assert result.metadata["escalated"]
        assert (await desk.all(), len(desk.store.applied)) == (before, applied)


async def test_a_step_that_failed_leaves_those_before_it(desk: Desk):
    edge = final("add_edge", from_node="a", to_node="missing", relationship="NEEDS")
    result = await desk.take("Add.", many("add a", "join it"), step("add_node", label="Task", key="a"), edge, edge)
    assert codes(result) == ["not_in_graph"] * 2
    assert (await desk.nodes(), await desk.edges()) == ([("Task", "a", {})], [])
    assert "added Task a" in result.output
    assert "Left to do:\n- join it" in result.output


async def test_what_fails_in_ever_new_ways_is_bounded_and_told_more_each_time(desk: Desk):
    plans = [
        step("add_edge", from_node="a", to_node="b", relationship="R"),
        step("send_email", to="Ada"),
        step("add_node", label="not a label", key="a"),
        step("delete_node", match="a"),
    ]
    result = await desk.take("Do it.", many("one"), *plans)
    assert codes(result) == ["not_in_graph", "tool_input_invalid", "query_denied"]
    assert result.path[-3:] == ("evaluate", *ESCALATED)
    assert desk.model is not None
    shown = told(desk.model)[1:]
    assert [one["attempt"] for one in shown] == [1, 2, 3]
    assert [set(one) & {"last_error", "history"} for one in shown] == [set(), {"last_error"}, {"last_error", "history"}]
    assert [one["error"] for one in shown[2]["history"]] == ["not_in_graph", "tool_input_invalid"]
    assert (result.state["retry_count"], desk.store.applied) == (MAX_RETRIES, [])


@pytest.mark.parametrize("reply", ["nonsense", {"goal": {}}, ModelUnavailable("Not now.")], ids=str)
async def test_a_model_that_is_no_use_is_no_crash(engine: EngineName, tmp_path: Path, reply: Scripted):
    store = opened("ladybug", tmp_path / "graphs")
    desk = Desk(engine, tmp_path, Watched(store), "s")
    events: list[Event] = []
    result = await desk.take("Do it.", reply, on_event=events.append)
    assert (result.status, result.path) == ("success", ("parse_goal", "diagnose", "plan_step", "diagnose", *ESCALATED))
    assert [event["event"] for event in events if event["event"].startswith("on_tool")] == []
    assert desk.store.applied == []
    assert desk.waited.seconds == ([PAUSE_S] if isinstance(reply, Exception) else [])
    await store.aclose()


async def test_a_goal_is_needed(engine: EngineName, tmp_path: Path):
    store = opened("ladybug", tmp_path / "graphs")
    desk = Desk(engine, tmp_path, Watched(store), "s")
    async with desk.app("never asked") as running:
        for given in ({}, {"goal": ""}, {"goal": 7}, {"goal": "x", "session_id": "other"}, {"goal": "x", "more": 1}):
            with pytest.raises(InputSchema):
                await running.run("puntini", given, session="s")
        for bad in ("", " ", "\0", "\ud800"):
            with pytest.raises(InputError):
                await running.run("puntini", bad, session="s")
        for session in ("", "a/b", "..", "x" * 65, "a b", "ü"):
            with pytest.raises(InputError):
                await running.run("puntini", "Do it.", session=session)
    assert not list(tmp_path.glob("turns/*"))  # noqa: ASYNC240 - a look at a folder
    await store.aclose()
