"""A model that always returns the same reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from interlock.capabilities.model import Chunk, Decision, Message, ModelReply, Tool
from interlock.errors import ModelOutputInvalid
from interlock.models.rules import split_words

__all__ = ["STUB_REPLY", "StubModel"]

T = TypeVar("T", bound=BaseModel)

_NAME = "stub"
STUB_REPLY = "This is a stubbed response."
"""The reply of the stub."""


class StubModel:
    """Returns one fixed sentence, calls no tools, and decides with the defaults of the class."""

    async def reply(
        self,
        messages: Sequence[Message],  # noqa: ARG002 - the reply is fixed
        *,
        tools: Sequence[Tool] = (),  # noqa: ARG002
        schema: type[BaseModel] | None = None,  # noqa: ARG002
    ) -> ModelReply:
        """Return the fixed reply."""
        return ModelReply(text=STUB_REPLY, model=_NAME)

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        """Yield the fixed reply word by word."""
        for chunk in split_words(await self.reply(messages, tools=tools)):
            yield chunk

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:  # noqa: ARG002
        """Return an instance with the defaults of the class. Raises ModelOutputInvalid if a field has no default."""
        try:
            return Decision(value=schema(), model=_NAME)
        except ValidationError as error:
            raise ModelOutputInvalid(f"The stub cannot create a '{schema.__name__}': it has fields without a default.") from error
