"""The replies of a ScriptedModel as JSON in scripts and scenarios: text, tool calls, a decision or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, field_validator

from interlock.capabilities.model import Chunk, ModelReply, ToolCall
from interlock.errors import ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable

__all__ = ["SCRIPTED", "ReplyLine", "Scripted", "scripted"]

SCRIPTED = "scripted"
"""The `model` of scripted replies."""

Scripted: TypeAlias = "str | ModelReply | BaseModel | dict[str, Any] | list[Chunk | str | Exception] | Exception"
"""An entry of a script: text, a reply, a decision, the chunks of a stream, or an exception to raise."""

_ERRORS: Mapping[str, type[ModelError]] = {kind.code: kind for kind in (ModelTimeout, ModelUnavailable, ModelRefused, ModelOutputInvalid)}


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _CallEntry(_Entry):
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    id: str | None = None


class _ReplyEntry(_Entry):
    text: str = ""
    calls: tuple[_CallEntry, ...] = ()

    def scripted(self) -> Scripted:
        calls = (
            ToolCall(id=call.id or f"call-{number}", name=call.name, arguments=call.arguments) for number, call in enumerate(self.calls, 1)
        )
        return ModelReply(text=self.text, calls=tuple(calls), model=SCRIPTED)


class _DecisionEntry(_Entry):
    decide: dict[str, JsonValue]

    def scripted(self) -> Scripted:
        return self.decide


class _ErrorEntry(_Entry):
    error: str

    @field_validator("error")
    @classmethod
    def _check_error(cls, code: str) -> str:
        if code not in _ERRORS:
            raise ValueError(f"it must be one of {', '.join(_ERRORS)}")
        return code

    def scripted(self) -> Scripted:
        return _ERRORS[self.error]()


def _kind_of(reply: Any) -> str:
    """Return the kind of an entry by its keys, so that a validation error is about that kind only."""
    if isinstance(reply, str):
        return "text"
    return next((kind for kind in ("decide", "error") if isinstance(reply, Mapping) and kind in reply), "reply")


ReplyLine: TypeAlias = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[_ReplyEntry, Tag("reply")]
    | Annotated[_DecisionEntry, Tag("decide")]
    | Annotated[_ErrorEntry, Tag("error")],
    Discriminator(_kind_of),
]
"""One reply: text, `{decide}`, `{text, calls}` or `{error}`."""


def scripted(line: ReplyLine) -> Scripted:
    """Convert a reply from JSON to an entry of a script."""
    return line if isinstance(line, str) else line.scripted()
