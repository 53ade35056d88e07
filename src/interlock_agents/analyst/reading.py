"""What the offline rules have read in a question about the demo warehouse."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock_agents.analyst.lexicon import PHRASES, Group, Measure
from interlock_agents.analyst.limits import Limit
from interlock_agents.analyst.periods import Period

__all__ = ["Filter", "Reading"]


@dataclass(frozen=True)
class Filter:
    """Values that a dimension has, or has not. Of a coupon '*' is any, and '' is none."""

    group: str
    values: tuple[str, ...]
    is_not: bool = False


@dataclass(frozen=True)
class Reading:
    """What is asked of the warehouse, the words that were not understood, and what has to be said before the figure."""

    measures: tuple[Measure, ...] = ()
    groups: tuple[Group, ...] = ()
    filters: tuple[Filter, ...] = ()
    periods: tuple[Period, ...] = ()
    top: int | None = None
    smallest_first: bool = False
    judged: str = ""
    """The word, such as 'best', that ranks without saying by which figure."""
    listed: Group | None = None
    counted: Group | None = None
    shares: bool = False
    changes: bool = False
    is_sum: bool = False
    """Whether several values or periods are to be counted together."""
    limit: Limit | None = None
    is_of_sales: bool = False
    """Whether the limit is one of what was sold, and not of a price."""
    averages: bool = False
    is_per: bool = False
    """Whether the grouping is said by 'per' or 'each', which can mean an average."""
    compares: bool = False
    adds: bool = False
    """Whether it is to be compared with what the question before it asked for."""
    top_of_before: int | None = None
    """How many rows of the ranking before it are to be shown from its other end; 0 for as many as before."""
    bought: bool = False
    joined: bool = False
    counts: bool = False
    """Whether it asks how many or how much."""
    refers: bool = False
    left: tuple[str, ...] = ()
    is_tangled: bool = False
    """Whether all words are known, but not what they mean in this order."""
    is_fragment: bool = False
    """Whether it only adds to the question before it."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    meant: tuple[str, ...] = field(default=(), compare=False)
    """Names that a word that is not known looks like."""

    @property
    def is_unclear(self) -> bool:
        return bool(self.left) or self.is_tangled

    @property
    def has_figure(self) -> bool:
        return bool(self.measures or self.listed or self.counted)

    @property
    def is_whole(self) -> bool:
        """Whether it is a question of its own: "in Berlin?" is none, "who is our best customer" is one without a figure."""
        goods = self.bought and any(one.group == "category" for one in self.filters)
        return self.has_figure or goods or (self.top is not None and bool(self.groups))

    @property
    def ranks_nothing(self) -> bool:
        """Whether a word such as 'most' is left over: it asks for a figure, be the rest understood or not."""
        return any(PHRASES.get(tuple(words.split()), ("",))[0].startswith("top") for words in self.left)

    @property
    def narrows(self) -> bool:
        """Whether it says anything beside the figure."""
        said = self.groups or self.filters or self.periods or self.limit or self.shares or self.changes
        return bool(said) or self.top is not None or self.top_of_before is not None
