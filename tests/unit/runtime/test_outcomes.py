from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.types import Command
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypedDict

from interlock import END, Graph, Interlock, Outcome, Settings, TurnResult, node
from interlock.engine import EngineName


@dataclass
class Address:
    street: str
    number: int


class Person(BaseModel):
    name: str
    age: int = 0


@dataclass
class Household:
    people: list[Person]


class Mailbox(BaseModel):
    address: Address


class Entry(TypedDict):
    person: Person


class Pair(NamedTuple):
    person: Person
    number: int


class Tags(RootModel[list[str]]):
    pass


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


class Card(TypedDict, total=False):
    text: str
    kind: Literal["short", "long"]
    size: int
    ratio: float
    names: list[str]
    counts: dict[str, int]
    short: Annotated[str, Field(max_length=3)]
    address: Address
    person: Person
    people: dict[str, list[Person]]
    household: Household
    mailbox: Mailbox
    entry: Entry
    pair: Pair
    pairs: list[Pair | Person]
    tags: Tags
    open: Open


class Made(Outcome):
    text: str


class Remade(Made):
    """A made of another class with the same fields."""


class Other(Outcome):
    text: str


async def turn(engine: EngineName, make: Callable[[], object], outcome: type[Outcome] = Made) -> TurnResult:
    """Run a node that returns whatever it likes."""

    async def work() -> Any:
        return make()

    work.__annotations__["return"] = outcome
    graph = Graph("cards", state=Card, entry=work, nodes=[node(work, goes={outcome: END})])
    return await Interlock(Settings(engine=engine)).run(graph, {"size": 7})


def assert_refused(result: TurnResult, *says: str):
    assert result.status == "error"
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("contract_violation", "work")
    assert all(part in result.error.message for part in says)
    assert result.state == {"size": 7}
    assert result.path == ("work",)


async def test_a_declared_outcome_is_written(engine: EngineName):
    result = await turn(engine, lambda: Made(text="hello"))
    assert result.error is None
    assert result.state == {"text": "hello", "size": 7}


@pytest.mark.parametrize(
    "returned",
    [
        Remade(text="a subclass"),
        Other(text="undeclared"),
        None,
        {"text": "a dict"},
        "text",
        Made,
        Command(update={"text": "forged"}, goto="elsewhere"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_anything_but_exactly_a_declared_outcome_is_refused(engine: EngineName, returned: object):
    assert_refused(await turn(engine, lambda: returned), f"'{type(returned).__name__}'", "'Made'")


def smuggled() -> Made:
    outcome = Made(text="declared")
    object.__setattr__(outcome, "size", 1)
    return outcome


def gutted() -> Made:
    outcome = Made(text="declared")
    object.__delattr__(outcome, "text")
    return outcome


async def test_an_attribute_smuggled_into_an_outcome_is_refused(engine: EngineName):
    assert_refused(await turn(engine, smuggled), "'size'")


async def test_an_outcome_that_lost_a_field_is_refused(engine: EngineName):
    assert_refused(await turn(engine, gutted), "'text'")


def outcome_of(field: str) -> type[Outcome]:
    """Make the outcome that writes one field of the card."""
    hint = Card.__annotations__[field]
    return type("Written", (Outcome,), {"__annotations__": {field: hint}, "__module__": __name__})


async def write(engine: EngineName, field: str, value: object) -> TurnResult:
    outcome: Any = outcome_of(field)
    return await turn(engine, lambda: outcome(**{field: value}), outcome)


def changed(model: BaseModel, **values: object) -> Any:
    """Change a model past its validation."""
    for name, value in values.items():
        setattr(model, name, value)
    return model


ANY: Any = "not a number"


def _mailbox() -> Mailbox:
    mailbox = Mailbox(address=Address("High Street", 1))
    mailbox.address.number = ANY
    return mailbox


BAD: list[tuple[str, object]] = [
    ("text", 1),
    ("text", b"bytes"),
    ("text", None),
    ("kind", "other"),
    ("kind", ""),
    ("size", "1"),
    ("size", 1.0),
    ("size", True),
    ("ratio", "0.5"),
    ("names", ("a",)),
    ("names", [1]),
    ("names", "abc"),
    ("counts", {"a": "1"}),
    ("counts", {1: 1}),
    ("short", "four"),
    ("address", Address("High Street", ANY)),
    ("address", {"street": "High Street", "number": 1}),
    ("person", changed(Person(name="Ada"), age=ANY)),
    ("person", changed(Person(name="Ada"), name=None)),
    ("people", {"all": [changed(Person(name="Ada"), age=ANY)]}),
    ("entry", {"person": changed(Person(name="Ada"), age=ANY)}),
    ("person", {"name": "Ada", "age": "36"}),
    ("household", Household([changed(Person(name="Ada"), age=ANY)])),
    ("pair", Pair(changed(Person(name="Ada"), age=ANY), 1)),
    ("mailbox", _mailbox()),
]


@pytest.mark.parametrize(("field", "value"), BAD, ids=[f"{field}-{value!r}" for field, value in BAD])
async def test_a_value_that_is_not_of_the_fields_type_is_refused(engine: EngineName, field: str, value: object):
    assert_refused(await write(engine, field, value))


GOOD: list[tuple[str, object]] = [
    ("kind", "long"),
    ("ratio", 0.5),
    ("address", Address("High Street", 1)),
    ("person", Person(name="Ada", age=36)),
    ("people", {"all": [Person(name="Ada")]}),
    ("household", Household([Person(name="Ada")])),
    ("entry", {"person": Person(name="Ada")}),
    ("pair", Pair(Person(name="Ada"), 1)),
    ("mailbox", Mailbox(address=Address("High Street", 1))),
    ("tags", Tags(["a"])),
    ("open", Open.model_validate({"name": "Ada", "more": 1})),
    ("pairs", [Pair(Person(name="Ada"), 1)]),
]


@pytest.mark.parametrize(("field", "value"), GOOD, ids=[field for field, _ in GOOD])
async def test_a_value_of_the_fields_type_is_written_as_it_is(engine: EngineName, field: str, value: object):
    result = await write(engine, field, value)
    assert result.error is None
    assert result.state == {field: value, "size": 7}
    assert type(result.state[field]) is type(value)


async def test_what_is_wrong_is_reported_without_the_value(engine: EngineName):
    result = await write(engine, "kind", "hunter2")
    assert_refused(result, "'kind'")
    assert "hunter2" not in str(result.to_json())


LONE: list[tuple[str, object]] = [
    ("text", "\ud800"),
    ("names", ["fine", "not \udfff fine"]),
    ("counts", {"\ud800": 1}),
    ("address", Address("\ud800", 1)),
    ("person", Person.model_construct(name="\ud800")),
]


@pytest.mark.parametrize(("field", "value"), LONE, ids=[field for field, _ in LONE])
async def test_a_lone_surrogate_is_refused_wherever_there_is_text(engine: EngineName, field: str, value: object):
    assert_refused(await write(engine, field, value))


class Echoed(TypedDict, total=False):
    text: str
    seen: str


class Seen(Outcome):
    seen: str


async def see_text(text: str) -> Seen:
    return Seen(seen=text)


echo = Graph("echo", state=Echoed, entry=see_text, nodes=[node(see_text, goes={Seen: END})])


@functools.cache
def running(engine: EngineName) -> Interlock:
    return Interlock(Settings(engine=engine))


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
async def test_any_text_is_written_as_it_is(engine: EngineName, text: str):
    result = await running(engine).run(echo, {"text": text})
    assert result.state == {"text": text, "seen": text}


def marked(text: str) -> str:
    return f"{text}!"


class Marked(TypedDict, total=False):
    text: Annotated[str, AfterValidator(marked)]
    seen: str


async def write_text() -> Made:
    return Made(text="a")


async def test_a_fields_own_validator_runs_once_for_each_write(engine: EngineName):
    graph = Graph(
        "marked", state=Marked, entry=write_text, nodes=[node(write_text, goes={Made: see_text}), node(see_text, goes={Seen: END})]
    )
    result = await Interlock(Settings(engine=engine)).run(graph, {"seen": ""})
    assert result.state == {"text": "a!", "seen": "a!"}
