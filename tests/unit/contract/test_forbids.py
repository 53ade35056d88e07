"""A graph forbids a capability: no node gets it, nor a part of it, nor more than it."""

from __future__ import annotations

from typing import Any, Protocol, TypedDict

import pytest

from interlock import END, Capability, Graph, Outcome, node
from interlock.capabilities import Memory, MemoryReader, MemoryWriter, Model, SessionReader, SessionStore, SessionWriter
from interlock.errors import ContractError


class Letter(TypedDict, total=False):
    text: str


class Done(Outcome):
    text: str


class Diary(MemoryReader, Protocol):
    async def dates(self) -> list[str]: ...


class Archive(Memory, SessionReader, Protocol):
    """Keeps everything."""


class NotACapability(Protocol):
    async def call(self) -> None: ...


def letters(*granted: Any, forbids: Any) -> Graph:
    async def write(text: str, *, one: Any, other: Any) -> Done:
        return Done(text=text)

    for name, capability in zip(("one", "other"), granted, strict=True):
        write.__annotations__[name] = capability
    return Graph("letters", state=Letter, entry=write, nodes=[node(write, goes={Done: END})], forbids=forbids)


RELATED = [
    (Memory, Memory),
    (Memory, MemoryReader),
    (Memory, MemoryWriter),
    (MemoryReader, Memory),
    (MemoryWriter, Memory),
    (MemoryReader, Diary),
    (Diary, MemoryReader),
    (MemoryWriter, Archive),
    (SessionStore, SessionReader),
    (SessionReader, Archive),
]


@pytest.mark.parametrize(("forbidden", "granted"), RELATED)
def test_what_is_forbidden_is_not_granted_in_part_or_as_part_of_more(forbidden: type, granted: type):
    with pytest.raises(ContractError) as caught:
        letters(Model, granted, forbids=[forbidden])
    (problem,) = caught.value.problems
    assert (problem.rule, problem.node, problem.field) == ("forbidden_capability", "write", "other")
    assert f"'{granted.__name__}'" in problem.says


UNRELATED = [
    (MemoryWriter, MemoryReader),
    (SessionWriter, SessionReader),
    (MemoryWriter, Diary),
    (Diary, MemoryWriter),
    (SessionStore, Memory),
    (Model, Archive),
]


@pytest.mark.parametrize(("forbidden", "granted"), UNRELATED)
def test_what_has_nothing_of_it_may_be_granted(forbidden: type, granted: type):
    graph = letters(granted, granted, forbids=[forbidden])
    assert graph.capabilities == (granted,)


@pytest.mark.parametrize("stranger", [NotACapability, object, Capability, Protocol, "Memory", None])
def test_what_is_no_capability_cannot_be_forbidden_and_is_named(stranger: Any):
    with pytest.raises(ContractError) as caught:
        letters(Model, MemoryReader, forbids=[stranger])
    (problem,) = caught.value.problems
    assert (problem.rule, problem.node) == ("unknown_capability", None)


def test_a_node_may_not_do_what_is_forbidden_by_its_name():
    assert letters(MemoryReader, Model, forbids=[MemoryWriter]).may_not("write") == ("MemoryWriter", "branch")
