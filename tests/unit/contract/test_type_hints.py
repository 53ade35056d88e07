from __future__ import annotations

import enum
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Optional, Required, TypedDict, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypeAliasType

from interlock import Untrusted
from interlock.contract.type_hints import (
    alternatives,
    describe,
    format_type,
    is_assignable,
    is_record,
    resolve_hints,
    stable_repr,
    unwrap_annotated,
)

if TYPE_CHECKING:
    from fractions import Fraction


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    street: str
    number: int


class Person(BaseModel):
    name: str
    address: Address | None = None


class Entry(TypedDict):
    person: Person
    note: NotRequired[str]


@dataclass
class Tree:
    name: str
    below: list[Tree]


Alias = TypeAliasType("Alias", Annotated[str, Untrusted])
Nested = TypeAliasType("Nested", list[Alias] | None)

SIMPLE: list[Any] = [
    *(str, int, bytes, float, bool, None, Colour, Address, Person, Entry, Tree),
    *(Literal["a"], Literal["a", "b"], Literal[1], Literal[True], Literal[Colour.RED]),
    *(list[str], dict[str, int], tuple[int, ...], tuple[int, str], set[str], Sequence[str], Mapping[str, int]),
]
types_ = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Union[tuple(parts)]),  # noqa: UP007 - made at run time
        inner.map(lambda part: list[part]),
        inner.map(lambda part: dict[str, part]),
        inner.map(lambda part: Annotated[part, Untrusted]),
    ),
    max_leaves=5,
)


@given(types_)
def test_a_type_covers_itself_and_anything_covers_it(hint: Any):
    assert is_assignable(hint, hint)
    assert is_assignable(Any, hint)
    assert is_assignable(object, hint)
    assert is_assignable(Annotated[hint, Untrusted], hint)
    assert is_assignable(hint, Annotated[hint, Untrusted])


@given(types_, types_)
def test_a_union_covers_each_of_its_parts(one: Any, other: Any):
    both = Union[one, other]  # noqa: UP007 - made at run time
    assert is_assignable(both, one)
    assert is_assignable(both, other)
    assert is_assignable(both, both)
    assert is_assignable(one, both) == is_assignable(one, other)


@given(types_, types_, types_)
def test_what_covers_is_covered_in_turn(wide: Any, middle: Any, narrow: Any):
    if is_assignable(wide, middle) and is_assignable(middle, narrow):
        assert is_assignable(wide, narrow)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (str | None, str),
        (str | None, None),
        (Optional[str], str | None),  # noqa: UP045 - both ways of writing it
        (str, Literal["a", "b"]),
        (int, Literal[1]),
        (bool, Literal[True]),
        (Colour, Literal[Colour.RED]),
        (Literal["a", "b", "c"], Literal["c", "a"]),
        (Literal["a"] | None, Literal["a"]),
        (Sequence[str], list[str]),
        (Mapping[str, int], dict[str, int]),
        (list[str | int], list[int | str]),
        (str, Alias),
        (list[str] | None, Nested),
        (str, Required[str]),
        (str, NotRequired[str]),
    ],
)
def test_a_wider_type_covers_a_narrower_one(wide: Any, narrow: Any):
    assert is_assignable(wide, narrow)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (str, str | None),
        (str, None),
        (str, int),
        (int, bool),
        (float, int),
        (int, Literal[True]),
        (bool, Literal[1]),
        (str, Any),
        (Literal["a"], str),
        (Literal["a"], Literal["a", "b"]),
        (Literal[Colour.RED], Colour),
        (list[str], list[int]),
        (list[str], Sequence[str]),
        (list[str | None], list[str]),  # a list can be written to
        (list[Any], list[str]),
        (list[str], list),
        (list, list[str]),
        (tuple[int, ...], tuple[int, str]),
        (dict[str, str], dict[str, int]),
        (Address, Person),
        (BaseModel, Person),
    ],
)
def test_a_type_does_not_cover_what_may_hold_another_value(wide: Any, narrow: Any):
    assert not is_assignable(wide, narrow)


@pytest.mark.parametrize(
    ("hint", "written"),
    [
        (str, "str"),
        (None, "None"),
        (type(None), "None"),
        (str | None, "str | None"),
        (Optional[str], "str | None"),  # noqa: UP045 - both ways of writing it
        (list[str], "list[str]"),
        (dict[str, list[int | None]], "dict[str, list[int | None]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Sequence[str], "Sequence[str]"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Annotated[str, Untrusted], "str"),
        (list[Annotated[str, Untrusted]], "list[str]"),
        (Required[str], "str"),
        (Alias, "str"),
        (Nested, "list[str] | None"),
        (Any, "Any"),
        (Address, "Address"),
        (Colour, "Colour"),
    ],
)
def test_a_type_is_written_the_way_a_person_would(hint: Any, written: str):
    assert format_type(hint) == written


def test_peeling_keeps_everything_that_was_said_about_a_type():
    assert unwrap_annotated(Annotated[Alias, "outer"]) == (str, (Untrusted, "outer"))
    assert unwrap_annotated(Required[Annotated[str, "inner"]]) == (str, ("inner",))
    assert unwrap_annotated(str) == (str, ())


def test_the_alternatives_of_a_type_are_found_however_deep():
    assert alternatives(Annotated[str | None, "x"] | Literal["a", "b"]) == [str, type(None), Literal["a"], Literal["b"]]
    assert alternatives(None) == [type(None)]


@given(types_)
def test_every_type_is_described_as_json_that_is_the_same_again(hint: Any):
    described = describe(hint)
    assert json.loads(json.dumps(described)) == describe(hint)


@given(types_, types_)
def test_two_types_that_are_described_alike_cover_each_other(one: Any, other: Any):
    if describe(one) == describe(other):
        assert is_assignable(one, other)
        assert is_assignable(other, one)


def test_a_record_is_described_with_everything_inside_it():
    assert describe(Person) == {
        "record": "Person",
        "fields": {
            "name": "str",
            "address": {"union": ["None", {"record": "Address", "fields": {"street": "str", "number": "int"}}]},
        },
    }
    assert describe(Colour) == {"enum": "Colour", "values": {"RED": "'red'", "BLUE": "'blue'"}}
    assert describe(Annotated[str, Untrusted]) == "str"


def test_a_record_inside_itself_is_described_to_an_end():
    assert describe(Tree) == {"record": "Tree", "fields": {"name": "str", "below": {"generic": "list", "of": ["Tree"]}}}


@pytest.mark.parametrize(
    ("hint", "expected"),
    [(Address, True), (Person, True), (Entry, True), (Colour, False), (str, False), (list[str], False), ("Address", False)],
)
def test_records_are_distinguished_from_other_types(hint: Any, *, expected: bool):
    assert is_record(hint) is expected


def test_a_note_does_not_depend_on_where_in_memory_a_thing_is():
    assert stable_repr(operator.add) == "_operator.add"
    assert stable_repr(Untrusted) == "Untrusted"
    assert stable_repr("a") == "'a'"
    assert stable_repr(object()) == "<object object>"


async def careless(text: str, ratio: Fraction, size: int) -> Fraction:
    raise NotImplementedError


class Base(TypedDict):
    text: str


class Derived(Base):
    ratio: Fraction


def test_an_annotation_that_does_not_resolve_does_not_hide_the_others():
    found = resolve_hints(careless)
    assert found.resolved == {"text": str, "size": int}
    assert found.failed.keys() == {"ratio", "return"}
    assert "'Fraction'" in found.failed["ratio"]
    inherited = resolve_hints(Derived)
    assert inherited.resolved == {"text": str}
    assert inherited.failed.keys() == {"ratio"}


def test_sets_are_noted_in_one_order():
    words = ["alpha", "beta", "gamma", "delta"]
    assert stable_repr(set(words)) == stable_repr(frozenset(reversed(words))) == "{'alpha', 'beta', 'delta', 'gamma'}"
