"""A graph behind a capability of another: its nodes are nodes of the turn, at every depth and on every engine."""

from __future__ import annotations

import asyncio
import functools
import re
from typing import Any

import pytest

from interlock import END, Graph, Interlock, Subgraph, node
from interlock.capabilities import Message, Model
from interlock.engine import EngineName
from interlock.errors import MediaMalformed, ModelTimeout
from interlock.runtime.events import Event
from interlock.testing import ScriptedModel
from tests.support.tower import (
    PATH,
    Begun,
    Bottom,
    Done,
    Gatekeeper,
    Hands,
    Low,
    Made,
    Mid,
    RealHands,
    Top,
    app,
    ask_graph,
    failure,
    low_graph,
    one,
    open_runs,
    pass_on,
    top_graph,
)


async def test_the_nodes_of_every_depth_are_part_of_the_turn(engine: EngineName):
    result = await app(engine).run(top_graph, "hello")
    assert result.error is None
    assert result.path == PATH
    assert result.state == {"text": "hello", "found": "hello!", "out": "hello! hat"}
    assert result.output == "hello! hat"
    assert result.metadata == {}


WAYS = {"raises": "node_failed", "raises typed": "media_malformed", "strays": "contract_violation"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", PATH)
async def test_an_error_at_any_depth_names_its_node_with_those_that_it_is_inside(engine: EngineName, where: str, way: str):
    result = await app(engine).run(top_graph, f"{where.rpartition('/')[2]} {way}")
    assert failure(result) == (WAYS[way], where)
    walked = [step for step in PATH if step.startswith(f"{where}/") and way == "strays"]  # before what it returned was refused
    assert result.path == (*PATH[: PATH.index(where) + 1], *walked)
    assert result.state.keys() == ({"text", "found"} if where == "leave" else {"text"})


async def live_with_it(text: str, *, mid: Mid) -> Done:
    try:
        return Done(out=await mid.go(text))
    except MediaMalformed as error:
        return Done(out=f"{error.code} {error.node}")


async def test_a_node_may_turn_an_error_of_the_graph_into_an_outcome(engine: EngineName):
    result = await app(engine).run(one(live_with_it), "pick raises typed")
    assert (result.error, result.output) == (None, "media_malformed live_with_it/descend/pick")


async def try_twice(text: str, *, low: Low) -> Done:
    try:
        return Done(out=await low.fetch(text))
    except ModelTimeout:
        return Done(out=await low.fetch(text))


async def try_once(text: str, *, low: Low) -> Done:
    try:
        return Done(out=await low.fetch(text))
    except ModelTimeout:
        return Done(out="late")


async def try_by_itself(text: str, *, low: Low, model: Model) -> Done:
    try:
        return Done(out=await low.fetch(text))
    except ModelTimeout:
        return Done(out=(await model.reply([Message(role="user", text=text)])).text)


async def ask_again(out: str, *, model: Model) -> Begun:
    return Begun(found=(await model.reply([Message(role="user", text=out)])).text)


elsewhere = Graph(
    "top", state=Top, entry=try_once, nodes=[node(try_once, goes={Done: ask_again}), node(ask_again, goes={Begun: END})], takes=["text"]
)


@pytest.mark.parametrize(
    ("graph", "where"), [(one(try_twice), "try_twice/ask"), (elsewhere, "ask_again"), (one(try_by_itself), "try_by_itself")]
)
async def test_an_error_that_an_adapter_raises_again_names_the_last_node_that_it_came_from(engine: EngineName, graph: Graph, where: str):
    """A scripted model raises one and the same exception every time."""
    result = await app(engine, {Low: Subgraph(ask_graph), Model: ScriptedModel(ModelTimeout())}).run(graph, "x")
    assert failure(result) == ("model_timeout", where)


async def test_a_graph_that_gives_nothing_where_something_is_promised_is_an_invalid_result(engine: EngineName):
    result = await app(engine).run(top_graph, "nothing")
    assert failure(result) == ("capability_result_invalid", "enter/descend")
    assert result.error is not None
    assert "'Low.fetch'" in result.error.message
    assert "valid string" in result.error.message
    assert result.path == PATH[:-1]


class PlainMid:
    async def go(self, text: str) -> str:
        return f"plain {text}"


async def test_an_adapter_may_stand_where_a_graph_stood(engine: EngineName):
    result = await app(engine, {Mid: PlainMid()}).run(top_graph, "x")
    assert (result.path, result.output) == (("enter", "leave"), "plain x hat")


# When the node has ended


KEPT: list[Any] = []


async def keep(text: str, *, low: Low) -> Done:
    KEPT.append(low)
    return Done(out=text)


async def keep_inside(text: str, *, hands: Hands) -> Made:
    KEPT.append(hands)
    return Made(made=text)


async def use_what_was_kept(out: str) -> Begun:
    kept = KEPT.pop()
    return Begun(found=await (kept.fetch(out) if hasattr(kept, "fetch") else kept.take(out)))


keeping = Graph("inside", state=Bottom, entry=keep_inside, nodes=[node(keep_inside, goes={Made: END})], takes=["text"], gives="made")


@pytest.mark.parametrize(
    ("first", "low", "says"), [(keep, low_graph, "'Low.fetch'.* 'keep' "), (pass_on, keeping, "'Hands.take'.* 'pass_on/keep_inside' ")]
)
async def test_nothing_can_be_called_after_its_node_has_ended(engine: EngineName, first: Any, low: Graph, says: str):
    hands = RealHands()
    rows = [node(first, goes={Done: use_what_was_kept}), node(use_what_was_kept, goes={Begun: END})]
    graph = Graph("top", state=Top, entry=first, nodes=rows, takes=["text"])
    result = await app(engine, {Low: Subgraph(low), Hands: hands}).run(graph, "x")
    assert failure(result) == ("contract_violation", "use_what_was_kept")
    assert result.error is not None
    assert re.search(says, result.error.message)
    assert hands.taken == []


# Side by side


async def fetch_at_once(text: str, *, mid: Mid) -> Done:
    return Done(out=" ".join(await asyncio.gather(*(mid.go(f"{text}{n}") for n in range(4)))))


async def test_graphs_that_are_walked_at_once_do_not_see_each_other(engine: EngineName):
    events: list[Event] = []
    result = await app(engine).run(one(fetch_at_once), "x", on_event=events.append)
    assert result.output == "x0! x1! x2! x3!"
    inside = [step.replace("enter", "fetch_at_once") for step in PATH[1:5]]
    assert result.path[0] == "fetch_at_once"
    assert sorted(result.path[1:]) == sorted(inside * 4)
    assert open_runs(events) == []
    for number, walk in enumerate([event["run_id"] for event in events if event["name"] == "mid" and event["event"].endswith("start")]):
        data = [event["data"] for event in events if walk in (event["run_id"], *event["parent_ids"])]
        assert {f"x{other}" in str(data) for other in range(4) if other != number} == {False}
        own = [event["name"] for event in events if walk in event["parent_ids"] and event["event"].endswith("start")]
        assert own == [*inside[:2], "low", *inside[2:]]


async def fail_at_once(text: str, *, mid: Mid) -> Done:
    return Done(out="".join(await asyncio.gather(mid.go("wait"), mid.go("pick raises typed"))))


async def test_one_of_several_graphs_that_fails_ends_the_others_with_their_node(engine: EngineName):
    gatekeeper, events, before = Gatekeeper(), list[Event](), asyncio.all_tasks()
    result = await app(engine, {Hands: gatekeeper}).run(one(fail_at_once), "x", on_event=events.append)
    assert failure(result) == ("media_malformed", "fail_at_once/descend/pick")
    assert gatekeeper.cancelled == gatekeeper.reached.is_set()
    assert asyncio.all_tasks() == before
    assert open_runs(events) == []


@functools.cache
def running(engine: EngineName) -> Interlock:
    return app(engine)


async def test_turns_at_once_do_not_see_each_others_graphs(engine: EngineName):
    results = await asyncio.gather(*(running(engine).run(top_graph, f"x{n}") for n in range(5)))
    assert [(result.output, result.path) for result in results] == [(f"x{n}! hat", PATH) for n in range(5)]
