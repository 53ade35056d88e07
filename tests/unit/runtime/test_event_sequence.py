"""The events of a turn are numbered without gaps, so a listener can come back with the last number that it saw."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, Subgraph, node
from interlock.capabilities import Clock, Human, Ids, Model, Question
from interlock.capabilities.capability import emits
from interlock.capabilities.model import Message
from interlock.capabilities.progress import Progress
from interlock.engine import ENGINES, EngineName
from interlock.errors import MediaMalformed
from interlock.human import LaterHuman
from interlock.runtime.events import Event
from interlock.testing import CountingIds, FixedClock, ScriptedModel
from tests.support.listening import listening
from tests.support.numbering import check_numbers, numbers

KEY = "sk-abcdefghijklmnopqrstuvwx"


class Talk(TypedDict, total=False):
    text: str
    found: str
    said: str


class Search(Capability, Protocol):
    @emits("tool")
    async def find(self, words: str) -> str: ...

    async def warm_up(self) -> None: ...


class RealSearch:
    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def find(self, words: str) -> str:
        if self._error is not None:
            raise self._error
        return words.upper()

    async def warm_up(self) -> None:
        pass


class Looking(Capability, Protocol):
    async def look(self, text: str) -> str: ...


class Found(Outcome):
    found: str


class Said(Outcome):
    said: str


async def search(text: str, *, search: Search, progress: Progress) -> Found:
    """Make a call that only observers see, one that a listener sees, and emit an event of its own."""
    await search.warm_up()
    await progress.emit("searching", {"for": text})
    return Found(found=await search.find(text))


async def look(text: str, *, looking: Looking) -> Found:
    return Found(found=await looking.look(text))


async def speak(found: str, *, model: Model) -> Said:
    return Said(said="".join([chunk.text async for chunk in model.stream([Message(role="user", text=found)])]))


async def ask(found: str, *, human: Human, clock: Clock) -> Said:
    await clock.now()
    return Said(said=await human.ask(Question(text=f"Is it {found}?")) or "")


inner = Graph("inner", state=Talk, entry=search, nodes=[node(search, goes={Found: END})], takes=["text"], gives="found")
talk = Graph("talk", state=Talk, entry=look, nodes=[node(look, goes={Found: speak}), node(speak, goes={Said: END})], takes=["text"])
asking = Graph("asking", state=Talk, entry=search, nodes=[node(search, goes={Found: ask}), node(ask, goes={Said: END})], takes=["text"])


def app(engine: EngineName, *said: Any, error: Exception | None = None, **more: Any) -> Interlock:
    grants: dict[type, object] = {
        Search: RealSearch(error),
        Looking: Subgraph(inner),
        Model: ScriptedModel(*said),
        Ids: CountingIds(),
        Human: LaterHuman(),
        Clock: FixedClock(),
    }
    return Interlock(Settings(engine=engine, **more), grants=grants)


async def heard(engine: EngineName, *said: Any, **options: Any) -> list[Event]:
    events: list[Event] = []
    await app(engine, *said, **options).run(talk, "x", on_event=events.append)
    return events


async def test_numbers_start_at_one_and_have_no_gaps(engine: EngineName):
    events = await heard(engine, ["It ", "is ", "X."])
    assert numbers(events) == list(range(1, len(events) + 1))
    assert [event["event"] for event in events].count("on_chat_model_stream") == 3
    assert {"on_custom_event", "on_tool_end"} <= {event["event"] for event in events}


async def test_a_turn_that_fails_is_numbered_to_its_last_event(engine: EngineName):
    events = await heard(engine, error=MediaMalformed("It is torn."))
    check_numbers(events)
    assert [event["event"] for event in events][-4:] == ["on_chain_error", "on_chain_error", "on_chain_error", "on_chain_end"]


async def test_what_only_logs_and_spans_see_takes_no_number(engine: EngineName):
    alone = await heard(engine, "It is X.")
    records: list[logging.LogRecord] = []
    spans = InMemorySpanExporter()
    with listening(records, spans):
        observed = await heard(engine, "It is X.")
    assert observed == alone
    lines = [record.__dict__["fields"] for record in records if record.levelname == "DEBUG"]
    assert [line["sequence"] for line in lines if "sequence" in line] == numbers(alone)
    assert any("sequence" not in line for line in lines), "a call that no listener sees is in the log"


SAID = st.lists(st.sampled_from(["sk-", KEY, KEY[:9], "open ", "sesame", " ", "", "x"]), max_size=8)


@given(said=SAID)
def test_numbers_have_no_gaps_no_matter_what_is_held_back_and_are_the_same_on_both_engines(said: list[str]):
    """A chunk that could be the start of a secret is shown later, or not at all."""
    on_each = [asyncio.run(heard(engine, said or [""])) for engine in ENGINES]
    for events in on_each:
        check_numbers(events)
    assert numbers(on_each[0]) == numbers(on_each[1])
    assert on_each[0] == on_each[1]


async def test_a_replayed_turn_has_the_numbers_of_the_recorded_one(engine: EngineName, tmp_path: Path):
    first: list[Event] = []
    again: list[Event] = []
    path = tmp_path / "turn.jsonl"
    await app(engine, ["It ", "is."]).run(talk, "x", on_event=first.append, record=path)
    replay = await app(engine).replay(path, graph=talk, on_event=again.append)
    assert again == first
    assert replay.differences == ()
    check_numbers(again)


async def test_a_turn_that_is_resumed_repeats_the_numbers_that_a_listener_saw(engine: EngineName, tmp_path: Path):
    first: list[Event] = []
    rest: list[Event] = []
    path = tmp_path / "turn.jsonl"
    waiting = await app(engine).run(asking, "x", on_event=first.append, record=path)
    assert waiting.status == "waiting"
    check_numbers(first)
    answering = Interlock(Settings(engine=engine), grants={Search: RealSearch(), Human: Answers(), Clock: FixedClock()})
    await answering.resume(path, graph=asking, on_event=rest.append)
    check_numbers(rest)
    seen = next(number for number, event in enumerate(first) if event["event"] == "on_chain_error")
    assert rest[:seen] == first[:seen], "a listener that comes back skips what it has seen by the number alone"


class Answers:
    async def ask(self, question: Question) -> str:
        return "yes"


async def test_a_listener_that_raises_gets_no_more_events(engine: EngineName):
    heard: list[Event] = []

    def listen(event: Event) -> None:
        heard.append(event)
        if len(heard) == 3:
            raise LookupError("full")

    with pytest.raises(LookupError, match="full"):
        await app(engine, "It is.").run(talk, "x", on_event=listen)
    assert numbers(heard) == [1, 2, 3]
