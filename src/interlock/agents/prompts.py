"""How agents put something to a model: prose from files as the system's part, data beside it as the user's.

What a user, a tool or a document says is never part of a prompt's text, so nothing in it is taken for a template.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from interlock.capabilities import Decision, Message, Model
from interlock.errors import ModelCutOff, ModelOutputInvalid

__all__ = ["Prompts", "decide", "with_correction"]

T = TypeVar("T", bound=BaseModel)


async def decide(model: Model, messages: Sequence[Message], schema: type[T]) -> Decision[T]:
    """Ask for a decision, and once more with the reason if the answer cannot be used. Both calls count and are seen.

    An answer that was cut off is not asked for again: the next one would be as long.
    """
    try:
        return await model.decide(messages, schema=schema)
    except ModelCutOff:
        raise
    except ModelOutputInvalid as error:
        corrected = with_correction(messages, error.message)
    return await model.decide(corrected, schema=schema)


def with_correction(messages: Sequence[Message], wrong: str) -> tuple[Message, ...]:
    """Add to a question what was wrong with the first answer to it."""
    correction = f"Your answer could not be used. {wrong} Answer the question above again, with JSON of the given shape and nothing else."
    return *messages, Message(role="user", text=correction)


class Prompts:
    """The prompts of one agent: Markdown files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, str] = {}
        self._said: dict[tuple[str, ...], Message] = {}

    def asked(self, payload: str, *names: str) -> tuple[Message, ...]:
        """Make what is put to a model: these prompts from the system, the payload from the user."""
        said = self._said.get(names)
        if said is None:  # it is the same every time, and cannot be changed
            said = self._said[names] = Message(role="system", text="\n\n".join(map(self.text, names)))
        return said, Message(role="user", text=payload)

    def text(self, name: str) -> str:
        """Return a prompt."""
        if name not in self._read:
            self._read[name] = (self._folder / f"{name}.md").read_text(encoding="utf-8").strip()
        return self._read[name]
