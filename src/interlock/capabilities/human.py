"""Questions to a person, during which a turn can be suspended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from interlock.capabilities.capability import Capability, keyed
from interlock.capabilities.forms import check_answer, check_schema

__all__ = ["FormQuestion", "Human", "Question", "resolve_answer"]

_LEADING = frozenset(
    "no please ok okay i mean meant it is its s take use choose option number the a an".split()  # noqa: SIM905 - a line instead of twenty
)
"""Words that may precede the chosen option."""

_TRAILING = frozenset(["please", "thanks", "thank", "you"])
"""Words that may follow the chosen option."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question to a person, with its options and the recommended one.

    `to` names the person who is asked if that is not the user of the session. The next message of the session is then not the answer.
    """

    text: str
    options: tuple[str, ...] = ()
    recommended: str = ""
    to: str = ""

    def choice(self, said: str) -> str | None:
        """Return the option that a reply selects: by its number, its text, or first or last words that no other option shares.

        'Task', 'the task' and 'I mean Task:Design.' all select 'Task Design', unless another option is a task too.
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
        """Return the selected option, or the text unchanged."""
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


@dataclass(frozen=True, kw_only=True)
class FormQuestion(Question):
    """A question that is answered with data, which a page asks for by a form. The answer is JSON text that fits `schema`.

    `schema` is a JSON schema: a string, a number, a boolean, an enum, or an object of those. Raises ContractViolation for another one.
    """

    schema: Mapping[str, Any]

    def __post_init__(self) -> None:
        check_schema(self.schema)


def resolve_answer(asked: Mapping[str, Any], said: str) -> str:
    """Return what a reply means to a question that is stored as JSON data. Raises InputSchema where it does not fit the form."""
    schema = asked.get("schema")
    return Question(text="", options=tuple(asked["options"])).resolve(said) if schema is None else check_answer(schema, said)


def _words(text: str) -> list[str]:
    """Split a text into lower-case words without punctuation."""
    return re.findall(r"[\w+#-]+", text.casefold())


class Human(Capability, Protocol):
    """Asks a person. The turn is suspended until the answer arrives."""

    @keyed
    async def ask(self, question: Question) -> str | None:
        """Return the person's answer, or None if there is no person to ask.

        Raises PersonAwaited if the answer comes later: the turn is suspended, and resumed with the answer.
        """
        ...
