"""Normalises paths in texts: the prefix of a scope, such as `/docs`, is the root of its worker."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

__all__ = ["in_scope"]

_WORD = re.compile(r"\S+")
_SCHEME = "://"
_SEPARATORS = ",;|="


def in_scope(text: str, scope: str) -> str:
    """Remove the prefix of a scope from the path words of a text, once each: `/docs/a.md` is `/a.md` in the scope `docs`.

    A path word begins where a word begins, after an opening quote or bracket, or after a separator, as in a list or in
    `path=/docs/a.md`. Addresses with a scheme, such as `https://host/docs/a.md`, stay as they are.
    """
    return text if f"/{scope}" not in text else _WORD.sub(lambda word: _normalised(word[0], scope), text)


def _normalised(word: str, scope: str) -> str:
    """Normalise the parts of a word that are not inside an address."""
    done: list[str] = []
    while (scheme := word.find(_SCHEME)) >= 0:
        begin = _last_boundary(word[:scheme])
        end = _first_closing(word, scheme)
        done += (_prefix(scope).sub("/", word[:begin]), word[begin:end])
        word = word[end:]
    return "".join((*done, _prefix(scope).sub("/", word)))


def _last_boundary(head: str) -> int:
    """Return where the address begins whose scheme ends `head`: after the last character that can stand before a path."""
    return max(index + 1 for index in range(-1, len(head)) if index < 0 or head[index] in _opening() or head[index] in ",;|")


def _first_closing(word: str, begin: int) -> int:
    return next((index for index in range(begin, len(word)) if word[index] in _closing()), len(word))


@cache
def _characters(*categories: str) -> str:
    return "".join(one for one in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(one) in categories)


@cache
def _opening() -> str:
    return "\"'`<" + _characters("Ps", "Pi", "Pf")


@cache
def _closing() -> str:
    return "\"'`>" + _characters("Pe", "Pi", "Pf")


@cache
def _prefix(scope: str) -> re.Pattern[str]:
    """Match `/scope` as a whole component where a path can begin, with the slash that follows it if there is one."""
    before = rf"(?:^|(?<=[{re.escape(_opening() + _SEPARATORS)}]))"
    after = rf"(?:/|(?=[.…]*(?:$|[{re.escape(_closing())},;|:!?])))"
    return re.compile(rf"{before}/{re.escape(scope)}{after}")
