"""What LangGraph's own streams show of the calls inside a node, where LangGraph alone drives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager
from langchain_core.messages import AIMessage, AIMessageChunk, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.graph import END as STOP
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, node
from interlock.capabilities import Chunk, Message, Model, Progress, Tool, ToolCall, ToolGateway, ToolRequest, ToolResult, Usage
from interlock.capabilities.capability import emits
from interlock.engine import langchain_callbacks
from interlock.engine.langchain_callbacks import Callbacks
from interlock.errors import CapabilityError, InputError, InputTooLarge, ModelUnavailable, NodeFailed, ToolDenied, TurnError
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest, ModelResponse
from interlock_agents.sam.testing import ScriptedBackend
from tests.support.desk import Store, add, calls, new_session, plan, said

SOON = 20
"""Seconds after which something that should happen at once is taken not to happen."""
KEY = "sk-Xq7ZvKXq7ZvKXq7ZvK"
HELLO = {"question": "hello"}


class Talk(TypedDict, total=False):
    question: str
    found: str
    answer: str


class Found(Outcome):
    found: str


class Answered(Outcome):
    answer: str


async def look_up(question: str, *, tools: ToolGateway, progress: Progress) -> Found:
    await progress.emit("looking", {"for": question})
    result = await tools.run("shop", ToolRequest(tool="stock.query", args={"query": question}))
    return Found(found=str(result.result))


async def speak(question: str, found: str, *, model: Model) -> Answered:
    messages = [Message(role="system", text="Be brief."), Message(role="user", text=question)]
    text = [piece.text async for piece in model.stream(messages)]
    return Answered(answer="".join(text))


talk = Graph(
    "talk",
    state=Talk,
    entry=look_up,
    nodes=[node(look_up, goes={Found: speak}), node(speak, goes={Answered: END})],
    takes=["question"],
    gives="answer",
)


class Speaker(ScriptedBackend):
    """A model that says its pieces one by one, and then waits, for ever if it has to."""

    def __init__(self, *pieces: Chunk | str | Exception, waits: bool = False) -> None:
        super().__init__(list(pieces))
        self.waits = waits
        self.stopped = asyncio.Event()

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        try:
            async for piece in super().stream(messages, tools=tools):
                yield piece
                await asyncio.sleep(0)
            if self.waits:
                await asyncio.Event().wait()
        finally:
            self.stopped.set()


class Shop:
    """A gateway to one tool."""

    def __init__(self, result: Any = "three", error: Exception | None = None) -> None:
        self.result = result
        self.error = error

    async def run(self, specialist: str, request: ToolRequest) -> ToolResult:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return ToolResult(tool=request.tool, result=self.result)


class Quiet:
    async def emit(self, name: str, data: dict[str, Any]) -> None:
        pass


def compiled(model: object | None = None, shop: Shop | None = None, checkpointer: Any = None) -> Any:
    grants = {Model: model or Speaker("It is ", "three."), ToolGateway: shop or Shop(), Progress: Quiet()}
    return Interlock(grants=grants).langgraph(talk, checkpointer=checkpointer)


async def native_events(graph: Any, given: Any, *arguments: Any) -> list[Any]:
    async with asyncio.timeout(SOON):
        return [event async for event in graph.astream_events(given, *arguments, version="v2")]


async def until_raised(graph: Any, *arguments: Any) -> tuple[list[Any], TurnError]:
    """The events of a run that fails, and what it raises."""
    events: list[Any] = []
    try:
        async for event in graph.astream_events(*arguments, version="v2"):
            events.append(event)  # noqa: PERF401 - those that come before the error
    except TurnError as error:
        return events, error
    raise AssertionError


def inside(events: list[Any]) -> list[Any]:
    """The events that are not LangGraph's own."""
    return [event for event in events if not event["event"].startswith("on_chain")]


def names(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["event"], event["name"]) for event in events]


class Listener(AsyncCallbackHandler):
    """Hears what a handler of LangChain's hears, and takes its time."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.ended = asyncio.Event()
        self.hung = asyncio.Event()
        self._hangs = hangs

    async def _hear(self, what: str, value: Any) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        self.heard.append((what, value))

    async def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.heard.append(("chain_end", None))

    async def on_chat_model_start(self, serialized: dict[str, Any], messages: Any, **kwargs: Any) -> None:
        await self._hear("start", serialized["name"])

    async def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        if self._hangs:
            self.hung.set()
            await asyncio.Event().wait()
        await self._hear("token", token)

    async def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        await self._hear("end", response.generations[0][0].message.content)

    async def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        await self._hear("error", error)
        self.ended.set()

    async def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        await self._hear("tool_error", error)

    def of(self, *kinds: str) -> list[Any]:
        return [value for what, value in self.heard if what in kinds]


async def test_a_call_of_a_model_is_inside_the_run_of_its_node():
    graph = Interlock(grants={ModelBackend: ScriptedBackend("hi there")}).langgraph("sam")
    events = await native_events(graph, {"raw_input": "hello"})
    begun, ended = inside(events)
    assert names([begun, ended]) == [(f"on_chat_model_{moment}", "ModelBackend.generate") for moment in ("start", "end")]
    assert begun["data"]["input"] == {"messages": [[HumanMessage("hello")]]}
    assert ended["data"]["output"].content == "hi there"
    root = events[0]
    (run,) = [event for event in events if event["event"] == "on_chain_start" and event["name"] == "model_call_node"]
    assert begun["parent_ids"] == ended["parent_ids"] == [root["run_id"], run["run_id"]]
    assert begun["run_id"] == ended["run_id"]
    assert begun["run_id"] not in {root["run_id"], run["run_id"]}
    assert begun["metadata"].items() >= run["metadata"].items()
    assert (begun["metadata"]["langgraph_node"], begun["metadata"]["interlock_node"]) == ("model_call_node", "model_call_node")
    (closed,) = [event for event in events if event["event"] == "on_chain_end" and event["run_id"] == run["run_id"]]
    assert [event["run_id"] for event in sorted((closed, begun, ended, run), key=events.index)] == [
        *(run["run_id"], begun["run_id"], begun["run_id"], run["run_id"])
    ]


async def test_every_node_is_reported_once():
    events = await native_events(compiled(), HELLO)
    begun = [event["name"] for event in events if event["event"] == "on_chain_start"]
    assert begun == ["talk", "look_up", "speak"]


async def test_tools_progress_and_tokens_come_in_the_order_in_which_they_happen():
    events = inside(await native_events(compiled(), HELLO))
    assert [event["event"] for event in events] == [
        "on_custom_event",
        "on_tool_start",
        "on_tool_end",
        "on_chat_model_start",
        "on_chat_model_stream",
        "on_chat_model_stream",
        "on_chat_model_end",
    ]
    custom, begun, ended, asked, *pieces, answered = events
    assert (custom["name"], custom["data"]) == ("looking", {"for": "hello"})
    assert (custom["metadata"]["langgraph_node"], custom["run_id"]) == ("look_up", begun["parent_ids"][-1])
    assert (begun["name"], begun["data"]["input"]) == ("stock.query", {"query": "hello"})
    assert (ended["name"], ended["run_id"]) == (begun["name"], begun["run_id"])
    assert (ended["data"]["input"], ended["data"]["output"]["result"]) == ({"query": "hello"}, "three")
    assert asked["data"]["input"]["messages"] == [[SystemMessage("Be brief."), HumanMessage("hello")]]
    assert {event["metadata"]["langgraph_node"] for event in (asked, *pieces, answered)} == {"speak"}
    chunks = [piece["data"]["chunk"] for piece in pieces]
    assert all(type(chunk) is AIMessageChunk for chunk in chunks)
    assert [chunk.content for chunk in chunks] == ["It is ", "three."]
    whole = answered["data"]["output"]
    assert (type(whole), whole.content) == (AIMessage, "It is three.")
    assert {chunk.id for chunk in chunks} == {whole.id}


async def test_what_comes_with_a_reply_comes_with_its_message():
    wanted = ToolCall(id="call-1", name="stock.query", arguments={"query": "oak"})
    other = ToolCall(id="call-2", name="stock.query", arguments={})
    usage = Usage(input_tokens=7, output_tokens=5)
    model = Speaker("Let me see.", Chunk(calls=(wanted,)), Chunk(calls=(other,), model="tiny", usage=usage))
    *_, one, two, three, answered = inside(await native_events(compiled(model), HELLO))
    whole = answered["data"]["output"]
    assert [part["index"] for piece in (two, three) for part in piece["data"]["chunk"].tool_call_chunks] == [0, 1]
    added = one["data"]["chunk"] + two["data"]["chunk"] + three["data"]["chunk"]
    for message in (whole, added):
        assert message.content == "Let me see."
        assert [(call["id"], call["name"], call["args"]) for call in message.tool_calls] == [
            ("call-1", "stock.query", {"query": "oak"}),
            ("call-2", "stock.query", {}),
        ]
        assert message.usage_metadata == {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    assert whole.response_metadata == {"model_name": "tiny"}


async def test_a_number_too_long_to_be_written_does_not_end_a_run_that_is_listened_to():
    model = Speaker("Well.", Chunk(calls=(ToolCall(id="1", name="count", arguments={"to": 10**5000}),)))
    events = await native_events(compiled(model), HELLO)
    assert events[-1]["data"]["output"]["answer"] == "Well."
    assert inside(events)[-1]["data"]["output"].tool_calls[0]["args"] == {"to": 10**5000}


async def test_the_first_token_comes_while_the_model_still_speaks():
    model = Speaker("It", waits=True)
    before = asyncio.all_tasks()
    async with asyncio.timeout(SOON), aclosing(compiled(model).astream_events(HELLO, version="v2")) as stream:
        async for event in stream:
            if event["event"] == "on_chat_model_stream":
                assert event["data"]["chunk"].content == "It"
                assert not model.stopped.is_set()
                break
    assert model.stopped.is_set()
    assert asyncio.all_tasks() == before


async def test_tokens_are_messages_of_the_stream_of_messages():
    model = Speaker("It", waits=True)
    async with asyncio.timeout(SOON), aclosing(compiled(model).astream(HELLO, stream_mode="messages")) as stream:
        chunk, metadata = await anext(stream)
        assert not model.stopped.is_set()
    assert (type(chunk), chunk.content, metadata["langgraph_node"]) == (AIMessageChunk, "It", "speak")


async def test_a_message_is_not_repeated_when_its_tokens_were_heard():
    messages: list[Any] = [part async for part in compiled().astream(HELLO, stream_mode="messages")]
    assert [(type(message), message.content) for message, _ in messages] == [(AIMessageChunk, "It is "), (AIMessageChunk, "three.")]
    graph = Interlock(grants={ModelBackend: ScriptedBackend("hi there")}).langgraph("sam")
    messages = [part async for part in graph.astream({"raw_input": "hello"}, stream_mode="messages")]
    assert [(type(message), message.content) for message, _ in messages] == [(AIMessage, "hi there")]


async def test_tools_are_heard_in_the_stream_of_tools():
    told = [part async for part in compiled().astream(HELLO, stream_mode="tools")]
    assert [part["event"] for part in told] == ["tool-started", "tool-finished"]
    assert told[0]["tool_name"] == "stock.query"


async def test_the_pieces_that_an_adapter_tells_ahead_of_its_answer_are_heard():
    class Telling:
        async def generate(self, request: ModelRequest, *, on_chunk: Callable[[str], None] | None = None) -> ModelResponse:
            if on_chunk is not None:
                on_chunk("Good ")
                on_chunk("morning.")
            return ModelResponse(status="success", output="Good morning.", metadata={"input_tokens": 1, "output_tokens": 2})

    graph = Interlock(grants={ModelBackend: Telling()}).langgraph("sam")
    _, *pieces, answered = inside(await native_events(graph, {"raw_input": "hello"}))
    assert [piece["data"]["chunk"].content for piece in pieces] == ["Good ", "morning."]
    assert answered["data"]["output"].usage_metadata["total_tokens"] == 3


async def test_secrets_are_taken_out_of_what_is_passed_on():
    model = Speaker("The key is ", KEY[:9], f"{KEY[9:]}. Keep it.")
    listener = Listener()
    graph = compiled(model, Shop({"key": KEY}))
    events = inside(await native_events(graph, {"question": f"What is {KEY}?"}, {"callbacks": [listener]}))
    assert len(events) >= 7
    assert [event for event in events if KEY in repr(event) or KEY[4:9] in repr(event)] == []
    pieces = [event["data"]["chunk"].content for event in events if event["event"] == "on_chat_model_stream"]
    assert "".join(pieces) == "The key is [redacted]. Keep it."
    assert KEY not in repr(listener.heard)
    (tool,) = [event for event in events if event["event"] == "on_tool_end"]
    assert tool["data"]["output"]["result"] == {"key": "[redacted]"}
    assert tool["data"]["input"] == {"query": "What is [redacted]?"}


async def test_secrets_are_taken_out_of_errors_that_are_passed_on():
    listener = Listener()
    graph = compiled(shop=Shop(error=ToolDenied(f"No tool for {KEY}.")))
    told, raised = await until_raised(graph, HELLO, {"callbacks": [listener]})
    assert type(raised) is ToolDenied
    (failed,) = [event for event in told if event["event"] == "on_tool_error"]
    assert type(failed["data"]["error"]) is ToolDenied
    assert str(failed["data"]["error"]) == "No tool for [redacted]."
    assert failed["data"]["error"].__cause__ is failed["data"]["error"].__context__ is None
    assert [str(error) for error in listener.of("tool_error")] == ["No tool for [redacted]."]


async def test_a_model_that_fails_is_heard_by_handlers_and_the_typed_error_is_raised():
    class Odd(CapabilityError):
        code = "odd"

        def __init__(self, one: str, two: str) -> None:
            super().__init__(one + two)

    for error, kind in ((ModelUnavailable("Gone."), ModelUnavailable), (Odd("O", "dd."), Odd), (OSError("x"), CapabilityError)):
        listener = Listener()
        told, raised = await until_raised(compiled(Speaker("It", error)), HELLO, {"callbacks": [listener]})
        assert (type(raised), raised.node) == (kind, "speak")
        assert names(inside(told))[-2:] == [("on_chat_model_start", "Model.stream"), ("on_chat_model_stream", "Model.stream")]
        (heard,) = listener.of("error")
        assert (type(heard), heard.code) == (kind, kind.code)


async def test_a_node_that_fails_after_its_calls_has_reported_them():
    async def stumble(question: str, *, model: Model) -> Answered:
        await model.reply([Message(role="user", text=question)])
        raise RuntimeError

    graph = Graph("stumbling", state=Talk, entry=stumble, nodes=[node(stumble, goes={Answered: END})], takes=["question"])
    listener = Listener()
    with pytest.raises(NodeFailed):
        await Interlock(grants={Model: ScriptedBackend("Well.")}).langgraph(graph).ainvoke(HELLO, {"callbacks": [listener]})
    assert listener.of("start", "end") == ["Model.reply", "Well."]


async def test_a_node_ends_when_everything_was_heard():
    listener = Listener()
    await compiled(Speaker(*["word "] * 8)).ainvoke(HELLO, {"callbacks": [listener]})
    kinds = [what for what, _ in listener.heard]
    assert kinds == ["chain_end", "start", *["token"] * 8, "end", "chain_end", "chain_end"]
    assert "".join(listener.of("token")) == "word " * 8


async def test_concurrent_calls_of_a_node_have_different_run_ids():
    async def both(question: str, *, model: Model) -> Answered:
        async def ask(text: str) -> str:
            return "".join([piece.text async for piece in model.stream([Message(role="user", text=text)])])

        return Answered(answer="|".join(await asyncio.gather(ask("a"), ask("b"))))

    class Echo(ScriptedBackend):
        async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
            for number in range(3):
                await asyncio.sleep(0)
                yield Chunk(text=f"{messages[0].text}{number}")

    graph = Graph("both", state=Talk, entry=both, nodes=[node(both, goes={Answered: END})], takes=["question"], gives="answer")
    events = inside(await native_events(Interlock(grants={Model: Echo()}).langgraph(graph), HELLO))
    runs: dict[str, list[str]] = {}
    for event in events:
        if event["event"] == "on_chat_model_stream":
            runs.setdefault(event["run_id"], []).append(event["data"]["chunk"].content)
    assert sorted(runs.values()) == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]
    assert {event["run_id"] for event in events} == runs.keys()
    ends = {event["run_id"]: event["data"]["output"].content for event in events if event["event"] == "on_chat_model_end"}
    assert ends == {run: "".join(pieces) for run, pieces in runs.items()}


async def test_runs_that_are_listened_to_at_once_do_not_mix():
    class Mirror(ScriptedBackend):
        async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
            for _ in range(5):
                await asyncio.sleep(0)
                yield Chunk(text=f"{messages[-1].text};")

    graph = compiled(Mirror())
    heard = await asyncio.gather(*(native_events(graph, {"question": f"q{number}"}) for number in range(20)))
    runs = [{event["run_id"] for event in inside(events)} for events in heard]
    assert len({run for one in runs for run in one}) == sum(map(len, runs)) == 60
    for number, events in enumerate(heard):
        mine = inside(events)
        assert [event["data"]["chunk"].content for event in mine if event["event"] == "on_chat_model_stream"] == [f"q{number};"] * 5
        assert mine[0]["data"] == {"for": f"q{number}"}
        assert {event["parent_ids"][0] for event in mine if event["event"] != "on_custom_event"} == {events[0]["run_id"]}


async def test_each_turn_of_a_thread_has_events_of_its_own():
    thread = {"configurable": {"thread_id": "one"}}
    graph = compiled(ScriptedBackend("first", "second"), checkpointer=InMemorySaver())
    turns = [inside(await native_events(graph, {"question": text}, thread)) for text in ("a", "b")]
    assert [turn[-1]["data"]["output"].content for turn in turns] == ["first", "second"]
    assert not {event["run_id"] for event in turns[0]} & {event["run_id"] for event in turns[1]}
    assert (await graph.aget_state(thread)).values["answer"] == "second"


async def test_a_consumer_who_is_cancelled_stops_the_model_and_leaves_nothing_running():
    model, listener = Speaker("It", waits=True), Listener()
    first = asyncio.Event()
    before = asyncio.all_tasks()

    async def read() -> None:
        async with aclosing(compiled(model).astream_events(HELLO, {"callbacks": [listener]}, version="v2")) as stream:
            async for event in stream:
                if event["event"] == "on_chat_model_stream":
                    first.set()

    reader = asyncio.create_task(read())
    async with asyncio.timeout(SOON):
        await first.wait()
        reader.cancel()
        await asyncio.wait([reader])
    assert reader.cancelled()
    assert model.stopped.is_set()
    assert [type(error) for error in listener.of("error")] == [asyncio.CancelledError]
    assert asyncio.all_tasks() == before


async def test_a_run_that_is_cancelled_does_not_wait_for_ever_for_a_handler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(langchain_callbacks, "_FLUSH_SECONDS", 0.01)
    listener = Listener(hangs=True)
    before = asyncio.all_tasks()
    run = asyncio.create_task(compiled(Speaker("It", waits=True)).ainvoke(HELLO, {"callbacks": [listener]}))
    async with asyncio.timeout(SOON):
        await listener.hung.wait()
        run.cancel()
        await asyncio.wait([run])
    assert run.cancelled()
    assert asyncio.all_tasks() == before


async def test_a_run_that_waits_for_a_handler_can_be_cancelled():
    listener, model = Listener(hangs=True), Speaker("It")
    before = asyncio.all_tasks()
    run = asyncio.create_task(compiled(model).ainvoke(HELLO, {"callbacks": [listener]}))
    async with asyncio.timeout(SOON):
        await asyncio.gather(listener.hung.wait(), model.stopped.wait())
        for _ in range(20):  # until the node has ended, and only the handler is waited for
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait([run])
    assert run.cancelled()
    assert asyncio.all_tasks() == before


class Raising(AsyncCallbackHandler):
    def __init__(self, *, is_raised: bool) -> None:
        self.raise_error = is_raised

    async def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        raise LookupError(token)


async def test_a_handler_that_fails_disturbs_the_turn_only_if_it_asks_to():
    state = await compiled().ainvoke(HELLO, {"callbacks": [Raising(is_raised=False)]})
    assert state["answer"] == "It is three."
    with pytest.raises(LookupError, match="It is"):
        await compiled().ainvoke(HELLO, {"callbacks": [Raising(is_raised=True)]})
    with pytest.raises(ModelUnavailable):  # of the two, the node's own
        await compiled(Speaker("It", ModelUnavailable())).ainvoke(HELLO, {"callbacks": [Raising(is_raised=True)]})


class Curious:
    """A model that takes note of whether anybody listens."""

    def __init__(self) -> None:
        self.heard: list[bool] = []

    async def generate(self, request: ModelRequest, *, on_chunk: Callable[[str], None] | None = None) -> ModelResponse:
        self.heard.append(on_chunk is not None)
        return ModelResponse(status="success", output="hi")


async def test_a_run_without_listeners_emits_nothing():
    model = Curious()
    graph = Interlock(grants={ModelBackend: model}).langgraph("sam")
    await graph.ainvoke({"raw_input": "hello"})
    await native_events(graph, {"raw_input": "hello"})
    assert model.heard == [False, True]


async def test_a_turn_tells_nothing_to_callbacks():
    listener = Listener()
    app = Interlock(Settings(engine="langgraph"), grants={Model: Speaker("It"), ToolGateway: Shop(), Progress: Quiet()})
    events: list[Any] = []

    async def turn(text: str) -> Any:
        return await app.run(talk, text, on_event=events.append)

    result = await RunnableLambda(turn).ainvoke("hello", {"callbacks": [listener]})
    assert result.output == "It"
    assert listener.of("start", "token", "end") == []
    assert [event["event"] for event in events].count("on_chat_model_start") == 1


async def test_a_node_that_is_listened_to_finds_nothing_of_langgraphs_around_it():
    async def peek(question: str, *, model: Model) -> Answered:
        await model.reply([Message(role="user", text=question)])
        with pytest.raises(RuntimeError):
            get_config()
        return Answered(answer="nothing")

    class Ambient(AsyncCallbackHandler):
        found: Any = None

        async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            self.found = get_config().get("metadata", {}).get("langgraph_node")

    handler = Ambient()
    graph = Graph("peeking", state=Talk, entry=peek, nodes=[node(peek, goes={Answered: END})], takes=["question"], gives="answer")
    state = await Interlock(grants={Model: ScriptedBackend("hi")}).langgraph(graph).ainvoke(HELLO, {"callbacks": [handler]})
    assert state["answer"] == "nothing"
    assert handler.found == "peek"


@dataclass
class Whose:
    user: str


async def test_a_graph_inside_an_outer_graph_with_a_context_is_reported():
    builder = StateGraph(Talk, context_schema=Whose)
    builder.add_node("mine", compiled())
    builder.add_edge(START, "mine")
    builder.add_edge("mine", STOP)
    graph: Any = builder.compile()
    events = [event async for event in graph.astream_events(HELLO, context=Whose("a"), version="v2")]
    assert [event["metadata"]["langgraph_node"] for event in inside(events)] == ["look_up"] * 3 + ["speak"] * 4
    assert events[-1]["data"]["output"]["answer"] == "It is three."


class Sums(Capability, Protocol):
    @emits("tool")
    async def add(self, one: int, two: int) -> int: ...

    @emits("chat_model")
    async def explain(self, numbers: dict[str, int]) -> str: ...


async def test_what_a_capability_of_ones_own_shows_is_heard():
    class Adder:
        async def add(self, one: int, two: int) -> int:
            return one + two

        async def explain(self, numbers: dict[str, int]) -> str:
            return "One after the other."

    async def reckon(question: str, *, sums: Sums) -> Answered:
        return Answered(answer=f"{await sums.add(1, 2)}: {await sums.explain({'one': 1})}")

    graph = Graph("reckoning", state=Talk, entry=reckon, nodes=[node(reckon, goes={Answered: END})], takes=["question"])
    begun, ended, asked, answered = inside(await native_events(Interlock(grants={Sums: Adder()}).langgraph(graph), HELLO))
    assert names([begun, ended, asked, answered]) == [
        ("on_tool_start", "Sums.add"),
        ("on_tool_end", "Sums.add"),
        ("on_chat_model_start", "Sums.explain"),
        ("on_chat_model_end", "Sums.explain"),
    ]
    assert begun["data"]["input"] == {"arguments": [1, 2]}
    assert ended["data"]["output"] == 3
    assert asked["data"]["input"]["messages"] == [[HumanMessage('{"one": 1}')]]
    assert answered["data"]["output"].content == "One after the other."


async def test_a_conversation_is_passed_on_as_langchains_messages():
    call = ToolCall(id="1", name="stock.query", arguments={"query": "oak"})
    spoken = (
        Message(role="user", text="See:", images=("data:image/png;base64,AA==",)),
        Message(role="assistant", calls=(call,)),
        Message(role="tool", text="none", answers="1"),
    )

    async def ask(question: str, *, model: Model) -> Answered:
        return Answered(answer=(await model.reply(spoken)).text)

    graph = Graph("asking", state=Talk, entry=ask, nodes=[node(ask, goes={Answered: END})], takes=["question"])
    asked, _ = inside(await native_events(Interlock(grants={Model: ScriptedBackend("hi")}).langgraph(graph), HELLO))
    image: list[str | dict[Any, Any]] = [
        {"type": "text", "text": "See:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]
    assert asked["data"]["input"]["messages"] == [
        [
            HumanMessage(image),
            AIMessage("", tool_calls=[{"id": "1", "name": "stock.query", "args": {"query": "oak"}, "type": "tool_call"}]),
            ToolMessage("none", tool_call_id="1"),
        ]
    ]


async def test_calls_inside_inner_graphs_are_heard_under_the_outer_node(tmp_path: Path):
    store = Store(tmp_path)
    await store.start()
    try:
        async with store.app("langgraph", plan(), calls(add("2 + 3")), said("It is 5.")) as app:
            events = await native_events(app.langgraph("desk"), {"session_id": new_session(), "text": "What is 2 + 3?"})
    finally:
        await store.close()
    runs = {event["run_id"]: event["name"] for event in events if event["event"] == "on_chain_start"}
    asked = [event for event in inside(events) if event["event"] in ("on_chat_model_start", "on_tool_start")]
    assert [(event["metadata"]["langgraph_node"], event["metadata"]["interlock_node"]) for event in asked] == [
        ("plan_goal", "plan_goal/model"),
        ("dispatch_specialist", "dispatch_specialist/tool_path/model"),
        ("dispatch_specialist", "dispatch_specialist"),
        ("dispatch_specialist", "dispatch_specialist/structured_path/model"),
    ]
    assert [[runs[parent] for parent in event["parent_ids"]] for event in asked] == [
        ["orchestrator.handle_message", event["metadata"]["langgraph_node"]] for event in asked
    ]
    said_last = [event["data"]["output"].content for event in inside(events) if event["event"] == "on_chat_model_end"][-1]
    assert json.loads(said_last)["message"] == "It is 5."


async def heard_messages(*events: dict[str, Any]) -> list[Any]:
    """What a handler is told of a model that is asked something and fails."""
    heard: list[Any] = []

    class Ear(AsyncCallbackHandler):
        raise_error = True

        async def on_chat_model_start(self, serialized: dict[str, Any], messages: Any, **kwargs: Any) -> None:
            heard.extend(messages[0])

        async def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
            heard.append(error)

    async with Callbacks(AsyncCallbackManager(handlers=[Ear()])) as callbacks:
        for event in events:
            callbacks.queue({"name": "n", "run_id": "r", "metadata": {"langgraph_node": "n"}, **event})
    return heard


async def test_an_unknown_role_and_a_missing_text_are_passed_on():
    said = [{"role": "referee", "text": "offside"}, {"role": "user", "text": None}]
    heard = await heard_messages({"event": "on_chat_model_start", "data": {"input": [said]}})
    assert heard == [ChatMessage(content="offside", role="referee"), HumanMessage("")]


async def test_an_error_is_reported_with_its_class():
    *_, error = await heard_messages(
        {"event": "on_chat_model_start", "data": {"input": "hello"}},
        {"event": "on_chat_model_error", "data": {"error": {"code": InputTooLarge.code, "message": "It is too much."}}},
    )
    assert isinstance(error, InputError)
    assert (error.code, error.message) == (InputTooLarge.code, "It is too much.")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "text", "images", "calls", "answers", "prompt", "context", "image", "arguments", "name", "id"])
            | st.sampled_from(["output", "value", "model", "usage", "metadata", "input_tokens", "output_tokens", "status"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(asked=JSON, piece=JSON, answer=JSON, is_model=st.booleans())
async def test_all_data_of_an_event_is_passed_on(*, asked: Any, piece: Any, answer: Any, is_model: bool):
    class Counting(AsyncCallbackHandler):
        raise_error = True

        def __init__(self) -> None:
            self.heard: list[str] = []

        async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            self.heard.append("on_chat_model_start")

        async def on_llm_new_token(self, *args: Any, **kwargs: Any) -> None:
            self.heard.append("on_chat_model_stream")

        async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            self.heard.append("on_chat_model_end")

        async def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
            self.heard.append("on_tool_start")

        async def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
            self.heard.append("on_tool_end")

    handler = Counting()
    callbacks = Callbacks(AsyncCallbackManager(handlers=[handler]))
    data = {"start": {"input": asked}, "stream": {"chunk": piece}, "end": {"output": answer}}
    told = [f"on_chat_model_{moment}" for moment in data] if is_model else ["on_tool_start", "on_tool_end"]
    async with callbacks:
        for event in told:
            what = data[event.rpartition("_")[2]]
            callbacks.queue({"event": event, "name": "n", "run_id": "r", "metadata": {"langgraph_node": "n"}, "data": what})
    assert handler.heard == told
