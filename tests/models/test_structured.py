"""A pydantic class becomes a schema that strict servers take, and what a model says in that shape becomes the class again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from interlock.errors import ModelOutputInvalid
from interlock.models.structured import StructuredOutput
from interlock_agents.analyst.plan import PlannerDecision, Summary
from interlock_agents.desk.roles import PlannerResponse, SpecialistResponse
from interlock_agents.puntini.spec import ParsedGoal, StepPlan
from tests.support.strict_schema import fitted, violations


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Cat(Strict):
    kind: Literal["cat"]
    lives: int = 9


class Dog(Strict):
    kind: Literal["dog"]
    tricks: dict[str, list[str]] = {}


class Tree(Strict):
    name: str
    below: list[Tree] = []
    parent: Tree | None = None


class Zoo(Strict):
    """All that a schema can have."""

    name: Annotated[str, Field(min_length=1, max_length=40, description="what it is called")] = "Zoo"
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    other: Cat | Dog | None = None
    anything: Any = None
    some: list[Any] = []
    data: dict[str, JsonValue] = {}
    counts: dict[str, int] | None = None
    keyed: dict[Annotated[str, Field(pattern="^[a-z]+$")], Cat] = {}
    pair: tuple[int, str] = (1, "a")
    tree: Tree | None = None
    number: Annotated[float, Field(ge=0, le=1)] | Literal["all"] = 1.0
    flag: bool = False


CLASSES: list[type[BaseModel]] = [
    *(Zoo, Tree, Cat),
    *(PlannerDecision, Summary, PlannerResponse, SpecialistResponse, ParsedGoal, StepPlan),
]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_schema_of_the_agents_is_strict(kind: type[BaseModel]) -> None:
    schema = StructuredOutput(kind).schema
    assert violations(schema) == []
    assert schema["title"] == kind.__name__


def test_schemas_of_pydantic_are_not_strict() -> None:
    """The rules of the test are worth something: they refuse what OpenAI refuses."""
    found = violations(Zoo.model_json_schema())
    assert any("'additionalProperties' is required to be supplied and to be false" in one for one in found)
    assert any("'default' is not permitted" in one for one in found)
    assert any("'oneOf' is not permitted" in one for one in found)
    assert any("Missing 'lives'" in one for one in found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5) | st.floats(-1, 1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
CATS = st.fixed_dictionaries({"kind": st.just("cat")}, optional={"lives": st.integers()})
DOGS = st.fixed_dictionaries(
    {"kind": st.just("dog")},
    optional={"tricks": st.dictionaries(st.text(max_size=3), st.lists(st.text(max_size=3), max_size=2), max_size=2)},
)


def _tree(name: str, more: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, **more}


def _more(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=2).map(lambda below: {"below": below}) | inner.map(lambda parent: {"parent": parent})


TREES: st.SearchStrategy[Any] = st.recursive(
    st.fixed_dictionaries({"name": st.text(max_size=3)}),
    lambda inner: st.builds(_tree, st.text(max_size=3), _more(inner)),
    max_leaves=4,
)
ZOOS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"pet": CATS | DOGS},
    optional={
        "name": st.text(min_size=1, max_size=5),
        "other": CATS | DOGS | st.none(),
        "anything": JSON,
        "some": st.lists(JSON, max_size=3),
        "data": st.dictionaries(st.text(max_size=4), JSON, max_size=3),
        "counts": st.dictionaries(st.text(max_size=3), st.integers(), max_size=2) | st.none(),
        "keyed": st.dictionaries(st.sampled_from(["a", "b"]), CATS, max_size=2),
        "pair": st.tuples(st.integers(), st.text(max_size=3)).map(list),
        "tree": TREES | st.none(),
        "number": st.floats(0, 1) | st.just("all"),
        "flag": st.booleans(),
    },
)


@given(value=ZOOS)
def test_values_in_the_strict_form_are_converted_back(value: dict[str, Any]) -> None:
    structured = StructuredOutput(Zoo)
    expected = Zoo.model_validate_json(json.dumps(value))
    closed = json.dumps(fitted(value, structured.schema))
    assert structured.read(closed, Zoo) == expected
    assert Zoo.model_validate_json(structured.as_class_json(closed)) == expected


@given(value=ZOOS)
def test_values_in_the_original_form_are_accepted(value: dict[str, Any]) -> None:
    assert StructuredOutput(Zoo).read(json.dumps(value), Zoo) == Zoo.model_validate_json(json.dumps(value))


@given(text=st.text(max_size=40) | JSON.map(json.dumps))
def test_any_answer_is_an_instance_or_a_typed_error(text: str) -> None:
    structured = StructuredOutput(Zoo)
    try:
        structured.read(text, Zoo)
    except ModelOutputInvalid as error:
        assert "is not a 'Zoo'" in str(error)  # noqa: PT017 - both are right
    assert isinstance(structured.as_class_json(text), str)


WRONG: Mapping[str, tuple[Any, str]] = {
    "a name twice": ({"pet": {"kind": "cat"}, "data": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]}, "not valid JSON"),
    "no JSON in a text": ({"pet": {"kind": "cat"}, "anything": {"json_text": "{"}}, "not valid JSON"),
    "no such kind": ({"pet": {"kind": "cow"}}, "'pet'"),
    "a text for a number": ({"pet": {"kind": "cat", "lives": "9"}}, "'pet.cat.lives'"),
    "an unknown key": ({"pet": {"kind": "cat"}, "wings": 2}, "'wings'"),
    "too long": ({"pet": {"kind": "cat"}, "name": "x" * 41}, "'name'"),
}


@pytest.mark.parametrize(("value", "reason"), WRONG.values(), ids=WRONG.keys())
def test_the_error_has_place_and_reason_without_the_value(value: Any, reason: str) -> None:
    with pytest.raises(ModelOutputInvalid) as raised:
        StructuredOutput(Zoo).read(json.dumps(value), Zoo)
    assert reason in str(raised.value)
    assert "x" * 41 not in str(raised.value)
