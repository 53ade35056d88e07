"""The queries for a parsed question, each with a title. A question that could mean another figure is not answered."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from interlock_agents.analyst.periods import Period
from interlock_agents.analyst.question import Filter, Question
from interlock_agents.analyst.sql import (
    CUSTOMER_GROUPS,
    GOODS,
    figure_query,
    value_query,
)
from interlock_agents.analyst.vocabulary import FIGURES, GROUPS, MEASURES, ORDER_DATES, SIGNUP_DATES, TIMES

__all__ = ["CannotAnswer", "Figure", "Unclear", "figures"]


class CannotAnswer(Exception):
    """The message asks back, or says what the warehouse does not have."""


class Unclear(CannotAnswer):
    """A question has unknown words or an unknown order of words."""

    def __init__(self, question: Question) -> None:
        super().__init__("I did not understand this question.")
        self.question = question


@dataclass(frozen=True)
class Figure:
    """A query with its title, and notes to show before its result."""

    title: str
    sql: str
    notes: tuple[str, ...] = ()
    changes: bool = False


_OF_ORDERS = frozenset({*TIMES, "weekday", "status", "channel", "coupon", "order", "customer"})
_ENTITIES = {"orders": "order", "buyers": "customer", "customers": "customer", "products": "product"}
_BY_ORDERS = frozenset({"busiest", "slowest", "quietest"})
_RATES = {Filter("status", ("returned",)): "returns", Filter("status", ("cancelled",)): "cancellations"}


def figures(question: Question) -> list[Figure]:
    """Build the queries of a question. Raise CannotAnswer instead of answering with another figure."""
    if question.is_unclear:
        raise Unclear(question)
    if question.top_of_previous is not None:
        end = "lowest" if question.smallest_first else "highest"
        raise CannotAnswer(f"The {question.judged} of what? For example: which country has the {end} revenue?")
    question, notes = _with_years(question)
    if question.listed is not None or question.counted is not None:
        return [_listing(question, notes)]
    measures, assumed = _measures(question)
    made: list[Figure] = []
    for measure in measures:
        parts = _separate(_as_rate(replace(question, measures=(_meant(measure, question),))))
        made += [_figure(one, (*notes, *assumed, *_counting_notes(measure, one))) for one in parts]
    return made


def _measures(question: Question) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the requested measures. If none is named but it is clear what to do with it, it is revenue, with a note."""
    if question.measures:
        return question.measures, ()
    if question.judged in _BY_ORDERS and question.groups:
        return ("orders",), (f"By '{question.judged}' I mean the number of orders.",)
    if question.bought and question.filters_by("category"):
        return ("units",), ()
    if question.filters_by("status") and question.top is not None:
        return ("orders",), ()
    is_done = (question.top is not None and question.groups) or question.compares or (question.shares and question.groups)
    if is_done or (question.bought and question.filters):
        return ("revenue",), ("You did not say by which figure: this is by revenue.",)
    raise _which_figure(question)


def _which_figure(question: Question) -> CannotAnswer:
    known = ", ".join(replace(question, measures=()).understood())
    return CannotAnswer(f"Which figure would you like{f' for: {known}' if known else ''}? I know {FIGURES}.")


def _meant(measure: str, question: Question) -> str:
    """Distinguish customers who ordered from customers who signed up, and products sold from products in the catalogue."""
    by_orders = bool(question.periods) or not {one.group for one in question.filters} <= CUSTOMER_GROUPS
    by_orders = by_orders or bool(set(question.groups) & (_OF_ORDERS | GOODS))
    if measure == "customers" and question.joined:
        return "signups"
    if measure == "customers" and (question.bought or by_orders):
        return "buyers"
    if measure == "variety" and not (question.bought or by_orders):
        return "products"
    return "units" if measure == "products" and question.bought else measure


def _as_rate(question: Question) -> Question:
    """Answer the share of returned or cancelled orders with the rate that the handbook defines."""
    if question.is_portion and question.measures == ("orders",) and len(question.filters) == 1 and question.filters[0] in _RATES:
        return replace(question, measures=(_RATES[question.filters[0]],), filters=(), shares=False)
    return question


def _counting_notes(asked: str, question: Question) -> Iterator[str]:
    """Yield notes about what a figure counts, if the question could mean something else."""
    [measure] = question.measures
    stated = {value for one in question.filters if one.group == "status" and not one.is_not for value in one.values}
    if asked == "customers" and measure == "buyers" and not question.bought:
        yield "I count customers who placed an order in that time or of that kind."
    if measure == "buyers" and any(one.is_not or one.values == ("",) for one in question.filters if one.group in _OF_ORDERS):
        yield "A customer with one such order counts, whatever the customer's other orders are."
    if asked == "products" and measure == "units":
        yield "I count the units that were sold, not how many different products."
    if measure == "average" and {*question.groups, *(one.group for one in question.filters)} & GOODS:
        yield "Only the goods of that kind count, not what else is in the same order."
    if "shipped" in stated:
        yield "'shipped' is the status of orders that are on their way: those that were delivered since are not in it."
    if stated - {"processing"} and question.periods:
        yield "The time is that of the order, not that of its delivery, return or cancellation."


def _with_years(question: Question) -> tuple[Question, tuple[str, ...]]:
    """Use months and quarters without a year in all years with orders, and find the two periods of a change."""
    years = range(ORDER_DATES[0].year, ORDER_DATES[1].year)
    periods: list[Period] = []
    notes = question.notes
    for one in question.periods:
        if one.start is None and one.months is None:
            raise CannotAnswer(f"I do not know which time '{one.label}' is counted from. Which one do you mean? For example: in 2024.")
        periods += [one.in_year(year) for year in years] if one.start is None else [one]
    if question.changes:
        periods = [end for one in periods for end in one.ends or (one,)]
        if len(periods) == 1 and (earlier := periods[0].year_before()) is not None:
            periods = [earlier, *periods]
        if not periods:
            periods = [Period.of_year(year) for year in years]
            notes = (*notes, "You did not say between which periods: these are the years that the warehouse has orders of.")
        if len(periods) != 2:  # noqa: PLR2004 - a change has two ends
            raise CannotAnswer("Between which two periods? For example: revenue growth from 2024 to 2025.")
        periods.sort(key=lambda one: one.start or dt.date.min)
    elif set(question.groups) & TIMES and (whole := _contiguous(periods)) is not None:
        periods = [whole]
    return replace(question, periods=tuple(periods)), notes


def _contiguous(periods: Sequence[Period]) -> Period | None:
    """Join periods that follow one another."""
    ordered = sorted(periods, key=lambda one: one.start or dt.date.min)
    if len(ordered) < 2 or any(one.end != after.start for one, after in pairwise(ordered)):  # noqa: PLR2004 - one is not joined
        return None
    return Period(f"{ordered[0].label} to {ordered[-1].label}", ordered[0].start, ordered[-1].end)


def _separate(question: Question) -> list[Question]:
    """Group by a filter with several values, and use one query for each period if there are groups."""
    if question.is_portion:
        return [question]
    several = [one.group for one in question.filters if len(one.values) > 1 and not one.is_not and not question.is_sum]
    question = replace(question, groups=tuple(dict.fromkeys([*question.groups, *several])))
    if question.top is not None and len(question.groups) > 1:
        raise CannotAnswer(f"I can rank one grouping at a time. Which one shall it be: {', '.join(question.groups)}?")
    if question.is_sum and len(question.periods) > 1:
        whole = _contiguous(question.periods)
        if whole is None:
            raise CannotAnswer("I can count periods together only if they follow one another. Which ones do you mean?")
        question = replace(question, periods=(whole,))
    if len(question.periods) > 1 and question.groups and not question.changes:
        return [replace(question, periods=(one,)) for one in question.periods]
    return [question]


def _figure(question: Question, notes: tuple[str, ...]) -> Figure:
    [measure] = question.measures
    if question.averages and MEASURES[measure].kind == "mean":
        question = replace(question, averages=False)
    for objection in (*_ambiguities(measure, question), *_missing(measure, question)):
        raise CannotAnswer(objection)
    inside = [_available(one, SIGNUP_DATES if measure == "signups" else ORDER_DATES) for one in question.periods]
    periods = [one for one, _ in inside]
    title, notes = question.title(measure), tuple(dict.fromkeys([*notes, *(note for _, note in inside if note)]))
    sql = " UNION ALL ".join(figure_query(measure, question, one, labelled=len(periods) > 1) for one in periods or [None])
    return Figure(title, f"{sql} ORDER BY 1" if len(periods) > 1 else sql, notes, question.changes)


def _ambiguities(name: str, question: Question) -> Iterator[str]:
    """Yield questions back if the figure could mean several things."""
    measure, judged = MEASURES[name], question.judged
    lost = {value for one in question.filters if one.group == "status" and not one.is_not for value in one.values}
    if judged in {"best", "worst", "strongest", "weakest", "poorest"} and (
        name in {"returns", "cancellations"} or question.filters_by("status")
    ):
        yield f"By '{judged}', do you mean the highest or the lowest figure? Please say which of them."
    if name in {"net", "margin"} and {"cancelled", "returned"} & lost:
        yield f"{measure.label} leaves out cancelled and returned orders, so it has no figure for them. Do you mean their revenue?"
    if measure.kind == "date" and (question.top is not None or question.changes or question.shares or question.periods):
        yield "I can give the date of the first or the last order, of all or by one grouping. Which of them?"
    if question.changes and question.groups:
        yield "I can give a change between two periods only in total. Do you want the figure by group for each of them?"
    if name in {"orders", "buyers"} and any(one.group == "category" and (len(one.values) > 1 or one.is_not) for one in question.filters):
        yield (
            "One order can have goods of several categories, so it is not clear which ones to count. "
            "Do you want one category at a time, all by category, or units sold?"
        )


def _missing(name: str, question: Question) -> Iterator[str]:
    """Yield the reasons why the tables have no such figure."""
    measure, groups = MEASURES[name], set(question.groups)
    refused = sorted((groups | {one.group for one in question.filters}) - (measure.by if measure.by is not None else GROUPS.keys()))
    refused += ["time"] if measure.by is not None and question.periods and name != "signups" else []
    if refused:
        yield (f"I cannot give {measure.label.lower()} by {', '.join(refused)}. Do you mean orders, units sold or customers who ordered?")
    if name == "price" and "product" not in groups:
        yield "Of which products? Ask for the most expensive or the cheapest ones, or for the price by product."
    if question.shares and not _is_clear_share(name, question):
        yield (
            f"A share of what? I understood: {replace(question, shares=False).title(name)}. "
            "I can give the share of each group, or of one: share of revenue by country in 2025, or percentage of orders from the web."
        )
    if question.groups == (_ENTITIES.get(name),):
        yield f"That would be one for each {question.groups[0]}. By which figure? I know {FIGURES}."
    if question.averages:
        yield "I know the average order value, units per order and the average list price, but no average of this. Which do you want?"
    if {"customer", "order"} & groups and question.top is None:
        yield "There are thousands of those. Do you mean the top few, for example the top 10 customers by revenue?"


def _is_clear_share(name: str, question: Question) -> bool:
    """Return whether it is clear what whole a share is taken of."""
    if question.is_portion:
        return bool(MEASURES[name].of) and len(question.filters) == 1
    groups = set(question.groups)
    of_time = bool(groups & TIMES and question.filters)  # "the share of the app by year" is not a share of the years
    return MEASURES[name].kind == "sum" and len(groups) == 1 and not question.filters_by(*groups) and not of_time and question.top is None


def _available(period: Period, data: tuple[dt.date, dt.date]) -> tuple[Period, str]:
    """Restrict a period to the days with data, and return a note if it is longer."""
    start, end = period.start or data[0], period.end or data[1]
    first, last = (f"{day.day} {day:%B %Y}" for day in (data[0], data[1] - dt.timedelta(days=1)))
    known = f"The warehouse has {'customers who signed up' if data is SIGNUP_DATES else 'orders'} from {first} to {last} only"
    if start >= data[1] or end <= data[0]:
        raise CannotAnswer(f"{known}, so there is nothing for {period.label}.")
    inside = replace(period, start=max(start, data[0]), end=min(end, data[1]))
    is_inside = (inside.start, inside.end) == (start, end) or start == dt.date.min or end == dt.date.max
    return inside, "" if is_inside else f"{known}: {period.label} is counted as far as it lies in that time."


def _listing(question: Question, notes: tuple[str, ...]) -> Figure:
    """List or count the values of a grouping."""
    group, counts = str(question.listed or question.counted), question.counted is not None
    is_plain = not (question.groups or question.periods or question.shares or question.changes or question.averages)
    if group in {"order", "customer"}:
        raise CannotAnswer(f"I do not list single {GROUPS[group].plural}. Do you want their number, or the top few by a figure?")
    made = value_query(group, question, counts=counts) if is_plain and question.top is None else None
    if made is None:
        raise _which_figure(question)
    name = f"Number of {GROUPS[group].plural}" if counts else GROUPS[group].plural.capitalize()
    return Figure(f"{name}{''.join(f', {one.label}' for one in question.filters)}", made, notes)
