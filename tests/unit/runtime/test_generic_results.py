"""Methods that return what they are asked for: `decide(..., schema=Answer)` gives an Answer, or a typed error."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Protocol, TypedDict, TypeVar, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, field_validator, model_validator

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, TurnResult, node
from interlock.capabilities import Decision, Message, Model
from interlock.engine import EngineName
from interlock.runtime.events import Event
from interlock.testing import ScriptedModel

T = TypeVar("T", bound=BaseModel)
A = TypeVar("A")
ASK = [Message(role="user", text="?")]


class Talk(TypedDict, total=False):
    text: str
    out: str


class Done(Outcome):
    out: str


class Plain(BaseModel):
    way: str
    certainty: float = 0.5


class Color(enum.Enum):
    RED = "red"


class Aliased(BaseModel):
    kind: str = Field(alias="type")
    inner_part: Plain = Field(alias="innerPart")


class Nested(BaseModel):
    color: Color
    when: date
    price: Decimal
    parts: dict[str, list[Plain]]
    either: Annotated[Left | Right, Field(discriminator="side")]


class Left(BaseModel):
    side: Literal["left"] = "left"


class Right(BaseModel):
    side: Literal["right"] = "right"
    far: int


class Computed(BaseModel):
    width: int

    @computed_field
    @property
    def double(self) -> int:
        return self.width * 2


class Checked(BaseModel):
    tags: list[str]

    @field_validator("tags", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return value.split(",") if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> Checked:
        if not self.tags:
            raise ValueError("no tags")
        return self


class Listed(RootModel[list[int]]):
    pass


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)
    pair: tuple[int, str]


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Raw(BaseModel):
    blob: bytes


class Box(BaseModel, Generic[A]):
    content: A


VALUES: list[BaseModel] = [
    Plain(way="left"),
    Aliased.model_validate({"type": "a", "innerPart": {"way": "b"}}),
    Nested(color=Color.RED, when=date(2026, 1, 1), price=Decimal("1.10"), parts={"a": [Plain(way="x")]}, either=Right(far=1)),
    Computed(width=2),
    Checked.model_validate({"tags": "a,b"}),
    Listed([1, 2]),
    Open.model_validate({"name": "n", "more": [1]}),
    Frozen(pair=(1, "a")),
    Tree(name="a", children=[Tree(name="b")]),
    Raw(blob=b"\xff"),
    Box[int](content=1),
]


def graph_of(schema: type[BaseModel]) -> Graph:
    async def decide(text: str, *, model: Model) -> Done:
        decision = await model.decide(ASK, schema=schema)
        assert type(decision.value) is schema
        return Done(out=repr(decision.value))

    return Graph("talk", state=Talk, entry=decide, nodes=[node(decide, goes={Done: END})], takes=["text"], gives="out")


async def take(engine: EngineName, graph: Graph, grants: dict[type, object], **options: Any) -> TurnResult:
    return await Interlock(Settings(engine=engine), grants=grants).run(graph, "x", **options)


def code(result: TurnResult) -> str | None:
    return None if result.error is None else result.error.code


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
async def test_a_decision_of_any_class_reaches_the_node_as_it_was(engine: EngineName, value: BaseModel):
    result = await take(engine, graph_of(type(value)), {Model: ScriptedModel(value)})
    assert (code(result), result.output) == (None, repr(value))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
async def test_a_decision_of_any_class_can_be_written_down_and_replayed(engine: EngineName, value: BaseModel, tmp_path: Path):
    """Pydantic classes with aliases and computed fields are everyday ones for what a model is asked for."""
    path, graph = tmp_path / "turn", graph_of(type(value))
    result = await take(engine, graph, {Model: ScriptedModel(value)}, record=path)
    assert (code(result), result.output) == (None, repr(value))
    again = await Interlock(Settings(engine=engine)).replay(path, graph=graph)
    assert (again.differences, again.result.output) == ((), repr(value))


class Says:
    """Returns whatever it has."""

    def __init__(self, value: Any) -> None:
        self._value = value

    async def decide(self, messages: Sequence[Message], *, schema: type[Any]) -> Any:
        return self._value

    async def reply(self, messages: Sequence[Message], *, tools: Any = (), schema: Any = None) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Sequence[Message], *, tools: Any = ()) -> Any:
        raise NotImplementedError
        yield


WRONG: tuple[Any, ...] = (
    None,
    Plain(way="hunter2"),
    Decision(value=Listed([1])),
    cast("Any", Decision)(value=None),
    Decision(value=Plain.model_construct(way=5)),
    Decision(value=Plain.model_construct(certainty=1.0)),
    {"value": Plain(way="hunter2")},
)


@pytest.mark.parametrize("value", WRONG, ids=repr)
async def test_what_is_not_of_the_class_that_was_asked_for_is_refused(engine: EngineName, value: Any):
    result = await take(engine, graph_of(Plain), {Model: Says(value)})
    assert code(result) == "capability_result_invalid"
    assert "hunter2" not in str(result.to_json())


async def test_a_model_that_says_something_else_is_model_output_invalid(engine: EngineName):
    assert code(await take(engine, graph_of(Plain), {Model: ScriptedModel("no json")})) == "model_output_invalid"
    assert code(await take(engine, graph_of(Plain), {Model: ScriptedModel({"way": ["x"]})})) == "model_output_invalid"


async def decide_two(text: str, *, model: Model) -> Done:
    first = await model.decide(ASK, schema=Plain)
    second = await model.decide(ASK, schema=Computed)
    third = await model.decide(messages=ASK, schema=Plain)
    return Done(out=f"{first.value} {second.value} {third.value}")


async def test_one_method_gives_what_each_call_asks_for(engine: EngineName, tmp_path: Path):
    graph = Graph("talk", state=Talk, entry=decide_two, nodes=[node(decide_two, goes={Done: END})], takes=["text"], gives="out")
    model = ScriptedModel(Plain(way="a"), Computed(width=1), Plain(way="b"))
    result = await take(engine, graph, {Model: model})
    assert (code(result), result.output) == (None, "way='a' certainty=0.5 width=1 double=2 way='b' certainty=0.5")


async def test_equal_names_of_different_classes_are_not_mixed_up(engine: EngineName):
    def make(kind: type) -> type[BaseModel]:
        class Answer(BaseModel):
            value: kind  # pyright: ignore[reportInvalidTypeForm]

        return Answer

    numbers, words = make(int), make(str)

    async def decide(text: str, *, model: Model) -> Done:
        first = await model.decide(ASK, schema=numbers)
        second = await model.decide(ASK, schema=words)
        return Done(out=f"{first.value} {second.value}")

    graph = Graph("talk", state=Talk, entry=decide, nodes=[node(decide, goes={Done: END})], takes=["text"], gives="out")
    model = ScriptedModel(numbers.model_validate({"value": 1}), words.model_validate({"value": "a"}))
    assert (await take(engine, graph, {Model: model})).output == "value=1 value='a'"


class Reader(Capability, Protocol):
    async def read(self, kind: type[A], text: str) -> A: ...
    async def maybe(self, kind: type[A], text: str) -> A | None: ...
    async def many(self, text: str, *, kind: type[A]) -> list[A]: ...


@dataclass
class Page:
    title: str
    size: int


class RealReader:
    def __init__(self, value: Any) -> None:
        self._value = value

    async def read(self, kind: type[Any], text: str) -> Any:
        return self._value

    async def maybe(self, kind: type[Any], text: str) -> Any:
        return self._value

    async def many(self, text: str, *, kind: type[Any]) -> Any:
        return self._value


async def read(text: str, *, reader: Reader) -> Done:
    return Done(out=repr(await reader.read(Page, text)))


async def maybe(text: str, *, reader: Reader) -> Done:
    return Done(out=repr(await reader.maybe(Page, text)))


async def many(text: str, *, reader: Reader) -> Done:
    return Done(out=repr(await reader.many(text, kind=Page)))


PAGE = Page("a", 1)


@pytest.mark.parametrize(
    ("run", "value", "wanted"),
    [
        (read, PAGE, None),
        (read, None, "capability_result_invalid"),
        (read, Page("a", "b"), "capability_result_invalid"),  # pyright: ignore[reportArgumentType]
        (maybe, PAGE, None),
        (maybe, None, None),
        (maybe, 5, "capability_result_invalid"),
        (many, [PAGE, PAGE], None),
        (many, [], None),
        (many, [PAGE, 1], "capability_result_invalid"),
        (many, PAGE, "capability_result_invalid"),
    ],
)
async def test_other_shapes_of_what_is_asked_for_are_validated_too(
    engine: EngineName, run: Any, value: Any, wanted: str | None, tmp_path: Path
):
    graph = Graph("talk", state=Talk, entry=run, nodes=[node(run, goes={Done: END})], takes=["text"], gives="out")
    for record in (None, tmp_path / "turn"):
        result = await take(engine, graph, {Reader: RealReader(value)}, record=record)
        assert code(result) == wanted
        assert wanted or result.output == repr(value)
    assert (await Interlock(Settings(engine=engine)).replay(tmp_path / "turn", graph=graph)).differences == ()


async def ask_for_nonsense(text: str, *, model: Any) -> Done:
    asked: Any = {"none": None, "text": "Plain", "dict": {"a": 1}, "instance": Plain(way="x"), "union": int | str}[text]
    return Done(out=repr(await model.decide(ASK, schema=asked)))


ask_for_nonsense.__annotations__["model"] = Model


@pytest.mark.parametrize("text", ["none", "text", "dict", "instance", "union"])
async def test_asking_for_what_is_no_class_is_typed(engine: EngineName, text: str, tmp_path: Path):
    rows = [node(ask_for_nonsense, goes={Done: END})]
    graph = Graph("talk", state=Talk, entry=ask_for_nonsense, nodes=rows, takes=["text"], gives="out")
    for record in (None, tmp_path / "turn"):
        app = Interlock(Settings(engine=engine), grants={Model: Says(Decision(value=Plain(way="x")))})
        result = await app.run(graph, text, record=record)
        assert code(result) not in {None, "internal"}


async def test_the_events_of_a_decision_name_the_class_and_carry_the_value(engine: EngineName):
    events: list[Event] = []
    await take(engine, graph_of(Plain), {Model: ScriptedModel(Plain(way="left"))}, on_event=events.append)
    start, end = [event["data"] for event in events if event["name"] == "Model.decide"]
    assert "Plain" in start["input"][1]
    assert " at 0x" not in str(start)
    assert end["output"] == {"value": {"way": "left", "certainty": 0.5}, "model": "scripted", "usage": None}
