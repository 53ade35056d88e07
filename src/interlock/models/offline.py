"""A model that answers by an agent's deterministic rules."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from interlock.capabilities.model import Chunk, Decision, Message, ModelReply, Tool
from interlock.errors import ModelOutputInvalid
from interlock.models.rules import Rules, split_words

__all__ = ["OfflineModel"]

T = TypeVar("T", bound=BaseModel)

_NAME = "offline rules"


class OfflineModel:
    """Answers by an agent's rules. The `model` of its replies is "offline rules"."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        """Answer by the rules. With a schema, the answer is the decision as JSON."""
        if schema is not None:
            decision = await self.decide(messages, schema=schema)
            return ModelReply(text=decision.value.model_dump_json(by_alias=True), model=_NAME)
        reply = self._rules.reply(messages, tools)
        return ModelReply(text=reply, model=_NAME) if isinstance(reply, str) else replace(reply, model=_NAME)

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        """Answer by the rules, word by word."""
        for chunk in split_words(await self.reply(messages, tools=tools)):
            yield chunk

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        """Decide by the rules."""
        value: object = self._rules.decide(messages, schema)
        if not isinstance(value, schema):
            raise ModelOutputInvalid(f"The offline rules returned a '{type(value).__name__}', not a '{schema.__name__}'.")
        return Decision(value=value, model=_NAME)
