"""The vocabulary of the offline rules, from `vocabulary.toml`: figures, groupings, values, and the words around them."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

__all__ = [
    "FIGURES", "FILLER", "GENERAL", "GROUPINGS", "GROUPS", "HINTS", "IDIOMS", "MEASURES", "MISSPELLINGS", "ORDER_DATES", "PATTERNS",
    "PHRASES", "SIGNUP_DATES", "SYNONYMS", "TIMES", "VALUES", "Group", "Meaning", "Measure",
]  # fmt: skip

_DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

ORDER_DATES = (dt.date(2024, 1, 1), dt.date(2026, 1, 1))
"""The days of the orders in the demo warehouse, the end not included."""

SIGNUP_DATES = (dt.date(2020, 1, 1), dt.date(2024, 1, 1))
"""The days on which its customers signed up, the end not included."""

TIMES = frozenset({"year", "quarter", "month", "week", "day"})
"""The groupings by time."""

FIGURES = (
    "revenue, net revenue, orders, units sold, customers, products, the average order value, the return rate, the cancellation rate "
    "and the gross margin"
)
GROUPINGS = "country, city, category, product, segment, status, channel, coupon, day, week, month, quarter or year"


@dataclass(frozen=True)
class Measure:
    """A figure of the demo warehouse. `vocabulary.toml` explains the fields."""

    label: str
    column: str
    sql: str
    source: Literal["orders", "items", "products_sold", "customers", "products"]
    kind: Literal["sum", "count", "mean", "date"]
    of: str = ""
    where: str = ""
    by: frozenset[str] | None = None

    def select(self, condition: str = "") -> str:
        """Return the SQL of the aggregate, of all rows or of those that meet a condition."""
        return self.sql.format(f"CASE WHEN {condition} THEN {self.of} END" if condition else self.of)


@dataclass(frozen=True)
class Group:
    """A grouping of the demo warehouse."""

    sql: str
    plural: str


class Meaning(NamedTuple):
    """What a phrase stands for: its kind, its value, and its class in `questions.grammar`."""

    kind: str
    value: str
    word_class: str


def _split(text: str) -> list[str]:
    return [phrase.strip() for phrase in text.split("|")]


def _inverted(table: Mapping[str, str]) -> dict[str, str]:
    return {word: meaning for meaning, words in table.items() for word in _split(words)}


MEASURES = {
    name: Measure(
        **{key: value for key, value in entry.items() if key not in {"words", "class", "by"}},
        by=frozenset(entry["by"].split()) if "by" in entry else None,
    )
    for name, entry in _DATA["measures"].items()
}
GROUPS = {name: Group(entry["sql"], entry.get("plural", f"{name}s")) for name, entry in _DATA["groups"].items()}
VALUES: frozenset[str] = frozenset(_DATA["values"])
"""The groupings that have values in the vocabulary."""

MISSPELLINGS = _inverted(_DATA["misspellings"])
PATTERNS: Mapping[str, re.Pattern[str]] = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _DATA["patterns"].items()}
FILLER, GENERAL = (frozenset(_DATA["handbook"][name].split()) for name in ("filler", "general"))
SYNONYMS = _inverted(_DATA["handbook"]["synonyms"])
HINTS = tuple((re.compile(rf"\b(?:{'|'.join(_split(hint['words']))})\b"), str(hint["text"])) for hint in _DATA["hint"])
IDIOMS = tuple((re.compile(idiom["pattern"]), str(idiom["plain"])) for idiom in _DATA["idiom"])
"""Regular expressions for text in small letters with single spaces, and what replaces them."""


def _entries() -> Iterator[tuple[str, str, str, str]]:
    """Yield the kind, the value, the class and the words of every entry."""
    yield from (("neutral", name, name, words) for name, words in _DATA["neutral"].items())
    yield ("", "", "UNKNOWN", _DATA["unknown"]["phrases"])
    yield from (("word", name, name.upper(), words) for name, words in _DATA["words"].items())
    groups, measures = _DATA["groups"].items(), _DATA["measures"].items()
    yield from (("group", name, entry.get("class", "GROUP"), entry["words"]) for name, entry in groups)
    yield from (("every", name, "EVERY", entry["every"]) for name, entry in groups if "every" in entry)
    yield from (("measure", name, entry.get("class", "FIGURE"), entry["words"]) for name, entry in measures)
    for kind, values in _DATA["values"].items():
        named = {name: name.lower() for name in _split(values)} if isinstance(values, str) else values
        yield from ((kind, name, {"category": "GOODS", "status": "STATUS"}.get(kind, "VALUE"), words) for name, words in named.items())
    for kind, word_class in (("stated", "STATED"), ("top", "TOP"), ("top_of_units", "TOPUNITS"), ("top_of_price", "TOPPRICE")):
        yield from ((kind, name, word_class, words) for name, words in _DATA[kind].items())


def _phrases() -> dict[tuple[str, ...], Meaning]:
    """Collect all phrases. If a phrase has several meanings, the last one counts."""
    found = {tuple(phrase.split()): Meaning(*entry) for *entry, words in _entries() for phrase in _split(words)}
    for word, word_class in _DATA["classes"].items():
        found[word,] = found[word,]._replace(word_class=word_class)
    return found


PHRASES: Mapping[tuple[str, ...], Meaning] = _phrases()
