"""Who answers for a person: whoever comes later, a script, or nobody."""

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
    """Has nobody to ask: a turn goes on unattended."""

    async def ask(self, question: Question) -> str | None:  # noqa: ARG002 - there is nobody to be asked
        """Return nothing."""
        return None


class ScriptedHuman:
    """Gives its answers one after the other; then there is nobody."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> str | None:
        """Return the next answer."""
        self.asked.append(question)
        return self._answers.pop(0) if self._answers else None
