"""How the offline rules read a question about the demo warehouse: every word is used, changes nothing, or is named as left over."""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from interlock.agents.analyst.lexicon import DATA, PHRASES, Measure
from interlock.agents.analyst.periods import Period, join, period_at
from interlock.agents.analyst.reading import Filter, Reading
from interlock.agents.analyst.shapes import class_of, shape_of

__all__ = ["read"]

_WORD = re.compile(
    r"(?:19|20)\d\d-\d\d(?:-\d\d)?(?!\d)|(?:19|20)\d\d-q[1-4]\b|\d+(?:st|nd|rd|th)\b|\d+(?:[.,]\d+)*"
    r"|[^\W\d_][\w.-]*\w|\w|(?<=\d) ?[-\u2013] ?(?=\d)|[%&,/<>=]"
)
_VALUES = frozenset({"country", "city", "category", "status", "channel", "segment", "coupon"})
_TIMES = frozenset({"year", "quarter", "month", "week", "day"})
_NOUNS: dict[str, Measure] = {"product": "products", "customer": "customers", "order": "orders"}
_LONGEST_PHRASE = max(map(len, PHRASES))
_LEAST_LETTERS, _LIKENESS = 5, 0.82
_PLURALS = frozenset({"countries", "cities", "categories", "statuses"}) | {
    f"{one}s"
    for one in ("product", "customer", "month", "quarter", "week", "day", "year", "channel", "segment", "order", "coupon", "client")
}
_MOST = frozenset({"most", "least", "fewest"})
_MONEY = frozenset({"revenue", "net", "average", "price"})
_COUNTS = frozenset({"orders", "customers", "buyers", "products"})
_LEADING = ("by", "since", "before", "after", "not", "versus")
_LOOSE = re.compile(r"\b(?:income|earn\w*|make|made|money|takings)\b")  # could be a profit
_SINGLED_OUT = {"or": "OR", "there": "THERE", "who": "WHO", "spend": "SPENT", "spends": "SPENT", "spent": "SPENT"}
_DEFAULT_TOP = 5
_MOST_TOP = 1000
_FOLLOWS = re.compile(
    r"^(?:(?:ok(?:ay)?|great|thanks?|cool|so|now|right|alright|yes|hm+|but|also|then),?\s+)*?"
    r"(?:and|what about|how about|what of|(?:the )?same|instead|make it|make that)\b",
    re.IGNORECASE,
)
_NUMBER_WORDS = {"three": 3, "five": 5, "ten": 10, "two": 2, "four": 4, "six": 6, "seven": 7, "eight": 8, "nine": 9, "twenty": 20}


@dataclass(frozen=True)
class _Item:
    """A phrase that is known, with its kind and what it stands for. A word that is not known has the kind ''."""

    kind: str
    value: str
    words: str
    period: Period | None = None


@lru_cache(maxsize=256)  # the parts of a conversation are read again with every question
def read(question: str, today: dt.date) -> Reading:
    """Read a question."""
    follows = _FOLLOWS.match(question.strip()) is not None
    reader = _Reader(_items(_words(question), today))
    reading = reader.reading()
    return replace(reading, refers=reading.refers or follows)


def _words(text: str) -> list[str]:
    plain = text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    plain = re.sub(r"\b(what|how|who|where|there|here|it)'(?:s|re)\b", r"\1 is", plain)
    plain = re.sub(r"'(?:s|re|ve|ll|d|m)\b|'", " ", plain)
    return [word.strip() for word in _WORD.findall(plain)]


def _items(words: list[str], today: dt.date) -> list[_Item]:
    """Take the longest phrase that is known at each word, or a period."""
    items: list[_Item] = []
    at = 0
    while at < len(words):
        phrase = next((n for n in range(min(_LONGEST_PHRASE, len(words) - at), 0, -1) if tuple(words[at : at + n]) in PHRASES), 0)
        period = period_at(words, at, today)
        if period is not None and period[1] >= phrase:
            said, used = period
            items.append(_Item("period", said.label, " ".join(words[at : at + used]), said))
        elif phrase:
            used = phrase
            kind, value = PHRASES[tuple(words[at : at + used])]
            items.append(_Item(kind, value, " ".join(words[at : at + used])))
        else:
            used = 1
            items.append(_Item("", "", words[at]))
        at += used
    return items


class _Reader:
    """Goes through the phrases of a question once, and remembers which of them were used."""

    def __init__(self, items: Sequence[_Item]) -> None:
        self._notes: list[str] = []
        self._meant: list[str] = []
        said = [self._corrected(one) for one in _amounts(items)]
        self._shape = shape_of(map(_class_of, said))
        self._neutral = {one.value: one.words for one in said if one.kind == "neutral"}
        self._items = [one for one in said if one.kind != "neutral" and (one.kind, one.value) != ("word", "amount")]
        self._used: set[int] = set()
        self._barred: set[int] = set()
        self._made: dict[str, Any] = {"groups": (), "filters": (), "periods": (), "measures": ()}

    def reading(self) -> Reading:
        self._read_tops()
        self._read_groups()
        self._read_periods()
        self._read_filters()
        self._read_measures()
        self._read_nouns()
        self._read_words()
        self._leave_what_is_of_one_figure()
        self._used -= self._barred
        unused = [one.words for at, one in enumerate(self._items) if at not in self._used and not self._leads_to_unknown(at)]
        left = tuple(dict.fromkeys([*unused, *self._out_of_place()]))
        return Reading(
            **self._made,
            left=left,
            is_tangled=self._shape is None,
            is_fragment=self._shape == "fragment",
            notes=tuple(self._notes),
            meant=tuple(self._meant),
        )

    def _out_of_place(self) -> list[str]:
        """Name the words that change nothing about most figures and something about this one: orders are not counted in euros."""
        found: list[str] = []
        measures = set(self._made["measures"])
        if "MONEY" in self._neutral and measures and not measures <= _MONEY:
            found.append(self._neutral["MONEY"])
        if "ONLY" in self._neutral and measures & _COUNTS and any(one.group == "category" for one in self._made["filters"]):
            found.append(self._neutral["ONLY"])
        if "SUM" in self._neutral:
            self._made["is_sum"] = True
        return found

    def _leads_to_unknown(self, at: int) -> bool:
        """Tell whether a word such as 'per' is clear and the one behind it is not: it is that one that has to be named."""
        return self._is(at, "word", *_LEADING) and self._is(at + 1, "")

    def _corrected(self, item: _Item) -> _Item:
        """Read a word that is misspelt as the figure or the grouping that it looks like, and say so; a name is asked about."""
        if item.kind or len(item.words) < _LEAST_LETTERS or not item.words.isalpha():
            return item
        single = {words[0]: found for words, found in PHRASES.items() if len(words) == 1 and len(words[0]) >= _LEAST_LETTERS}
        close = difflib.get_close_matches(item.words, single, n=1, cutoff=_LIKENESS)
        if not close:
            return item
        kind, value = single[close[0]]
        if kind in {"measure", "group"}:
            self._notes.append(f"I read '{item.words}' as '{close[0]}'.")
            return _Item(kind, value, close[0])
        if kind in _VALUES:
            self._meant.append(value)
        return item

    def _at(self, position: int) -> _Item | None:
        return self._items[position] if 0 <= position < len(self._items) else None

    def _is(self, position: int, kind: str, *values: str) -> bool:
        item = self._at(position)
        return item is not None and item.kind == kind and (not values or item.value in values)

    def _add(self, name: str, value: Any) -> None:
        if value not in self._made[name]:
            self._made[name] = (*self._made[name], value)

    def _read_tops(self) -> None:
        """Read 'top 5', 'the 3 best', 'the most': how many rows, and which of them come first."""
        found = [at for at, one in enumerate(self._items) if one.kind.startswith("top")]
        if not found:
            return
        self._used.update(found)
        item, count = self._items[found[0]], None
        for near in (found[-1] + 1, found[0] - 1):
            number = self._at(near)
            if number is not None and number.kind == "" and (count := _count(number.words)) is not None:
                self._used.add(near)
                break
        self._made["smallest_first"] = item.value == "asc"
        self._made["judged"] = item.words
        if item.kind == "top of units" or (item.kind == "top" and self._is(found[-1] + 1, "category")):
            self._add("measures", "units")  # "the most desks" are many desks, whatever they cost
        elif item.kind == "top of price":
            self._add("measures", "price")
        named = [at for at, one in enumerate(self._items) if one.kind == "group" or (one.kind == "measure" and one.words == "orders")]
        if item.words in _MOST:  # "most orders" are many orders, and no order of its own
            named = [at for at in named if at - 1 not in self._used or self._is(at - 1, "word", "which")]
        near = [at for at in named if at - 1 in self._used or self._is(at - 1, "word", "which") or self._is(at + 1, "word", "which")]
        near = near or ([at for at in named if not self._is(at - 1, "word", "by")] if item.kind != "top" else [])
        if not near and not any(self._is(at - 1, "word", "by") for at in named):
            if item.kind == "top":
                self._used.difference_update(found)  # the top of what is not said
                return
            self._add("groups", "product")
        plural = True
        if near:
            noun = self._items[near[0]]
            self._used.update({near[0], near[0] - 1, near[0] + 1} & {near[0], *self._positions("word", "which")})
            self._add("groups", "order" if noun.words == "orders" else noun.value)
            plural = noun.words.split()[0] in _PLURALS or noun.words.split()[-1] in _PLURALS
        self._made["top"] = count or (_DEFAULT_TOP if plural else 1)

    def _positions(self, kind: str, *values: str) -> list[int]:
        return [at for at in range(len(self._items)) if self._is(at, kind, *values)]

    def _read_groups(self) -> None:
        """Read 'by country and category', 'per month', 'each channel'; 'by revenue' says what to go by."""
        for at in self._positions("word", "by"):
            following = at + 1
            while self._is(following, "group"):
                self._used.update({at, following})
                self._add("groups", self._items[following].value)
                following += 1
                joined = following
                while self._is(joined, "word", "and", "by"):
                    joined += 1
                if joined > following and self._is(joined, "group"):
                    self._used.update(range(following, joined))
                    following = joined
            named = at + 2 if self._is(at + 1, "word", "count") else at + 1
            is_ratio = self._is(named, "measure") and self._items[at].words.split()[-1] in {"per", "each", "every"}
            if not is_ratio and any(self._is(named, kind) for kind in (*_VALUES, "measure", "stated", "period", "every")):
                self._used.add(at)
        for at in self._positions("every"):
            self._used.add(at)
            self._add("groups", self._items[at].value)

    def _read_periods(self) -> None:
        at = 0
        while at < len(self._items):
            item = self._items[at]
            if item.period is None:
                at += 1
                continue
            self._used.add(at)
            before = at - 1
            if self._is(at + 1, "word", "to") or (self._is(before, "word", "from") and self._is(at + 1, "word", "and")):
                last = self._at(at + 2)
                whole = join(item.period, last.period) if last is not None and last.period is not None else None
                if last is not None and last.period is not None:
                    if whole is None and not self._add_each_year(item.period, last.period):
                        return
                    self._used.update({at + 1, at + 2} | ({before} if self._is(before, "word", "from") else set()))
                    if whole is not None:
                        self._add("periods", whole)
                    at += 3
                    continue
            self._add("periods", self._open_ended(item.period, at))
            if self._is(at + 1, "group") and self._items[at + 1].value in _TIMES:
                self._used.add(at + 1)
            at += 1
        self._spread_year()

    def _add_each_year(self, first: Period, last: Period) -> bool:
        """Read 'from March to June' as that time of each year that there are orders of. Return whether it is one."""
        years = range(DATA[0].year, DATA[1].year) if first.year is None and last.year is None and first.months and last.months else ()
        made = [join(first.in_year(year), last.in_year(year)) for year in years]
        found = [one for one in made if one is not None]
        for one in found:
            self._add("periods", one)
        return bool(found) and len(found) == len(made)

    def _open_ended(self, period: Period, at: int) -> Period:
        """Read 'since 2025', 'before March 2025', 'from May 2025 on'."""
        word = self._at(at - 1)
        behind = self._at(at + 1)
        is_from = word is not None and word.value == "from"
        if behind is not None and behind.words in {"onward", "onwards", "forward"} and is_from:
            self._used.update({at - 1, at + 1})
            return replace(period, label=f"since {period.label}", end=dt.date.max, year=None, first=None, months=None)
        if word is None or word.kind != "word" or period.start is None:
            return period
        plain = replace(period, year=None, first=None, months=None)
        made = {
            "since": replace(plain, label=f"since {period.label}", end=dt.date.max),
            "after": replace(plain, label=f"after {period.label}", start=period.end, end=dt.date.max),
            "before": replace(plain, label=f"before {period.label}", start=dt.date.min, end=period.start),
            "to": replace(plain, label=f"until {period.label}", start=dt.date.min),
            "from": period,
        }.get(word.value)
        if made is None:
            return period
        self._used.add(at - 1)
        return made

    def _spread_year(self) -> None:
        """Let 'Q1 and Q2 2025' be two quarters of 2025."""
        periods = cast("tuple[Period, ...]", self._made["periods"])
        years = {one.year for one in periods if one.year is not None}
        months = {(one.first, one.months) for one in periods if one.first is not None and one.months is not None}
        if len(years) == 1 and any(one.year is None and one.months is not None for one in periods):
            [year] = years
            periods = tuple(one if one.start is not None or one.months is None else one.in_year(year) for one in periods)
            if any(one.is_year for one in periods) and len(periods) > 1:  # "in Q1, in the year 2025"
                periods = tuple(one for one in periods if not one.is_year)
        elif len(months) == 1 and len(years) > 1 and any(one.is_year for one in periods):  # "March 2024 and 2025"
            [(first, count)] = months
            periods = tuple(Period.of_months(first, count, one.year) for one in periods if one.year)
        self._made["periods"] = tuple(dict.fromkeys(periods))

    def _read_filters(self) -> None:
        found: dict[tuple[str, bool], list[str]] = {}
        is_not, last = False, ""
        for at, item in enumerate(self._items):
            if item.kind in _VALUES:
                negated = self._is(at - 1, "word", "not") or (is_not and last == item.kind and self._is(at - 1, "word", "and"))
                if self._is(at - 1, "word", "not"):
                    self._used.add(at - 1)
                found.setdefault((item.kind, negated), []).append(item.value)
                self._used.add(at)
                self._bar_mixed(at)
                is_not, last = negated, item.kind
                self._use_label(at, item.kind)
            elif item.kind == "stated":
                found.setdefault(("status", False), []).append(item.value)
                self._used.add(at)
                self._made["measures"] = (*self._made["measures"], *(() if self._made["measures"] else ("orders",)))
        for (kind, negated), values in found.items():
            if kind == "coupon" and {"*", ""} & set(values) and len(set(values)) > 1:
                values = [one for one in values if one != "*"]  # noqa: PLW2901 - "with coupon VIP20" is that one
                if "" in values:  # with and without one: all of them, each by itself
                    self._add("groups", "coupon")
                    continue
            self._add("filters", Filter(kind, tuple(dict.fromkeys(values)), negated))

    def _bar_mixed(self, at: int) -> None:
        """Leave 'and' between values of two kinds: 'Berlin and Germany' are two figures, and not what is in both."""
        joined, other = self._at(at - 1), self._at(at - 2)
        if joined is None or other is None or joined.words == "," or not self._is(at - 1, "word", "and", "versus"):
            return
        if other.kind in _VALUES and other.kind != self._items[at].kind:
            self._barred.add(at - 1)

    def _leave_what_is_of_one_figure(self) -> None:
        """Leave a status that belongs to one of several figures: in 'revenue and cancelled orders' the revenue is that of all orders."""
        if len(self._made["measures"]) > 1:
            of_one = [at for at in self._positions("status") if self._is(at + 1, "measure")]
            self._used -= {*of_one, *self._positions("stated")}

    def _use_label(self, at: int, kind: str) -> None:
        """Use 'category' in 'the Lighting category'."""
        for near in (at - 1, at + 1):
            if near not in self._used and self._is(near, "group", kind):
                self._used.add(near)
                return

    def _read_measures(self) -> None:
        for at, item in enumerate(self._items):
            if item.kind == "measure" and at not in self._used:
                self._used.add(at)
                if not (item.words == "orders" and self._qualifies(at)):
                    self._add("measures", item.value)
                if _LOOSE.search(item.words) and item.value == "revenue":
                    self._notes.append("I read this as revenue, from which no costs are taken off.")

    def _qualifies(self, at: int) -> bool:
        """Tell whether a noun only says of what another figure is: 'revenue of cancelled orders', 'revenue from business customers'."""
        following = self._at(at + 1)
        is_spent = (following is not None and _SINGLED_OUT.get(following.words) == "SPENT") or self._is(at + 1, "measure", "average")
        before = at - 1
        while (item := self._at(before)) is not None and (
            item.kind in _VALUES
            or self._is(before, "word", "not", "count")
            or (self._is(before, "word", "and") and before + 1 < at and self._items[before - 1].kind in _VALUES)
        ):
            before -= 1
        is_joined = self._is(before, "word", "and", "versus") or self._is(at + 1, "word", "and", "versus")
        return (is_spent or any(one.kind == "measure" for one in self._items[:at])) and not is_joined

    def _read_nouns(self) -> None:
        """Read what is left of the nouns: 'how many customers', 'which countries', 'list the categories'."""
        for at in self._positions("group"):
            noun = self._items[at]
            if at in self._used:
                continue
            is_counted = any(self._is(near, "word", "count") for near in (at - 1, at - 2))
            is_listed = any(self._is(near, "word", "which", "list") for near in (at - 1, at - 2)) or at == 0
            is_listed = is_listed and not self._made["groups"]
            if noun.value in _NOUNS and not (is_listed and not is_counted and noun.value == "product" and not self._made["measures"]):
                self._used.add(at)
                if not self._is_label(at):
                    self._add("measures", _NOUNS[noun.value])
            elif is_counted and not self._made["measures"]:
                self._used.add(at)
                self._made["counted"] = noun.value
            elif is_listed and not self._made["measures"] and not self._made.get("counted"):
                self._used.add(at)
                self._made["listed"] = noun.value

    def _is_label(self, at: int) -> bool:
        """Tell whether a noun only names what a figure is about: the value of an order, the revenue from business customers."""
        measures = set(self._made["measures"])
        match self._items[at].value:
            case "order":
                return bool(measures)
            case "product":
                return self._qualifies(at) and not self._made["groups"]
            case _:
                return bool(measures & {"signups", "buyers", "idle"}) or self._qualifies(at)

    def _read_words(self) -> None:
        """Use the words that say how a figure is meant."""
        made = self._made
        flags = {"change": "changes", "share": "shares", "sold": "bought", "ordered": "bought", "joined": "joined"}
        for at, item in enumerate(self._items):
            if item.kind != "word" or at in self._used:
                continue
            if item.value in flags:
                made[flags[item.value]] = True
                self._used.add(at)
            elif item.value == "those":
                made["refers"] = made.get("refers", False) or item.words not in {"that", "it", "there", "its"} or not made["measures"]
                self._used.add(at)
            elif item.value == "versus":
                compared = len(made["periods"]) > 1 or any(len(one.values) > 1 for one in made["filters"]) or made["groups"]
                if compared:
                    self._used.add(at)
            elif item.value in {"and", "which", "list", "count", "to", "from"}:
                self._used.add(at)


def _amounts(items: Sequence[_Item]) -> list[_Item]:
    """Read 'how much' as revenue where it asks for what was bought; else the figure says what is meant."""
    is_sold = any(one.kind == "word" and one.value == "sold" for one in items) and not any(one.kind == "measure" for one in items)
    return [_Item("measure", "revenue", one.words) if is_sold and (one.kind, one.value) == ("word", "amount") else one for one in items]


def _class_of(item: _Item) -> str:
    """Return the class of a word for the shape of its question."""
    if not item.kind:
        return "NUMBER" if _count(item.words) is not None else "UNKNOWN"
    return _SINGLED_OUT.get(item.words) or class_of(item.kind, item.value)


def _count(word: str) -> int | None:
    if word.isascii() and word.isdigit() and len(word) < len(str(_MOST_TOP)) + 1:
        return int(word) if 0 < int(word) <= _MOST_TOP else None
    return _NUMBER_WORDS.get(word)
