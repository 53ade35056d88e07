"""A person, whom a turn can wait for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from interlock.capabilities.capability import Capability

__all__ = ["Human", "Question"]

_LEADING = frozenset(
    [
        "no",
        "please",
        "ok",
        "okay",
        "i",
        "mean",
        "meant",
        "it",
        "is",
        "its",
        "s",
        "take",
        "use",
        "choose",
        "option",
        "number",
        "the",
        "a",
        "an",
    ]
)
"""Words that may stand before what is chosen."""

_TRAILING = frozenset(["please", "thanks", "thank", "you"])
"""Words that may stand behind it."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a person is asked, with what can be answered, and what we would.

    `to` says who is asked where that is not the one who writes to the session: what is written next is no answer then.
    """

    text: str
    options: tuple[str, ...] = ()
    recommended: str = ""
    to: str = ""

    def choice(self, said: str) -> str | None:
        """Return the option that is meant: by its number, its words, or those of its words that no other option begins or ends with.

        'Task', 'the task' and 'I mean Task:Design.' all mean 'Task Design', unless another option is a task too.
        """
        words = _words(said)
        while len(words) > 1 and words[-1] in _TRAILING:
            words = words[:-1]
        while words:
            found = self._called(" ".join(words))
            if found is not None:
                return found
            if words[0] not in _LEADING:
                return None
            words = words[1:]
        return None

    def resolve(self, said: str) -> str:
        """Return the option that is meant, or the text as it is."""
        return self.choice(said) or said.strip()

    def _called(self, text: str) -> str | None:
        if text.isdecimal() and text.isascii() and len(text) <= len(str(len(self.options))):
            return self.options[int(text) - 1] if 1 <= int(text) <= len(self.options) else None
        options = {option: " ".join(_words(option)) for option in self.options}
        found = (
            [option for option, words in options.items() if words == text]
            or [option for option, words in options.items() if words.startswith(f"{text} ")]
            or [option for option, words in options.items() if words.endswith(f" {text}")]
        )
        return found[0] if len(found) == 1 else None


def _words(text: str) -> list[str]:
    """Split a text into words in lower case, without the signs around and between them."""
    return re.findall(r"[\w+#-]+", text.casefold())


class Human(Capability, Protocol):
    """Asks a person. A turn that nobody answers yet waits, for as long as it takes."""

    async def ask(self, question: Question) -> str | None:
        """Return what the person says; None where there is nobody to be asked.

        Raises PersonAwaited where the answer will come later: the turn stops there, and goes on from there with the answer.
        """
        ...
