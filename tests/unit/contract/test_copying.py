"""A copy that a node is handed shares nothing that can change with the state, whatever the value turns out to be."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, JsonValue

from interlock.contract import Untrusted
from interlock.contract.copying import deep_copy


@dataclass(frozen=True)
class Note:
    text: str
    tags: tuple[Note, ...] = ()
    extra: dict[str, JsonValue] | None = None


@dataclass
class Open:
    text: str = ""


class Goal(BaseModel):
    model_config = ConfigDict(frozen=True)

    slots: dict[str, JsonValue] = {}
    missing: list[str] = []
    note: Note | None = None


class Session(BaseModel):
    goals: dict[str, Goal] = {}
    stack: Annotated[list[str], Untrusted] = []
    notes: list[Note] = []


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
SLOTS = st.dictionaries(st.text(max_size=3), JSON, max_size=3)
NOTES = st.recursive(
    st.builds(Note, text=st.text(max_size=3), extra=st.none() | SLOTS),
    lambda inner: st.builds(Note, text=st.text(max_size=3), tags=st.lists(inner, max_size=3).map(tuple)),
    max_leaves=4,
)
GOALS = st.builds(Goal, slots=SLOTS, missing=st.lists(st.text(max_size=3), max_size=3), note=st.none() | NOTES)
SESSIONS = st.builds(
    Session,
    goals=st.dictionaries(st.text(max_size=3), GOALS, max_size=3),
    stack=st.lists(st.text(max_size=3), max_size=3),
    notes=st.lists(NOTES, max_size=2),
)


def changeable(value: Any) -> set[int]:
    """Find everything inside a value that can be changed in place."""
    found: set[int] = set()
    waiting: list[Any] = [value]
    for one in waiting:
        if type(one) in {list, dict, Session, Open}:
            found.add(id(one))
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, BaseModel | Note):
            waiting += vars(one).values()
        if isinstance(one, Session):
            found.add(id(one.model_fields_set))
    return found


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (Session, SESSIONS),
        (Goal | None, st.none() | GOALS),
        (Note, NOTES),
        (tuple[Note, ...], st.lists(NOTES, max_size=3).map(tuple)),
        (dict[str, list[str]], st.dictionaries(st.text(max_size=2), st.lists(st.text(max_size=2), max_size=2), max_size=3)),
        (list[Goal | Session], st.lists(GOALS | SESSIONS, max_size=3)),
        (JsonValue, JSON),
        (dict[str, Any], SLOTS),
        (object, SESSIONS),
    ],
    ids=str,
)
def test_a_copy_is_equal_and_shares_nothing_that_can_change(hint: Any, values: st.SearchStrategy[Any]):
    @given(values)
    def check(value: Any) -> None:
        before = copy.deepcopy(value)
        made = deep_copy(value)
        assert made == value == before
        assert type(made) is type(value)
        assert not changeable(made) & changeable(value)
        if isinstance(value, BaseModel):
            assert made.model_fields_set == value.model_fields_set

    check()


def test_a_frozen_record_with_nothing_in_it_that_can_change_is_not_copied():
    note, told = Note("a", tags=(Note("b"),)), (Note("c"), Note("d"))
    assert deep_copy(note) is note
    assert deep_copy(told) is told


def test_an_empty_container_is_copied_too():
    goal = Goal()
    made = deep_copy(goal)
    made.missing.append("spoilt")
    made.slots["a"] = "spoilt"
    assert goal == Goal()


@pytest.mark.parametrize("value", [Open("a"), [Open("a")], {"a": Open("a")}, Goal(missing=["a"]), None, "text", (Open("a"),)])
@pytest.mark.parametrize("hint", [Note, Goal, Session, list[Note], dict[str, Goal], tuple[Note, ...]])
def test_a_value_that_is_something_else_than_its_type_says_is_copied_as_what_it_is(hint: Any, value: Any):
    before = copy.deepcopy(value)
    made = deep_copy(value)
    assert made == value == before
    assert not changeable(made) & changeable(value)
