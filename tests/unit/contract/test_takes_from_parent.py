"""Fields that only a graph may set that this one is granted to: nobody else can, by any way in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pytest
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, Subgraph, node
from interlock.engine import EngineName
from interlock.errors import ContractError, ContractViolation, InputSchema


@dataclass
class Inner:
    asked: str = ""
    sent: str = ""
    origin: Literal["outside", "inside"] = "outside"
    said: str = ""


class Said(Outcome):
    said: str


async def answer(asked: str, sent: str, origin: str) -> Said:
    return Said(said=f"{origin}: {sent or asked}")


def inner(**more: Any) -> Graph:
    given: dict[str, Any] = {"takes": ("asked",), "takes_from_parent": ("sent", "origin"), "gives": "said"} | more
    return Graph("inner", state=Inner, entry=answer, nodes=[node(answer, goes={Said: END})], **given)


class Outer(TypedDict, total=False):
    text: str
    found: str


class Found(Outcome):
    found: str


class Side(Capability, Protocol):
    async def ask(self, sent: str) -> str: ...


class Loose(Capability, Protocol):
    async def ask(self, sent: str, origin: Literal["outside", "inside"]) -> str: ...


async def look(text: str, *, side: Side) -> Found:
    return Found(found=await side.ask(text))


async def look_loosely(text: str, *, side: Loose) -> Found:
    return Found(found=await side.ask(text, "elsewhere" if text == "wrong" else "inside"))  # pyright: ignore[reportArgumentType] - tried


def outer(run: Any = look) -> Graph:
    return Graph("outer", state=Outer, entry=run, nodes=[node(run, goes={Found: END})], takes=("text",), gives="found")


def app(engine: EngineName) -> Interlock:
    return Interlock(Settings(engine=engine), grants={Side: Subgraph(inner(), origin="inside")})


async def test_the_graph_around_it_sets_them(engine: EngineName):
    result = await app(engine).run(outer(), "hello")
    assert (result.output, result.path) == ("inside: hello", ("look", "look/answer"))


@pytest.mark.parametrize("field", ["sent", "origin", "said"])
async def test_other_callers_cannot_set_it(engine: EngineName, field: str):
    graph = inner()
    running = app(engine)
    assert (await running.run(graph, "hello")).output == "outside: hello"
    for given in ({field: "inside"}, {"asked": "hello", field: "inside"}):
        with pytest.raises(InputSchema, match=f"Field '{field}' cannot be set from outside; this graph takes 'asked'"):
            await running.run(graph, given)
        with pytest.raises(InputSchema):
            graph.state.parse_input(given)


async def test_langgraph_does_not_either():
    compiled: Any = app("langgraph").langgraph(inner())
    assert [*compiled.get_input_jsonschema()["properties"]] == ["asked"]
    final = await compiled.ainvoke({"asked": "hello", "sent": "forged", "origin": "inside"})
    assert final["said"] == "outside: hello"


def test_from_inside_only_what_is_open_is_taken():
    state = inner().state
    assert state.parse_input({"sent": "x", "origin": "inside"}, inside=True) == {"sent": "x", "origin": "inside"}
    assert state.parse_input({"asked": "x"}, inside=True) == {"asked": "x"}
    for given in ({"said": "x"}, {"other": "x"}, {"sent": 5}, {"origin": "elsewhere"}):
        with pytest.raises(InputSchema):
            state.parse_input(given, inside=True)


async def test_a_value_of_another_type_is_a_breach(engine: EngineName):
    running = Interlock(Settings(engine=engine), grants={Loose: Subgraph(inner())})
    assert (await running.run(outer(look_loosely), "hello")).output == "inside: hello"
    result = await running.run(outer(look_loosely), "wrong")
    assert result.error is not None
    assert result.error.code == ContractViolation.code


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"takes_from_parent": ("asked",)}, "taken_twice"),
        ({"takes": None, "takes_from_parent": ("sent",)}, "taken_twice"),
        ({"takes_from_parent": ("snt",)}, "unknown_field"),
    ],
)
def test_a_field_is_open_to_all_callers_or_to_graphs_alone(more: dict[str, Any], rule: str):
    with pytest.raises(ContractError) as refused:
        inner(**more)
    assert [problem.rule for problem in refused.value.problems] == [rule]


async def test_what_is_fixed_has_to_be_open_and_of_its_type(engine: EngineName):
    for fixed in ({"said": "x"}, {"origin": "elsewhere"}, {"other": 1}):
        running = Interlock(Settings(engine=engine), grants={Side: Subgraph(inner(), **fixed)})
        with pytest.raises(ContractError) as refused:
            await running.run(outer(), "hello")
        assert {problem.rule for problem in refused.value.problems} == {"bad_subgraph"}


def test_it_is_part_of_the_contract():
    one, other, none = inner(), inner(takes_from_parent=("sent",)), inner(takes_from_parent=())
    assert len({one.fingerprint, other.fingerprint, none.fingerprint}) == 3
    assert one.fingerprint == inner().fingerprint
