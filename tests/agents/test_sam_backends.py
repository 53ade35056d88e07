"""One question over a model that converses: what is asked, and every failure as a value."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from interlock.capabilities.model import Chunk, Message, ModelReply, Tool, Usage
from interlock.errors import BudgetExceeded, ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable
from interlock.testing import ScriptedModel
from interlock_agents.sam.backends import BackendFromModel
from interlock_agents.sam.capabilities import ModelRequest, ModelResponse


async def test_a_request_becomes_messages() -> None:
    model = ScriptedModel(ModelReply(text="a dot", model="tiny", usage=Usage(input_tokens=2, output_tokens=1)))
    request = ModelRequest(prompt="What is it?", context="Be brief.", image="data:image/png;base64,AAAA", trace_id="t-1")
    response = await BackendFromModel(model, name="tests").generate(request)
    assert response == ModelResponse(
        status="success",
        output="a dot",
        metadata={"backend": "tests", "trace_id": "t-1", "model": "tiny", "input_tokens": 2, "output_tokens": 1},
    )
    assert response.usage == Usage(input_tokens=2, output_tokens=1)
    assert model.messages == [
        (
            Message(role="system", text="Be brief."),
            Message(role="user", text="What is it?", images=("data:image/png;base64,AAAA",)),
        )
    ]


async def test_empty_parts_of_a_request_are_left_out() -> None:
    model = ScriptedModel("hi")
    response = await BackendFromModel(model, name="tests").generate(ModelRequest(prompt="hello"))
    assert response.metadata == {"backend": "tests", "trace_id": None, "model": "scripted"}
    assert model.messages == [(Message(role="user", text="hello"),)]


@pytest.mark.parametrize(
    ("error", "status", "error_type", "reason"),
    [
        (ModelTimeout(), "recoverable_error", "timeout", "The model did not answer in time."),
        (TimeoutError("hunter2"), "recoverable_error", "timeout", "The model did not answer in time."),
        (ModelUnavailable("It is down."), "recoverable_error", "backend_unavailable", "It is down."),
        (ConnectionResetError("hunter2"), "recoverable_error", "backend_unavailable", "The model cannot be reached."),
        (ModelRefused("Check the key."), "fatal_error", "backend_unavailable", "Check the key."),
        (ModelOutputInvalid("It is empty."), "recoverable_error", "invalid_output", "It is empty."),
        (BudgetExceeded("hunter2"), "fatal_error", "backend_unavailable", "The model's backend failed in an unexpected way."),
        (RuntimeError("hunter2"), "fatal_error", "backend_unavailable", "The model's backend failed in an unexpected way."),
    ],
)
async def test_a_failure_is_a_response(error: Exception, status: str, error_type: str, reason: str) -> None:
    response = await BackendFromModel(ScriptedModel(error), name="tests").generate(ModelRequest(prompt="hello", trace_id="t-1"))
    assert (response.status, response.error_type, response.output) == (status, error_type, None)
    cause = error.code if isinstance(error, ModelError) else error_type
    assert response.metadata == {"backend": "tests", "trace_id": "t-1", "cause": cause, "reason": reason}


class Hanging:
    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: object = None) -> ModelReply:
        await asyncio.Event().wait()
        raise AssertionError

    def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncIterator[Chunk]:
        raise AssertionError

    async def decide(self, messages: Sequence[Message], *, schema: type[Any]) -> Any:
        raise AssertionError


async def test_the_time_limit_of_the_request_is_enforced() -> None:
    response = await BackendFromModel(Hanging(), name="tests").generate(ModelRequest(prompt="hello", timeout_s=0.01))
    assert (response.status, response.error_type) == ("recoverable_error", "timeout")


async def test_cancellation_is_not_a_response() -> None:
    asking = asyncio.create_task(BackendFromModel(Hanging(), name="tests").generate(ModelRequest(prompt="hello")))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize(("reported", "tokens"), [(-5, 0), (True, 0), ("many", 0), (None, 0), (5, 5)])
def test_invalid_token_counts_are_ignored(reported: Any, tokens: int):
    response = ModelResponse(status="success", metadata={"input_tokens": reported, "output_tokens": 1})
    assert response.usage == Usage(input_tokens=tokens, output_tokens=1)
