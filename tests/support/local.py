"""What the tests of the agents with a real small model share: what is said to it, and how their turns end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pydantic import BaseModel

from interlock import Interlock
from interlock.capabilities import Chunk, Decision, Message, ModelReply, Tool
from interlock.models.local import open_local
from interlock.models.offline import OfflineModel
from interlock.models.rules import Rules
from interlock.testing import SwitchedModel

T = TypeVar("T", bound=BaseModel)


def crossed(forms: Sequence[str], subjects: Sequence[str]) -> list[str]:
    """Every form with every subject, in an order that is the same every time."""
    made = [form.replace("{}", subject) for form in forms for subject in subjects]
    random.Random(7).shuffle(made)  # noqa: S311 - no secret
    return made


class PartlyByRule(SwitchedModel):
    """A real model in whose place rules can decide, so that what comes after a good decision is heard as well.

    They decide what is asked of them `by_rule`: one of some schemas, or of any.
    """

    def __init__(self, model: Any, rules: Rules, *of: type[BaseModel]) -> None:
        super().__init__(model)
        self._rules, self._of = OfflineModel(rules), of
        self.by_rule = False
        self.asked = 0

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        if schema is not None and self._is_ruled(schema):
            return await self._rules.reply(messages, schema=schema)
        self.asked += 1
        return await super().reply(messages, tools=tools, schema=schema)

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        self.asked += 1
        async for piece in super().stream(messages, tools=tools):
            yield piece

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        if self._is_ruled(schema):
            return await self._rules.decide(messages, schema=schema)
        self.asked += 1
        return await super().decide(messages, schema=schema)

    def _is_ruled(self, schema: type[BaseModel]) -> bool:
        return self.by_rule and (not self._of or schema in self._of)


@asynccontextmanager
async def local_model(rules: Rules, *of: type[BaseModel], max_tokens: int) -> AsyncGenerator[PartlyByRule]:
    """The real model, for as long as it is needed."""
    model: Any = open_local(None, max_tokens=max_tokens, max_reply_bytes=1 << 20, timeout_s=120)
    try:
        yield PartlyByRule(model, rules, *of)
    finally:
        await model.aclose()


async def take_all(app: Interlock, agent: str, said: Sequence[str], model: PartlyByRule, *, endings: Collection[str]) -> Counter[str]:
    """Say everything to an agent, the last three with decisions by rule; every turn ends in one of these ways. Count them."""
    ended: Counter[str] = Counter()
    for number, text in enumerate(said):
        model.by_rule = number >= len(said) - 3  # at the end: what the model has read it need not read again
        result = await app.run(agent, text, session=f"local-{number % 7}")
        code = "success" if result.error is None else result.error.code
        assert code in endings, result.error
        ended[code] += 1
        if result.error is None:
            assert result.output.strip()
        else:
            assert result.error.node is not None
    return ended
