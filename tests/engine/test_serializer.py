from __future__ import annotations

import datetime as dt
import decimal
import enum
import inspect
import json
import math
import operator
import os
import pickle
import sys
import traceback
import uuid
import zlib
import zoneinfo
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import ormsgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy, interrupt
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, TypeAdapter, field_validator
from typing_extensions import TypedDict

from interlock.engine.serializer import DEEPEST, TAG, ClosedSerializer
from interlock.errors import StateIncompatible, StateUnstorable, StoreCorrupt

THREAD: Any = {"configurable": {"thread_id": "a"}}


class Colour(enum.StrEnum):
    RED = "r"
    CRIMSON = "r"
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Fact:
    text: str
    tags: tuple[str, ...] = ()
    inner: Fact | None = None


@dataclass(slots=True)
class Counted:
    words: list[str]
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.count = len(self.words)


class Place(NamedTuple):
    north: float
    name: str = "here"


class Message(BaseModel):
    role: str
    text: str = Field(alias="content", default="")
    calls: tuple[Fact, ...] = ()
    colour: Colour | None = None
    extra: Any = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Numbers(RootModel[list[int]]):
    pass


class Notes(TypedDict):
    facts: list[Fact]


CLASSES = (Colour, Level, Access, Fact, Counted, Place, Message, Open, Numbers, Notes)


@pytest.fixture
def serializer() -> ClosedSerializer:
    return ClosedSerializer(CLASSES)


def stored(packed: bytes) -> tuple[str, bytes]:
    """Put bytes of msgpack where the serializer would read them."""
    return TAG, zlib.crc32(packed).to_bytes(4) + packed


def special(kind: str, *parts: Any) -> tuple[str, bytes]:
    return stored(ormsgpack.packb([ormsgpack.Ext(1, kind.encode()), *parts]))


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are equal and of the same classes to the last part; a NaN is the same as another."""
    if type(left) is not type(right):
        return False
    match left:
        case float():
            return left.hex() == right.hex()
        case decimal.Decimal():
            return str(left) == str(right)
        case dt.datetime() | dt.time():
            return left.replace(tzinfo=None) == right.replace(tzinfo=None) and left.fold == right.fold and left.tzinfo == right.tzinfo
        case list() | tuple() | dict():
            ours, theirs = flat(left), flat(right)
            return len(ours) == len(theirs) and all(map(same, ours, theirs))
        case set() | frozenset():
            ours, theirs = flat(left), flat(right)
            return len(ours) == len(theirs) and all(any(same(one, other) for other in theirs) for one in ours)
        case BaseModel():
            return same(left.__dict__, right.__dict__) and left.model_fields_set == right.model_fields_set
        case Fact():
            return same((left.text, left.tags, left.inner), (right.text, right.tags, right.inner))
        case _:
            return left == right


def flat(items: Any) -> list[Any]:
    return list(chain(*items.items())) if isinstance(items, dict) else list(items)  # pyright: ignore[reportUnknownArgumentType]


zones = st.one_of(
    st.none(),
    st.just(dt.UTC),
    st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)).map(dt.timezone),
    st.sampled_from(["Europe/Berlin", "America/St_Johns"]).map(zoneinfo.ZoneInfo),
)
texts = st.text(st.characters(exclude_categories=["Cs"]))
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]),
    st.floats(),
    texts,
    st.binary(),
    st.datetimes(timezones=zones, allow_imaginary=True),
    st.dates(),
    st.times(timezones=zones),
    st.timedeltas(),
    st.uuids(),
    st.decimals(),
    st.sampled_from([*Colour, *Level, Access.READ, Access.READ | Access.WRITE, Access(0)]),
    st.builds(Place, st.floats(allow_nan=False), texts),
)
keys = st.one_of(
    st.none(), st.booleans(), st.integers(), texts, st.binary(), st.uuids(), st.tuples(texts, st.integers()), st.sampled_from(Colour)
)
facts = st.recursive(
    st.builds(Fact, texts, st.lists(texts).map(tuple)),
    lambda inner: st.builds(Fact, texts, st.just(()), inner),
    max_leaves=4,
)


def opened(value: Any) -> Open:
    return Open.model_validate({"name": "a", "more": value})


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(texts, inner),
        st.dictionaries(keys, inner),
        st.sets(keys),
        st.frozensets(keys),
        st.builds(Message, role=texts, extra=inner, calls=st.lists(facts, max_size=2).map(tuple)),
        inner.map(opened),
    )


values = st.recursive(st.one_of(atoms, facts), containers, max_leaves=20)


# Round trips


@given(values)
@settings(max_examples=150)
def test_plain_data_and_records_come_back_as_they_were(value: Any):
    serializer = ClosedSerializer(CLASSES)
    kept = serializer.dumps_typed(value)
    assert kept[0] == TAG
    assert type(kept[1]) is bytes
    assert same(serializer.loads_typed(kept), value)


@given(st.lists(st.one_of(keys, st.integers(0, 8).map(lambda number: number * 8))))
def test_equal_sets_are_equal_bytes(items: list[Any]):
    serializer = ClosedSerializer(CLASSES)
    for kind in (set[Any], frozenset[Any]):
        there, back = kind(items), kind(list(kind(items))[::-1])
        assert serializer.dumps_typed(there) == serializer.dumps_typed(back)


def test_it_is_what_langgraph_takes_for_a_serializer(serializer: ClosedSerializer):
    assert isinstance(serializer, SerializerProtocol)


@pytest.mark.parametrize(
    "value",
    [
        dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
        dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1, microseconds=7), "mine")),
        TypeAdapter(dt.datetime).validate_python("2024-01-01T00:00:00Z"),
        decimal.Decimal("sNaN"),
        decimal.Decimal("-0.00"),
        -0.0,
        Counted(["a", "b"]),
        Numbers([1, 2]),
        Access.READ | Access.WRITE,
        Place(52.5, "Berlin"),
        dt.datetime(2024, 1, 1, 12, 30),  # noqa: DTZ001 - of no zone
        dt.time(2, 30, fold=1),
        dt.time(2, 30, tzinfo=dt.UTC),
        {"facts": [Fact("a")]},
        {Fact("a"): {Colour.RED: (1,)}},
        (),
        [],
        {},
        set[int](),
    ],
)
def test_the_unusual_comes_back_too(serializer: ClosedSerializer, value: Any):
    back = serializer.loads_typed(serializer.dumps_typed(value))
    assert type(back) is type(value)
    assert repr(back) == repr(value) or back == value


def test_the_name_of_a_zone_comes_back(serializer: ClosedSerializer):
    value = dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1), "mine"))
    assert serializer.loads_typed(serializer.dumps_typed(value)).tzname() == "mine"


@pytest.mark.parametrize("message", [Message(role="user"), Message(role="user", content="hi"), Message(role="user", content="")])
def test_a_model_knows_which_fields_it_was_given(serializer: ClosedSerializer, message: Message):
    back = serializer.loads_typed(serializer.dumps_typed(message))
    assert back == message
    assert back.model_fields_set == message.model_fields_set


def test_a_record_is_read_without_the_rules_and_the_constructor_of_its_class():
    seen: list[str] = []

    class Ruled(BaseModel):
        number: int

        def __init__(self, **data: Any) -> None:
            seen.append("made")
            super().__init__(**data)

        @field_validator("number", mode="before")
        @classmethod
        def double(cls, number: int) -> int:
            return number * 2

    serializer = ClosedSerializer([Ruled])
    kept = serializer.dumps_typed(Ruled(number=2))
    seen.clear()
    assert serializer.loads_typed(kept).number == 4
    assert seen == []


def test_messages_of_langchain_are_records_like_any_other():
    serializer = ClosedSerializer([HumanMessage, AIMessage])
    said = [HumanMessage("hi", id="1"), AIMessage("hello", id="2", tool_calls=[{"name": "f", "args": {"x": (1,)}, "id": "3"}])]
    back = serializer.loads_typed(serializer.dumps_typed(said))
    assert back == said
    assert [type(message) for message in back] == [HumanMessage, AIMessage]


def test_a_record_inside_a_field_stays_of_its_own_class():
    class Base(BaseModel):
        name: str

    class More(Base):
        age: int

    class Holder(BaseModel):
        held: Base

    serializer = ClosedSerializer([Base, More, Holder])
    assert type(serializer.loads_typed(serializer.dumps_typed(Holder(held=More(name="a", age=1)))).held) is More


# What cannot be kept


class Private(BaseModel):
    name: str
    _seen: int = PrivateAttr(default=0)


@dataclass
class Seeded:
    seed: InitVar[int]
    number: int = 0


class Stranger(BaseModel):
    name: str = "a"


class Own(dt.tzinfo):
    pass


def changed(record: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(record, name, value)
    return record


UNKEPT: list[Any] = [
    "\ud800",
    {"\ud800": 1},
    {("\ud800", 1): 1},
    Fact("\ud800"),
    ["a", {"b": ("\udfff",)}],
    object(),
    operator.add,
    Fact,
    Stranger(),
    [Stranger()],
    OrderedDict[str, int](a=1),
    bytearray(b"a"),
    1j,
    Path("a"),
    [ValueError("a")],
    dt.datetime(2024, 1, 1, tzinfo=Own()),
    Fact(1),  # pyright: ignore[reportArgumentType] - a dataclass takes anything
    Fact("a", ["b"]),  # pyright: ignore[reportArgumentType] - likewise
    Message.model_construct(role=1),
    Message.model_construct(),
    changed(Private(name="a"), _seen=1),
    changed(Counted(["a"]), count=5),
    Seeded(1),
]


@pytest.mark.parametrize("value", UNKEPT)
def test_what_cannot_be_kept_is_refused_with_a_typed_error(value: Any):
    with pytest.raises(StateUnstorable) as caught:
        ClosedSerializer([*CLASSES, Private, Seeded]).dumps_typed(value)
    assert str(caught.value).endswith(".")
    assert "?" not in str(caught.value)


def test_a_property_that_raises_is_a_typed_error():
    @dataclass
    class Broken:
        name: str

        def __getattribute__(self, name: str) -> Any:
            if name == "name":
                raise OSError
            return super().__getattribute__(name)

    with pytest.raises(StateUnstorable, match="OSError"):
        ClosedSerializer([Broken]).dumps_typed(Broken("a"))


def test_the_error_tells_neither_the_value_nor_drags_it_along():
    for value in (Fact(["hunter2"]), changed(Message(role="a"), role=b"hunter2"), "hunter2\ud800"):  # pyright: ignore[reportArgumentType]
        with pytest.raises(StateUnstorable) as caught:
            ClosedSerializer(CLASSES).dumps_typed(value)
        assert "hunter2" not in "".join(traceback.format_exception(caught.value, chain=True))
        assert caught.value.__context__ is None


def test_two_classes_of_one_name_are_both_refused():
    def made() -> type:
        @dataclass(frozen=True)
        class Twin:
            name: str

        return Twin

    one, other = made(), made()
    for kind in (one, other):
        with pytest.raises(StateUnstorable):
            ClosedSerializer([one, other]).dumps_typed(kind("a"))
    assert ClosedSerializer([one, one]).dumps_typed(one("a"))[0] == TAG


# Depth


def nested(depth: int, *, by: Any) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = by(value)
    return value


WRAPS: dict[str, Callable[[Any], Any]] = {
    "list": lambda value: [value],
    "tuple": lambda value: (value,),
    "dict": lambda value: {"a": value},
    "keyed": lambda value: {1: value},
    "frozenset": lambda value: frozenset([value]),
    "record": opened,
    "interrupt": lambda value: Interrupt(value, id="a"),
}


@pytest.mark.parametrize("wrap", list(WRAPS))
def test_nesting_has_a_limit_and_what_is_within_it_can_be_read(serializer: ClosedSerializer, wrap: str):
    deepest = nested(DEEPEST, by=WRAPS[wrap])
    assert serializer.loads_typed(serializer.dumps_typed(deepest)) == deepest
    with pytest.raises(StateUnstorable, match="inside one another"):
        serializer.dumps_typed(nested(DEEPEST + 1, by=WRAPS[wrap]))


@pytest.mark.parametrize("head", [b"\x91", b"\x81\xa1a", b"\x92\xc7\x05\x01tuple"])
def test_a_row_has_the_same_limit(serializer: ClosedSerializer, head: bytes):
    serializer.loads_typed(stored(head * DEEPEST + b"\xc0"))
    with pytest.raises(StoreCorrupt, match="inside one another"):
        serializer.loads_typed(stored(head * (DEEPEST + 1) + b"\xc0"))


@pytest.mark.parametrize("depth", [500, 5000])
def test_a_bomb_of_nesting_is_a_typed_error(serializer: ClosedSerializer, depth: int):
    with pytest.raises(StateUnstorable):
        serializer.dumps_typed(nested(depth, by=WRAPS["list"]))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(StateUnstorable):
        serializer.dumps_typed(loop)
    for head in (b"\x91", b"\x81\xa1a", b"\x92\xc7\x05\x01tuple", b"\x93\xc7\x06\x01record\xa1a"):
        with pytest.raises(StoreCorrupt):
            serializer.loads_typed(stored(head * depth + b"\xc0"))


def test_a_caller_with_a_deep_stack_gets_a_typed_error_too(serializer: ClosedSerializer):
    kept = serializer.dumps_typed(nested(DEEPEST, by=WRAPS["record"]))

    def deep(levels: int, call: Any) -> Any:
        return call() if levels == 0 else deep(levels - 1, call)

    levels = sys.getrecursionlimit() - len(inspect.stack(0)) - 60
    with pytest.raises(StoreCorrupt):
        deep(levels, lambda: serializer.loads_typed(kept))
    with pytest.raises(StateUnstorable):
        deep(levels, lambda: serializer.dumps_typed(nested(DEEPEST, by=WRAPS["list"])))


# Rows that somebody has changed


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.canary),))


def langgraph_extension(canary: Path) -> bytes:
    """Write what LangGraph's own serializer would call `os.system` for."""
    return ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(["os", "system", f"mkdir {canary}"])))


def constructor(canary: Path) -> bytes:
    return json.dumps({"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "args": [str(canary)]}).encode()


def test_the_trap_is_one(tmp_path: Path):
    pickle.loads(pickle.dumps(Trap(tmp_path / "canary")))  # noqa: S301 - to see that it would
    assert (tmp_path / "canary").exists()
    JsonPlusSerializer(allowed_msgpack_modules=True).loads_typed(("msgpack", langgraph_extension(tmp_path / "other")))
    assert (tmp_path / "other").exists()


def test_nothing_that_another_serializer_wrote_is_read(serializer: ClosedSerializer, tmp_path: Path):
    canary = tmp_path / "canary"
    _, good = serializer.dumps_typed(Fact("a"))
    rows: list[tuple[Any, Any]] = [
        ("msgpack", good),
        ("", good),
        (TAG.encode(), good),
        (None, good),
        ("pickle", pickle.dumps(Trap(canary))),
        ("msgpack", langgraph_extension(canary)),
        ("json", constructor(canary)),
        ("json", b"{}"),
        ("msgpack", ormsgpack.packb({})),
        ("null", b""),
        ("bytes", b"a"),
        ("bytearray", b"a"),
        ("empty", b""),
        ("", b""),
        (None, None),
        (TAG.encode(), b""),
        (TAG, None),
        (TAG, "text"),
        (TAG, 1),
        (TAG, b""),
        (TAG, pickle.dumps(Trap(canary))),
        stored(langgraph_extension(canary)),
        stored(ormsgpack.packb(ormsgpack.Ext(5, ormsgpack.packb(["os", "system", {"command": "a"}, "model_validate_json"])))),
    ]
    for row in rows:
        with pytest.raises(StoreCorrupt):
            serializer.loads_typed(row)
    # What looks like msgpack until it has a value is that value.
    assert serializer.loads_typed(stored(pickle.dumps(Trap(canary)))) == {}
    assert serializer.loads_typed(stored(constructor(canary))) == ord("{")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "row",
    [
        special("record", "os.system", {"command": "true"}),
        special("record", f"{__name__}.Stranger", {"name": "a"}),
        special("record", "interlock.engine.serializer.ClosedSerializer", {}),
        special("record", f"{__name__}.Notes", {"facts": []}),
        special("record", f"{__name__}.Colour", {"value": "r"}),
        special("record", ["a"], {}),
        special("record", f"{__name__}.Fact"),
        special("record", f"{__name__}.Fact", {}),
        special("record", f"{__name__}.Fact", {"text": 1}),
        special("record", f"{__name__}.Fact", {"text": "a", "tags": ["b"]}),
        special("record", f"{__name__}.Fact", {"text": "a", "more": 1}),
        special("record", f"{__name__}.Fact", {"text": "a"}, ["text"]),
        special("record", f"{__name__}.Fact", {"text": "a"}, None, 1),
        special("record", f"{__name__}.Fact", ["a"]),
        special("record", f"{__name__}.Message", {"role": b"a"}),
        special("record", f"{__name__}.Message", {"role": "a", "more": 1}),
        special("record", f"{__name__}.Message", {"role": "a"}, [["b"]]),
        special("record", f"{__name__}.Place", {"north": "a"}),
        special("record", f"{__name__}.Place", {"north": 1.0, "south": 1.0}),
        special("record", f"{__name__}.Numbers", {"root": ["1"]}),
        special("record", f"{__name__}.Counted", {"words": [], "count": 5}),
        special("enum", f"{__name__}.Colour", "GREEN"),
        special("enum", f"{__name__}.Colour", "__class__"),
        special("enum", f"{__name__}.Colour", 1),
        special("enum", f"{__name__}.Access", "READ"),
        special("enum", f"{__name__}.Access", 4),
        special("enum", "re.RegexFlag", 2),
        special("enum", f"{__name__}.Fact", "a"),
        special("eval", "1"),
        special("", "1"),
        special("int", "1"),
        special("int"),
        special("int", b"a", b"b"),
        special("decimal", "one"),
        special("decimal", 1),
        special("uuid", b"1"),
        special("uuid", "1"),
        special("date", b"\x07\xe8\x01\x01"),
        special("date", 2024, 13, 1),
        special("date", 2024, 1),
        special("datetime", b"\x07\xe8\x01\x01\x00\x00\x00\x00\x00\x00", 0),
        special("datetime", 2024, 1, 1, 0, 0, 0, 0),
        special("datetime", 2024, 1, 1, 0, 0, 0, 0, 0, "../../etc/passwd"),
        special("datetime", 2024, 1, 1, 0, 0, 0, 0, 0, "No/Where"),
        special("datetime", 2024, 1, 1, 0, 0, 0, 0, 0, ["UTC"]),
        special("datetime", 2024, 1, 1, 0, 0, 0, 0, 0, 10**15, None),
        special("datetime", 2024, 1, 1, 0, 0, 0, 0, 0, 0, 1),
        special("datetime", 2024, 1, 1, 0, 0, 0, 0, 0, 0, None, 1),
        special("time", 25, 0, 0, 0, 0),
        special("timedelta", 10**12, 0, 0),
        special("timedelta", 1.5, 0, 0),
        special("set", [1]),
        special("set", 1, 1),
        special("frozenset", {}),
        special("dict", 1),
        special("dict", 1, 2, 1, 2),
        special("dict", [], 1),
        special("send", 1, None, None),
        special("send", "a", None, [-1.0, None, "auto"]),
        special("send", "a", None, ["a", None, "auto"]),
        special("send", "a"),
        special("interrupt", 1, 2, None),
        special("interrupt", 1, "a", ["a"]),
        special("interrupt", 1),
        special("overwrite"),
        special("snapshot", 1, 2),
        stored(ormsgpack.packb(ormsgpack.Ext(1, b"tuple"))),
        stored(ormsgpack.packb([1, ormsgpack.Ext(1, b"tuple")])),
        stored(ormsgpack.packb({"a": ormsgpack.Ext(1, b"tuple")})),
        stored(ormsgpack.packb([ormsgpack.Ext(2, b"tuple"), 1])),
        stored(b"\xc7\x05\xfftuple"),
        stored(b"\x81\x01\x01"),
        stored(b"\xa1\xff"),
        stored(b"\xdd\xff\xff\xff\xff"),
        stored(b"\xc6\xff\xff\xff\xff"),
        stored(b"\xc1"),
        stored(b""),
    ],
    ids=lambda row: row[1][4:].decode("latin-1").encode("unicode_escape").decode()[:60],
)
def test_a_row_that_the_serializer_would_not_write_is_corrupt(serializer: ClosedSerializer, row: tuple[str, bytes]):
    with pytest.raises(StoreCorrupt, match="left as it is") as caught:
        serializer.loads_typed(row)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_an_unknown_time_zone_is_not_looked_for(serializer: ClosedSerializer, monkeypatch: pytest.MonkeyPatch):
    berlin = special("datetime", 2024, 1, 1, 0, 0, 0, 0, 0, "Europe/Berlin")
    assert serializer.loads_typed(berlin).tzinfo == zoneinfo.ZoneInfo("Europe/Berlin")
    looked: list[str] = []
    monkeypatch.setattr(zoneinfo, "ZoneInfo", looked.append)
    for key in ("No/Where", "../../etc/passwd", "tzdata", ""):
        with pytest.raises(StoreCorrupt):
            serializer.loads_typed(special("datetime", 2024, 1, 1, 0, 0, 0, 0, 0, key))
    assert looked == []


@pytest.mark.parametrize("kind", ["record", "enum"])
def test_a_class_that_is_not_on_the_list_is_said_to_be_none_of_the_state(serializer: ClosedSerializer, kind: str):
    with pytest.raises(StoreCorrupt, match="not one of the state's"):
        serializer.loads_typed(special(kind, f"{__name__}.Stranger", {}))


@given(st.one_of(st.binary(), values.map(lambda value: ClosedSerializer(CLASSES).dumps_typed(value)[1][4:])), st.data())
@settings(max_examples=150)
def test_bytes_that_were_changed_are_corrupt_or_other_plain_data(packed: bytes, data: st.DataObject):
    changes = data.draw(st.lists(st.tuples(st.integers(0, max(len(packed) - 1, 0)), st.integers(0, 255)), max_size=4))
    changed = bytearray(packed)
    for place, byte in changes:
        if changed:
            changed[place] = byte
    end = data.draw(st.integers(0, len(changed)))
    serializer = ClosedSerializer(CLASSES)
    try:
        value = serializer.loads_typed(stored(bytes(changed[:end])))
    except StoreCorrupt:
        return
    assert serializer.dumps_typed(value)[0] == TAG  # it is something that could have been written


@given(st.text(), st.binary())
@example(TAG, b"")
def test_bytes_of_anybody_are_corrupt(tag: str, kept: bytes):
    with pytest.raises(StoreCorrupt):
        ClosedSerializer(CLASSES).loads_typed((tag, kept))


@given(values, st.data())
def test_damage_is_noticed_wherever_it_is(value: Any, data: st.DataObject):
    serializer = ClosedSerializer(CLASSES)
    _, kept = serializer.dumps_typed(value)
    bit = data.draw(st.integers(0, len(kept) * 8 - 1))
    damaged = bytearray(kept)
    damaged[bit // 8] ^= 1 << bit % 8
    torn = kept[: data.draw(st.integers(0, len(kept) - 1))]
    for row in (bytes(damaged), torn, kept + b"\0"):
        with pytest.raises(StoreCorrupt):
            serializer.loads_typed((TAG, row))


@pytest.mark.parametrize("kept", [bytearray, memoryview])
def test_every_type_of_bytes_of_a_driver_is_read(serializer: ClosedSerializer, kept: Any):
    tag, data = serializer.dumps_typed([1])
    assert serializer.loads_typed((tag, kept(data))) == [1]


# LangGraph on it


@pytest.mark.parametrize(
    "value",
    [
        Interrupt("a", id="1"),
        (Interrupt({"ask": (Fact("a"),)}, id="1", response_schema={"type": "object"}),),
        Send("node", {"a": (1,)}),
        Send("node", Fact("a"), timeout=TimeoutPolicy(run_timeout=1.5, idle_timeout=2, refresh_on="heartbeat")),
        Overwrite([Fact("a")]),
    ],
)
def test_what_langgraph_puts_into_checkpoints_comes_back(serializer: ClosedSerializer, value: Any):
    assert serializer.loads_typed(serializer.dumps_typed(value)) == value


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("not so"), "ValueError: not so"),
        (KeyError("\ud800"), r"KeyError: '\ud800'"),
        (ValueError("half \ud800"), r"ValueError: half \ud800"),
        (Unspeakable(), "Unspeakable: "),
    ],
)
def test_of_an_exception_the_name_and_the_message_are_kept_as_text(serializer: ClosedSerializer, error: Exception, told: str):
    assert serializer.loads_typed(serializer.dumps_typed(error)) == told


class Asked(TypedDict, total=False):
    question: Fact
    answers: Annotated[list[Any], operator.add]
    big: int
    pair: tuple[int, ...]


def asking(saver: InMemorySaver) -> Any:
    fails = iter([True, False])

    def ask(state: Asked) -> dict[str, Any]:
        first = interrupt({"about": state.get("question"), "options": ("a", "b")})
        second = interrupt(("and", first))
        return {"answers": [first, second], "big": 2**100, "pair": (1, 2)}

    def fan(state: Asked) -> Command[str]:
        return Command(goto=[Send("work", {"number": (number,)}) for number in range(3)])

    def work(state: Any) -> dict[str, Any]:
        return {"answers": [state["number"]]}

    def fail(state: Asked) -> dict[str, Any]:
        if next(fails):
            raise ValueError("not now")
        return {"answers": ["done"]}

    builder = StateGraph(Asked)
    builder.add_node("ask", ask)
    builder.add_node("fan", fan, destinations=("work",))
    builder.add_node("work", work)
    builder.add_node("fail", fail)
    for edge in ((START, "ask"), ("ask", "fan"), ("work", "fail"), ("fail", END)):
        builder.add_edge(*edge)
    return builder.compile(checkpointer=saver)


async def test_interrupts_sends_failures_and_resuming_work(caplog: pytest.LogCaptureFixture):
    graph = asking(InMemorySaver(serde=ClosedSerializer([Fact])))
    await graph.ainvoke({"question": Fact("why", ("x",))}, THREAD)
    waiting = await graph.aget_state(THREAD)
    assert [one.value for one in waiting.tasks[0].interrupts] == [{"about": Fact("why", ("x",)), "options": ("a", "b")}]
    await graph.ainvoke(Command(resume=("yes", 2**80)), THREAD)
    assert (await graph.aget_state(THREAD)).tasks[0].interrupts[0].value == ("and", ("yes", 2**80))
    with pytest.raises(ValueError, match="not now"):
        await graph.ainvoke(Command(resume="no"), THREAD)
    failed = await graph.aget_state(THREAD)
    assert failed.tasks[0].error == "ValueError: not now"
    done = await graph.ainvoke(None, THREAD)
    assert done == {
        "question": Fact("why", ("x",)),
        "answers": [("yes", 2**80), "no", (0,), (1,), (2,), "done"],
        "big": 2**100,
        "pair": (1, 2),
    }
    history = [state.values async for state in graph.aget_state_history(THREAD)]
    assert history[0] == done
    assert caplog.records == []


def joined(log: list[Any], more: Sequence[Any]) -> list[Any]:
    return [*log, *(item for items in more for item in items)]


class Log(TypedDict, total=False):
    log: Annotated[list[Any], DeltaChannel(joined, snapshot_frequency=2)]


async def test_channels_of_differences_work():
    def write(state: Any) -> dict[str, Any]:
        return {"log": [Fact(str(len(state["log"])), ("t",))]}

    builder = StateGraph(Log)
    builder.add_node("write", write)
    builder.add_edge(START, "write")
    graph: Any = builder.compile(checkpointer=InMemorySaver(serde=ClosedSerializer([Fact])))
    for turn in range(5):
        await graph.ainvoke({"log": [(turn,)]}, THREAD)
    state = await graph.ainvoke({"log": [(5,)]}, THREAD)
    assert len(state["log"]) == 12
    assert (await graph.aget_state(THREAD)).values["log"] == state["log"]
    assert state["log"][:2] == [(0,), Fact("1", ("t",))]


def test_a_nan_is_a_nan(serializer: ClosedSerializer):
    assert math.isnan(serializer.loads_typed(serializer.dumps_typed({"a": [math.nan]}))["a"][0])
    assert serializer.loads_typed(serializer.dumps_typed(uuid.UUID(int=1))) == uuid.UUID(int=1)


@pytest.mark.parametrize(("wrote", "reads"), [("a" * 64, "b" * 64), ("a" * 64, ""), ("", "b" * 64)])
def test_what_was_written_for_another_graph_is_incompatible_with_any_content(wrote: str, reads: str):
    kept = ClosedSerializer((Colour,), seal=wrote).dumps_typed(Colour(next(iter(Colour))))
    assert ClosedSerializer((Colour,), seal=wrote).loads_typed(kept) == Colour(next(iter(Colour)))
    with pytest.raises(StateIncompatible):
        ClosedSerializer(seal=reads).loads_typed(kept)
