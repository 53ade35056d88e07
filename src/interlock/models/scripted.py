"""A model that returns the replies of a script: for tests, and for `scripted:FILE`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from interlock.capabilities.model import Chunk, Decision, Message, ModelReply, Tool, join_chunks
from interlock.errors import ModelOutputInvalid, SettingsInvalid
from interlock.models.replies import SCRIPTED, ReplyLine, Scripted, scripted
from interlock.models.rules import split_words

__all__ = ["Scripted", "ScriptedModel", "as_reply"]

T = TypeVar("T", bound=BaseModel)


class ScriptedModel:
    """Returns its replies in order, from any of its methods, and repeats the last one."""

    def __init__(self, *replies: Scripted) -> None:
        self._replies = list(replies) or ["ok"]
        self.messages: list[tuple[Message, ...]] = []

    @classmethod
    def read(cls, path: Path) -> ScriptedModel:
        """Read a script: a JSON list of texts, `{"text", "calls"}`, `{"decide": {...}}` and `{"error": "model_timeout"}`."""
        try:
            lines = _SCRIPT.validate_json(path.read_bytes(), strict=True)
        except OSError as error:
            raise SettingsInvalid(f"The script '{path}' cannot be read ({type(error).__name__}).") from error
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors(include_url=False, include_input=False)[0]["loc"])
            raise SettingsInvalid(f"The script '{path}' is not a JSON list of replies: see {where or 'its syntax'}.") from error
        return cls(*map(scripted, lines))

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),  # noqa: ARG002 - it is scripted
        schema: type[BaseModel] | None = None,  # noqa: ARG002 - it is scripted
    ) -> ModelReply:
        """Return the next reply."""
        self.messages.append(tuple(messages))
        return as_reply(self.next_reply())

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:  # noqa: ARG002 - it is scripted
        """Yield the next reply in the chunks of the script, or word by word."""
        self.messages.append(tuple(messages))
        reply = self.next_reply()
        for chunk in reply if isinstance(reply, list) else split_words(as_reply(reply)):
            yield _chunk(chunk)

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        """Return the next reply as a decision: an instance, or data that validates as one."""
        self.messages.append(tuple(messages))
        reply = self.next_reply()
        if isinstance(reply, schema):
            return Decision(value=reply, model=SCRIPTED)
        try:
            value = schema.model_validate(reply) if isinstance(reply, dict) else schema.model_validate_json(as_reply(reply).text)
        except ValidationError as error:
            raise ModelOutputInvalid(f"The script's reply is not a '{schema.__name__}'.") from error
        return Decision(value=value, model=SCRIPTED)

    def next_reply(self) -> Scripted:
        """Return the next reply of the script, or raise it if it is an exception."""
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply


def as_reply(scripted: Scripted) -> ModelReply:
    """Convert an entry of a script to a reply. The chunks of a stream are joined."""
    match scripted:
        case ModelReply():
            return scripted
        case str():
            return ModelReply(text=scripted, model=SCRIPTED)
        case dict():
            return ModelReply(text=_JSON.dump_json(scripted).decode(), model=SCRIPTED)
        case BaseModel():
            return ModelReply(text=scripted.model_dump_json(), model=SCRIPTED)
        case list():
            return join_chunks(_chunk(chunk) for chunk in scripted)
        case _:
            raise TypeError(f"A '{type(scripted).__name__}' is not a reply of a model.")


def _chunk(scripted: Chunk | str | Exception) -> Chunk:
    if isinstance(scripted, Exception):
        raise scripted
    return Chunk(text=scripted, model=SCRIPTED) if isinstance(scripted, str) else scripted


_JSON: TypeAdapter[Any] = TypeAdapter(Any)
_SCRIPT: TypeAdapter[list[ReplyLine]] = TypeAdapter(list[ReplyLine])
