"""What is no conversation of puntini's: stores that fail, models that are no use, what is told more each time. The scenes are data."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from interlock.engine import ENGINES, EngineName
from interlock.errors import InputError, InputSchema, ModelUnavailable, StateConflict, StoreUnavailable
from interlock.runtime.events import Event
from interlock.testing import Scripted
from interlock_agents.puntini.nodes import MAX_RETRIES, PAUSE_S
from tests.support.puntini import (
    ESCALATED,
    STORES,
    Desk,
    Watched,
    codes,
    final,
    fresh,
    many,
    opened,
    simple,
    step,
    told,
)

COUNT = "MATCH (p:Project {key: $key})-[:HAS_TASK]->(t:Task) RETURN count(t) AS tasks"


@pytest.fixture(params=itertools.product(ENGINES, STORES), ids="-".join)
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Desk]:
    """Every engine with every store."""
    engine, kind = request.param
    store = opened(kind, tmp_path / "graphs")
    yield Desk(engine, tmp_path, Watched(store), fresh(kind))
    await store.aclose()


@pytest.mark.parametrize("error", [StoreUnavailable("Not now."), StateConflict("Somebody else.")])
async def test_scene_7_a_store_that_fails_once_is_retried(desk: Desk, error: Exception):
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


async def test_scene_7_a_store_that_always_fails_is_escalated_and_the_graph_unchanged(desk: Desk):
    await desk.take("Add.", simple("add_node", label="Task", key="kept"))
    before = await desk.all()
    desk.store.applied.clear()
    desk.store.always = StoreUnavailable("Not now.")
    for replies in ((simple("add_node", label="Task", key="a"),), (many("a"), final("add_node", label="Task", key="a")), ()):
        desk.store.applied.clear()
        desk.waited.seconds.clear()
        result = await desk.take("Create a task Design", *replies)
        assert result.path[-2:] == ESCALATED
        assert codes(result) == ["store_unavailable"] * 2
        assert (len(desk.store.applied), desk.waited.seconds) == (2, [PAUSE_S])
        assert result.state["diagnosis"].kind == "identical"
        assert await desk.all() == before


async def test_scene_7_an_unreadable_store_is_escalated(desk: Desk):
    desk.store.reads_fail = StoreUnavailable("Not now.")
    for replies in ((simple("query_graph"),), (simple("delete_node", match="a"),), (simple("cypher_query", query=COUNT),)):
        result = await desk.take("Look.", *replies)
        assert (result.status, codes(result)) == ("success", ["store_unavailable"] * 2)
        assert result.metadata["escalated"]


async def test_ever_new_failures_are_bounded_and_each_payload_has_more(desk: Desk):
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
async def test_a_useless_model_is_escalated(engine: EngineName, tmp_path: Path, reply: Scripted):
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
