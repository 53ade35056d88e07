"""A model that says what a test wants it to say."""

from __future__ import annotations

from interlock.capabilities.model import ModelRequest, ModelResponse

__all__ = ["ScriptedModel"]


class ScriptedModel:
    """Gives its replies one after the other, the last one for ever: text, a whole response, or an exception to raise."""

    def __init__(self, *replies: str | ModelResponse | Exception) -> None:
        self._replies = list(replies) or ["ok"]
        self.requests: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Give the next reply."""
        self.requests.append(request)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, ModelResponse):
            return reply
        return ModelResponse(status="success", output=reply, metadata={"backend": "scripted", "trace_id": request.trace_id})
