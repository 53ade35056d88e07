"""A turn never uses more than it may: time, steps, model calls, tokens, output."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, TurnResult, node
from interlock.capabilities import Chunk, Clock, Message, Model, ModelReply, Tool, Usage
from interlock.capabilities.capability import emits, instant
from interlock.engine import EngineName
from interlock.errors import BudgetExceeded, InterlockError
from interlock.runtime.limits import LATE_STEPS, Budget, Limits, TimeRanOut
from interlock.settings import read_settings
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest, ModelResponse
from interlock_agents.sam.testing import ScriptedBackend
from tests.support.passing import leap

SHORT = 0.05  # seconds
FREE: dict[str, Any] = dict.fromkeys(Limits.__dataclass_fields__)


class Job(TypedDict, total=False):
    text: str
    count: int
    out: str


class Done(Outcome):
    out: str


class Again(Outcome):
    count: int


class Slow(Capability, Protocol):
    async def work(self, text: str) -> str: ...
    async def now(self) -> int: ...
    def pieces(self, text: str) -> AsyncIterator[str]: ...


@dataclass
class RealSlow:
    """Waits for ever, unless it is told something else."""

    does: Callable[[], Awaitable[str]] | None = None
    calls: int = 0
    released: int = 0
    said: int = 0

    async def work(self, text: str) -> str:
        self.calls += 1
        try:
            return await (self.does or asyncio.Event().wait)()  # pyright: ignore[reportReturnType]
        finally:
            self.released += 1

    async def now(self) -> int:
        self.calls += 1
        return self.calls

    async def pieces(self, text: str) -> AsyncIterator[str]:
        self.calls += 1
        try:
            for piece in text:
                self.said += 1
                yield piece
            await asyncio.Event().wait()
        finally:
            self.released += 1


class Silent:
    """A model that says nothing for ever, or something and then nothing."""

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
        await asyncio.Event().wait()
        raise AssertionError

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncIterator[Chunk]:
        yield Chunk(text="well")
        await asyncio.Event().wait()

    async def decide(self, messages: Sequence[Message], *, schema: type[Any]) -> Any:
        await asyncio.Event().wait()


def job(*runs: Any, steps: int = 100) -> Graph:
    targets = [*runs[1:], END]
    rows = [node(run, goes={Done: to}) for run, to in zip(runs, targets, strict=True)]
    return Graph("job", state=Job, entry=runs[0], nodes=rows, max_steps=steps)


def limited(engine: EngineName, **limits: Any) -> Settings:
    """Return settings with these limits and no others."""
    return Settings(engine=engine, **{**FREE, **limits})


async def take(engine: EngineName, graph: Graph, *, grants: dict[type, object] | None = None, text: str = "x", **limits: Any) -> TurnResult:
    """Take a turn; one that does not end by itself fails the test instead of stopping it."""
    app = Interlock(limited(engine, **limits), grants=grants)
    turn = asyncio.create_task(app.run(graph, {"text": text, "count": 0}))
    await asyncio.wait([turn], timeout=30)
    if not turn.done():
        for _ in range(3):  # it may not listen the first time
            turn.cancel()
            await asyncio.sleep(0)
        pytest.fail("The turn does not end.")
    return turn.result()


def code(result: TurnResult) -> str | None:
    return None if result.error is None else result.error.code


def message(result: TurnResult) -> str:
    return "" if result.error is None else result.error.message


ASK = [Message(role="user", text="?")]


async def ask(text: str, *, model: Model) -> Done:
    return Done(out=(await model.reply(ASK)).text)


async def ask_in_pieces(text: str, *, model: Model) -> Done:
    return Done(out="".join([piece.text async for piece in model.stream(ASK)]))


async def work(text: str, *, slow: Slow) -> Done:
    return Done(out=await slow.work(text))


async def work_in_pieces(text: str, *, slow: Slow) -> Done:
    return Done(out="".join([piece async for piece in slow.pieces(text)]))


async def hang(text: str) -> Done:
    await asyncio.Event().wait()
    return Done(out="")


# Steps


async def count_on(count: int) -> Again | Done:
    return Again(count=count + 1) if count < 1000 else Done(out="")


endless = Graph("endless", state=Job, entry=count_on, nodes=[node(count_on, goes={Again: count_on, Done: END})], max_steps=50)


@pytest.mark.parametrize(("limit", "taken"), [(None, 50), (3, 3), (1, 1), (50, 50), (51, 50)])
async def test_a_turn_takes_no_more_steps_than_its_graph_and_the_settings_allow(engine: EngineName, limit: int | None, taken: int):
    result = await take(engine, endless, max_steps=limit)
    assert (code(result), len(result.path), result.state["count"]) == ("budget_exceeded", taken, taken)
    assert str(taken) in message(result)


async def test_a_turn_that_runs_out_of_steps_names_the_setting(engine: EngineName):
    assert "max_steps" in message(await take(engine, endless, max_steps=3))


async def test_a_turn_that_needs_all_of_its_steps_has_them(engine: EngineName):
    assert code(await take(engine, job(_first, _second), max_steps=2)) is None


async def _first(text: str) -> Done:
    return Done(out="1")


async def _second(out: str) -> Done:
    return Done(out=out + "2")


# Time


@pytest.mark.parametrize(("run", "grants"), [(ask, {Model: Silent()}), (ask_in_pieces, {Model: Silent()})])
async def test_a_model_that_takes_too_long_is_model_timeout(engine: EngineName, run: Any, grants: dict[type, object]):
    result = await take(engine, job(run), grants=grants, max_call_seconds=SHORT)
    assert (code(result), result.error and result.error.node) == ("model_timeout", run.__name__)
    assert "0.05" in message(result)


@pytest.mark.parametrize("run", [work, work_in_pieces])
async def test_a_call_that_takes_too_long_is_capability_timeout_and_is_released(engine: EngineName, run: Any):
    slow = RealSlow()
    result = await take(engine, job(run), grants={Slow: slow}, max_call_seconds=SHORT, text="abc")
    assert (code(result), slow.calls, slow.released) == ("capability_timeout", 1, 1)


@pytest.mark.parametrize("run", [work, work_in_pieces, hang])
async def test_a_turn_that_takes_too_long_is_budget_exceeded_no_matter_what_it_waits_for(engine: EngineName, run: Any):
    began = time.perf_counter()
    result = await take(engine, job(run), grants={Slow: RealSlow()}, max_turn_seconds=SHORT, max_call_seconds=60)
    assert (code(result), result.error and result.error.node) == ("budget_exceeded", run.__name__)
    assert "max_turn_seconds" in message(result)
    assert time.perf_counter() - began < 30


async def test_the_shorter_of_the_two_times_ends_a_call(engine: EngineName):
    assert (
        code(await take(engine, job(work), grants={Slow: RealSlow()}, max_turn_seconds=60, max_call_seconds=SHORT)) == "capability_timeout"
    )


async def test_a_stream_may_take_longer_than_a_call_as_long_as_it_is_not_silent(engine: EngineName):
    class Steady:
        async def pieces(self, text: str) -> AsyncIterator[str]:
            for piece in text:
                await asyncio.sleep(SHORT / 2)
                yield piece

        async def work(self, text: str) -> str:
            return text

        async def now(self) -> int:
            return 0

    result = await take(engine, job(work_in_pieces), grants={Slow: Steady()}, max_call_seconds=SHORT * 2, text="abcdef")
    assert (code(result), result.state.get("out")) == (None, "abcdef")


async def read_slowly(text: str, *, slow: Slow) -> Done:
    async for _ in slow.pieces(text):
        await asyncio.sleep(SHORT * 2)
        break
    return Done(out="read")


async def test_the_time_that_a_node_takes_over_a_piece_is_not_the_streams(engine: EngineName):
    assert code(await take(engine, job(read_slowly), grants={Slow: RealSlow()}, max_call_seconds=SHORT)) is None


async def dawdle(text: str) -> Done:
    await asyncio.sleep(SHORT * 1.5)
    return Done(out="late")


async def test_no_call_is_let_out_when_the_turns_time_is_up_between_two_steps(engine: EngineName):
    slow = RealSlow()
    result = await take(engine, job(dawdle, work), grants={Slow: slow}, max_turn_seconds=SHORT)
    assert (code(result), result.path, result.state["out"]) == ("budget_exceeded", ("dawdle", "work"), "late")
    assert "max_turn_seconds" in message(result)


async def test_steps_without_calls_end_the_turn_when_its_time_is_up(engine: EngineName):
    assert code(await take(engine, job(dawdle, _second), max_turn_seconds=SHORT)) is None


async def test_there_are_not_many_steps_after_the_time_is_up(engine: EngineName):
    result = await take(engine, endless, max_turn_seconds=1e-9)
    assert (code(result), len(result.path)) == ("budget_exceeded", LATE_STEPS)
    assert "max_turn_seconds" in message(result)


class Told(Capability, Protocol):
    @instant
    async def at_once(self) -> str: ...


class RealTold:
    async def at_once(self) -> str:
        return "told"


async def look_up(text: str, *, told: Told) -> Done:
    return Done(out=await told.at_once())


async def insist_on_looking(text: str, *, told: Told) -> Done:
    while True:
        await told.at_once()


async def test_a_call_that_takes_no_time_is_made_also_when_the_time_is_up(engine: EngineName):
    result = await take(engine, job(look_up), grants={Told: RealTold()}, max_turn_seconds=1e-9)
    assert (code(result), result.state["out"]) == (None, "told")
    result = await take(engine, job(insist_on_looking), grants={Told: RealTold()}, max_turn_seconds=1e-9)
    assert code(result) == "budget_exceeded", "but not for ever"


async def raise_timeout() -> str:
    raise TimeoutError("the adapter's own")


@pytest.mark.parametrize("limits", [{}, {"max_call_seconds": 60}, {"max_call_seconds": 60, "max_turn_seconds": 60}])
async def test_a_timeout_of_an_adapters_own_is_not_the_gates(engine: EngineName, limits: dict[str, Any]):
    result = await take(engine, job(work), grants={Slow: RealSlow(raise_timeout)}, **limits)
    assert code(result) == "capability_failed"
    assert "TimeoutError" in message(result)


async def shrug_once() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()
    raise AssertionError


async def shrug_and_answer() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "late"
    raise AssertionError


async def shrug_and_fail() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise RuntimeError("could not be cancelled") from None
    raise AssertionError


@pytest.mark.parametrize("limits", [{"max_call_seconds": SHORT}, {"max_turn_seconds": SHORT}])
async def test_an_adapter_that_shrugs_off_its_deadline_once_does_not_hang_the_turn(engine: EngineName, limits: dict[str, Any]):
    result = await take(engine, job(work), grants={Slow: RealSlow(shrug_once)}, **limits)
    assert code(result) in {"capability_timeout", "budget_exceeded"}


@pytest.mark.parametrize("does", [shrug_and_answer, shrug_and_fail])
async def test_an_adapter_that_answers_its_deadline_leaves_the_turn_as_it_should_be(engine: EngineName, does: Any):
    app = Interlock(limited(engine, max_call_seconds=SHORT), grants={Slow: RealSlow(does)})
    async with asyncio.timeout(20):
        result = await app.run(job(work, _late), {"text": "x"})
    assert code(result) in {None, "capability_timeout", "capability_failed"}
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def _late(text: str) -> Done:
    await asyncio.sleep(0)
    return Done(out="next")


async def try_for_ever(text: str, *, slow: Slow) -> Done:
    while True:
        try:
            return Done(out=await slow.work(text))
        except InterlockError:
            await asyncio.sleep(0)


async def test_a_node_that_tries_again_for_ever_ends_with_the_turns_time(engine: EngineName):
    slow = RealSlow()
    result = await take(engine, job(try_for_ever), grants={Slow: slow}, max_call_seconds=0.01, max_turn_seconds=SHORT)
    assert code(result) == "budget_exceeded"
    assert slow.calls >= 2
    assert slow.released == slow.calls


async def try_without_a_pause(text: str, *, model: Model) -> Done:
    """What a careless author writes. It stops by itself after a while so that the test can fail."""
    began = time.perf_counter()
    while time.perf_counter() - began < 20:
        with contextlib.suppress(Exception):
            await model.reply(ASK)
    return Done(out="gave up by itself")


async def test_a_node_that_catches_everything_and_tries_again_without_a_pause_is_stopped(engine: EngineName):
    """Nothing in such a loop ever waits, so no timer fires: the whole process stands still unless the gate lets it."""
    result = await take(engine, job(try_without_a_pause), grants={Model: ScriptedBackend("ok")}, max_model_calls=2, max_turn_seconds=SHORT)
    assert code(result) == "budget_exceeded"


async def call_without_a_pause(text: str, *, slow: Slow) -> Done:
    began = time.perf_counter()
    while time.perf_counter() - began < 20:
        await slow.now()
    return Done(out="gave up by itself")


async def test_calls_that_answer_at_once_do_not_outrun_the_turns_time(engine: EngineName):
    slow = RealSlow()
    began = time.perf_counter()
    result = await take(engine, job(call_without_a_pause), grants={Slow: slow}, max_turn_seconds=SHORT, max_call_seconds=60)
    assert code(result) == "budget_exceeded"
    assert time.perf_counter() - began < 10


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("is_recorded", [False, True])
async def test_no_stream_begins_when_the_turns_time_is_up(engine: EngineName, tmp_path: Path, *, is_recorded: bool):
    async def listen_late(text: str, *, slow: Slow) -> Done:
        await leap(60)
        return Done(out="".join([piece async for piece in slow.pieces(text)]))

    slow = RealSlow()
    app = Interlock(limited(engine, max_turn_seconds=60), grants={Slow: slow})
    result = await app.run(job(listen_late), {"text": "abc"}, record=tmp_path / "turn.jsonl" if is_recorded else None)
    assert (code(result), slow.calls, result.path) == ("budget_exceeded", 0, ("listen_late",))


@pytest.mark.usefixtures("time_passes")
async def test_the_next_piece_has_its_time_and_no_more_when_a_node_took_long_over_the_last(engine: EngineName):
    class Halting(RealSlow):
        async def pieces(self, text: str) -> AsyncIterator[str]:
            yield text
            await leap(6)
            await asyncio.Event().wait()

    async def dwell(text: str, *, slow: Slow) -> Done:
        async for _ in slow.pieces(text):
            await leap(6)
        return Done(out="never")

    result = await take(engine, job(dwell), grants={Slow: Halting()}, max_call_seconds=3)
    assert code(result) == "capability_timeout"


@pytest.mark.usefixtures("time_passes")
async def test_a_stream_that_answers_its_deadline_leaves_the_turn_as_it_should_be(engine: EngineName):
    class Stubborn(RealSlow):
        async def pieces(self, text: str) -> AsyncIterator[str]:
            try:
                await leap(6)
            except asyncio.CancelledError:
                yield "late"

    async def listen(text: str, *, slow: Slow) -> Done:
        said = await anext(slow.pieces(text))
        task = asyncio.current_task()
        return Done(out=f"{said} {task and task.cancelling()}")

    result = await take(engine, job(listen), grants={Slow: Stubborn()}, max_call_seconds=3)
    assert (code(result), result.state.get("out")) == (None, "late 0")


async def make_do(text: str, *, model: Model) -> Done:
    said = await model.reply(ASK)
    try:
        await model.reply(ASK)
    except BudgetExceeded:
        with pytest.raises(BudgetExceeded):
            await model.reply(ASK)
    return Done(out=f"as far as it went: {said.text}")


async def test_a_node_may_make_do_with_what_it_has_but_gets_no_more(engine: EngineName):
    model = ScriptedBackend("ok")
    result = await take(engine, job(make_do), grants={Model: model}, max_model_calls=1)
    assert (code(result), result.state["out"], len(model.messages)) == (None, "as far as it went: ok", 1)


class Stuck:
    """A stream whose clean-up never ends."""

    async def pieces(self, text: str) -> AsyncIterator[str]:
        try:
            yield text
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    async def work(self, text: str) -> str:
        return text

    async def now(self) -> int:
        return 0


@pytest.mark.parametrize("run", [work_in_pieces, read_slowly])
@pytest.mark.parametrize("limits", [{"max_turn_seconds": SHORT}, {"max_call_seconds": SHORT}])
async def test_a_stream_whose_clean_up_never_ends_does_not_hang_the_turn(engine: EngineName, run: Any, limits: dict[str, Any]):
    result = await take(engine, job(run), grants={Slow: Stuck()}, **limits)
    assert code(result) in {"budget_exceeded", "capability_timeout", None}


async def test_the_next_turn_has_all_of_its_time(engine: EngineName):
    app = Interlock(limited(engine, max_turn_seconds=SHORT), grants={Slow: RealSlow()})
    async with asyncio.timeout(20):
        first = await app.run(job(work), {"text": "x"})
        second = await app.run(job(_first), {"text": "x"})
    assert (code(first), code(second)) == ("budget_exceeded", None)


async def test_no_limits_are_no_limits(engine: EngineName):
    result = await take(engine, job(ask, ask_in_pieces, tick), grants={Model: ScriptedBackend("word " * 1000)})
    assert code(result) is None


async def test_the_beginning_of_an_answer_is_shown_without_limits_too(engine: EngineName):
    class Ahead(ScriptedBackend):
        async def reply(
            self,
            messages: Sequence[Message],
            *,
            tools: Sequence[Tool] = (),
            schema: Any = None,
            on_chunk: Callable[[str], None] | None = None,
        ) -> ModelReply:
            assert on_chunk is not None
            on_chunk("half ")
            return ModelReply(text="half of it")

    told: list[Any] = []
    app = Interlock(limited(engine), grants={Model: Ahead()})
    result = await app.run(job(ask), {"text": "x"}, on_event=lambda event: told.append((event["event"], event["data"])))
    assert (code(result), result.state["out"]) == (None, "half of it")
    assert [data["chunk"]["text"] for event, data in told if event == "on_chat_model_stream"] == ["half "]


async def tick(text: str, *, clock: Clock) -> Done:
    return Done(out=(await clock.now()).isoformat())


# Model calls


async def ask_often(count: int, text: str, *, model: Model) -> Done:
    for _ in range(int(text)):
        await model.reply(ASK)
    return Done(out="")


async def ask_at_once(text: str, *, model: Model) -> Done:
    replies = await asyncio.gather(*(model.reply(ASK) for _ in range(int(text))), return_exceptions=True)
    failed = [reply for reply in replies if isinstance(reply, BaseException)]
    if failed:
        raise failed[0]
    return Done(out="")


@pytest.mark.parametrize("run", [ask_often, ask_at_once])
@pytest.mark.parametrize(("asked", "limit", "ends"), [(3, 3, None), (4, 3, "budget_exceeded"), (1, 0, "budget_exceeded"), (0, 0, None)])
async def test_a_model_is_asked_no_more_often_than_it_may(engine: EngineName, run: Any, asked: int, limit: int, ends: str | None):
    model = ScriptedBackend("ok")
    result = await take(engine, job(run), grants={Model: model}, text=str(asked), max_model_calls=limit)
    assert code(result) == ends
    assert len(model.messages) == min(asked, limit)
    assert ends is None or "max_model_calls" in message(result)


async def ask_backend(text: str, *, model: Model, backend: ModelBackend) -> Done:
    await model.reply(ASK)
    _ = [piece async for piece in model.stream(ASK)]
    return Done(out=(await backend.generate(ModelRequest(prompt="?"))).output or "")


async def test_every_way_to_ask_a_model_counts(engine: EngineName):
    grants: dict[type, object] = {Model: ScriptedBackend("ok"), ModelBackend: ScriptedBackend("ok")}
    assert code(await take(engine, job(ask_backend), grants=grants, max_model_calls=3)) is None
    assert code(await take(engine, job(ask_backend), grants=grants, max_model_calls=2)) == "budget_exceeded"


async def test_two_turns_at_once_have_a_budget_each(engine: EngineName):
    app = Interlock(limited(engine, max_model_calls=2), grants={Model: ScriptedBackend("ok")})
    results = await asyncio.gather(*(app.run(job(ask, ask_in_pieces), {"text": "x"}) for _ in range(5)))
    assert [code(result) for result in results] == [None] * 5


async def ask_again(text: str, *, model: Model) -> Done:
    return Done(out=(await model.reply(ASK)).text)


async def test_all_the_steps_of_a_turn_share_its_budget(engine: EngineName):
    result = await take(engine, job(ask, ask_in_pieces, ask_again), grants={Model: ScriptedBackend("ok")}, max_model_calls=2)
    assert (code(result), result.path) == ("budget_exceeded", ("ask", "ask_in_pieces", "ask_again"))


async def test_two_turns_at_once_have_a_budget_each_of_what_is_said(engine: EngineName):
    app = Interlock(limited(engine, max_output_bytes=12, max_tokens=4), grants={Model: ScriptedBackend("0123456789")})
    results = await asyncio.gather(*(app.run(job(ask), {"text": "x"}) for _ in range(5)))
    assert [code(result) for result in results] == [None] * 5


# Output and tokens


@pytest.mark.parametrize("run", [ask, ask_in_pieces])
@pytest.mark.parametrize(
    ("said", "limit", "ends"),
    [("x" * 10, 10, None), ("x" * 11, 10, "budget_exceeded"), ("é" * 6, 11, "budget_exceeded"), ("é" * 5, 10, None)],
)
async def test_models_say_no_more_bytes_than_they_may(engine: EngineName, run: Any, said: str, limit: int, ends: str | None):
    result = await take(engine, job(run), grants={Model: ScriptedBackend(said)}, max_output_bytes=limit)
    assert code(result) == ends
    assert ends is None or "max_output_bytes" in message(result)


async def test_a_stream_without_end_is_cut_where_it_has_said_too_much(engine: EngineName):
    class Babble(Silent):
        said = 0
        released = False

        async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncIterator[Chunk]:
            try:
                while True:
                    self.said += 1
                    yield Chunk(text="blah")
            finally:
                self.released = True

    babble = Babble()
    result = await take(engine, job(ask_in_pieces), grants={Model: babble}, max_output_bytes=40)
    assert (code(result), babble.said, babble.released) == ("budget_exceeded", 11, True)


def usage(given: int, made: int) -> Usage:
    return Usage(input_tokens=given, output_tokens=made)


@pytest.mark.parametrize(
    ("tokens", "ends"), [(usage(40, 60), None), (usage(41, 60), "budget_exceeded"), (usage(0, 101), "budget_exceeded")]
)
async def test_the_tokens_that_a_model_says_it_took_are_counted(engine: EngineName, tokens: Usage, ends: str | None):
    model = ScriptedBackend(ModelReply(text="ok", usage=tokens))
    result = await take(engine, job(ask), grants={Model: model}, max_tokens=100)
    assert code(result) == ends
    assert ends is None or "max_tokens" in message(result)


async def test_the_tokens_in_a_responses_metadata_are_counted(engine: EngineName):
    response = ModelResponse(status="success", output="ok", metadata={"input_tokens": 90, "output_tokens": 20})
    result = await take(engine, job(ask_backend_once), grants={ModelBackend: ScriptedBackend(response)}, max_tokens=100)
    assert code(result) == "budget_exceeded"


async def ask_backend_once(text: str, *, backend: ModelBackend) -> Done:
    return Done(out=(await backend.generate(ModelRequest(prompt="?"))).output or "")


async def test_a_stream_that_says_at_its_end_what_it_took_is_counted_once(engine: EngineName):
    """The text is guessed at while it comes; what the model then says itself takes the place of the guess."""
    pieces: list[Chunk | str | Exception] = [*["x" * 40] * 10, Chunk(usage=usage(0, 100))]
    result = await take(engine, job(ask_in_pieces), grants={Model: ScriptedBackend(pieces)}, max_tokens=120)
    assert code(result) is None


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
async def test_a_text_takes_about_as_many_tokens_in_small_pieces_as_in_large_ones(engine: EngineName, size: int):
    """A model that streams letter by letter and says nothing of tokens must not talk for free."""
    text = "x" * 4000
    pieces: list[Chunk | str | Exception] = [text[at : at + size] for at in range(0, len(text), size)]
    result = await take(engine, job(ask_in_pieces), grants={Model: ScriptedBackend(pieces)}, max_tokens=500)
    assert code(result) == "budget_exceeded"


@dataclass
class Scan:
    picture: bytes


class Eye(Capability, Protocol):
    @emits("chat_model")
    async def look(self) -> Scan: ...


class RealEye:
    async def look(self) -> Scan:
        return Scan(b"\xff\xd8\xff")


async def look(text: str, *, eye: Eye) -> Done:
    return Done(out=repr((await eye.look()).picture))


async def test_a_model_may_return_bytes_that_are_no_text(engine: EngineName):
    result = await take(engine, job(look), grants={Eye: RealEye()}, max_output_bytes=1000)
    assert (code(result), result.state.get("out")) == (None, repr(b"\xff\xd8\xff"))


@given(said=st.lists(st.text(max_size=30), max_size=20), limit=st.integers(min_value=0, max_value=200))
def test_the_bytes_of_a_budget_are_the_bytes_that_were_said(said: list[str], limit: int):
    budget = Budget(Limits(max_output_bytes=limit), now=lambda: 0.0)
    call = budget.charge_model_call()
    heard = 0
    for text in said:
        heard += len(text.encode("utf-8", "surrogatepass"))
        if heard > limit:
            with pytest.raises(BudgetExceeded, match="max_output_bytes"):
                budget.count(call, text)
            return
        budget.count(call, text)


# Settings


@pytest.mark.parametrize("name", list(Limits.__dataclass_fields__))
def test_none_in_the_environment_is_no_limit(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv(f"INTERLOCK_{name.upper()}", "none")
    assert getattr(read_settings(), name) is None
    assert getattr(Interlock().settings, name) is None


@pytest.mark.parametrize("name", list(Limits.__dataclass_fields__))
@pytest.mark.parametrize("value", ["-1", "lots", "nan", ""])
def test_an_invalid_limit_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str):
    monkeypatch.setenv(f"INTERLOCK_{name.upper()}", value)
    with pytest.raises(InterlockError, match=name) as caught:
        read_settings()
    assert caught.value.code == "settings_invalid"


def test_every_limit_is_a_setting_with_a_bound_by_default():
    settings = Settings()
    assert all(getattr(settings, name) is not None for name in Limits.__dataclass_fields__)


def test_a_replayed_turn_runs_out_of_time_after_the_same_step():
    budget = Budget(Limits(max_turn_seconds=5), now=lambda: 0.0, ran_out=TimeRanOut(after_steps=2, in_a_step=False))
    assert budget.take_step(1, 1, 10) is None
    assert "max_turn_seconds" in str(budget.take_step(2, 2, 10))


def test_a_node_that_langgraph_runs_alone_may_take_its_step_after_the_time_is_up():
    now = 0.0
    budget = Budget(Limits(max_turn_seconds=1), now=lambda: now)
    now = 2.0
    assert budget.take_step(0, 0, 10) is None
