"""A model backend that never raises: whatever goes wrong becomes a ModelResponse."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial

from interlock.capabilities.backend import Metadata, ModelBackend, ModelErrorType, ModelRequest, ModelResponse, ModelStatus
from interlock.contract.schema import ValidationError, record_validator
from interlock.errors import ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable

__all__ = ["GuardedModelBackend", "failed", "guarded"]

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
"""The first row that fits. A model's error says in its own words what happened; no text of another is shown."""


async def guarded(ask: Callable[[ModelRequest], Awaitable[ModelResponse]], request: ModelRequest, *, name: str) -> ModelResponse:
    """Ask within the request's time limit; a failure is a response with a status, an error type and the reason in words."""
    try:
        async with asyncio.timeout(request.timeout_s):
            response = await ask(request)
        return _check({"response": response})["response"]
    except Exception as error:  # noqa: BLE001 - a backend may raise anything
        return failed(error, name=name, trace_id=request.trace_id)


def failed(error: Exception, *, name: str, trace_id: str | None) -> ModelResponse:
    """Make a response of a failure: what happened is in its metadata, as the code and the message of the error."""
    status, error_type, says = next(row[1:] for row in _FAILURES if isinstance(error, row[0]))
    cause, reason = (error.code, error.message) if isinstance(error, ModelError) else (error_type, says)
    metadata: Metadata = {"backend": name, "trace_id": trace_id, "cause": cause, "reason": reason}
    return ModelResponse(status=status, error_type=error_type, metadata=metadata)


class GuardedModelBackend:
    """Holds a backend to its time limit and to its types."""

    def __init__(self, backend: ModelBackend) -> None:
        self._backend = backend
        self._takes_chunks = "on_chunk" in inspect.signature(backend.generate).parameters

    async def generate(self, request: ModelRequest, *, on_chunk: Callable[[str], None] | None = None) -> ModelResponse:
        """Ask the backend; a failure is a response with a status and an error type."""
        extras = {"on_chunk": on_chunk} if self._takes_chunks else {}
        ask: Callable[[ModelRequest], Awaitable[ModelResponse]] = partial(self._backend.generate, **extras)
        return await guarded(ask, request, name=type(self._backend).__name__)
