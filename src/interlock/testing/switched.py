"""A model that passes its calls on to another one, which can be replaced."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TypeVar

from pydantic import BaseModel

from interlock.capabilities.model import Chunk, Decision, Message, Model, ModelReply, Tool
from interlock.models.scripted import ScriptedModel

__all__ = ["SwitchedModel"]

T = TypeVar("T", bound=BaseModel)


class SwitchedModel:
    """Passes every call on to the model in `now`, so that tests can share one application and each use a model of its own."""

    def __init__(self, now: Model | None = None) -> None:
        self.now: Model = now or ScriptedModel()

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        """Return the reply of the current model."""
        return await self.now.reply(messages, tools=tools, schema=schema)

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        """Stream the reply of the current model."""
        async for chunk in self.now.stream(messages, tools=tools):
            yield chunk

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        """Return the decision of the current model."""
        return await self.now.decide(messages, schema=schema)
