"""The journal: a call that it holds is never made again, and one that it does not hold is never made up."""

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
    Fenced,
    InputError,
    InterlockError,
    JournalFailed,
    MediaBomb,
    ModelTimeout,
    RecordInvalid,
    ReplayDiverged,
    TurnError,
)
from interlock.runtime.journal import Entry, Journal, key_of, recorded_error
from interlock.runtime.recording import MemoryJournal, StoredJournal
from interlock.server.request_errors import RequestError


def entry(sequence: int, key: str = "k", **changes: Any) -> Entry:
    return replace(Entry(turn="t", sequence=sequence, node="n", capability="C", method="m", key=key, result=sequence), **changes)


def take(journal: Journal, key: str = "k") -> Any:
    slot = journal.slot(1, "n", "C", "m", key)
    return None if slot.known is None else slot.known.result


async def stored() -> MemoryJournal:
    store = MemoryJournal()
    await store.claim("t", 0)
    return store


@given(st.permutations(range(1, 8)))
def test_equal_calls_have_their_results_in_the_order_they_were_made(order: list[int]):
    journal = Journal("t", entries=[entry(sequence) for sequence in order], complete=True)
    assert [take(journal) for _ in order] == sorted(order)
    with pytest.raises(JournalFailed, match=r"'C\.m'"):
        take(journal)
    assert isinstance(journal.failure, ReplayDiverged)


@given(keys=st.lists(st.sampled_from("abc"), max_size=12), cut=st.integers(min_value=0, max_value=12))
async def test_a_part_of_a_journal_is_resumed_where_it_ends(keys: list[str], cut: int):
    async def go(entries: list[Entry]) -> tuple[list[Any], list[Entry]]:
        store = await stored()
        journal, seen = Journal("t", entries=entries, store=store), list[Any]()
        for number, key in enumerate(keys):
            slot = journal.slot(number + 1, "n", "C", "m", key)
            if slot.known is None:
                await slot.write(result=number)
            seen.append(slot.known.result if slot.known else number)
        assert journal.unused == []
        return seen, store.turns["t"].entries

    first, whole = await go([])
    again, added = await go(whole[:cut])
    assert again == first
    assert [*whole[:cut], *added] == whole


@pytest.mark.parametrize("other", [{"node": "x"}, {"capability": "x"}, {"method": "x"}, {"key": "x"}])
def test_a_call_of_something_else_is_not_answered_from_the_ledger(other: dict[str, str]):
    journal = Journal("t", entries=[entry(1)], complete=True)
    with pytest.raises(JournalFailed) as raised:
        journal.slot(1, **{"node": "n", "capability": "C", "method": "m", "key": "k", **other})
    assert raised.value.reason.code == "replay_diverged"
    with pytest.raises(JournalFailed):
        journal.slot(1, "n", "C", "m", "k")
    assert journal.unused == [entry(1)]


async def test_a_call_does_not_wait_for_ever_for_one_that_is_not_made_again():
    journal = Journal("t", entries=[entry(1, "a"), entry(2, "b")])
    later = journal.slot(1, "n", "C", "m", "b")
    async with asyncio.timeout(20):
        await later.wait_for_order()
    assert (later.known, journal.unused) == (entry(2, "b"), [entry(1, "a")])


async def test_what_is_known_is_not_written_again():
    store = await stored()
    assert take(Journal("t", entries=[entry(1)], store=store)) == 1
    assert store.turns["t"].entries == []


async def test_only_the_last_claim_of_a_turn_may_write():
    turns: dict[str, StoredJournal] = {}
    first, second = MemoryJournal(turns), MemoryJournal(turns)
    assert await first.claim("t", 1) == ()
    await first.append([entry(1)])
    assert await second.claim("t", 2) == (entry(1),)
    for late in (first.append([entry(2)]), first.end({}), first.claim("t", 1)):
        with pytest.raises(Fenced):
            await late
    await second.end({"status": "success"})
    assert (turns["t"].entries, turns["t"].footer) == ([entry(1)], {"status": "success"})


async def test_a_turn_that_was_taken_over_ends_no_matter_what_its_node_catches():
    turns: dict[str, StoredJournal] = {}
    store, other = MemoryJournal(turns), MemoryJournal(turns)
    await store.claim("t", 1)
    await other.claim("t", 2)
    journal = Journal("t", store=store)
    with pytest.raises(JournalFailed) as raised:
        await journal.slot(1, "n", "C", "m", "k").write(result=1)
    assert raised.value.reason.code == "fenced"
    assert not isinstance(raised.value, Exception)
    assert turns["t"].entries == []


def classes(kind: type[InterlockError]) -> list[type[InterlockError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in classes(child))]


@pytest.mark.parametrize(
    "kind",
    [kind for kind in (*classes(TurnError), *classes(InputError)) if kind.__module__ in {TurnError.__module__, RequestError.__module__}],
)
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
    assert len(key) == 32
    assert set(key) <= set("0123456789abcdef")


def test_a_key_is_what_it_was_when_the_turn_was_written_down():
    first = key_of((ARGUMENTS,), {"by_name": Shape(name="s", points=[Point(1, 2.0)])})
    assert first == "61f6154bca15b98255ed2e7deeab180b"
    assert first == key_of((ARGUMENTS,), {"by_name": Shape(name="s", points=[Point(1, 2.0)])}), "also for classes that were seen before"


def test_a_call_that_was_recorded_with_a_longer_key_is_found():
    key = key_of(("x",), {})
    entry = Entry(turn="t", sequence=1, node="n", capability="C", method="m", key=f"{key}{'0' * 32}", result=1)
    assert Journal("t", entries=[entry]).slot(1, "n", "C", "m", key).known is entry


@given(st.lists(st.integers(min_value=0, max_value=5).map(lambda number: number * 8), min_size=2, unique=True), st.randoms())
def test_a_set_has_the_same_key_in_any_order(numbers: list[int], random: Any):
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
def test_a_mapping_has_the_same_key_in_any_order(mapping: dict[str, int]):
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


async def test_a_new_call_waits_for_recorded_calls_that_start_later_and_then_goes_on():
    journal = Journal("t", entries=[entry(1, "a"), entry(2, "b")])
    new = asyncio.ensure_future(journal.slot(1, "n", "C", "m", "new").catch_up())
    for key in ("a", "b"):
        await asyncio.sleep(0)
        assert not new.done()
        assert take(journal, key) is not None
    await asyncio.wait_for(new, 10)
    assert journal.failure is None
