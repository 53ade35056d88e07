"""Patterns of words. Every word of a clause must match a word of the pattern or belong to a slot whose reader accepts it.

The head of `sentences.grammar` explains how patterns are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

__all__ = ["NotUnderstood", "Pattern", "Reader", "load_patterns", "reject"]

_MOST_MATCHES = 400
_Words = tuple[str, ...]


class NotUnderstood(Exception):
    """A part was not understood. The message says which, and what to say instead; it may be empty."""


def reject(message: str = "") -> NoReturn:
    """Raise NotUnderstood."""
    raise NotUnderstood(message)


@dataclass(frozen=True)
class _Slot:
    name: str
    kind: str


@dataclass(frozen=True)
class _Word:
    forms: tuple[_Words, ...]
    is_optional: bool


@dataclass(frozen=True)
class Pattern:
    """Words and slots, and the function that receives the values of the slots."""

    parts: tuple[_Slot | _Word, ...]
    make: Callable[..., Any]

    def matches(self, words: _Words) -> Iterator[dict[str, tuple[str, int, int]]]:
        """Yield every match of all words: the kind, begin and end of each slot."""
        return _match(self.parts, words, 0)


def load_patterns(grammar: str, actions: Mapping[str, Callable[..., Any]]) -> dict[str, tuple[Pattern, ...]]:
    """Parse a grammar, and return the patterns of each kind."""
    macros: dict[str, str] = {}
    found: dict[str, list[Pattern]] = {}
    kind = action = ""
    for line in grammar.splitlines():
        if macro := re.fullmatch(r"<(\w+)> = (.+)", line):
            macros[macro[1]] = macro[2]
        elif section := re.fullmatch(r"\[(\w+)\]", line):
            kind = section[1]
        elif head := re.fullmatch(r"(\w+):", line):
            action = head[1]
        elif line.startswith(" "):
            text = re.sub(r"<(\w+)>", lambda match: macros[match[1]], line)
            found.setdefault(kind, []).append(Pattern(tuple(map(_part, text.split())), actions[action]))
    return {kind: tuple(patterns) for kind, patterns in found.items()}


def _part(text: str) -> _Slot | _Word:
    slot = re.fullmatch(r"\{(\w+):(\w+)\}", text)
    if slot is not None:
        return _Slot(slot[1], slot[2])
    forms = sorted((tuple(form.split("_")) for form in text.removesuffix("?").split("|")), key=len, reverse=True)
    return _Word(tuple(forms), text.endswith("?"))


def _match(parts: Sequence[_Slot | _Word], words: _Words, at: int) -> Iterator[dict[str, tuple[str, int, int]]]:
    if not parts:
        if at == len(words):
            yield {}
        return
    part, rest = parts[0], parts[1:]
    if isinstance(part, _Word):
        for form in part.forms:
            if words[at : at + len(form)] == form:
                yield from _match(rest, words, at + len(form))
        if part.is_optional:
            yield from _match(rest, words, at)
        return
    required = sum(not (isinstance(one, _Word) and one.is_optional) for one in rest)
    for end in range(at + 1, len(words) - required + 1):
        for more in _match(rest, words, end):
            yield {part.name: (part.kind, at, end), **more}


class Reader:
    """Reads words by patterns and by the readers of slots. Each sequence of words is read once for each kind.

    `kinds` has for each kind of slot a function of the words and the context, or patterns, of which the first that fits is taken.
    """

    def __init__(self, kinds: Mapping[str, Callable[[list[str], Any], Any] | Sequence[Pattern]], context: Any) -> None:
        self._kinds, self._context = kinds, context
        self._known: dict[tuple[str, _Words], Any] = {}

    def read(self, kind: str, words: Sequence[str]) -> Any:
        """Read words as this kind, or raise NotUnderstood."""
        place = (kind, tuple(words))
        if place not in self._known:
            try:
                self._known[place] = self._read(kind, list(words))
            except NotUnderstood as error:
                self._known[place] = error
        found = self._known[place]
        if isinstance(found, NotUnderstood):
            raise NotUnderstood(str(found))
        return found

    def _read(self, kind: str, words: list[str]) -> Any:
        reader = self._kinds[kind]
        if callable(reader):
            return reader(words, self._context)
        low = tuple(word.casefold() for word in words)
        problems: list[tuple[int, str]] = []
        for pattern in reader:
            found: list[Any] = []
            for number, slots in enumerate(pattern.matches(low)):
                if number > _MOST_MATCHES:
                    reject("that is too much at once. Say it in shorter sentences.")
                try:
                    values = {name: self.read(slot, words[begin:end]) for name, (slot, begin, end) in slots.items()}
                    made = pattern.make(self._context, **values)
                except NotUnderstood as error:
                    problems.append((sum(end - begin for _, begin, end in slots.values()), str(error)))
                    continue
                if made not in found:
                    found.append(made)
            if len(found) > 1:
                reject("it can be read in more than one way. Put names in quotes.")
            if found:
                return found[0]
        # The pattern that left the fewest words to its slots understood the most.
        return reject(min((one for one in problems if one[1]), key=lambda one: one[0], default=(0, ""))[1])
