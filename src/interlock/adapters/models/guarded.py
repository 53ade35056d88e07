"""A model backend that never raises: whatever goes wrong becomes a ModelResponse."""

from __future__ import annotations

import asyncio

from interlock.capabilities.model import Metadata, ModelBackend, ModelErrorType, ModelRequest, ModelResponse, ModelStatus
from interlock.contract.values import ValidationError, validator

__all__ = ["GuardedModelBackend"]

_check = validator("Generated", {"response": ModelResponse})


class GuardedModelBackend:
    """Holds a backend to its time limit and to its types."""

    def __init__(self, backend: ModelBackend) -> None:
        self._backend = backend

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Ask the backend; a failure is a response with a status and an error type."""
        try:
            async with asyncio.timeout(request.timeout_s):
                response = await self._backend.generate(request)
            return _check({"response": response})["response"]
        except TimeoutError as error:
            return self._failure(request, error, "recoverable_error", "timeout")
        except ValidationError as error:
            return self._failure(request, error, "fatal_error", "invalid_output")
        except OSError as error:
            return self._failure(request, error, "recoverable_error", "backend_unavailable")
        except Exception as error:  # noqa: BLE001 - a backend may raise anything; the reply says which class it was
            return self._failure(request, error, "fatal_error", "backend_unavailable")

    def _failure(self, request: ModelRequest, error: Exception, status: ModelStatus, error_type: ModelErrorType) -> ModelResponse:
        metadata: Metadata = {
            "backend": type(self._backend).__name__,
            "trace_id": request.trace_id,
            "cause": type(error).__name__,
        }
        return ModelResponse(status=status, error_type=error_type, metadata=metadata)
