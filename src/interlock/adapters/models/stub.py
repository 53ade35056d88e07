"""The stub: the same reply to everything."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from interlock.adapters.models.rules import in_pieces
from interlock.capabilities.backend import Metadata, ModelRequest, ModelResponse
from interlock.capabilities.model import Chunk, Decision, Message, ModelReply, Tool
from interlock.errors import ModelOutputInvalid

__all__ = ["StubModel", "StubModelBackend"]

T = TypeVar("T", bound=BaseModel)

_NAME = "stub"
_SENTENCE = "This is a stubbed response."


class StubModel:
    """Replies with one fixed sentence, calls no tools, and decides on what is the default."""

    async def reply(
        self,
        messages: Sequence[Message],  # noqa: ARG002 - the same to all
        *,
        tools: Sequence[Tool] = (),  # noqa: ARG002 - likewise
        schema: type[BaseModel] | None = None,  # noqa: ARG002 - likewise
    ) -> ModelReply:
        """Answer without a model."""
        return ModelReply(text=_SENTENCE, model=_NAME)

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        """Answer without a model, word by word."""
        for piece in in_pieces(await self.reply(messages, tools=tools)):
            yield piece

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:  # noqa: ARG002 - the same to all
        """Take the defaults of the class; a class that has fields without one cannot be decided on."""
        try:
            return Decision(value=schema(), model=_NAME)
        except ValidationError as error:
            raise ModelOutputInvalid(f"The stub cannot decide on a '{schema.__name__}': it has fields without a default.") from error


class StubModelBackend:
    """Replies with one fixed sentence; the task `fail` fails."""

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer without a model."""
        metadata: Metadata = {"backend": _NAME, "trace_id": request.trace_id}
        if request.task == "fail":
            return ModelResponse(status="recoverable_error", error_type="invalid_output", metadata=metadata)
        return ModelResponse(status="success", output=_SENTENCE, metadata=metadata)
