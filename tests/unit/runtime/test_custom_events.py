"""Events of a node's own: told in their place, redacted like all others, and without influence on the turn."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Secret, Settings, Subgraph, TurnResult, node
from interlock.capabilities import Ids, Progress
from interlock.capabilities.capability import emits
from interlock.engine import ENGINES, EngineName
from interlock.runtime.events import Event
from interlock.testing import CountingIds
from tests.support.analyst import KEY
from tests.support.spans import Spans

TOKEN = "hunter2-" + "q7w8e9"
OTHER: dict[EngineName, EngineName] = {ENGINES[0]: ENGINES[1], ENGINES[1]: ENGINES[0]}
Tell = Callable[[Any], Any]


class Talk(TypedDict, total=False):
    text: str
    token: Annotated[str, Secret]
    out: str


class Known(Outcome):
    token: str


class Done(Outcome):
    out: str


async def know(text: str) -> Known:
    return Known(token=TOKEN)


def talking(tell: Tell) -> Graph:
    """Make a graph in whose second node something is told, with a secret in the state."""

    async def speak(text: str, token: str, *, progress: Progress) -> Done:
        made = await tell(progress)
        return Done(out=text if made is None else made)

    return Graph(
        "talking",
        state=Talk,
        entry=know,
        nodes=[node(know, goes={Known: speak}), node(speak, goes={Done: END})],
        takes=["text"],
        gives="out",
    )


def app(engine: EngineName, **settings: Any) -> Interlock:
    return Interlock(Settings(engine=engine, **settings), grants={Ids: CountingIds()})


async def taken(engine: EngineName, tell: Tell, **more: Any) -> tuple[TurnResult, list[Event]]:
    events: list[Event] = []
    return await app(engine).run(talking(tell), "hi", on_event=events.append, **more), events


def custom(events: list[Event]) -> list[tuple[str, Any]]:
    return [(event["name"], event["data"]) for event in events if event["event"] == "on_custom_event"]


async def two(progress: Any) -> None:
    await progress.emit("begun", {"step": 1, "of": [2, None, 0.5, True, {"deep": "er"}]})
    await progress.emit(data={"step": 2}, name="half way")


async def test_events_are_emitted_in_their_place_with_the_nodes_own_id(engine: EngineName):
    result, events = await taken(engine, two)
    assert result.error is None
    assert [(event["event"], event["name"]) for event in events] == [
        ("on_chain_start", "talking"),
        ("on_chain_start", "know"),
        ("on_chain_end", "know"),
        ("on_chain_start", "speak"),
        ("on_custom_event", "begun"),
        ("on_custom_event", "half way"),
        ("on_chain_end", "speak"),
        ("on_chain_end", "talking"),
    ]
    turn, speak, told = events[0], events[3], events[4:6]
    assert [event["data"] for event in told] == [{"step": 1, "of": [2, None, 0.5, True, {"deep": "er"}]}, {"step": 2}]
    for event in told:
        assert (event["run_id"], event["parent_ids"]) == (speak["run_id"], [turn["run_id"]])
        assert set(event) == set(speak)
    where = {"langgraph_node": "speak", "langgraph_step": 2}
    assert [event["metadata"] for event in (speak, *told)] == [{**where, "sequence": number} for number in (4, 5, 6)]


async def test_they_are_the_same_on_every_engine():
    first, second = [(await taken(engine, two))[1] for engine in ENGINES]
    assert first == second


async def test_they_come_while_the_node_runs(engine: EngineName):
    go_on = asyncio.Event()

    async def wait(progress: Any) -> None:
        await progress.emit("waiting", {})
        await go_on.wait()

    async with asyncio.timeout(20):
        async for event in app(engine).stream(talking(wait), "hi"):
            if event["name"] == "waiting":
                assert not go_on.is_set()
                go_on.set()
    assert go_on.is_set()


async def test_of_many_at_once_none_is_lost(engine: EngineName):
    async def many(progress: Any) -> None:
        await asyncio.gather(*(progress.emit(f"n{number}", {"number": number}) for number in range(50)))

    _, events = await taken(engine, many)
    assert custom(events) == [(f"n{number}", {"number": number}) for number in range(50)]


@pytest.mark.parametrize("secret", [TOKEN, KEY], ids=["labelled", "pattern"])
async def test_a_secret_is_in_no_part_of_them(engine: EngineName, secret: str):
    async def leak(progress: Any) -> None:
        await progress.emit(f"a {secret}", {secret: 1, f"{secret}{secret}": 2, "deep": [{secret: [secret, f"x{secret}y"]}], "b": "c"})

    result, events = await taken(engine, leak)
    assert result.error is None
    assert secret not in json.dumps(events)
    [(name, data)] = custom(events)
    assert "[redacted]" in name
    assert data.pop("b") == "c"
    assert len(data) == 3  # two keys that look alike now are two all the same
    assert sorted(value for value in data.values() if isinstance(value, int)) == [1, 2]


async def test_what_the_event_shows_is_not_what_the_node_has(engine: EngineName):
    async def change(progress: Any) -> str:
        data: dict[str, Any] = {"list": [TOKEN]}
        await progress.emit("a", data)
        data["list"].append("later")
        return data["list"][0]

    events: list[Event] = []

    def hear(event: Event) -> None:
        if event["event"] == "on_custom_event":
            event["data"]["list"].append("from outside")
        events.append(event)

    result = await app(engine).run(talking(change), "hi", on_event=hear)
    assert result.output == TOKEN
    assert custom(events) == [("a", {"list": ["[redacted]", "from outside"]})]


WRONG: dict[str, Tell] = {
    "a number for a name": lambda progress: progress.emit(5, {}),
    "no name": lambda progress: progress.emit(None, {}),
    "bytes for a name": lambda progress: progress.emit(b"a", {}),
    "half a character for a name": lambda progress: progress.emit("\ud800", {}),
    "no data": lambda progress: progress.emit("a", None),
    "a list": lambda progress: progress.emit("a", [1]),
    "a text": lambda progress: progress.emit("a", "b"),
    "an object": lambda progress: progress.emit("a", {"x": object()}),
    "bytes": lambda progress: progress.emit("a", {"x": b"\xff"}),
    "a number for a key": lambda progress: progress.emit("a", {1: 2}),
    "half a character": lambda progress: progress.emit("a", {"x": "\ud800"}),
    "too little": lambda progress: progress.emit("a"),
    "too much": lambda progress: progress.emit("a", {}, 3),
    "another name": lambda progress: progress.emit(nme="a", data={}),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_what_is_no_event_is_the_nodes_mistake_no_matter_who_listens(engine: EngineName, wrong: Tell, tmp_path: Path):
    endings: set[tuple[str, str, str | None]] = set()
    events: list[Event] = []
    ways: tuple[dict[str, Any], ...] = ({}, {"on_event": events.append}, {"record": tmp_path / "a"})
    for options in ways:
        result = await app(engine).run(talking(wrong), "hi", **options)
        assert result.error is not None
        endings.add((result.error.code, result.error.message, result.error.node))
    assert custom(events) == []
    [(code, message, place)] = endings
    assert (code, place) == ("contract_violation", "speak")
    assert "'Progress.emit'" in message
    assert (await app(OTHER[engine]).replay(tmp_path / "a", graph=talking(wrong))).differences == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(name=st.text(max_size=30), data=st.dictionaries(st.text(max_size=10), JSON, max_size=4))
def test_any_data_is_reported_as_it_is(name: str, data: dict[str, Any]):
    async def tell(progress: Any) -> None:
        await progress.emit(name, data)

    result, events = asyncio.run(taken("direct", tell))
    assert result.error is None
    assert custom(events) == [(name, data)]
    json.dumps(events)


async def test_after_its_node_has_ended_nothing_is_emitted(engine: EngineName):
    kept: list[Any] = []

    async def take_along(progress: Any) -> None:
        kept.append(progress)

    _, events = await taken(engine, take_along)
    with pytest.raises(Exception, match=r"'Progress.emit' was called after node 'speak' had ended"):
        await kept[0].emit("late", {})
    assert custom(events) == []


async def test_a_replay_repeats_them_on_the_other_engine(engine: EngineName, tmp_path: Path):
    _, before = await taken(engine, two, record=tmp_path / "record")
    after: list[Event] = []
    replay = await app(OTHER[engine]).replay(tmp_path / "record", graph=talking(two), on_event=after.append)
    assert (replay.differences, after) == ((), before)

    async def other(progress: Any) -> None:
        await progress.emit("begun", {"step": 9})

    changed = await app(engine).replay(tmp_path / "record", graph=talking(other))
    assert changed.result.error is not None
    assert changed.result.error.code == "replay_diverged"


async def test_a_turn_that_goes_on_tells_them_again(engine: EngineName, tmp_path: Path):
    _, before = await taken(engine, two, record=tmp_path / "whole")
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    for cut in range(1, len(lines)):
        path = tmp_path / str(cut)
        path.write_text("".join(lines[:cut]))
        after: list[Event] = []
        await app(OTHER[engine]).resume(path, graph=talking(two), on_event=after.append)
        assert after == before


class Low(Capability, Protocol):
    async def fetch(self, text: str) -> str: ...


async def test_in_a_graph_inside_they_have_the_path_of_their_node(engine: EngineName):
    inner = talking(two)

    async def outer(text: str, *, low: Low, progress: Progress) -> Done:
        await progress.emit("outside", {})
        return Done(out=await low.fetch(text))

    graph = Graph("top", state=Talk, entry=outer, nodes=[node(outer, goes={Done: END})], takes=["text"], gives="out")
    events: list[Event] = []
    made = Interlock(Settings(engine=engine), grants={Low: Subgraph(inner), Ids: CountingIds()})
    assert (await made.run(graph, "hi", on_event=events.append)).error is None
    told = {event["name"]: event for event in events if event["event"] == "on_custom_event"}
    starts = {event["name"]: event["run_id"] for event in events if event["event"] == "on_chain_start"}
    assert [told[name]["metadata"]["langgraph_node"] for name in ("outside", "begun")] == ["outer", "outer/speak"]
    assert told["outside"]["run_id"] == starts["outer"]
    assert told["begun"]["run_id"] == starts["outer/speak"]
    assert told["begun"]["parent_ids"] == [starts["top"], starts["outer"], starts["talking"]]


class Broken:
    async def emit(self, name: str, data: dict[str, Any]) -> None:
        raise RuntimeError(f"{name} {TOKEN}")


async def test_who_tells_may_be_granted_and_may_fail(engine: EngineName):
    events: list[Event] = []
    made = Interlock(Settings(engine=engine), grants={Progress: Broken()})
    result = await made.run(talking(two), "hi", on_event=events.append)
    assert result.error is not None
    assert result.error.code == "capability_failed"
    assert TOKEN not in json.dumps(events)


class Whisper(Capability, Protocol):
    @emits("custom")
    async def whisper(self, name: str, data: Annotated[dict[str, int], Secret]) -> None: ...


class Whispering:
    async def whisper(self, name: str, data: dict[str, int]) -> None:
        pass


async def test_data_that_is_labelled_secret_is_not_shown(engine: EngineName):
    async def speak(text: str, *, whisper: Whisper) -> Done:
        await whisper.whisper("pin", {"pin": 123})
        return Done(out=text)

    graph = Graph("top", state=Talk, entry=speak, nodes=[node(speak, goes={Done: END})], takes=["text"], gives="out")
    events: list[Event] = []
    made = Interlock(Settings(engine=engine), grants={Whisper: Whispering()})
    assert (await made.run(graph, "hi", on_event=events.append)).error is None
    assert "123" not in json.dumps(custom(events))


# Those who watch


AWKWARD: list[dict[str, Any]] = [{}, {"error": "text"}, {"error": {"code": 1}}, {"error": [1]}, {"output": None}, {"chunk": {}}]


@pytest.mark.parametrize("data", AWKWARD, ids=str)
async def test_they_are_logged_no_matter_what_their_data_are(engine: EngineName, data: dict[str, Any], caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "interlock")

    async def tell(progress: Any) -> None:
        await progress.emit("a thing", data)

    result, events = await taken(engine, tell)
    assert (result.error, custom(events)) == (None, [("a thing", data)])
    assert "on_custom_event a thing" in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("data", AWKWARD, ids=str)
async def test_spans_are_as_without_them(engine: EngineName, data: dict[str, Any], spans: Spans):
    async def tell(progress: Any) -> None:
        for name in ("a_start", "a_end", "a_error", "speak"):
            await progress.emit(name, data)

    assert (await taken(engine, tell))[0].error is None
    assert sorted(span.name for span in spans.ended) == ["invoke_agent talking", "node know", "node speak"]
    assert all(span.status.is_ok or span.status.is_unset for span in spans.ended)


async def test_a_listener_that_fails_at_one_is_reported_at_the_end(engine: EngineName):
    def hear(event: Event) -> None:
        if event["event"] == "on_custom_event":
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await app(engine).run(talking(two), "hi", on_event=hear)


async def test_langgraph_alone_tells_them_redacted():
    async def leak(progress: Any) -> None:
        await progress.emit(f"a {KEY}", {KEY: f"{TOKEN} {KEY}"})

    graph: Any = Interlock(Settings()).langgraph(talking(leak))
    found = [event async for event in graph.astream_events({"text": "hi"}, version="v2") if event["event"] == "on_custom_event"]
    assert [(event["name"], event["data"]) for event in found] == [("a [redacted]", {"[redacted]": "[redacted] [redacted]"})]


async def test_an_event_that_a_node_emits_without_a_listener_does_nothing(engine: EngineName):
    result = await app(engine).run(talking(lambda progress: progress.emit("found", {"count": 1})), "hello")
    assert (result.error, result.output) == (None, "hello")
