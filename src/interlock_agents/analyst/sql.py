"""The SQL for a figure of the demo warehouse, with its groups, filters and periods."""

from __future__ import annotations

import re
from collections.abc import Iterable

from interlock_agents.analyst.periods import Period
from interlock_agents.analyst.question import Filter, Question
from interlock_agents.analyst.vocabulary import GROUPS, MEASURES, TIMES

__all__ = ["CUSTOMER_GROUPS", "GOODS", "figure_query", "value_query"]

GOODS = frozenset({"category", "product"})
CUSTOMER_GROUPS = frozenset({"country", "city", "segment"})
_VALUE_TABLES = {"products AS p": GOODS, "orders AS o": {"status", "channel", "coupon"}, "customers AS c": CUSTOMER_GROUPS}


def figure_query(name: str, question: Question, period: Period | None, *, labelled: bool) -> str:
    """Return the query for a measure in a period. With `labelled` the result has a column with the period."""
    measure = MEASURES[name]
    value, columns = measure.select(), _columns(name, question)
    if labelled and period is not None:
        columns = [f"'{_sortable(period)}' AS period", *columns]
    selected = [*columns, f"{value} AS {measure.column}"]
    if question.is_portion:
        part = measure.select(_condition(question.filters[0]))
        selected = [*columns, f"{part} AS {measure.column}", f"{value} AS all_{measure.column}"]
        selected.append(f"ROUND(100 * {part} / {value}, 2) AS share_percent")
    elif question.shares:
        selected.append(f"ROUND(100 * {value} / SUM({value}) OVER (), 2) AS share_percent")
    made = f"SELECT {', '.join(selected)} {_from(name, question, period)}"
    if not question.groups:
        return made
    # Group by position: a name such as order_id is in two tables.
    places = _places(len(columns))
    by_group = (question.top is None and set(question.groups) & TIMES) or len(question.groups) > 1
    return f"{made} GROUP BY {places} ORDER BY {places if by_group else _ranked(len(columns) + 1, question)}{_rows(question)}"


def value_query(group: str, question: Question, *, counts: bool) -> str | None:
    """Return the query for the values of a grouping or their number, or None if the filters are not of the same table."""
    for table, own in _VALUE_TABLES.items():
        if group in own and all(one.group in own for one in question.filters):
            column, source = GROUPS[group].sql, f"FROM {table}{_where(map(_condition, question.filters))}"
            if counts:
                return f"SELECT COUNT(DISTINCT {column}) AS {GROUPS[group].plural} {source}"
            return f"SELECT DISTINCT {column} AS {group} {source} ORDER BY {group}"
    return None


def _columns(name: str, question: Question) -> list[str]:
    ids = {"customer": "customer_id", "order": "order_id"}
    return [f"{GROUPS[group].sql.format(day=_day(name))} AS {ids.get(group, group)}" for group in question.groups]


def _day(name: str) -> str:
    return "c.signed_up" if name == "signups" else "o.order_date"


def _places(count: int) -> str:
    return ", ".join(str(place) for place in range(1, count + 1))


def _ranked(place: int, question: Question) -> str:
    return f"{place}{'' if question.smallest_first else ' DESC'}, 1"


def _rows(question: Question) -> str:
    return f" LIMIT {question.top}" if question.top is not None else ""


def _sortable(period: Period) -> str:
    """Return the label of a period in a form that sorts by time."""
    if period.months == 1 and period.start is not None:
        return f"{period.start:%Y-%m}"
    if re.fullmatch(r"[QH]\d \d{4}", period.label):
        return f"{period.label[3:]}-{period.label[:2]}"
    return period.label


def _from(name: str, question: Question, period: Period | None) -> str:
    """Join only the tables that are needed, so that no row is counted twice."""
    measure, named = MEASURES[name], {*question.groups, *(one.group for one in question.filters)}
    if measure.source in {"customers", "products"}:
        tables = f"{measure.source} AS {measure.source[0]}"
    else:
        tables = "orders AS o"
        if named & CUSTOMER_GROUPS:
            tables += " JOIN customers AS c ON c.customer_id = o.customer_id"
        if named & GOODS or measure.source != "orders":
            tables += " JOIN order_items AS i ON i.order_id = o.order_id"
        if named & GOODS or measure.source == "products_sold":
            tables += " JOIN products AS p ON p.product_id = i.product_id"
    conditions = [measure.where] if measure.where else []
    if "coupon" in question.groups and question.top is not None:
        conditions.append("o.coupon IS NOT NULL")
    conditions += [_during(name, period)] if period is not None else []
    conditions += [] if question.is_portion else map(_condition, question.filters)
    return f"FROM {tables}{_where(conditions)}"


def _where(conditions: Iterable[str]) -> str:
    joined = " AND ".join(conditions)
    return f" WHERE {joined}" if joined else ""


def _during(name: str, period: Period) -> str:
    return f"{_day(name)} >= DATE '{period.start}' AND {_day(name)} < DATE '{period.end}'"


def _condition(one: Filter) -> str:
    column = "o.coupon" if one.group == "coupon" else GROUPS[one.group].sql.format(day="o.order_date")
    if one.values in {("*",), ("",)}:
        return f"{column} IS {'NOT ' if (one.values == ('*',)) != one.is_not else ''}NULL"
    if len(one.values) == 1:
        return f"{column} {'<>' if one.is_not else '='} '{one.values[0]}'"
    listed = "', '".join(one.values)
    return f"{column} {'NOT ' if one.is_not else ''}IN ('{listed}')"
