"""A canary is put wherever text can come from, and looked for wherever a turn tells of itself. It is never found."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, cast

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, InterlockError, Outcome, Secret, Settings, TurnResult, node
from interlock.capabilities import Chunk, Decision, Message, Model, ModelReply, Tool, ToolCall
from interlock.capabilities.capability import emits
from interlock.engine import EngineName
from interlock.errors import MediaMalformed
from interlock.logs import LogFormatter
from interlock.runtime.events import Event
from interlock.runtime.redaction import Redactor
from interlock.settings import PATTERNS
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest, ModelResponse
from tests.support.listening import chain, listening

# What looks like a key; a key of the settings that looks like nothing; a value of a field that is labelled Secret.
CANARIES = {"pattern": "sk-abcdefghijklmnopqrstuvwx", "key": "plain-Words-77", "label": "Canary_Xq7-ZvK"}

PLACES = (
    *("text", "note", "dict key", "nested", "session"),
    *("argument", "named argument", "secret argument", "secret result", "result", "result key"),
    *("model text", "model name", "call name", "call argument", "call argument key"),
    *("decision", "response", "response metadata"),
    *("streamed text", "streamed words", "streamed record"),
)
ENDS = (
    "well",
    *("node raises", "node raises with a cause", "node raises a key", "node raises a group", "wrong outcome"),
    *("adapter raises", "adapter raises typed", "stream breaks", "wrong result", "wrong piece"),
)


@dataclass(frozen=True)
class Plan:
    """Where the canary is put, how streams are cut, how it all ends."""

    canary: str
    places: frozenset[str]
    end: str
    cut: int

    def at(self, place: str) -> str:
        return f"<{self.canary}>" if place in self.places else f"<{place}>"

    def pieces(self, place: str) -> Iterator[str]:
        text = f"well, {self.at(place)} it is"
        return (text[at : at + self.cut] for at in range(0, len(text), self.cut))


class Fact(TypedDict):
    words: list[str]


class Answer(BaseModel):
    says: dict[str, str]


@dataclass(frozen=True)
class SearchHit:
    text: str


class Visit(TypedDict, total=False):
    text: str
    notes: list[str]
    facts: dict[str, Fact]
    token: Annotated[str, Secret]
    more: list[str]
    out: int


class Looked(Outcome):
    more: list[str]


class Done(Outcome):
    out: int


class Tools(Capability, Protocol):
    @emits("tool")
    async def find(self, words: str, *, options: dict[str, Any]) -> dict[str, list[str]]: ...
    async def hush(self, key: Annotated[str, Secret]) -> Annotated[str, Secret]: ...
    @emits("tool")
    def words(self) -> AsyncIterator[str]: ...
    @emits("tool")
    def chunks(self) -> AsyncIterator[SearchHit]: ...


class Planted:
    """Every capability at once, with the canary in what it gives."""

    @property
    def plan(self) -> Plan:
        return PLAN[-1]

    async def find(self, words: str, *, options: dict[str, Any]) -> dict[str, list[str]]:
        plan = self.plan
        if plan.end == "adapter raises":
            raise RuntimeError(plan.canary)
        if plan.end == "adapter raises typed":
            raise MediaMalformed(f"It is {plan.canary}.") from ValueError(plan.canary)
        if plan.end == "wrong result":
            return {plan.canary: plan.canary}  # pyright: ignore[reportReturnType]
        return {plan.at("result key"): [plan.at("result")]}

    async def hush(self, key: str) -> str:
        return self.plan.at("secret result")

    async def words(self) -> AsyncIterator[str]:
        for piece in self.plan.pieces("streamed words"):
            yield piece

    async def chunks(self) -> AsyncIterator[SearchHit]:
        yield SearchHit(self.plan.at("streamed record"))

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
        plan = self.plan
        call = ToolCall(id="1", name=plan.at("call name"), arguments={plan.at("call argument key"): [plan.at("call argument")]})
        return ModelReply(text=plan.at("model text"), calls=(call,), model=plan.at("model name"))

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncIterator[Chunk]:
        for piece in self.plan.pieces("streamed text"):
            yield Chunk(text=piece, model=self.plan.at("model name"))
        if self.plan.end == "stream breaks":
            raise ConnectionError(self.plan.canary)
        if self.plan.end == "wrong piece":
            yield self.plan.canary  # pyright: ignore[reportReturnType]

    async def decide(self, messages: Sequence[Message], *, schema: type[Any]) -> Any:
        return Decision(value=Answer(says={self.plan.at("decision"): self.plan.at("decision")}))

    async def generate(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(status="success", output=self.plan.at("response"), metadata={"note": self.plan.at("response metadata")})


async def look(text: str, notes: list[str], facts: dict[str, Fact], token: str | None, *, tools: Tools, model: Model) -> Looked:
    plan = PLAN[-1]
    found = await tools.find(plan.at("argument"), options={plan.at("named argument"): [plan.at("named argument")]})
    await tools.hush(plan.at("secret argument"))
    words = "".join([piece async for piece in tools.words()])
    said = "".join([piece.text async for piece in model.stream([Message(role="user", text=text)])])
    async for piece in model.stream([Message(role="user", text=text)]):
        said += piece.text
        break
    chunks = [chunk.text async for chunk in tools.chunks()]
    return Looked(more=[text, *notes, *facts, *found, words, said, *chunks])


async def speak(more: list[str], token: str | None, *, model: Model, backend: ModelBackend) -> Done:
    plan = PLAN[-1]
    reply = await model.reply([Message(role="user", text=more[0], calls=(ToolCall(id="1", name="f", arguments={"a": more[0]}),))])
    decision = await model.decide([Message(role="user", text=reply.text)], schema=Answer)
    response = await backend.generate(ModelRequest(prompt=reply.text, context=str(decision.value), constraints={"note": more[0]}))
    match plan.end:
        case "node raises":
            raise RuntimeError(f"{plan.canary} {response}")
        case "node raises with a cause":
            raise RuntimeError("It went wrong.") from ValueError(plan.canary)
        case "node raises a key":
            raise KeyError(plan.canary)
        case "node raises a group":
            raise ExceptionGroup("Two went wrong.", [ValueError(plan.canary), OSError(2, plan.canary, plan.canary)])
        case "wrong outcome":
            return Done(out=plan.canary)  # pyright: ignore[reportArgumentType]
        case _:
            return Done(out=1)


PLAN: list[Plan] = []
visit = Graph(
    "visit",
    state=Visit,
    entry=look,
    nodes=[node(look, goes={Looked: speak}), node(speak, goes={Done: END})],
    takes=["text", "notes", "facts", "token"],
    gives="out",
)


def given_for(plan: Plan) -> dict[str, Any]:
    facts = {plan.at("dict key"): {"words": [plan.at("nested")]}}
    token = {"token": CANARIES["label"]} if plan.canary == CANARIES["label"] else {}
    return {"text": plan.at("text"), "notes": [plan.at("note")], "facts": facts, **token}


@dataclass
class Seen:
    """Everything that a turn tells of itself, by where it tells it."""

    events: list[Event] = field(default_factory=list[Event])
    records: list[logging.LogRecord] = field(default_factory=list[logging.LogRecord])
    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    result: TurnResult | None = None
    raised: BaseException | None = None

    def sinks(self) -> dict[str, str]:
        lines = [LogFormatter(as_json=as_json, redactor=Redactor(PATTERNS)) for as_json in (True, False)]
        result = self.result
        return {
            "events": "\n".join(texts_of(self.events)),
            "streams": "\n".join(streamed(self.events)),
            "logs": "\n".join(
                [*(line.format(record) for record in self.records for line in lines), *(f"{record.__dict__}" for record in self.records)]
            ),
            "spans": "\n".join(span.to_json() for span in self.spans.get_finished_spans()),
            "error": "" if result is None else f"{result.error} {result!r}",
            "state": "" if result is None else json.dumps(result.to_json()["state"].get("token")),
            "exception": " ".join(f"{one} {one!r} {one.args} {vars(one)}" for one in chain(self.raised)),
        }


def texts_of(value: Any) -> Iterator[str]:
    """Find every text, those of keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in cast("dict[str, Any]", value).items():
            yield from texts_of(list(pair))
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from texts_of(item)


def streamed(events: list[Event]) -> Iterator[str]:
    """Put together again what was told in pieces, in one event or in several."""
    for run in dict.fromkeys(event["run_id"] for event in events):
        chunks = [event["data"]["chunk"] for event in events if event["run_id"] == run and "chunk" in event["data"]]
        yield "".join(chunk if isinstance(chunk, str) else chunk["text"] for chunk in chunks)
    for event in events:
        output = event["data"].get("output")
        if isinstance(output, list):
            yield "".join(texts_of(output))


@functools.cache
def app(engine: EngineName) -> Interlock:
    planted = Planted()
    configured = Settings(engine=engine, model_api_key=CANARIES["key"])  # pyright: ignore[reportArgumentType]
    return Interlock(configured, grants={Tools: planted, Model: planted, ModelBackend: planted})


@functools.cache
def compiled() -> Any:
    return app("langgraph").langgraph(visit)


def take(engine: EngineName, plan: Plan) -> Seen:
    seen = Seen()
    PLAN.append(plan)
    session = "".join(c for c in plan.at("session") if c.isalnum() or c in "-_")
    try:
        with listening(seen.records, seen.spans):
            seen.result = asyncio.run(app(engine).run(visit, given_for(plan), session=session, on_event=seen.events.append))
    finally:
        PLAN.pop()
    return seen


def take_by_langgraph(plan: Plan) -> Seen:
    """Let LangGraph alone run the graph: what a step raises reaches the caller as it is."""
    seen = Seen()
    PLAN.append(plan)
    try:
        with listening(seen.records, seen.spans):
            asyncio.run(compiled().ainvoke(given_for(plan)))
    except InterlockError as error:
        seen.raised = error
    finally:
        PLAN.pop()
    return seen


PLANS = st.builds(
    Plan,
    canary=st.sampled_from(sorted(CANARIES.values())),
    places=st.frozensets(st.sampled_from(PLACES), max_size=4) | st.just(frozenset(PLACES)),
    end=st.sampled_from(ENDS),
    cut=st.integers(min_value=1, max_value=40),
)


@pytest.mark.parametrize("sink", ["events", "streams", "logs", "spans", "error", "state"])
@settings(max_examples=25, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # a plan is short enough as it is
@given(plan=PLANS)
def test_a_canary_is_never_found(engine: EngineName, sink: str, plan: Plan):
    seen = take(engine, plan)
    assert plan.canary not in seen.sinks()[sink]
    assert seen.result is not None
    assert (seen.result.error is None) == (plan.end == "well")
    assert seen.result.error is None or seen.result.error.code != "internal"


@pytest.mark.parametrize("sink", ["logs", "spans", "exception"])
@settings(max_examples=25, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # a plan is short enough as it is
@given(plan=PLANS)
def test_a_canary_is_never_found_where_langgraph_runs_the_graph(sink: str, plan: Plan):
    seen = take_by_langgraph(plan)
    assert plan.canary not in seen.sinks()[sink]
    assert (seen.raised is None) == (plan.end == "well")


@pytest.mark.parametrize("canary", CANARIES.values(), ids=CANARIES)
@pytest.mark.parametrize("end", ENDS)
def test_a_canary_everywhere_at_once_is_found_nowhere(engine: EngineName, canary: str, end: str):
    plan = Plan(canary, frozenset(PLACES), end, cut=3)
    sinks = take(engine, plan).sinks()
    assert [sink for sink, text in sinks.items() if canary in text] == []


@pytest.mark.parametrize("place", PLACES)
def test_the_test_would_find_it(place: str):
    """What is put there does come out, where nothing is hidden: else the tests above would show nothing."""
    plan = Plan("just a word", frozenset([place]), "well", cut=100)
    seen = take("direct", plan)
    marks = {"secret argument", "secret result"}
    word = "justaword" if place == "session" else "just a word"
    assert (word in seen.sinks()["events"]) == (place not in marks)


@pytest.mark.parametrize(
    "end", [end for end in ENDS if "raises" in end and end not in {"adapter raises", "node raises with a cause", "node raises a group"}]
)
def test_the_test_would_find_it_in_an_error(end: str):
    assert "just a word" in take("direct", Plan("just a word", frozenset(), end, cut=100)).sinks()["error"]
