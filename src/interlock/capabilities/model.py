"""A language model: a reply, a reply as it comes, a decision of a given shape, calls of tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, JsonValue

from interlock.capabilities.capability import Capability, emits

__all__ = ["Chunk", "Decision", "Message", "Model", "ModelReply", "Role", "Tool", "ToolCall", "Usage", "join_chunks"]

Role = Literal["system", "user", "assistant", "tool"]
T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A tool that the model wants called. The id tells this call from others of the same reply."""

    id: str
    name: str
    arguments: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class Message:
    """Something said in a conversation: text, images as data URIs, an assistant's calls, or a tool's answer to one of them."""

    role: Role
    text: str = ""
    images: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    """For a tool's message: the id of the call that it answers."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool that a model may call: its parameters are a JSON schema."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """How many tokens a call of the model took."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """What the model said: text, calls, or both. An adapter refuses a reply that has neither."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    """Who answered."""
    usage: Usage | None = None


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A part of a reply that comes in chunks: the text since the last one. Calls and usage come with the last."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, kw_only=True)
class Decision(Generic[T]):
    """An instance of the class that was asked for, validated."""

    value: T
    model: str = ""
    usage: Usage | None = None


class Model(Capability, Protocol):
    """Answers messages. Raises a ModelError where it cannot: late, unreachable, refused, or with output that is no use."""

    @emits("chat_model")
    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        """Answer, or ask for tools to be called.

        With a schema the model is asked for JSON of that shape; whether its text is that is for the caller to find out.
        """
        ...

    @emits("chat_model")
    def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncIterator[Chunk]:
        """Answer chunk by chunk: `async for chunk in model.stream(...)`."""
        ...

    @emits("chat_model")
    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        """Answer with an instance of a pydantic class."""
        ...


def join_chunks(chunks: Iterable[Chunk]) -> ModelReply:
    """Put the chunks of a reply together."""
    text: list[str] = []
    calls: list[ToolCall] = []
    model, usage = "", None
    for chunk in chunks:
        text.append(chunk.text)
        calls.extend(chunk.calls)
        model = chunk.model or model
        usage = chunk.usage or usage
    return ModelReply(text="".join(text), calls=tuple(calls), model=model, usage=usage)
