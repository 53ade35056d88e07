"""The words of the desk's rules, from `vocabulary.toml`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["ANGER", "FIRST_WORDS", "FUNCTION", "LEAVE", "SAYS_NOTHING", "SPELLING", "TALK", "TOPICS", "TURNING", "pattern_of"]

_READ: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _any(lines: str) -> str:
    """Join lines to one regular expression."""
    found = "|".join(line for line in lines.splitlines() if line)
    return found.replace("<people>", f"(?:{_any(_READ['words']['people'])})") if "<people>" in found else found


def pattern_of(name: str, *more: str, before: str = "", after: str = "") -> re.Pattern[str]:
    """Compile the lines of one or several names. `before` and `after` are patterns around them."""
    if name in _READ["phrases"]:
        return re.compile(_any(_READ["phrases"][name]))
    lines = "|".join(_any(_READ["words"][one]) for one in (name, *more))
    return re.compile(rf"{before}(?:{lines}){after}" if before or after else rf"\b(?:{lines})\b")


SAYS_NOTHING = frozenset(str(_READ["says_nothing"]).split())
"""Words that say nothing about what is meant."""

FUNCTION = frozenset(str(_READ["function"]).split())
"""Words that need no reading where a message is about products: they change nothing about what is asked for."""

TURNING = frozenset(str(_READ["turning"]).split())
"""Words that are never part of a product that is asked for."""

SPELLING: dict[str, str] = _READ["spelling"]
"""Short and wrong spellings of words that the rules go by."""

TALK = tuple((kind, re.compile(rf"(?:{_any(lines)})(?!\w)")) for kind, lines in _READ["talk"].items())
"""The kinds of small talk, and how people say it."""

ANGER = re.compile(rf"\b(?:{_any(_READ['talk']['anger'])})(?!\w)")
"""What customers say who are not happy, anywhere in a message."""

TOPICS = tuple((re.compile(rf"\b(?:{_any(topic['words'])})\b"), str(topic["search"])) for topic in _READ["topic"])
"""What a message may be about, and what to search the articles for; the first that fits."""

_BEFORE_LEAVE = rf"(?:(?:{_any(_READ['words']['first'])})\W+)*"
_LEAVE = rf"(?:{_any(_READ['words']['leave'])})"
FIRST_WORDS = re.compile(rf"^\W*{_BEFORE_LEAVE}")
"""What may stand before the request in a message."""

LEAVE = re.compile(
    rf"\W*{_BEFORE_LEAVE}{_LEAVE}(?:\W+{_BEFORE_LEAVE}{_LEAVE})*(?:\W+(?:please|thanks|thank you|then|anymore|any more))*\W*"
)
"""A message by which a customer drops something, and nothing else."""
