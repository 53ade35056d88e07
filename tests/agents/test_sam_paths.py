from __future__ import annotations

import asyncio
import json
import time
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import override

from interlock import Interlock, Settings, TurnResult
from interlock.capabilities import Clock, Ids
from interlock.engine import EngineName
from interlock.errors import InputError, InputSchema, MediaUnsupported
from interlock.runtime.events import Event
from interlock.testing import CountingIds, FixedClock
from interlock_agents.sam.backends import SafeBackend
from interlock_agents.sam.capabilities import Metadata, ModelBackend, ModelRequest, ModelResponse, Transcriber
from interlock_agents.sam.nodes import MESSAGES
from interlock_agents.sam.testing import ScriptedBackend
from tests.support.passing import ENOUGH, pass_time, run_out

ASKED = (
    "router_node",
    "state_init_node",
    "decision_logic_node",
    "task_preprocessing_node",
    "decision_logic_node",
    "model_call_node",
)
REFUSED = (*ASKED, "error_router_node", "format_response_node")
UNREAD = (*ASKED[:-1], "error_router_node", "format_response_node")
BLANK = (*ASKED, "result_handling_node", "decision_logic_node", "error_router_node", "format_response_node")


class Hanging:
    """Never answers, and remembers that it was told to stop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = False

    async def generate(self, request: ModelRequest) -> ModelResponse:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True
        raise AssertionError


class Impatient:
    """A backend that hangs, with a time limit so short that nobody has to wait for it."""

    async def generate(self, request: ModelRequest) -> ModelResponse:
        async with asyncio.timeout(5):  # so that a missing limit fails here instead of hanging
            return await SafeBackend(Hanging()).generate(replace(request, timeout_s=0.01))


class Odd:
    """Returns whatever it is made with, of any type."""

    def __init__(self, returned: Any) -> None:
        self._returned = returned

    async def generate(self, request: ModelRequest) -> ModelResponse:
        return self._returned


async def take(engine: EngineName, backend: object, given: str | dict[str, Any] = "hello", session: str | None = None) -> TurnResult:
    grants = {ModelBackend: backend, Clock: FixedClock(), Ids: CountingIds()}
    return await Interlock(Settings(engine=engine), grants=grants).run("sam", given, session=session)


def refusal(error_type: Any = None, status: Any = "fatal_error") -> ModelResponse:
    return ModelResponse(status=status, error_type=error_type, output="half an answer")


FAILURES: list[tuple[str, object, str]] = [
    ("raises", ScriptedBackend(RuntimeError("hunter2")), "backend_unavailable"),
    ("raises a typed error", ScriptedBackend(MediaUnsupported("hunter2")), "backend_unavailable"),
    ("connection error", ScriptedBackend(ConnectionError("hunter2")), "backend_unavailable"),
    ("connection refused", ScriptedBackend(ConnectionRefusedError("hunter2")), "backend_unavailable"),
    ("timeout error", ScriptedBackend(TimeoutError("hunter2")), "timeout"),
    ("hangs", Impatient(), "timeout"),
    ("refuses", ScriptedBackend(refusal("invalid_output")), "invalid_output"),
    ("refuses for now", ScriptedBackend(refusal("timeout", "recoverable_error")), "timeout"),
    ("refuses without a reason", ScriptedBackend(refusal()), "backend_unavailable"),
    ("nothing", Odd(None), "invalid_output"),
    ("bare text", Odd("hi"), "invalid_output"),
    ("a dict", Odd({"status": "success", "output": 1}), "invalid_output"),
    ("a wrong status", ScriptedBackend(ModelResponse(status="ok", output="hi")), "invalid_output"),  # pyright: ignore[reportArgumentType]
    ("output that is no text", ScriptedBackend(ModelResponse(status="success", output=b"hi")), "invalid_output"),  # pyright: ignore[reportArgumentType]
    ("a lone surrogate", ScriptedBackend("a \ud800 b"), "invalid_output"),
]


@pytest.mark.parametrize(("backend", "code"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES])
async def test_every_model_failure_passes_the_error_router(engine: EngineName, backend: object, code: Any):
    result = await take(engine, backend)
    assert result.path == REFUSED
    assert result.status == "error"
    assert result.error is not None
    assert (result.error.code, result.error.node) == (code, "error_router_node")
    assert result.error.message == result.output
    assert result.output.startswith("The model")
    assert result.state["error_type"] == result.state["response"].error_type == code
    assert "hunter2" not in str(result.to_json())


@pytest.mark.parametrize(
    "reply", ["", " ", "\n\t ", "\u2003\u00a0", ModelResponse(status="success"), ModelResponse(status="success", output="")]
)
async def test_a_blank_answer_passes_the_error_router(engine: EngineName, reply: str | ModelResponse):
    result = await take(engine, ScriptedBackend(reply))
    assert result.path == BLANK
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("invalid_output", "error_router_node")
    assert result.output == MESSAGES["invalid_output"]


async def test_a_hanging_backend_times_out():
    backend = Hanging()
    async with asyncio.timeout(5):  # so that a missing limit fails here instead of hanging
        response = await SafeBackend(backend).generate(ModelRequest(prompt="hi", timeout_s=0.01, trace_id="t"))
    assert (response.status, response.error_type, response.output) == ("recoverable_error", "timeout", None)
    assert response.metadata == {"backend": "Hanging", "trace_id": "t", "cause": "timeout", "reason": "The model did not answer in time."}
    assert backend.cancelled


async def test_cancellation_is_not_a_timeout():
    backend = Hanging()
    call = asyncio.create_task(SafeBackend(backend).generate(ModelRequest(prompt="hi")))
    await backend.asked.wait()
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    assert backend.cancelled


async def test_the_request_has_text_trace_id_and_a_limit_of_30_seconds(engine: EngineName):
    model = ScriptedBackend("hi")
    result = await take(engine, model, "  Caf\u0065\u0301\tau\n lait ")
    (request,) = model.requests
    assert request == ModelRequest(task="respond", prompt="  Café\tau\n lait", timeout_s=30.0, trace_id=result.state["trace_id"])


async def test_text_over_the_limit_is_rejected_without_a_model_call(engine: EngineName):
    model = ScriptedBackend("never asked")
    result = await take(engine, model, "x" * 32_001)
    assert result.path == (*ASKED[:5], "error_router_node", "format_response_node")
    assert result.error is not None
    assert result.error.code == "input_too_large"
    assert model.requests == []


async def test_given_ids_are_kept(engine: EngineName):
    result = await take(engine, ScriptedBackend("hi"), {"raw_input": "hello", "conversation_id": "c-7", "trace_id": "t-7"})
    response = result.state["response"]
    assert (response.conversation_id, response.trace_id) == ("c-7", "t-7")
    assert result.metadata["trace_id"] == "t-7"


async def test_missing_ids_are_created(engine: EngineName):
    result = await take(engine, ScriptedBackend("hi"), {"raw_input": "hello"})
    assert (result.turn, result.state["conversation_id"], result.state["trace_id"]) == ("id-1", "id-1", "id-2")


@pytest.mark.parametrize("name", ["conversation_id", "trace_id"])
@pytest.mark.parametrize("bad", ["", "x" * 129, "a\nb", "a\x1b[31mb", "\u202eabc", 7])
async def test_an_id_from_outside_is_1_to_128_printable_characters(engine: EngineName, name: str, bad: Any):
    model = ScriptedBackend("hi")
    with pytest.raises(InputSchema, match=name):
        await take(engine, model, {"raw_input": "hello", name: bad})
    assert model.requests == []
    good = "ü " * 64
    assert (await take(engine, model, {"raw_input": "hello", name: good})).state[name] == good


NESTED: Metadata = {"usage": {"cached": [1, 2.5, None]}, "safe": True, "model": "m"}


async def test_metadata_may_be_any_json(engine: EngineName):
    result = await take(engine, ScriptedBackend(ModelResponse(status="success", output="hi", metadata=NESTED)))
    assert (result.status, result.metadata) == ("success", NESTED)
    assert result.to_json()["state"]["response"]["metadata"] == NESTED


LIMITS = [{"max_model_calls": 0}, {"max_tokens": 1}, {"max_output_bytes": 3}]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
async def test_an_exceeded_budget_passes_the_error_router(engine: EngineName, limits: dict[str, Any]):
    grants = {ModelBackend: ScriptedBackend("a long answer " * 10), Clock: FixedClock(), Ids: CountingIds()}
    result = await Interlock(Settings(engine=engine, **limits), grants=grants).run("sam", "hello")
    assert result.path == REFUSED
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("budget_exceeded", "error_router_node")
    assert next(iter(limits)) in result.output
    assert result.state["response"].error_type == "budget_exceeded"


class RunsOut:
    """Uses up the turn's time, in whatever it is asked for."""

    async def generate(self, request: ModelRequest) -> ModelResponse:
        await run_out()

    async def transcribe(self, audio: bytes, *, media_type: str) -> str:
        await run_out()


WAV = "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("recorded", [False, True], ids=["live", "recorded"])
@pytest.mark.parametrize(("said", "path"), [("hello", "model"), (WAV, "preprocessing")], ids=["model", "transcriber"])
@pytest.mark.parametrize(
    ("limit", "code"), [("max_turn_seconds", "budget_exceeded"), ("max_call_seconds", "timeout")], ids=["turn", "call"]
)
async def test_an_exceeded_time_limit_passes_the_error_router(
    engine: EngineName, tmp_path: Path, *, said: str, path: str, limit: str, code: str, recorded: bool
):
    grants = {ModelBackend: RunsOut(), Transcriber: RunsOut(), Clock: FixedClock(), Ids: CountingIds()}
    limits: dict[str, Any] = {limit: ENOUGH}
    app = Interlock(Settings(engine=engine, **limits), grants=grants)
    record = tmp_path / "turn.json" if recorded else None
    result = await app.run("sam", said, record=record)
    assert result.path == (REFUSED if path == "model" else UNREAD)
    assert result.error is not None
    assert (result.error.code, result.error.node) == (code, "error_router_node")
    if code == "budget_exceeded":
        assert limit in result.output
    if record is not None:
        again = (await app.replay(record)).result
        assert (again.path, again.error) == (result.path, result.error)


class Stalls:
    """Blocks the event loop for longer than a turn has once its time is up, whenever a node has ended after that."""

    def __init__(self) -> None:
        self.is_late = False
        self.count = 0

    async def generate(self, request: ModelRequest) -> ModelResponse:
        self.is_late = True
        time.sleep(0.06)  # noqa: ASYNC251 - it stands for a process that gets no time to run
        await asyncio.Event().wait()
        raise AssertionError

    def __call__(self, event: Event) -> None:
        if self.is_late and event["event"].startswith("on_chain_"):
            self.count += 1
            time.sleep(0.3)


async def test_a_frozen_process_still_passes_the_error_router(engine: EngineName):
    stalls = Stalls()
    grants = {ModelBackend: stalls, Clock: FixedClock(), Ids: CountingIds()}
    result = await Interlock(Settings(engine=engine, max_turn_seconds=0.05), grants=grants).run("sam", "hello", on_event=stalls)
    assert stalls.count >= 4
    assert result.path == REFUSED
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("budget_exceeded", "error_router_node")


class YieldingIds(CountingIds):
    """Lets others run before it answers."""

    @override
    async def new(self) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return await super().new()


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("limit", ["max_turn_seconds", "max_call_seconds"])
@pytest.mark.parametrize("said", ["hello", WAV], ids=["model", "transcriber"])
async def test_a_slow_event_loop_still_passes_the_error_router(engine: EngineName, said: str, limit: str):
    grants = {ModelBackend: RunsOut(), Transcriber: RunsOut(), Clock: FixedClock(), Ids: YieldingIds()}
    limits: dict[str, Any] = {limit: ENOUGH}
    app = Interlock(Settings(engine=engine, **limits), grants=grants)

    async def stand_still() -> None:
        while True:
            pass_time(1)
            await asyncio.sleep(0)

    standing = asyncio.create_task(stand_still())
    result = await app.run("sam", said)
    standing.cancel()
    assert result.path[-2:] == ("error_router_node", "format_response_node")
    assert result.error is not None
    assert result.error.node == "error_router_node"


async def test_text_and_a_file_can_be_sent_together(engine: EngineName):
    model = ScriptedBackend("fine")
    result = await take(engine, model, {"text": "What does it do?", "file": "data:text/plain,def%20f():%0A%20%20pass"})
    assert result.status == "success"
    assert [request.prompt for request in model.requests] == ["What does it do?\n\ndef f():\n  pass"]
    assert result.state["raw_input"] == {"text": "What does it do?", "file": "data:text/plain,def%20f():%0A%20%20pass"}


@given(text=st.text(max_size=60))
@example(text="0\x85\x1b")
async def test_the_backend_is_called_once_with_the_preprocessing_result(text: str):
    model = ScriptedBackend("hi")
    try:
        result = await take("direct", model, text)
    except InputError:
        assert model.requests == []
        return
    made = result.state["preprocessing_result"]
    assert [request.prompt for request in model.requests] == ([made.content] if made.content else [])
    assert made.content == made.content.rstrip() == unicodedata.normalize("NFC", made.content)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x85", "\n")
    kept = "".join(c for c in lines if unicodedata.category(c) != "Cc" or c in "\t\n").rstrip()
    assert [line.strip() for line in made.content.split("\n")] == [
        unicodedata.normalize("NFC", line).strip() for line in kept.split("\n")
    ] or not made.content


async def test_a_session_is_the_conversation_of_field_input(engine: EngineName):
    result = await take(engine, ScriptedBackend("hi"), {"raw_input": "hello"}, session="my-session")
    assert result.session == result.state["conversation_id"] == "my-session"


async def test_a_session_is_the_conversation(engine: EngineName):
    result = await take(engine, ScriptedBackend("hi"), session="my-session")
    assert result.session == result.state["conversation_id"] == "my-session"


async def test_a_turn_without_a_session_creates_one(engine: EngineName):
    result = await take(engine, ScriptedBackend("hi"))
    assert result.session == result.turn == result.state["conversation_id"]


async def test_the_reply_has_every_field_of_the_document(engine: EngineName):
    result = await take(engine, ScriptedBackend("hi"), {"raw_input": "hello", "conversation_id": "c", "trace_id": "t"})
    assert result.to_json()["state"] == {
        "conversation_id": "c",
        "trace_id": "t",
        "created_at": "2026-01-01T00:00:00+00:00",
        "input_type": "text",
        "raw_input": "hello",
        "preprocessing_result": {"content": "hello", "image": None, "problem": None, "reason": ""},
        "model_response": {
            "status": "success",
            "output": "hi",
            "error_type": None,
            "metadata": {"backend": "scripted", "trace_id": "t"},
        },
        "model_metadata": {"backend": "scripted", "trace_id": "t"},
        "final_output": "hi",
        "error_type": None,
        "response": {
            "conversation_id": "c",
            "trace_id": "t",
            "status": "success",
            "output": "hi",
            "error_type": None,
            "metadata": {"backend": "scripted", "trace_id": "t"},
        },
        "command": "success",
    }


@pytest.mark.parametrize("field", ["command", "input_type", "response", "created_at", "final_output", "error_type"])
async def test_a_caller_cannot_set_what_sam_decides(engine: EngineName, field: str):
    model = ScriptedBackend("never asked")
    with pytest.raises(Exception, match=f"'{field}' cannot be set from outside") as caught:
        await take(engine, model, {"raw_input": "hello", field: "success"})
    assert getattr(caught.value, "code", None) == "input_schema"
    assert model.requests == []


@pytest.mark.parametrize(("raw_input", "code"), [("x" * 41, "input_too_large"), ("a\0b", "input_encoding"), ("a\ud800b", "input_encoding")])
async def test_text_in_a_field_is_validated_like_text(raw_input: str, code: str):
    app = Interlock(Settings(engine="direct", max_input_bytes=40))
    for one in (raw_input, {"raw_input": raw_input}):
        with pytest.raises(InputError) as caught:
            await app.run("sam", one)
        assert caught.value.code == code


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
async def test_a_result_is_valid_json_with_any_number_of_a_backend(engine: EngineName, number: float):
    result = await take(engine, ScriptedBackend(ModelResponse(status="success", output="hi", metadata={"score": number})))
    json.dumps(result.to_json(), allow_nan=False)


class Endless:
    """A model that never answers."""

    async def generate(self, request: ModelRequest) -> ModelResponse:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_call_stopped_by_the_gate_passes_the_error_router(engine: EngineName):
    grants = {ModelBackend: Endless()}
    result = await Interlock(Settings(engine=engine, max_call_seconds=0.05), grants=grants).run("sam", "hello")
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("timeout", "error_router_node")
    assert "error_router_node" in result.path
