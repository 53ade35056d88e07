"""How the offline rules read a question about the demo warehouse: every word is used, changes nothing, or is named as left over."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from interlock_agents.analyst.lexicon import DATA, Measure
from interlock_agents.analyst.periods import Period, join
from interlock_agents.analyst.phrases import Phrase, count_in, phrases_of, shape_class
from interlock_agents.analyst.reading import Filter, Reading
from interlock_agents.analyst.shapes import shape_of
from interlock_agents.analyst.spelling import looks_like

__all__ = ["read"]

_VALUES = frozenset({"country", "city", "category", "status", "channel", "segment", "coupon", "weekday"})
_TIMES = frozenset({"year", "quarter", "month", "week", "day"})
_NOUNS: dict[str, Measure] = {"product": "products", "customer": "customers", "order": "orders"}
_PLURALS = frozenset({"countries", "cities", "categories", "statuses"}) | {
    f"{one}s"
    for one in ("product", "customer", "month", "quarter", "week", "day", "year", "channel", "segment", "order", "coupon", "client")
}
_MOST = frozenset({"most", "least", "fewest", "most often", "least often", "most frequently"})
_PER = frozenset({"per", "each", "every", "for each", "in each", "by each", "per each"})
_SPENT = frozenset({"spend", "spends", "spent"})
_MONEY = frozenset({"revenue", "net", "average", "price"})
_COUNTS = frozenset({"orders", "customers", "buyers", "products"})
_LEADING = ("by", "since", "before", "after", "not", "versus")
_PERSONS = frozenset({"people", "persons", "anyone", "anybody", "people who"})
_LOOSE = re.compile(r"\b(?:income|earn\w*|make|made|money|takings)\b")  # could be a profit
_DEFAULT_TOP = 5
_FOLLOWS = re.compile(
    r"^(?:(?:ok(?:ay)?|great|thanks?|cool|so|now|right|alright|yes|hm+|but|also|then),?\s+)*?"
    r"(?:and|what about|how about|what of|(?:the )?same|instead|make it|make that)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)  # the parts of a conversation are read again with every question
def read(question: str, today: dt.date) -> Reading:
    """Read a question."""
    follows = _FOLLOWS.match(question.strip()) is not None
    reader = _Reader(*phrases_of(question, today))
    reading = reader.reading()
    return replace(reading, refers=reading.refers or follows)


class _Reader:
    """Goes through the phrases of a question once, and remembers which of them were used."""

    def __init__(self, said: Sequence[Phrase], notes: Sequence[str]) -> None:
        self._notes = list(notes)
        self._meant = [name for one in said if not one.kind and (name := looks_like(one.words)) is not None]
        self._said = said
        self._shape = shape_of(map(shape_class, said))
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
        self._read_limits()
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
            counts=any(one.kind == "word" and one.value in {"count", "amount"} for one in self._said),
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
        if self._made.get("changes"):
            self._made["shares"] = False  # the change in percent
        if "USE" in self._neutral and self._made["groups"] == ("coupon",) and not measures:
            self._made["measures"] = ("orders",)
        return found

    def _leads_to_unknown(self, at: int) -> bool:
        """Return whether a word such as 'per' is clear and the one behind it is not: it is that one that has to be named."""
        return self._is(at, "word", *_LEADING) and self._is(at + 1, "")

    def _at(self, position: int) -> Phrase | None:
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
        item, count = self._items[found[0]], self._count_beside(found[0] - 1, found[-1] + 1)
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
        every = self._positions("every")  # "the highest daily revenue"
        if not near and not every and not any(self._is(at - 1, "word", "by") for at in named):
            if item.kind == "top" and self._shape == "fragment":
                self._made["top_of_before"] = count or 0
            elif item.kind == "top":
                self._used.difference_update(found)  # the top of what is not said
            if item.kind == "top":
                return
            self._add("groups", "product")
        plural = not every
        if near:
            noun = self._items[near[0]]
            self._used.update({near[0], near[0] - 1, near[0] + 1} & {near[0], *self._positions("word", "which")})
            self._used.update(self._positions("group", noun.value) if noun.kind == "group" else ())  # "which month was the best month"
            self._add("groups", "order" if noun.words == "orders" else noun.value)
            plural = noun.words.split()[0] in _PLURALS or noun.words.split()[-1] in _PLURALS
        self._made["top"] = count or (_DEFAULT_TOP if plural else 1)

    def _count_beside(self, before: int, after: int) -> int | None:
        for near in (after, before):
            number = self._at(near)
            if number is not None and number.kind == "" and (count := count_in(number.words)) is not None:
                self._used.add(near)
                return count
        return None

    def _positions(self, kind: str, *values: str) -> list[int]:
        return [at for at in range(len(self._items)) if self._is(at, kind, *values)]

    def _read_groups(self) -> None:
        """Read 'by country and category', 'per month', 'each channel'; 'by revenue' says what to go by."""
        for at in self._positions("word", "by"):
            following = at + 1
            while self._is(following, "group"):
                self._used.update({at, following})
                self._made["is_per"] = self._items[at].words in _PER
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
            self._made["is_per"] = True
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
        dated = [one for one in periods if one.year is not None and one.shift is None]
        if len(dated) == 1 and len(periods) > 1:  # "in 2025 compared to the year before"
            periods = tuple((dated[0].shifted(*one.shift) or one) if one.shift is not None else one for one in periods)
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
                before = at - 2 if self._is(at - 1, "word", "from", "to") else at - 1  # "not from the app"
                negated = self._is(before, "word", "not") or (is_not and last == item.kind and self._is(at - 1, "word", "and"))
                if self._is(before, "word", "not"):
                    self._used.add(before)
                found.setdefault((item.kind, negated), []).extend(item.value.split("/"))
                self._made["is_sum"] = self._made.get("is_sum", False) or "/" in item.value
                self._used.add(at)
                self._bar_mixed(at)
                is_not, last = negated, item.kind
                self._use_label(at, item.kind)
            elif item.kind == "stated" and self._is(at - 1, "word", "not"):
                found.setdefault(("status", True), []).append(item.value)
                self._used.update({at - 1, at})
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

    def _read_limits(self) -> None:
        for at in self._positions("limit"):
            if "limit" not in self._made:
                self._made["limit"] = self._items[at].limit
                self._used.add(at)

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
                if (sign := self._at(at - 1)) is not None and sign.words == "/" and self._is(at - 2, "measure"):
                    self._barred.add(at - 1)  # "revenue/orders" is one divided by the other
                if item.words == "orders" and self._is_listed(at):
                    self._made["listed"] = "order"
                    continue
                if not (item.words == "orders" and self._qualifies(at)) and not self._is_limited(at):
                    self._add("measures", item.value)
                if _LOOSE.search(item.words) and item.value == "revenue":
                    self._notes.append("I read this as revenue, from which no costs are taken off.")

    def _is_limited(self, at: int) -> bool:
        """Return whether a figure only says what a limit is of: 'customers who spent more than 500 euros' does not ask what they spent."""
        limit = self._at(at + 1)
        is_of_it = limit is not None and limit.limit is not None and self._items[at].value in {limit.value, "average"} and at > 0
        self._made["is_of_sales"] = self._made.get("is_of_sales", False) or is_of_it
        return is_of_it

    def _is_listed(self, at: int) -> bool:
        """Return whether single orders or customers are requested: 'list the customers in Paris', 'which orders were over 500 euros'."""
        first = self._items[0]
        is_asked = self._is(0, "word", "list", "which") and (first.words != "all" or "SHOW" in self._neutral) and first.words != "who"
        between = all(one.kind in _VALUES for one in self._items[1:at])
        return is_asked and between and not self._made["groups"] and "top" not in self._made

    def _qualifies(self, at: int) -> bool:
        """Return whether a noun only says of what another figure is: 'revenue of cancelled orders', 'revenue from business customers'."""
        following = self._at(at + 1)
        is_spent = (following is not None and following.words in _SPENT and not self._is(at + 2, "limit")) or self._is(
            at + 1, "measure", "average"
        )
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
            if noun.words in _PERSONS:
                self._notes.append(f"I read '{noun.words}' as customers.")
            if at in self._used:
                continue
            is_counted = any(self._is(near, "word", "count") for near in (at - 1, at - 2))
            is_listed = any(self._is(near, "word", "which", "list") for near in (at - 1, at - 2)) or at == 0
            is_listed = is_listed and not self._made["groups"]
            if noun.value in {"customer", "order"} and not is_counted and not self._made["measures"] and self._is_listed(at):
                self._used.add(at)
                self._made["listed"] = noun.value
            elif noun.value in _NOUNS and not (is_listed and not is_counted and noun.value == "product" and not self._made["measures"]):
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
        """Return whether a noun only names what a figure is about: the value of an order, the revenue from business customers."""
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
        made, measures = self._made, set(self._made["measures"])
        flags = {"change": "changes", "share": "shares", "sold": "bought", "ordered": "bought", "joined": "joined", "mean": "averages"}
        fits = {
            **dict.fromkeys(("and", "which", "list", "count", "to", "from"), True),
            "distinct": measures <= {"products", "customers", "buyers", "orders"},
            "when": bool(measures & {"first order", "last order"}),
        }
        for at, item in enumerate(self._items):
            if item.kind != "word" or at in self._used:
                continue
            if item.value in flags:
                made[flags[item.value]] = True
                self._used.add(at)
            elif item.value == "those":
                made["refers"] = made.get("refers", False) or item.words not in {"that", "it", "there", "its"} or not measures
                self._used.add(at)
            elif item.value == "versus":
                self._read_comparison(at)
            elif fits.get(item.value, False):
                self._used.add(at)

    def _read_comparison(self, at: int) -> None:
        """Read 'compare', 'more ... than': there are two things to compare, or one that is compared with the question before it."""
        made = self._made
        is_several = len(made["measures"]) > 1 or len(made["periods"]) > 1 or any(len(one.values) > 1 for one in made["filters"])
        if is_several or made["groups"]:
            self._used.add(at)
            made["compares"] = True
        elif self._shape is not None and not made["measures"] and (made["periods"] or made["filters"]):
            self._used.add(at)
            self._shape, made["adds"] = "fragment", True
