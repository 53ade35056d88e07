"""How the offline rules read a question in the light of the one before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from interlock_agents.analyst.periods import Period
from interlock_agents.analyst.reading import Filter, Reading

__all__ = ["ASKING", "continues", "followed_up"]

ASKING = re.compile(r"^(?:who|when|where|why|may|can|is|are|does|do|should|how|was|were|must|am|whose|what)\b", re.IGNORECASE)
"""How a question begins that is one of its own."""

_ALL = re.compile(r"\b(?:in total|overall|altogether|do we have|are there|in all)\b", re.IGNORECASE)
_RATED = frozenset({"returns", "cancellations", "net", "margin"})  # they say themselves which orders count
_PLACES, _GOODS = frozenset({"country", "city"}), frozenset({"category", "product"})


def continues(before: Reading, reading: Reading, part: str) -> bool:
    """Return whether it is said in the light of the question before it: a whole new question is not, unless it says so."""
    if reading.is_unclear or not (reading.narrows or reading.has_figure):
        return False
    if reading.refers:
        return not _ALL.search(part)
    if reading.top is not None and not reading.has_figure and reading.groups and set(reading.groups) <= set(before.groups):
        return not (reading.filters or reading.periods)  # "which month was the best?" after "revenue by month in 2025"
    if reading.compares and not reading.has_figure:
        return True  # "is 2025 better than 2024?"
    if reading.measures and not reading.narrows and not before.has_figure:
        return not ASKING.match(part)  # the figure that was asked back for
    return reading.is_fragment


def followed_up(before: Reading, now: Reading) -> Reading:
    """Read a question in the light of the one before it: what it does not say stays as it was."""
    made = replace(
        before,
        filters=_filters(before, now),
        left=now.left,
        is_tangled=now.is_tangled,
        notes=now.notes,
        meant=now.meant,
        refers=False,
        is_sum=now.is_sum,
        compares=now.compares or now.adds or before.compares,
        limit=now.limit or before.limit,
    )
    if now.periods:
        added = before.periods if now.adds else ()
        made = replace(made, periods=tuple(dict.fromkeys([*added, *(_in_light(before.periods, one) for one in now.periods)])))
    # "only business customers" says whose revenue it is; "how many business customers" is another figure.
    is_label = now.measures == ("customers",) and bool(now.filters) and not now.counts and before.has_figure
    if now.has_figure and not is_label:
        made = replace(made, measures=now.measures, listed=now.listed, counted=now.counted, bought=now.bought, joined=now.joined)
    if now.groups or now.top is not None:
        made = replace(made, groups=now.groups or before.groups, top=now.top, smallest_first=now.smallest_first, judged=now.judged)
        made = replace(made, averages=now.averages, is_per=now.is_per)
    if now.top_of_before is not None:
        top = now.top_of_before or before.top or 1
        made = replace(made, top=top, smallest_first=now.smallest_first, judged=now.judged, top_of_before=None if before.groups else top)
    return replace(made, shares=now.shares or before.shares, changes=now.changes or before.changes)


def _filters(before: Reading, now: Reading) -> tuple[Filter, ...]:
    """Put the filters of two questions together: a value takes the place of one of its kind, or is compared with it."""
    if now.adds:
        same = {one.group: one for one in now.filters if not one.is_not}
        kept = [replace(one, values=tuple(dict.fromkeys([*one.values, *same.pop(one.group).values]))) if one.group in same else one
                for one in before.filters]  # fmt: skip
        return (*kept, *(one for one in now.filters if one.group in same or one.is_not))
    kept = [one for one in before.filters if not any(_replaces(new.group, one.group) for new in now.filters)]
    if _RATED & set(now.measures):
        kept = [one for one in kept if one.group != "status"]
    return (*kept, *now.filters)


def _replaces(new: str, old: str) -> bool:
    return new == old or {new, old} <= _PLACES or {new, old} <= _GOODS


def _in_light(before: Sequence[Period], now: Period) -> Period:
    """Take the year of what came before where a period has none, its months where it is a year, and count from it."""
    earlier = before[0] if len(before) == 1 else None
    if earlier is None:
        return now
    if now.shift is not None:
        return earlier.shifted(*now.shift) or now
    if earlier.year is None:  # "2025" after "in March"
        return earlier.in_year(cast("int", now.year)) if now.is_year and earlier.months is not None else now
    if now.year is None and now.months is not None:
        return now.in_year(earlier.year)
    return earlier.in_year(cast("int", now.year)) if now.is_year and earlier.months is not None else now
