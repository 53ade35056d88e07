"""Periods of time in a question: years, quarters, months, days and ranges, by name or relative to today."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

__all__ = ["MONTHS", "NUMBERS", "Period", "combined", "join", "open_ended", "period_at"]

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_MONTH_NUMBERS = {name: number for number, full in enumerate(MONTHS, 1) for name in (full, full[:3])} | {"sept": 9}
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4}
_MONTHS_IN = {"month": 1, "quarter": 3, "half": 6, "year": 12}
_DAYS_IN = {"day": 1, "week": 7}
# A question may go back by at most so many days, weeks and so on.
_MAX_COUNT = 1000
# Month names that are also other words, unless one of these words comes before them: "may we", "to march on".
_AMBIGUOUS = frozenset({"may", "march", "mar", "sep", "dec", "jan"})
_BEFORE_MONTH = frozenset(
    """
    in of for since during from to until till between before after and vs versus through about or with than by on last this , early late
    """.split()  # noqa: SIM905 - a list takes more lines
)


@dataclass(frozen=True)
class Period:
    """A span of days, the end not included. A period without a year, such as 'March', has no start."""

    label: str
    start: dt.date | None
    end: dt.date | None
    year: int | None = None
    first: int | None = None
    """The first month and the number of months, which stay the same in another year."""
    months: int | None = None
    ends: tuple[Period, ...] = ()
    """The periods that a range was joined from. A change is calculated between them."""
    shift: tuple[str, int] | None = None
    """The distance to the period of the previous question, such as a year back."""

    @classmethod
    def of_year(cls, year: int) -> Period:
        return cls(str(year), dt.date(year, 1, 1), dt.date(year + 1, 1, 1), year)

    @classmethod
    def of_months(cls, first: int, months: int, year: int | None) -> Period:
        named = "" if year is None else f" {year}"
        name = {1: MONTHS[first - 1].capitalize(), 3: f"Q{first // 3 + 1}", 6: f"H{first // 6 + 1}"}.get(months, "")
        if not name or (first - 1) % months:
            name = f"{MONTHS[first - 1].capitalize()}{named} to {MONTHS[first + months - 2].capitalize()}"
        if year is None:
            return cls(name, None, None, None, first, months)
        return cls(f"{name}{named}", dt.date(year, first, 1), _add_months(dt.date(year, first, 1), months), year, first, months)

    def in_year(self, year: int) -> Period:
        """Return the same months of another year."""
        return self.of_year(year) if self.first is None or self.months is None else self.of_months(self.first, self.months, year)

    @property
    def is_year(self) -> bool:
        return self.year is not None and self.first is None and self.label == str(self.year)

    def year_before(self) -> Period | None:
        """Return the same period of the year before, or None for a period without a year."""
        return None if self.year is None else self.in_year(self.year - 1)

    def shifted(self, unit: str, step: int) -> Period | None:
        """Return the period that is `step` years, quarters or months away, or None if this one is not exactly that long."""
        if self.year is None:
            return None
        if unit == "year":
            return self.in_year(self.year + step)
        months = _MONTHS_IN[unit]
        if self.start is None or self.months != months:
            return None
        first = _add_months(self.start, step * months)
        return self.of_months(first.month, months, first.year)


def join(first: Period, last: Period) -> Period | None:
    """Return the period from the start of one to the end of another. Both can be without a year: 'March to May'."""
    if first.year is None and last.year is not None and first.months is not None:
        first = first.in_year(last.year)
    elif last.year is None and first.year is not None and last.months is not None:
        last = last.in_year(first.year)
    if first.first and last.first and last.months and first.start is None and last.start is None and first.first < last.first:
        return Period.of_months(first.first, last.first + last.months - first.first, None)
    if first.start is None or last.end is None or first.start >= last.end:
        return None
    return Period(f"{first.label} to {last.label}", first.start, last.end, ends=(first, last))


def open_ended(word: str, period: Period) -> Period:
    """Return what 'since', 'after', 'before' or 'to' makes of a period."""
    made = replace(period, year=None, first=None, months=None)
    if period.start is None:
        return period
    return {
        "since": replace(made, label=f"since {period.label}", end=dt.date.max),
        "after": replace(made, label=f"after {period.label}", start=period.end, end=dt.date.max),
        "before": replace(made, label=f"before {period.label}", start=dt.date.min, end=period.start),
        "to": replace(made, label=f"until {period.label}", start=dt.date.min),
    }[word]


def combined(periods: Sequence[Period]) -> tuple[Period, ...]:
    """Complete the periods of one question from one another: 'Q1 and Q2 2025' are two quarters of 2025."""
    dated = [one for one in periods if one.year is not None and one.shift is None]
    if len(dated) == 1:  # "in 2025 compared to the year before"
        periods = [(dated[0].shifted(*one.shift) or one) if one.shift is not None else one for one in periods]
    years = {one.year for one in periods if one.year is not None}
    months = {(one.first, one.months) for one in periods if one.first is not None and one.months is not None}
    if len(years) == 1 and any(one.year is None and one.months is not None for one in periods):
        [year] = years
        periods = [one if one.start is not None or one.months is None else one.in_year(year) for one in periods]
        periods = [one for one in periods if not one.is_year]  # "in Q1, in the year 2025"
    elif len(months) == 1 and len(years) > 1 and any(one.is_year for one in periods):  # "March 2024 and 2025"
        [(first, count)] = months
        periods = [Period.of_months(first, count, one.year) for one in periods if one.year]
    return tuple(dict.fromkeys(periods))


_Build: TypeAlias = Callable[[re.Match[str], dt.date], Period | None]

_YEAR = r"(?:19|20)\d\d"
_UNIT = "day|week|month|quarter|year"
_MONTH = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_LAST = "last|past|previous|prior|recent"
_BEHIND = " (?:(?:of|in|,|the|year) )*"
_OF_YEAR = rf"(?:{_BEHIND}(?:(?P<year>{_YEAR})|(?P<relative>{_LAST}|this|current) year))?"
_HAS_MONTH = rf"(?: (?:of|in|the))* (?:{_MONTH})\b"
_HAS_YEAR = rf"{_BEHIND}(?:{_YEAR}|(?:{_LAST}|this|current) year)\b"


def _year(match: re.Match[str], today: dt.date) -> int | None:
    """Return the year that belongs to a month or a quarter."""
    if match["relative"] is not None:
        return today.year - (match["relative"] not in {"this", "current"})
    return int(match["year"]) if match["year"] is not None else None


def _day(year: str, month: int, day: str) -> Period | None:
    try:
        start = dt.date(int(year), month, int(day))
    except ValueError:
        return None
    return Period(start.isoformat(), start, start + dt.timedelta(days=1))


def _numeric_day(match: re.Match[str], _: dt.date) -> Period | None:
    """Read 24.12.2025 as a day of December. 3/4/2025 can be a day of March or of April, so it is not read."""
    first, second = int(match["a"]), int(match["b"])
    if match["sign"] == "/" and first <= len(MONTHS) and first != second:
        first, second = (second, first) if second > len(MONTHS) else (0, 0)
    return _day(match["y"], second, str(first))


def _near_today(match: re.Match[str], today: dt.date) -> Period:
    day = today + dt.timedelta(days={"yesterday": -1, "today": 0, "tomorrow": 1}[match[0]])
    return Period(match[0], day, day + dt.timedelta(days=1))


def _calendar(unit: str, step: int, today: dt.date) -> Period:
    """Return the calendar day, week, month, quarter or year that is `step` units away from today's."""
    if unit == "year":
        return Period.of_year(today.year + step)
    if unit in _DAYS_IN:
        days = _DAYS_IN[unit]
        begin = today - dt.timedelta(days=today.weekday() if unit == "week" else 0) + dt.timedelta(days=step * days)
        return Period(f"{unit} of {begin.isoformat()}", begin, begin + dt.timedelta(days=days))
    months = _MONTHS_IN[unit]
    first = _add_months(dt.date(today.year, (today.month - 1) // months * months + 1, 1), step * months)
    return Period.of_months(first.month, months, first.year)


def _relative(match: re.Match[str], today: dt.date) -> Period:
    step = {"this": 0, "current": 0, "next": 1}.get(match["which"], -1)
    found = _calendar(match["unit"], step, today)
    is_shift = match["which"] in {"previous", "prior", "preceding"} and match["unit"] in _MONTHS_IN
    return replace(found, shift=(match["unit"], step)) if is_shift else found


def _back(match: re.Match[str], today: dt.date) -> Period | None:
    """Return the last days, weeks, months, quarters or years, up to and including today."""
    count = int(match["count"]) if match["count"].isdigit() else NUMBERS.index(match["count"])
    unit, end = match["unit"], today + dt.timedelta(days=1)
    if not 0 < count <= _MAX_COUNT:
        return None
    start = end - dt.timedelta(days=count * _DAYS_IN[unit]) if unit in _DAYS_IN else _add_months(end, -count * _MONTHS_IN[unit])
    return Period(f"the last {count} {unit}s ({start.isoformat()} to {today.isoformat()})", start, end)


def _part_of_year(match: re.Match[str], today: dt.date) -> Period | None:
    months = _MONTHS_IN[match["unit"]]
    which = _ORDINALS.get(match["which"], 12 // months)
    return Period.of_months((which - 1) * months + 1, months, _year(match, today)) if which * months <= len(MONTHS) else None


_FORMS: tuple[tuple[str, _Build], ...] = (
    (
        r"(?P<unit>year|quarter|month)s? (?P<step>before|earlier|prior|previously|after|later)(?: (?:that|this|it))?",
        lambda m, _: Period(f"the {m['unit']} {m['step']}", None, None, shift=(m["unit"], 1 if m["step"] in {"after", "later"} else -1)),
    ),
    ("yesterday|today|tomorrow", _near_today),
    ("ytd|year to date", lambda _, today: Period(f"{today.year} to date", dt.date(today.year, 1, 1), today + dt.timedelta(days=1))),
    (rf"(?:{_LAST}) (?P<count>\d{{1,4}}|{'|'.join(NUMBERS[1:])}) (?P<unit>{_UNIT})s?", _back),
    (rf"(?P<y>{_YEAR})-(?P<m>\d\d)-(?P<d>\d\d)", lambda m, _: _day(m["y"], int(m["m"]), m["d"])),
    (rf"(?P<y>{_YEAR})-(?P<m>0[1-9]|1[0-2])", lambda m, _: Period.of_months(int(m["m"]), 1, int(m["y"]))),
    (rf"(?P<a>\d{{1,2}})(?P<sign>[./])(?P<b>\d{{1,2}})(?P=sign)(?P<y>{_YEAR})", _numeric_day),
    (
        rf"(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m>{_MONTH})(?: ,| of)? (?P<y>{_YEAR})",
        lambda m, _: _day(m["y"], _MONTH_NUMBERS[m["m"]], m["d"]),
    ),
    (
        rf"(?P<m>{_MONTH}) (?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: ,)? (?P<y>{_YEAR})",
        lambda m, _: _day(m["y"], _MONTH_NUMBERS[m["m"]], m["d"]),
    ),
    (rf"(?P<y>{_YEAR})[- ]?q(?P<q>[1-4])", lambda m, _: Period.of_months(int(m["q"]) * 3 - 2, 3, int(m["y"]))),
    (rf"q(?P<q>[1-4])-?(?P<y>{_YEAR})", lambda m, _: Period.of_months(int(m["q"]) * 3 - 2, 3, int(m["y"]))),
    (rf"q(?P<q>[1-4]){_OF_YEAR}", lambda m, today: Period.of_months(int(m["q"]) * 3 - 2, 3, _year(m, today))),
    (rf"h(?P<h>[12]){_OF_YEAR}", lambda m, today: Period.of_months(int(m["h"]) * 6 - 5, 6, _year(m, today))),
    # "last quarter" without a year is relative to today, and "the second half of December" is not half of a year.
    (rf"(?P<which>{'|'.join(_ORDINALS)}|last(?! quarter(?!{_HAS_YEAR}))) (?P<unit>quarter|half)(?!{_HAS_MONTH}){_OF_YEAR}", _part_of_year),
    (
        rf"(?P<which>last|previous|prior|preceding(?! day| week)|this|current|next) (?P<unit>{_UNIT})(?<!quarter(?={_HAS_YEAR}))",
        _relative,
    ),
    (rf"(?P<m>{_MONTH}){_OF_YEAR}", lambda m, today: Period.of_months(_MONTH_NUMBERS[m["m"]], 1, _year(m, today))),
    (rf"(?:year )?(?P<y>{_YEAR})", lambda m, _: Period.of_year(int(m["y"]))),
)
_COMPILED = tuple((re.compile(rf"(?:{pattern})(?= |$)"), build) for pattern, build in _FORMS)


def period_at(words: Sequence[str], at: int, today: dt.date) -> tuple[Period, int] | None:
    """Parse a period that begins at a word. Return it with the number of its words."""
    text = " ".join(words[at : at + 10])
    for pattern, build in _COMPILED:
        match = pattern.match(text)
        found = build(match, today) if match is not None else None
        if match is None or found is None:
            continue
        used = len(match[0].split())
        is_word = match[0] in _AMBIGUOUS and at > 0 and words[at - 1] not in _BEFORE_MONTH
        is_open = (
            found.shift is not None and found.start is None and period_at(words, at + used, today) is not None
        )  # "the year before 2025"
        return None if is_word or is_open else (found, used)
    return None


def _add_months(day: dt.date, months: int) -> dt.date:
    """Return the day that is `months` later, or the last day of that month if it is shorter."""
    count = day.year * 12 + day.month - 1 + months
    first = dt.date(count // 12, count % 12 + 1, 1)
    last = (first + dt.timedelta(days=31)).replace(day=1) - dt.timedelta(days=1)
    return first.replace(day=min(day.day, last.day))
