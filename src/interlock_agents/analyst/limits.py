"""Limits in a question: 'over 500 euros', 'more than 3 items', 'at least twice'."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from interlock_agents.analyst.periods import NUMBERS

__all__ = ["Limit", "limit_at"]

_SIGNS = {
    ">": "more than|over|above|greater than|higher than|larger than|bigger than|exceeding|of more than|of over|for more than|for over",
    ">=": "at least|a minimum of|no less than|not less than|minimum",
    "<": "less than|fewer than|under|below|lower than|smaller than|of less than|of under|for less than|for under",
    "<=": "at most|a maximum of|no more than|not more than|up to",
    "=": "exactly|only|just",
}
_UNITS = {
    "revenue": "euro|euros|eur",
    "orders": "order|orders|purchases|purchase|time|times",
    "units": "item|items|unit|units|piece|pieces",
}
_SCALES = {"k": 1_000, "thousand": 1_000, "hundred": 100, "m": 1_000_000, "million": 1_000_000}
_LABELS = {"revenue": "EUR", "orders": "orders", "units": "units"}

_SIGN_OF = {phrase: sign for sign, phrases in _SIGNS.items() for phrase in phrases.split("|")}
_MEASURE_OF = {unit: measure for measure, units in _UNITS.items() for unit in units.split("|")}
_NUMBER = rf"\d{{1,3}}(?:,\d{{3}})+(?:\.\d{{1,2}})?|\d{{1,9}}(?:\.\d{{1,2}})?|{'|'.join(NUMBERS)}"
_SIGN = rf"(?P<sign>{'|'.join(sorted(_SIGN_OF, key=len, reverse=True))})"


def _amount(name: str) -> str:
    """Return the pattern of a number with its currency before it or its unit behind it."""
    scale, unit = (rf"(?: (?P<{key}_{name}>{'|'.join(words)}))?" for key, words in (("scale", _SCALES), ("unit", _MEASURE_OF)))
    return rf"(?:(?P<currency_{name}>{_UNITS['revenue']}) )?(?P<number_{name}>{_NUMBER}){scale}{unit}(?= |$)"


_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"between {_amount('a')} and {_amount('b')}",
        rf"{_SIGN} (?P<times>once|twice)(?= |$)",
        rf"{_SIGN} {_amount('a')}",
        rf"{_amount('a')} (?P<more>(?:or|and) more)(?: (?P<unit_b>{'|'.join(_MEASURE_OF)}))?(?= |$)",
    )
)


@dataclass(frozen=True)
class Limit:
    """A condition on a figure of each order, customer and so on."""

    measure: str
    bounds: tuple[tuple[str, float], ...]

    @property
    def label(self) -> str:
        bounds = " and ".join(f"{_SIGNS[sign].partition('|')[0]} {number:,.10g}" for sign, number in self.bounds)
        name = _LABELS[self.measure]
        return f"{bounds} {name.removesuffix('s') if self.bounds[-1][1] == 1 else name}"


def limit_at(words: Sequence[str], at: int) -> tuple[Limit, int] | None:
    """Parse a limit that begins at a word. Return it with the number of its words, or None if it has no unit or more than one."""
    text = " ".join(words[at : at + 12])
    match = next((found for form in _FORMS if (found := form.match(text)) is not None), None)
    if match is None:
        return None
    found, used = match.groupdict(), len(match[0].split())
    if found.get("times"):
        return Limit("orders", ((_SIGN_OF[found["sign"]], 1 if found["times"] == "once" else 2),)), used
    units = {_MEASURE_OF[unit] for name in "ab" for key in ("unit", "currency") if (unit := found.get(f"{key}_{name}"))}
    numbers = [_number(found, name) for name in "ab" if found.get(f"number_{name}")]
    if len(units) != 1 or numbers != sorted(numbers):
        return None
    signs = (">=", "<=") if len(numbers) > 1 else (">=" if found.get("more") else _SIGN_OF[found["sign"]],)
    return Limit(units.pop(), tuple(zip(signs, numbers, strict=True))), used


def _number(found: dict[str, str | None], name: str) -> float:
    word = found[f"number_{name}"] or ""
    return float(NUMBERS.index(word) if word in NUMBERS else word.replace(",", "")) * _SCALES.get(found[f"scale_{name}"] or "", 1)
