"""Follow-up questions: which question continues the previous one, and what it takes over from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from interlock_agents.analyst.periods import Period
from interlock_agents.analyst.question import Filter, Question

__all__ = ["INTERROGATIVE", "continues", "merged"]

INTERROGATIVE = re.compile(r"^(?:who|when|where|why|may|can|is|are|does|do|should|how|was|were|must|am|whose|what)\b", re.IGNORECASE)
"""The first word of a question that stands alone."""

_ALL = re.compile(r"\b(?:in total|overall|altogether|do we have|are there|in all)\b", re.IGNORECASE)
# Measures that define themselves which orders count.
_RATED = frozenset({"returns", "cancellations", "net", "margin"})
_PLACES, _GOODS = frozenset({"country", "city"}), frozenset({"category", "product"})


def continues(previous: Question, question: Question, text: str) -> bool:
    """Return whether a question continues the previous one. A whole question does not, unless it says so."""
    if question.is_unclear or not (question.narrows or question.has_figure):
        return False
    if question.refers:
        return not _ALL.search(text)
    if question.top is not None and not question.has_figure and question.groups and set(question.groups) <= set(previous.groups):
        return not (question.filters or question.periods)  # "which month was the best?" after "revenue by month in 2025"
    if question.compares and not question.has_figure:
        return True  # "is 2025 better than 2024?"
    if question.measures and not question.narrows and not previous.has_figure:
        return not INTERROGATIVE.match(text)  # the answer to "Which figure would you like?"
    return question.is_fragment


def merged(previous: Question, now: Question) -> Question:
    """Complete a follow-up question from the previous question."""
    made = replace(
        previous,
        filters=_filters(previous, now),
        unknown=now.unknown,
        is_tangled=now.is_tangled,
        notes=now.notes,
        refers=False,
        is_sum=now.is_sum,
        compares=now.compares or now.adds or previous.compares,
        shares=now.shares or previous.shares,
        changes=now.changes or previous.changes,
    )
    if now.periods:
        added = previous.periods if now.adds else ()
        made = replace(made, periods=tuple(dict.fromkeys([*added, *(_completed(previous.periods, one) for one in now.periods)])))
    # "only business customers" narrows the figure; "how many business customers" is another figure.
    is_filter = now.measures == ("customers",) and bool(now.filters) and not now.counts and previous.has_figure
    if now.has_figure and not is_filter:
        made = replace(made, measures=now.measures, listed=now.listed, counted=now.counted, bought=now.bought, joined=now.joined)
    if now.groups or now.top is not None:
        made = replace(made, groups=now.groups or previous.groups, top=now.top, averages=now.averages)
    if now.top_of_previous is not None:
        top = now.top_of_previous or previous.top or 1
        made = replace(made, top=top, top_of_previous=None if previous.groups else top)
    if now.groups or now.top is not None or now.top_of_previous is not None:
        made = replace(made, smallest_first=now.smallest_first, judged=now.judged)
    return made


def _filters(previous: Question, now: Question) -> tuple[Filter, ...]:
    """Combine the filters of two questions: a value replaces one of its kind, or is compared with it."""
    if now.adds:
        new = {one.group: one.values for one in now.filters if not one.is_not}
        kept = [replace(one, values=tuple(dict.fromkeys([*one.values, *new.pop(one.group, ())]))) for one in previous.filters]
        return (*kept, *(one for one in now.filters if one.group in new or one.is_not))
    groups = {one.group for one in now.filters}
    groups |= {"status"} if _RATED & set(now.measures) else set()
    replaced = groups.union(*(kind for kind in (_PLACES, _GOODS) if kind & groups))
    return (*(one for one in previous.filters if one.group not in replaced), *now.filters)


def _completed(previous: Sequence[Period], now: Period) -> Period:
    """Complete a period: take over the year if it has none, the months if it is a year, or shift the previous period."""
    if len(previous) != 1:
        return now
    [earlier] = previous
    if now.shift is not None:
        return earlier.shifted(*now.shift) or now
    if now.is_year and now.year is not None and earlier.months is not None:
        return earlier.in_year(now.year)  # "2025" after "in March"
    return now.in_year(earlier.year) if now.year is None and now.months is not None and earlier.year is not None else now
