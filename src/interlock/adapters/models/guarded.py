"""A model backend that never raises: whatever goes wrong becomes a ModelResponse."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from interlock.capabilities.backend import Metadata, ModelBackend, ModelErrorType, ModelRequest, ModelResponse, ModelStatus
from interlock.contract.values import ValidationError, validator
from interlock.errors import ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable

__all__ = ["GuardedModelBackend", "guarded"]

_check = validator("Generated", {"response": ModelResponse})

_FAILURES: tuple[tuple[type[Exception], ModelStatus, ModelErrorType], ...] = (
    (TimeoutError, "recoverable_error", "timeout"),
    (ModelTimeout, "recoverable_error", "timeout"),
    (ModelUnavailable, "recoverable_error", "backend_unavailable"),
    (ModelRefused, "fatal_error", "backend_unavailable"),
    (ModelOutputInvalid, "recoverable_error", "invalid_output"),
    (ValidationError, "fatal_error", "invalid_output"),
    (OSError, "recoverable_error", "backend_unavailable"),
    (Exception, "fatal_error", "backend_unavailable"),
)
"""The first row that fits."""


async def guarded(ask: Callable[[ModelRequest], Awaitable[ModelResponse]], request: ModelRequest, *, name: str) -> ModelResponse:
    """Ask within the request's time limit; a failure is a response with a status and an error type."""
    try:
        async with asyncio.timeout(request.timeout_s):
            response = await ask(request)
        return _check({"response": response})["response"]
    except Exception as error:  # noqa: BLE001 - a backend may raise anything; the reply says which class it was
        status, error_type = _failure(error)
        metadata: Metadata = {"backend": name, "trace_id": request.trace_id, "cause": type(error).__name__}
        return ModelResponse(status=status, error_type=error_type, metadata=metadata)


def _failure(error: Exception) -> tuple[ModelStatus, ModelErrorType]:
    return next((status, error_type) for known, status, error_type in _FAILURES if isinstance(error, known))


class GuardedModelBackend:
    """Holds a backend to its time limit and to its types."""

    def __init__(self, backend: ModelBackend) -> None:
        self._backend = backend

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Ask the backend; a failure is a response with a status and an error type."""
        return await guarded(self._backend.generate, request, name=type(self._backend).__name__)
