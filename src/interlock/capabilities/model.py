"""A language model: replies, streamed replies, structured output and tool calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, JsonValue

from interlock.capabilities.capability import Capability, asks, emits

__all__ = ["Chunk", "Decision", "Message", "Model", "ModelReply", "Role", "Tool", "ToolCall", "Usage", "join_chunks"]

Role = Literal["system", "user", "assistant", "tool"]
T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A tool call that the model requests. The id is unique within the reply."""

    id: str
    name: str
    arguments: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message of a conversation: text, images as data URIs, tool calls of the assistant, or the result of a tool call."""

    role: Role
    text: str = ""
    images: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    """In a message of role `tool`: the id of the call whose result it is."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool that a model may call: its parameters are a JSON schema."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The number of tokens that a call of the model used."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """The reply of a model: text, tool calls or both. An adapter raises ModelOutputInvalid for a reply that has neither."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    """The name of the model that answered."""
    usage: Usage | None = None


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A chunk of a streamed reply: the text since the chunk before it. The last chunk has the tool calls and the usage."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, kw_only=True)
class Decision(Generic[T]):
    """Structured output: a validated instance of the requested class."""

    value: T
    model: str = ""
    usage: Usage | None = None


class Model(Capability, Protocol):
    """A chat model. Raises a ModelError where it times out, cannot be reached, is refused or returns unusable output."""

    @asks
    @emits("chat_model")
    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        """Reply with text, tool calls or both.

        With a schema the model is asked for JSON that matches it. The caller has to validate the text.
        """
        ...

    @asks
    @emits("chat_model")
    def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncIterator[Chunk]:
        """Stream the reply: `async for chunk in model.stream(...)`."""
        ...

    @asks
    @emits("chat_model")
    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        """Return an instance of a pydantic class."""
        ...


def join_chunks(chunks: Iterable[Chunk]) -> ModelReply:
    """Join the chunks of a streamed reply."""
    text: list[str] = []
    calls: list[ToolCall] = []
    model, usage = "", None
    for chunk in chunks:
        text.append(chunk.text)
        calls.extend(chunk.calls)
        model = chunk.model or model
        usage = chunk.usage or usage
    return ModelReply(text="".join(text), calls=tuple(calls), model=model, usage=usage)
