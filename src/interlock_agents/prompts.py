"""Messages for a model: prompts from files as the system message, data as the user message.

Text from a user, a tool or a document is never formatted into a prompt, so nothing in it is interpreted as a template.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from interlock.capabilities import Decision, Message, Model, Usage
from interlock.errors import ModelCutOff, ModelOutputInvalid

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
    if rejected is None or decision.usage is None:
        return decision
    usage = Usage(
        input_tokens=decision.usage.input_tokens + (rejected.input_tokens or 0),
        output_tokens=decision.usage.output_tokens + (rejected.output_tokens or 0),
    )
    return replace(decision, usage=usage)


def with_correction(messages: Sequence[Message], wrong: str) -> tuple[Message, ...]:
    """Append a message that says why the first answer was rejected."""
    correction = f"Your answer could not be used. {wrong} Answer the question above again, with JSON of the given shape and nothing else."
    return *messages, Message(role="user", text=correction)


class Prompts:
    """The prompts of one agent: Markdown files in a folder. Each file is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._texts: dict[str, str] = {}
        self._system: dict[tuple[str, ...], Message] = {}

    def asked(self, payload: str, *names: str) -> tuple[Message, ...]:
        """Return a system message with the named prompts, and a user message with the payload."""
        if names not in self._system:
            self._system[names] = Message(role="system", text="\n\n".join(map(self.text, names)))
        return self._system[names], Message(role="user", text=payload)

    def text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = (self._folder / f"{name}.md").read_text(encoding="utf-8").strip()
        return self._texts[name]
