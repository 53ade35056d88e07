"""What is told of a graph inside a graph: where it happens, in order, the same on every engine; and nothing that is secret."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_store
from langgraph.runtime import get_runtime
from langgraph.store.memory import InMemoryStore
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, InterlockError, Outcome, Secret, Settings, Subgraph, TurnResult, node
from interlock.capabilities import Ids
from interlock.capabilities.capability import emits
from interlock.engine import ENGINES, EngineName
from interlock.errors import MediaMalformed
from interlock.logs import LogFormatter
from interlock.runtime.events import Event
from interlock.runtime.redaction import Redactor
from interlock.testing import CountingIds
from tests.support.listening import chain, listening

CANARY = "Canary_Xq7-ZvK"
KEY = "sk-abcdefghijklmnopqrstuvwx"
"""What looks like a key, by the patterns of the settings."""


class Work(TypedDict, total=False):
    text: str
    size: int
    out: str


@dataclass
class Kept:
    """The inner state: what is labelled is a secret wherever it goes."""

    text: str
    token: Annotated[str, Secret] = ""
    seed: Annotated[str, Secret] = f"{CANARY}-default"
    found: Annotated[str | None, Secret] = None
    pin: Annotated[int | None, Secret] = None
    size: int | None = None


class Found(Outcome):
    found: str


class Sized(Outcome):
    size: int


class Done(Outcome):
    out: str


class Vault(Capability, Protocol):
    async def open(self, text: str, token: Annotated[str, Secret]) -> int: ...


class Safe(Capability, Protocol):
    async def open(self, text: str, token: Annotated[str, Secret]) -> Annotated[str, Secret]: ...


class Tools(Capability, Protocol):
    @emits("tool")
    async def find(self, words: str) -> str: ...

    async def note(self, words: str) -> None: ...


class RealTools:
    async def find(self, words: str) -> str:
        if words == "adapter raises":
            raise MediaMalformed(f"It is {CANARY}.") from ValueError(CANARY)
        return f"<{words}>"

    async def note(self, words: str) -> None:
        pass


async def look(text: str, token: str, seed: str, *, tools: Tools) -> Found:
    await tools.note(token)
    said = await tools.find(text if text == "adapter raises" else f"{text} {token} {seed}")
    if text == "node raises":
        raise RuntimeError(f"{token} {seed} {said}") from ValueError(token)
    if text == "node raises what is the default":
        raise KeyError(seed)
    if text == "strays":
        return Found(found={token: said})  # pyright: ignore[reportArgumentType]
    return Found(found=f"{token} found")


async def measure(text: str, found: str | None) -> Sized:
    if text == "late":
        raise RuntimeError(found)
    return Sized(size=len(found or ""))


vault = Graph(
    "vault",
    state=Kept,
    entry=look,
    nodes=[node(look, goes={Found: measure}), node(measure, goes={Sized: END})],
    takes=["text", "token"],
    gives="size",
)
safe = Graph(
    "safe",
    state=Kept,
    entry=look,
    nodes=[node(look, goes={Found: measure}), node(measure, goes={Sized: END})],
    takes=["text", "token"],
    gives="found",
)


async def enter(text: str, *, vault: Vault) -> Sized:
    return Sized(size=await vault.open(text, CANARY))


async def say(text: str, size: int, *, safe: Safe, tools: Tools) -> Done:
    """Give away what the inner graph gave: by then it is known to be a secret."""
    found = await safe.open("again", token=f"{CANARY}-2")
    await tools.find(found)
    if text == "outer raises":
        raise RuntimeError(found)
    return Done(out=found)


work = Graph(
    "work",
    state=Work,
    entry=enter,
    nodes=[node(enter, goes={Sized: say}), node(say, goes={Done: END})],
    takes=["text"],
    gives="out",
)


def app(engine: EngineName) -> Interlock:
    grants = {Vault: Subgraph(vault), Safe: Subgraph(safe), Tools: RealTools(), Ids: CountingIds()}
    return Interlock(Settings(engine=engine), grants=grants)


async def events_of(engine: EngineName, text: str = "x") -> list[Event]:
    events: list[Event] = []
    await app(engine).run(work, text, session="s", on_event=events.append)
    return events


# Order, names, places


async def test_the_events_tell_of_inner_graphs_and_their_nodes_in_order(engine: EngineName):
    assert [(event["event"].removeprefix("on_"), event["name"]) for event in await events_of(engine)] == [
        ("chain_start", "work"),
        ("chain_start", "enter"),
        ("chain_start", "vault"),
        ("chain_start", "enter/look"),
        ("tool_start", "Tools.find"),
        ("tool_end", "Tools.find"),
        ("chain_end", "enter/look"),
        ("chain_start", "enter/measure"),
        ("chain_end", "enter/measure"),
        ("chain_end", "vault"),
        ("chain_end", "enter"),
        ("chain_start", "say"),
        ("chain_start", "safe"),
        ("chain_start", "say/look"),
        ("tool_start", "Tools.find"),
        ("tool_end", "Tools.find"),
        ("chain_end", "say/look"),
        ("chain_start", "say/measure"),
        ("chain_end", "say/measure"),
        ("chain_end", "safe"),
        ("tool_start", "Tools.find"),
        ("tool_end", "Tools.find"),
        ("chain_end", "say"),
        ("chain_end", "work"),
    ]


ENDS = ("x", "node raises", "node raises what is the default", "strays", "late", "adapter raises", "outer raises")


@pytest.mark.parametrize("text", ENDS)
async def test_the_events_are_the_same_on_every_engine(text: str):
    first, *others = [await events_of(engine, text) for engine in ENGINES]
    assert all(other == first for other in others)
    assert json.loads(json.dumps(first)) == first


async def test_every_run_is_inside_the_run_that_it_happens_in(engine: EngineName):
    events = (await events_of(engine))[:11]
    ids = {event["name"]: event["run_id"] for event in events}
    turn = [ids["work"], ids["enter"], ids["vault"]]
    assert {event["name"]: event["parent_ids"] for event in events} == {
        "work": [],
        "enter": turn[:1],
        "vault": turn[:2],
        "enter/look": turn,
        "Tools.find": [*turn, ids["enter/look"]],
        "enter/measure": turn,
    }


async def test_metadata_say_which_graph_stands_behind_what_and_number_the_steps_of_the_turn(engine: EngineName):
    metadata = {event["name"]: {**event["metadata"]} for event in (await events_of(engine))[:11]}
    for about in metadata.values():
        del about["sequence"]
    assert metadata["vault"] == {"graph": "vault", "capability": "Vault.open"}
    assert metadata["enter"] == {"langgraph_node": "enter", "langgraph_step": 1}
    assert metadata["enter/look"] == metadata["Tools.find"] == {"langgraph_node": "enter/look", "langgraph_step": 2}
    assert metadata["enter/measure"] == {"langgraph_node": "enter/measure", "langgraph_step": 3}


async def test_a_graph_is_reported_with_what_it_takes_and_gives_without_what_is_secret(engine: EngineName):
    data = {(event["event"], event["name"]): event["data"] for event in await events_of(engine)}
    hidden = data["on_chain_start", "vault"]["input"]["token"]
    assert data["on_chain_start", "vault"] == {"input": {"text": "x", "token": hidden}}
    assert data["on_chain_end", "vault"] == {"output": {"size": len(f"{CANARY} found")}}
    assert data["on_chain_end", "safe"] == {"output": {"found": hidden}}
    assert data["on_chain_start", "enter/look"] == {"input": {"text": "x", "token": hidden, "seed": hidden}}
    assert data["on_chain_end", "enter/look"] == {"output": {"found": hidden}}
    assert data["on_chain_end", "enter/measure"] == {"output": {"size": len(f"{CANARY} found")}}


@pytest.mark.parametrize(
    ("text", "code"), [("late", "node_failed"), ("strays", "contract_violation"), ("adapter raises", "media_malformed")]
)
async def test_a_failure_is_reported_at_every_level_that_it_passes(engine: EngineName, text: str, code: str):
    events = await events_of(engine, text)
    where = "enter/measure" if text == "late" else "enter/look"
    failed = [event for event in events if event["event"] == "on_chain_error"]
    assert [event["name"] for event in failed] == [where, "vault", "enter"]
    assert {event["data"]["error"]["code"] for event in failed} == {code}
    assert len({event["data"]["error"]["message"] for event in failed}) == 1
    result = events[-1]["data"]["output"]
    assert (result["error"]["code"], result["error"]["node"]) == (code, where)


# Canaries


@dataclass
class Seen:
    """Everything that a turn tells of itself."""

    events: list[Event] = field(default_factory=list[Event])
    records: list[logging.LogRecord] = field(default_factory=list[logging.LogRecord])
    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    result: TurnResult | None = None
    raised: BaseException | None = None

    def sinks(self) -> dict[str, str]:
        lines = LogFormatter(as_json=True, redactor=Redactor())
        logs = [text for record in self.records for text in (lines.format(record), f"{record.__dict__}")]
        spans = self.spans.get_finished_spans()
        return {
            "events": json.dumps(self.events),
            "logs": "\n".join(logs),
            "spans": "\n".join(span.to_json() for span in spans),
            "error": "" if self.result is None else f"{self.result.error} {self.result!r}",
            "result": "" if self.result is None else json.dumps(self.result.to_json()),
            "exception": " ".join(f"{one} {one!r} {one.args} {vars(one)}" for one in chain(self.raised)),
        }


@contextmanager
def watching() -> Generator[Seen]:
    seen = Seen()
    with listening(seen.records, seen.spans):
        yield seen


@pytest.mark.parametrize("text", ENDS)
async def test_what_is_secret_in_an_inner_graph_is_shown_nowhere(engine: EngineName, text: str):
    with watching() as seen:
        seen.result = await app(engine).run(work, text, on_event=seen.events.append)
    assert (seen.result.error is None) == (text == "x")
    assert seen.result.error is None or seen.result.error.code != "internal"
    assert [sink for sink, told in seen.sinks().items() if CANARY in told] == []
    assert all(seen.sinks()[sink] for sink in ("events", "logs", "spans", "result"))


@pytest.mark.parametrize("text", ENDS)
async def test_what_is_secret_in_an_inner_graph_is_shown_nowhere_where_langgraph_drives_the_outer(engine: EngineName, text: str):
    with watching() as seen:
        try:
            await app(engine).langgraph(work).ainvoke({"text": text})
        except InterlockError as error:
            seen.raised = error
    assert (seen.raised is None) == (text == "x")
    assert [sink for sink, told in seen.sinks().items() if CANARY in told] == []


class Short(Capability, Protocol):
    async def open(self, text: str) -> int: ...


async def tell_what_is_fixed(text: str, *, short: Short, tools: Tools) -> Sized:
    size = await short.open(text)
    await tools.find(f"{CANARY}-fixed")
    return Sized(size=size)


def sizing(run: Any) -> Graph:
    return Graph("work", state=Work, entry=run, nodes=[node(run, goes={Sized: END})], takes=["text"], gives="size")


async def test_a_secret_that_is_fixed_is_shown_nowhere(engine: EngineName):
    grants: dict[type, object] = {Short: Subgraph(vault, token=f"{CANARY}-fixed"), Tools: RealTools()}
    with watching() as seen:
        running = Interlock(Settings(engine=engine), grants=grants)
        seen.result = await running.run(sizing(tell_what_is_fixed), "x", on_event=seen.events.append)
    assert seen.result.error is None
    assert [sink for sink, told in seen.sinks().items() if CANARY in told] == []


class Pin(Capability, Protocol):
    async def open(self, text: str) -> Annotated[int, Secret]: ...


async def measured(text: str) -> Sized:
    return Sized(size=1)


async def use_pin(text: str, *, pin: Pin) -> Sized:
    return Sized(size=await pin.open(text))


async def test_a_result_that_does_not_fit_tells_nothing_of_it_where_it_is_secret(engine: EngineName):
    inner = Graph("pin", state=Kept, entry=measured, nodes=[node(measured, goes={Sized: END})], takes=["text"], gives="pin")
    result = await Interlock(Settings(engine=engine), grants={Pin: Subgraph(inner)}).run(sizing(use_pin), "x")
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("capability_result_invalid", "'Pin.open' returned something else.")


async def test_what_looks_like_a_key_is_not_shown_by_an_inner_graph(engine: EngineName):
    with watching() as seen:
        seen.result = await app(engine).run(work, KEY, on_event=seen.events.append)
    assert seen.result.error is None
    assert [sink for sink, told in seen.sinks().items() if KEY in told] == ["result"]  # its input, in its own state


async def test_spans_are_one_inside_the_other_and_only_a_turn_is_called_one(engine: EngineName):
    with watching() as seen:
        await app(engine).run(work, "x")
    spans = seen.spans.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans if span.context is not None}
    inside = {(span.name, names.get(span.parent.span_id) if span.parent else None) for span in spans}
    assert inside == {
        ("invoke_agent work", None),
        ("node enter", "invoke_agent work"),
        ("graph vault", "node enter"),
        ("node enter/look", "graph vault"),
        ("call Tools.note", "node enter/look"),
        ("execute_tool Tools.find", "node enter/look"),
        ("node enter/measure", "graph vault"),
        ("node say", "invoke_agent work"),
        ("graph safe", "node say"),
        ("node say/look", "graph safe"),
        ("call Tools.note", "node say/look"),
        ("execute_tool Tools.find", "node say/look"),
        ("node say/measure", "graph safe"),
        ("execute_tool Tools.find", "node say"),
    }


# Around the contract


class Tried(TypedDict, total=False):
    text: str
    reached: list[str]


class Reached(Outcome):
    reached: list[str]


class Spy(Capability, Protocol):
    async def pry(self, text: str) -> list[str]: ...


def ways() -> list[str]:
    reached: list[str] = []
    for way in (get_config, get_store, get_runtime):
        try:
            way()
        except RuntimeError:
            continue
        reached.append(way.__name__)
    return reached


async def pry(text: str) -> Reached:
    return Reached(reached=[*ways(), *await asyncio.create_task(asyncio.to_thread(ways))])


async def send(text: str, *, spy: Spy) -> Reached:
    found = [*ways(), *await spy.pry(text), *ways()]
    return Reached(reached=[*found, *(await asyncio.gather(spy.pry(text), spy.pry(text)))[1]])


spying = Graph("spying", state=Tried, entry=pry, nodes=[node(pry, goes={Reached: END})], takes=["text"], gives="reached")
sending = Graph("sending", state=Tried, entry=send, nodes=[node(send, goes={Reached: END})], takes=["text"], gives="reached")


async def test_a_node_of_an_inner_graph_cannot_reach_around_its_contract(engine: EngineName):
    result = await Interlock(Settings(engine=engine), grants={Spy: Subgraph(spying)}).run(sending, "x")
    assert (result.error, result.output) == (None, [])


async def test_an_inner_graph_has_nothing_of_what_langgraph_gives_the_outer_one(engine: EngineName):
    saver, thread = InMemorySaver(), {"configurable": {"thread_id": "1"}}
    interlock = Interlock(Settings(engine=engine), grants={Spy: Subgraph(spying)})
    compiled: Any = interlock.langgraph(sending, checkpointer=saver, store=InMemoryStore())
    assert await compiled.ainvoke({"text": "x"}, thread) == {"text": "x", "reached": []}
    assert {key[1] for key in saver.writes} <= {""}
    assert set(saver.storage["1"]) == {""}


async def test_checkpoints_are_of_the_outer_graph_alone(engine: EngineName):
    saver, thread = InMemorySaver(), {"configurable": {"thread_id": "1"}}
    compiled: Any = app(engine).langgraph(work, checkpointer=saver)
    for text in ("x", "y"):
        state = await compiled.ainvoke({"text": text}, thread)
        assert state["out"] == f"{CANARY}-2 found"
    history = [one async for one in compiled.aget_state_history(thread)]
    assert {name for one in history for name in one.values} == {"text", "size", "out"}
    assert {following for one in history for following in one.next} == {"__start__", "enter", "say"}
    assert set(saver.storage["1"]) == {""}
    assert "look" not in str(saver.storage)
    assert [one.metadata["step"] for one in reversed(history)] == [-1, 0, 1, 2, 3, 4, 5, 6]


async def test_a_step_that_langgraph_drives_has_the_errors_of_inner_graphs_with_their_place(engine: EngineName):
    with pytest.raises(InterlockError) as caught:
        await app(engine).langgraph(work).ainvoke({"text": "late"})
    assert (caught.value.code, getattr(caught.value, "node", None)) == ("node_failed", "enter/measure")
