"""Periods of time in a question: years, quarters, months, days and ranges, by name or relative to today."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["MONTHS", "NUMBERS", "Period", "join", "period_at"]

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
_SHORT = {name[:3]: number for number, name in enumerate(MONTHS, 1)} | {"sept": 9}
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4}
_UNITS = {word: unit for unit in ("day", "week", "month", "quarter", "year") for word in (unit, f"{unit}s")}
_LAST = frozenset({"last", "past", "previous", "prior", "recent"})
_STEPS = {"before": -1, "earlier": -1, "prior": -1, "previously": -1, "after": 1, "later": 1}
_THIS = frozenset({"this", "current"})
_OPENS = frozenset(
    [
        *("in", "of", "for", "since", "during", "from", "to", "until", "till", "between", "before", "after", "and", "vs", "versus"),
        *("through", "about", "or", "with", "than", "by", "on", "last", "this", ",", "early", "late"),
    ]
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")
_ISO = re.compile(r"((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?")
_FIGURES = re.compile(r"(\d{1,2})([./])(\d{1,2})\2((?:19|20)\d\d)")
_ISO_QUARTER = re.compile(r"(?:((?:19|20)\d\d)-?)?q([1-4])(?:-?((?:19|20)\d\d))?")
_HALF = re.compile(r"h([12])")
_LONGEST = 1000  # days, weeks and so on that a question may go back


@dataclass(frozen=True)
class Period:
    """A span of days, the end not included. Without a year it is one of every year, and has no start."""

    label: str
    start: dt.date | None
    end: dt.date | None
    year: int | None = None
    first: int | None = None
    """The first of its months, and how many there are: what stays the same in another year."""
    months: int | None = None
    ends: tuple[Period, ...] = ()
    """The periods that it was joined from: a change is one between them."""
    shift: tuple[str, int] | None = None
    """How far it is from the period of the question before, such as a year back. Without a start it is nothing else."""

    @classmethod
    def of_year(cls, year: int) -> Period:
        return cls(str(year), dt.date(year, 1, 1), dt.date(year + 1, 1, 1), year)

    @classmethod
    def of_months(cls, first: int, months: int, year: int | None) -> Period:
        name = {1: MONTHS[first - 1].capitalize(), 3: f"Q{first // 3 + 1}", 6: f"H{first // 6 + 1}"}[months]
        if year is None:
            return cls(name, None, None, None, first, months)
        return cls(f"{name} {year}", dt.date(year, first, 1), _months_after(dt.date(year, first, 1), months), year, first, months)

    def in_year(self, year: int) -> Period:
        """Return the same months of a year."""
        return self.of_year(year) if self.first is None or self.months is None else self.of_months(self.first, self.months, year)

    @property
    def is_year(self) -> bool:
        return self.year is not None and self.first is None and self.label == str(self.year)

    def before(self) -> Period | None:
        """Return the same period of the year before, where it is one of a year."""
        return None if self.year is None else self.in_year(self.year - 1)

    def shifted(self, unit: str, step: int) -> Period | None:
        """Return the period that is a year, a quarter or a month away, where it is one of a year and no longer than that."""
        if self.year is None:
            return None
        if unit == "year":
            return self.in_year(self.year + step)
        months = {"quarter": 3, "month": 1}.get(unit)
        if self.start is None or self.months != months or months is None:
            return None
        first = _months_after(self.start, step * months)
        return self.of_months(first.month, months, first.year)


def period_at(words: Sequence[str], at: int, today: dt.date) -> tuple[Period, int] | None:
    """Read a period that begins at a word; return it with the number of its words."""
    for reads in (_shift, _relative, _dated, _part_of_year, _month, _plain_year):
        found = reads(words, at, today)
        if found is not None:
            return found
    return None


def join(first: Period, last: Period) -> Period | None:
    """Make one period from the beginning of one to the end of another."""
    if first.year is None and last.year is not None and first.months is not None:
        first = first.in_year(last.year)
    elif last.year is None and first.year is not None and last.months is not None:
        last = last.in_year(first.year)
    if first.start is None or last.end is None or first.start >= last.end:
        return None
    return Period(f"{first.label} to {last.label}", first.start, last.end, ends=(first, last))


def _shift(words: Sequence[str], at: int, today: dt.date) -> tuple[Period, int] | None:
    """Read 'the year before', 'the month after that': a period that is counted from another one."""
    unit, following = _UNITS.get(words[at]), list(words[at + 1 : at + 3])
    if unit in {"year", "quarter", "month"} and following and following[0] in _STEPS:
        used = 3 if len(following) > 1 and following[1] in {"that", "this", "it"} else 2
        if at + used < len(words) and period_at(words, at + used, today) is not None:
            return None  # the year before 2025
        return Period(f"the {unit} {following[0]}", None, None, shift=(unit, _STEPS[following[0]])), used
    if words[at] in {"previous", "prior", "preceding"} and following and (unit := _UNITS.get(following[0])) in {"year", "quarter", "month"}:
        return replace(_calendar(unit, -1, today), shift=(unit, -1)), 2
    return None


def _relative(words: Sequence[str], at: int, today: dt.date) -> tuple[Period, int] | None:
    word, following = words[at], words[at + 1 : at + 3]
    if word in {"yesterday", "today", "tomorrow"}:
        day = today + dt.timedelta(days={"yesterday": -1, "today": 0, "tomorrow": 1}[word])
        return Period(word, day, day + dt.timedelta(days=1)), 1
    if word == "ytd" or list(words[at : at + 3]) == ["year", "to", "date"]:
        return Period(f"{today.year} to date", dt.date(today.year, 1, 1), today + dt.timedelta(days=1)), 1 if word == "ytd" else 3
    step = -1 if word in _LAST else 0 if word in _THIS else 1 if word == "next" else None
    if step is None or not following:
        return None
    unit = _UNITS.get(following[0])
    if unit == "quarter" and _year_behind(words, at + 2, today)[1]:
        return None  # the last quarter of a year that is named
    if unit is not None and following[0] == unit and word not in {"past", "recent"}:  # of those it is not clear where they begin
        return _calendar(unit, step, today), 2
    count = _number(following[0])
    if count is None or step != -1 or len(following) < 2 or (unit := _UNITS.get(following[1])) is None:  # noqa: PLR2004 - a number and a unit
        return None
    return _back(count, unit, today), 3


def _calendar(unit: str, step: int, today: dt.date) -> Period:
    """Return the calendar day, week, month, quarter or year that is so many away from the one of today."""
    if unit == "year":
        return Period.of_year(today.year + step)
    if unit in {"day", "week"}:
        days = 7 if unit == "week" else 1
        begin = (today - dt.timedelta(days=today.weekday()) if unit == "week" else today) + dt.timedelta(days=step * days)
        return Period(f"{unit} of {begin.isoformat()}", begin, begin + dt.timedelta(days=days))
    months = 1 if unit == "month" else 3
    first = _months_after(dt.date(today.year, (today.month - 1) // months * months + 1, 1), step * months)
    return Period.of_months(first.month, months, first.year)


def _back(count: int, unit: str, today: dt.date) -> Period:
    """Return the last so many days, weeks, months, quarters or years, which end with today."""
    end = today + dt.timedelta(days=1)
    if unit in {"day", "week"}:
        start = end - dt.timedelta(days=count * (7 if unit == "week" else 1))
    else:
        start = _months_after(end, -count * {"month": 1, "quarter": 3, "year": 12}[unit])
    return Period(f"the last {count} {unit}s ({start.isoformat()} to {today.isoformat()})", start, end)


def _dated(words: Sequence[str], at: int, _: dt.date) -> tuple[Period, int] | None:
    iso = _ISO.fullmatch(words[at])
    if iso is not None:
        if iso[3] is None:
            return (Period.of_months(int(iso[2]), 1, int(iso[1])), 1) if 1 <= int(iso[2]) <= len(MONTHS) else None
        return _day(int(iso[1]), int(iso[2]), int(iso[3]), 1)
    figures = _FIGURES.fullmatch(words[at])
    if figures is not None:  # 24.12.2025 is a day of December, 3/4/2025 is one of March or of April
        first, second = int(figures[1]), int(figures[3])
        if figures[2] == "/" and first <= len(MONTHS) and first != second:
            first, second = (second, first) if second > len(MONTHS) else (0, 0)
        return _day(int(figures[4]), second, first, 1)
    rest = list(words[at : at + 5])
    if rest[0] == "the":
        return None
    number = _DAY.fullmatch(rest[0])
    if number is not None and len(rest) > 1:  # 3 May 2025, 3rd of May, 2025
        named = [word for word in rest[1:] if word not in {"of", ","}]
        skipped = len(rest) - 1 - len(named)
        month = _month_number(named[0]) if named else None
        if month is not None and len(named) > 1 and _YEAR.fullmatch(named[1]):
            used = 1 + rest[1:].index(named[1]) + 1
            return _day(int(named[1]), month, int(number[1]), used) if skipped <= 2 else None  # noqa: PLR2004
        return None
    month = _month_number(rest[0])
    if month is None or len(rest) < 3:  # noqa: PLR2004 - May 3 2025
        return None
    number = _DAY.fullmatch(rest[1])
    tail = [word for word in rest[2:] if word != ","]
    if number is None or not tail or not _YEAR.fullmatch(tail[0]):
        return None
    return _day(int(tail[0]), month, int(number[1]), rest.index(tail[0]) + 1)


def _part_of_year(words: Sequence[str], at: int, today: dt.date) -> tuple[Period, int] | None:
    """Read a quarter or a half: Q1 2025, 2025-Q1, the first half of 2025."""
    word = words[at]
    quarter, half = _ISO_QUARTER.fullmatch(word), _HALF.fullmatch(word)
    used, months, which = 1, 3, 0
    year: int | None = None
    if quarter is not None:
        which = int(quarter[2])
        year = int(quarter[1] or quarter[3]) if quarter[1] or quarter[3] else None
    elif half is not None:
        which, months = int(half[1]), 6
    elif word in {*_ORDINALS, "last"} and at + 1 < len(words) and words[at + 1] in {"quarter", "half"}:
        months = 3 if words[at + 1] == "quarter" else 6
        which, used = _ORDINALS.get(word, 12 // months), 2
    elif _YEAR.fullmatch(word) and at + 1 < len(words) and (later := _ISO_QUARTER.fullmatch(words[at + 1])) and not (later[1] or later[3]):
        return Period.of_months(int(later[2]) * 3 - 2, 3, int(word)), 2
    named = next((word for word in words[at + used : at + used + 3] if word not in {"of", "in", "the"}), "")
    if not which or which * months > len(MONTHS) or (used > 1 and _month_number(named) is not None):
        return None  # the second half of December is no half of a year
    if year is None:
        year, more = _year_behind(words, at + used, today)
        used += more
    return Period.of_months((which - 1) * months + 1, months, year), used


def _month(words: Sequence[str], at: int, today: dt.date) -> tuple[Period, int] | None:
    month = _month_number(words[at])
    if month is None:
        return None
    year, used = _year_behind(words, at + 1, today)
    if year is None and words[at] in {"may", "march", "mar", "sep", "dec", "jan"} and at > 0 and words[at - 1] not in _OPENS:
        return None  # "may we", "to march on"
    return Period.of_months(month, 1, year), 1 + used


def _plain_year(words: Sequence[str], at: int, _: dt.date) -> tuple[Period, int] | None:
    skipped = 1 if words[at] == "year" and at + 1 < len(words) else 0
    if not _YEAR.fullmatch(words[at + skipped]):
        return None
    return Period.of_year(int(words[at + skipped])), 1 + skipped


def _year_behind(words: Sequence[str], at: int, today: dt.date) -> tuple[int | None, int]:
    """Read the year that belongs to a month or a quarter, with the number of words that say it."""
    skipped = 0
    while at + skipped < len(words) and words[at + skipped] in {"of", "in", ",", "the", "year"}:
        skipped += 1
    rest = words[at + skipped :]
    if rest and _YEAR.fullmatch(rest[0]):
        return int(rest[0]), skipped + 1
    if len(rest) > 1 and rest[1] == "year" and (rest[0] in _LAST or rest[0] in _THIS):
        return today.year - (rest[0] in _LAST), skipped + 2
    return None, 0


def _month_number(word: str) -> int | None:
    if word in MONTHS:
        return MONTHS.index(word) + 1
    return _SHORT.get(word)


def _number(word: str) -> int | None:
    if word.isascii() and word.isdigit():
        return int(word) if 0 < int(word[:5]) <= _LONGEST and len(word) < len(str(_LONGEST)) + 1 else None
    return NUMBERS.index(word) if word in NUMBERS[1:] else None


def _day(year: int, month: int, day: int, used: int) -> tuple[Period, int] | None:
    try:
        start = dt.date(year, month, day)
    except ValueError:
        return None
    return Period(start.isoformat(), start, start + dt.timedelta(days=1)), used


def _months_after(day: dt.date, months: int) -> dt.date:
    """Return the day so many months later, or the last one of that month where it has fewer days."""
    count = day.year * 12 + day.month - 1 + months
    year, month = count // 12, count % 12 + 1
    for last in (day.day, 30, 29, 28):
        try:
            return dt.date(year, month, min(day.day, last))
        except ValueError:
            continue
    raise AssertionError
