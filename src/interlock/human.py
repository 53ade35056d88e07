"""Adapters of the Human capability: suspend the turn, answer from a script, or do not answer."""

from __future__ import annotations

from interlock.capabilities.human import Question
from interlock.errors import PersonAwaited

__all__ = ["LaterHuman", "NobodyHere", "ScriptedHuman"]


class LaterHuman:
    """Suspends the turn until a person answers. The answer becomes a journal entry, which the resumed turn finds."""

    async def ask(self, question: Question) -> str | None:
        """Suspend the turn."""
        raise PersonAwaited(question=question)


class NobodyHere:
    """Returns no answer, so that a turn runs unattended."""

    async def ask(self, question: Question) -> str | None:  # noqa: ARG002 - there is no one to ask
        """Return None."""
        return None


class ScriptedHuman:
    """Returns its answers one after the other, and then None."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> str | None:
        """Return the next answer, or None."""
        self.asked.append(question)
        return self._answers.pop(0) if self._answers else None
