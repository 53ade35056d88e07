from __future__ import annotations

import copy
import datetime as dt
import decimal
import enum
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from interlock import Untrusted
from interlock.contract.copying import copied_by_validation, deep_copy, is_immutable
from interlock.contract.schema import error_summary, record_validator, stored_validator, strict_validator, structure_validator


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Record:
    tags: list[Any]
    name: str = ""


@dataclass(frozen=True)
class Frozen:
    name: str
    number: int = 0


@dataclass(frozen=True)
class FrozenOutside:
    tags: list[Any]


@dataclass(frozen=True, slots=True)
class Slotted:
    tags: list[Any] = field(default_factory=list[Any])


@dataclass
class Plain:
    """It can be changed, though nothing in it can."""

    name: str


@dataclass(unsafe_hash=True)
class Badge:
    """It can be put into a set, and be changed there."""

    name: str
    notes: list[str] = field(default_factory=list[str], hash=False)


class Pair(NamedTuple):
    left: Any
    right: Any


class Model(BaseModel):
    tags: list[Any]


class Entry(TypedDict):
    tags: list[str]


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.datetimes(),
    st.uuids(),
    st.just(Colour.RED),
    st.builds(Frozen, name=st.text()),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=4),
        st.sets(st.integers(), max_size=4),
        st.lists(inner, max_size=3).map(Record),
        st.builds(Plain, name=st.text()),
        st.lists(inner, max_size=3).map(FrozenOutside),
        st.lists(inner, max_size=3).map(Slotted),
        st.lists(inner, max_size=3).map(lambda tags: Model(tags=tags)),
        st.tuples(inner, inner).map(lambda pair: Pair(*pair)),
        st.lists(inner, max_size=3).map(deque),
        st.binary(max_size=3).map(bytearray),
    ),
    max_leaves=8,
)


def mutable_parts(value: Any) -> dict[int, Any]:
    """Find everything inside a value that can be changed in place."""
    found: dict[int, Any] = {}
    queue: list[Any] = [value]
    for part in queue:
        if type(part) in {list, dict, set, deque, bytearray, Model}:
            found[id(part)] = part
        if isinstance(part, dict):
            queue += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset | deque):
            queue += [*part]
        elif is_dataclass(part) and not isinstance(part, type):
            if not part.__dataclass_params__.frozen:  # pyright: ignore[reportAttributeAccessIssue] - typeshed does not know it
                found[id(part)] = part
            queue += [getattr(part, item.name) for item in fields(part)]
        elif isinstance(part, BaseModel):
            queue += vars(part).values()
    return found


@given(VALUES)
def test_a_detached_value_is_equal_and_shares_nothing_that_can_change(value: Any):
    before = copy.deepcopy(value)
    made = deep_copy(value)
    assert made == value == before
    assert type(made) is type(value)
    assert not mutable_parts(made).keys() & mutable_parts(value).keys()


@given(ATOMS)
def test_what_cannot_change_is_not_copied(value: Any):
    assert deep_copy(value) is value or isinstance(value, Frozen)


@pytest.mark.parametrize("container", [set, frozenset])
def test_a_detached_set_shares_nothing_that_can_change(container: type[Any]):
    badge = Badge("a")
    (made,) = deep_copy(container([badge]))
    made.notes.append("spoilt")
    assert badge == Badge("a")


IMMUTABLE: list[Any] = [
    *(str, bytes, int, float, bool, None, decimal.Decimal, uuid.UUID, dt.datetime, dt.timedelta),
    *(Colour, Frozen, Literal["a", "b"], str | None, tuple[str, ...], tuple[int, Frozen], frozenset[str]),
    *(Annotated[str, Untrusted], tuple[Frozen | None, ...]),
]
MUTABLE: list[Any] = [
    *(list[str], dict[str, int], set[str], Record, Plain, FrozenOutside, Model, Entry, Any, object, bytearray),
    *(list[str] | None, tuple[list[str], ...], frozenset[FrozenOutside], Sequence[str], Mapping[str, int], Annotated[list[str], Untrusted]),
]


@pytest.mark.parametrize("hint", IMMUTABLE)
def test_a_type_whose_values_cannot_change_may_be_shared(hint: Any):
    assert is_immutable(hint)
    assert copied_by_validation(hint)


@pytest.mark.parametrize("hint", MUTABLE)
def test_a_type_whose_values_can_change_is_never_shared(hint: Any):
    assert not is_immutable(hint)


TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (list[str], st.lists(st.text())),
    (list[list[int]], st.lists(st.lists(st.integers()))),
    (dict[str, list[int]], st.dictionaries(st.text(), st.lists(st.integers()))),
    (set[int], st.sets(st.integers())),
    (tuple[list[str], ...], st.lists(st.lists(st.text())).map(tuple)),
    (list[str] | None, st.none() | st.lists(st.text())),
    (Sequence[str], st.lists(st.text())),
    (Mapping[str, list[int]], st.dictionaries(st.text(), st.lists(st.integers()))),
    (Frozen, st.builds(Frozen, name=st.text(), number=st.integers())),
    (list[Frozen], st.lists(st.builds(Frozen, name=st.text(), number=st.integers()))),
    (Record, st.builds(Record, tags=st.lists(st.text()), name=st.text())),
    (Any, st.lists(st.text())),
    (dict[str, Any], st.dictionaries(st.text(), st.lists(st.text()))),
    (Model, st.lists(st.text()).map(lambda tags: Model(tags=tags))),
]


@given(st.sampled_from(TYPED).flatmap(lambda typed: st.tuples(st.just(typed[0]), typed[1])))
def test_a_validated_value_is_equal_and_shares_nothing_where_validation_is_said_to_copy(typed: tuple[Any, Any]):
    hint, value = typed
    made = record_validator("Value", {"value": hint})({"value": value})["value"]
    assert made == value
    if copied_by_validation(hint):
        assert not mutable_parts(made).keys() & mutable_parts(value).keys()


@pytest.mark.parametrize("hint", [list[str], dict[str, int], Frozen, list[Frozen], str | None, Entry, list[Entry]])
def test_validation_that_copies_is_not_followed_by_another_copy(hint: Any):
    assert copied_by_validation(hint)


@pytest.mark.parametrize("hint", [Any, object, Model, Record, list[Any], dict[str, Any], list[Model], Sequence[str], Mapping[str, int]])
def test_validation_that_may_share_is_followed_by_a_copy(hint: Any):
    assert not copied_by_validation(hint)


check = record_validator("Form", {"name": Annotated[str, Field(max_length=3)], "size": int, "kind": Literal["a", "b"]})
GOOD: dict[str, Any] = {"name": "abc", "size": 1, "kind": "a"}


def test_a_valid_record_is_returned_as_a_copy():
    made = check(GOOD)
    assert made == GOOD
    assert made is not GOOD


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"size": "1"}, "'size': Input should be a valid integer"),
        ({"kind": "c"}, "'kind': Input should be 'a' or 'b'"),
        ({"name": "secret"}, "'name': String should have at most 3 characters"),
        ({"more": 1}, "'more': Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_said_by_field_and_without_the_value(change: dict[str, Any], says: str):
    with pytest.raises(ValidationError) as caught:
        check({**GOOD, **change})
    assert error_summary(caught.value) == says


def test_everything_that_is_wrong_is_said():
    with pytest.raises(ValidationError) as caught:
        check({"name": 1, "size": None})
    assert [part.split(":")[0] for part in error_summary(caught.value).split("; ")] == ["'name'", "'size'", "'kind'"]


def test_a_partial_record_may_lack_fields_but_not_have_others():
    partly = record_validator("Input", {"name": str, "size": int}, partial=True)
    assert partly({"size": 1}) == {"size": 1}
    assert partly({}) == {}
    with pytest.raises(ValidationError):
        partly({"more": 1})


def test_stored_values_are_converted_and_written_values_are_not():
    stored = stored_validator("pair", tuple[int, str])
    assert stored({"pair": [1, "a"]}) == {"pair": (1, "a")}
    with pytest.raises(ValidationError):
        record_validator("Written", {"pair": tuple[int, str]})({"pair": [1, "a"]})


def shout(text: str) -> str:
    return text.upper()


def test_a_fields_own_rules_run_when_it_is_written_and_not_when_it_is_restored():
    hint = Annotated[str, AfterValidator(shout)]
    assert record_validator("Written", {"text": hint})({"text": "a"}) == {"text": "A"}
    assert stored_validator("text", hint)({"text": "a"}) == {"text": "a"}
    assert structure_validator(hint)("a") == "a"


@dataclass
class Tree:
    name: str
    below: list[Tree] = field(default_factory=list["Tree"])


@dataclass(frozen=True)
class Chain:
    name: str
    next: Chain | None = None


def deeper(frames: int, ask: Callable[[], bool]) -> bool:
    """Ask with so many frames more on the stack: an endless search ends elsewhere each time."""
    return deeper(frames - 1, ask) if frames else ask()


@pytest.mark.parametrize(("hint", "expected"), [(Tree, False), (list[Tree], False), (Chain, True)])
def test_a_record_inside_itself_is_looked_through_to_an_end(hint: Any, *, expected: bool):
    for frames in range(20):
        assert deeper(frames, lambda: copied_by_validation(hint))
        assert deeper(frames, lambda: is_immutable(hint)) is expected


@pytest.mark.parametrize(("hint", "value"), [(int, True), (int, "1"), (str, 1), (list[int], (1,)), (list[int], ["1"]), (None, 0)])
def test_a_bare_value_is_not_converted(hint: Any, value: object):
    with pytest.raises(ValidationError):
        strict_validator(hint)(value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [(Frozen, Frozen("a", "1")), (Frozen, {"name": "a", "number": 1})],  # pyright: ignore[reportArgumentType]
)
def test_a_bare_record_is_not_converted(hint: Any, value: object):
    with pytest.raises(ValidationError):
        strict_validator(hint)(value)


@pytest.mark.parametrize(
    ("hint", "stored", "value"),
    [(PurePosixPath, "/a/b", PurePosixPath("/a/b")), (deque[int], [1, 2], deque([1, 2])), (Counter[str], {"a": 2}, Counter("aa"))],
)
def test_what_pydantic_itself_makes_of_a_type_is_part_of_its_structure(hint: Any, stored: Any, value: Any):
    assert stored_validator("field", hint)({"field": stored}) == {"field": value}
    assert type(stored_validator("field", hint)({"field": stored})["field"]) is type(value)
