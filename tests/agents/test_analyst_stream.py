"""What is heard of a turn of the analyst while it runs: from whom, how soon, without secrets, and what is left when it breaks off."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from interlock.capabilities import Chunk, Message, Model, Tool
from interlock.engine import EngineName
from interlock.errors import ModelTimeout, ModelUnavailable
from interlock.runtime.events import Event
from interlock.testing import ScriptedModel
from tests.support.analyst import KEY, add, app, call, said, search, take, talk, tools, wants, watched

T = TypeVar("T", bound=BaseModel)
SESSIONS = (f"stream-{number}" for number in itertools.count())
SOON = 20
"""Seconds after which something that should happen at once is taken not to happen."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder; every test has a session of its own in it."""
    return tmp_path_factory.mktemp("analyst-stream")


@pytest.fixture
def session() -> str:
    return next(SESSIONS)


class Pausing(ScriptedModel):
    """Says its first piece, and the others when it is let to."""

    def __init__(self, *replies: Any, pieces: Sequence[str] = ("First ", "and ", "last.")) -> None:
        super().__init__(*replies)
        self._pieces = pieces
        self.go_on = asyncio.Event()
        self.is_done = self.is_closed = False

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        try:
            yield Chunk(text=self._pieces[0])
            await self.go_on.wait()
            for piece in self._pieces[1:]:
                yield Chunk(text=piece)
            self.is_done = True
        finally:
            self.is_closed = True


def sources(events: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Which nodes each kind of event of a call comes from."""
    found: dict[str, set[str]] = {}
    for event in events:
        kind = event["event"]
        if kind.startswith(("on_chat_model", "on_tool", "on_custom")):
            found.setdefault(kind, set()).add(event["metadata"]["langgraph_node"])
    return found


def spoken(events: Iterable[Event]) -> str:
    return "".join(event["data"]["chunk"]["text"] for event in events if event["event"] == "on_chat_model_stream")


TABLE = {
    "on_chat_model_start": {"planner", "generator"},
    "on_chat_model_stream": {"generator"},
    "on_chat_model_end": {"planner", "generator"},
    "on_tool_start": {"tool_executor"},
    "on_tool_end": {"tool_executor"},
    "on_custom_event": {"verifier"},
}
REPLIES = (wants(search("zzqx")), wants(add("20 + 1", id="a"), search("churn", id="b")), "Twenty-one [a], and churn [b].")


async def test_events_come_from_the_documented_nodes(engine: EngineName, folder: Path, session: str):
    result, events = await watched(engine, folder, "Both.", *REPLIES, session=session)
    assert result.status == "success"
    assert sources(events) == TABLE
    assert Counter(event["event"] for event in events if event["event"] in {"on_chat_model_start", "on_tool_start", "on_tool_end"}) == {
        "on_chat_model_start": 3,
        "on_tool_start": 3,
        "on_tool_end": 3,
    }
    starts = {event["run_id"]: event for event in events if event["event"] == "on_tool_start"}
    for event in events:
        if event["event"] == "on_tool_start":
            assert event["data"].keys() == {"tool", "input"}
            assert event["data"]["tool"] == event["name"]
        elif event["event"] == "on_tool_end":
            assert event["data"].keys() == {"output"}
            assert event["data"]["output"]["tool"] == starts[event["run_id"]]["name"]
        elif event["event"] == "on_custom_event":
            assert (event["name"], event["data"]) == ("planning_retry", {"status": "planning_retry", "retry": 1, "reason": "empty"})
    assert spoken(events) == result.output


async def test_a_short_turn_and_its_history(engine: EngineName, folder: Path, session: str):
    _, events = await watched(engine, folder, "Hi.", talk(), "Hello.", session=session, analyst_window=2)
    assert sources(events) == {kind: nodes for kind, nodes in TABLE.items() if kind.startswith("on_chat_model")}
    _, events = await watched(engine, folder, "Hi.", talk(), "Hello.", {"summary": "Greetings."}, session=session, analyst_window=2)
    assert sources(events)["on_chat_model_start"] == {"planner", "generator", "summarizer"}
    assert sources(events)["on_chat_model_stream"] == {"generator"}


async def test_both_engines_emit_the_same_events(folder: Path):
    told: list[list[tuple[Any, ...]]] = []
    for engine in ("direct", "langgraph"):
        _, events = await watched(engine, folder, "Both.", *REPLIES, session=next(SESSIONS))
        told.append(
            [(event["event"], event["name"], event["metadata"].get("langgraph_node"), len(event["parent_ids"])) for event in events]
        )
    assert sorted(map(str, told[0])) == sorted(map(str, told[1]))
    assert [one for one in told[0] if one[0].startswith("on_chain")] == [one for one in told[1] if one[0].startswith("on_chain")]


async def test_langgraphs_own_stream_has_the_same_kinds_of_events(folder: Path):
    async with app("langgraph", folder, *REPLIES) as running:
        graph = running.langgraph("analyst", checkpointer=InMemorySaver())
        given_ = {"messages": [{"type": "human", "content": "Both."}], "user_id": "ada", "session_id": "s"}
        config: Any = {"configurable": {"thread_id": "t"}}
        events: list[Any] = [event async for event in graph.astream_events(given_, config, version="v2")]
    assert sources(events) == TABLE
    chunks = [event["data"]["chunk"].content for event in events if event["event"] == "on_chat_model_stream"]
    assert "".join(chunks) == "Twenty-one [a], and churn [b]."
    [retry] = [event for event in events if event["event"] == "on_custom_event"]
    assert (retry["name"], retry["data"]["status"]) == ("planning_retry", "planning_retry")
    started = [event for event in events if event["event"] == "on_tool_start"]
    assert {event["name"] for event in started} == {"search", "calculate"}
    assert all(event["data"]["tool"] == event["name"] and isinstance(event["data"]["input"], dict) for event in started)


# how soon


async def test_the_first_token_comes_before_the_model_has_finished(engine: EngineName, folder: Path, session: str):
    model = Pausing(talk())
    events: list[Event] = []
    async with app(engine, folder, grants={Model: model}) as running, asyncio.timeout(SOON):
        async for event in running.stream("analyst", "Hi.", session=session):
            events.append(event)
            if event["event"] == "on_chat_model_stream" and not model.go_on.is_set():
                assert (event["data"]["chunk"]["text"], model.is_done) == ("First ", False)
                model.go_on.set()
    assert spoken(events) == "First and last."
    assert events[-1]["data"]["output"]["output"] == "First and last."


async def test_the_first_token_comes_before_the_model_has_finished_from_langgraph_too(folder: Path):
    model = Pausing(talk())
    chunks: list[str] = []
    async with app("langgraph", folder, grants={Model: model}) as running, asyncio.timeout(SOON):
        graph = running.langgraph("analyst")
        given_ = {"messages": [{"type": "human", "content": "Hi."}], "user_id": "ada", "session_id": "s"}
        async for event in graph.astream_events(given_, version="v2"):
            if event["event"] == "on_chat_model_stream":
                chunks.append(str(event["data"]["chunk"].content))  # pyright: ignore[reportTypedDictNotRequiredAccess] - a chunk has one
                model.go_on.set()
    assert "".join(chunks) == "First and last."
    assert chunks[0] == "First "


async def test_tool_events_are_emitted_before_the_tools_end(engine: EngineName, folder: Path, session: str):
    plan = wants(call("slow", text="x"), add())
    async with app(engine, folder, plan, "Done.", tool_seconds=60.0, **tools(slow="hangs")) as running, asyncio.timeout(SOON):
        heard: list[str] = []
        async with aclosing(running.stream("analyst", "Hi.", session=session)) as stream:
            async for event in stream:
                heard.append(f"{event['event']} {event['name']}")
                if event["event"] == "on_tool_end":
                    break
        assert heard[-3:] == ["on_tool_start slow", "on_tool_start calculate", "on_tool_end calculate"]
    assert len(asyncio.all_tasks()) == 1


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12), min_size=1, max_size=8))
async def test_streamed_chunks_are_the_beginning_of_the_answer(pieces: list[str]):
    async with app("direct", Path("/nonexistent"), wants(add("1 / 0"), add()), list(pieces), checkpoint_url="memory:") as running:
        events: list[Event] = []
        result = await running.run("analyst", "Hi.", on_event=events.append)
    assert spoken(events) == ("".join(pieces) if result.status == "error" else result.output)
    if result.status == "success":
        assert result.output.startswith("".join(pieces))
        assert said(result)[-1] == result.output
    else:
        assert result.error is not None
        assert result.error.code == "model_output_invalid"
        assert not "".join(pieces).strip()


# secrets


@pytest.mark.parametrize("at", [1, 3, 7, 12, len(KEY) - 1])
async def test_a_secret_split_over_chunks_is_not_emitted(engine: EngineName, folder: Path, session: str, at: int):
    pieces: list[Any] = ["It is ", KEY[:at], KEY[at:], ", they say."]
    result, events = await watched(engine, folder, f"Is it {KEY}?", talk(reason=KEY), pieces, session=session)
    assert result.status == "success"
    assert spoken(events) == "It is [redacted], they say."
    assert KEY not in json.dumps(events)
    assert KEY[at:] not in json.dumps(events) or len(KEY[at:]) < 4


async def test_a_secret_in_arguments_and_errors_is_not_emitted(engine: EngineName, folder: Path, session: str):
    plan = wants(call("note", text=KEY), call("broken", text=KEY), call(KEY, text="x"), call("search", query=KEY, limit=KEY))
    result, events = await watched(engine, folder, "Note.", plan, "Noted.", session=session, **tools(note="leaks", broken="fails"))
    assert result.status == "success"
    assert KEY not in json.dumps(events)


# breaking off


@pytest.mark.parametrize(
    ("failure", "code"),
    [(ModelUnavailable("Gone."), "model_unavailable"), (ModelTimeout("Late."), "model_timeout"), (RuntimeError(KEY), "capability_failed")],
)
async def test_a_broken_stream_is_a_typed_error_and_its_turn_is_not_saved(
    engine: EngineName, folder: Path, session: str, failure: Exception, code: str
):
    await take(engine, folder, "One.", talk(), "First.", session=session)
    async with app(engine, folder, wants(add()), ["Half ", "an ", failure]) as running:
        events = [event async for event in running.stream("analyst", "Two.", session=session)]
    ended = events[-1]["data"]["output"]
    assert (ended["status"], ended["error"]["code"], ended["error"]["node"]) == ("error", code, "generator")
    assert ended["output"] == spoken(events) == "Half an "
    assert KEY not in json.dumps(events)
    third = await take(engine, folder, "Three.", talk(), "Third.", session=session)
    assert said(third) == ["One.", "First.", "Three.", "Third."]


async def test_a_stalled_stream_is_a_timeout_and_is_closed(engine: EngineName, folder: Path, session: str):
    model = Pausing(talk())
    async with app(engine, folder, grants={Model: model}, max_call_seconds=1.0) as running, asyncio.timeout(SOON):
        events = [event async for event in running.stream("analyst", "Hi.", session=session)]
    ended = events[-1]["data"]["output"]
    assert (ended["error"]["code"], ended["output"]) == ("model_timeout", "First ")
    assert (model.is_closed, model.is_done) == (True, False)
    again = await take(engine, folder, "Hi again.", talk(), "Hello.", session=session)
    assert said(again) == ["Hi again.", "Hello."]


async def test_a_closed_stream_ends_the_turn(engine: EngineName, folder: Path, session: str):
    model = Pausing(talk())
    async with app(engine, folder, grants={Model: model}) as running, asyncio.timeout(SOON):
        async with aclosing(running.stream("analyst", "Hi.", session=session)) as stream:
            async for event in stream:
                if event["event"] == "on_chat_model_stream":
                    break
        assert (model.is_closed, model.is_done) == (True, False)
        assert len(asyncio.all_tasks()) == 1
        model.go_on.set()
        again = await running.run("analyst", "Hi again.", session=session)
    assert said(again) == ["Hi again.", "First and last."]


async def test_a_cancelled_turn_cancels_its_tools(engine: EngineName, folder: Path, session: str):
    plan = wants(call("slow", text="x", id="a"), add("{{a.x}}"), call("slow", text="y"))
    begun = asyncio.Event()

    def hear(event: Event) -> None:
        if event["event"] == "on_tool_start":
            begun.set()

    async with app(engine, folder, plan, "Done.", tool_seconds=60.0, **tools(slow="hangs")) as running, asyncio.timeout(SOON):
        turn = asyncio.create_task(running.run("analyst", "Hi.", session=session, on_event=hear))
        await begun.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert len(asyncio.all_tasks()) == 1
    again = await take(engine, folder, "Hi again.", talk(), "Hello.", session=session)
    assert said(again) == ["Hi again.", "Hello."]


# what no model says


@pytest.mark.parametrize(
    ("question", "replies"),
    [
        ("Delete all customers.", ()),
        ("Revenue by zeppelin?", ()),
        ("How many orders this year?", ()),
        ("What does the handbook say about purple zebras?", ()),
        ("Hi.", (talk(ask="Which year do you mean?"),)),
    ],
)
async def test_refusals_and_questions_back_are_streamed(
    engine: EngineName, folder: Path, session: str, question: str, replies: tuple[Any, ...]
):
    result, events = await watched(engine, folder, question, *replies, session=session)
    assert result.status == "success"
    assert spoken(events) == result.output
    assert len([event for event in events if event["event"] == "on_chat_model_stream"]) > 3


async def test_a_native_refusal_is_streamed_without_a_model_call(folder: Path):
    async with app("langgraph", folder, talk(), max_model_calls=0) as running:
        graph = running.langgraph("analyst")
        chunks: Any = graph.astream({"messages": [("user", "Delete all customers.")]}, stream_mode="messages")
        told = [message async for message, _ in chunks]
        refused = await running.run("analyst", "Delete all customers.")
    assert len(told) > 3
    assert "".join(message.content for message in told) == refused.output
    assert (refused.status, refused.metadata.get("models", [])) == ("success", [])
