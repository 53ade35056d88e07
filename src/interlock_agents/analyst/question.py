"""A parsed question about the demo warehouse, and its description in words."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock_agents.analyst.periods import Period
from interlock_agents.analyst.vocabulary import MEASURES, PHRASES

__all__ = ["Filter", "Question"]


@dataclass(frozen=True)
class Filter:
    """Values of a grouping to keep, or to leave out. Of coupons '*' means any, and '' means without one."""

    group: str
    values: tuple[str, ...]
    is_not: bool = False

    @property
    def label(self) -> str:
        if self.values in {("*",), ("",)}:
            return "with a coupon" if (self.values == ("*",)) != self.is_not else "without a coupon"
        return f"{'not ' if self.is_not else ''}{' and '.join(self.values)}"


@dataclass(frozen=True)
class Question:
    """What is asked of the warehouse, the words that were not understood, and notes for the answer."""

    measures: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    periods: tuple[Period, ...] = ()
    top: int | None = None
    smallest_first: bool = False
    judged: str = ""
    """The word that ranks, such as 'best'."""
    listed: str | None = None
    """The grouping whose values are requested: 'which countries'."""
    counted: str | None = None
    """The grouping whose values are counted: 'how many countries'."""
    shares: bool = False
    changes: bool = False
    averages: bool = False
    compares: bool = False
    is_sum: bool = False
    """Whether several values or periods are added up."""
    adds: bool = False
    """Whether it is compared with the previous question."""
    top_of_previous: int | None = None
    """How many rows of the previous ranking to show from its other end; 0 for as many as before."""
    bought: bool = False
    joined: bool = False
    counts: bool = False
    """Whether it asks how many or how much."""
    refers: bool = False
    """Whether it refers to the previous question: 'and', 'those'."""
    unknown: tuple[str, ...] = ()
    is_tangled: bool = False
    """Whether all words are known, but not in this order."""
    is_fragment: bool = False
    """Whether it only adds to the previous question."""
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def is_unclear(self) -> bool:
        return bool(self.unknown) or self.is_tangled

    @property
    def has_figure(self) -> bool:
        return bool(self.measures or self.listed or self.counted)

    @property
    def is_whole(self) -> bool:
        """Whether it can stand alone: "in Berlin?" cannot, "who is our best customer" can without a figure."""
        goods = self.bought and any(one.group == "category" for one in self.filters)
        return self.has_figure or goods or (self.top is not None and bool(self.groups))

    @property
    def narrows(self) -> bool:
        """Whether it has anything beside the figure."""
        found = self.groups or self.filters or self.periods or self.shares or self.changes
        return bool(found) or self.top is not None or self.top_of_previous is not None

    @property
    def ranks_nothing(self) -> bool:
        """Whether a word such as 'most' was not understood. The question then asks for a figure, not for a document."""
        return any(words in PHRASES and PHRASES[words].kind.startswith("top") for words in map(tuple, map(str.split, self.unknown)))

    @property
    def is_portion(self) -> bool:
        """Whether the filters select a part of a whole: "what percentage of orders came from the web"."""
        return self.shares and not self.groups and self.top is None and bool(self.filters)

    def filters_by(self, *groups: str) -> bool:
        return any(one.group in groups for one in self.filters)

    def title(self, measure: str) -> str:
        """Return a title for a query that mentions everything that was understood."""
        grouped = f" by {' and '.join(self.groups)}" if self.groups else ""
        parts = [f"{MEASURES[measure].label}{' and share of the total' if self.shares else ''}{grouped}"]
        if self.top is not None:
            parts.append(f"{'lowest' if self.smallest_first else 'highest'}{f' {self.top}' if self.top > 1 else ''}")
        parts += [one.label for one in self.filters]
        parts += [" and ".join(one.label for one in self.periods)] if self.periods else []
        return ", ".join(parts)

    def understood(self) -> list[str]:
        """List everything that was understood."""
        return [
            *(MEASURES[one].label.lower() for one in self.measures),
            *(f"by {one}" for one in self.groups),
            *(one.label for one in self.filters),
            *(one.label for one in self.periods),
        ]
