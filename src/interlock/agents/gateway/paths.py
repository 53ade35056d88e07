"""Path words: what people call the folder of a side is the root of its worker's files."""

from __future__ import annotations

import re
from functools import cache

__all__ = ["in_scope"]

_WORD = re.compile(r"\S+")


def in_scope(text: str, scope: str) -> str:
    """Take the prefix of a scope off the path words of a text, once each: `/docs/a.md` is `/a.md` in the scope `docs`."""
    return _WORD.sub(lambda word: word[0] if "://" in word[0] else _prefix(scope).sub(r"\1/", word[0]), text)


@cache
def _prefix(scope: str) -> re.Pattern[str]:
    """Match the prefix where a word, or what is in quotes or brackets in it, begins with it as a whole component."""
    before = r"""^(["'`(\[{<]*|[\w.-]+=["'`]?)"""
    after = r"""(?:/|(?=["'`)\]}>,;:!?]|[.]$|$))"""
    return re.compile(rf"{before}/{re.escape(scope)}{after}")
