from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

import pytest

from interlock import Outcome


class Sorted(Outcome):
    kind: Literal["bug", "wish"]
    log: list[str] = field(default_factory=list[str])
    size: int = 0


class Ranked(Sorted):
    rank: int


class Unclear(Outcome):
    pass


class Checked(Outcome):
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("a size is never negative")


def test_an_outcome_is_made_of_its_fields_and_their_defaults():
    outcome = Sorted(kind="bug", size=1)
    assert (outcome.kind, outcome.log, outcome.size) == ("bug", [], 1)
    assert outcome == Sorted(kind="bug", log=[], size=1)
    assert outcome != Sorted(kind="wish", size=1)
    assert "kind='bug'" in repr(outcome)


def test_a_mutable_default_is_created_for_every_outcome():
    first = Sorted(kind="bug")
    first.log.append("spoilt")
    assert Sorted(kind="bug").log == []


def test_an_outcome_that_inherits_has_the_fields_of_both():
    outcome = Ranked(kind="wish", rank=3)
    assert (outcome.kind, outcome.log, outcome.size, outcome.rank) == ("wish", [], 0, 3)


def test_two_outcomes_with_the_same_fields_are_not_the_same():
    assert Sorted(kind="bug") != Ranked(kind="bug", rank=0)
    assert Unclear() == Unclear()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [((), {}), ((), {"size": 1}), ((), {"kind": "bug", "colour": "red"}), (("bug",), {}), (("bug",), {"kind": "bug"})],
)
def test_an_outcome_is_made_of_exactly_its_fields_by_name(arguments: tuple[Any, ...], options: dict[str, Any]):
    make: Any = Sorted
    with pytest.raises(TypeError):
        make(*arguments, **options)


def test_an_outcome_checks_itself_when_it_is_made():
    assert Checked(size=0).size == 0
    with pytest.raises(ValueError, match="never negative"):
        Checked(size=-1)
