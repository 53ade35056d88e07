"""Values as JSON and back: equal to what they were, or refused; never something else."""

from __future__ import annotations

import contextlib
import enum
import json
import math
import zoneinfo
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel, SecretStr, computed_field
from typing_extensions import TypedDict

from interlock.capabilities.model import Decision, ModelReply
from interlock.contract.schema import Codec
from interlock.errors import RecordInvalid, StateUnstorable

T = TypeVar("T")


class Color(enum.Enum):
    RED = 1
    BLUE = "blue"


class Word(enum.StrEnum):
    A = "a"


@dataclass(frozen=True)
class Point:
    x: int
    y: float
    tags: tuple[str, ...] = ()


@dataclass
class Line:
    points: list[Point]
    raw: bytes = b""
    seen: set[int] = field(default_factory=set[int])


class Row(TypedDict):
    name: str
    raw: NotRequired[bytes]
    point: Point


class Shape(BaseModel):
    name: str
    points: list[Point]
    raw: bytes = b""
    inner: Shape | None = None


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    kind: str = Field(alias="type")


class Computed(BaseModel):
    width: int

    @computed_field
    @property
    def double(self) -> int:
        return self.width * 2


class Numbers(RootModel[list[int]]):
    pass


class Box(BaseModel, Generic[T]):
    content: T


class Pair(NamedTuple):
    left: int
    right: str


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=10)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=3))])
POINTS = st.builds(Point, x=st.integers(), y=st.floats(allow_nan=False), tags=st.lists(TEXT, max_size=2).map(tuple))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SHAPES = st.recursive(
    st.builds(Shape, name=TEXT, points=st.lists(POINTS, max_size=2), raw=st.binary(max_size=5)),
    lambda inner: st.builds(Shape, name=TEXT, points=st.just([]), inner=inner),
    max_leaves=3,
)

KEPT: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, TEXT),
    (int, st.integers()),
    (float, st.floats(allow_nan=False)),
    (bool, st.booleans()),
    (bytes, st.binary()),
    (type(None), st.none()),
    (datetime, st.datetimes(timezones=ZONES, min_value=datetime(1970, 1, 2), max_value=datetime(2200, 1, 1))),  # noqa: DTZ001
    (datetime, st.datetimes()),
    (date, st.dates()),
    (time, st.times()),
    (timedelta, st.timedeltas(timedelta(days=-1000), timedelta(days=1000))),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (UUID, st.uuids()),
    (Color, st.sampled_from(Color)),
    (Word, st.sampled_from(Word)),
    (Literal["a", 1] | None, st.sampled_from(["a", 1, None])),
    (list[bytes], st.lists(st.binary())),
    (tuple[int, str], st.tuples(st.integers(), TEXT)),
    (tuple[int, ...], st.lists(st.integers()).map(tuple)),
    (set[int], st.sets(st.integers())),
    (frozenset[str], st.frozensets(TEXT)),
    (dict[str, list[int | None]], st.dictionaries(TEXT, st.lists(st.none() | st.integers()))),
    (dict[int, str], st.dictionaries(st.integers(-(2**60), 2**60), TEXT)),
    (dict[date, float], st.dictionaries(st.dates(), st.floats(allow_nan=False, allow_infinity=False))),
    (int | str, st.integers() | TEXT),
    (float | bool | None, st.floats(allow_nan=False) | st.booleans() | st.none()),
    (Point, POINTS),
    (
        Point | Line | None,
        POINTS | st.builds(Line, points=st.lists(POINTS, max_size=2), raw=st.binary(), seen=st.sets(st.integers())) | st.none(),
    ),
    (Row, st.fixed_dictionaries({"name": TEXT, "point": POINTS}, optional={"raw": st.binary()})),
    (Shape, SHAPES),
    (list[Shape], st.lists(SHAPES, max_size=2)),
    (Numbers, st.builds(Numbers, st.lists(st.integers()))),
    (Box[bytes], st.binary().map(lambda raw: Box[bytes](content=raw))),
    (Pair, st.builds(Pair, st.integers(), TEXT)),
    (JsonValue, JSON),
    (dict[str, JsonValue], st.dictionaries(TEXT, JSON)),
    (Annotated[str, Field(max_length=5)], st.text(alphabet="ab", max_size=5)),
    (ModelReply, st.builds(ModelReply, text=TEXT, model=TEXT)),
    (Decision[Shape], SHAPES.map(lambda shape: Decision(value=shape))),
]


@pytest.mark.parametrize(("hint", "values"), KEPT, ids=lambda part: getattr(part, "__name__", str(part))[:40])
@settings(max_examples=40)
@given(data=st.data())
def test_a_value_comes_back_equal(hint: Any, values: st.SearchStrategy[Any], data: st.DataObject):
    """These are the types that state and results are made of: a refusal is a loss here too."""
    codec, value = codec_of(hint), data.draw(values)
    back = codec.decode(json.loads(json.dumps(codec.encode(value))))
    assert back == value
    assert type(back) is type(value)


CODECS: dict[Any, Codec[Any]] = {}


def codec_of(hint: Any) -> Codec[Any]:
    key = str(hint)
    if key not in CODECS:
        CODECS[key] = Codec(hint)
    return CODECS[key]


EVERYTHING = st.one_of(*(values for _, values in KEPT)) | st.floats() | st.text() | st.complex_numbers() | st.decimals()


@pytest.mark.parametrize(
    "hint",
    [hint for hint, _ in KEPT]
    + [complex, str | bytes, int | float, bytes | None, dict[float, int], dict[bytes, str], SecretStr, Any, object],
    ids=str,
)
@settings(max_examples=30)
@given(value=EVERYTHING)
def test_any_value_comes_back_equal_or_is_refused(hint: Any, value: Any):
    try:
        data = codec_of(hint).encode(value)
    except StateUnstorable:
        return
    assert codec_of(hint).decode(json.loads(json.dumps(data))) == value


def test_infinity_comes_back_and_nan_which_equals_nothing_is_refused():
    for value in (math.inf, -math.inf, [math.inf]):
        hint = list[float] if isinstance(value, list) else float
        assert codec_of(hint).decode(json.loads(json.dumps(codec_of(hint).encode(value)))) == value
    with pytest.raises(StateUnstorable):
        codec_of(float).encode(math.nan)


def test_an_instant_comes_back_as_the_same_instant():
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    for fold in (0, 1):  # the hour that comes twice
        value = datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=berlin)
        back = codec_of(datetime).decode(codec_of(datetime).encode(value.astimezone(UTC)))
        assert back == value.astimezone(UTC)
        try:
            data = codec_of(datetime).encode(value)
        except StateUnstorable:
            continue
        assert codec_of(datetime).decode(data).timestamp() == value.timestamp()


@pytest.mark.parametrize("value", [Aliased(type="a"), Computed(width=2)])
def test_everyday_classes_of_pydantic_can_be_kept(value: BaseModel):
    codec = Codec[Any](type(value))
    assert codec.decode(codec.encode(value)) == value


def test_a_refusal_does_not_tell_the_value():
    with pytest.raises(StateUnstorable) as caught:
        codec_of(int).encode("hunter2")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(RecordInvalid) as refused:
        codec_of(dict[str, int]).decode({"a": "hunter2"})
    assert "hunter2" not in str(refused.value)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y", "name", "points", "tags", "content", "__class__"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("hint", [hint for hint, _ in KEPT], ids=str)
@settings(max_examples=30)
@given(data=ANY_JSON)
def test_any_data_is_decoded_to_the_type_or_refused(hint: Any, data: Any):
    codec = codec_of(hint)
    with contextlib.suppress(RecordInvalid, StateUnstorable):
        value = codec.decode(data)
        assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("depth", [100, 1000, 100_000])
def test_data_that_is_nested_too_deep_is_refused_or_kept(depth: int):
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    try:
        data = codec_of(JsonValue).encode(value)
    except StateUnstorable:
        data = value
    try:
        codec_of(JsonValue).decode(data)
    except RecordInvalid:
        return


def test_an_instance_of_a_subclass_does_not_come_back_as_its_parent():
    @dataclass(frozen=True)
    class Place(Point):
        name: str = "home"

    class Square(Shape):
        side: int = 1

    for hint, value in ((Point, Place(1, 2.0)), (Shape, Square(name="s", points=[]))):
        with pytest.raises(StateUnstorable):
            codec_of(hint).encode(value)
