"""How the offline rules read a question about the demo warehouse, and the query that they make of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Reading", "followed_up", "read", "sql_of", "unread"]

Measure = Literal["revenue", "net", "orders", "customers", "products", "units", "average"]
Group = Literal["country", "city", "category", "month", "quarter", "year", "segment", "status", "channel", "product"]

_MEASURES: tuple[tuple[Measure, str], ...] = (
    ("average", r"\baverage (?:order|basket)(?: value| size)?\b|\baov\b|\bmean order value\b"),
    ("net", r"\bnet (?:revenues?|sales|turnover|earnings?|income)\b"),
    (
        "revenue",
        r"\b(?:revenues?|sales|turnover|earnings?|takings|income)\b|\bhow much (?:did we|have we|was) (?:sell|sold|earn|made?|make)\b",
    ),
    ("units", r"\b(?:units?|items?|pieces)\b"),
    ("orders", r"\borders?\b"),
    ("customers", r"\b(?:customers?|users?|clients?|buyers?)\b"),
    ("products", r"\bproducts?\b|\barticles? (?:do we|in the)\b"),
)
_GROUPS: dict[Group, str] = {
    "country": r"countr(?:y|ies)",
    "city": r"cit(?:y|ies)",
    "category": r"categor(?:y|ies)",
    "month": r"months?|monthly",
    "quarter": r"quarters?|quarterly",
    "year": r"years?|yearly|annual(?:ly)?",
    "segment": r"segments?",
    "status": r"status(?:es)?",
    "channel": r"channels?",
    "product": r"products?",
}
_TOPPED: tuple[Group, ...] = ("product", "category", "country")
_OF_ORDERS: frozenset[Group] = frozenset({"month", "quarter", "year", "status", "channel"})
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
_TOP = re.compile(r"\b(?:top|best|biggest|largest|highest)\s*(\d{1,2})?\b", re.IGNORECASE)
_YEAR = re.compile(r"\b(20\d\d)\b")
_QUARTER = re.compile(r"\bq([1-4])\b|\b(first|second|third|fourth) quarter\b", re.IGNORECASE)
_ORDINALS = ("first", "second", "third", "fourth")
_MOST_ROWS = 100
# Words that change nothing about which figure is meant.
# fmt: off
_UNTOLD = frozenset({
    "a", "about", "all", "altogether", "am", "an", "and", "are", "at", "be", "been", "by", "can", "category", "come", "company",
    "could", "count", "country", "did", "do", "does", "during", "each", "ever", "every", "far", "find", "for", "from", "generated",
    "get", "give", "gross", "had", "has", "have", "how", "i", "in", "is", "it", "know", "like", "list", "made", "make", "many",
    "me", "month", "much", "need", "now", "number", "of", "on", "only", "ordered", "our", "out", "over", "overall", "per", "place",
    "placed", "please", "quarter", "same", "shop", "show", "so", "sold", "status", "tell", "that", "the", "then", "there", "to",
    "total", "us", "want", "was", "we", "were", "what", "when", "which", "with", "within", "would", "year", "you",
})
# fmt: on
_DEFAULT_TOP = 5


@dataclass(frozen=True)
class Reading:
    """What is asked of the warehouse: a figure, for what, of what, and how many rows of it."""

    measure: Measure | None = None
    group: Group | None = None
    year: int | None = None
    quarter: int | None = None
    month: int | None = None
    country: str | None = None
    category: str | None = None
    status: str | None = None
    top: int | None = None

    @property
    def narrows(self) -> bool:
        """Whether it says anything beside the figure."""
        return self != Reading(measure=self.measure)


def read(question: str, *, countries: dict[str, str], categories: dict[str, str], statuses: dict[str, str]) -> Reading:
    """Read a question. The words for countries, categories and statuses are the warehouse's own."""
    said = question.lower()
    top = _TOP.search(said)
    group: Group | None = _group(said)
    measure = _measure(_GROUPED.sub(" ", said) if group is not None else said)
    if top is not None and group is None:
        group = next((name for name in _TOPPED if re.search(rf"\b(?:{_GROUPS[name]})\b", said)), None)
        measure = "revenue" if measure in {"products", "customers"} else measure
    quarter = _QUARTER.search(said)
    year = _YEAR.search(said)
    return Reading(
        measure=measure,
        group=group,
        year=int(year[1]) if year else None,
        quarter=(int(quarter[1]) if quarter[1] else _ORDINALS.index(quarter[2].lower()) + 1) if quarter else None,
        month=next((number for number, name in enumerate(_MONTHS, 1) if re.search(rf"\b{name}\b", said) and _is_month(name, said)), None),
        country=_named(said, countries),
        category=_named(said, categories),
        status=_named(said, statuses),
        top=(int(top[1]) if top[1] else _DEFAULT_TOP) if top else None,
    )


def unread(question: str, *, countries: dict[str, str], categories: dict[str, str], statuses: dict[str, str]) -> tuple[str, ...]:
    """Find the words of a question that may matter and that the reading does not have: a figure without them would be another one."""
    reading = read(question, countries=countries, categories=categories, statuses=statuses)
    said = question.lower()
    once = [_YEAR, _QUARTER, _TOP]
    once += [re.compile(rf"\b{_MONTHS[reading.month - 1]}\b")] if reading.month is not None else []
    for words, value in ((countries, reading.country), (categories, reading.category), (statuses, reading.status)):
        once += [re.compile(rf"\b{re.escape(word)}\b") for word, meant in words.items() if meant == value]
    once += [re.compile(rf"\b(?:{_GROUPS[reading.group]})\b")] if reading.group is not None else []
    for pattern in once:
        said = pattern.sub(" ", said, count=1)
    for name, words in _MEASURES:
        if name == reading.measure:
            said = re.sub(words, " ", said)
    left = dict.fromkeys(word for word in re.findall(r"\w[\w'-]*|[%<>=]", said) if word not in _UNTOLD)
    if reading.top is not None and reading.group is None:
        left.setdefault("top")
    return tuple(left)


def followed_up(before: Reading, now: Reading) -> Reading:
    """Read a question in the light of the one before it: what it does not say stays as it was."""
    said = {name: value for name, value in vars(now).items() if value is not None}
    if {"year", "quarter", "month"} & said.keys():
        before = replace(before, quarter=None, month=None) if "year" not in said else replace(before, year=None)
    return replace(before, **said)


def sql_of(reading: Reading) -> str:
    """Write the query for a reading."""
    value, alias = _VALUES[reading.measure or "orders"]
    tables = _tables(reading)
    where = " AND ".join(_conditions(reading))
    grouped = _COLUMNS[reading.group] if reading.group is not None else None
    select = f"SELECT {value} AS {alias}" if grouped is None else f"SELECT {grouped} AS {reading.group}, {value} AS {alias}"
    query = f"{select} FROM {tables}{f' WHERE {where}' if where else ''}"
    if grouped is None:
        return query
    by_time = reading.group in {"month", "quarter", "year"} and reading.top is None
    order = reading.group if by_time else f"{alias} DESC, {reading.group}"
    return f"{query} GROUP BY {reading.group} ORDER BY {order} LIMIT {reading.top or _MOST_ROWS}"


_GROUPED = re.compile(rf"\b(?:by|per|for each|in each|of each)\s+(?:{'|'.join(_GROUPS.values())})\b")

_VALUES: dict[Measure, tuple[str, str]] = {
    "revenue": ("ROUND(SUM(i.quantity * i.unit_price), 2)", "revenue"),
    "net": ("ROUND(SUM(i.quantity * i.unit_price), 2)", "net_revenue"),
    "average": ("ROUND(SUM(i.quantity * i.unit_price) / COUNT(DISTINCT o.order_id), 2)", "average_order_value"),
    "units": ("SUM(i.quantity)", "units_sold"),
    "orders": ("COUNT(DISTINCT o.order_id)", "orders"),
    "customers": ("COUNT(DISTINCT c.customer_id)", "customers"),
    "products": ("COUNT(DISTINCT p.product_id)", "products"),
}
_COLUMNS: dict[Group, str] = {
    "country": "c.country",
    "city": "c.city",
    "category": "p.category",
    "month": "FORMAT_DATE('%Y-%m', o.order_date)",
    "quarter": "CONCAT(CAST(EXTRACT(YEAR FROM o.order_date) AS STRING), '-Q', CAST(EXTRACT(QUARTER FROM o.order_date) AS STRING))",
    "year": "EXTRACT(YEAR FROM o.order_date)",
    "segment": "c.segment",
    "status": "o.status",
    "channel": "o.channel",
    "product": "p.name",
}


def _tables(reading: Reading) -> str:
    """Join only what is needed, so that nothing is counted twice."""
    by_time = reading.year or reading.quarter or reading.month or reading.group in _OF_ORDERS or reading.status
    by_product = reading.category or reading.group in {"category", "product"}
    by_customer = reading.country or reading.group in {"country", "city", "segment"}
    if reading.measure == "customers" and not (by_time or by_product):
        return "customers AS c"
    if reading.measure == "products" and not (by_time or by_customer):
        return "products AS p"
    tables = "orders AS o"
    if by_customer or reading.measure == "customers":
        tables += " JOIN customers AS c ON c.customer_id = o.customer_id"
    if by_product or reading.measure in {"revenue", "net", "average", "units", "products"}:
        tables += " JOIN order_items AS i ON i.order_id = o.order_id"
    if by_product or reading.measure == "products":
        tables += " JOIN products AS p ON p.product_id = i.product_id"
    return tables


def _conditions(reading: Reading) -> list[str]:
    texts = {"c.country": reading.country, "p.category": reading.category, "o.status": reading.status}
    numbers = {"YEAR": reading.year, "QUARTER": reading.quarter, "MONTH": reading.month}
    return [
        *(["o.status NOT IN ('cancelled', 'returned')"] if reading.measure == "net" else []),
        *(f"EXTRACT({part} FROM o.order_date) = {number}" for part, number in numbers.items() if number is not None),
        *(f"{column} = '{value}'" for column, value in texts.items() if value is not None),
    ]


def _measure(said: str) -> Measure | None:
    return next((name for name, words in _MEASURES if re.search(words, said)), None)


def _group(said: str) -> Group | None:
    found = _GROUPED.search(said)
    if found is None:
        return None
    return next(name for name, words in _GROUPS.items() if re.search(rf"\b(?:{words})$", found[0]))


def _is_month(name: str, said: str) -> bool:
    """Tell the month of May from what may be."""
    return (
        name not in {"may", "march"} or re.search(rf"\b(?:in|for|of|since|during|and|vs)\s+{name}\b|\b{name}\s+20\d\d\b", said) is not None
    )


def _named(said: str, words: dict[str, str]) -> str | None:
    return next((value for word, value in words.items() if re.search(rf"\b{re.escape(word)}\b", said)), None)
