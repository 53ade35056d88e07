from __future__ import annotations

import functools
import json
import operator
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock import END, Capability, Graph, Interlock, Outcome, Present, Settings, node
from interlock.agent import Agent
from interlock.capabilities import Chunk, Ids
from interlock.capabilities.capability import emits
from interlock.engine import ENGINES, EngineName
from interlock.errors import MediaMalformed
from interlock.reply import Reply
from interlock.runtime.events import Event, EventEmitter, Run
from interlock.runtime.redaction import Redactor
from interlock.testing import CountingIds
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest
from interlock_agents.sam.testing import ScriptedBackend

KEYS = {"event", "name", "run_id", "parent_ids", "tags", "metadata", "data"}


@dataclass(frozen=True)
class Fact:
    text: str


class Chat(TypedDict, total=False):
    question: str
    raw: bytes
    facts: Annotated[list[Fact], operator.add]
    answer: str
    unset: str


class Search(Capability, Protocol):
    @emits("tool")
    async def find(self, words: str, *, limit: int) -> list[Fact]: ...

    async def warm_up(self) -> None: ...


class RealSearch:
    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.events: list[Event] = []
        self.seen: list[str] = []

    async def find(self, words: str, *, limit: int) -> list[Fact]:
        self.seen = [event["event"] for event in self.events]
        if self._error is not None:
            raise self._error
        return [Fact(words)][:limit]

    async def warm_up(self) -> None:
        pass


class Gathered(Outcome):
    facts: list[Fact]


class Answered(Outcome):
    answer: str


async def gather(question: str, raw: bytes, *, search: Search) -> Gathered:
    await search.warm_up()
    return Gathered(facts=await search.find(question, limit=1))


async def reply(question: str, facts: Present, *, model: ModelBackend) -> Answered:
    response = await model.generate(ModelRequest(prompt=question))
    return Answered(answer=response.output or "")


async def read_unset(unset: str) -> Answered:
    return Answered(answer=unset)


chat = Graph("chat", state=Chat, entry=gather, nodes=[node(gather, goes={Gathered: reply}), node(reply, goes={Answered: END})])
GIVEN: dict[str, Any] = {"question": "why?", "raw": b"\xff\x00"}


async def events_of(
    engine: EngineName, *, error: Exception | None = None, graph: Graph | Agent = chat, given: dict[str, Any] = GIVEN, prefix: str = "id"
) -> list[Event]:
    search = RealSearch(error)
    grants = {Search: search, ModelBackend: ScriptedBackend("because"), Ids: CountingIds(prefix)}
    async with Interlock(Settings(engine=engine), grants=grants) as running:
        await running.run(graph, given, session="s", on_event=search.events.append)
    return search.events


async def test_the_events_of_a_turn_tell_all_of_it_in_order(engine: EngineName):
    assert [(event["event"], event["name"]) for event in await events_of(engine)] == [
        ("on_chain_start", "chat"),
        ("on_chain_start", "gather"),
        ("on_tool_start", "Search.find"),
        ("on_tool_end", "Search.find"),
        ("on_chain_end", "gather"),
        ("on_chain_start", "reply"),
        ("on_chat_model_start", "ModelBackend.generate"),
        ("on_chat_model_end", "ModelBackend.generate"),
        ("on_chain_end", "reply"),
        ("on_chain_end", "chat"),
    ]


async def test_every_event_has_the_v2_shape_and_is_plain_json(engine: EngineName):
    events = await events_of(engine)
    for event in events:
        assert event.keys() == KEYS
        assert event["tags"] == []
        assert all(isinstance(parent, str) for parent in event["parent_ids"])
        assert event["data"].keys() == {{"start": "input", "end": "output"}[event["event"].rpartition("_")[2]]}
    assert json.loads(json.dumps(events)) == events


async def test_events_carry_what_went_in_and_what_came_out(engine: EngineName):
    data = {(event["event"], event["name"]): event["data"] for event in await events_of(engine)}
    assert data["on_chain_start", "chat"] == {"input": {"question": "why?", "raw": "_wA="}}
    assert data["on_chain_start", "gather"] == {"input": {"question": "why?", "raw": "_wA="}}
    assert data["on_tool_start", "Search.find"] == {"input": ["why?", 1]}
    assert data["on_tool_end", "Search.find"] == {"output": [{"text": "why?"}]}
    assert data["on_chain_end", "gather"] == {"output": {"facts": [{"text": "why?"}]}}
    assert data["on_chain_start", "reply"] == {"input": {"question": "why?", "facts?": True}}
    assert data["on_chain_end", "reply"] == {"output": {"answer": "because"}}
    result = data["on_chain_end", "chat"]["output"]
    assert (result["status"], result["path"], result["turn"]) == ("success", ["gather", "reply"], "id-1")


async def test_every_run_is_inside_the_run_that_made_it(engine: EngineName):
    events = await events_of(engine)
    run_ids = {event["name"]: event["run_id"] for event in events}
    turn = run_ids["chat"]
    assert {event["name"]: event["parent_ids"] for event in events} == {
        "chat": [],
        "gather": [turn],
        "reply": [turn],
        "Search.find": [turn, run_ids["gather"]],
        "ModelBackend.generate": [turn, run_ids["reply"]],
    }
    assert len(set(run_ids.values())) == len(run_ids)
    assert all(event["run_id"] == run_ids[event["name"]] for event in events)


async def test_metadata_names_the_node_of_everything_that_happens_in_it(engine: EngineName):
    events = await events_of(engine)
    assert {event["name"]: event["metadata"].get("langgraph_node") for event in events} == {
        "chat": None,
        "gather": "gather",
        "Search.find": "gather",
        "reply": "reply",
        "ModelBackend.generate": "reply",
    }
    assert {event["name"]: event["metadata"].get("langgraph_step") for event in events if event["name"] in {"gather", "reply"}} == {
        "gather": 1,
        "reply": 2,
    }
    assert events[0]["metadata"] == {"agent": "chat", "session": "s", "turn": "id-1", "sequence": 1}


async def test_the_stream_is_the_same_on_every_engine():
    first, *others = [await events_of(engine) for engine in ENGINES]
    assert all(other == first for other in others)


async def test_run_ids_repeat_when_the_turn_id_repeats_and_only_then(engine: EngineName):
    first, again, other = await events_of(engine), await events_of(engine), await events_of(engine, prefix="other")
    assert again == first
    assert not {event["run_id"] for event in first} & {event["run_id"] for event in other}


@given(turns=st.lists(st.text(), min_size=2, max_size=2, unique=True), runs=st.integers(min_value=1, max_value=20))
def test_run_ids_are_never_shared_by_two_runs(turns: list[str], runs: int):
    streams = [EventEmitter(turn, listener=None, redactor=Redactor()) for turn in turns]
    made = [Run(events, "chain", "x", [], {}, public=public).run_id for events in streams for public in (True, False) for _ in range(runs)]
    assert len(set(made)) == 4 * runs


async def test_events_come_while_things_happen(engine: EngineName):
    search = RealSearch()
    grants = {Search: search, ModelBackend: ScriptedBackend("because")}
    await Interlock(Settings(engine=engine), grants=grants).run(chat, GIVEN, on_event=search.events.append)
    assert search.seen == ["on_chain_start", "on_chain_start", "on_tool_start"]


async def test_a_failure_is_reported_at_every_level_it_passes(engine: EngineName):
    events = await events_of(engine, error=MediaMalformed("It is torn."))
    assert [(event["event"], event["name"]) for event in events] == [
        ("on_chain_start", "chat"),
        ("on_chain_start", "gather"),
        ("on_tool_start", "Search.find"),
        ("on_tool_error", "Search.find"),
        ("on_chain_error", "gather"),
        ("on_chain_end", "chat"),
    ]
    for event in events[3:5]:
        assert event.keys() == KEYS
        assert event["data"] == {"error": {"code": "media_malformed", "message": "It is torn."}}
    result = events[-1]["data"]["output"]
    assert (result["status"], result["error"]["node"]) == ("error", "gather")


async def test_a_failed_capability_call_tells_no_details_in_events(engine: EngineName):
    assert "hunter2" not in json.dumps(await events_of(engine, error=RuntimeError("hunter2")))


def unbalanced(events: list[Event]) -> list[str]:
    """Name the runs that ended without a start, or started without an end, or out of order."""
    open_runs: list[str] = []
    wrong: list[str] = []
    for event in events:
        if event["event"].endswith("_start"):
            wrong += [event["name"]] if event["parent_ids"] != open_runs else []
            open_runs.append(event["run_id"])
        elif not open_runs or open_runs.pop() != event["run_id"]:
            wrong.append(event["name"])
    return [*wrong, *open_runs]


@pytest.mark.parametrize("error", [None, MediaMalformed(), RuntimeError("broken")])
async def test_every_run_that_starts_ends_inside_its_parent(engine: EngineName, error: Exception | None):
    assert unbalanced(await events_of(engine, error=error)) == []


async def test_a_node_that_cannot_be_given_its_fields_starts_before_it_fails(engine: EngineName):
    rows = [node(gather, goes={Gathered: read_unset}), node(read_unset, goes={Answered: END})]
    graph = Graph("chat", state=Chat, entry=gather, nodes=rows, takes=["question", "raw", "unset"])
    # A field that a session keeps is not required from the caller, and the first turn of a session has none.
    agent = Agent(name="chat", summary="", graphs=[graph], entries={None: graph}, reply=lambda _: Reply(), persists=["unset"])
    events = await events_of(engine, graph=agent)
    assert unbalanced(events) == []
    assert events[-1]["data"]["output"]["error"]["node"] == "read_unset"


async def test_a_stream_yields_the_same_events_and_ends_with_the_result(engine: EngineName):
    grants = {Search: RealSearch(), ModelBackend: ScriptedBackend("because"), Ids: CountingIds()}
    stream = Interlock(Settings(engine=engine), grants=grants).stream(chat, GIVEN, session="s")
    assert [event async for event in stream] == await events_of(engine)


async def test_a_stream_raises_what_the_input_was_refused_for(engine: EngineName):
    with pytest.raises(Exception, match="'qeustion' is unknown"):
        _ = [event async for event in Interlock(Settings(engine=engine)).stream(chat, {"qeustion": "why?"})]


@functools.cache
def running(engine: EngineName) -> Interlock:
    return Interlock(Settings(engine=engine), grants={Search: RealSearch(), ModelBackend: ScriptedBackend("because")})


@given(question=st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), raw=st.binary())
async def test_any_input_makes_events_that_are_plain_json(engine: EngineName, question: str, raw: bytes):
    events: list[Event] = []
    result = await running(engine).run(chat, {"question": question, "raw": raw}, on_event=events.append)
    assert result.error is None
    assert json.loads(json.dumps(events)) == events
    assert unbalanced(events) == []


def test_a_chunk_of_which_all_could_be_the_start_of_a_secret_is_not_shown():
    events: list[Event] = []
    emitter = EventEmitter("t", listener=events.append, redactor=Redactor(("sk-[a-z]{16,}",)))
    run = emitter.turn("t", {})
    run.stream(Chunk(text="sk-"))
    assert events == []
    run.stream(Chunk(text="!"))
    assert [event["data"]["chunk"]["text"] for event in events] == ["sk-!"]


class Picture(BaseModel):
    pixels: bytes


class Gallery(TypedDict, total=False):
    title: str
    picture: Picture


class Hung(Outcome):
    picture: Picture


async def hang(title: str) -> Hung:
    return Hung(picture=Picture(pixels=b"\xff"))


async def test_a_model_with_bytes_that_are_no_text_is_shown_as_its_repr_and_everything_else_as_it_is(engine: EngineName):
    gallery = Graph("gallery", state=Gallery, entry=hang, nodes=[node(hang, goes={Hung: END})], takes=["title"])
    events: list[Event] = []
    result = await Interlock(Settings(engine=engine)).run(gallery, "Blue", on_event=events.append)
    assert result.state["picture"].pixels == b"\xff"
    shown = events[-1]["data"]["output"]
    assert (shown["status"], shown["state"]) == ("success", {"title": "Blue", "picture": repr(Picture(pixels=b"\xff"))})
    assert result.to_json()["state"] == shown["state"]
