"""Offline rules: deterministic answers in place of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from interlock.capabilities.model import Chunk, Message, ModelReply, Tool
from interlock.errors import ModelUnavailable

__all__ = ["Rules", "split_words"]

T = TypeVar("T", bound=BaseModel)


class Rules:
    """Base class of the offline rules of an agent. What they answer must not pretend to come from a model."""

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str | ModelReply:  # noqa: ARG002 - for subclasses
        """Answer with text, or with calls of the offered tools."""
        return "No language model is configured."

    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:  # noqa: ARG002 - for subclasses
        """Answer with an instance of `schema`."""
        raise ModelUnavailable(f"No language model is configured to decide on a '{schema.__name__}', and no rule does.")


def split_words(reply: ModelReply) -> Iterator[Chunk]:
    """Split a reply into one chunk per word. Calls and usage come with the last chunk."""
    words = re.findall(r"\s*\S+\s*$|\s*\S+|\s+", reply.text) or [""]
    for word in words[:-1]:
        yield Chunk(text=word, model=reply.model)
    yield replace(Chunk(text=words[-1], model=reply.model), calls=reply.calls, usage=reply.usage)
