"""Misspelt words: which known word is meant, where a word that is not known can hardly be another one."""

from __future__ import annotations

import difflib
from functools import cache, lru_cache

from interlock_agents.analyst.lexicon import PHRASES
from interlock_agents.analyst.limits import LIMIT_WORDS
from interlock_agents.analyst.periods import MONTHS, NUMBERS

__all__ = ["looks_like", "respelt"]

_NAMES = frozenset({"country", "city", "category", "status", "channel", "segment", "coupon"})
_FEWEST_SWAPPED, _FEWEST_EDITED, _FEWEST_TWICE = 4, 6, 9  # letters of a word with two swapped, with one wrong, with two wrong
_LONGEST = 16
_LIKENESS = 0.82
_COMMON = {
    "wich": "which", "whcih": "which", "hom": "how", "hwo": "how", "teh": "the", "waht": "what", "wat": "what", "hav": "have",
    "costumer": "customer", "costumers": "customers", "costomers": "customers", "ordes": "orders", "oders": "orders",
    "shwo": "show", "meny": "many", "giv": "give", "yaer": "year", "saled": "sold", "selled": "sold",
}  # fmt: skip
# Words of their own that are one letter away from a known one.
_REAL = frozenset(
    """
    states state stated county counties iceland lublin homburg stairs shares scores stones stories costs older border reorder reorders
    retains return unites priced prized spending shops shipping shipment charts charity tablet tablets tabled papers stationary storages
    lightning dusk decks weekend weekends weekday quarters monthly market markets marked private privacy customs custom purchaser seller
    sellers solder sorted shorted bettor letter latter later total totals average overage leading reading pending cables chains choirs
    chance chances charge charged though thought skipped borders elders princes prizes trance members member
    """.split()  # noqa: SIM905 - a list of it would take a screen
)


@lru_cache(maxsize=4096)
def respelt(word: str) -> str | None:
    """Return the known word that a word is a misspelling of; None where it is known, is a word of its own, or could be several."""
    if word in _COMMON:
        return _COMMON[word]
    vocabulary = _vocabulary()
    if word in vocabulary or word in _REAL or not word.isalpha() or not _FEWEST_SWAPPED <= len(word) <= _LONGEST:
        return None
    near = {known for known in _edits(word) if known in vocabulary and (len(word) >= _FEWEST_EDITED or sorted(known) == sorted(word))}
    if not near and len(word) >= _FEWEST_TWICE:
        near = {known for one in _edits(word) for known in _edits(one) if vocabulary.get(known) == ""}
    near = {known for known in near if not _is_inflected(word, known)}
    return near.pop() if len(near) == 1 else None


def _is_inflected(word: str, known: str) -> bool:
    """Return whether one word is another form of the other: 'handled' is no misspelling of 'handle'."""
    shorter, longer = sorted((word, known), key=len)
    ends = {word[-1], known[-1]} if word[:-1] == known[:-1] else {longer[-1]} if longer[:-1] == shorter else {""}
    return ends <= set("srdny")


@lru_cache(maxsize=4096)
def looks_like(word: str) -> str | None:
    """Return what a word may stand for: it is asked about, because a country that is not known could be another one."""
    names = {words[0]: value for words, (kind, value) in PHRASES.items() if kind in {*_NAMES, "group"} and len(words) == 1}
    close = difflib.get_close_matches(word, names, n=1, cutoff=_LIKENESS) if word.isalpha() and len(word) <= _LONGEST else []
    return names[close[0]] if close else None


@cache
def _vocabulary() -> dict[str, str]:
    """Return every known word of four letters and more, with its kind where it is a name."""
    found: dict[str, str] = dict.fromkeys([*MONTHS, *NUMBERS, *LIMIT_WORDS], "name")
    for words, (kind, _) in PHRASES.items():
        for word in words if kind else ():
            if len(word) >= _FEWEST_SWAPPED:
                found[word] = "name" if kind in _NAMES else found.get(word, "")
    return found


def _edits(word: str) -> set[str]:
    """Return what a word becomes by one letter more, less or other, or by two that change places."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    fewer = {left + right[1:] for left, right in cuts if right}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    other = {left + letter + right[1:] for left, right in cuts if right for letter in letters}
    more = {left + letter + right for left, right in cuts for letter in letters}
    return fewer | swapped | other | more
