"""Rules in the place of a model: what an agent says and decides by itself, and how what is said comes in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from interlock.capabilities.model import Message, ModelReply, Piece, Tool
from interlock.errors import ModelUnavailable

__all__ = ["Rules", "in_pieces"]

T = TypeVar("T", bound=BaseModel)


class Rules:
    """Stands in for a model: deterministic, and honest about it in what it says. An agent has a class of its own."""

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str | ModelReply:  # noqa: ARG002 - for an agent's own
        """Answer with text, or with calls of tools that are offered."""
        return "No language model is configured."

    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:  # noqa: ARG002 - for an agent's own
        """Answer with an instance of the class."""
        raise ModelUnavailable(f"No language model is configured to decide on a '{schema.__name__}', and no rule does.")


def in_pieces(reply: ModelReply) -> Iterator[Piece]:
    """Take a reply apart word by word; calls and usage come with the last piece."""
    words = re.findall(r"\s*\S+\s*$|\s*\S+|\s+", reply.text) or [""]
    for word in words[:-1]:
        yield Piece(text=word, model=reply.model)
    yield replace(Piece(text=words[-1], model=reply.model), calls=reply.calls, usage=reply.usage)
