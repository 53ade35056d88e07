"""What graphs inside graphs may use up, and how they end: with their turn, with their node, or by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import END, Graph, Subgraph, node
from interlock.capabilities import Message, Model, ModelReply, Usage
from interlock.engine import EngineName
from interlock.errors import ModelTimeout
from interlock.runtime.events import Event
from interlock.testing import ScriptedModel
from tests.support.passing import ENOUGH, run_out, use_up
from tests.support.tower import (
    PATH,
    Bottom,
    Done,
    Gatekeeper,
    Hands,
    Low,
    Made,
    Mid,
    Picked,
    app,
    ask_graph,
    failure,
    low_graph,
    one,
    open_runs,
    pass_on,
    top_graph,
)


@pytest.mark.parametrize("most", range(1, 6))
async def test_a_turn_may_take_so_many_steps_no_matter_what_graph_takes_them(engine: EngineName, most: int):
    result = await app(engine, max_steps=most).run(top_graph, "x")
    assert failure(result) == ("budget_exceeded", PATH[most])
    assert result.path == PATH[:most]
    assert result.error is not None
    assert f"The turn took all of its {most} steps" in result.error.message


async def spin(text: str, word: str | None) -> Picked | Made:
    spins = 0 if word is None else int(word)
    return Made(made=text) if spins == len(text) else Picked(word=str(spins + 1))


spinning = Graph(
    "spinning", state=Bottom, entry=spin, nodes=[node(spin, goes={Picked: spin, Made: END})], max_steps=4, takes=["text"], gives="made"
)


async def fetch_thrice(text: str, *, low: Low) -> Done:
    return Done(out="".join([await low.fetch(text) for _ in range(3)]))


async def test_a_graph_has_its_own_steps_each_time(engine: EngineName):
    within = await app(engine, {Low: Subgraph(spinning)}).run(one(fetch_thrice, max_steps=1), "xyz")
    assert (within.error, within.output, len(within.path)) == (None, "xyzxyzxyz", 1 + 3 * 4)
    result = await app(engine, {Low: Subgraph(spinning)}).run(one(fetch_thrice, max_steps=1), "four")
    assert failure(result) == ("budget_exceeded", "fetch_thrice/spin")
    assert result.error is not None
    assert result.error.message == "The graph took all of its 4 steps without ending."
    assert len(result.path) == 1 + 4


async def ask_at_both_levels(text: str, *, low: Low, model: Model) -> Done:
    said = (await model.reply([Message(role="user", text=text)])).text
    return Done(out=said + await low.fetch(text))


SAID = ModelReply(text="12345", model="tiny", usage=Usage(input_tokens=4, output_tokens=4))


@pytest.mark.parametrize(("limit", "value"), [("max_model_calls", 1), ("max_tokens", 15), ("max_output_bytes", 9)])
async def test_what_a_model_may_be_asked_and_may_say_is_counted_over_all_graphs(engine: EngineName, limit: str, value: int):
    grants: dict[type, object] = {Low: Subgraph(ask_graph), Model: ScriptedModel(SAID)}
    result = await app(engine, grants, **{limit: value}).run(one(ask_at_both_levels), "x")
    assert failure(result) == ("budget_exceeded", "ask_at_both_levels/ask")
    assert result.error is not None
    assert limit in result.error.message
    enough = await app(engine, grants, **{limit: 2 * value + 1}).run(one(ask_at_both_levels), "x")
    assert enough.error is None


async def test_a_result_says_who_answered_in_any_of_the_graphs(engine: EngineName):
    model = ScriptedModel(SAID, ModelReply(text="x", model="large"), SAID, ModelTimeout())
    running, graph = app(engine, {Low: Subgraph(ask_graph), Model: model}), one(ask_at_both_levels)
    assert (await running.run(graph, "x")).metadata == {"models": ["tiny", "large"]}
    failed = await running.run(graph, "x")
    assert (failed.status, failed.metadata) == ("error", {"models": ["tiny"]})


async def test_a_graph_takes_as_long_as_its_turn_may_and_its_calls_no_longer_than_a_call_may(engine: EngineName):
    async def dawdle(text: str) -> Made:
        await asyncio.sleep(0.03)  # longer than a call may take
        return Made(made=text)

    async def hang(text: str, *, hands: Hands) -> Made:
        return Made(made=await hands.take(text))

    def bottom(run: Any) -> Subgraph:
        return Subgraph(Graph("low", state=Bottom, entry=run, nodes=[node(run, goes={Made: END})], takes=["text"], gives="made"))

    slow = await app(engine, {Low: bottom(dawdle)}, max_call_seconds=0.01).run(one(pass_on), "x")
    assert (slow.error, slow.output) == (None, "x")
    hung = await app(engine, {Low: bottom(hang), Hands: Gatekeeper()}, max_call_seconds=0.01).run(one(pass_on), "x")
    assert failure(hung) == ("capability_timeout", "pass_on/hang")


# Ends


async def test_a_turn_that_is_cancelled_takes_along_what_happens_at_any_depth(engine: EngineName):
    gatekeeper, events, before = Gatekeeper(), list[Event](), asyncio.all_tasks()
    turn = asyncio.create_task(app(engine, {Hands: gatekeeper}).run(top_graph, "x", on_event=events.append))
    await gatekeeper.reached.wait()
    turn.cancel()
    await asyncio.wait([turn])
    assert turn.cancelled()
    assert gatekeeper.cancelled == 1
    assert asyncio.all_tasks() == before
    assert open_runs(events) == []
    ended = [event["name"] for event in events if event["data"].get("error") == {"code": "cancelled", "message": "The turn was cancelled."}]
    assert ended == ["enter/descend/pick", "low", "enter/descend", "mid", "enter", "top"]


async def wait_by_itself(text: str) -> Made:
    await run_out()


waiting = Graph("waiting", state=Bottom, entry=wait_by_itself, nodes=[node(wait_by_itself, goes={Made: END})], takes=["text"], gives="made")


class Timekeeper(Gatekeeper):
    """Lets nobody through until the time is up."""

    async def take(self, what: str) -> str:
        use_up()
        return await super().take(what)


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize(("low", "where"), [(low_graph, "pick"), (waiting, "wait_by_itself")])
async def test_time_runs_out_at_any_depth(engine: EngineName, low: Graph, where: str):
    gatekeeper, before = Timekeeper(), asyncio.all_tasks()
    grants: dict[type, object] = {Low: Subgraph(low), Hands: gatekeeper}
    result = await app(engine, grants, max_turn_seconds=ENOUGH).run(top_graph, "x")
    assert failure(result) == ("budget_exceeded", f"enter/descend/{where}")
    assert asyncio.all_tasks() == before
    assert gatekeeper.cancelled == (low is low_graph)


TASKS: set[asyncio.Task[Any]] = set()


async def leave_running(text: str, *, mid: Mid) -> Done:
    task = asyncio.create_task(mid.go(text))
    TASKS.add(task)
    task.add_done_callback(TASKS.discard)
    while not GATES[-1].reached.is_set():  # noqa: ASYNC110 - it is reached in the loop's next rounds
        await asyncio.sleep(0)
    return Done(out="gone")


GATES: list[Gatekeeper] = []


async def test_a_graph_that_a_task_still_walks_when_its_node_ends_is_ended_with_it(engine: EngineName):
    gatekeeper, events, before = Gatekeeper(), list[Event](), asyncio.all_tasks()
    GATES.append(gatekeeper)
    result = await app(engine, {Hands: gatekeeper}).run(one(leave_running), "x", on_event=events.append)
    GATES.pop()
    assert (result.error, result.output) == (None, "gone")
    assert result.path == ("leave_running", *(step.replace("enter", "leave_running") for step in PATH[1:4]))
    assert gatekeeper.cancelled == 1
    assert asyncio.all_tasks() == before
    assert not TASKS
    assert open_runs(events) == []
    assert [event["name"] for event in events if event["event"] == "on_chain_end"] == ["leave_running/begin", "leave_running", "top"]


async def give_up(text: str, *, mid: Mid) -> Done:
    try:
        async with asyncio.timeout(0.02):
            return Done(out=await mid.go(text))
    except TimeoutError:
        return Done(out="gave up")


async def test_a_node_may_give_up_on_a_graph(engine: EngineName):
    gatekeeper, events, before = Gatekeeper(), list[Event](), asyncio.all_tasks()
    result = await app(engine, {Hands: gatekeeper}).run(one(give_up), "x", on_event=events.append)
    assert (result.error, result.output) == (None, "gave up")
    assert gatekeeper.cancelled == gatekeeper.reached.is_set()
    assert asyncio.all_tasks() == before
    assert open_runs(events) == []
