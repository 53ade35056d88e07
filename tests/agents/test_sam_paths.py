from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from interlock import Interlock, Settings, TurnResult
from interlock.adapters.models.guarded import GuardedModelBackend
from interlock.agents.sam.nodes import MESSAGES
from interlock.capabilities import Clock, Ids, ModelBackend, ModelRequest, ModelResponse
from interlock.engine import EngineName
from interlock.errors import InputError, MediaUnsupported
from interlock.testing import CountingIds, FixedClock, ScriptedModel

ASKED = (
    "router_node",
    "state_init_node",
    "decision_logic_node",
    "task_preprocessing_node",
    "decision_logic_node",
    "model_call_node",
)
REFUSED = (*ASKED, "error_router_node", "format_response_node")
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
            return await GuardedModelBackend(Hanging()).generate(replace(request, timeout_s=0.01))


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
    ("raises", ScriptedModel(RuntimeError("hunter2")), "backend_unavailable"),
    ("raises a typed error", ScriptedModel(MediaUnsupported("hunter2")), "backend_unavailable"),
    ("connection error", ScriptedModel(ConnectionError("hunter2")), "backend_unavailable"),
    ("connection refused", ScriptedModel(ConnectionRefusedError("hunter2")), "backend_unavailable"),
    ("timeout error", ScriptedModel(TimeoutError("hunter2")), "timeout"),
    ("hangs", Impatient(), "timeout"),
    ("refuses", ScriptedModel(refusal("invalid_output")), "invalid_output"),
    ("refuses for now", ScriptedModel(refusal("timeout", "recoverable_error")), "timeout"),
    ("refuses without a reason", ScriptedModel(refusal()), "backend_unavailable"),
    ("nothing", Odd(None), "invalid_output"),
    ("bare text", Odd("hi"), "invalid_output"),
    ("a dict", Odd({"status": "success", "output": 1}), "invalid_output"),
    ("a wrong status", ScriptedModel(ModelResponse(status="ok", output="hi")), "invalid_output"),  # pyright: ignore[reportArgumentType]
    ("output that is no text", ScriptedModel(ModelResponse(status="success", output=b"hi")), "invalid_output"),  # pyright: ignore[reportArgumentType]
    ("a lone surrogate", ScriptedModel("a \ud800 b"), "invalid_output"),
]


@pytest.mark.parametrize(("backend", "code"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES])
async def test_a_model_that_fails_in_any_way_is_a_typed_error_by_way_of_the_error_router(engine: EngineName, backend: object, code: Any):
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
async def test_a_blank_answer_is_an_error_that_decision_logic_sends_to_the_error_router(engine: EngineName, reply: str | ModelResponse):
    result = await take(engine, ScriptedModel(reply))
    assert result.path == BLANK
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("invalid_output", "error_router_node")
    assert result.output == MESSAGES["invalid_output"]


async def test_a_hanging_backend_is_stopped_at_its_time_limit():
    backend = Hanging()
    async with asyncio.timeout(5):  # so that a missing limit fails here instead of hanging
        response = await GuardedModelBackend(backend).generate(ModelRequest(prompt="hi", timeout_s=0.01, trace_id="t"))
    assert (response.status, response.error_type, response.output) == ("recoverable_error", "timeout", None)
    assert response.metadata == {"backend": "Hanging", "trace_id": "t", "cause": "timeout", "reason": "The model did not answer in time."}
    assert backend.cancelled


async def test_a_caller_who_goes_away_is_not_answered_with_a_timeout():
    backend = Hanging()
    call = asyncio.create_task(GuardedModelBackend(backend).generate(ModelRequest(prompt="hi")))
    await backend.asked.wait()
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    assert backend.cancelled


async def test_the_model_is_asked_the_text_with_the_turns_trace_id_and_half_a_minute(engine: EngineName):
    model = ScriptedModel("hi")
    result = await take(engine, model, "  Caf\u0065\u0301\tau\n lait ")
    (request,) = model.requests
    assert request == ModelRequest(task="respond", prompt="Café au lait", timeout_s=30.0, trace_id=result.state["trace_id"])


async def test_text_that_is_too_long_is_refused_before_the_model_is_asked(engine: EngineName):
    model = ScriptedModel("never asked")
    result = await take(engine, model, "x" * 32_001)
    assert result.path == (*ASKED[:5], "error_router_node", "format_response_node")
    assert result.error is not None
    assert result.error.code == "input_too_large"
    assert model.requests == []


async def test_ids_that_are_asked_for_are_kept(engine: EngineName):
    result = await take(engine, ScriptedModel("hi"), {"raw_input": "hello", "conversation_id": "c-7", "trace_id": "t-7"})
    response = result.state["response"]
    assert (response.conversation_id, response.trace_id) == ("c-7", "t-7")
    assert result.metadata["trace_id"] == "t-7"


async def test_ids_that_nobody_asks_for_are_made(engine: EngineName):
    result = await take(engine, ScriptedModel("hi"), {"raw_input": "hello", "conversation_id": "", "trace_id": ""})
    assert (result.turn, result.state["conversation_id"], result.state["trace_id"]) == ("id-1", "id-2", "id-3")


async def test_a_session_is_the_conversation_of_fields_too(engine: EngineName):
    result = await take(engine, ScriptedModel("hi"), {"raw_input": "hello"}, session="my-session")
    assert result.session == result.state["conversation_id"] == "my-session"


async def test_a_session_is_the_conversation(engine: EngineName):
    result = await take(engine, ScriptedModel("hi"), session="my-session")
    assert result.session == result.state["conversation_id"] == "my-session"


async def test_a_turn_without_a_session_begins_one(engine: EngineName):
    result = await take(engine, ScriptedModel("hi"))
    assert result.session == result.turn == result.state["conversation_id"]


async def test_the_reply_has_everything_the_document_promises(engine: EngineName):
    result = await take(engine, ScriptedModel("hi"), {"raw_input": "hello", "conversation_id": "c", "trace_id": "t"})
    assert result.to_json()["state"] == {
        "conversation_id": "c",
        "trace_id": "t",
        "created_at": "2026-01-01T00:00:00+00:00",
        "input_type": "text",
        "raw_input": "hello",
        "preprocessing_result": {"content": "hello", "problem": None},
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
    model = ScriptedModel("never asked")
    with pytest.raises(Exception, match=f"'{field}' cannot be set from outside") as caught:
        await take(engine, model, {"raw_input": "hello", field: "success"})
    assert getattr(caught.value, "code", None) == "input_schema"
    assert model.requests == []


@pytest.mark.parametrize(("raw_input", "code"), [("x" * 41, "input_too_large"), ("a\0b", "input_encoding"), ("a\ud800b", "input_encoding")])
async def test_text_is_held_to_the_same_rules_in_a_field_as_on_its_own(raw_input: str, code: str):
    app = Interlock(Settings(engine="direct", max_input_bytes=40))
    for given in (raw_input, {"raw_input": raw_input}):
        with pytest.raises(InputError) as caught:
            await app.run("sam", given)
        assert caught.value.code == code


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
async def test_a_result_is_valid_json_whatever_number_a_backend_reports(engine: EngineName, number: float):
    result = await take(engine, ScriptedModel(ModelResponse(status="success", output="hi", metadata={"score": number})))
    json.dumps(result.to_json(), allow_nan=False)


class Endless:
    """A model that never answers."""

    async def generate(self, request: ModelRequest) -> ModelResponse:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_call_that_the_gate_ends_passes_the_error_router_too(engine: EngineName):
    grants = {ModelBackend: Endless()}
    result = await Interlock(Settings(engine=engine, max_call_seconds=0.05), grants=grants).run("sam", "hello")
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("timeout", "error_router_node")
    assert "error_router_node" in result.path
