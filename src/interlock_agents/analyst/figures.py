"""The queries that a reading of a question becomes, each with the words for the part of the question that it answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from interlock_agents.analyst.descriptions import described, filter_label, understood
from interlock_agents.analyst.lexicon import DATA, FIGURES, SIGNUPS, Measure
from interlock_agents.analyst.limits import Limit
from interlock_agents.analyst.periods import Period
from interlock_agents.analyst.queries import (
    GOODS,
    PORTIONS,
    SELECTED,
    TIMES,
    average_query,
    change_query,
    customers_query,
    is_portion,
    limited_query,
    listing_query,
    orders_query,
    plural,
    prices_query,
    query,
)
from interlock_agents.analyst.reading import Filter, Reading

__all__ = ["CannotRead", "Figure", "Unclear", "figures"]


class CannotRead(Exception):
    """Says what to ask, or what the warehouse does not have."""


class Unclear(CannotRead):
    """A question has words that were not understood, or an order of words that was not."""

    def __init__(self, reading: Reading) -> None:
        super().__init__("I did not understand this question.")
        self.reading = reading


@dataclass(frozen=True)
class Figure:
    """A query, what it answers, and what has to be said before its result."""

    part: str
    sql: str
    notes: tuple[str, ...] = ()
    changes: bool = False


_OF_ORDERS = frozenset({*TIMES, "weekday", "status", "channel", "coupon", "order", "customer"})
_OF_THEMSELVES = frozenset({("customers", "customer"), ("buyers", "customer"), ("orders", "order"), ("products", "product")})
_SHARED = frozenset({"revenue", "net", "orders", "units"})
_BY_ORDERS = frozenset({"busiest", "slowest", "quietest"})
_RATES: dict[Filter, Measure] = {Filter("status", ("returned",)): "returns", Filter("status", ("cancelled",)): "cancellations"}
_MEANS = frozenset({"average", "basket", "returns", "cancellations", "margin", "average price"})
_DATES = frozenset({"first order", "last order"})
_TOO_FINE = "I can rank one grouping at a time."


def figures(reading: Reading) -> list[Figure]:
    """Make the queries of a reading, one for each part of it. Raises CannotRead where a figure would be another one than is asked for."""
    if reading.is_unclear:
        raise Unclear(reading)
    if reading.top_of_before is not None:
        end = "lowest" if reading.smallest_first else "highest"
        raise CannotRead(f"The {reading.judged} of what? For example: which country has the {end} revenue?")
    reading, notes = _with_years(reading)
    if reading.listed is not None or reading.counted is not None:
        return [_listing(reading, notes)]
    if reading.limit is not None and reading.measures == ("products",):
        return [_listing(replace(reading, measures=(), counted="product"), notes)]
    measures, assumed = _measured(reading)
    made: list[Figure] = []
    for measure in measures:
        readings = _separate(_as_rate(replace(reading, measures=(_meant(measure, reading),))))
        made += [_figure(one, (*notes, *assumed, *_counting(measure, one))) for one in readings]
    return made


def _measured(reading: Reading) -> tuple[tuple[Measure, ...], tuple[str, ...]]:
    """Return the figures that are asked for; where none is named but it is clear what is done with it, it is revenue, and that is said."""
    if reading.measures:
        return reading.measures, ()
    if reading.judged in _BY_ORDERS and reading.groups:
        return ("orders",), (f"By '{reading.judged}' I mean the number of orders.",)
    if reading.bought and any(one.group == "category" for one in reading.filters):
        return ("units",), ()
    if any(one.group == "status" for one in reading.filters) and reading.top is not None:
        return ("orders",), ()
    is_done = (reading.top is not None and reading.groups) or reading.compares or (reading.shares and reading.groups)
    if is_done or (reading.bought and reading.filters):
        return ("revenue",), ("You did not say by which figure: this is by revenue.",)
    raise CannotRead(f"Which figure would you like{_for(reading)}? I know {FIGURES}.")


def _for(reading: Reading) -> str:
    """Say what was understood of a question that names no figure."""
    known = understood(replace(reading, measures=()))
    return f" for: {', '.join(known)}" if known else ""


def _meant(measure: Measure, reading: Reading) -> Measure:
    """Tell customers who ordered from those who signed up, and products that were sold from those that there are."""
    by_orders = bool(reading.periods) or any(one.group not in {"country", "city", "segment"} for one in reading.filters)
    by_orders = by_orders or bool(set(reading.groups) & (_OF_ORDERS | GOODS))
    if measure == "customers" and reading.joined:
        return "signups"
    if measure == "customers" and (reading.bought or by_orders):
        return "buyers"
    if measure == "variety" and not (reading.bought or by_orders):
        return "products"
    return "units" if measure == "products" and reading.bought else measure


def _as_rate(reading: Reading) -> Reading:
    """Take the share of orders that were returned or cancelled for the rate that the handbook defines."""
    if is_portion(reading) and reading.measures == ("orders",) and len(reading.filters) == 1:
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
    if measure == "buyers" and any(one.is_not or one.values == ("",) for one in reading.filters if one.group in _OF_ORDERS):
        notes.append("A customer with one such order counts, whatever the customer's other orders are.")
    if asked == "products" and measure == "units":
        notes.append("I count the units that were sold, not how many different products.")
    if measure == "average" and {*reading.groups, *(one.group for one in reading.filters)} & GOODS:
        notes.append("Only the goods of that kind count, not what else is in the same order.")
    if measure in {"customers", "buyers"} and reading.limit is not None and reading.limit.bounds[0][0] in {"<", "<="}:
        notes.append("Customers who never ordered are not counted here.")
    if "shipped" in stated:
        notes.append("'shipped' is the status of orders that are on their way: those that were delivered since are not in it.")
    if stated - {"processing"} and reading.periods:
        notes.append("The time is that of the order, not that of its delivery, return or cancellation.")
    return tuple(notes)


def _with_years(reading: Reading) -> tuple[Reading, tuple[str, ...]]:
    """Take a month or a quarter without a year for those of all years that there are orders of, and say what a change is between."""
    years = range(DATA[0].year, DATA[1].year)
    periods: list[Period] = []
    notes = reading.notes
    for one in reading.periods:
        if one.start is None and one.months is None:
            raise CannotRead(f"I do not know which time '{one.label}' is counted from. Which one do you mean? For example: in 2024.")
        periods += [one.in_year(year) for year in years] if one.start is None else [one]
    if reading.changes:
        periods = [end for one in periods for end in one.ends or (one,)]
        if len(periods) == 1 and (earlier := periods[0].before()) is not None:
            periods = [earlier, *periods]
        if not periods:
            periods = [Period.of_year(year) for year in years]
            notes = (*notes, "You did not say between which periods: these are the years that the warehouse has orders of.")
        if len(periods) != 2:  # noqa: PLR2004 - from one to the other
            raise CannotRead("Between which two periods? For example: revenue growth from 2024 to 2025.")
        periods.sort(key=lambda one: one.start or dt.date.min)
    joined = _contiguous(periods) if set(reading.groups) & TIMES and not reading.changes else None
    return replace(reading, periods=(joined,) if joined is not None else tuple(periods)), notes


def _contiguous(periods: Sequence[Period]) -> Period | None:
    ordered = sorted(periods, key=lambda one: one.start or dt.date.min)
    if len(ordered) < 2 or any(one.end != after.start for one, after in pairwise(ordered)):  # noqa: PLR2004
        return None
    return Period(f"{ordered[0].label} to {ordered[-1].label}", ordered[0].start, ordered[-1].end)


def _separate(reading: Reading) -> list[Reading]:
    """Give several values of one kind a row each, and several periods a table each where there are groups."""
    if is_portion(reading):
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
    if len(reading.periods) > 1 and groups and not reading.changes:
        return [replace(reading, periods=(one,)) for one in reading.periods]
    return [reading]


def _figure(reading: Reading, notes: tuple[str, ...]) -> Figure:
    [measure] = reading.measures
    reading, assumed = _averaged(measure, reading)
    _check(measure, reading)
    periods: list[Period] = []
    notes = (*notes, *assumed)
    for period in reading.periods:
        inside, note = _within(period, SIGNUPS if measure == "signups" else DATA)
        periods.append(inside)
        notes = (*notes, *note)
    said, notes = described(measure, reading), tuple(dict.fromkeys(notes))
    if reading.limit is not None:
        made = [limited_query(reading.limit, measure, reading, one, counts=True) for one in periods or [None]]
        return Figure(said, _one(made), notes)
    if reading.averages:
        made = [average_query(measure, reading, one, _parts_of(reading, one)) for one in periods or [None]]
        return Figure(said, _one(made), notes)
    if reading.changes and reading.groups:
        return Figure(said, change_query(measure, reading, *periods), notes)
    sql = " UNION ALL ".join(query(measure, reading, one, labelled=len(periods) > 1) for one in periods or [None])
    if len(periods) > 1:
        sql += " ORDER BY 1"
    return Figure(said, sql, notes, reading.changes)


def _one(made: list[str]) -> str:
    if len(made) > 1:
        raise CannotRead("I can do this for one period at a time. Which one shall it be?")
    return made[0]


def _averaged(measure: Measure, reading: Reading) -> tuple[Reading, tuple[str, ...]]:
    """Tell an average from a grouping: 'orders per customer' is one, 'revenue per month' is not, unless it says so."""
    if reading.averages and measure in _MEANS:
        return replace(reading, averages=False), ()
    is_of_customers = reading.groups == ("customer",) and reading.is_per and reading.top is None and measure in _SHARED
    if is_of_customers and not reading.limit:
        return replace(reading, averages=True), ("This is the average over all customers who ordered.",)
    return reading, ()


def _parts_of(reading: Reading, period: Period | None) -> int | None:
    """Return into how many days, months and so on a period falls; None where it is divided by customers."""
    start, end = (period.start or DATA[0], period.end or DATA[1]) if period is not None else DATA
    days, months = (end - start).days, (end.year - start.year) * 12 + end.month - start.month
    size = {"month": 1, "quarter": 3, "year": 12}.get(reading.groups[0])
    match reading.groups[0]:
        case "customer":
            return None
        case "day":
            return days
        case _ if size is not None and start.day == end.day == 1 and months % size == 0:
            return months // size
        case unit:
            raise CannotRead(f"That time is not so many whole {unit}s. Do you want the average per day?")


def _check(measure: Measure, reading: Reading) -> None:
    """Refuse what the tables do not have, or what is not one figure."""
    _check_meaning(measure, reading)
    if reading.limit is not None:
        _check_limit(measure, reading, reading.limit)
        return
    _check_tables(measure, reading)
    groups = set(reading.groups)
    if measure == "price" and "product" not in groups:
        raise CannotRead("Of which products? Ask for the most expensive or the cheapest ones, or for the price by product.")
    if reading.shares:
        _check_share(measure, reading)
    if (measure, *reading.groups) in _OF_THEMSELVES:
        raise CannotRead(f"That would be one for each {reading.groups[0]}. By which figure? I know {FIGURES}.")
    if reading.averages and (measure not in _SHARED or len(groups) != 1 or not groups & {*TIMES, "customer"} or not reading.is_per):
        raise CannotRead("The average per what? For example: average order value in 2025, or average revenue per month in 2025.")
    if {"customer", "order"} & groups and reading.top is None and not reading.averages:
        raise CannotRead("There are thousands of those. Do you mean the top few, for example the top 10 customers by revenue?")


def _check_tables(measure: Measure, reading: Reading) -> None:
    """Refuse groups, filters and times of customers or products that only orders have."""
    groups, filtered = set(reading.groups), {one.group for one in reading.filters}
    allowed: set[str] | None = None
    if measure in {"idle", "signups"}:
        allowed = {"country", "city", "segment"} | (set(TIMES) if measure == "signups" else set())
    elif measure in {"products", "average price"}:
        allowed = {"category"}
    elif measure == "price":
        allowed = {"category", "product"}
    refused = sorted((groups | filtered) - allowed) if allowed is not None else []
    if refused or (allowed is not None and reading.periods and measure != "signups"):
        what = SELECTED[measure][2].lower()
        raise CannotRead(
            f"I cannot give {what} by {', '.join([*refused, *(['time'] if reading.periods and measure != 'signups' else [])])}. "
            "Do you mean orders, units sold or customers who ordered?"
        )


def _check_meaning(measure: Measure, reading: Reading) -> None:
    """Ask back where a figure could be meant in two ways."""
    is_unwanted = measure in {"returns", "cancellations"} or any(one.group == "status" for one in reading.filters)
    if reading.judged in {"best", "worst", "strongest", "weakest", "poorest"} and is_unwanted:
        raise CannotRead(f"By '{reading.judged}', do you mean the highest or the lowest figure? Please say which of them.")
    lost = [value for one in reading.filters if one.group == "status" and not one.is_not for value in one.values]
    if measure in {"net", "margin"} and {"cancelled", "returned"} & set(lost):
        raise CannotRead(
            f"{SELECTED[measure][2]} leaves out cancelled and returned orders, so there is none of them. Do you mean their revenue?"
        )
    if measure in _DATES and (reading.top is not None or reading.changes or reading.shares or reading.periods):
        raise CannotRead("I can give the date of the first or the last order, of all or by one grouping. Which of them?")
    if reading.changes and reading.groups and (measure not in PORTIONS or len(reading.groups) > 1 or set(reading.groups) & TIMES):
        raise CannotRead("I can give the change of revenue, orders or units by one grouping, for example: revenue growth by country.")
    mixed = any(one.group == "category" and (len(one.values) > 1 or one.is_not) for one in reading.filters)
    if mixed and measure in {"orders", "buyers"}:
        raise CannotRead(
            "One order can have goods of several categories, so it is not clear which ones to count. "
            "Do you want one category at a time, all by category, or units sold?"
        )


def _check_limit(measure: Measure, reading: Reading, limit: Limit) -> None:
    """Refuse a limit where it is not clear what is compared with it."""
    counted = {"orders": {"revenue", "units"}, "buyers": {"revenue", "units", "orders"}, "customers": {"revenue", "units", "orders"}}
    allowed = {"country", "city", "segment"} | ({*TIMES, "channel", "coupon", "status"} if measure == "orders" else set[str]())
    is_plain = reading.top is None and not (reading.shares or reading.changes or reading.averages)
    of_goods = any(one.group in GOODS for one in reading.filters)
    if limit.measure not in counted.get(measure, ()) or not is_plain or of_goods or set(reading.groups) - allowed:
        raise CannotRead(
            f"What has to be {limit.label} here? "
            "I can count orders and customers by that, for example: orders over 500 euros in 2025; customers with more than 10 orders."
        )


def _check_share(measure: Measure, reading: Reading) -> None:
    """Refuse a share where it is not clear of which whole it is one."""
    if is_portion(reading):
        is_clear = measure in PORTIONS and len(reading.filters) == 1
    else:
        shared = set(reading.groups) & {one.group for one in reading.filters}
        of_time = bool(set(reading.groups) & TIMES and reading.filters)  # "the share of the app by year" is no share of the years
        is_clear = measure in _SHARED and len(reading.groups) == 1 and not shared and not of_time and reading.top is None
    if not is_clear:
        raise CannotRead(
            f"A share of what? I understood: {described(measure, replace(reading, shares=False))}. "
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


def _listing(reading: Reading, notes: tuple[str, ...]) -> Figure:
    """List the values of a dimension, or count them."""
    group = str(reading.listed or reading.counted)
    counts = reading.counted is not None
    is_plain = not reading.groups and reading.top is None and not (reading.shares or reading.changes or reading.averages)
    scope = "".join(f", {filter_label(one)}" for one in reading.filters)
    name = f"Number of {plural(group)}" if counts else plural(group).capitalize()
    period, about = None, ""
    if len(reading.periods) == 1:
        period, note = _within(reading.periods[0], DATA)
        notes, about = (*notes, *note), f", {reading.periods[0].label}"
    of_goods = any(one.group in GOODS for one in reading.filters)
    if not is_plain or len(reading.periods) > 1 or (of_goods and (reading.limit is not None or group == "order")):
        raise CannotRead(f"Which figure would you like{_for(reading)}? I know {FIGURES}.")
    if group == "order" and not counts:
        limit = f" of {reading.limit.label}" if reading.limit is not None else ""
        return Figure(f"{name}{limit}{scope}{about}", orders_query(reading, period), notes)
    if group == "product" and reading.limit is not None and reading.limit.measure == "revenue" and not reading.is_of_sales:
        if period is not None:
            raise CannotRead(
                "Prices are those of today. Do you mean the revenue of products? Then say so: products with revenue over 500 euros."
            )
        return Figure(f"{name}, list price {reading.limit.label}{scope}", prices_query(reading.limit, reading, counts=counts), notes)
    if reading.limit is not None:
        made = limited_query(reading.limit, reading.listed or reading.counted or "order", reading, period, counts=counts)
        return Figure(f"{name} with {reading.limit.label}{scope}{about}", made, notes)
    of_customers = {one.group for one in reading.filters} <= {"country", "city", "segment"}
    if group == "customer" and not counts and period is None and of_customers and not reading.bought:
        notes = (*notes, "Names are personal data, so customers are listed by their numbers.")
        return Figure(f"{name}{scope}", customers_query(reading), notes)
    made = listing_query(group, reading, counts=counts) if period is None else None
    if made is None:
        raise CannotRead(f"Which figure would you like{_for(reading)}? I know {FIGURES}.")
    return Figure(f"{name}{scope}", made, notes)
