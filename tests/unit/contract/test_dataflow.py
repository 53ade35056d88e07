"""A field that a node reads before every path has written it is found when the graph is built."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any, TypedDict, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import END, Graph, Interlock, Outcome, Present, Settings, node
from interlock.contract.node import Row
from interlock.engine import EngineName
from interlock.errors import ContractError, ContractViolation, InputSchema


@dataclass
class Order:
    text: str
    size: int
    price: int
    remark: str | None
    currency: str = "EUR"


class Sized(Outcome):
    size: int


class Priced(Outcome):
    price: int


class Skipped(Outcome):
    pass


async def measure(text: str) -> Sized | Skipped:
    return Sized(size=len(text)) if text else Skipped()


async def quote(size: int) -> Priced:
    return Priced(price=size)


async def bill(price: int, currency: str, remark: str | None) -> Skipped:
    return Skipped()


async def bill_if_priced(price: Present) -> Skipped:
    return Skipped()


def order(last: Any = bill, *, after_skip: Any = None, **options: Any) -> Graph:
    return Graph(
        "order",
        state=Order,
        entry=measure,
        nodes=[
            node(measure, goes={Sized: quote, Skipped: after_skip or last}),
            node(quote, goes={Priced: last}),
            Row(last, {Skipped: END}),
        ],
        **options,
    )


FIX = "Fix: write the field on every path to this node, give it a default, name it in 'takes', or allow None for the parameter."


def problems(**options: Any) -> list[str]:
    with pytest.raises(ContractError) as refused:
        order(**options)
    assert {problem.rule for problem in refused.value.problems} == {"read_before_write"}
    return [str(problem) for problem in refused.value.problems]


def test_the_message_has_the_shortest_path_and_the_fix():
    assert problems() == [
        "graph 'order', node 'bill', field 'price': it reads 'price', which no node on the path measure (Skipped) -> bill has written. "
        + FIX
    ]


def test_a_field_that_the_entry_cannot_be_passed_has_no_value_at_the_start():
    assert problems(last=bill_if_priced, takes=["remark"]) == [
        "graph 'order', node 'measure', field 'text': it reads 'text', which has no value when a turn starts. " + FIX
    ]


def test_only_the_first_read_of_a_path_is_reported():
    assert [re.findall(r"path (.*) has", problem) for problem in problems(after_skip=quote, takes=["text"])] == [
        ["measure (Skipped) -> quote"],
    ]


def test_fields_that_may_be_passed_and_reads_of_presence_have_no_problem():
    assert order(last=bill_if_priced).needs == ("text",)
    assert order(takes=["text", "price"]).needs == ("text", "price")
    assert order(takes=["text", "price", "currency"]).needs == ("text", "price")
    assert order(takes=["text"], takes_from_parent=["price"]).needs == ("text", "price")


async def test_a_field_that_some_path_reads_is_required_from_the_caller(engine: EngineName):
    running, graph = Interlock(Settings(engine=engine)), order(takes=["text", "price"])
    assert (await running.run(graph, {"text": "", "price": 5})).path == ("measure", "bill")
    with pytest.raises(InputSchema, match="Field 'price' is missing"):
        await running.run(graph, {"text": ""})


# Random graphs.

FIELDS: dict[str, Any] = {
    "plain": int,
    "other": int,
    "third": int,
    "optional": int | None,
    "summed": Annotated[list[int], operator.add],
}
State = cast("Any", TypedDict)("State", FIELDS, total=False)
VALUES: dict[str, Any] = {"plain": 1, "other": 1, "third": 1, "optional": 1, "summed": [1]}


@dataclass(frozen=True)
class Branch:
    """An outcome of a random node: the fields that it writes, and the node it leads to (past the last node: END)."""

    writes: frozenset[str]
    target: int


@dataclass(frozen=True)
class Task:
    """A random node. `reads` says how it reads each field: the value, the value or None, or whether there is one."""

    reads: Mapping[str, str]
    branches: tuple[Branch, ...]


READS = st.dictionaries(st.sampled_from([*FIELDS]), st.sampled_from(["value", "or None", "presence"]), max_size=2)
WRITES = st.frozensets(st.sampled_from([*FIELDS]), max_size=3)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Task, ...]:
    """Draw nodes that are all reached and all reach END: the first outcome of each leads to the next."""
    count = draw(st.integers(1, 5))
    return tuple(
        Task(
            draw(READS),
            (
                Branch(draw(WRITES), number + 1),
                *draw(st.lists(st.builds(Branch, WRITES, st.integers(0, count)), max_size=2)),
            ),
        )
        for number in range(count)
    )


def declared(tasks: Sequence[Task], takes: Sequence[str] | None) -> Graph:
    """Declare a random graph. Its nodes are never called: the tests below choose what happens."""
    runs = [_function(f"n{number}", task) for number, task in enumerate(tasks)]
    targets = [*(run for run, _ in runs), END]
    rows = [
        Row(run, {outcome: targets[branch.target] for outcome, branch in zip(outcomes, task.branches, strict=True)})
        for task, (run, outcomes) in zip(tasks, runs, strict=True)
    ]
    return Graph("random", state=State, entry=runs[0][0], nodes=rows, takes=takes)


def _function(name: str, task: Task) -> tuple[Any, list[type[Outcome]]]:
    async def run(*_: Any) -> Any:
        raise NotImplementedError

    outcomes: list[type[Outcome]] = [
        type(f"Out{number}", (Outcome,), {"__annotations__": {field: FIELDS[field] for field in branch.writes}, "__module__": __name__})
        for number, branch in enumerate(task.branches)
    ]
    union: Any = outcomes[0]
    for outcome in outcomes[1:]:
        union |= outcome
    made: Any = run
    made.__name__ = name
    made.__annotations__ = {field: _hint(FIELDS[field], how) for field, how in task.reads.items()} | {"return": union}
    made.__signature__ = Signature([Parameter(field, Parameter.POSITIONAL_OR_KEYWORD) for field in task.reads])
    return made, outcomes


def _hint(hint: Any, how: str) -> Any:
    return {"value": hint, "or None": hint | None, "presence": Present}[how]


def every_read(graph: Graph, passed: Mapping[str, Any]) -> None:
    """Let every node read its fields in every state that some path reaches it with."""
    seen: set[tuple[str, frozenset[str]]] = set()
    reached = [(graph.entry, graph.state.initial(passed))]
    while reached:
        name, state = reached.pop()
        if (name, frozenset(state)) in seen:
            continue
        seen.add((name, frozenset(state)))
        graph.nodes[name].read(state)
        for ending in graph.nodes[name].transitions:
            if ending.target is not None:
                after = dict(state)
                graph.state.apply(after, {field: VALUES[field] for field in ending.fields})
                reached.append((ending.target, after))


TAKES = st.none() | st.lists(st.sampled_from([*FIELDS]), unique=True)


@given(graphs(), TAKES)
def test_a_graph_that_is_built_never_reads_a_field_that_was_not_written(tasks: tuple[Task, ...], takes: list[str] | None):
    try:
        graph = declared(tasks, takes)
    except ContractError as error:
        assert {problem.rule for problem in error.problems} == {"read_before_write"}  # noqa: PT017 - a graph that is not built is half of the claim
        return
    every_read(graph, {field: VALUES[field] for field in graph.needs})


@given(graphs(), TAKES)
def test_the_path_in_the_message_really_reads_the_field_before_it_is_written(tasks: tuple[Task, ...], takes: list[str] | None):
    try:
        graph = declared(tasks, takes)
    except ContractError as error:
        for problem in error.problems:
            assert problem.node is not None
            assert problem.field is not None
            path = re.search(r"on the path (.*) has written", problem.says)
            _follow(declared(tasks, [*FIELDS]), path[1] if path else problem.node, field=problem.field)
    else:
        for field in graph.needs:
            with pytest.raises(ContractViolation, match=f"'{field}'"):
                every_read(graph, {name: VALUES[name] for name in graph.needs if name != field})


def _follow(graph: Graph, path: str, *, field: str) -> None:
    """Run the nodes of a path with every other field passed in: the last one fails for want of this one, and no other does."""
    *steps, last = [re.fullmatch(r"(\w+)(?: \((\w+)\))?", step) for step in path.split(" -> ")]
    state = graph.state.initial({name: value for name, value in VALUES.items() if name != field})
    following: str | None = graph.entry
    for step in steps:
        assert step is not None
        assert step[1] == following
        graph.nodes[step[1]].read(state)
        endings = graph.nodes[step[1]].transitions
        (taken,) = [ending for ending in endings if ending.name == step[2] or len(endings) == 1]
        graph.state.apply(state, {name: VALUES[name] for name in taken.fields})
        following = taken.target
    assert last is not None
    assert last[1] == following
    with pytest.raises(ContractViolation, match=f"'{field}'"):
        graph.nodes[last[1]].read(state)
