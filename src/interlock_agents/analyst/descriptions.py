"""Describes a parsed question in words."""

from __future__ import annotations

from interlock_agents.analyst.lexicon import Measure
from interlock_agents.analyst.queries import SELECTED
from interlock_agents.analyst.reading import Filter, Reading

__all__ = ["described", "filter_label", "understood"]


def described(measure: Measure, reading: Reading) -> str:
    """Return a title for a query that mentions everything that was understood."""
    first = SELECTED[measure][2]
    if reading.averages:
        parts = [f"{first}, average per {' and '.join(reading.groups)}"]
    else:
        shares = " and share of the total" if reading.shares else ""
        change = ", change" if reading.changes and reading.groups else ""
        limit = f" with {reading.limit.label}" if reading.limit is not None else ""
        grouped = " and ".join(reading.groups)
        parts = [f"{first}{limit}{change}{shares}{f' by {grouped}' if grouped else ''}"]
    if reading.top is not None:
        parts.append(f"{'lowest' if reading.smallest_first else 'highest'}{f' {reading.top}' if reading.top > 1 else ''}")
    parts += [filter_label(one) for one in reading.filters]
    parts += [" and ".join(one.label for one in reading.periods)] if reading.periods else []
    return ", ".join(parts)


def filter_label(one: Filter) -> str:
    """Describe which values a filter keeps."""
    if one.values in {("*",), ("",)}:
        return "with a coupon" if (one.values == ("*",)) != one.is_not else "without a coupon"
    return f"{'not ' if one.is_not else ''}{' and '.join(one.values)}"


def understood(reading: Reading) -> list[str]:
    """List everything that was understood of a question."""
    return [
        *(SELECTED[one][2].lower() for one in reading.measures),
        *(f"by {one}" for one in reading.groups),
        *map(filter_label, reading.filters),
        *(one.label for one in reading.periods),
        *([reading.limit.label] if reading.limit is not None else []),
    ]
