"""A model in whose place another can be put."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TypeVar

from pydantic import BaseModel

from interlock.adapters.models.scripted import ScriptedModel
from interlock.capabilities.model import Chunk, Decision, Message, Model, ModelReply, Tool

__all__ = ["SwitchedModel"]

T = TypeVar("T", bound=BaseModel)


class SwitchedModel:
    """Passes everything on to the model that is its `now`: an application is made once, and each test gives it a model of its own."""

    def __init__(self, now: Model | None = None) -> None:
        self.now: Model = now or ScriptedModel()

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        """Answer as that model does."""
        return await self.now.reply(messages, tools=tools, schema=schema)

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        """Answer in pieces as that model does."""
        async for piece in self.now.stream(messages, tools=tools):
            yield piece

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        """Decide as that model does."""
        return await self.now.decide(messages, schema=schema)
