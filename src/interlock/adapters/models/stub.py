"""The stub: the same reply to everything."""

from __future__ import annotations

from interlock.capabilities.model import Metadata, ModelRequest, ModelResponse

__all__ = ["StubModelBackend"]


class StubModelBackend:
    """Replies with one fixed sentence; the task `fail` fails."""

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer without a model."""
        metadata: Metadata = {"backend": "stub", "trace_id": request.trace_id}
        if request.task == "fail":
            return ModelResponse(status="recoverable_error", error_type="invalid_output", metadata=metadata)
        return ModelResponse(status="success", output="This is a stubbed response.", metadata=metadata)
