"""A scripted model backend, for tests of sam and of nodes that are granted a ModelBackend."""

from __future__ import annotations

from typing import Any, cast

from interlock.models.replies import SCRIPTED
from interlock.models.scripted import Scripted, ScriptedModel, as_reply
from interlock_agents.sam.capabilities import ModelRequest, ModelResponse

__all__ = ["ScriptedBackend"]


class ScriptedBackend(ScriptedModel):
    """Gives its replies one after the other, the last one for ever. A reply may also be a whole ModelResponse."""

    def __init__(self, *replies: Scripted | ModelResponse) -> None:
        super().__init__(*cast("Any", replies))
        self.requests: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Return the next reply as a response."""
        self.requests.append(request)
        reply: Scripted | ModelResponse = self.next_reply()
        if isinstance(reply, ModelResponse):
            return reply
        return ModelResponse(status="success", output=as_reply(reply).text, metadata={"backend": SCRIPTED, "trace_id": request.trace_id})
