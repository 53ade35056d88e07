"""How the offline rules read a question in the light of the one before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from interlock.agents.analyst.periods import Period
from interlock.agents.analyst.reading import Reading

__all__ = ["ASKING", "continues", "followed_up"]

ASKING = re.compile(r"^(?:who|when|where|why|may|can|is|are|does|do|should|how|was|were|must|am|whose|what)\b", re.IGNORECASE)
"""How a question begins that is one of its own."""

_ALL = re.compile(r"\b(?:in total|overall|altogether|do we have|are there|in all)\b", re.IGNORECASE)
_PLACES, _GOODS = frozenset({"country", "city"}), frozenset({"category", "product"})


def continues(before: Reading, reading: Reading, part: str) -> bool:
    """Tell whether it is said in the light of the question before it: a whole new question is not, unless it says so."""
    if reading.is_unclear or not (reading.narrows or reading.has_figure):
        return False
    if reading.refers:
        return not _ALL.search(part)
    if reading.measures and not reading.narrows and not before.has_figure:
        return not ASKING.match(part)  # the figure that was asked back for
    return reading.is_fragment


def followed_up(before: Reading, now: Reading) -> Reading:
    """Read a question in the light of the one before it: what it does not say stays as it was."""
    kept = [one for one in before.filters if not any(_replaces(new.group, one.group) for new in now.filters)]
    made = replace(
        before, filters=(*kept, *now.filters), left=now.left, is_tangled=now.is_tangled, notes=now.notes, meant=now.meant, refers=False
    )
    if now.periods:
        made = replace(made, periods=tuple(_in_light(before.periods, one) for one in now.periods))
    if now.has_figure:
        made = replace(made, measures=now.measures, listed=now.listed, counted=now.counted, bought=now.bought, joined=now.joined)
    if now.groups or now.top is not None:
        made = replace(made, groups=now.groups or before.groups, top=now.top, smallest_first=now.smallest_first, judged=now.judged)
    return replace(made, shares=now.shares or before.shares, changes=now.changes or before.changes)


def _replaces(new: str, old: str) -> bool:
    return new == old or {new, old} <= _PLACES or {new, old} <= _GOODS


def _in_light(before: Sequence[Period], now: Period) -> Period:
    """Take the year of what came before where a period has none, and its months where it is a year."""
    earlier = before[0] if len(before) == 1 else None
    if earlier is None or earlier.year is None:
        return now
    if now.year is None and now.months is not None:
        return now.in_year(earlier.year)
    return earlier.in_year(cast("int", now.year)) if now.is_year and earlier.months is not None else now
