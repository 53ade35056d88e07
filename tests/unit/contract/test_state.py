from __future__ import annotations

import operator
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, Required, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from interlock import END, Graph, Interlock, Outcome, Present, Settings, Untrusted, node
from interlock.engine import EngineName
from interlock.errors import ContractViolation, InputSchema, StateIncompatible


class AsTypedDict(TypedDict, total=False):
    text: Required[Annotated[str, Untrusted]]
    words: list[str]
    count: Annotated[int, operator.add]
    note: str | None


@dataclass
class AsDataclass:
    text: Annotated[str, Untrusted]
    words: list[str]
    count: Annotated[int, operator.add]
    note: str | None


class AsModel(BaseModel):
    text: Annotated[str, Untrusted]
    words: list[str]
    count: Annotated[int, operator.add]
    note: str | None


class Split(Outcome):
    words: list[str]
    count: int


class Counted(Outcome):
    count: int


async def split(text: str) -> Split:
    words = text.split()
    return Split(words=words, count=len(words))


async def count_again(words: list[str], count: int, note: str | None) -> Counted:
    assert note is None
    return Counted(count=count * 10 + len(words))


@pytest.mark.parametrize("state", [AsTypedDict, AsDataclass, AsModel])
async def test_a_graph_means_the_same_on_every_kind_of_state_class(engine: EngineName, state: type):
    graph = Graph(
        "words",
        state=state,
        entry=split,
        nodes=[node(split, goes={Split: count_again}), node(count_again, goes={Counted: END})],
        takes=["text"],
    )
    result = await Interlock(Settings(engine=engine)).run(graph, "one two three")
    assert result.state == {"text": "one two three", "words": ["one", "two", "three"], "count": 36, "note": None}
    assert list(result.state) == ["text", "words", "count", "note"]
    assert result.path == ("split", "count_again")
    assert result.error is None


@dataclass
class Defaults:
    plain: str = "begun"
    made: list[str] = field(default_factory=lambda: ["begun"])
    empty: str | None = None
    unset: int = field(default=0, kw_only=True)


class ModelDefaults(BaseModel):
    plain: str = "begun"
    made: list[str] = Field(default_factory=lambda: ["begun"])
    empty: str | None = None
    unset: int = 0


class Spoilt(Outcome):
    pass


async def spoil(plain: str, made: list[str], empty: str | None, unset: int) -> Spoilt:
    assert (plain, made, empty, unset) == ("begun", ["begun"], None, 0)
    made.append("spoilt")
    return Spoilt()


@pytest.mark.parametrize("state", [Defaults, ModelDefaults])
async def test_defaults_are_read_where_nothing_was_written_and_stay_as_they_are(engine: EngineName, state: type):
    graph = Graph("defaults", state=state, entry=spoil, nodes=[node(spoil, goes={Spoilt: END})])
    interlock = Interlock(Settings(engine=engine))
    for _ in range(2):
        result = await interlock.run(graph, {"plain": "begun"})
        assert result.error is None
        assert result.state == {"plain": "begun", "made": ["begun"], "empty": None, "unset": 0}


@dataclass
class NestedDefault:
    rows: tuple[list[str], ...] = ([],)
    text: str = ""


async def spoil_rows(rows: tuple[list[str], ...]) -> Spoilt:
    rows[0].append("spoilt")
    return Spoilt()


nested = Graph("defaults", state=NestedDefault, entry=spoil_rows, nodes=[node(spoil_rows, goes={Spoilt: END})])


@pytest.fixture
def clean_default() -> Generator[None]:
    yield
    NestedDefault.rows[0].clear()


@pytest.mark.usefixtures("clean_default")
async def test_a_list_inside_a_default_cannot_be_changed_by_a_node(engine: EngineName):
    result = await Interlock(Settings(engine=engine)).run(nested, {"text": "x"})
    assert result.state["rows"] == ([],)


@pytest.mark.usefixtures("clean_default")
async def test_a_list_inside_a_default_cannot_be_changed_through_a_result(engine: EngineName):
    interlock = Interlock(Settings(engine=engine))
    result = await interlock.run(nested, {"text": "x"})
    result.state["rows"][0].append("spoilt")
    assert (await interlock.run(nested, {"text": "x"})).state["rows"] == ([],)


class Sparse(TypedDict):
    text: NotRequired[str]
    maybe: str | None
    log: Annotated[list[str], operator.add]
    seen: str


class Seen(Outcome):
    seen: str


async def as_optional(text: str | None, maybe: str | None, log: list[str]) -> Seen:
    return Seen(seen=repr((text, maybe, log)))


async def as_given(text: str) -> Seen:
    return Seen(seen=text)


async def two_as_given(seen: str, text: str) -> Seen:
    return Seen(seen=text + seen)


async def whether(text: Present, maybe: Present, log: Present, seen: Present) -> Seen:
    return Seen(seen=repr((text, maybe, log, seen)))


async def test_a_reader_that_allows_for_none_gets_none_where_nothing_was_written(engine: EngineName):
    graph = Graph("sparse", state=Sparse, entry=as_optional, nodes=[node(as_optional, goes={Seen: END})])
    result = await Interlock(Settings(engine=engine)).run(graph, {"seen": ""})
    assert result.state == {"maybe": None, "log": [], "seen": "(None, None, [])"}


@pytest.mark.parametrize("reader", [as_given, two_as_given])
async def test_a_reader_that_does_not_allow_for_none_is_not_run_where_nothing_was_written(reader: Any):
    rows = [node(whether, goes={Seen: reader}), node(reader, goes={Seen: END})]
    graph = Graph("sparse", state=Sparse, entry=whether, nodes=rows, takes=["text", "seen"])
    compiled: Any = Interlock(Settings()).langgraph(graph)
    with pytest.raises(ContractViolation, match=r"'text'.*'str \| None'") as refused:
        await compiled.ainvoke({"seen": "a"})
    assert refused.value.node == reader.__name__


@pytest.mark.parametrize("reader", [as_given, two_as_given])
async def test_what_the_first_node_needs_has_to_be_given(engine: EngineName, reader: Any):
    graph = Graph("sparse", state=Sparse, entry=reader, nodes=[node(reader, goes={Seen: END})])
    with pytest.raises(InputSchema, match="'text' is missing"):
        await Interlock(Settings(engine=engine)).run(graph, {"seen": "a"})


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"seen": ""}, (False, False, False, False)),
        ({"text": "x", "maybe": "y", "log": ["z"], "seen": "!"}, (True, True, True, True)),
        ({"text": "", "maybe": None, "log": [], "seen": "!"}, (False, False, False, True)),
    ],
)
async def test_present_tells_only_whether_there_is_a_value(engine: EngineName, given: dict[str, Any], seen: tuple[bool, ...]):
    graph = Graph("sparse", state=Sparse, entry=whether, nodes=[node(whether, goes={Seen: END})])
    result = await Interlock(Settings(engine=engine)).run(graph, given)
    assert result.state["seen"] == repr(seen)


class Nothing(Outcome):
    pass


async def idle() -> Nothing:
    return Nothing()


async def test_a_turn_that_takes_and_writes_nothing_succeeds(engine: EngineName):
    graph = Graph("sparse", state=Sparse, entry=idle, nodes=[node(idle, goes={Nothing: END})])
    result = await Interlock(Settings(engine=engine)).run(graph, {})
    assert (result.error, result.state) == (None, {"maybe": None, "log": []})


def sparse(**options: Any) -> Graph:
    return Graph("sparse", state=Sparse, entry=idle, nodes=[node(idle, goes={Nothing: END})], **options)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"txet": "x"}, "Field 'txet' is unknown; this graph takes 'text', 'log'."),
        ({"seen": "x"}, "Field 'seen' cannot be set from outside; this graph takes 'text', 'log'."),
        ({"text": 1}, "The input does not fit: 'text': Input should be a valid string."),
        ({"log": ("a",)}, "The input does not fit: 'log': Input should be a valid list."),
        ({"log": [1]}, "The input does not fit: 'log.0': Input should be a valid string."),
    ],
)
async def test_a_caller_sets_only_the_fields_that_are_open_and_only_to_their_types(engine: EngineName, given: dict[str, Any], says: str):
    with pytest.raises(InputSchema) as caught:
        await Interlock(Settings(engine=engine)).run(sparse(takes=["text", "log"]), given)
    assert caught.value.message == says
    assert caught.value.code == "input_schema"


async def test_a_graph_that_takes_nothing_says_so(engine: EngineName):
    with pytest.raises(InputSchema, match="takes no fields"):
        await Interlock(Settings(engine=engine)).run(sparse(takes=[]), {"text": "x"})


class Anything(TypedDict, total=False):
    value: Any


def test_admitted_input_is_not_shared_with_the_caller():
    state = Graph("anything", state=Anything, entry=idle, nodes=[node(idle, goes={Nothing: END})]).state
    value = ["a"]
    admitted = state.parse_input({"value": value})
    value.append("b")
    assert admitted == {"value": ["a"]}


@dataclass(frozen=True)
class Point:
    x: int
    y: int


class Stored(TypedDict, total=False):
    points: tuple[Point, ...]
    tags: frozenset[str]
    pairs: dict[str, tuple[int, str]]


stored = Graph("stored", state=Stored, entry=idle, nodes=[node(idle, goes={Nothing: END})]).state


@given(
    st.tuples(st.builds(Point, x=st.integers(), y=st.integers())),
    st.frozensets(st.text(alphabet="abc")),
    st.dictionaries(st.text(alphabet="abc"), st.tuples(st.integers(), st.text(alphabet="abc"))),
)
def test_what_a_store_made_of_a_value_becomes_the_value_again(points: Any, tags: frozenset[str], pairs: dict[str, tuple[int, str]]):
    kept: dict[str, Any] = {
        "points": [{"x": point.x, "y": point.y} for point in points],
        "tags": sorted(tags),
        "pairs": {key: list(pair) for key, pair in pairs.items()},
    }
    restored = stored.restore(kept)
    assert restored == {"points": points, "tags": tags, "pairs": pairs}
    assert all(type(pair) is tuple for pair in restored["pairs"].values())


@pytest.mark.parametrize("kept", [{"points": [{"x": 1}]}, {"points": "nonsense"}, {"tags": [["a"]]}, {"pairs": {"a": [1]}}])
def test_stored_state_that_does_not_fit_is_refused(kept: dict[str, Any]):
    with pytest.raises(StateIncompatible) as caught:
        stored.restore(kept)
    assert caught.value.code == "state_incompatible"


def test_state_is_completed_in_the_order_of_its_declaration():
    state = sparse().state
    assert list(state.with_defaults({"seen": "x", "log": ["a"], "text": "t"})) == ["text", "maybe", "log", "seen"]
    assert state.with_defaults({}) == {"maybe": None, "log": []}
