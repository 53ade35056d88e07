"""Calls of the desk's models, and strict validation of their JSON."""

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
    """Request JSON of a schema from a model, and once more with the reason if the first answer is invalid."""
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
    """Parse a model's text as JSON of a schema. Nothing is cut off, repaired or guessed."""
    found = try_validate(lambda said: kind.model_validate_json(said, strict=True), text)
    if isinstance(found, ValidationError):
        raise ModelOutputInvalid(f"The model's answer is not a '{kind.__name__}': {error_summary(found)}.")
    return found
