"""How the desk's models are asked, and held to what they were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from interlock.agents.prompts import Prompts
from interlock.contract.values import attempt, reasons
from interlock.errors import ModelOutputInvalid

__all__ = ["asked", "exactly"]

T = TypeVar("T", bound=BaseModel)

asked = Prompts(Path(__file__).parent.parent / "prompts").asked


def exactly(kind: type[T], text: str) -> T:
    """Take a model's text for JSON of a kind if it is exactly that: nothing is cut off, mended or guessed."""
    found = attempt(lambda said: kind.model_validate_json(said, strict=True), text)
    if isinstance(found, ValidationError):
        raise ModelOutputInvalid(f"The model's answer is not a '{kind.__name__}': {reasons(found)}.")
    return found
