"""The queries on the demo warehouse: one for each measure, with its groups, filters, periods and limits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast

from interlock_agents.analyst.lexicon import Group, Measure
from interlock_agents.analyst.limits import Limit
from interlock_agents.analyst.periods import Period
from interlock_agents.analyst.reading import Filter, Reading

__all__ = [
    "GOODS", "PORTIONS", "SELECTED", "TIMES", "average_query", "change_query", "customers_query", "is_portion", "limited_query",
    "listing_query", "orders_query", "plural", "prices_query", "query",
]  # fmt: skip

GOODS = frozenset({"category", "product"})
TIMES = frozenset({"year", "quarter", "month", "week", "day"})
_ITEMS = frozenset({"revenue", "net", "average", "units", "basket", "margin", "variety"})
_OF_CUSTOMERS = frozenset({"customers", "signups", "idle"})
_NET = "o.status NOT IN ('cancelled', 'returned')"
_VALUE = "i.quantity * i.unit_price"
_RETURNED = "COUNT(DISTINCT CASE WHEN o.status = 'returned' THEN o.order_id END)"
_CANCELLED = "COUNT(DISTINCT CASE WHEN o.status = 'cancelled' THEN o.order_id END)"
_NOT_CANCELLED = "COUNT(DISTINCT CASE WHEN o.status <> 'cancelled' THEN o.order_id END)"
SELECTED: dict[Measure, tuple[str, str, str]] = {
    "revenue": (f"ROUND(SUM({_VALUE}), 2)", "revenue_eur", "Revenue"),
    "net": (f"ROUND(SUM({_VALUE}), 2)", "net_revenue_eur", "Net revenue"),
    "average": (f"ROUND(SUM({_VALUE}) / COUNT(DISTINCT o.order_id), 2)", "average_order_value_eur", "Average order value"),
    "orders": ("COUNT(DISTINCT o.order_id)", "orders", "Orders"),
    "units": ("SUM(i.quantity)", "units_sold", "Units sold"),
    "customers": ("COUNT(DISTINCT c.customer_id)", "customers", "Customers"),
    "buyers": ("COUNT(DISTINCT o.customer_id)", "customers", "Customers who ordered"),
    "signups": ("COUNT(DISTINCT c.customer_id)", "customers", "Customers who signed up"),
    "idle": ("COUNT(DISTINCT c.customer_id)", "customers", "Customers who never ordered"),
    "products": ("COUNT(DISTINCT p.product_id)", "products", "Products"),
    "variety": ("COUNT(DISTINCT i.product_id)", "products", "Different products sold"),
    "basket": ("ROUND(SUM(i.quantity) / COUNT(DISTINCT o.order_id), 2)", "units_per_order", "Units per order"),
    "returns": (f"ROUND(100 * {_RETURNED} / {_NOT_CANCELLED}, 2)", "return_rate_percent", "Return rate"),
    "cancellations": (f"ROUND(100 * {_CANCELLED} / COUNT(DISTINCT o.order_id), 2)", "cancellation_rate_percent", "Cancellation rate"),
    "margin": (f"ROUND(100 * SUM({_VALUE} - i.quantity * p.cost) / SUM({_VALUE}), 2)", "gross_margin_percent", "Gross margin"),
    "price": ("MAX(p.price)", "price_eur", "List price"),
    "average price": ("ROUND(AVG(p.price), 2)", "average_price_eur", "Average list price"),
    "first order": ("MIN(o.order_date)", "first_order", "First order"),
    "last order": ("MAX(o.order_date)", "last_order", "Last order"),
}
"""How a measure is counted, the column that it has in a result, and its name in words."""

PORTIONS: dict[Measure, str] = {
    "revenue": f"ROUND(SUM({{}}{_VALUE}{{}}), 2)",
    "net": f"ROUND(SUM({{}}{_VALUE}{{}}), 2)",
    "orders": "COUNT(DISTINCT {}o.order_id{})",
    "units": "SUM({}i.quantity{})",
    "customers": "COUNT(DISTINCT {}c.customer_id{})",
    "buyers": "COUNT(DISTINCT {}o.customer_id{})",
    "products": "COUNT(DISTINCT {}p.product_id{})",
}
"""How the part of a measure is counted that a condition holds for."""

COLUMNS: dict[str, str] = {
    "country": "c.country",
    "city": "c.city",
    "category": "p.category",
    "year": "EXTRACT(YEAR FROM {day})",
    "quarter": "CONCAT(CAST(EXTRACT(YEAR FROM {day}) AS STRING), '-Q', CAST(EXTRACT(QUARTER FROM {day}) AS STRING))",
    "month": "FORMAT_DATE('%Y-%m', {day})",
    "week": "FORMAT_DATE('%G-W%V', {day})",
    "day": "{day}",
    "weekday": "FORMAT_DATE('%A', {day})",
    "segment": "c.segment",
    "status": "o.status",
    "channel": "o.channel",
    "coupon": "COALESCE(o.coupon, 'none')",
    "product": "p.name",
    "customer": "o.customer_id",
    "order": "o.order_id",
}
_NAMED: dict[str, str] = {"customer": "customer_id", "order": "order_id"}
_COUNTED: dict[str, str] = {
    "orders": "order",
    "buyers": "customer",
    "customers": "customer",
    "products": "product",
    "variety": "product",
}


def is_portion(reading: Reading) -> bool:
    """Return whether the filters say which part of a whole is meant: "what percentage of orders came from the web"."""
    return reading.shares and not reading.groups and reading.top is None and bool(reading.filters)


def query(measure: Measure, reading: Reading, period: Period | None, *, labelled: bool) -> str:
    """Return the query for a measure in a period; with a label the result has a column that says which period it is."""
    value, alias, _ = SELECTED[measure]
    day = _day(measure)
    columns = _grouped(reading, day)
    if labelled and period is not None:
        columns = [f"'{_sortable(period)}' AS period", *columns]
    selected = [*columns, f"{value} AS {alias}"]
    if is_portion(reading):
        of_it = PORTIONS[measure].format(f"CASE WHEN {_condition(reading.filters[0])} THEN ", " END")
        selected = [*columns, f"{of_it} AS {alias}", f"{value} AS all_{alias}", f"ROUND(100 * {of_it} / {value}, 2) AS share_percent"]
    elif reading.shares:
        selected.append(f"ROUND(100 * {value} / SUM({value}) OVER (), 2) AS share_percent")
    made = f"SELECT {', '.join(selected)} {_from(measure, reading, period)}"
    if not reading.groups:
        return made
    # By position: a name such as order_id is in two tables, and which one is meant is not for a database to guess.
    places, last = [str(at + 1) for at in range(len(columns))], len(columns) + 1
    by_time = reading.top is None and set(reading.groups) & TIMES
    order = ", ".join(places) if by_time or len(reading.groups) > 1 else f"{last}{_direction(reading)}, 1"
    return f"{made} GROUP BY {', '.join(places)} ORDER BY {order}{_rows(reading)}"


def average_query(measure: Measure, reading: Reading, period: Period | None, parts: int | None) -> str:
    """Return the query for a measure divided by so many days, months and so on, or by the customers who ordered."""
    value, alias, _ = SELECTED[measure]
    per = f"{alias.removesuffix('_eur')}_per_{reading.groups[0]}{'_eur' if alias.endswith('_eur') else ''}"
    among = "COUNT(DISTINCT o.customer_id)" if parts is None else str(parts)
    return f"SELECT ROUND({value} / {among}, 2) AS {per} {_from(measure, reading, period)}"


def change_query(measure: Measure, reading: Reading, first: Period, last: Period) -> str:
    """Return the query for what a measure was in two periods, and by how many percent it changed, for each group."""
    _, alias, _ = SELECTED[measure]
    day, unit = _day(measure), "_eur" if alias.endswith("_eur") else ""
    columns = _grouped(reading, day)
    values = [PORTIONS[measure].format(f"CASE WHEN {_during(day, one)} THEN ", " END") for one in (first, last)]
    named = [re.sub(r"\W+", "_", _sortable(one)).strip("_").lower() for one in (first, last)]
    names = [f"{alias.removesuffix('_eur')}_{one}{unit}" for one in named]
    change = f"ROUND(100 * ({values[1]} - {values[0]}) / NULLIF({values[0]}, 0), 2) AS change_percent"
    selected = [*columns, *(f"{value} AS {name}" for value, name in zip(values, names, strict=True)), change]
    return (
        f"SELECT {', '.join(selected)} {_from(measure, reading, None)} GROUP BY 1 ORDER BY {len(selected)}{_direction(reading)}, 1"
        f"{_rows(reading)}"
    )


def limited_query(limit: Limit, entity: Measure | Group, reading: Reading, period: Period | None, *, counts: bool) -> str:
    """Return the query for the orders, customers and so on whose figure is within a limit: how many they are, or which."""
    group = _COUNTED.get(entity, entity)
    value, alias, _ = SELECTED[limit.measure]
    whole = replace(reading, groups=(*reading.groups, cast("Group", group)), top=None, shares=False)
    column = COLUMNS[group].format(day=_day(limit.measure))
    bounds = " AND ".join(f"{value} {sign} {number:.10g}" for sign, number in limit.bounds)
    source = _from(limit.measure, whole, period)
    if not counts:
        name = _NAMED.get(group, group)
        return f"SELECT {column} AS {name}, {value} AS {alias} {source} GROUP BY 1 HAVING {bounds} ORDER BY 2 DESC, 1"
    columns = [f"{COLUMNS[one].format(day=_day(limit.measure))} AS {one}" for one in reading.groups]
    places = ", ".join(str(at + 1) for at in range(len(columns) + 1))
    inner = f"SELECT {', '.join([*columns, f'{column} AS entity'])} {source} GROUP BY {places} HAVING {bounds}"
    counted = f"COUNT(*) AS {plural(group)}"
    if not columns:
        return f"SELECT {counted} FROM ({inner}) AS limited"  # noqa: S608 - words of ours
    names = ", ".join(reading.groups)
    return f"SELECT {names}, {counted} FROM ({inner}) AS limited GROUP BY {names} ORDER BY {names}"  # noqa: S608 - words of ours


def plural(group: str) -> str:
    """Return the name of several values of a group."""
    return {"country": "countries", "city": "cities", "category": "categories", "status": "statuses"}.get(group, f"{group}s")


def _grouped(reading: Reading, day: str) -> list[str]:
    return [f"{COLUMNS[group].format(day=day)} AS {_NAMED.get(group, group)}" for group in reading.groups]


def _day(measure: Measure) -> str:
    return "c.signed_up" if measure == "signups" else "o.order_date"


def _direction(reading: Reading) -> str:
    return "" if reading.smallest_first else " DESC"


def _rows(reading: Reading) -> str:
    return f" LIMIT {reading.top}" if reading.top is not None else ""


def _sortable(period: Period) -> str:
    """Write a period so that earlier ones come first in the alphabet."""
    if period.year is not None and period.first is not None and period.start is not None:
        return f"{period.start:%Y-%m}" if period.months == 1 else f"{period.year}-{period.label.split()[0]}"
    return period.label


def _from(measure: Measure, reading: Reading, period: Period | None) -> str:
    conditions = " AND ".join(_conditions(measure, reading, period))
    return f"FROM {_tables(measure, reading)}{f' WHERE {conditions}' if conditions else ''}"


def _tables(measure: Measure, reading: Reading) -> str:
    """Join only what is needed, so that nothing is counted twice."""
    named = {*reading.groups, *(one.group for one in reading.filters)}
    if measure in _OF_CUSTOMERS:
        return "customers AS c"
    if measure in {"products", "price", "average price"}:
        return "products AS p"
    tables = "orders AS o"
    if named & {"country", "city", "segment"}:
        tables += " JOIN customers AS c ON c.customer_id = o.customer_id"
    if named & GOODS or measure in _ITEMS:
        tables += " JOIN order_items AS i ON i.order_id = o.order_id"
    if named & GOODS or measure == "margin":
        tables += " JOIN products AS p ON p.product_id = i.product_id"
    return tables


def _conditions(measure: Measure, reading: Reading, period: Period | None) -> list[str]:
    made: list[str] = []
    if measure in {"net", "margin"}:
        made.append(_NET)
    if measure == "idle":
        made.append("c.customer_id NOT IN (SELECT customer_id FROM orders)")
    if "coupon" in reading.groups and reading.top is not None:
        made.append("o.coupon IS NOT NULL")
    if period is not None:
        made.append(_during(_day(measure), period))
    return made if is_portion(reading) else [*made, *(_condition(one) for one in reading.filters)]


def _during(day: str, period: Period) -> str:
    return f"{day} >= DATE '{period.start}' AND {day} < DATE '{period.end}'"


def _condition(one: Filter) -> str:
    column: str = {"coupon": "o.coupon"}.get(one.group) or COLUMNS[one.group].format(day="o.order_date")
    if one.values in {("*",), ("",)}:
        return f"{column} IS {'NOT ' if (one.values == ('*',)) != one.is_not else ''}NULL"
    if len(one.values) == 1:
        return f"{column} {'<>' if one.is_not else '='} '{one.values[0]}'"
    listed = "', '".join(one.values)
    return f"{column} {'NOT ' if one.is_not else ''}IN ('{listed}')"


def listing_query(group: str, reading: Reading, *, counts: bool) -> str | None:
    """Return the query for the values that a group has, or for their number; None where the filters are not of the same table."""
    tables = {"products AS p": GOODS, "orders AS o": {"status", "channel", "coupon"}, "customers AS c": {"country", "city", "segment"}}
    for table, own in tables.items():
        if group in own and all(one.group in own for one in reading.filters):
            conditions = " AND ".join(_condition(one) for one in reading.filters)
            source = f"FROM {table}{f' WHERE {conditions}' if conditions else ''}"
            if counts:
                return f"SELECT COUNT(DISTINCT {COLUMNS[group]}) AS {plural(group)} {source}"
            return f"SELECT DISTINCT {COLUMNS[group]} AS {group} {source} ORDER BY {group}"
    return None


def customers_query(reading: Reading) -> str:
    """Return the query for the customers that there are, by number: their names are personal data."""
    conditions = " AND ".join(_condition(one) for one in reading.filters)
    source = f"FROM customers AS c{f' WHERE {conditions}' if conditions else ''}"
    return f"SELECT c.customer_id, c.segment, c.country, c.city, c.signed_up {source} ORDER BY 1"


def prices_query(limit: Limit, reading: Reading, *, counts: bool) -> str:
    """Return the query for the products whose price is within a limit: how many they are, or which."""
    conditions = [*(f"p.price {sign} {number:.10g}" for sign, number in limit.bounds), *map(_condition, reading.filters)]
    source = f"FROM products AS p WHERE {' AND '.join(conditions)}"
    return f"SELECT COUNT(*) AS products {source}" if counts else f"SELECT p.name AS product, p.price AS price_eur {source} ORDER BY 2, 1"


def orders_query(reading: Reading, period: Period | None) -> str:
    """Return the query for the orders that there are, with their dates, states and values."""
    value, alias, _ = SELECTED["revenue"]
    bounds = reading.limit.bounds if reading.limit is not None else ()
    having = " AND ".join(f"{SELECTED[reading.limit.measure][0]} {sign} {number:.10g}" for sign, number in bounds) if reading.limit else ""
    source = _from("revenue", reading, period)
    return (
        f"SELECT o.order_id, o.order_date, o.status, o.channel, {value} AS {alias} {source} GROUP BY 1, 2, 3, 4"
        f"{f' HAVING {having}' if having else ''} ORDER BY {'5 DESC, 1' if having else '2, 1'}"
    )
