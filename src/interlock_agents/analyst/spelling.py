"""Misspelt words: the known word that a misspelt one stands for, and names to ask about."""

from __future__ import annotations

import difflib
from functools import cache, lru_cache

from interlock_agents.analyst.limits import LIMIT_WORDS
from interlock_agents.analyst.periods import MONTHS, NUMBERS
from interlock_agents.analyst.vocabulary import MISSPELLINGS, OWN_WORDS, PHRASES, VALUES

__all__ = ["corrected", "similar_name"]

# The least number of letters of a word with two letters swapped, with one letter wrong, and with two letters wrong.
_MIN_SWAPPED, _MIN_EDITED, _MIN_EDITED_TWICE = 4, 6, 9
_MAX_LETTERS = 16
_SIMILARITY = 0.82


@lru_cache(maxsize=4096)
def corrected(word: str) -> str | None:
    """Return the known word that a word is a misspelling of, or None if it is known, is another word, or could be several."""
    if word in MISSPELLINGS:
        return MISSPELLINGS[word]
    vocabulary = _vocabulary()
    if word in vocabulary or word in OWN_WORDS or not word.isalpha() or not _MIN_SWAPPED <= len(word) <= _MAX_LETTERS:
        return None
    near = {known for known in _edits(word) if known in vocabulary and (len(word) >= _MIN_EDITED or sorted(known) == sorted(word))}
    if not near and len(word) >= _MIN_EDITED_TWICE:
        # Two wrong letters are not corrected to a name: a country that is not known could be another one.
        near = {known for one in _edits(word) for known in _edits(one) if vocabulary.get(known) is False}
    near = {known for known in near if not _is_inflected(word, known)}
    return near.pop() if len(near) == 1 else None


@lru_cache(maxsize=4096)
def similar_name(word: str) -> str | None:
    """Return the name of a value or a grouping that an unknown word is similar to."""
    names = {words[0]: one.value for words, one in PHRASES.items() if one.kind in {*VALUES, "group"} - {"weekday"} and len(words) == 1}
    close = difflib.get_close_matches(word, names, n=1, cutoff=_SIMILARITY) if word.isalpha() and len(word) <= _MAX_LETTERS else []
    return names[close[0]] if close else None


def _is_inflected(word: str, known: str) -> bool:
    """Return whether one word is another form of the other: 'handled' is not a misspelling of 'handle'."""
    shorter, longer = sorted((word, known), key=len)
    ends = {word[-1], known[-1]} if word[:-1] == known[:-1] else {longer[-1]} if longer[:-1] == shorter else {""}
    return ends <= set("srdny")


@cache
def _vocabulary() -> dict[str, bool]:
    """Return every known word, with whether it is a name."""
    found = dict.fromkeys([*MONTHS, *NUMBERS, *LIMIT_WORDS], True)
    for words, meaning in PHRASES.items():
        for word in words if meaning.kind else ():
            if len(word) >= _MIN_SWAPPED:
                found[word] = found.get(word, False) or meaning.kind in VALUES - {"weekday"}
    return found


def _edits(word: str) -> set[str]:
    """Return the words with one letter added, removed or replaced, or with two neighbouring letters swapped."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    fewer = {left + right[1:] for left, right in cuts if right}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    other = {left + letter + right[1:] for left, right in cuts if right for letter in letters}
    more = {left + letter + right for left, right in cuts for letter in letters}
    return fewer | swapped | other | more
