"""Limits in a question: 'over 500 euros', 'more than 3 items', 'at least twice'."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from interlock_agents.analyst.periods import NUMBERS

__all__ = ["LIMIT_WORDS", "Limit", "limit_at"]

Limited = Literal["revenue", "orders", "units"]

_BOUNDS = {
    ">": "more than|over|above|greater than|higher than|larger than|bigger than|exceeding|of more than|of over|for more than|for over",
    ">=": "at least|a minimum of|no less than|not less than|minimum",
    "<": "less than|fewer than|under|below|lower than|smaller than|of less than|of under|for less than|for under",
    "<=": "at most|a maximum of|no more than|not more than|up to",
    "=": "exactly|only|just",
}
_PHRASES = sorted(
    ((tuple(phrase.split()), sign) for sign, written in _BOUNDS.items() for phrase in written.split("|")), key=lambda one: -len(one[0])
)
_CURRENCY = ("euro", "euros", "eur")
_UNITS: dict[str, Limited] = {
    **dict.fromkeys(_CURRENCY, "revenue"),
    **dict.fromkeys(("order", "orders", "purchases", "purchase", "time", "times"), "orders"),
    **dict.fromkeys(("item", "items", "unit", "units", "piece", "pieces"), "units"),
}
_TIMES = {"once": 1, "twice": 2}
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d{1,2})?|\d{1,9}(?:\.\d{1,2})?")
_SCALES = {"k": 1_000, "thousand": 1_000, "hundred": 100, "m": 1_000_000, "million": 1_000_000}
_NAMES: dict[Limited, str] = {"revenue": "EUR", "orders": "orders", "units": "units"}
_SIGNS = {">": "more than", ">=": "at least", "<": "less than", "<=": "at most", "=": "exactly"}


LIMIT_WORDS = frozenset({*_UNITS, *_TIMES, *_SCALES, *(word for phrase, _ in _PHRASES for word in phrase)})
"""The words that limits are made of."""


@dataclass(frozen=True)
class Limit:
    """What a figure of each order, customer and so on has to be."""

    measure: Limited
    bounds: tuple[tuple[str, float], ...]

    @property
    def label(self) -> str:
        bounds = " and ".join(f"{_SIGNS[sign]} {number:,.10g}" for sign, number in self.bounds)
        name = _NAMES[self.measure]
        return f"{bounds} {name.removesuffix('s') if self.bounds[-1][1] == 1 else name}"


def limit_at(words: Sequence[str], at: int) -> tuple[Limit, int] | None:
    """Read a limit that begins at a word; return it with the number of its words. Without a unit it is none."""
    if words[at] == "between":
        return _between(words, at)
    sign, used = next(((sign, len(phrase)) for phrase, sign in _PHRASES if tuple(words[at : at + len(phrase)]) == phrase), ("", 0))
    if sign and at + used < len(words) and words[at + used] in _TIMES:
        return Limit("orders", ((sign, _TIMES[words[at + used]]),)), used + 1
    amount = _amount(words, at + used)
    if amount is None:
        return None
    number, unit, length = amount
    used += length
    if not sign and tuple(words[at + used : at + used + 2]) in {("or", "more"), ("and", "more")}:  # "100 euros or more"
        sign, used = ">=", used + 2
        if unit is None and at + used < len(words) and (unit := _UNITS.get(words[at + used])) is not None:  # "3 or more items"
            used += 1
    return (Limit(unit, ((sign, number),)), used) if sign and unit is not None else None


def _between(words: Sequence[str], at: int) -> tuple[Limit, int] | None:
    low = _amount(words, at + 1)
    middle = at + 1 + low[2] if low is not None else len(words)
    high = _amount(words, middle + 1) if middle < len(words) and words[middle] == "and" else None
    if low is None or high is None or high[1] is None or low[1] not in {None, high[1]} or low[0] > high[0]:
        return None
    return Limit(high[1], ((">=", low[0]), ("<=", high[0]))), middle + 1 + high[2] - at


def _amount(words: Sequence[str], at: int) -> tuple[float, Limited | None, int] | None:
    """Read a number with its unit and the number of its words. '1.000' could be one or a thousand: it is none."""
    used = 1 if at < len(words) and words[at] in _CURRENCY else 0  # "over EUR 500", and a sign before the number
    word = words[at + used] if at + used < len(words) else ""
    if word not in NUMBERS and not _NUMBER.fullmatch(word):
        return None
    number = float(NUMBERS.index(word) if word in NUMBERS else word.replace(",", ""))
    rest = words[at + used + 1 :]
    unit: Limited | None = "revenue" if used else None
    used += 1
    if rest and rest[0] in _SCALES:
        number, rest, used = number * _SCALES[rest[0]], rest[1:], used + 1
    if unit is None and rest and rest[0] in _UNITS:
        unit, used = _UNITS[rest[0]], used + 1
    return number, unit, used
