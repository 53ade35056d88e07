"""The queries that a reading of a question becomes, each with the words for the part of the question that it answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from interlock.agents.analyst.lexicon import DATA, FIGURES, GROUPINGS, SIGNUPS, Group, Measure
from interlock.agents.analyst.periods import Period
from interlock.agents.analyst.reading import Filter, Reading

__all__ = ["CannotRead", "Figure", "figures"]


class CannotRead(Exception):
    """Says what to ask, or what the warehouse does not have."""


@dataclass(frozen=True)
class Figure:
    """A query, what it answers, and what has to be said before its result."""

    part: str
    sql: str
    notes: tuple[str, ...] = ()
    changes: bool = False


_ITEMS = frozenset({"revenue", "net", "average", "units", "basket", "margin"})
_OF_CUSTOMERS = frozenset({"customers", "signups", "idle"})
_OF_ORDERS = frozenset({"year", "quarter", "month", "week", "day", "status", "channel", "coupon", "order", "customer"})
_OF_PRODUCTS = frozenset({"category", "product"})
_TIMES = frozenset({"year", "quarter", "month", "week", "day"})
_NET = "o.status NOT IN ('cancelled', 'returned')"
_VALUE = "i.quantity * i.unit_price"
_RETURNED = "COUNT(DISTINCT CASE WHEN o.status = 'returned' THEN o.order_id END)"
_CANCELLED = "COUNT(DISTINCT CASE WHEN o.status = 'cancelled' THEN o.order_id END)"
_NOT_CANCELLED = "COUNT(DISTINCT CASE WHEN o.status <> 'cancelled' THEN o.order_id END)"
_SELECTED: dict[Measure, tuple[str, str, str]] = {
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
    "basket": ("ROUND(SUM(i.quantity) / COUNT(DISTINCT o.order_id), 2)", "units_per_order", "Units per order"),
    "returns": (f"ROUND(100 * {_RETURNED} / {_NOT_CANCELLED}, 2)", "return_rate_percent", "Return rate"),
    "cancellations": (f"ROUND(100 * {_CANCELLED} / COUNT(DISTINCT o.order_id), 2)", "cancellation_rate_percent", "Cancellation rate"),
    "margin": (f"ROUND(100 * SUM({_VALUE} - i.quantity * p.cost) / SUM({_VALUE}), 2)", "gross_margin_percent", "Gross margin"),
    "price": ("MAX(p.price)", "price_eur", "List price"),
}
_OF_THEMSELVES = frozenset({("customers", "customer"), ("buyers", "customer"), ("orders", "order"), ("products", "product")})
_SHARED = frozenset({"revenue", "net", "orders", "units"})
_PORTIONS: dict[Measure, str] = {
    "revenue": f"ROUND(SUM({{}}{_VALUE}{{}}), 2)",
    "net": f"ROUND(SUM({{}}{_VALUE}{{}}), 2)",
    "orders": "COUNT(DISTINCT {}o.order_id{})",
    "units": "SUM({}i.quantity{})",
    "customers": "COUNT(DISTINCT {}c.customer_id{})",
    "products": "COUNT(DISTINCT {}p.product_id{})",
}
_RATES: dict[Filter, Measure] = {Filter("status", ("returned",)): "returns", Filter("status", ("cancelled",)): "cancellations"}
_COLUMNS: dict[Group, str] = {
    "country": "c.country",
    "city": "c.city",
    "category": "p.category",
    "year": "EXTRACT(YEAR FROM {day})",
    "quarter": "CONCAT(CAST(EXTRACT(YEAR FROM {day}) AS STRING), '-Q', CAST(EXTRACT(QUARTER FROM {day}) AS STRING))",
    "month": "FORMAT_DATE('%Y-%m', {day})",
    "week": "FORMAT_DATE('%G-W%V', {day})",
    "day": "{day}",
    "segment": "c.segment",
    "status": "o.status",
    "channel": "o.channel",
    "coupon": "COALESCE(o.coupon, 'none')",
    "product": "p.name",
    "customer": "o.customer_id",
    "order": "o.order_id",
}
_NAMED: dict[str, str] = {"customer": "customer_id", "order": "order_id"}
_TOO_FINE = "I can rank one grouping at a time."


def figures(reading: Reading) -> list[Figure]:
    """Make the queries of a reading, one for each part of it. Raises CannotRead where a figure would be another one than is asked for."""
    if reading.left:
        raise CannotRead(_not_understood(reading))
    if reading.is_tangled:
        raise CannotRead(_tangled(reading))
    reading, notes = _with_years(reading), reading.notes
    if reading.listed is not None or reading.counted is not None:
        return [_listing(reading)]
    measures: tuple[Measure, ...] = reading.measures
    if not measures and reading.judged not in {"", "top"} and reading.groups and reading.groups != ("order",):
        raise CannotRead(f"{reading.judged.capitalize()} by what? For example by revenue, orders or units sold. I know {FIGURES}.")
    if not measures and reading.top is not None and reading.groups:
        measures = ("revenue",)
        notes = (*notes, "You did not say by which figure: this is by revenue.")
    elif not measures and reading.bought and reading.filters:
        measures = ("units",)
    if not measures:
        raise CannotRead(f"Which figure would you like? I know {FIGURES}.")
    made: list[Figure] = []
    for measure in measures:
        readings = _separate(_as_rate(replace(reading, measures=(_meant(measure, reading),))))
        made += [_figure(one, (*notes, *_counting(measure, one))) for one in readings]
    return made


def _meant(measure: Measure, reading: Reading) -> Measure:
    """Tell customers who ordered from those who signed up, and products that were sold from those that there are."""
    by_orders = bool(reading.periods) or any(one.group not in {"country", "city", "segment"} for one in reading.filters)
    by_orders = by_orders or bool(set(reading.groups) & (_OF_ORDERS | _OF_PRODUCTS))
    if measure == "customers" and reading.joined:
        return "signups"
    if measure == "customers" and (reading.bought or by_orders):
        return "buyers"
    return "units" if measure == "products" and reading.bought else measure


def _is_portion(reading: Reading) -> bool:
    """Tell whether the filters say which part of a whole is meant: "what percentage of orders came from the web"."""
    return reading.shares and not reading.groups and reading.top is None and bool(reading.filters)


def _as_rate(reading: Reading) -> Reading:
    """Take the share of orders that were returned or cancelled for the rate that the handbook defines."""
    if _is_portion(reading) and reading.measures == ("orders",) and len(reading.filters) == 1:
        rate = _RATES.get(reading.filters[0])
        return reading if rate is None else replace(reading, measures=(rate,), filters=(), shares=False)
    return reading


def _counting(asked: Measure, reading: Reading) -> tuple[str, ...]:
    """Say what a figure counts, where that is not the only thing that the question could mean."""
    [measure] = reading.measures
    stated = {value for one in reading.filters if one.group == "status" and not one.is_not for value in one.values}
    notes: list[str] = []
    if asked == "customers" and measure == "buyers" and not reading.bought:
        notes.append("I count customers who placed an order in that time or of that kind.")
    if asked == "products" and measure == "units":
        notes.append("I count the units that were sold, not how many different products.")
    if measure == "average" and {*reading.groups, *(one.group for one in reading.filters)} & _OF_PRODUCTS:
        notes.append("Only the goods of that kind count, not what else is in the same order.")
    if "shipped" in stated:
        notes.append("'shipped' is the status of orders that are on their way: those that were delivered since are not in it.")
    if stated - {"processing"} and reading.periods:
        notes.append("The time is that of the order, not that of its delivery, return or cancellation.")
    return tuple(notes)


def _with_years(reading: Reading) -> Reading:
    """Take a month or a quarter without a year for those of all years that there are orders of."""
    years = range(DATA[0].year, DATA[1].year)
    periods: list[Period] = []
    for one in reading.periods:
        periods += [one.in_year(year) for year in years] if one.start is None else [one]
    if reading.changes:
        periods = [end for one in periods for end in one.ends or (one,)]
        if len(periods) == 1 and (earlier := periods[0].before()) is not None:
            periods = [earlier, *periods]
        if len(periods) != 2 or reading.groups:  # noqa: PLR2004 - from one to the other
            raise CannotRead("Between which two periods? For example: revenue growth from 2024 to 2025.")
        periods.sort(key=lambda one: one.start or dt.date.min)
    joined = _contiguous(periods) if set(reading.groups) & _TIMES else None
    return replace(reading, periods=(joined,) if joined is not None else tuple(periods))


def _contiguous(periods: Sequence[Period]) -> Period | None:
    ordered = sorted(periods, key=lambda one: one.start or dt.date.min)
    if len(ordered) < 2 or any(one.end != after.start for one, after in pairwise(ordered)):  # noqa: PLR2004
        return None
    return Period(f"{ordered[0].label} to {ordered[-1].label}", ordered[0].start, ordered[-1].end)


def _separate(reading: Reading) -> list[Reading]:
    """Give several values of one kind a row each, and several periods a table each where there are groups."""
    if _is_portion(reading):
        return [reading]
    groups = list(reading.groups)
    for one in reading.filters:
        if len(one.values) > 1 and not one.is_not and one.group not in groups and not reading.is_sum:
            groups.append(one.group)  # pyright: ignore[reportArgumentType] - filters are of groups
    if reading.top is not None and len(groups) > 1:
        raise CannotRead(f"{_TOO_FINE} Which one shall it be: {', '.join(groups)}?")
    reading = replace(reading, groups=tuple(groups))
    if reading.is_sum and len(reading.periods) > 1:
        whole = _contiguous(reading.periods)
        if whole is None:
            raise CannotRead("I can count periods together only if they follow one another. Which ones do you mean?")
        reading = replace(reading, periods=(whole,))
    if len(reading.periods) > 1 and groups:
        return [replace(reading, periods=(one,)) for one in reading.periods]
    return [reading]


def _figure(reading: Reading, notes: tuple[str, ...]) -> Figure:
    [measure] = reading.measures
    _check(measure, reading)
    periods: list[Period] = []
    for period in reading.periods:
        inside, note = _within(period, SIGNUPS if measure == "signups" else DATA)
        periods.append(inside)
        notes = (*notes, *note)
    sql = " UNION ALL ".join(_query(measure, reading, one, labelled=len(periods) > 1) for one in periods or [None])
    if len(periods) > 1:
        sql += " ORDER BY 1"
    return Figure(_described(measure, reading), sql, tuple(dict.fromkeys(notes)), reading.changes)


def _check(measure: Measure, reading: Reading) -> None:
    """Refuse what the tables do not have, or what is not one figure."""
    _check_meaning(measure, reading)
    groups, filtered = set(reading.groups), {one.group for one in reading.filters}
    allowed: set[str] | None = None
    if measure in {"idle", "signups"}:
        allowed = {"country", "city", "segment"} | (set(_TIMES) if measure == "signups" else set())
    elif measure == "products":
        allowed = {"category"}
    elif measure == "price":
        allowed = {"category", "product"}
    refused = sorted((groups | filtered) - allowed) if allowed is not None else []
    if refused or (allowed is not None and reading.periods and measure != "signups"):
        what = _SELECTED[measure][2].lower()
        raise CannotRead(
            f"I cannot give {what} by {', '.join([*refused, *(['time'] if reading.periods and measure != 'signups' else [])])}. "
            "Do you mean orders, units sold or customers who ordered?"
        )
    if measure == "price" and "product" not in groups:
        raise CannotRead("Of which products? Ask for the most expensive or the cheapest ones, or for the price by product.")
    if reading.shares:
        _check_share(measure, reading)
    if (measure, *reading.groups) in _OF_THEMSELVES:
        raise CannotRead(f"That would be one for each {reading.groups[0]}. By which figure? I know {FIGURES}.")
    if {"customer", "order"} & groups and reading.top is None:
        raise CannotRead("There are thousands of those. Do you mean the top few, for example the top 10 customers by revenue?")


def _check_meaning(measure: Measure, reading: Reading) -> None:
    """Ask back where a figure could be meant in two ways."""
    is_unwanted = measure in {"returns", "cancellations"} or any(one.group == "status" for one in reading.filters)
    if reading.judged in {"best", "worst", "strongest", "weakest", "poorest"} and is_unwanted:
        raise CannotRead(f"By '{reading.judged}', do you mean the highest or the lowest figure? Please say which of them.")
    lost = [value for one in reading.filters if one.group == "status" and not one.is_not for value in one.values]
    if measure in {"net", "margin"} and {"cancelled", "returned"} & set(lost):
        raise CannotRead(
            f"{_SELECTED[measure][2]} leaves out cancelled and returned orders, so there is none of them. Do you mean their revenue?"
        )
    if reading.changes and reading.groups:
        raise CannotRead("I can say how one figure changed, not several at once. Of which one: a country, a category or all?")
    mixed = any(one.group == "category" and len(one.values) > 1 and not one.is_not for one in reading.filters)
    if mixed and measure in {"orders", "buyers"}:
        raise CannotRead(
            "One order can have goods of several categories, so it is not clear which ones to count. "
            "Do you want one category at a time, all by category, or units sold?"
        )


def _check_share(measure: Measure, reading: Reading) -> None:
    """Refuse a share where it is not clear of which whole it is one."""
    if _is_portion(reading):
        is_clear = measure in _PORTIONS and len(reading.filters) == 1
    else:
        shared = set(reading.groups) & {one.group for one in reading.filters}
        of_time = bool(set(reading.groups) & _TIMES and reading.filters)  # "the share of the app by year" is no share of the years
        is_clear = measure in _SHARED and len(reading.groups) == 1 and not shared and not of_time and reading.top is None
    if not is_clear:
        raise CannotRead(
            f"A share of what? I understood: {_described(measure, replace(reading, shares=False))}. "
            "I can give the share of each group, or of one: share of revenue by country in 2025, or percentage of orders from the web."
        )


def _within(period: Period, data: tuple[dt.date, dt.date]) -> tuple[Period, tuple[str, ...]]:
    """Keep a period to the days that there is data of, and say so."""
    start, end = period.start or data[0], period.end or data[1]
    known = f"{_day(data[0])} to {_day(data[1] - dt.timedelta(days=1))}"
    what = "customers who signed up" if data is SIGNUPS else "orders"
    if start >= data[1] or end <= data[0]:
        raise CannotRead(f"The warehouse has {what} from {known} only, so there is nothing for {period.label}.")
    inside = replace(period, start=max(start, data[0]), end=min(end, data[1]))
    is_open = start == dt.date.min or end == dt.date.max
    if (inside.start, inside.end) == (start, end) or is_open:
        return inside, ()
    return inside, (f"The warehouse has {what} from {known} only: {period.label} is counted as far as it lies in that time.",)


def _day(day: dt.date) -> str:
    return f"{day.day} {day:%B %Y}"


def _query(measure: Measure, reading: Reading, period: Period | None, *, labelled: bool) -> str:
    value, alias, _ = _SELECTED[measure]
    day = "c.signed_up" if measure == "signups" else "o.order_date"
    names = [_NAMED.get(group, group) for group in reading.groups]
    columns = [f"{_COLUMNS[group].format(day=day)} AS {name}" for group, name in zip(reading.groups, names, strict=True)]
    if labelled and period is not None:
        columns = [f"'{_sortable(period)}' AS period", *columns]
    selected = [*columns, f"{value} AS {alias}"]
    if _is_portion(reading):
        of_it = _PORTIONS[measure].format(f"CASE WHEN {_condition(reading.filters[0])} THEN ", " END")
        selected = [*columns, f"{of_it} AS {alias}", f"{value} AS all_{alias}", f"ROUND(100 * {of_it} / {value}, 2) AS share_percent"]
    elif reading.shares:
        selected.append(f"ROUND(100 * {value} / SUM({value}) OVER (), 2) AS share_percent")
    where = " AND ".join(_conditions(measure, reading, period, day))
    query = f"SELECT {', '.join(selected)} FROM {_tables(measure, reading)}{f' WHERE {where}' if where else ''}"  # noqa: S608 - words of ours
    if not names:
        return query
    # By position: a name such as order_id is in two tables, and which one is meant is not for a database to guess.
    places, last = [str(at + 1) for at in range(len(columns))], len(columns) + 1
    by_time = reading.top is None and set(reading.groups) & _TIMES
    order = ", ".join(places) if by_time or len(names) > 1 else f"{last}{'' if reading.smallest_first else ' DESC'}, 1"
    return f"{query} GROUP BY {', '.join(places)} ORDER BY {order}{f' LIMIT {reading.top}' if reading.top is not None else ''}"


def _sortable(period: Period) -> str:
    """Write a period so that earlier ones come first in the alphabet."""
    if period.year is not None and period.first is not None and period.start is not None:
        return f"{period.start:%Y-%m}" if period.months == 1 else f"{period.year}-{period.label.split()[0]}"
    return period.label


def _tables(measure: Measure, reading: Reading) -> str:
    """Join only what is needed, so that nothing is counted twice."""
    named = {*reading.groups, *(one.group for one in reading.filters)}
    if measure in _OF_CUSTOMERS:
        return "customers AS c"
    if measure in {"products", "price"}:
        return "products AS p"
    tables = "orders AS o"
    if named & {"country", "city", "segment"}:
        tables += " JOIN customers AS c ON c.customer_id = o.customer_id"
    if named & _OF_PRODUCTS or measure in _ITEMS:
        tables += " JOIN order_items AS i ON i.order_id = o.order_id"
    if named & _OF_PRODUCTS or measure == "margin":
        tables += " JOIN products AS p ON p.product_id = i.product_id"
    return tables


def _conditions(measure: Measure, reading: Reading, period: Period | None, day: str) -> list[str]:
    made: list[str] = []
    if measure in {"net", "margin"}:
        made.append(_NET)
    if measure == "idle":
        made.append("c.customer_id NOT IN (SELECT customer_id FROM orders)")
    if "coupon" in reading.groups and reading.top is not None:
        made.append("o.coupon IS NOT NULL")
    if period is not None:
        made.append(f"{day} >= DATE '{period.start}' AND {day} < DATE '{period.end}'")
    return made if _is_portion(reading) else [*made, *(_condition(one) for one in reading.filters)]


def _condition(one: Filter) -> str:
    column: str = {"coupon": "o.coupon"}.get(one.group) or _COLUMNS[one.group]  # pyright: ignore[reportArgumentType] - filters are of groups
    if one.values in {("*",), ("",)}:
        return f"{column} IS {'NOT ' if (one.values == ('*',)) != one.is_not else ''}NULL"
    if len(one.values) == 1:
        return f"{column} {'<>' if one.is_not else '='} '{one.values[0]}'"
    listed = "', '".join(one.values)
    return f"{column} {'NOT ' if one.is_not else ''}IN ('{listed}')"


def _listing(reading: Reading) -> Figure:
    """List the values of a dimension, or count them."""
    group = reading.listed or reading.counted
    of_products, of_orders = group in _OF_PRODUCTS, group in {"status", "channel", "coupon"}
    table, own = ("products AS p", _OF_PRODUCTS) if of_products else ("orders AS o", {"status", "channel", "coupon"})
    if not of_products and not of_orders:
        table, own = "customers AS c", {"country", "city", "segment"}
    strange = [one.group for one in reading.filters if one.group not in own]
    if group not in own or strange or reading.groups or reading.periods or reading.top is not None or reading.shares or reading.changes:
        raise CannotRead(f"Which figure would you like for that? I know {FIGURES}.")
    column = _COLUMNS[group]  # pyright: ignore[reportArgumentType] - it is one of them
    where = " AND ".join(_condition(one) for one in reading.filters)
    source = f"FROM {table}{f' WHERE {where}' if where else ''}"
    scope = "".join(f", {_said(one)}" for one in reading.filters)
    plural = {"country": "countries", "city": "cities", "category": "categories", "status": "statuses"}.get(str(group), f"{group}s")
    if reading.counted is not None:
        return Figure(f"Number of {plural}{scope}", f"SELECT COUNT(DISTINCT {column}) AS {plural} {source}", reading.notes)
    return Figure(f"{plural.capitalize()}{scope}", f"SELECT DISTINCT {column} AS {group} {source} ORDER BY {group}", reading.notes)


def _described(measure: Measure, reading: Reading) -> str:
    """Say in words what a query answers: all that was understood is in it."""
    first = _SELECTED[measure][2]
    grouped = " and ".join(reading.groups)
    shares = " and share of the total" if reading.shares else ""
    parts = [f"{first}{shares}{f' by {grouped}' if grouped else ''}"]
    if reading.top is not None:
        parts.append(f"{'lowest' if reading.smallest_first else 'highest'}{f' {reading.top}' if reading.top > 1 else ''}")
    parts += [_said(one) for one in reading.filters]
    parts += [" and ".join(one.label for one in reading.periods)] if reading.periods else []
    return ", ".join(parts)


def _said(one: Filter) -> str:
    if one.values in {("*",), ("",)}:
        return "with a coupon" if (one.values == ("*",)) != one.is_not else "without a coupon"
    return f"{'not ' if one.is_not else ''}{' and '.join(one.values)}"


def _tangled(reading: Reading) -> str:
    values = [_said(one) for one in reading.filters] + [one.label for one in reading.periods]
    names = [*(_SELECTED[one][2].lower() for one in reading.measures), *reading.groups, *values]
    known = f": {', '.join(names)}" if names else ""
    return (
        f"I know the words of this question{known}, but not what they mean together, and I do not guess. "
        "Could you put it in another way? For example: how many orders in Spain in 2025; "
        "revenue by country; which city has the highest revenue; top 5 products by units sold."
    )


def _not_understood(reading: Reading) -> str:
    words = ", ".join(f"'{word}'" for word in reading.left)[:200]
    guess = f" Did you mean {' or '.join(reading.meant)}?" if reading.meant else ""
    return (
        f"I did not understand {words}, and without that the figure could be another one than you want.{guess} "
        f"I know {FIGURES}; by {GROUPINGS}; for a period, a country, city, category, segment, status, channel or coupon. "
        "Could you say it with those?"
    )
