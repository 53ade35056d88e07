"""How the desk's models are asked, and held to what they were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from interlock.capabilities import Message, Model
from interlock.contract.schema import error_summary, try_validate
from interlock.errors import ModelCutOff, ModelOutputInvalid
from interlock_agents.prompts import Prompts, with_correction

__all__ = ["asked", "exactly", "said"]

T = TypeVar("T", bound=BaseModel)

asked = Prompts(Path(__file__).parent.parent / "prompts").asked


async def said(model: Model, messages: Sequence[Message], kind: type[BaseModel]) -> str:
    """Ask a model for JSON of a kind, and once more with the reason if the first answer is not exactly that."""
    try:
        first = (await model.reply(messages, schema=kind)).text
        exactly(kind, first)
    except ModelCutOff:
        raise
    except ModelOutputInvalid as error:
        corrected = with_correction(messages, error.message)
    else:
        return first
    return (await model.reply(corrected, schema=kind)).text


def exactly(kind: type[T], text: str) -> T:
    """Take a model's text for JSON of a kind if it is exactly that: nothing is cut off, mended or guessed."""
    found = try_validate(lambda said: kind.model_validate_json(said, strict=True), text)
    if isinstance(found, ValidationError):
        raise ModelOutputInvalid(f"The model's answer is not a '{kind.__name__}': {error_summary(found)}.")
    return found
