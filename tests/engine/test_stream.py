from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from interlock import Interlock, Settings, TurnResult
from interlock.capabilities import Clock, Ids
from interlock.engine import EngineName
from interlock.errors import AgentUnknown, InputEmpty, InputEncoding, InputSchema, InputTooLarge, RoleUnknown
from interlock.runtime.events import Event
from interlock.testing import CountingIds, FixedClock
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest, ModelResponse
from interlock_agents.sam.testing import ScriptedBackend

SOON = 20
"""Seconds after which something that should happen at once is taken not to happen; the model's own limit is longer."""


class Stuck:
    """A model that never answers, and tells how it ends."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def generate(self, request: ModelRequest) -> ModelResponse:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError


def app(engine: EngineName, model: object) -> Interlock:
    return Interlock(Settings(engine=engine), grants={ModelBackend: model, Clock: FixedClock(), Ids: CountingIds()})


def nested(events: list[Event]) -> Iterator[str]:
    """Name what is open when it should not be, going through the events in order."""
    running: list[str] = []
    for event in events:
        if event["event"].endswith("_start"):
            running.append(event["run_id"])
        elif running.pop() != event["run_id"]:
            yield event["name"]
    yield from running


async def test_a_stream_tells_the_turn_in_order_and_ends_with_the_result(engine: EngineName):
    events = [event async for event in app(engine, ScriptedBackend("hi")).stream("sam", "hello", session="s")]
    result = await app(engine, ScriptedBackend("hi")).run("sam", "hello", session="s")
    assert (events[0]["event"], events[0]["name"]) == ("on_chain_start", "sam")
    assert (events[-1]["event"], events[-1]["name"]) == ("on_chain_end", "sam")
    assert events[-1]["data"]["output"] == result.to_json()
    assert list(nested(events)) == []
    started = [event["name"] for event in events if event["event"] == "on_chain_start"]
    assert started == ["sam", *result.path]
    asked = [event["event"] for event in events if event["name"] == "ModelBackend.generate"]
    assert asked == ["on_chat_model_start", "on_chat_model_end"]


async def test_a_failed_turn_streams_to_its_end_too(engine: EngineName):
    events = [event async for event in app(engine, ScriptedBackend(TimeoutError())).stream("sam", "hello")]
    assert events[-1]["data"]["output"]["error"]["code"] == "timeout"
    assert list(nested(events)) == []


async def test_events_arrive_while_the_turn_runs(engine: EngineName):
    model = Stuck()
    async with aclosing(app(engine, model).stream("sam", "hello")) as stream:
        seen: list[str] = []
        async for event in stream:
            seen.append(event["name"])
            if event["event"] == "on_chat_model_start":
                break
        assert seen[0] == "sam"
        assert seen[-2:] == ["model_call_node", "ModelBackend.generate"]
        assert not model.cancelled.is_set()


async def test_breaking_off_a_stream_stops_the_model_before_it_returns(engine: EngineName):
    model = Stuck()
    async with asyncio.timeout(SOON), aclosing(app(engine, model).stream("sam", "hello")) as stream:
        async for event in stream:
            if event["event"] == "on_chat_model_start":
                break
        await model.asked.wait()
    assert model.cancelled.is_set()


async def test_a_stream_that_is_broken_off_at_once_leaves_nothing_running(engine: EngineName):
    before = asyncio.all_tasks()
    async with asyncio.timeout(SOON), aclosing(app(engine, Stuck()).stream("sam", "hello")) as stream:
        await anext(stream)
    assert asyncio.all_tasks() == before


async def test_a_cancelled_turn_stops_the_model_and_leaves_nothing_running(engine: EngineName):
    before = asyncio.all_tasks()
    model = Stuck()
    turn = asyncio.create_task(app(engine, model).run("sam", "hello"))
    await model.asked.wait()
    turn.cancel()
    await asyncio.wait([turn], timeout=SOON)
    assert turn.cancelled()
    assert model.cancelled.is_set()
    assert asyncio.all_tasks() == before


async def test_an_interlock_takes_turns_after_one_was_cancelled(engine: EngineName):
    model = Stuck()
    running = app(engine, model)
    turn = asyncio.create_task(running.run("sam", "hello"))
    await model.asked.wait()
    turn.cancel()
    await asyncio.wait([turn], timeout=SOON)
    result = await running.run("sam", "data:image/png;base64,bm90IGEgcGljdHVyZQ==")
    assert result.error is not None
    assert result.error.code == "media_malformed"


async def test_a_caller_who_is_cancelled_while_streaming_stops_the_turn(engine: EngineName):
    model = Stuck()

    async def read() -> None:
        async with aclosing(app(engine, model).stream("sam", "hello")) as stream:
            async for _ in stream:
                pass

    reader = asyncio.create_task(read())
    await model.asked.wait()
    reader.cancel()
    await asyncio.wait([reader], timeout=SOON)
    assert reader.cancelled()
    assert model.cancelled.is_set()


REFUSED: dict[str, tuple[type[Exception], str, Any, dict[str, Any]]] = {
    "an unknown agent": (AgentUnknown, "nobody", "hello", {}),
    "an unknown role": (RoleUnknown, "sam", "hello", {"role": "boss"}),
    "a role that is not named": (RoleUnknown, "gateway", "hello", {}),
    "empty text": (InputEmpty, "sam", " ", {}),
    "text that is too large": (InputTooLarge, "sam", "x" * 2000, {}),
    "text that is not Unicode": (InputEncoding, "sam", "\ud800", {}),
    "an unknown field": (InputSchema, "sam", {"nothing": 1}, {}),
    "a session id that is no name": (InputSchema, "sam", "hello", {"session": "../x"}),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_stream_of_a_refused_request_fails_before_its_first_event(engine: EngineName, case: str):
    """A server can answer with a status of its own, because nothing has been sent yet."""
    error, agent, given, options = REFUSED[case]
    async with aclosing(Interlock(Settings(engine=engine, max_input_bytes=1000)).stream(agent, given, **options)) as stream:
        with pytest.raises(error):
            await anext(stream)


async def test_turns_that_stream_at_once_do_not_mix(engine: EngineName):
    running = app(engine, ScriptedBackend("hi"))

    async def read(session: str) -> list[Event]:
        return [event async for event in running.stream("sam", session, session=session)]

    for session, events in zip("abc", await asyncio.gather(*map(read, "abc")), strict=True):
        assert {event["metadata"].get("session", session) for event in events} == {session}
        assert events[-1]["data"]["output"]["session"] == session
        assert list(nested(events)) == []


async def test_a_sink_hears_what_a_stream_yields(engine: EngineName):
    heard: list[Event] = []
    result: TurnResult = await app(engine, ScriptedBackend("hi")).run("sam", "hello", on_event=heard.append)
    yielded = [event async for event in app(engine, ScriptedBackend("hi")).stream("sam", "hello")]
    assert heard == yielded
    assert heard[-1]["data"]["output"] == result.to_json()
