"""Graphs made by chance, run on both engines: whatever happens, it is the same thing that happens."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, make_dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal, Protocol, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Present, Settings, TurnResult
from interlock.capabilities import Ids
from interlock.capabilities.capability import emits
from interlock.contract.node import Row
from interlock.engine import ENGINES, EngineName
from interlock.errors import CapabilityError, ContractViolation, InputSchema
from interlock.runtime.events import Event
from interlock.testing import CountingIds


@dataclass(frozen=True)
class Fact:
    text: str
    weight: float = 1.0


def merge(old: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    return old | {key: old.get(key, 0) + value for key, value in new.items()}


WORDS = st.sampled_from(["", "a", "ß", "\u202e", "__overwrite__"])
NUMBERS = st.integers(min_value=-9, max_value=9)
FIELDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "count": (int, NUMBERS),
    "name": (str | None, st.none() | WORDS),
    "pair": (tuple[int, str], st.tuples(NUMBERS, WORDS)),
    "fact": (Fact, st.builds(Fact, WORDS)),
    "facts": (list[Fact] | None, st.none() | st.lists(st.builds(Fact, WORDS), max_size=2)),
    "log": (Annotated[list[str], operator.add], st.lists(WORDS, max_size=2)),
    "total": (Annotated[int, operator.add], NUMBERS),
    "seen": (Annotated[dict[str, int], merge], st.dictionaries(WORDS, NUMBERS, max_size=2)),
    "box": (dict[str, Any], st.dictionaries(WORDS, NUMBERS | st.lists(WORDS, max_size=1), max_size=2)),
}
ReadAs = Literal["value", "optional", "present"]


class Bell(Capability, Protocol):
    @emits("tool")
    async def ring(self, how: str) -> int: ...


class RealBell:
    async def ring(self, how: str) -> int:
        match how:
            case "raise":
                raise RuntimeError(how)
            case "refuse":
                raise CapabilityError("The bell is broken.")
            case "mumble":
                wrong: Any = "ding"
                return wrong
            case _:
                return 1


class Stray(Outcome):
    pass


@dataclass(frozen=True)
class Move:
    """One outcome of a node: what it writes, and where it leads (None is END)."""

    writes: Mapping[str, Any]
    target: int | None


@dataclass(frozen=True)
class Place:
    """One node."""

    reads: Mapping[str, ReadAs]
    rings: bool
    moves: list[Move]


@dataclass(frozen=True)
class Plan:
    """A graph, what goes in, and what its nodes do one after the other."""

    record: bool
    fields: list[str]
    places: list[Place]
    slack: int
    given: dict[str, Any]
    script: list[tuple[str, int]]


CODES = {
    *("contract_violation", "node_failed", "budget_exceeded", "input_schema"),
    *("capability_failed", "capability_result_invalid"),
}
MISHAPS = ["fail", "fail typed", "refuse input", "stray", "nothing", "unfit", "ring", "ring raise", "ring refuse", "ring mumble"]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    fields = draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=5, unique=True))
    size = draw(st.sampled_from([4, 5, 6, 3, 2, 1]))
    targets: list[list[int | None]] = [[draw(st.sampled_from([*range(i + 1, size), *range(i + 1, size), None]))] for i in range(size)]
    for i in range(1, size):  # a way leads to every node ...
        targets[draw(st.integers(min_value=0, max_value=i - 1))].append(i)
    for i in range(size):  # ... and others lead anywhere
        targets[i] += draw(st.lists(st.sampled_from([*range(size), *range(size), None]), max_size=3))

    def some(**options: Any) -> dict[str, Any]:
        return {name: draw(FIELDS[name][1]) for name in draw(st.lists(st.sampled_from(fields), unique=True, **options))}

    places = [
        Place(
            reads={
                name: draw(st.sampled_from(["optional", "optional", "optional", "present", "present", "value"]))
                for name in some(max_size=2)
            },
            rings=draw(st.booleans()),
            moves=[Move(some(max_size=3), target) for target in leads],
        )
        for leads in targets
    ]
    steps = st.tuples(st.sampled_from(["move"] * 40 + MISHAPS), st.sampled_from([1, 2, 3, 0]))
    return Plan(
        record=draw(st.booleans()),
        fields=fields,
        places=places,
        slack=draw(st.sampled_from([6, 10, 4, 2, 1, 0])),
        given=some(),
        script=draw(st.lists(steps, min_size=8, max_size=12)),
    )


def shortest(places: list[Place]) -> int:
    """Count the nodes on the shortest way to END."""
    away, reached = 1, {0}
    while not any(move.target is None for i in reached for move in places[i].moves):
        away, reached = away + 1, {cast("int", move.target) for i in reached for move in places[i].moves}
    return away


def state_class(plan: Plan) -> type[Any]:
    hints = {name: FIELDS[name][0] for name in plan.fields}
    make_record: Any = TypedDict
    return make_dataclass("Made", hints.items()) if plan.record else make_record("Made", hints, total=False)


def outcome_class(name: str, fields: Mapping[str, Any]) -> type[Any]:
    return type(name, (Outcome,), {"__annotations__": {field: FIELDS[field][0] for field in fields}, "__module__": __name__})


def read_hint(field: str, read_as: ReadAs) -> Any:
    hint = FIELDS[field][0]
    return {"value": hint, "optional": hint | None, "present": Present}[read_as]


def act(kind: str, made: Any) -> Any:
    """Do what the script says at the end of a node."""
    match kind:
        case "fail":
            raise KeyError("missing")
        case "fail typed":
            raise ContractViolation("Not so.")
        case "refuse input":
            raise InputSchema("Not this.")
        case "stray":
            return Stray()
        case "nothing":
            return None
        case "unfit":
            for field in cast("dict[str, Any]", vars(made)):
                object.__setattr__(made, field, object())
            return made
        case _:
            return made


def build(plan: Plan) -> Graph:
    """Make the graph of a plan. Its nodes follow the script once; after it they take the way to END."""
    script = iter(plan.script)

    def task(name: str, place: Place, outcomes: list[type[Any]]) -> Callable[..., Any]:
        async def run(*_reads: Any, **grants: Bell) -> Any:
            kind, chosen = next(script, ("move", 0))
            if kind.startswith("ring") and "bell" in grants:
                await grants["bell"].ring(kind.removeprefix("ring "))
            index = chosen % len(outcomes)
            return act(kind, outcomes[index](**place.moves[index].writes))

        made: Any = run
        made.__name__ = name
        hints = {field: read_hint(field, read_as) for field, read_as in place.reads.items()}
        grants = {"bell": Bell} if place.rings else {}
        union: Any = outcomes[0]
        for outcome in outcomes[1:]:
            union |= outcome
        made.__annotations__ = {**hints, **grants, "return": union}
        parameters = [Parameter(field, Parameter.POSITIONAL_OR_KEYWORD) for field in hints]
        made.__signature__ = Signature([*parameters, *(Parameter(grant, Parameter.KEYWORD_ONLY) for grant in grants)])
        return made

    outcomes = [[outcome_class(f"O{i}{j}", move.writes) for j, move in enumerate(place.moves)] for i, place in enumerate(plan.places)]
    tasks = [task(f"node_{i}", place, outcomes[i]) for i, place in enumerate(plan.places)]
    rows = [
        Row(
            tasks[i],
            {made: END if move.target is None else tasks[move.target] for made, move in zip(outcomes[i], place.moves, strict=True)},
        )
        for i, place in enumerate(plan.places)
    ]
    return Graph(
        "made", state=state_class(plan), entry=tasks[0], nodes=rows, max_steps=shortest(plan.places) + plan.slack, takes=plan.fields
    )


async def take(graph: Graph, given: dict[str, Any], engine: EngineName) -> tuple[TurnResult, list[Event]]:
    events: list[Event] = []
    app = Interlock(Settings(engine=engine), grants={Ids: CountingIds(), Bell: RealBell()})
    return await app.run(graph, given, on_event=events.append), events


def follows(graph: Graph, result: TurnResult) -> None:
    """Hold a result to the rows of its graph."""
    transitions = list(zip(result.path, (*result.path[1:], None), strict=True))
    if result.error is not None:
        assert result.error.code in CODES
        transitions.pop()
    assert set(transitions) <= {(source, target) for source, _, target in graph.edges}
    assert result.path[0] == graph.entry
    assert len(result.path) <= graph.max_steps


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(plan=plans())
async def test_a_turn_of_any_graph_follows_its_rows_and_is_the_same_on_both_engines(plan: Plan):
    graphs = [build(plan) for _ in ENGINES]
    missing = [name for name in graphs[0].needs if name not in plan.given]
    if missing:
        for graph, engine in zip(graphs, ENGINES, strict=True):
            with pytest.raises(InputSchema, match=f"'{missing[0]}' is missing"):
                await take(graph, plan.given, engine)
        return
    (first, first_events), (second, second_events) = [
        await take(graph, plan.given, engine) for graph, engine in zip(graphs, ENGINES, strict=True)
    ]
    assert first.path == second.path
    assert first.error == second.error
    assert first.state == second.state
    assert first == second
    assert first_events == second_events
    assert first_events[-1]["data"]["output"] == first.to_json()
    follows(graphs[0], first)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(plan=plans())
def test_any_compiled_graph_has_exactly_the_rows_nodes_and_edges(plan: Plan):
    graph = build(plan)
    drawn = Interlock(grants={Bell: RealBell()}).langgraph(graph).get_graph()
    assert set(drawn.nodes) == {"__start__", *graph.nodes, "__end__"}
    edges = {(source, target or "__end__") for source, _, target in graph.edges}
    assert {(edge.source, edge.target) for edge in drawn.edges} == edges | {("__start__", graph.entry)}


class Noted(Outcome):
    log: list[str]


class Nothing(Outcome):
    pass


class Notes(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    name: str


async def keep_quiet() -> Nothing:
    return Nothing()


async def test_a_turn_that_is_given_nothing_and_writes_nothing_succeeds(engine: EngineName):
    graph = Graph("quiet", state=Notes, entry=keep_quiet, nodes=[Row(keep_quiet, {Nothing: END})])
    result = await Interlock(Settings(engine=engine)).run(graph, {})
    assert (result.error, result.state) == (None, {"log": []})


async def write_note() -> Noted:
    return Noted(log=["noted"])


def refuse(_old: list[str], _new: list[str]) -> list[str]:
    raise ValueError("hunter2")


def change_type(_old: list[str], new: list[str]) -> Any:
    return len(new)


class Refusing(TypedDict, total=False):
    log: Annotated[list[str], refuse]


class Changing(TypedDict, total=False):
    log: Annotated[list[str], change_type]


async def read_note(log: list[str]) -> Nothing:
    return Nothing()


@pytest.mark.parametrize("state", [Refusing, Changing])
async def test_a_reducer_that_breaks_ends_the_turn_in_the_same_typed_error_on_both_engines(state: type):
    rows = [Row(write_note, {Noted: read_note}), Row(read_note, {Nothing: END})]
    graph = Graph("noted", state=state, entry=write_note, nodes=rows)
    first, second = [await Interlock(Settings(engine=name), grants={Ids: CountingIds()}).run(graph, {}) for name in ENGINES]
    assert first.error is not None
    assert first.error.code != "internal"
    assert first.error == second.error
    assert first.state == second.state
