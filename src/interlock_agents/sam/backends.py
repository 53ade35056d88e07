"""Model backends: one from a Model, a wrapper for a backend that may raise, and the stub. A failure is always a ModelResponse."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import cast

from interlock.capabilities.model import Chunk, Message, Model, ModelReply, join_chunks
from interlock.contract.schema import ValidationError, record_validator
from interlock.errors import ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable
from interlock.models.stub import STUB_REPLY
from interlock_agents.sam.capabilities import Metadata, ModelBackend, ModelErrorType, ModelRequest, ModelResponse, ModelStatus

__all__ = ["BackendFromModel", "SafeBackend", "StubBackend", "errors_as_values", "failed"]

_check = record_validator("Generated", {"response": ModelResponse})

_FAILURES: tuple[tuple[type[Exception], ModelStatus, ModelErrorType, str], ...] = (
    (ModelTimeout, "recoverable_error", "timeout", ""),
    (ModelUnavailable, "recoverable_error", "backend_unavailable", ""),
    (ModelRefused, "fatal_error", "backend_unavailable", ""),
    (ModelOutputInvalid, "recoverable_error", "invalid_output", ""),
    (TimeoutError, "recoverable_error", "timeout", "The model did not answer in time."),
    (ValidationError, "fatal_error", "invalid_output", "The model's backend returned something that is not a response."),
    (OSError, "recoverable_error", "backend_unavailable", "The model cannot be reached."),
    (Exception, "fatal_error", "backend_unavailable", "The model's backend failed in an unexpected way."),
)
"""The first matching row applies. Only the message of a ModelError is shown; other exceptions get the text of their row."""


async def errors_as_values(call: Callable[[ModelRequest], Awaitable[ModelResponse]], request: ModelRequest, *, name: str) -> ModelResponse:
    """Call the backend within the request's time limit. Return a failure as a response with status, error type and reason."""
    try:
        async with asyncio.timeout(request.timeout_s):
            response = await call(request)
        return _check({"response": response})["response"]
    except Exception as error:  # noqa: BLE001 - a backend may raise anything
        return failed(error, name=name, trace_id=request.trace_id)


def failed(error: Exception, *, name: str, trace_id: str | None) -> ModelResponse:
    """Convert an error to a response. The metadata has the error's code and message."""
    status, error_type, message = next(row[1:] for row in _FAILURES if isinstance(error, row[0]))
    cause, reason = (error.code, error.message) if isinstance(error, ModelError) else (error_type, message)
    metadata: Metadata = {"backend": name, "trace_id": trace_id, "cause": cause, "reason": reason}
    rejected = error.rejected if isinstance(error, ModelError) else None
    if rejected is not None and rejected.input_tokens is not None:
        metadata |= {"input_tokens": rejected.input_tokens, "output_tokens": rejected.output_tokens}
    return ModelResponse(status=status, error_type=error_type, metadata=metadata)


class SafeBackend:
    """Wraps a backend: enforces the time limit, validates the response and converts errors to responses."""

    def __init__(self, backend: ModelBackend) -> None:
        self._backend = backend
        self._takes_chunks = "on_chunk" in inspect.signature(backend.generate).parameters

    async def generate(self, request: ModelRequest, *, on_chunk: Callable[[str], None] | None = None) -> ModelResponse:
        extras = {"on_chunk": on_chunk} if self._takes_chunks else {}
        call: Callable[[ModelRequest], Awaitable[ModelResponse]] = partial(self._backend.generate, **extras)
        return await errors_as_values(call, request, name=type(self._backend).__name__)


class BackendFromModel:
    """Implements ModelBackend with a Model: the context is the system message, prompt and image are the user message."""

    def __init__(self, model: Model, *, name: str) -> None:
        self._model = model
        self._name = name

    async def generate(self, request: ModelRequest, *, on_chunk: Callable[[str], None] | None = None) -> ModelResponse:
        """Call the model once, within the request's time limit. `on_chunk` receives the answer in chunks as it arrives."""
        return await errors_as_values(partial(self._call, on_chunk=on_chunk), request, name=self._name)

    async def _call(self, request: ModelRequest, *, on_chunk: Callable[[str], None] | None) -> ModelResponse:
        context = [Message(role="system", text=request.context)] if request.context else []
        images = () if request.image is None else (request.image,)
        reply = await self._answer([*context, Message(role="user", text=request.prompt, images=images)], on_chunk)
        metadata: Metadata = {"backend": self._name, "trace_id": request.trace_id, "model": reply.model}
        if reply.usage is not None:
            metadata |= {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
        return ModelResponse(status="success", output=reply.text, metadata=metadata)

    async def _answer(self, messages: list[Message], on_chunk: Callable[[str], None] | None) -> ModelReply:
        """Call the model, streaming if there is a listener for chunks."""
        if on_chunk is None:
            return await self._model.reply(messages)
        chunks: list[Chunk] = []
        async with aclosing(cast("AsyncGenerator[Chunk, None]", self._model.stream(messages))) as stream:
            async for chunk in stream:
                on_chunk(chunk.text)
                chunks.append(chunk)
        return join_chunks(chunks)


class StubBackend:
    """Replies with one fixed sentence; the task `fail` fails."""

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer without a model."""
        metadata: Metadata = {"backend": "stub", "trace_id": request.trace_id}
        if request.task == "fail":
            return ModelResponse(status="recoverable_error", error_type="invalid_output", metadata=metadata)
        return ModelResponse(status="success", output=STUB_REPLY, metadata=metadata)
