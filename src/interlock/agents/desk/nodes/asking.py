"""How the desk's models are asked, and held to what they were asked for.

The prompts are prose in files. What a customer says is never part of one, but data beside it.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from interlock.capabilities import Message
from interlock.contract.values import attempt, reasons
from interlock.errors import ModelOutputInvalid

__all__ = ["asked", "exactly"]

T = TypeVar("T", bound=BaseModel)

_FOLDER = Path(__file__).parent.parent / "prompts"


def asked(payload: str, *prompts: str) -> tuple[Message, ...]:
    """Make what is put to a model: these prompts from the system, the payload from the user."""
    return Message(role="system", text="\n\n".join(map(_read, prompts))), Message(role="user", text=payload)


def exactly(kind: type[T], text: str) -> T:
    """Take a model's text for JSON of a kind if it is exactly that: nothing is cut off, mended or guessed."""
    found = attempt(lambda said: kind.model_validate_json(said, strict=True), text)
    if isinstance(found, ValidationError):
        raise ModelOutputInvalid(f"The model's answer is not a '{kind.__name__}': {reasons(found)}.")
    return found


@functools.cache
def _read(name: str) -> str:
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()
