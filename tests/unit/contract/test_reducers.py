from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from annotated_types import Len
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph.message import add_messages

from interlock import END, Graph, Interlock, Outcome, Settings, Untrusted, node
from interlock.contract.state import read_fields
from interlock.engine import EngineName
from interlock.errors import ContractViolation


@dataclass(frozen=True)
class Message:
    id: str
    text: str


def by_id(old: list[Message], new: list[Message]) -> list[Message]:
    """Put new messages after the old ones, and in the place of those with the same id."""
    merged = {message.id: message for message in (*old, *new)}
    return list(merged.values())


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {**old, **new}


def latest_two(old: Sequence[str], new: Sequence[str]) -> list[str]:
    return [*old, *new][-2:]


def longest(old: str | None, new: str | None) -> str | None:
    return max(old, new, key=lambda text: len(text or ""))


class Log(TypedDict, total=False):
    lines: Annotated[list[str], operator.add]
    total: Annotated[int, operator.add]
    recent: Annotated[Sequence[str], latest_two]
    messages: Annotated[list[Message], Untrusted, by_id]
    facts: Annotated[dict[str, Any], merge]
    best: Annotated[str | None, longest]
    last: str


class Wrote(Outcome):
    lines: list[str]
    total: int
    recent: list[str]
    messages: list[Message]
    facts: dict[str, Any]
    best: str | None
    last: str


async def write_first() -> Wrote:
    return Wrote(
        lines=["b"], total=2, recent=["b", "c"], messages=[Message("1", "a"), Message("2", "b")], facts={"x": 1}, best="long", last="first"
    )


async def write_second(lines: list[str], total: int, recent: Sequence[str], messages: list[Message]) -> Wrote:
    assert (lines, total) == (["a", "b"], 3)
    assert recent == ["b", "c"]
    assert messages == [Message("1", "a"), Message("2", "b")]
    return Wrote(lines=["c"], total=3, recent=["d"], messages=[Message("1", "A")], facts={"y": 2}, best="x", last="second")


async def test_what_is_written_to_a_reduced_field_is_reduced_in_order(engine: EngineName):
    graph = Graph(
        "log",
        state=Log,
        entry=write_first,
        nodes=[node(write_first, goes={Wrote: write_second}), node(write_second, goes={Wrote: END})],
    )
    result = await Interlock(Settings(engine=engine)).run(graph, {"lines": ["a"], "total": 1})
    assert result.error is None
    assert result.state == {
        "lines": ["a", "b", "c"],
        "total": 6,
        "recent": ["c", "d"],
        "messages": [Message("1", "A"), Message("2", "b")],
        "facts": {"x": 1, "y": 2},
        "best": "long",
        "last": "second",
    }


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


class Said(Outcome):
    messages: list[AnyMessage]


async def correct(messages: list[AnyMessage]) -> Said:
    assert [message.content for message in messages] == ["helo"]
    return Said(messages=[HumanMessage("hello", id="1"), AIMessage("hi", id="2")])


async def test_langgraphs_own_message_reducer_works(engine: EngineName):
    graph = Graph("chat", state=Chat, entry=correct, nodes=[node(correct, goes={Said: END})])
    result = await Interlock(Settings(engine=engine)).run(graph, {"messages": [HumanMessage("helo", id="1")]})
    assert result.state["messages"] == [HumanMessage("hello", id="1"), AIMessage("hi", id="2")]


class Facts(TypedDict, total=False):
    facts: Annotated[dict[str, Any], merge]
    plain: dict[str, Any]


class Learnt(Outcome):
    facts: dict[str, Any]
    plain: dict[str, Any]


async def learn(plain: dict[str, Any]) -> Learnt:
    return Learnt(facts=plain, plain=plain)


MARKERS: list[dict[str, Any]] = [
    {"__overwrite__": {"forged": True}},
    {"type": "__overwrite__", "value": {"forged": True}},
]


@pytest.mark.parametrize("marker", MARKERS, ids=["key", "type"])
async def test_a_value_that_looks_like_an_overwrite_marker_is_reduced_like_any_other(engine: EngineName, marker: dict[str, Any]):
    graph = Graph("facts", state=Facts, entry=learn, nodes=[node(learn, goes={Learnt: END})])
    result = await Interlock(Settings(engine=engine)).run(graph, {"facts": {"kept": 1}, "plain": marker})
    assert result.state == {"facts": {"kept": 1, **marker}, "plain": marker}


@pytest.mark.parametrize("marker", MARKERS, ids=["key", "type"])
async def test_an_overwrite_marker_in_the_input_is_a_value_like_any_other(engine: EngineName, marker: dict[str, Any]):
    graph = Graph("facts", state=Facts, entry=learn, nodes=[node(learn, goes={Learnt: END})])
    result = await Interlock(Settings(engine=engine)).run(graph, {"facts": marker, "plain": {"new": 1}})
    assert result.state["facts"] == {**marker, "new": 1}


def refuse(old: list[str], new: list[str]) -> list[str]:
    raise ValueError("cannot be reduced")


class Unreducible(TypedDict, total=False):
    lines: Annotated[list[str], refuse]
    seen: str


class Line(Outcome):
    lines: list[str]


async def write_line() -> Line:
    return Line(lines=["a"])


async def test_a_reducer_that_raises_ends_the_turn_in_a_typed_error(engine: EngineName):
    graph = Graph("log", state=Unreducible, entry=write_line, nodes=[node(write_line, goes={Line: END})])
    result = await Interlock(Settings(engine=engine)).run(graph, {"seen": ""})
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("contract_violation", "write_line")
    assert "'lines'" in result.error.message
    assert result.state == {"lines": [], "seen": ""}


def wrong_type(old: int, new: int) -> int:
    result: Any = str(old + new)
    return result


class Mistyped(TypedDict, total=False):
    total: Annotated[int, wrong_type]
    seen: str


class Added(Outcome):
    total: int


class Seen(Outcome):
    seen: str


async def add() -> Added:
    return Added(total=1)


async def look(total: int) -> Seen:
    return Seen(seen=repr(total))


async def test_a_reducer_that_returns_another_type_ends_the_turn_in_a_typed_error(engine: EngineName):
    graph = Graph("log", state=Mistyped, entry=add, nodes=[node(add, goes={Added: look}), node(look, goes={Seen: END})])
    result = await Interlock(Settings(engine=engine)).run(graph, {"seen": ""})
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("contract_violation", "add")
    assert "'total'" in result.error.message
    assert result.state == {"total": 0, "seen": ""}


def extend(old: list[int] | None, new: list[int] | None) -> list[int] | None:
    """Reduce in place, as reducers are often written."""
    if old is None:
        return new
    old.extend(new or [])
    return old


class InPlace(TypedDict, total=False):
    numbers: Annotated[list[int] | None, extend]


class Number(Outcome):
    numbers: list[int] | None


async def one() -> Number:
    return Number(numbers=[1])


async def two() -> Number:
    return Number(numbers=[2])


async def three(numbers: list[int] | None) -> Number:
    raise RuntimeError("no three")


async def test_a_failed_turn_tells_the_state_that_was_reached_when_a_reducer_works_in_place(engine: EngineName):
    graph = Graph(
        "numbers",
        state=InPlace,
        entry=one,
        nodes=[node(one, goes={Number: two}), node(two, goes={Number: three}), node(three, goes={Number: END})],
    )
    result = await Interlock(Settings(engine=engine)).run(graph, {})
    assert result.error is not None
    assert result.error.code == "node_failed"
    assert result.state == {"numbers": [1, 2]}


class Joined(TypedDict, total=False):
    few: Annotated[list[str], Len(0, 2), operator.add]
    many: Annotated[tuple[Message, ...], operator.add]
    words: Annotated[list[dict[str, int]], operator.add]


class Few(Outcome):
    few: list[str]


class Many(Outcome):
    many: tuple[Message, ...]
    words: list[dict[str, int]]


async def write_few() -> Few:
    return Few(few=["b", "c"])


async def test_a_sum_of_two_parts_that_fit_is_refused_where_it_does_not_fit_itself(engine: EngineName):
    graph = Graph("few", state=Joined, entry=write_few, nodes=[node(write_few, goes={Few: END})])
    result = await Interlock(Settings(engine=engine)).run(graph, {"few": ["a"]})
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("contract_violation", "write_few")
    assert result.state["few"] == ["a"]


async def write_many(words: list[dict[str, int]]) -> Many:
    for word in words:
        word["n"] += 1
    return Many(many=(Message("2", "b"),), words=words)


async def read_many(many: tuple[Message, ...], words: list[dict[str, int]]) -> Many:
    for word in words:
        word["n"] += 1
    return Many(many=many[:1], words=[])


async def test_combined_parts_are_not_shared(engine: EngineName):
    graph = Graph(
        "many",
        state=Joined,
        entry=write_many,
        nodes=[node(write_many, goes={Many: read_many}), node(read_many, goes={Many: END})],
    )
    given = {"many": (Message("1", "a"),), "words": [{"n": 1}]}
    result = await Interlock(Settings(engine=engine)).run(graph, given)
    assert result.error is None
    assert result.state["many"] == (Message("1", "a"), Message("2", "b"), Message("1", "a"))
    assert result.state["words"] == [{"n": 1}, {"n": 2}]
    assert given["words"] == [{"n": 1}]


def test_what_comes_from_a_store_is_validated_with_what_it_is_added_to():
    many = read_fields(Joined)[0]["many"]
    assert many.reduce_stored((Message("1", "a"),), [{"id": "2", "text": "b"}]) == (Message("1", "a"), Message("2", "b"))
    with pytest.raises(ContractViolation, match="'many'"):
        many.reduce_stored(({"id": "1"},), ())
