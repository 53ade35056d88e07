"""A fast test for chunks of a stream: can this chunk contain the start of a secret? Nearly none can."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

__all__ = ["PrefixMatcher", "literal_prefixes", "prefix_matcher"]

_MAX_PREFIXES = 64  # prefixes that one matcher looks for
_MAX_CLASS = 8  # characters of a character class that is expanded to its members
_MAX_LENGTH = 32  # characters of a prefix; a longer secret is found by its first ones
_SPECIAL = frozenset(".^$*+?{}[]()|\\")
_END, _NEVER = r"\Z", r"(?!)"
_CLASS = re.compile(r"\[([A-Za-z0-9_ -]+)\]")


@functools.cache
def literal_prefixes(patterns: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the texts of which one starts every match of the patterns, or None where a pattern has no literal prefix."""
    found: list[str] = []
    for pattern in patterns:
        prefixes = _prefixes(pattern)
        if not prefixes or "" in prefixes:
            return None
        found += prefixes
    return tuple(found)


def _prefixes(pattern: str) -> list[str]:
    """Return the literal prefixes of one pattern. A small character class is expanded to its members."""
    if "|" in pattern:
        return []
    found, position = [""], 0
    while position < len(pattern):
        characters, width = _characters(pattern, position)
        follows = pattern[position + width : position + width + 1]
        if not characters or follows in set("*?{+"):
            break
        found = [text + character for text in found for character in characters]
        position += width
    return found


def _characters(pattern: str, position: int) -> tuple[str, int]:
    """Return the characters that can match at a position of a pattern, and the length of that part of the pattern.

    Anything other than a literal character or a small class gives no characters.
    """
    character = pattern[position]
    if character not in _SPECIAL:
        return character, 1
    found = _CLASS.match(pattern, position)
    if found is not None and "-" not in found[1] and len(found[1]) <= _MAX_CLASS:
        return found[1], len(found[0])
    return "", 0


class PrefixMatcher:
    """Finds any of some texts in a chunk, or the start of one at the end of the chunk."""

    __slots__ = ("_texts", "search")

    def __init__(self, texts: frozenset[str]) -> None:
        self._texts = texts
        self.search = re.compile(_alternatives(sorted(texts), at_end=False) if texts else _NEVER).search

    def safe_length(self, text: str) -> int | None:
        """Return how many characters come before what could be the start of a secret.

        None means that the text contains one of the prefixes whole: only a full search tells whether a secret follows.
        """
        found = self.search(text)
        if found is None:
            return len(text)
        return None if found[0] in self._texts else found.start()


@functools.lru_cache(maxsize=256)
def prefix_matcher(texts: tuple[str, ...]) -> PrefixMatcher | None:
    """Return a matcher for these texts, or None where there are too many of them."""
    return PrefixMatcher(frozenset(text[:_MAX_LENGTH] for text in texts)) if len(texts) <= _MAX_PREFIXES else None


def _alternatives(texts: Sequence[str], *, at_end: bool = True) -> str:
    """Return a pattern that matches each text, or as much of it as there is before the end. Common prefixes are shared."""
    if "" in texts:
        return ""
    firsts = dict.fromkeys(text[0] for text in texts)
    branches = [f"{re.escape(first)}{_alternatives([text[1:] for text in texts if text[0] == first])}" for first in firsts]
    return f"(?:{'|'.join([*branches, _END] if at_end else branches)})"
