"""What a new turn of a LangGraph thread begins with: the fields that outlive a turn, as the last finished turn left them."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from interlock import Interlock, Settings
from interlock.agent import Agent
from interlock.contract import END, Graph, Outcome, Present, node
from interlock.engine.threads import BEFORE
from interlock.errors import NodeFailed, StateIncompatible
from interlock.reply import Reply

THREAD: RunnableConfig = {"configurable": {"thread_id": "one"}}


@dataclass
class Talk:
    said: str
    heard: Annotated[tuple[str, ...], operator.add]
    steps: Annotated[tuple[str, ...], operator.add]
    mood: str
    topic: str
    answer: str = ""


class Noted(Outcome):
    heard: tuple[str, ...]
    steps: tuple[str, ...]
    topic: str


class Answered(Outcome):
    answer: str
    mood: str


async def note(said: str, mood: Present, topic: Present, steps: tuple[str, ...]) -> Noted:
    return Noted(heard=(said,), steps=(f"{said}: {len(steps)} steps, mood {bool(mood)}, topic {bool(topic)}",), topic=said)


BROKEN: set[str] = set()


async def respond(said: str, heard: tuple[str, ...]) -> Answered:
    if said in BROKEN:
        raise ValueError(said)
    return Answered(answer=" ".join(heard), mood="good")


talk = Graph(
    "talk",
    state=Talk,
    entry=note,
    takes=("said",),
    gives="answer",
    nodes=[node(note, goes={Noted: respond}), node(respond, goes={Answered: END})],
)


def replied(state: Mapping[str, Any]) -> Reply:
    return Reply(output=state["answer"])


agent = Agent(name="talk", summary="", graphs=(talk,), entries={None: talk}, reply=replied, persists=("heard", "topic"))


def driven(agent: Agent | Graph) -> Any:
    """Hand a graph out, and put a plain checkpointer into it, as LangGraph's server does."""
    return Interlock().langgraph(agent).copy({"checkpointer": InMemorySaver()})


@pytest.fixture(autouse=True)
def whole():
    BROKEN.clear()


async def test_a_turn_of_an_agent_begins_with_what_the_agent_keeps_and_nothing_else():
    graph = driven(agent)
    first = await graph.ainvoke({"said": "a"}, THREAD)
    second = await graph.ainvoke({"said": "b"}, THREAD)
    assert first["steps"] == ("a: 0 steps, mood False, topic False",)
    assert second["steps"] == ("b: 0 steps, mood False, topic True",)
    assert second["answer"] == "a b"


async def test_the_state_of_a_bare_graph_stays_on_the_thread():
    graph = driven(talk)
    await graph.ainvoke({"said": "a"}, THREAD)
    second = await graph.ainvoke({"said": "b"}, THREAD)
    assert second["steps"][-1] == "b: 1 steps, mood True, topic True"
    assert second["answer"] == "a b"


@pytest.mark.parametrize("agent", [agent, talk], ids=["agent", "graph"])
async def test_a_failed_turn_leaves_nothing_to_the_next_one(agent: Agent | Graph):
    graph = driven(agent)
    BROKEN.add("b")
    await graph.ainvoke({"said": "a"}, THREAD)
    for _ in range(2):
        with pytest.raises(NodeFailed):
            await graph.ainvoke({"said": "b"}, THREAD)
    assert (await graph.ainvoke({"said": "c"}, THREAD))["answer"] == "a c"
    assert (await graph.ainvoke({"said": "d"}, THREAD))["answer"] == "a c d"


async def test_a_failed_first_turn_leaves_a_thread_as_new():
    graph = driven(agent)
    BROKEN.add("a")
    with pytest.raises(NodeFailed):
        await graph.ainvoke({"said": "a"}, THREAD)
    state = await graph.ainvoke({"said": "b"}, THREAD)
    assert state["steps"] == ("b: 0 steps, mood False, topic False",)
    assert state["answer"] == "b"


async def test_langgraph_can_continue_a_failed_turn_where_it_stopped():
    graph = driven(agent)
    await graph.ainvoke({"said": "a"}, THREAD)
    BROKEN.add("b")
    with pytest.raises(NodeFailed):
        await graph.ainvoke({"said": "b"}, THREAD)
    assert (await graph.aget_state(THREAD)).next == ("respond",)
    BROKEN.clear()
    assert (await graph.ainvoke(None, THREAD))["answer"] == "a b"
    assert (await graph.ainvoke({"said": "c"}, THREAD))["answer"] == "a b c"


async def test_an_update_of_a_finished_thread_is_there_in_the_next_turn():
    graph = driven(agent)
    await graph.ainvoke({"said": "a"}, THREAD)
    await graph.aupdate_state(THREAD, {"heard": ("aside",)}, as_node="respond")
    assert (await graph.ainvoke({"said": "b"}, THREAD))["answer"] == "a aside b"


async def test_the_initial_state_of_a_turn_is_in_no_visible_state():
    graph = driven(agent)
    seen = [state async for state in graph.astream({"said": "a"}, THREAD, stream_mode="values")]
    seen += [snapshot.values async for snapshot in graph.aget_state_history(THREAD)]
    assert len(seen) > 4
    assert not [state for state in seen if BEFORE in state]


async def test_an_input_of_the_wrong_type_is_refused_and_the_thread_can_still_be_read_and_goes_on():
    graph = driven(agent)
    await graph.ainvoke({"said": "a"}, THREAD)
    with pytest.raises(StateIncompatible):
        await graph.ainvoke({"said": 5}, THREAD)
    assert (await graph.aget_state(THREAD)).values["said"] == 5
    assert (await graph.ainvoke({"said": "b"}, THREAD))["answer"] == "a b"


async def test_puntini_reports_only_the_work_of_the_turn_that_it_reports(tmp_path: Path):
    async with Interlock(Settings(data_dir=tmp_path)) as app:
        graph = app.langgraph("puntini").copy({"checkpointer": InMemorySaver()})
        first = await graph.ainvoke({"goal": "Add a person called Ada", "session_id": "one"}, THREAD)
        second = await graph.ainvoke({"goal": "Add a person called Grace"}, THREAD)
    assert "Ada" in first["final_answer"]
    assert "Ada" not in second["final_answer"]
    assert (len(second["done"]), second["steps"]) == (1, 1)
