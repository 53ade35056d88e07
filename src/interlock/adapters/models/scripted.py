"""A model that follows a script: for tests, and for `scripted:FILE`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from interlock.adapters.models.replies import SCRIPTED, ReplyLine, Scripted, scripted
from interlock.adapters.models.rules import in_pieces
from interlock.capabilities.backend import ModelRequest, ModelResponse
from interlock.capabilities.model import Chunk, Decision, Message, ModelReply, Tool, join_chunks
from interlock.errors import ModelOutputInvalid, SettingsInvalid

__all__ = ["Scripted", "ScriptedModel"]

T = TypeVar("T", bound=BaseModel)


class ScriptedModel:
    """Gives its replies one after the other, the last one for ever, whichever way it is asked."""

    def __init__(self, *replies: Scripted) -> None:
        self._replies = list(replies) or ["ok"]
        self.requests: list[ModelRequest] = []
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

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Give the next reply as a response."""
        self.requests.append(request)
        reply = self._next()
        if isinstance(reply, ModelResponse):
            return reply
        return ModelResponse(status="success", output=_reply(reply).text, metadata={"backend": SCRIPTED, "trace_id": request.trace_id})

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),  # noqa: ARG002 - it is scripted
        schema: type[BaseModel] | None = None,  # noqa: ARG002 - likewise
    ) -> ModelReply:
        """Give the next reply."""
        self.messages.append(tuple(messages))
        return _reply(self._next())

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:  # noqa: ARG002 - it is scripted
        """Give the next reply in the pieces of the script, else word by word."""
        self.messages.append(tuple(messages))
        reply = self._next()
        for piece in reply if isinstance(reply, list) else in_pieces(_reply(reply)):
            yield _piece(piece)

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        """Give the next reply as a decision: an instance, or what validates as one."""
        self.messages.append(tuple(messages))
        reply = self._next()
        if isinstance(reply, schema):
            return Decision(value=reply, model=SCRIPTED)
        try:
            value = schema.model_validate(reply) if isinstance(reply, dict) else schema.model_validate_json(_reply(reply).text)
        except ValidationError as error:
            raise ModelOutputInvalid(f"The script's reply is not a '{schema.__name__}'.") from error
        return Decision(value=value, model=SCRIPTED)

    def _next(self) -> Scripted:
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply


def _reply(scripted: Scripted) -> ModelReply:
    """Say as a whole what stands in a script."""
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
            return join_chunks(_piece(piece) for piece in scripted)
        case _:
            raise TypeError(f"A script's '{type(scripted).__name__}' is for 'generate' only.")


def _piece(scripted: Chunk | str | Exception) -> Chunk:
    if isinstance(scripted, Exception):
        raise scripted
    return Chunk(text=scripted, model=SCRIPTED) if isinstance(scripted, str) else scripted


_JSON: TypeAdapter[Any] = TypeAdapter(Any)
_SCRIPT: TypeAdapter[list[ReplyLine]] = TypeAdapter(list[ReplyLine])
