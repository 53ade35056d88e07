"""Misspelt words: how far two spellings are apart, and which known words a misspelt one could be."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["closest", "edit_distance"]

_MOST = 2
_SHORT = 4  # letters; in a short word two changes make another word
_SUGGESTED = 3


def edit_distance(one: str, other: str) -> int:
    """Count the letters to insert, delete, replace or swap with their neighbour until one word is the other."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        current = [row]
        for column, wanted in enumerate(other, start=1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, last = last, current
    return last[-1]


def closest(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words within two changes of a word, one change for short ones; case does not count. The closest come first."""
    said = word.casefold()
    most = 1 if len(said) <= _SHORT else _MOST
    near = [(edit_distance(said, name.casefold()), name) for name in dict.fromkeys(known) if abs(len(name) - len(word)) <= most]
    return [name for distance, name in sorted(near) if distance <= most][:_SUGGESTED]
