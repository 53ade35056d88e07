from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field, field_validator, model_validator

from interlock import END, Control, Graph, Interlock, Outcome, Settings, Untrusted, node
from interlock.engine import EngineName
from interlock.errors import ContractError, Problem

if TYPE_CHECKING:
    from fractions import Fraction


class Done(Outcome):
    pass


async def finish() -> Done:
    return Done()


def letters(state: Any) -> Graph:
    return Graph("letters", state=state, entry=finish, nodes=[node(finish, goes={Done: END})])


def only_problem(build: Callable[[], object]) -> Problem:
    with pytest.raises(ContractError) as caught:
        build()
    (problem,) = caught.value.problems
    return problem


class Client:
    pass


def latest(_old: Any, new: Any) -> Any:
    return new


class Unresolvable(TypedDict):
    text: str
    ratio: Fraction


class UnresolvableModel(BaseModel):
    text: str
    ratio: Fraction


class HoldsClient(TypedDict):
    client: Client


class HoldsCallable(TypedDict):
    by_name: dict[str, Client]


class TwoReducers(TypedDict):
    log: Annotated[list[str], operator.add, latest]


@dataclass
class UnseenDefault:
    log: Annotated[list[str], operator.add] = field(default_factory=lambda: ["begun"])


class OpenControl(TypedDict):
    step: Annotated[str, Control]


class HalfOpenControl(TypedDict):
    step: Annotated[Literal["a", "b"] | int, Control]


class FieldValidated(BaseModel):
    text: str = ""

    @field_validator("text")
    @classmethod
    def _strip(cls, value: str) -> str:
        return value.strip()


class ModelValidated(BaseModel):
    text: str = ""

    @model_validator(mode="after")
    def _check(self) -> ModelValidated:
        return self


@dataclass
class Parent:
    text: str = ""


class Undecorated(Parent):
    note: str


@dataclass
class HasInitOnly:
    given: InitVar[int]
    text: str = ""


class Reserved(TypedDict, total=False):
    configurable: str


@dataclass
class WrongDefault:
    text: str = ""
    size: int = "many"  # pyright: ignore[reportAssignmentType]


class WrongModelDefault(BaseModel):
    text: str = ""
    sizes: list[int] = Field(default_factory=lambda: ["many"])  # pyright: ignore[reportAssignmentType]


CASES: list[tuple[str, object, str | None, str]] = [
    ("not_a_state", int, None, "'int'"),
    ("not_a_state", Client, None, "'Client'"),
    ("not_a_state", {"text": str}, None, "{'text'"),
    ("unresolved_annotation", Unresolvable, "ratio", "'Fraction'"),
    ("unresolved_annotation", UnresolvableModel, "ratio", "'Fraction'"),
    ("not_data", HoldsClient, "client", "'Client'"),
    ("not_data", HoldsCallable, "by_name", "'dict[str, Client]'"),
    ("two_reducers", TwoReducers, "log", "more than one reducer"),
    ("reducer_default", UnseenDefault, "log", "never used"),
    ("open_control", OpenControl, "step", "'str'"),
    ("open_control", HalfOpenControl, "step", "Literal['a', 'b'] | int"),
    ("state_validators", FieldValidated, None, "'FieldValidated'"),
    ("state_validators", ModelValidated, None, "'ModelValidated'"),
    ("not_a_field", Undecorated, "note", "'Undecorated'"),
    ("not_a_field", HasInitOnly, "given", "'HasInitOnly'"),
    ("name_taken", Reserved, "configurable", "LangGraph"),
    ("bad_default", WrongDefault, "size", "'int'"),
    ("bad_default", WrongModelDefault, "sizes", "'list[int]'"),
]


@pytest.mark.parametrize(("rule", "state", "name", "says"), CASES)
def test_a_state_that_breaks_a_rule_stops_the_graph(rule: str, state: object, name: str | None, says: str):
    problem = only_problem(lambda: letters(state))
    message = str(problem)
    assert (problem.rule, problem.graph, problem.node, problem.field) == (rule, "letters", None, name)
    assert "graph 'letters'" in message
    assert name is None or f"field '{name}'" in message
    assert says in message
    assert problem.fix
    assert message.endswith(f"Fix: {problem.fix}")


class Everything(TypedDict):
    client: Client
    step: Annotated[str, Control]
    log: Annotated[list[str], operator.add, latest]
    ratio: Fraction


def test_all_problems_of_a_state_are_reported_at_once():
    with pytest.raises(ContractError) as caught:
        letters(Everything)
    assert {(problem.rule, problem.field) for problem in caught.value.problems} == {
        ("not_data", "client"),
        ("open_control", "step"),
        ("two_reducers", "log"),
        ("unresolved_annotation", "ratio"),
    }


class Good(BaseModel):
    shared: ClassVar[str] = "not a field"
    text: Annotated[str, Untrusted] = ""
    step: Annotated[Literal["a", "b"] | None, Control] = None
    log: Annotated[list[str], operator.add] = Field(default_factory=list[str])
    _private: int = 0


def test_class_variables_and_private_attributes_are_not_fields():
    assert list(letters(Good).state.fields) == ["text", "step", "log"]


def test_labels_and_reducers_are_known_from_the_annotation():
    fields = letters(Good).state.fields
    assert fields["text"].labels == (Untrusted,)
    assert fields["step"].labels == (Control,)
    assert fields["log"].reducer is operator.add
    assert fields["text"].reducer is None


class PartialReducer(TypedDict, total=False):
    log: Annotated[list[str], functools.partial(operator.add)]


async def test_a_reducer_needs_no_name(engine: EngineName):
    graph = letters(PartialReducer)
    result = await Interlock(Settings(engine=engine)).run(graph, {"log": ["a"]})
    assert result.state == {"log": ["a"]}
