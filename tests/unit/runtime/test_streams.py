"""Results that come in pieces: as they come, checked, and let go of in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, TypedDict, cast

import pytest

from interlock import END, Capability, Graph, Interlock, InterlockError, Outcome, Secret, Settings, TurnResult, node
from interlock.capabilities import Chunk, Ids, Message, Model, Tool, ToolCall, Usage
from interlock.capabilities.capability import emits
from interlock.engine import ENGINES, EngineName
from interlock.errors import ContractViolation, MediaMalformed, ModelUnavailable
from interlock.grant_checks import gate_problems
from interlock.runtime.events import Event
from interlock.testing import CountingIds, ScriptedModel


class Talk(TypedDict, total=False):
    text: str
    out: str


class Done(Outcome):
    out: str


@dataclass(frozen=True)
class Row:
    number: int


class Tape(Capability, Protocol):
    @emits("tool")
    def play(self, text: str) -> AsyncIterator[str]: ...
    def rows(self, count: int) -> AsyncIterator[Row]: ...


@dataclass
class RealTape:
    """Plays what it has; what is callable is called, an exception raised."""

    has: Sequence[Any] = ("one ", "two ", "three")
    log: list[str] = field(default_factory=list[str])
    cleanup: Callable[[], Any] | None = None

    async def play(self, text: str) -> AsyncIterator[str]:
        self.log.append("opened")
        try:
            for piece in self.has:
                if isinstance(piece, Exception):
                    raise piece
                self.log.append(f"gave {piece}")
                yield piece
            self.log.append("ended")
        finally:
            self.log.append("closed")
            if self.cleanup is not None:
                await self.cleanup()

    async def rows(self, count: int) -> AsyncIterator[Row]:
        for number in range(count):
            yield Row(number) if number != 3 else {"number": number}  # pyright: ignore[reportReturnType]


def talk(*runs: Any) -> Graph:
    targets = [*runs[1:], END]
    rows = [node(run, goes={Done: to}) for run, to in zip(runs, targets, strict=True)]
    return Graph("talk", state=Talk, entry=runs[0], nodes=rows, takes=["text"], gives="out")


async def take(engine: EngineName, graph: Graph, tape: RealTape | None = None, **grants: Any) -> tuple[TurnResult, list[Event]]:
    events: list[Event] = []
    granted: dict[type, object] = {Tape: tape or RealTape(), Ids: CountingIds(), **({Model: grants["model"]} if grants else {})}
    async with asyncio.timeout(20):
        result = await Interlock(Settings(engine=engine), grants=granted).run(graph, "x", session="s", on_event=events.append)
    return result, events


def code(result: TurnResult) -> str | None:
    return None if result.error is None else result.error.code


async def listen(text: str, *, tape: Tape) -> Done:
    return Done(out="".join([piece async for piece in tape.play(text)]))


async def test_pieces_reach_the_node_in_order(engine: EngineName):
    tape = RealTape()
    result, _ = await take(engine, talk(listen), tape)
    assert (code(result), result.output) == (None, "one two three")
    assert tape.log == ["opened", "gave one ", "gave two ", "gave three", "ended", "closed"]


async def test_a_stream_that_has_ended_has_ended(engine: EngineName):
    async def listen_twice(text: str, *, tape: Tape) -> Done:
        stream = tape.play(text)
        first, second = [piece async for piece in stream], [piece async for piece in stream]
        return Done(out=f"{len(first)} {len(second)}")

    tape = RealTape()
    result, _ = await take(engine, talk(listen_twice), tape)
    assert (code(result), result.output, tape.log.count("opened")) == (None, "3 0", 1)


async def test_a_stream_that_was_closed_before_it_began_never_begins(engine: EngineName):
    async def change_ones_mind(text: str, *, tape: Tape) -> Done:
        stream = cast("AsyncGenerator[str]", tape.play(text))
        await stream.aclose()
        return Done(out="".join([piece async for piece in stream]))

    tape = RealTape()
    result, _ = await take(engine, talk(change_ones_mind), tape)
    assert (code(result), result.output, tape.log) == (None, "", [])


class Choir(Capability, Protocol):
    """Gives a model's pieces without being a model."""

    @emits("tool")
    def sing(self, text: str) -> AsyncIterator[Chunk]: ...
    @emits("tool")
    def whisper(self, text: str) -> AsyncIterator[Annotated[Chunk, Secret]]: ...


class RealChoir:
    async def sing(self, text: str) -> AsyncIterator[Chunk]:
        for word in ("la ", "lá ", "la"):
            yield Chunk(text=word)

    whisper = sing


async def sing(text: str, *, choir: Choir) -> Done:
    return Done(out="".join([piece.text async for piece in choir.sing(text)]))


async def whisper(text: str, *, choir: Choir) -> Done:
    return Done(out="".join([piece.text async for piece in choir.whisper(text)]))


@pytest.mark.parametrize(("run", "shown"), [(sing, "la lá la"), (whisper, "")])
async def test_pieces_of_text_that_no_model_said_are_emitted_unless_they_are_secret(engine: EngineName, run: Any, shown: str):
    events: list[Event] = []
    app = Interlock(Settings(engine=engine, max_output_bytes=1, max_tokens=1), grants={Choir: RealChoir()})
    result = await app.run(talk(run), "x", on_event=events.append)
    assert (code(result), result.output) == (None, "la lá la")
    assert "".join(event["data"]["chunk"]["text"] for event in events if event["event"] == "on_tool_stream") == shown


async def test_pieces_reach_node_and_listeners_as_they_come(engine: EngineName):
    log: list[str] = []

    class Slow(RealTape):
        async def play(self, text: str) -> AsyncIterator[str]:
            for piece in ("one ", "two "):
                log.append(f"made {piece}")
                yield piece
            log.append("ended")

    async def read(text: str, *, tape: Tape) -> Done:
        async for piece in tape.play(text):
            log.append(f"read {piece}")  # noqa: PERF401 - others write to it in between
        return Done(out="")

    def hear(event: Event) -> None:
        if event["event"] == "on_tool_stream":
            log.append(f"told {event['data']['chunk']['text']}")

    await Interlock(Settings(engine=engine, redact=()), grants={Tape: Slow()}).run(talk(read), "x", on_event=hear)
    assert log == ["made one ", "told one ", "read one ", "made two ", "told two ", "read two ", "ended"]


async def test_a_stream_of_events_shows_a_piece_before_the_model_has_finished(engine: EngineName):
    go_on = asyncio.Event()

    class Waiting(ScriptedModel):
        async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncIterator[Chunk]:  # pyright: ignore[reportIncompatibleMethodOverride]
            yield Chunk(text="first ")
            await go_on.wait()
            yield Chunk(text="second")

    seen: list[str] = []
    async with asyncio.timeout(20):
        async for event in Interlock(Settings(engine=engine), grants={Model: Waiting()}).stream(talk(ask), "x"):
            if event["event"] == "on_chat_model_stream":
                seen.append(event["data"]["chunk"]["text"])
                go_on.set()
    assert "".join(seen) == "first second"


async def ask(text: str, *, model: Model) -> Done:
    return Done(out="".join([piece.text async for piece in model.stream([Message(role="user", text=text)])]))


CALL = ToolCall(id="1", name="find", arguments={"words": ["a"]})
SCRIPT = [Chunk(text="Let me ", model="m"), Chunk(text="look"), Chunk(calls=(CALL,), usage=Usage(input_tokens=1, output_tokens=2))]


async def test_the_events_of_a_model_that_streams_are_well_formed(engine: EngineName):
    result, events = await take(engine, talk(ask), model=ScriptedModel(list(SCRIPT)))
    mine = [event for event in events if event["event"].startswith("on_chat_model")]
    assert code(result) is None
    assert [event["event"].removeprefix("on_chat_model_") for event in mine] == ["start", "stream", "stream", "stream", "end"]
    assert {event["run_id"] for event in mine} == {mine[0]["run_id"]}
    assert {event["name"] for event in mine} == {"Model.stream"}
    assert [event["data"]["chunk"]["text"] for event in mine[1:-1]] == ["Let me ", "look", ""]
    assert mine[-1]["data"]["output"] == {
        "text": "Let me look",
        "calls": [{"id": "1", "name": "find", "arguments": {"words": ["a"]}}],
        "model": "m",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    assert json.loads(json.dumps(events)) == events


async def test_of_a_piece_that_may_be_the_beginning_of_a_secret_nothing_is_emitted(engine: EngineName):
    events: list[Event] = []
    app = Interlock(Settings(engine=engine, redact=(r"ключ-\w+!",)), grants={Model: ScriptedModel(["ключ-", "пароль! да"])})
    result = await app.run(talk(ask), "x", on_event=events.append)
    assert (code(result), result.output) == (None, "ключ-пароль! да")
    assert [event["data"]["chunk"]["text"] for event in events if event["event"] == "on_chat_model_stream"] == ["[redacted] да"]


async def test_streams_are_emitted_the_same_on_every_engine():
    first, *others = [(await take(engine, talk(ask, listen), model=ScriptedModel(list(SCRIPT))))[1] for engine in ENGINES]
    assert all(other == first for other in others)


async def stop_early(text: str, *, tape: Tape) -> Done:
    async for piece in tape.play(text):
        return Done(out=piece)
    raise AssertionError


class After(Outcome):
    out: str


LOG: list[list[str]] = []


async def look_at_log(out: str) -> Done:
    return Done(out=LOG.pop()[-1])


@pytest.mark.parametrize("records", [False, True])
async def test_a_stream_that_is_left_early_is_let_go_of_before_the_next_node(engine: EngineName, records: bool, tmp_path: Any):  # noqa: FBT001
    tape = RealTape()
    LOG.append(tape.log)
    app = Interlock(Settings(engine=engine), grants={Tape: tape})
    result = await app.run(talk(stop_early, look_at_log), "x", record=tmp_path / "turn" if records else None)
    assert (code(result), result.output) == (None, "closed")
    assert tape.log == ["opened", "gave one ", "closed"]


async def test_a_stream_that_is_left_early_emits_its_end(engine: EngineName):
    _, events = await take(engine, talk(stop_early))
    assert [event["event"] for event in events] == [
        "on_chain_start", "on_chain_start", "on_tool_start", "on_tool_stream", "on_tool_end", "on_chain_end", "on_chain_end",
    ]  # fmt: skip


async def leave_open(text: str, *, tape: Tape) -> Done:
    streams = [tape.play(text) for _ in range(3)]
    return Done(out=await anext(streams[0]) + await anext(streams[1]))


async def test_streams_that_are_left_open_are_closed(engine: EngineName):
    tape = RealTape()
    result, _ = await take(engine, talk(leave_open), tape)
    assert (code(result), result.output) == (None, "one one ")
    assert (tape.log.count("opened"), tape.log.count("closed")) == (2, 2)


KEPT: list[Any] = []


async def keep(text: str, *, tape: Tape) -> Done:
    KEPT.append(tape.play(text))
    return Done(out="kept")


async def keep_begun(text: str, *, tape: Tape) -> Done:
    stream = tape.play(text)
    KEPT.append(stream)
    return Done(out=await anext(stream))


async def keep_handle(text: str, *, tape: Tape) -> Done:
    KEPT.append(tape)
    return Done(out="kept")


async def read_kept(out: str) -> Done:
    return Done(out=await anext(KEPT.pop()))


async def read_rest_of_kept(out: str) -> Done:
    return Done(out="".join([piece async for piece in KEPT.pop()]))


async def play_kept(out: str) -> Done:
    return Done(out="".join([piece async for piece in KEPT.pop().play("x")]))


@pytest.mark.parametrize(
    "runs",
    [(keep, read_kept), (keep_begun, read_kept), (keep, read_rest_of_kept), (keep_begun, read_rest_of_kept), (keep_handle, play_kept)],
)
async def test_a_stream_is_not_read_after_its_node_has_ended(engine: EngineName, runs: Any):
    """Least of all as if there were nothing more to come."""
    tape = RealTape()
    result, _ = await take(engine, talk(*runs), tape)
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("contract_violation", runs[1].__name__)
    assert tape.log.count("opened") == tape.log.count("closed")


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (RuntimeError("x"), "capability_failed"),
        (MediaMalformed(), "media_malformed"),
        (TimeoutError(), "capability_failed"),
        (StopIteration(), "capability_failed"),
        (StopAsyncIteration(), "capability_failed"),
    ],
)
@pytest.mark.parametrize("before", [0, 2])
async def test_an_adapter_that_breaks_off_is_typed(engine: EngineName, error: Exception, wanted: str, before: int):
    tape = RealTape([*["one ", "two "][:before], error])
    result, events = await take(engine, talk(listen), tape)
    assert (code(result), tape.log[-1]) == (wanted, "closed")
    mine = [event["event"] for event in events if event["name"] == "Tape.play"]
    assert (mine[0], mine[-1], mine.count("on_tool_end")) == ("on_tool_start", "on_tool_error", 0)


async def survive(text: str, *, tape: Tape) -> Done:
    heard: list[str] = []
    try:
        async for piece in tape.play(text):
            heard.append(piece)  # noqa: PERF401
    except InterlockError as error:
        heard.append(error.code)
    return Done(out=" ".join(heard))


async def test_a_node_may_live_with_a_stream_that_breaks_off(engine: EngineName):
    result, _ = await take(engine, talk(survive), RealTape(["one", MediaMalformed()]))
    assert result.output == "one media_malformed"


async def count_rows(text: str, *, tape: Tape) -> Done:
    seen: list[int] = []
    try:
        async for row in tape.rows(6):
            seen.append(row.number)  # noqa: PERF401
    except InterlockError as error:
        return Done(out=f"{seen} {error.code}")
    return Done(out=str(seen))


async def test_every_piece_is_checked_as_it_comes(engine: EngineName):
    result, _ = await take(engine, talk(count_rows))
    assert result.output == "[0, 1, 2] capability_result_invalid"


async def test_a_wrong_piece_is_reported_without_its_value(engine: EngineName):
    result, events = await take(engine, talk(listen), RealTape([b"hunter2"]))
    assert code(result) == "capability_result_invalid"
    assert "hunter2" not in json.dumps([result.to_json(), events])


async def fail_to_clean_up() -> None:
    raise RuntimeError("hunter2")


@pytest.mark.parametrize("run", [stop_early, leave_open, listen])
async def test_an_adapter_that_fails_to_clean_up_is_no_mistake_of_interlocks(engine: EngineName, run: Any):
    tape = RealTape(cleanup=fail_to_clean_up)
    result, events = await take(engine, talk(run), tape)
    assert code(result) in {None, "capability_failed"}
    assert "hunter2" not in json.dumps([result.to_json(), events])
    assert tape.log.count("opened") == tape.log.count("closed")


async def test_an_adapter_that_fails_to_clean_up_is_typed_where_langgraph_runs_the_graph():
    compiled = Interlock(Settings(), grants={Tape: RealTape(cleanup=fail_to_clean_up)}).langgraph(talk(stop_early))
    try:
        await compiled.ainvoke({"text": "x"})
    except Exception as error:  # noqa: BLE001
        assert isinstance(error, InterlockError)  # noqa: PT017


class Clinging:
    """A generator that does not let itself be closed."""

    async def play(self, text: str) -> AsyncIterator[str]:
        try:
            yield "one "
        finally:
            yield "two "

    async def rows(self, count: int) -> AsyncIterator[Row]:
        yield Row(count)


async def test_a_stream_that_does_not_let_itself_be_closed_is_no_mistake_of_interlocks(engine: EngineName):
    result, _ = await take(engine, talk(stop_early), Clinging())  # pyright: ignore[reportArgumentType]
    assert code(result) in {None, "capability_failed"}


TASKS: list[asyncio.Task[Any]] = []


async def read_in_the_background(text: str, *, tape: Tape) -> Done:
    stream = tape.play(text)
    TASKS.append(asyncio.ensure_future(anext(stream)))
    await asyncio.sleep(0)
    return Done(out="went on")


async def test_a_stream_that_is_still_read_when_the_node_ends_is_no_mistake_of_interlocks(engine: EngineName):
    class Waiting(RealTape):
        async def play(self, text: str) -> AsyncIterator[str]:
            self.log.append("opened")
            try:
                await asyncio.Event().wait()
                yield ""
            finally:
                self.log.append("closed")

    tape = Waiting()
    result, _ = await take(engine, talk(read_in_the_background), tape)
    task = TASKS.pop()
    was_ended = task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert code(result) in {None, "contract_violation", "capability_failed"}
    assert was_ended
    assert tape.log == ["opened", "closed"]


async def call_in_the_background(text: str, *, model: Model) -> Done:
    TASKS.append(asyncio.ensure_future(model.reply([Message(role="user", text=text)])))
    await asyncio.sleep(0)
    return Done(out="went on")


async def test_a_call_that_is_still_on_its_way_when_the_node_ends_is_ended(engine: EngineName):
    """Else it goes on behind the turn's back, and tells its events after the turn's last one."""
    ended: list[str] = []

    class Waiting(ScriptedModel):
        async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> Any:
            try:
                await asyncio.sleep(0.05)
            finally:
                ended.append("ended")
            raise ModelUnavailable

    result, events = await take(engine, talk(call_in_the_background), model=Waiting())
    at_the_end = list(ended), events[-1]["event"]
    await asyncio.gather(TASKS.pop(), return_exceptions=True)
    assert code(result) in {None, "contract_violation"}
    assert at_the_end == (["ended"], "on_chain_end")
    assert events[-1]["name"] == "talk"


async def test_the_others_of_calls_made_at_once_end_when_one_fails(engine: EngineName):
    ended: list[str] = []

    class Half(ScriptedModel):
        async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> Any:
            if messages[0].text == "bad":
                raise ModelUnavailable
            try:
                await asyncio.sleep(0.05)
            finally:
                ended.append("ended")

    async def both(text: str, *, model: Model) -> Done:
        await asyncio.gather(*(model.reply([Message(role="user", text=word)]) for word in ("good", "bad")))
        return Done(out="")

    result, events = await take(engine, talk(both), model=Half())
    told = len(events)
    at_the_end = list(ended)
    await asyncio.sleep(0.1)
    assert code(result) == "model_unavailable"
    assert at_the_end == ["ended"]
    assert len(events) == told


class NotAGenerator:
    async def play(self, text: str) -> str:
        return text

    async def rows(self, count: int) -> AsyncIterator[Row]:
        yield Row(count)


def test_an_adapter_that_does_not_stream_is_refused():
    (problem,) = gate_problems(talk(listen), {}, {Tape: NotAGenerator()}, [Tape])
    assert "its 'play' is no async generator" in str(problem)


async def await_stream(text: str, *, tape: Any) -> Done:
    return Done(out=await tape.play(text))


await_stream.__annotations__["tape"] = Tape


async def test_a_stream_that_is_awaited_is_the_nodes_mistake(engine: EngineName):
    result, _ = await take(engine, talk(await_stream))
    assert code(result) == "node_failed"


async def test_two_nodes_that_stream_at_once_keep_their_pieces_apart(engine: EngineName):
    async def zip_them(text: str, *, tape: Tape) -> Done:
        first, second = tape.play("a"), tape.play("b")
        said = [await anext(first), await anext(second), await anext(first), await anext(second)]
        return Done(out="".join(said))

    result, events = await take(engine, talk(zip_them))
    assert result.output == "one one two two "
    chunks: dict[str, list[Any]] = {}
    for event in events:
        if event["event"] == "on_tool_stream":
            chunks.setdefault(event["run_id"], []).append(event["data"]["chunk"]["text"])
    assert list(chunks.values()) == [["one ", "two "], ["one ", "two "]]
    assert [event["event"] for event in events].count("on_tool_end") == 2


def test_an_error_of_a_contract_is_not_transient():
    assert not ContractViolation.transient
