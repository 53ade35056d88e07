"""Misspelt words: the edit distance of two words, and the known words that are closest to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["closest", "edit_distance"]

_MAX_DISTANCE = 2
_SHORT = 4  # letters; two changes of a short word make another word
_MAX_SUGGESTIONS = 3


def edit_distance(one: str, other: str) -> int:
    """Return the Damerau-Levenshtein distance: letters to insert, delete, replace or swap with their neighbour."""
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
    """Return at most three known words within two changes of a word, or one change of a short word. The closest come first.

    Case is ignored.
    """
    folded = word.casefold()
    limit = 1 if len(folded) <= _SHORT else _MAX_DISTANCE
    near = [(edit_distance(folded, name.casefold()), name) for name in dict.fromkeys(known) if abs(len(name) - len(word)) <= limit]
    return [name for distance, name in sorted(near) if distance <= limit][:_MAX_SUGGESTIONS]
