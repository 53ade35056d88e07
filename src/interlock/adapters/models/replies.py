"""What a model is made to say, as it stands in scripts and scenes: text, calls of tools, a decision, an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, field_validator

from interlock.capabilities.backend import ModelResponse
from interlock.capabilities.model import Chunk, ModelReply, ToolCall
from interlock.errors import ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable

__all__ = ["SCRIPTED", "ReplyLine", "Scripted", "scripted"]

SCRIPTED = "scripted"
"""Who says it."""

Scripted: TypeAlias = "str | ModelReply | ModelResponse | BaseModel | dict[str, Any] | list[Chunk | str | Exception] | Exception"
"""What a script has: text, a reply, a decision, a list of what a stream yields, an exception to raise; a response is for `generate`."""

_ERRORS: Mapping[str, type[ModelError]] = {kind.code: kind for kind in (ModelTimeout, ModelUnavailable, ModelRefused, ModelOutputInvalid)}


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Called(_Line):
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    id: str | None = None


class _Said(_Line):
    text: str = ""
    calls: tuple[_Called, ...] = ()

    def scripted(self) -> Scripted:
        calls = (
            ToolCall(id=call.id or f"call-{number}", name=call.name, arguments=call.arguments) for number, call in enumerate(self.calls, 1)
        )
        return ModelReply(text=self.text, calls=tuple(calls), model=SCRIPTED)


class _Decided(_Line):
    decide: dict[str, JsonValue]

    def scripted(self) -> Scripted:
        return self.decide


class _Failed(_Line):
    error: str

    @field_validator("error")
    @classmethod
    def _check_error(cls, code: str) -> str:
        if code not in _ERRORS:
            raise ValueError(f"it is one of {', '.join(_ERRORS)}")
        return code

    def scripted(self) -> Scripted:
        return _ERRORS[self.error]()


def _kind_of(reply: Any) -> str:
    """Tell the kind of a reply by what it has, so that the reason why one is invalid is about that kind alone."""
    if isinstance(reply, str):
        return "text"
    return next((kind for kind in ("decide", "error") if isinstance(reply, Mapping) and kind in reply), "said")


ReplyLine: TypeAlias = Annotated[
    Annotated[str, Tag("text")] | Annotated[_Said, Tag("said")] | Annotated[_Decided, Tag("decide")] | Annotated[_Failed, Tag("error")],
    Discriminator(_kind_of),
]
"""One reply: text, `{decide}`, `{text, calls}` or `{error}`."""


def scripted(line: ReplyLine) -> Scripted:
    """Return a reply as a ScriptedModel takes it."""
    return line if isinstance(line, str) else line.scripted()
