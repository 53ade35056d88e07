"""Matches the order of the words in a question against `questions.grammar`. Known words in an unknown order are not answered.

Every word has a class, such as COUNT for "how many" or GOODS for "chairs". Without their order, "how many chairs did German customers buy"
and "how many German customers did buy chairs" would be the same question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

__all__ = ["Completeness", "completeness"]

Completeness = Literal["whole", "fragment"]

_FILE = Path(__file__).with_name("questions.grammar")
# Longer questions are never about one figure, and a regular expression may take exponential time to reject them.
_MAX_WORDS = 24


@cache
def _patterns() -> tuple[list[re.Pattern[str]], re.Pattern[str]]:
    """Compile the grammar to regular expressions: those of whole questions, and the one of fragments. A class becomes 'CLASS;'."""
    lines = [line for line in _FILE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    expanded: dict[str, str] = {}
    for rule in re.sub(r"\n\s+", " ", "\n".join(lines)).splitlines():
        name, _, pattern = rule.partition("=")
        named = re.sub(r"\w+", lambda word: f"(?:{word[0]};)" if word[0].isupper() else f"(?:{expanded[f'{word[0]} ']})", pattern)
        expanded[name] = re.sub(r" +", "", named)
    whole = [re.compile(pattern) for name, pattern in expanded.items() if name.endswith("! ")]
    return whole, re.compile(expanded["fragment "])


def completeness(classes: Iterable[str]) -> Completeness | None:
    """Return whether the classes of words form a whole question or a fragment of one, or None if their order is unknown."""
    words = [one for one in classes if one != "ANYWHERE"]
    if len(words) > _MAX_WORDS:
        return None
    whole, fragment = _patterns()
    start = next((at for at, one in enumerate(words) if one not in {"AND", "FOLLOW"}), 0)
    text = "".join(f"{word};" for word in words[start:])
    if any(pattern.fullmatch(text) for pattern in whole):
        return "whole"
    return "fragment" if fragment.fullmatch("".join(f"{word};" for word in words)) else None
