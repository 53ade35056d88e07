from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getsource
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypedDict, TypeVar

import pytest

from interlock import END, Capability, Control, Graph, Outcome, node
from interlock.capabilities import Clock, Memory
from interlock.contract import rules as rules_module
from interlock.contract.node import Row
from interlock.contract.rule_messages import MESSAGES
from interlock.errors import ContractError, Problem

if TYPE_CHECKING:
    from fractions import Fraction

T = TypeVar("T")


class Letter(TypedDict, total=False):
    text: str
    size: int
    kind: Annotated[Literal["short", "long"], Control]


class Done(Outcome):
    pass


class Lost(Outcome):
    pass


class Measured(Outcome):
    size: int


class Misspelt(Outcome):
    sise: int


class Mismeasured(Outcome):
    size: str


class TooWide(Outcome):
    kind: str


class Unresolvable(Outcome):
    size: Fraction


class Sync(Capability, Protocol):
    def now(self) -> str: ...


class Vague(Capability, Protocol):
    async def now(self): ...


class Boundless(Capability, Protocol):
    async def now(self) -> T: ...  # pyright: ignore[reportInvalidTypeVarUse]


class Unresolved(Capability, Protocol):
    async def now(self) -> Fraction: ...


class NotACapability:
    async def now(self) -> str:
        return "now"


async def measure(text: str) -> Measured:
    return Measured(size=len(text))


async def finish(size: int) -> Done:
    return Done()


async def choose(size: int) -> Done | Lost:
    return Done() if size else Lost()


async def reads_misspelt(txet: str) -> Done:
    return Done()


async def reads_unheard_of(weather: str) -> Done:
    return Done()


async def reads_as_bytes(text: bytes) -> Done:
    return Done()


async def reads_too_narrow(kind: Literal["short"]) -> Done:
    return Done()


async def reads_unresolvable(text: Fraction) -> Done:
    return Done()


async def returns_unresolvable(text: str) -> Fraction:
    raise NotImplementedError


async def no_annotation(text) -> Done:  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    return Done()


async def has_default(text: str = "") -> Done:
    return Done()


async def takes_all(*text: str) -> Done:
    return Done()


async def takes_all_by_name(**text: str) -> Done:
    return Done()


async def returns_nothing(text: str):
    pass


async def returns_none(text: str) -> None:
    pass


async def returns_optional(text: str) -> Done | None:
    return None


async def returns_any_outcome(text: str) -> Outcome:
    return Done()


async def writes_misspelt(text: str) -> Misspelt:
    return Misspelt(sise=1)


async def writes_wrong_type(text: str) -> Mismeasured:
    return Mismeasured(size="1")


async def writes_too_wide(text: str) -> TooWide:
    return TooWide(kind="other")


async def writes_unresolvable(text: str) -> Unresolvable:
    raise NotImplementedError


async def uses_class(text: str, *, clock: NotACapability) -> Done:
    return Done()


async def uses_field_by_name(*, text: str) -> Done:
    return Done()


async def uses_sync(text: str, *, sync: Sync) -> Done:
    return Done()


async def uses_vague(text: str, *, vague: Vague) -> Done:
    return Done()


async def uses_boundless(text: str, *, boundless: Boundless) -> Done:
    return Done()


async def uses_unresolved(text: str, *, unresolved: Unresolved) -> Done:
    return Done()


async def uses_memory(text: str, *, memory: Memory) -> Done:
    return Done()


async def text(size: int) -> Done:
    return Done()


async def stranger(text: str) -> Done:
    return Done()


def not_async(text: str) -> Done:
    return Done()


class Office:
    """A method hides what it depends on."""

    async def sort(self, text: str) -> Done:
        return Done()


def another_measure() -> Callable[..., Any]:
    async def measure(text: str) -> Done:
        return Done()

    return measure


def renamed(name: str) -> Callable[..., Any]:
    async def run(text: str) -> Done:
        return Done()

    run.__name__ = name
    return run


def row(run: Any, **goes: Any) -> Row:
    """Make a row as a program without a type checker would."""
    outcomes = {outcome.__name__: outcome for outcome in (Done, Lost, Measured, Misspelt, Mismeasured, TooWide, Unresolvable)}
    return Row(run, {outcomes[name]: target for name, target in goes.items()})


def letters(*rows: Row, entry: Any = None, **options: Any) -> Graph:
    given: dict[str, Any] = {"state": Letter, "entry": entry or rows[0].run, "nodes": rows, **options}
    return Graph("letters", **given)


@dataclass(frozen=True)
class Case:
    rule: str
    build: Callable[[], object]
    node: str | None = None
    field: str | None = None
    says: str = ""

    def __str__(self) -> str:
        return "-".join(part for part in (self.rule, self.node, self.field) if part)


def alone(run: Any) -> Callable[[], Graph]:
    return lambda: letters(row(run, Done=END))


CASES = [
    Case("bad_name", lambda: Graph("two words", state=Letter, entry=text, nodes=[]), says="'two words'"),
    Case("duplicate_node", lambda: letters(row(measure, Measured=END), row(another_measure(), Done=END)), "measure"),
    Case("name_taken", alone(text), "text"),
    Case("name_taken", alone(renamed("END")), "END"),
    Case("name_taken", alone(renamed("__start__")), "__start__"),
    Case("name_taken", alone(renamed("not a name")), "not a name"),
    Case("not_async", alone(not_async), "not_async"),
    Case("not_async", alone(Office().sort), "sort"),
    Case("unresolved_annotation", alone(reads_unresolvable), "reads_unresolvable", "text", "Fraction"),
    Case("unresolved_annotation", alone(returns_unresolvable), "returns_unresolvable", "return", "Fraction"),
    Case(
        "unresolved_annotation",
        lambda: letters(row(writes_unresolvable, Unresolvable=END)),
        "writes_unresolvable",
        "size",
        "Unresolvable",
    ),
    Case("open_signature", alone(takes_all), "takes_all", "text"),
    Case("open_signature", alone(takes_all_by_name), "takes_all_by_name", "text"),
    Case("no_annotation", alone(no_annotation), "no_annotation", "text"),
    Case("parameter_default", alone(has_default), "has_default", "text"),
    Case("unknown_field", alone(reads_misspelt), "reads_misspelt", "txet", "Fix: write 'text'."),
    Case("unknown_field", alone(reads_unheard_of), "reads_unheard_of", "weather", "'text', 'size', 'kind'"),
    Case("unknown_field", lambda: letters(row(finish, Done=END), takes=["txet"]), field="txet", says="takes"),
    Case("unknown_field", lambda: letters(row(finish, Done=END), gives="sise"), field="sise", says="gives"),
    Case(
        "taken_twice",
        lambda: letters(row(finish, Done=END), takes=["text"], takes_from_parent=["text"]),
        field="text",
        says="takes_from_parent",
    ),
    Case("differing_type", alone(reads_as_bytes), "reads_as_bytes", "text", "as 'bytes', but the state has 'str'"),
    Case("differing_type", alone(reads_too_narrow), "reads_too_narrow", "kind", "Literal['short', 'long']"),
    Case(
        "differing_type",
        lambda: letters(row(writes_wrong_type, Mismeasured=END)),
        "writes_wrong_type",
        "size",
        "'Mismeasured' writes 'size' as 'str'",
    ),
    Case("differing_type", lambda: letters(row(writes_too_wide, TooWide=END)), "writes_too_wide", "kind", "as 'str'"),
    Case("unknown_capability", alone(uses_class), "uses_class", "clock", "NotACapability"),
    Case("unknown_capability", alone(uses_field_by_name), "uses_field_by_name", "text", "positional"),
    Case("unknown_capability", lambda: letters(row(finish, Done=END), forbids=[NotACapability]), says="NotACapability"),
    Case("bad_capability", alone(uses_sync), "uses_sync", "sync", "'now' of capability 'Sync'"),
    Case("bad_capability", alone(uses_vague), "uses_vague", "vague", "'now' of capability 'Vague'"),
    Case("bad_capability", alone(uses_boundless), "uses_boundless", "boundless", "whose type variable no parameter determines"),
    Case("bad_capability", alone(uses_unresolved), "uses_unresolved", "unresolved", "Fraction"),
    Case("forbidden_capability", lambda: letters(row(uses_memory, Done=END), forbids=[Memory]), "uses_memory", "memory", "'Memory'"),
    Case("no_outcome", alone(returns_nothing), "returns_nothing"),
    Case("no_outcome", alone(returns_none), "returns_none"),
    Case("no_outcome", alone(returns_optional), "returns_optional"),
    Case("no_outcome", alone(returns_any_outcome), "returns_any_outcome"),
    Case("stranger_outcome", lambda: letters(row(finish, Done=END, Lost=END)), "finish", says="'Lost'"),
    Case("unrouted_outcome", lambda: letters(row(choose, Done=END)), "choose", says="'Lost'"),
    Case("stranger_target", lambda: letters(row(finish, Done=stranger)), "finish", says="'stranger'"),
    Case("outcome_field", lambda: letters(row(writes_misspelt, Misspelt=END)), "writes_misspelt", "sise", "Fix: write 'size'."),
    Case("entry_not_a_node", lambda: letters(row(finish, Done=END), entry=stranger), says="'stranger'"),
    Case("entry_not_a_node", lambda: letters(entry=stranger), says="'stranger'"),
    Case("unreachable_node", lambda: letters(row(finish, Done=END), row(measure, Measured=finish)), "measure"),
    Case("no_way_out", lambda: letters(row(measure, Measured=finish), row(finish, Done=measure)), "measure"),
    Case(
        "read_before_write",
        lambda: letters(row(stranger, Done=finish), row(finish, Done=END)),
        "finish",
        "size",
        "no node on the path stranger -> finish has written",
    ),
    Case("step_budget", lambda: letters(row(measure, Measured=finish), row(finish, Done=END), max_steps=1), says="max_steps=2"),
    Case("step_budget", lambda: letters(row(finish, Done=END), max_steps=0), says="max_steps=1"),
]
STATE_RULES = {
    *("not_a_state", "not_a_field", "state_validators", "not_data", "bad_default", "two_reducers", "reducer_default", "open_control"),
}
"""These have their cases in test_check_state.py."""


def problems_of(build: Callable[[], object]) -> tuple[Problem, ...]:
    with pytest.raises(ContractError) as caught:
        build()
    assert caught.value.code == "contract_invalid"
    assert str(caught.value) == "\n".join(str(problem) for problem in caught.value.problems)
    return caught.value.problems


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_broken_rule_stops_the_graph_and_says_where_and_what_to_change(case: Case):
    found = [problem for problem in problems_of(case.build) if (problem.rule, problem.node) == (case.rule, case.node)]
    assert len(found) == 1
    problem, message = found[0], str(found[0])
    assert problem.field == case.field
    assert f"graph '{problem.graph}'" in message
    assert problem.graph in {"letters", "two words"}
    assert case.node is None or f"node '{case.node}'" in message
    assert case.field is None or f"field '{case.field}'" in message
    assert case.says in message
    assert problem.fix
    assert message.endswith(f"Fix: {problem.fix}")


def test_every_rule_has_a_case():
    rules = set(re.findall(r'say\(\s*"(\w+)"', getsource(rules_module)))
    assert rules == {case.rule for case in CASES} | STATE_RULES
    assert rules == {key.partition(":")[0] for key in MESSAGES}


def test_all_problems_are_reported_at_once():
    found = problems_of(
        lambda: letters(row(reads_misspelt, Done=stranger), row(writes_wrong_type, Mismeasured=END), row(not_async, Done=END), entry=finish)
    )
    assert [(problem.rule, problem.node) for problem in found] == [
        ("unknown_field", "reads_misspelt"),
        ("stranger_target", "reads_misspelt"),
        ("differing_type", "writes_wrong_type"),
        ("not_async", "not_async"),
        ("entry_not_a_node", None),
    ]


def test_every_bad_parameter_of_a_node_is_reported():
    async def careless(txet: str, size: str, *, clock: NotACapability) -> Done:
        return Done()

    careless.__annotations__ = {"txet": str, "size": str, "clock": NotACapability, "return": Done}
    found = problems_of(lambda: letters(row(careless, Done=END)))
    assert [(problem.rule, problem.field) for problem in found] == [
        ("unknown_field", "txet"),
        ("differing_type", "size"),
        ("unknown_capability", "clock"),
    ]


async def reads_wider(text: str | None, kind: Literal["short", "long", "odd"]) -> Done:
    return Done()


class Narrower(Outcome):
    kind: Literal["long"] = "long"


async def writes_narrower(text: str) -> Narrower:
    return Narrower()


def test_a_node_may_read_wider_and_write_narrower_than_the_state():
    graph = Graph(
        "letters",
        state=Letter,
        entry=writes_narrower,
        nodes=[node(writes_narrower, goes={Narrower: reads_wider}), node(reads_wider, goes={Done: END})],
    )
    assert graph.edges == (("writes_narrower", "Narrower", "reads_wider"), ("reads_wider", "Done", None))


async def told_the_time(text: str, *, clock: Clock) -> Done:
    return Done()


def test_a_graph_lists_what_each_node_may_not_do():
    graph = letters(row(told_the_time, Done=choose), row(choose, Done=END, Lost=told_the_time), forbids=[Memory], takes=["text", "size"])
    assert graph.may_not("told_the_time") == ("Memory", "branch")
    assert graph.may_not("choose") == ("Clock", "Memory")
    assert graph.capabilities == (Clock,)
    assert repr(graph) == "Graph('letters', 2 nodes)"
    assert repr(END) == "END"
