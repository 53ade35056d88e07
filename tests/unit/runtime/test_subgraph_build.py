"""A graph that cannot stand behind a capability is refused before anything runs, and the error says why and what to change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import pytest
from langgraph.graph.state import CompiledStateGraph
from pydantic import Field
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Secret, Settings, Subgraph, node
from interlock.engine import EngineName
from interlock.errors import AgentUnknown, ContractError, Problem


class Work(TypedDict, total=False):
    text: str
    found: str


@dataclass
class Plan:
    text: str
    key: Annotated[str, Secret] = ""
    depth: Annotated[int, Field(ge=1)] = 1
    kind: Literal["short", "long"] = "short"
    made: str | None = None
    steps: list[str] | None = None
    pin: Annotated[str | None, Secret] = None


class Found(Outcome):
    found: str


class Made(Outcome):
    made: str


async def make(text: str, depth: int, kind: str) -> Made:
    return Made(made=f"{text} {depth} {kind}")


async def make_anything() -> Made:
    return Made(made="anything")


def plans(run: Any = make, *, takes: Any = ("text", "depth"), gives: str | None = "made") -> Graph:
    return Graph("plans", state=Plan, entry=run, nodes=[node(run, goes={Made: END})], takes=takes, gives=gives)


class Good(Capability, Protocol):
    async def plan(self, text: str, depth: int) -> str: ...


class Short(Capability, Protocol):
    async def plan(self, text: str) -> str: ...


class Optional(Capability, Protocol):
    async def plan(self, text: str) -> str | None: ...


class ByKeyword(Capability, Protocol):
    async def plan(self, *, text: Annotated[str, "what is to be done"]) -> Annotated[str, "how"]: ...


class Private(Short, Protocol):
    async def _hidden(self) -> None: ...


class Nothing(Capability, Protocol):
    pass


class Two(Short, Protocol):
    async def forget(self) -> None: ...


class Pieces(Capability, Protocol):
    def plan(self, text: str) -> AsyncIterator[str]: ...


class OtherName(Capability, Protocol):
    async def plan(self, words: str) -> str: ...


class TooMany(Capability, Protocol):
    async def plan(self, text: str, colour: str) -> str: ...


class TooFew(Capability, Protocol):
    async def plan(self) -> str: ...


class OtherType(Capability, Protocol):
    async def plan(self, text: int) -> str: ...


class WiderType(Capability, Protocol):
    async def plan(self, text: str | None) -> str: ...


class OtherResult(Capability, Protocol):
    async def plan(self, text: str) -> list[str]: ...


class NoResult(Capability, Protocol):
    async def plan(self, text: str) -> None: ...


class AnyNumber(Capability, Protocol):
    async def plan(self, *text: str) -> str: ...


class AnyNames(Capability, Protocol):
    async def plan(self, **text: str) -> str: ...


class Unannotated(Capability, Protocol):
    async def plan(self, text: str, colour) -> str: ...  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]


class SecretIn(Capability, Protocol):
    async def plan(self, text: Annotated[str, Secret]) -> str: ...


class SecretOut(Capability, Protocol):
    async def plan(self, text: str) -> Annotated[str, Secret]: ...


def using(capability: type[Any]) -> Graph:
    async def ask(text: str, *, helper: Any) -> Found:
        return Found(found=str(await helper.plan(text=text)))

    ask.__annotations__["helper"] = capability
    return Graph("work", state=Work, entry=ask, nodes=[node(ask, goes={Found: END})], takes=["text"], gives="found")


async def problems(engine: EngineName, grants: dict[type, object], graph: Graph) -> list[Problem]:
    with pytest.raises(ContractError) as caught:
        await Interlock(Settings(engine=engine), grants=grants).run(graph, "x")
    assert all(problem.fix for problem in caught.value.problems)
    return list(caught.value.problems)


MISFITS: dict[str, tuple[type, Subgraph, str]] = {
    "no method": (Nothing, Subgraph(plans()), "0 methods"),
    "two methods": (Two, Subgraph(plans()), "2 methods"),
    "a stream": (Pieces, Subgraph(plans()), "'plan' streams its result in chunks"),
    "another name": (OtherName, Subgraph(plans()), "takes text, depth where 'plan' has words"),
    "one too many": (TooMany, Subgraph(plans()), "where 'plan' has text, colour"),
    "one too few": (TooFew, Subgraph(plans()), "takes text, depth where 'plan' has nothing"),
    "takes nothing": (Short, Subgraph(plans(make_anything, takes=[])), "takes nothing where 'plan' has text"),
    "another type": (OtherType, Subgraph(plans()), "its 'text' is 'str' where 'plan' has 'int'"),
    "a wider type": (WiderType, Subgraph(plans()), "its 'text' is 'str' where 'plan' has 'str | None'"),
    "another result": (OtherResult, Subgraph(plans()), "gives 'str | None' where 'plan' returns 'list[str]'"),
    "no result": (NoResult, Subgraph(plans()), "returns 'None'"),
    "gives nothing": (Short, Subgraph(plans(gives=None)), "does not say what it gives"),
    "a fixed field that is unknown": (Short, Subgraph(plans(), colour="red"), "'colour' fixed, which it does not take"),
    "a fixed field that is closed": (Short, Subgraph(plans(), made="x"), "'made' fixed, which it does not take"),
    "a fixed field that is a parameter": (Short, Subgraph(plans(), text="x"), "takes depth where 'plan' has text"),
    "a fixed field of another type": (Short, Subgraph(plans(), depth="hunter2"), "'depth'"),
    "a fixed field out of bounds": (Short, Subgraph(plans(), depth=0), "'depth'"),
    "any number": (AnyNumber, Subgraph(plans()), "any number of 'text'"),
    "any names": (AnyNames, Subgraph(plans()), "any number of 'text'"),
    "no annotation": (Unannotated, Subgraph(plans()), "where 'plan' has text, colour"),
    "a secret that would be told": (SecretIn, Subgraph(plans()), "its 'text' is not labelled Secret"),
    "a secret result that would be told": (SecretOut, Subgraph(plans()), "its 'made' is not labelled Secret"),
}


@pytest.mark.parametrize(("capability", "subgraph", "says"), MISFITS.values(), ids=MISFITS.keys())
async def test_a_graph_that_does_not_fit_its_capability_is_refused(engine: EngineName, capability: type, subgraph: Subgraph, says: str):
    (problem,) = await problems(engine, {capability: subgraph}, using(capability))
    assert (problem.rule, problem.graph) == ("bad_subgraph", "work")
    assert f"graph 'plans' is granted as '{capability.__name__}'" in str(problem)
    assert says in str(problem)
    assert "hunter2" not in str(problem)


async def test_every_misfit_is_named_at_once(engine: EngineName):
    class Wrong(Capability, Protocol):
        async def plan(self, text: int, depth: str) -> int: ...

    graph = using(Wrong)
    found = await problems(engine, {Wrong: Subgraph(plans(), colour="red")}, graph)
    assert [problem.rule for problem in found] == ["bad_subgraph"] * 4


@pytest.mark.parametrize(
    ("capability", "subgraph", "output"),
    [
        (Short, Subgraph(plans()), "x 1 short"),
        (Private, Subgraph(plans()), "x 1 short"),
        (Optional, Subgraph(plans()), "x 1 short"),
        (ByKeyword, Subgraph(plans()), "x 1 short"),
        (Short, Subgraph(plans(takes=["text", "kind", "depth"]), kind="long", depth=2), "x 2 long"),
    ],
)
async def test_a_graph_that_fits_is_taken(engine: EngineName, capability: type, subgraph: Subgraph, output: str):
    result = await Interlock(Settings(engine=engine), grants={capability: subgraph}).run(using(capability), "x")
    assert (result.error, result.output) == (None, output)


async def test_a_secret_goes_to_a_field_that_is_one(engine: EngineName):
    class Vault(Capability, Protocol):
        async def plan(self, text: str, key: Annotated[str, Secret] = "k") -> Annotated[str | None, Secret]: ...

    subgraph = Subgraph(plans(takes=["text", "key"], gives="pin"))
    result = await Interlock(Settings(engine=engine), grants={Vault: subgraph}).run(using(Vault), "x")
    assert (result.error, result.output) == (None, "None")


# Graphs inside graphs


class First(Capability, Protocol):
    async def plan(self, text: str) -> str: ...


class Second(Capability, Protocol):
    async def plan(self, text: str) -> str: ...


class Missing(Capability, Protocol):
    async def plan(self, text: str) -> str: ...


def named(name: str, capability: type[Any]) -> Graph:
    async def ask(text: str, *, helper: Any) -> Found:
        return Found(found=await helper.plan(text=text))

    ask.__annotations__["helper"] = capability
    ask.__name__ = f"ask_{name}"
    return Graph(name, state=Work, entry=ask, nodes=[node(ask, goes={Found: END})], takes=["text"], gives="found")


async def test_a_graph_that_is_granted_to_itself_is_refused(engine: EngineName):
    graph = named("one", First)
    (problem,) = await problems(engine, {First: Subgraph(graph)}, graph)
    assert (problem.rule, problem.graph) == ("ring", "one")
    assert "one" in problem.says


async def test_a_ring_of_graphs_is_refused_and_named(engine: EngineName):
    outer, one, two = named("outer", First), named("one", Second), named("two", First)
    (problem,) = await problems(engine, {First: Subgraph(one), Second: Subgraph(two)}, outer)
    assert (problem.rule, problem.graph) == ("ring", "two")
    assert "outer > one > two" in problem.says


async def test_a_graph_may_be_granted_twice_where_there_is_no_ring(engine: EngineName):
    async def both(text: str, *, first: First, second: Second) -> Found:
        return Found(found=await first.plan(text) + await second.plan(text))

    graph = Graph("both", state=Work, entry=both, nodes=[node(both, goes={Found: END})], takes=["text"], gives="found")
    again = named("one", Missing)
    grants: dict[type, object] = {First: Subgraph(again), Second: Subgraph(again), Missing: Subgraph(plans())}
    result = await Interlock(Settings(engine=engine), grants=grants).run(graph, "x")
    assert (result.error, result.output) == (None, "x 1 shortx 1 short")
    assert result.path == ("both", *("both/ask_one", "both/ask_one/make") * 2)


async def test_a_capability_that_is_not_granted_to_an_inner_graph_stops_the_outer_one(engine: EngineName):
    outer, inner = named("outer", First), named("inner", Missing)
    (problem,) = await problems(engine, {First: Subgraph(inner)}, outer)
    assert (problem.rule, problem.graph) == ("not_granted", "inner")
    assert "'Missing'" in problem.says
    assert "'ask_inner'" in problem.says


async def test_a_misfit_further_inside_is_named_for_the_graph_that_it_is_granted_to(engine: EngineName):
    outer, inner = named("outer", First), named("inner", Missing)
    (problem,) = await problems(engine, {First: Subgraph(inner), Missing: Subgraph(plans(gives=None))}, outer)
    assert (problem.rule, problem.graph) == ("bad_subgraph", "inner")
    assert "granted as 'Missing'" in problem.says


class Sync:
    def plan(self, text: str) -> str:
        return text


async def test_an_adapter_of_an_inner_graph_must_follow_its_protocol(engine: EngineName):
    (problem,) = await problems(engine, {First: Subgraph(named("inner", Missing)), Missing: Sync()}, named("outer", First))
    assert (problem.rule, problem.graph) == ("bad_grant", "")


def test_a_graph_that_does_not_fit_is_not_returned_as_langgraphs_either():
    with pytest.raises(ContractError, match="granted as 'TooFew'"):
        Interlock(Settings(), grants={TooFew: Subgraph(plans())}).langgraph(using(TooFew))
    graph = named("one", First)
    with pytest.raises(ContractError, match="granted to itself"):
        Interlock(Settings(), grants={First: Subgraph(graph)}).langgraph(graph)


async def test_a_subgraph_that_no_node_asks_for_does_no_harm(engine: EngineName):
    grants: dict[type, object] = {Short: Subgraph(plans()), TooFew: Subgraph(plans(gives=None))}
    assert (await Interlock(Settings(engine=engine), grants=grants).run(using(Short), "x")).error is None


# By name


INNER = ("planner.model_graph", "specialist.structured_graph", "specialist.tool_planning_graph", "specialist.runtime_graph")


@pytest.mark.parametrize("name", INNER)
def test_an_inner_graph_of_an_agent_is_found_by_its_name(name: str):
    interlock = Interlock(Settings())
    graph = interlock.graph(name)
    assert graph.name == name
    compiled = interlock.langgraph(name)
    assert isinstance(compiled, CompiledStateGraph)
    assert set(compiled.get_graph().nodes) - {"__start__", "__end__"} == set(graph.nodes)


def test_an_agent_is_found_by_its_own_name_first_and_an_unknown_name_lists_those_that_are():
    interlock = Interlock(Settings())
    assert interlock.graph("desk") is interlock.graph("orchestrator.handle_message")
    with pytest.raises(AgentUnknown) as caught:
        interlock.graph("planner")
    assert all(name in str(caught.value) for name in ("sam", *INNER))


def test_a_graph_that_is_granted_is_named_with_what_it_has_fixed():
    assert repr(Subgraph(plans())) == "plans"
    assert repr(Subgraph(plans(), depth=2, kind="long")) == "plans(depth=2, kind='long')"
