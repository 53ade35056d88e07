"""Messages for a model: prompts from files as the system message, data as the user message.

Text from a user, a tool or a document is never formatted into a prompt, so nothing in it is interpreted as a template.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from interlock.capabilities import Decision, Message, Model, Usage
from interlock.errors import ModelCutOff, ModelOutputInvalid, RejectedAnswer

__all__ = ["Prompts", "decide", "with_correction"]

T = TypeVar("T", bound=BaseModel)


async def decide(model: Model, messages: Sequence[Message], schema: type[T]) -> Decision[T]:
    """Request a structured decision. If the answer is invalid, request it once more and add the reason.

    Both calls are charged to the budget and emit events. The usage of a second decision includes the rejected answer.
    A truncated answer is not requested again, because the next one would be as long.
    """
    try:
        return await model.decide(messages, schema=schema)
    except ModelCutOff:
        raise
    except ModelOutputInvalid as error:
        corrected, rejected = with_correction(messages, error.message), error.rejected
    decision = await model.decide(corrected, schema=schema)
    return replace(decision, usage=_sum(decision.usage, rejected))


def _sum(usage: Usage | None, rejected: RejectedAnswer | None) -> Usage | None:
    if rejected is None or usage is None:
        return usage
    return Usage(
        input_tokens=usage.input_tokens + (rejected.input_tokens or 0), output_tokens=usage.output_tokens + (rejected.output_tokens or 0)
    )


def with_correction(messages: Sequence[Message], wrong: str) -> tuple[Message, ...]:
    """Append a message that says why the first answer was rejected."""
    correction = f"Your answer could not be used. {wrong} Answer the question above again, with JSON of the given shape and nothing else."
    return *messages, Message(role="user", text=correction)


class Prompts:
    """The prompts of one agent: Markdown files in a folder. Each file is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def asked(self, payload: str, *names: str) -> tuple[Message, ...]:
        """Return a system message with the named prompts, and a user message with the payload."""
        return _system(self._folder, names), Message(role="user", text=payload)

    def text(self, name: str) -> str:
        """Return the text of a prompt."""
        return _text(self._folder, name)


@cache
def _text(folder: Path, name: str) -> str:
    return (folder / f"{name}.md").read_text(encoding="utf-8").strip()


@cache
def _system(folder: Path, names: tuple[str, ...]) -> Message:
    return Message(role="system", text="\n\n".join(_text(folder, name) for name in names))
