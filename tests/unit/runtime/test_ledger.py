"""The ledger: a call that it holds is never made again, and one that it does not hold is never made up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock.errors import (
    CapabilityError,
    InputError,
    InterlockError,
    MediaBomb,
    ModelTimeout,
    RecordInvalid,
    ReplayDiverged,
    TurnError,
)
from interlock.runtime.ledger import Entry, JournalFailed, Ledger, key_of, recorded_error


def entry(sequence: int, key: str = "k", **changes: Any) -> Entry:
    return replace(Entry(turn="t", sequence=sequence, node="n", capability="C", method="m", key=key, result=sequence), **changes)


def take(ledger: Ledger, key: str = "k") -> Any:
    note = ledger.note("n", "C", "m", key)
    return None if note.known is None else note.known.result


@given(st.permutations(range(1, 8)))
def test_equal_calls_have_their_results_in_the_order_they_were_made(order: list[int]):
    ledger = Ledger("t", entries=[entry(sequence) for sequence in order], complete=True)
    assert [take(ledger) for _ in order] == sorted(order)
    with pytest.raises(JournalFailed, match=r"'C\.m'"):
        take(ledger)
    assert isinstance(ledger.failure, ReplayDiverged)


@given(keys=st.lists(st.sampled_from("abc"), max_size=12), cut=st.integers(min_value=0, max_value=12))
def test_a_part_of_a_ledger_is_gone_on_with_where_it_stops(keys: list[str], cut: int):
    kept: list[Entry] = []

    def go(entries: list[Entry]) -> list[Any]:
        ledger, seen = Ledger("t", entries=entries, keep=kept.append), list[Any]()
        for number, key in enumerate(keys):
            note = ledger.note("n", "C", "m", key)
            if note.known is None:
                note.write(result=number)
            seen.append(note.known.result if note.known else number)
        assert ledger.unused == []
        return seen

    first = go([])
    whole = list(kept)
    kept.clear()
    assert go(whole[:cut]) == first
    assert [*whole[:cut], *kept] == whole


@pytest.mark.parametrize("other", [{"node": "x"}, {"capability": "x"}, {"method": "x"}, {"key": "x"}])
def test_a_call_of_something_else_is_not_answered_from_the_ledger(other: dict[str, str]):
    ledger = Ledger("t", entries=[entry(1)], complete=True)
    with pytest.raises(JournalFailed) as raised:
        ledger.note(**{"node": "n", "capability": "C", "method": "m", "key": "k", **other})
    assert raised.value.reason.code == "replay_diverged"
    with pytest.raises(JournalFailed):
        ledger.note("n", "C", "m", "k")
    assert ledger.unused == [entry(1)]


async def test_a_call_does_not_wait_for_ever_for_one_that_is_not_made_again():
    ledger = Ledger("t", entries=[entry(1, "a"), entry(2, "b")])
    later = ledger.note("n", "C", "m", "b")
    async with asyncio.timeout(20):
        await later.come()
    assert (later.known, ledger.unused) == (entry(2, "b"), [entry(1, "a")])


def test_what_is_known_is_not_written_again():
    kept: list[Entry] = []
    ledger = Ledger("t", entries=[entry(1)], keep=kept.append)
    assert take(ledger) == 1
    assert kept == []


def classes(kind: type[InterlockError]) -> list[type[InterlockError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in classes(child))]


@pytest.mark.parametrize("kind", [kind for kind in (*classes(TurnError), *classes(InputError)) if kind.__module__ == "interlock.errors"])
def test_every_error_of_ours_comes_back_as_it_was(kind: type[InterlockError]):
    back = recorded_error({"code": kind.code, "message": "It says so."})
    assert (type(back), back.code, back.message, back.transient) == (kind, kind.code, "It says so.", kind.transient)


def test_an_error_of_an_unknown_code_is_refused():
    with pytest.raises(RecordInvalid, match="unheard_of"):
        recorded_error({"code": "unheard_of", "message": ""})


class Quota(CapabilityError):
    """An adapter's own error, which takes more than a message."""

    code = "test_ledger_quota"

    def __init__(self, message: str, left: int) -> None:
        super().__init__(message)
        self.left = left


class Picky(ModelTimeout):
    code = "test_ledger_picky"


def test_an_adapters_own_error_comes_back_by_its_code():
    assert type(recorded_error({"code": "test_ledger_picky", "message": "x"})) is Picky
    assert issubclass(MediaBomb, CapabilityError)


def test_an_adapters_own_error_that_cannot_be_made_from_a_message_is_still_a_typed_one():
    back = recorded_error({"code": "test_ledger_quota", "message": "used up"})
    assert isinstance(back, CapabilityError)
    assert (back.code, back.message) == ("test_ledger_quota", "used up")


# Keys


@dataclass(frozen=True)
class Point:
    x: int
    y: float


class Shape(BaseModel):
    name: str
    points: list[Point]


ARGUMENTS: list[Any] = [
    None,
    True,
    0,
    1.5,
    "",
    "text",
    "\ud800",
    b"",
    b"\xff",
    [],
    [1, [2]],
    {},
    {"b": 1, "a": [None]},
    (1, 2),
    Point(1, 2.0),
    Shape(name="s", points=[Point(1, 2.0)]),
    datetime(2026, 1, 1, tzinfo=UTC),
    Decimal("1.50"),
    UUID(int=7),
    float("inf"),
    float("nan"),
    10**30,
    Shape,
    int,
    {1: "a", 2: "b"},
    frozenset({"x"}),
]


@pytest.mark.parametrize("argument", ARGUMENTS, ids=repr)
def test_every_argument_has_a_key_which_tells_nothing(argument: Any):
    key = key_of((argument,), {"by_name": argument})
    assert key == key_of((argument,), {"by_name": argument})
    assert len(key) == 64
    assert set(key) <= set("0123456789abcdef")


def test_a_key_is_what_it_was_when_the_turn_was_written_down():
    first = key_of((ARGUMENTS,), {"by_name": Shape(name="s", points=[Point(1, 2.0)])})
    assert first == "61f6154bca15b98255ed2e7deeab180b15acecea18f33db4c69ab154a61cc5dd"
    assert first == key_of((ARGUMENTS,), {"by_name": Shape(name="s", points=[Point(1, 2.0)])}), "also for classes that were seen before"


@given(st.lists(st.integers(min_value=0, max_value=5).map(lambda number: number * 8), min_size=2, unique=True), st.randoms())
def test_a_set_has_the_same_key_whatever_its_order(numbers: list[int], random: Any):
    shuffled = list(numbers)
    random.shuffle(shuffled)
    first, second = set[int](), set[int]()
    for number in numbers:
        first.add(number)
    for number in shuffled:
        second.add(number)
    assert first == second
    assert key_of((first,), {}) == key_of((second,), {})


@given(st.dictionaries(st.text(max_size=3), st.integers(), min_size=2))
def test_a_mapping_has_the_same_key_whatever_its_order(mapping: dict[str, int]):
    turned = dict(reversed(mapping.items()))
    assert key_of((mapping,), mapping) == key_of((turned,), turned)


class Pair(NamedTuple):
    first: int
    second: str


@dataclass(slots=True)
class Tight:
    first: int
    second: str


ALIKE: list[tuple[Any, Any]] = [
    (MappingProxyType({"a": 1}), {"a": 1}),
    (Pair(1, "b"), [1, "b"]),
    (Tight(1, "b"), {"second": "b", "first": 1}),
]


@pytest.mark.parametrize(("one", "other"), ALIKE, ids=repr)
def test_arguments_that_hold_the_same_have_the_same_key(one: Any, other: Any):
    assert key_of((one,), {}) == key_of((other,), {})


DIFFERENT: list[tuple[Any, Any]] = [
    (1, 2),
    ("1", 1),
    (True, 1),
    (None, "None"),
    ([1, 2], [2, 1]),
    ("", None),
    (1, 1.5),
    (Point(1, 2.0), Point(2, 2.0)),
    ({"a": 1}, {"a": 2}),
    (Shape, Point),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=repr)
def test_different_arguments_have_different_keys(one: Any, other: Any):
    assert key_of((one,), {}) != key_of((other,), {})
