"""Who answers for a person: whoever comes later, a script, or nobody."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from interlock.capabilities.human import Question, answered_by, ask_now
from interlock.errors import PersonAwaited

__all__ = ["LaterHuman", "NobodyHere", "ScriptedHuman", "answering", "chosen"]


@contextmanager
def answering(answer: str) -> Generator[None]:
    """Have the answer that a turn waits for, while it goes on: it is for the first question, and the next one waits again."""
    answers = [answer]
    with answered_by(lambda _: answers.pop() if answers else None):
        yield


def chosen(text: str, options: Sequence[str]) -> str:
    """Return the option that is meant, or the text as it is."""
    return Question(text="", options=tuple(options)).choice(text) or text.strip()


class LaterHuman:
    """Lets the turn wait, unless the answer has come."""

    async def ask(self, question: Question) -> str | None:
        """Return the answer that came."""
        answer = ask_now(question)
        if answer is None:
            raise PersonAwaited(question=question)
        return chosen(answer, question.options)


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
