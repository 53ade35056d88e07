"""Spans: one for a turn, each of its nodes and each of its calls, whatever happens to them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any, Protocol

import pytest
from opentelemetry import trace
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Secret, Settings, node
from interlock import spans as observe
from interlock.capabilities import Chunk, Clock, Ids, Message, Model, ModelReply, Tool
from interlock.capabilities.capability import emits
from interlock.engine import EngineName
from interlock.errors import MediaMalformed
from interlock.runtime.events import Event
from interlock.testing import CountingIds, FixedClock, ScriptedModel
from tests.support.passing import ENOUGH, run_out
from tests.support.spans import Spans, spanned

CANARY = "canary-Xq7ZvK"


class Talk(TypedDict, total=False):
    text: str
    token: Annotated[str, Secret]
    when: str
    out: str


class Timed(Outcome):
    when: str


class Done(Outcome):
    out: str


class Web(Capability, Protocol):
    @emits("tool")
    async def get(self, address: str) -> str: ...


class RealWeb:
    def __init__(self, *, fails: Exception | None = None, waits: Callable[[], Awaitable[object]] | None = None) -> None:
        self._fails, self._waits = fails, waits

    async def get(self, address: str) -> str:
        with trace.get_tracer_provider().get_tracer("web").start_as_current_span("GET"):
            if self._waits:
                await self._waits()
            if self._fails:
                raise self._fails
            return address


async def tell_time(text: str, *, clock: Clock, ids: Ids) -> Timed:
    await ids.new()
    return Timed(when=(await clock.now()).isoformat())


async def speak(text: str, token: str | None, *, model: Model, web: Web) -> Done:
    words = [piece.text async for piece in model.stream([Message(role="user", text=text)])]
    return Done(out=await web.get("".join(words)))


async def both(text: str, *, web: Web) -> Done:
    return Done(out="".join(await asyncio.gather(web.get("a"), web.get("b"))))


talk = Graph("talk", state=Talk, entry=tell_time, nodes=[node(tell_time, goes={Timed: speak}), node(speak, goes={Done: END})])
single = Graph("single", state=Talk, entry=both, nodes=[node(both, goes={Done: END})])


def app(engine: EngineName, **options: Any) -> Interlock:
    web, model = options.pop("web", RealWeb()), options.pop("model", ScriptedModel("some words"))
    return Interlock(Settings(engine=engine, **options), grants={Web: web, Model: model, Clock: FixedClock(), Ids: CountingIds()})


async def test_a_turn_its_nodes_and_all_of_its_calls_have_a_span_each_in_their_places(engine: EngineName, spans: Spans):
    result = await app(engine).run(talk, {"text": "x"}, session="s")
    assert result.error is None
    assert dict(spans.parents()) == {
        "invoke_agent talk": None,
        "node tell_time": "invoke_agent talk",
        "call Ids.new": "node tell_time",
        "call Clock.now": "node tell_time",
        "node speak": "invoke_agent talk",
        "chat scripted": "node speak",
        "execute_tool Web.get": "node speak",
        "GET": "execute_tool Web.get",
    }
    assert spans.open == 0
    (turn,) = [span for span in spans.ended if span.name == "invoke_agent talk"]
    assert turn.attributes is not None
    assert (turn.attributes["interlock.session"], turn.attributes["interlock.turn"]) == ("s", "id-1")
    assert {span.status.status_code for span in spans.ended} == {trace.StatusCode.UNSET}


async def test_calls_made_at_once_have_their_own_spans(engine: EngineName, spans: Spans):
    await app(engine).run(single, {"text": "x"})
    assert [span.name for span in spans.ended].count("execute_tool Web.get") == 2
    calls = {span.context.span_id for span in spans.ended if span.name == "execute_tool Web.get" and span.context}
    assert {span.parent.span_id for span in spans.ended if span.name == "GET" and span.parent} == calls
    assert spans.open == 0


async def test_turns_at_once_do_not_mix_their_spans(engine: EngineName, spans: Spans):
    running = app(engine)
    await asyncio.gather(*(running.run(talk, {"text": "x"}) for _ in range(3)))
    by_trace: dict[int, list[str]] = {}
    for span in spans.ended:
        assert span.context is not None
        by_trace.setdefault(span.context.trace_id, []).append(span.name)
    assert [len(names) for names in by_trace.values()] == [8, 8, 8]


async def test_a_turn_is_inside_what_the_caller_traces(engine: EngineName, spans: Spans):
    with spans.provider.get_tracer("caller").start_as_current_span("request"):
        await app(engine).run(talk, {"text": "x"})
        assert trace.get_current_span().get_span_context().span_id in {span.parent.span_id for span in spans.ended if span.parent}
    assert dict(spans.parents())["invoke_agent talk"] == "request"


@pytest.mark.parametrize("error", [MediaMalformed("It is torn."), RuntimeError("hunter2")])
async def test_what_fails_has_a_span_that_says_so(engine: EngineName, spans: Spans, error: Exception):
    result = await app(engine, web=RealWeb(fails=error)).run(talk, {"text": "x"})
    assert result.error is not None
    failed = {span.name for span in spans.ended if span.status.status_code is trace.StatusCode.ERROR and span.name != "GET"}
    assert failed == {"invoke_agent talk", "node speak", "execute_tool Web.get"}
    for span in spans.ended:
        if span.name in failed:
            assert (span.attributes or {})["error.type"] == result.error.code
            assert "hunter2" not in (span.status.description or "")
    assert spans.open == 0


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("limits", [{"max_call_seconds": ENOUGH}, {"max_turn_seconds": ENOUGH}])
async def test_what_takes_too_long_has_a_span_that_ends(engine: EngineName, spans: Spans, limits: dict[str, float]):
    async with asyncio.timeout(20):
        result = await app(engine, web=RealWeb(waits=run_out), **limits).run(talk, {"text": "x"})
    assert result.error is not None
    assert spans.open == 0
    assert "execute_tool Web.get" in dict(spans.parents())


async def test_what_is_cancelled_has_a_span_that_ends(engine: EngineName, spans: Spans):
    for graph in (talk, single):
        task = asyncio.create_task(app(engine, web=RealWeb(waits=asyncio.Event().wait)).run(graph, {"text": "x"}))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert spans.open == 0


async def stop_early(text: str, *, model: Model, web: Web) -> Done:
    first, second = (model.stream([Message(role="user", text=text)]) for _ in range(2))
    said = (await anext(first)).text + (await anext(second)).text
    await first.aclose()  # pyright: ignore[reportAttributeAccessIssue]
    return Done(out=said + await web.get("x"))


async def test_streams_that_overlap_leave_the_context_as_it_was(engine: EngineName, spans: Spans, caplog: pytest.LogCaptureFixture):
    graph = Graph("early", state=Talk, entry=stop_early, nodes=[node(stop_early, goes={Done: END})])
    await app(engine).run(graph, {"text": "x"})
    assert spans.open == 0
    assert dict(spans.parents())["GET"] == "execute_tool Web.get"
    assert [record.getMessage() for record in caplog.records if record.name.startswith("opentelemetry")] == []


async def read_elsewhere(text: str, *, model: Model, web: Web) -> Done:
    stream = model.stream([Message(role="user", text=text)])

    async def read() -> str:
        return (await anext(stream)).text

    return Done(out=await asyncio.create_task(read()) + await asyncio.create_task(read()) + await web.get("x"))


async def test_a_stream_that_is_read_in_tasks_of_its_own_leaves_no_complaint(
    engine: EngineName, spans: Spans, caplog: pytest.LogCaptureFixture
):
    graph = Graph("early", state=Talk, entry=read_elsewhere, nodes=[node(read_elsewhere, goes={Done: END})])
    result = await app(engine).run(graph, {"text": "x"})
    assert result.error is None
    assert spans.open == 0
    assert [record.getMessage() for record in caplog.records if record.name.startswith("opentelemetry")] == []


async def events_of(engine: EngineName, **options: Any) -> bytes:
    events: list[Event] = []
    await app(engine, **options).run(talk, {"text": "x", "token": CANARY}, session="s", on_event=events.append)
    return json.dumps(events).encode()


@pytest.mark.parametrize("fails", [False, True])
async def test_events_are_the_same_to_the_byte_whether_there_are_spans_or_not(
    engine: EngineName,
    monkeypatch: pytest.MonkeyPatch,
    fails: bool,  # noqa: FBT001
):
    without = await events_of(engine, web=RealWeb(fails=MediaMalformed() if fails else None))
    with spanned() as made:
        assert await events_of(engine, web=RealWeb(fails=MediaMalformed() if fails else None)) == without
    assert made.ended


@pytest.mark.parametrize("word", ["error", "output", "code", "message", "node", "talk"])
async def test_a_secret_that_is_an_ordinary_word_does_not_break_the_turn(engine: EngineName, spans: Spans, word: str):
    result = await app(engine).run(talk, {"text": "x", "token": word})
    assert result.error is None
    assert spans.open == 0


class Leaky:
    """Puts the secret everywhere."""

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
        raise RuntimeError(CANARY)

    async def decide(self, messages: Sequence[Message], *, schema: type[Any]) -> Any:
        raise RuntimeError(CANARY)

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncIterator[Chunk]:
        yield Chunk(text=CANARY[:5], model=CANARY)
        raise MediaMalformed(f"It is {CANARY}.")


async def test_no_span_has_a_secret(engine: EngineName, spans: Spans):
    result = await app(engine, model=Leaky()).run(talk, {"text": CANARY, "token": CANARY}, session=CANARY)
    assert result.error is not None
    assert CANARY not in spans.text()
    assert spans.open == 0


async def test_steps_that_langgraph_takes_have_spans_too(spans: Spans):
    await app("langgraph").langgraph(talk).ainvoke({"text": "x"})
    assert {"node tell_time", "node speak", "execute_tool Web.get", "GET"} <= dict(spans.parents()).keys()
    assert dict(spans.parents())["execute_tool Web.get"] == "node speak"
    assert spans.open == 0


def test_nothing_is_traced_where_nothing_is_set_up():
    assert observe.span_observer() is None


def test_opentelemetry_is_not_loaded_where_it_is_not_set_up():
    """On the direct engine: LangSmith, which LangChain brings, loads it by itself."""
    program = """
        import asyncio, sys
        from interlock import Interlock, Settings
        result = asyncio.run(Interlock(Settings(engine="direct", model="stub")).run("sam", "hello"))
        assert result.error is None
        print(sorted(name for name in sys.modules if name.split(".")[0] == "opentelemetry"))
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"
