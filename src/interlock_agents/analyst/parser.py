"""Parses a question about the demo warehouse. Every word is used, changes nothing, or is reported as not understood."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from interlock_agents.analyst.grammar import completeness
from interlock_agents.analyst.periods import combined
from interlock_agents.analyst.phrases import Phrase, count_in, phrases_of
from interlock_agents.analyst.question import Filter, Question
from interlock_agents.analyst.vocabulary import GROUPS, TIMES, VALUES

__all__ = ["parse"]

_NOUNS = {"product": "products", "customer": "customers", "order": "orders"}
_PLURALS = frozenset({*(group.plural for group in GROUPS.values()), "clients"})
# "Most orders" are many orders, not one order that ranks first.
_MOST = frozenset({"most", "least", "fewest", "most often", "least often", "most frequently"})
_SPENT = frozenset({"spend", "spends", "spent"})
_MONEY = frozenset({"revenue", "net", "average", "price"})
_COUNTS = frozenset({"orders", "customers", "buyers", "products"})
_PERSONS = frozenset({"people", "persons", "anyone", "anybody", "people who"})
# Words for revenue that can also mean profit.
_LOOSE = re.compile(r"\b(?:income|earn\w*|make|made|money|takings)\b")
_DEFAULT_TOP = 5
_FLAGS = {"change": "changes", "share": "shares", "sold": "bought", "ordered": "bought", "joined": "joined", "mean": "averages"}
_FOLLOWS = re.compile(
    r"^(?:(?:ok(?:ay)?|great|thanks?|cool|so|now|right|alright|yes|hm+|but|also|then),?\s+)*?"
    r"(?:and|what about|how about|what of|(?:the )?same|instead|make it|make that)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)  # every question of a conversation is parsed again in each turn
def parse(question: str, today: dt.date) -> Question:
    """Parse a question."""
    parsed = _Parser(*phrases_of(question, today)).parsed()
    return replace(parsed, refers=parsed.refers or _FOLLOWS.match(question.strip()) is not None)


class _Parser:
    """Goes through the phrases of a question and records which of them were used."""

    def __init__(self, phrases: Sequence[Phrase], notes: Sequence[str]) -> None:
        self._phrases, self._notes = phrases, list(notes)
        self._completeness = completeness(one.word_class for one in phrases)
        self._neutral = {one.value: one.words for one in phrases if one.kind == "neutral"}
        self._items = [one for one in phrases if one.kind != "neutral" and one.word_class != "AMOUNT"]
        self._used: set[int] = set()
        self._barred: set[int] = set()
        self._made: dict[str, Any] = {"groups": (), "filters": (), "periods": (), "measures": (), "is_sum": "SUM" in self._neutral}

    def parsed(self) -> Question:
        self._parse_ranking()
        self._parse_groups()
        self._parse_periods()
        self._parse_filters()
        self._parse_measures()
        self._parse_nouns()
        self._parse_words()
        self._check_words()
        # Behind "per" or "not", report the unknown word and not the word before it.
        leading = {at for at in self._find("word", "by", "since", "before", "after", "not", "versus") if self._is(at + 1, "")}
        unused = [one.words for at, one in enumerate(self._items) if at not in (self._used - self._barred) | leading]
        return Question(
            **self._made,
            unknown=tuple(dict.fromkeys([*unused, *self._misplaced()])),
            is_tangled=self._completeness is None,
            is_fragment=self._completeness == "fragment",
            counts=any(one.word_class in {"COUNT", "AMOUNT"} for one in self._phrases),
            notes=tuple(self._notes),
        )

    def _is(self, at: int, kind: str, *values: str) -> bool:
        item = self._items[at] if 0 <= at < len(self._items) else None
        return item is not None and item.kind == kind and (not values or item.value in values)

    def _words_at(self, at: int) -> str:
        return self._items[at].words if 0 <= at < len(self._items) else ""

    def _find(self, kind: str, *values: str) -> list[int]:
        return [at for at in range(len(self._items)) if self._is(at, kind, *values)]

    def _add(self, name: str, value: Any) -> None:
        if value not in self._made[name]:
            self._made[name] = (*self._made[name], value)

    def _parse_ranking(self) -> None:
        """Parse 'top 5', 'the 3 best', 'the most': the number of rows, and which come first."""
        found = [at for at, one in enumerate(self._items) if one.kind.startswith("top")]
        if not found:
            return
        self._used.update(found)
        item, count = self._items[found[0]], self._count_beside(found[0] - 1, found[-1] + 1)
        self._made |= {"smallest_first": item.value == "asc", "judged": item.words}
        if item.kind == "top_of_units" or (item.kind == "top" and self._is(found[-1] + 1, "category")):
            self._add("measures", "units")  # "the most desks" are many desks, whatever they cost
        elif item.kind == "top_of_price":
            self._add("measures", "price")
        named = [at for at, one in enumerate(self._items) if one.kind == "group" or one.words == "orders"]
        if item.words in _MOST:
            named = [at for at in named if at - 1 not in self._used or self._is(at - 1, "word", "which")]
        near = [at for at in named if at - 1 in self._used or self._is(at - 1, "word", "which") or self._is(at + 1, "word", "which")]
        near = near or ([at for at in named if not self._is(at - 1, "word", "by")] if item.kind != "top" else [])
        every = self._find("every")  # "the highest daily revenue"
        if not near and not every and not any(self._is(at - 1, "word", "by") for at in named):
            if item.kind != "top":
                self._add("groups", "product")
            elif self._completeness == "fragment":
                self._made["top_of_previous"] = count or 0
                return
            else:
                self._used.clear()  # the question does not say of what
                return
        plural = not every
        if near:
            noun = self._items[near[0]]
            self._used.update({near[0], near[0] - 1, near[0] + 1} & {near[0], *self._find("word", "which")})
            self._used.update(self._find("group", noun.value) if noun.kind == "group" else ())  # "which month was the best month"
            self._add("groups", "order" if noun.words == "orders" else noun.value)
            plural = noun.words.split()[0] in _PLURALS or noun.words.split()[-1] in _PLURALS
        self._made["top"] = count or (_DEFAULT_TOP if plural else 1)

    def _count_beside(self, before: int, after: int) -> int | None:
        for near in (after, before):
            if self._is(near, "") and (count := count_in(self._items[near].words)) is not None:
                self._used.add(near)
                return count
        return None

    def _parse_groups(self) -> None:
        """Parse 'by country and category', 'per month', 'each channel'. In 'by revenue', the figure is parsed later."""
        for at in self._find("word", "by"):
            following = at + 1
            while self._is(following, "group"):
                self._used.update({at, following})
                self._add("groups", self._items[following].value)
                joined = following = following + 1
                while self._is(joined, "word", "and", "by"):
                    joined += 1
                if joined > following and self._is(joined, "group"):
                    self._used.update(range(following, joined))
                    following = joined
            named = at + 2 if self._is(at + 1, "word", "count") else at + 1
            is_ratio = self._is(named, "measure") and self._items[at].words.split()[-1] in {"per", "each", "every"}
            if not is_ratio and any(self._is(named, kind) for kind in (*VALUES, "measure", "stated", "period", "every")):
                self._used.add(at)
        for at in self._find("every"):
            self._used.add(at)
            self._add("groups", self._items[at].value)

    def _parse_periods(self) -> None:
        for at in self._find("period"):
            self._used |= {at, at + 1} if self._is(at + 1, "group", *TIMES) else {at}
            self._add("periods", self._items[at].period)
        self._made["periods"] = combined(self._made["periods"])

    def _parse_filters(self) -> None:
        """Parse values, also negated ones."""
        found: dict[tuple[str, bool], list[str]] = {}
        previous = ("", False)
        for at, item in enumerate(self._items):
            if item.kind not in {*VALUES, "stated"}:
                continue
            self._used.add(at)
            kind = "status" if item.kind == "stated" else item.kind
            before = at - 2 if self._is(at - 1, "word", "from", "to") else at - 1  # "not from the app"
            negated = self._is(before, "word", "not")
            if negated:
                self._used.add(before)
            elif item.kind == "stated" and not self._made["measures"]:
                self._add("measures", "orders")
            negated = negated or (previous == (item.kind, True) and self._is(at - 1, "word", "and"))
            previous = (item.kind, negated)
            found.setdefault((kind, negated), []).extend(item.value.split("/"))
            self._made["is_sum"] |= "/" in item.value
            self._bar_mixed(at)
            label = [near for near in (at - 1, at + 1) if near not in self._used and self._is(near, "group", kind)]
            self._used.update(label[:1])  # "the Lighting category"
        for (kind, negated), values in found.items():
            if kind == "coupon" and {"*", ""} <= set(values):  # with and without one: each by itself
                self._add("groups", "coupon")
            else:
                named = [one for one in values if one != "*"] or values  # "with coupon VIP20" is that one
                self._add("filters", Filter(kind, tuple(dict.fromkeys(named)), negated))

    def _bar_mixed(self, at: int) -> None:
        """Do not use 'and' between values of two kinds: 'Berlin and Germany' are two figures."""
        if self._words_at(at - 1) != "," and self._is(at - 1, "word", "and", "versus"):
            other = self._items[at - 2].kind if at > 1 else ""
            if other in VALUES and other != self._items[at].kind:
                self._barred.add(at - 1)

    def _parse_measures(self) -> None:
        for at in self._find("measure"):
            item = self._items[at]
            if at in self._used:
                continue
            self._used.add(at)
            if self._words_at(at - 1) == "/" and self._is(at - 2, "measure"):
                self._barred.add(at - 1)  # "revenue/orders" is one divided by the other
            if item.words == "orders" and self._is_listed(at):
                self._made["listed"] = "order"
                continue
            if not (item.words == "orders" and self._qualifies(at)):
                self._add("measures", item.value)
            if _LOOSE.search(item.words) and item.value == "revenue":
                self._notes.append("I read this as revenue, from which no costs are taken off.")

    def _is_listed(self, at: int) -> bool:
        """Return whether single orders or customers are requested: 'list the customers in Paris', 'which orders were cancelled'."""
        first = self._words_at(0)
        is_asked = self._is(0, "word", "list", "which") and (first != "all" or "SHOW" in self._neutral) and first != "who"
        return is_asked and all(one.kind in VALUES for one in self._items[1:at]) and not self._made["groups"] and "top" not in self._made

    def _qualifies(self, at: int) -> bool:
        """Return whether a noun only describes another figure: 'revenue of cancelled orders', 'revenue from business customers'."""
        before = at - 1
        while before >= 0 and (
            self._items[before].kind in VALUES
            or self._is(before, "word", "not", "count")
            or (self._is(before, "word", "and") and before + 1 < at and self._items[before - 1].kind in VALUES)
        ):
            before -= 1
        is_joined = self._is(before, "word", "and", "versus") or self._is(at + 1, "word", "and", "versus")
        has_figure = (
            self._words_at(at + 1) in _SPENT
            or self._is(at + 1, "measure", "average")
            or any(one.kind == "measure" for one in self._items[:at])
        )
        return has_figure and not is_joined

    def _parse_nouns(self) -> None:
        """Parse the remaining nouns: 'how many customers', 'which countries', 'list the categories'."""
        for at in self._find("group"):
            noun, measures = self._items[at], self._made["measures"]
            if noun.words in _PERSONS:
                self._notes.append(f"I read '{noun.words}' as customers.")
            if at in self._used:
                continue
            is_counted = any(self._is(near, "word", "count") for near in (at - 1, at - 2))
            is_listed = at == 0 or any(self._is(near, "word", "which", "list") for near in (at - 1, at - 2))
            is_listed = is_listed and not self._made["groups"]
            if noun.value in {"customer", "order"} and not is_counted and not measures and self._is_listed(at):
                self._made["listed"] = noun.value
            elif noun.value in _NOUNS and not (is_listed and not is_counted and noun.value == "product" and not measures):
                if not self._is_label(at):
                    self._add("measures", _NOUNS[noun.value])
            elif is_counted and not measures:
                self._made["counted"] = noun.value
            elif is_listed and not measures and not self._made.get("counted"):
                self._made["listed"] = noun.value
            else:
                continue
            self._used.add(at)

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

    def _parse_words(self) -> None:
        """Use the words that say how a figure is meant."""
        made, measures = self._made, set(self._made["measures"])
        fits = {
            **dict.fromkeys(("and", "which", "list", "count", "to", "from"), True),
            "distinct": measures <= _COUNTS,
            "when": bool(measures & {"first order", "last order"}),
        }
        for at, item in enumerate(self._items):
            if item.kind != "word" or at in self._used:
                continue
            if item.value in _FLAGS:
                made[_FLAGS[item.value]] = True
            elif item.value == "those":
                made["refers"] = made.get("refers", False) or item.words not in {"that", "it", "there", "its"} or not measures
            elif not (self._compares() if item.value == "versus" else fits.get(item.value, False)):
                continue
            self._used.add(at)

    def _compares(self) -> bool:
        """Return whether there are two things to compare, or one to compare with the previous question."""
        made = self._made
        is_several = len(made["measures"]) > 1 or len(made["periods"]) > 1 or any(len(one.values) > 1 for one in made["filters"])
        if is_several or made["groups"]:
            made["compares"] = True
        elif self._completeness is not None and not made["measures"] and (made["periods"] or made["filters"]):
            self._completeness, made["adds"] = "fragment", True
        return made.get("compares", False) or made.get("adds", False)

    def _check_words(self) -> None:
        """Adjust what several words mean together."""
        made = self._made
        if len(made["measures"]) > 1:  # in "revenue and cancelled orders" the revenue is that of all orders
            self._used -= {*(at for at in self._find("status") if self._is(at + 1, "measure")), *self._find("stated")}
        if made.get("changes"):
            made["shares"] = False  # the change in percent
        if "USE" in self._neutral and made["groups"] == ("coupon",) and not made["measures"]:
            made["measures"] = ("orders",)

    def _misplaced(self) -> list[str]:
        """Return words that change nothing about most figures, but do about this one: orders are not counted in euros."""
        measures = set(self._made["measures"])
        of_goods = any(one.group == "category" for one in self._made["filters"])
        wrong = {"MONEY": bool(measures) and not measures <= _MONEY, "ONLY": bool(measures & _COUNTS) and of_goods}
        return [self._neutral[name] for name, is_wrong in wrong.items() if is_wrong and name in self._neutral]
