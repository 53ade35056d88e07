"""Patterns of words: every word of a clause is matched by a word of the pattern or lies in a slot whose reader accepts it.

A pattern is written as it is said: `set|change the? {name:property} of {which:nodes} to {value:value}`. Words in one place are separated
by `|`, `_` joins words that stand together, `?` marks what may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Pattern", "Reader", "Unread", "patterns"]

_MOST_MATCHES = 400
_Words = tuple[str, ...]


class Unread(Exception):
    """A part was not understood. The message says which, and what to say instead."""


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
    """Words and slots, and what to make of the slots."""

    parts: tuple[_Slot | _Word, ...]
    make: Callable[..., Any]

    def matches(self, words: _Words) -> Iterator[dict[str, tuple[str, int, int]]]:
        """Give every way in which all words are matched: the kind, begin and end of each slot."""
        return _match(self.parts, words, 0)


def patterns(*table: tuple[Callable[..., Any], str]) -> tuple[Pattern, ...]:
    """Make patterns of their texts, one in a line."""
    return tuple(Pattern(tuple(map(_part, line.split())), make) for make, text in table for line in text.splitlines() if line.strip())


def _part(said: str) -> _Slot | _Word:
    slot = re.fullmatch(r"\{(\w+):(\w+)\}", said)
    if slot is not None:
        return _Slot(slot[1], slot[2])
    forms = sorted((tuple(form.split("_")) for form in said.removesuffix("?").split("|")), key=len, reverse=True)
    return _Word(tuple(forms), said.endswith("?"))


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
    for end in range(at + 1, len(words) - len(rest) + sum(isinstance(one, _Word) and one.is_optional for one in rest) + 1):
        for more in _match(rest, words, end):
            yield {part.name: (part.kind, at, end), **more}


class Reader:
    """Reads words by patterns and by the readers of slots, each stretch of words once.

    `kinds` has, for each kind of slot, a function of the words and of what was said before, or patterns of which the first that fits
    is taken.
    """

    def __init__(self, kinds: Mapping[str, Callable[[list[str], Any], Any] | Sequence[Pattern]], said: Any) -> None:
        self._kinds, self._said = kinds, said
        self._known: dict[tuple[str, tuple[str, ...]], Any] = {}

    def read(self, kind: str, words: Sequence[str]) -> Any:
        """Read words as what they are to be, or raise Unread."""
        name = (kind, tuple(words))
        if name not in self._known:
            try:
                self._known[name] = self._read(kind, list(words))
            except Unread as error:
                self._known[name] = error
        found = self._known[name]
        if isinstance(found, Unread):
            raise Unread(str(found))
        return found

    def _read(self, kind: str, words: list[str]) -> Any:
        reader = self._kinds[kind]
        if callable(reader):
            return reader(words, self._said)
        low = tuple(word.casefold() for word in words)
        problems: list[tuple[int, str]] = []
        for one in reader:
            found: list[Any] = []
            for number, slots in enumerate(one.matches(low)):
                if number > _MOST_MATCHES:
                    raise Unread("that is too much at once. Say it in shorter sentences.")
                try:
                    made = one.make(self._said, **{name: self.read(kind, words[begin:end]) for name, (kind, begin, end) in slots.items()})
                except Unread as error:
                    if says := str(error):
                        problems.append((sum(end - begin for _, begin, end in slots.values()), says))
                    continue
                if made not in found:
                    found.append(made)
            if len(found) > 1:
                raise Unread("it can be read in more than one way. Put names in quotes.")
            if found:
                return found[0]
        # The pattern that left the fewest words to its slots understood the most.
        raise Unread(min(problems, key=lambda one: one[0])[1] if problems else "")
