"""How secrets begin: a fast look at the pieces of a stream, nearly all of which have nothing to do with one."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

__all__ = ["Looker", "beginnings", "looker"]

_MOST = 64  # beginnings that are looked for at once
_WIDEST = 8  # characters of a class that stands for so many beginnings
_LONGEST = 32  # characters of a beginning; what is longer is looked for by these
_SPECIAL = frozenset(".^$*+?{}[]()|\\")
_END, _NOTHING = r"\Z", r"(?!)"
_CLASS = re.compile(r"\[([A-Za-z0-9_ -]+)\]")


@functools.cache
def beginnings(patterns: tuple[str, ...]) -> tuple[str, ...] | None:
    """Find the texts that whatever fits one of the patterns begins with; None where that cannot be told from their letters."""
    found: list[str] = []
    for pattern in patterns:
        begun = _begun(pattern)
        if not begun or "" in begun:
            return None
        found += begun
    return tuple(found)


def _begun(pattern: str) -> list[str]:
    """Read the letters that a pattern begins with; a small class of letters stands for each of them."""
    if "|" in pattern:
        return []
    found, position = [""], 0
    while position < len(pattern):
        letters, width = _letters(pattern, position)
        follows = pattern[position + width : position + width + 1]
        if not letters or follows in set("*?{+"):
            break
        found = [text + letter for text in found for letter in letters]
        position += width
    return found


def _letters(pattern: str, position: int) -> tuple[str, int]:
    """Return what may stand at a position of a pattern, and how much of the pattern says so; nothing where it is not plain."""
    letter = pattern[position]
    if letter not in _SPECIAL:
        return letter, 1
    found = _CLASS.match(pattern, position)
    if found is not None and "-" not in found[1] and len(found[1]) <= _WIDEST:
        return found[1], len(found[0])
    return "", 0


class Looker:
    """Looks for any of some texts, and for the beginning of one at the end of what it looks at."""

    __slots__ = ("_whole", "search")

    def __init__(self, texts: frozenset[str]) -> None:
        self._whole = texts
        self.search = re.compile(_tree(sorted(texts), at_end=False) if texts else _NOTHING).search

    def clear(self, text: str) -> int:
        """Return up to where a text has nothing to do with a secret; -1 where it has to be looked at more closely."""
        found = self.search(text)
        if found is None:
            return len(text)
        return -1 if found[0] in self._whole else found.start()


@functools.lru_cache(maxsize=256)
def looker(texts: tuple[str, ...]) -> Looker | None:
    """Make a looker for these texts; None where there are too many of them."""
    return Looker(frozenset(text[:_LONGEST] for text in texts)) if len(texts) <= _MOST else None


def _tree(texts: Sequence[str], *, at_end: bool = True) -> str:
    """Write a pattern for texts, each of them whole or as far as the end comes: what they share is looked at once."""
    if "" in texts:
        return ""
    firsts = dict.fromkeys(text[0] for text in texts)
    ways = [f"{re.escape(first)}{_tree([text[1:] for text in texts if text[0] == first])}" for first in firsts]
    return f"(?:{'|'.join([*ways, _END] if at_end else ways)})"
