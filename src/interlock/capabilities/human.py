"""A person, whom a turn can wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from interlock.capabilities.capability import Capability

__all__ = ["Human", "Question"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a person is asked, with what can be answered, and what we would."""

    text: str
    options: tuple[str, ...] = ()
    recommended: str = ""


class Human(Capability, Protocol):
    """Asks a person. A turn that nobody answers yet waits, for as long as it takes."""

    async def ask(self, question: Question) -> str | None:
        """Return what the person says; None where there is nobody to be asked.

        Raises PersonAwaited where the answer will come later: the turn stops there, and goes on from there with the answer.
        """
        ...
