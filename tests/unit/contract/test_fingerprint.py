from __future__ import annotations

import enum
import functools
import operator
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, create_model
from typing_extensions import TypedDict

from interlock import END, Capability, Control, Graph, Outcome, Present, Secret, Untrusted
from interlock.capabilities import Clock, Ids, Memory
from interlock.contract.labels import Label
from interlock.contract.node import Row


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def latest(_old: Any, new: Any) -> Any:
    return new


def strip(text: str) -> str:
    return text.strip()


class Wrote(Outcome):
    text: str


class Done(Outcome):
    pass


class Lost(Outcome):
    pass


def task(name: str, reads: dict[str, Any], returns: Any, *, clock: Any = None) -> Any:
    """Make a node with this contract."""

    async def run(*_reads: Any, **_grants: Any) -> Any:
        raise NotImplementedError

    grants = {} if clock is None else {"clock": clock}
    made: Any = run
    made.__name__ = name
    made.__annotations__ = {**reads, **grants, "return": returns}
    made.__signature__ = Signature(
        [*(Parameter(key, Parameter.POSITIONAL_OR_KEYWORD) for key in reads), *(Parameter(key, Parameter.KEYWORD_ONLY) for key in grants)]
    )
    return made


write = task("write", {"text": str}, Wrote)


def check(*, returns: Any = Done, clock: Any = None, **reads: Any) -> Any:
    return task("check", {"text": str, "extra": int, **reads}, returns, clock=clock)


def record(name: str, **fields: Any) -> type[Any]:
    """Make a dataclass with these fields; a pair is a type with its default."""
    declared: list[Any] = [(key, *hint) if isinstance(hint, tuple) else (key, hint) for key, hint in fields.items()]
    return make_dataclass(name, declared, kw_only=True)


FIELDS: dict[str, Any] = {
    "text": str,
    "extra": int,
    "note": (str | None, None),
    "log": Annotated[list[str], operator.add],
    "address": record("Address", street=str, number=int),
}


def state(**changes: Any) -> type[Any]:
    return record("Form", **{**FIELDS, **changes})


def form(
    *, first: Any = write, second: Any = None, first_goes: Any = None, second_goes: Any = None, reverse: bool = False, **changes: Any
) -> Graph:
    second = second or check()
    rows = [
        Row(first, {outcome: target or second for outcome, target in (first_goes or {Wrote: None}).items()}),
        Row(second, second_goes or {Done: END}),
    ]
    given: dict[str, Any] = {
        "name": "form",
        "state": state(),
        "entry": first,
        "nodes": rows[::-1] if reverse else rows,
        "max_steps": 10,
        "takes": ["text", "extra"],
        "gives": "text",
        "forbids": [Memory],
        **changes,
    }
    return Graph(given.pop("name"), **given)


def branching(done: Any, lost: Any, **changes: Any) -> Graph:
    return form(second=check(returns=Done | Lost), second_goes={Done: done, Lost: lost}, **changes)


def entered_by_check() -> Graph:
    second = check(returns=Done | Lost)
    return form(second=second, second_goes={Done: END, Lost: write}, entry=second)


class Renamed(Outcome):
    text: str


CHANGES: dict[str, Callable[[], Graph]] = {
    "graph name": lambda: form(name="other"),
    "node name": lambda: form(first=task("rewrite", {"text": str}, Wrote)),
    "target": lambda: branching(END, write),
    "other target": lambda: branching(write, END),
    "entry": entered_by_check,
    "added outcome": lambda: branching(END, END),
    "outcome name": lambda: form(first=task("write", {"text": str}, Renamed), first_goes={Renamed: None}),
    "outcome without its field": lambda: form(first=task("write", {"text": str}, Lost), first_goes={Lost: None}),
    "order of rows": lambda: form(reverse=True),
    "read taken away": lambda: form(second=task("check", {"text": str}, Done)),
    "read added": lambda: form(second=check(note=str | None)),
    "read widened": lambda: form(second=check(extra=int | None)),
    "presence for a value": lambda: form(second=check(extra=Present)),
    "grant": lambda: form(second=check(clock=Clock)),
    "other grant": lambda: form(second=check(clock=Ids)),
    "steps": lambda: form(max_steps=11),
    "takes": lambda: form(takes=["text", "extra", "note"]),
    "takes everything": lambda: form(takes=[*FIELDS]),
    "gives": lambda: form(gives="note"),
    "gives everything": lambda: form(gives=None),
    "forbids": lambda: form(forbids=[]),
    "forbids more": lambda: form(forbids=[Memory, Ids]),
    "field type": lambda: form(state=state(note=(bytes | None, None))),
    "field less optional": lambda: form(state=state(note=(str, ""))),
    "field added": lambda: form(state=state(more=str)),
    "field renamed": lambda: form(state=record("Form", **{("memo" if key == "note" else key): hint for key, hint in FIELDS.items()})),
    "default": lambda: form(state=state(note=(str | None, "new"))),
    "default taken away": lambda: form(state=state(note=str | None)),
    "reducer": lambda: form(state=state(log=Annotated[list[str], latest])),
    "reducer taken away": lambda: form(state=state(log=list[str])),
    "constraint": lambda: form(state=state(note=(Annotated[str | None, Field(max_length=3)], None))),
    "other constraint": lambda: form(state=state(note=(Annotated[str | None, Field(max_length=4)], None))),
    "validator": lambda: form(state=state(note=(Annotated[str | None, AfterValidator(strip)], None))),
    "element type": lambda: form(state=state(log=Annotated[list[int], operator.add])),
    "type of a field of a nested record": lambda: form(state=state(address=record("Address", street=str, number=str))),
    "name of a field of a nested record": lambda: form(state=state(address=record("Address", street=str, no=int))),
    "field added to a nested record": lambda: form(state=state(address=record("Address", street=str, number=int, town=str))),
    "name of a nested record": lambda: form(state=state(address=record("Place", street=str, number=int))),
    "nested record in a list": lambda: form(state=state(address=list[record("Address", street=str, number=int)])),
    "literal": lambda: form(state=state(note=(Literal["a", "b"] | None, None))),
    "value of a literal": lambda: form(state=state(note=(Literal["a", "c"] | None, None))),
    "enum": lambda: form(state=state(note=(Colour | None, None))),
    "value of an enum": lambda: form(state=state(note=(enum.Enum("Colour", {"RED": "red", "BLUE": "navy"}) | None, None))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_any_contract_is_seen(change: str):
    assert CHANGES[change]().fingerprint != form().fingerprint


@pytest.mark.parametrize("label", [Untrusted, Secret])
def test_a_label_is_not_part_of_it_because_stored_sessions_do_not_depend_on_labels(label: Label):
    assert form(state=state(note=(Annotated[str | None, label], None))).fingerprint == form().fingerprint


def test_no_two_changes_look_the_same():
    found = {change: build().fingerprint for change, build in CHANGES.items()}
    assert len(set(found.values())) == len(CHANGES)


def test_the_same_contract_declared_again_is_the_same():
    assert form().fingerprint == form(state=state(), first=task("write", {"text": str}, Wrote), second=check()).fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (str | int, int | str),
        (str | None, None | str),
        (Literal["a", "b"], Literal["b", "a"]),
        (list[str | int], list[int | str]),
    ],
)
def test_the_order_of_alternatives_does_not_matter(one: Any, other: Any):
    assert form(state=state(more=one)).fingerprint == form(state=state(more=other)).fingerprint


TYPES = [str, int, bytes, str | None, list[str], dict[str, int], tuple[int, ...], Literal["a"], Colour, Annotated[str, Untrusted]]
states = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(TYPES), max_size=3)


@settings(max_examples=30)
@given(states, states)
def test_two_states_have_the_same_fingerprint_only_if_they_are_the_same(one: dict[str, Any], other: dict[str, Any]):
    assert (form(state=state(**one)).fingerprint == form(state=state(**other)).fingerprint) == (one == other)


def capability(returns: type) -> type[Any]:
    """Make a capability of always the same name."""

    async def find(self: Any, words: str) -> Any: ...

    find.__annotations__["return"] = returns
    made: Any = type("Search", (Capability, Protocol), {"find": find, "__module__": __name__})  # pyright: ignore[reportArgumentType]
    made._is_protocol = True  # noqa: SLF001 - what `class Search(Capability, Protocol)` does
    return made


DEEP: dict[str, Callable[[], tuple[Graph, Graph]]] = {
    "constraint inside a model": lambda: (
        form(state=state(more=create_model("Part", size=(int, Field(gt=0))))),
        form(state=state(more=create_model("Part", size=(int, Field(gt=5))))),
    ),
    "named tuple": lambda: (
        form(state=state(more=NamedTuple("Part", [("size", int)]))),
        form(state=state(more=NamedTuple("Part", [("size", str)]))),
    ),
    "partial reducer": lambda: (
        form(state=state(log=Annotated[list[str], functools.partial(operator.add)])),
        form(state=state(log=Annotated[list[str], functools.partial(latest)])),
    ),
    "what a capability returns": lambda: (
        form(second=check(clock=capability(str))),
        form(second=check(clock=capability(int))),
    ),
}


@pytest.mark.parametrize("change", DEEP)
def test_a_change_deep_inside_is_seen(change: str):
    one, other = DEEP[change]()
    assert one.fingerprint != other.fingerprint


class Inner(BaseModel):
    kind: Literal["x", "y", "z"]
    parts: set[str] = set()


class Entry(TypedDict):
    inner: Inner


@dataclass
class Wide:
    choice: Annotated[Literal["alpha", "beta", "gamma", "delta"], Control] = "alpha"
    either: Annotated[str | int | bytes | None, Untrusted, Secret] = None
    colour: Colour = Colour.RED
    entry: Entry | None = None
    log: Annotated[list[str], operator.add] = field(default_factory=list[str])
    short: Annotated[str, Field(max_length=3), AfterValidator(strip)] = ""


@dataclass
class SetDefault:
    tags: frozenset[str] = frozenset({"alpha", "beta", "gamma", "delta"})


async def finish() -> Done:
    return Done()


STATES = {"wide": Wide, "set default": SetDefault}


def print_fingerprints() -> None:
    for state in STATES.values():
        graph = Graph("wide", state=state, entry=finish, nodes=[Row(finish, {Done: END})])
        sys.stdout.write(f"{graph.fingerprint}\n")


@pytest.fixture(scope="module")
def processes() -> list[dict[str, str]]:
    """Fingerprint the same graphs in processes that order their sets differently."""
    ran = [
        subprocess.run(
            [sys.executable, "-W", "error", __file__],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        )
        for seed in ("1", "2")
    ]
    return [dict(zip(STATES, process.stdout.split(), strict=True)) for process in ran]


@pytest.mark.parametrize("kind", STATES)
def test_the_fingerprint_is_the_same_in_every_process(kind: str, processes: list[dict[str, str]]):
    one, other = processes
    assert one[kind] == other[kind]
    assert len(one[kind]) == 64


if __name__ == "__main__":
    print_fingerprints()
