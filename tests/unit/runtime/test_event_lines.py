"""Events as lines: what follows from the lines before is not written again, and what was emitted comes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.runtime.event_lines import EventEncoder, decode_events, retold_line, timed
from interlock.runtime.events import Event, run_prefix
from interlock.runtime.json_lines import encode_json

TURN = "turn-1"
RUN = f"{run_prefix(TURN)}{'1':0>12}"


def event(kind: str, *, name: str = "node", metadata: dict[str, Any] | None = None, data: dict[str, Any] | None = None) -> Event:
    return {
        "event": kind,
        "name": name,
        "run_id": RUN,
        "parent_ids": [],
        "tags": [],
        "metadata": metadata or {},
        "data": data or {},
    }


def test_a_name_or_metadata_that_changes_during_a_run_is_read_back_as_it_was():
    emitted = [
        event("on_chain_start", metadata={"langgraph_node": "node"}),
        event("on_chain_stream", metadata={"langgraph_node": "node", "step": 2}),
        event("on_chain_end", name="renamed", metadata={"langgraph_node": "node"}, data={"text": "half of a pair: \ud800"}),
    ]
    encoder = EventEncoder(TURN)
    lines = [timed(encoder.encode(one), number) for number, one in enumerate(emitted)]
    for number, (expected, found) in enumerate(zip(emitted, decode_events(TURN, lines), strict=True), 1):
        assert found == {**expected, "metadata": {**expected["metadata"], "sequence": number}}


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, -0.0, "", "short", "a text that is long enough"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3))
LONG = "a text that is long enough " * 20
FIELDS = st.dictionaries(st.sampled_from(["a", "b", "state", "output"]), VALUES | st.just(LONG), max_size=4)
DATA = st.fixed_dictionaries({}, optional={"input": FIELDS, "output": FIELDS | VALUES, "chunk": VALUES})
CHUNKS = st.fixed_dictionaries({"text": VALUES, "calls": VALUES, "model": VALUES, "usage": VALUES}).map(lambda chunk: {"chunk": chunk})
EVENTS = st.builds(event, st.sampled_from(["on_chain_start", "on_chat_model_stream"]), data=DATA | CHUNKS)


def encoded(emitted: Iterable[Event]) -> list[bytes]:
    encoder = EventEncoder(TURN)
    return [timed(encoder.encode(one), 0) for one in emitted]


@given(st.lists(EVENTS, max_size=8))
def test_what_was_emitted_comes_back_to_the_last_byte(emitted: list[Event]):
    found = list(decode_events(TURN, encoded(emitted)))
    assert [encode_json(one["data"]) for one in found] == [encode_json(one["data"]) for one in emitted]


@given(st.lists(EVENTS, max_size=6), st.lists(EVENTS, min_size=1, max_size=6), st.lists(EVENTS, max_size=6))
def test_what_a_later_attempt_emits_does_not_rest_on_what_it_replaces(same: list[Event], first: list[Event], second: list[Event]):
    lines = [*encoded([*same, *first]), timed(retold_line(len(same)), 0), *encoded([*same, *second])[len(same) :]]
    found = list(decode_events(TURN, lines))
    assert [encode_json(one["data"]) for one in found[len(found) - len(second) :]] == [encode_json(one["data"]) for one in second]


def test_after_a_replaced_event_values_are_those_from_before_it():
    same = [event("on_chain_end", data={"output": {"a": LONG}})]
    first = [event("on_chain_end", data={"output": {"a": f"other {LONG}", "b": LONG}})]
    second = [event("on_chain_start", data={"input": {"a": LONG}}), event("on_chain_end", data={"output": {"b": LONG, "a": LONG}})]
    lines = [*encoded([*same, *first]), timed(retold_line(1), 0), *encoded([*same, *second])[1:]]
    assert [one["data"] for one in decode_events(TURN, lines)][3:] == [one["data"] for one in second]
    assert lines[3].count(b"long enough") == 0


@pytest.mark.parametrize(("written", "read"), [([1], [1.0]), ([1], [True]), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (0.0, -0.0), (1, True)])
def test_a_value_that_is_equal_but_written_otherwise_is_not_left_out(written: Any, read: Any):
    emitted = [
        event("on_chain_end", data={"output": {"v": written, "pad": LONG}}),
        event("on_chain_start", data={"input": {"v": read, "pad": LONG}}),
    ]
    found = list(decode_events(TURN, encoded(emitted)))
    assert encode_json(found[1]["data"]) == encode_json(emitted[1]["data"])


def test_what_a_step_reads_is_not_written_again():
    state = {"question": "how many orders are there?" * 20, "count": 1, "empty": None}
    emitted = [event("on_chain_end", data={"output": state}), event("on_chain_start", data={"input": {**state, "count": 2}})]
    lines = encoded([*emitted, event("on_chain_end", data={"output": {"status": "success", "state": {**state, "count": 2}}})])
    assert b"how many" in lines[0]
    assert [b"how many" in line for line in lines[1:]] == [False, False]
    assert max(map(len, lines[1:])) < 200


def test_who_changes_an_event_does_not_change_a_later_one():
    listed = {"list": ["a text that is long enough" * 20]}
    found = decode_events(TURN, encoded([event("on_chain_end", data={"output": listed}), event("on_chain_start", data={"input": listed})]))
    next(found)["data"]["output"]["list"].append("changed")
    later = next(found)["data"]["input"]
    assert later == listed


@pytest.mark.parametrize(
    "data",
    [
        {"chunk": {"text": "word", "calls": [], "model": "", "usage": {"tokens": 1}}},
        {"chunk": {"text": "word", "calls": [], "model": "", "usage": None}, "more": 1},
        {"chunk": {"calls": [], "text": "word", "model": "", "usage": None}},
        {"chunk": "word"},
        {"chunk": {"text": "word", "calls": [], "model": "", "usage": None}},
    ],
)
def test_a_chunk_comes_back_as_it_was(data: dict[str, Any]):
    found = list(decode_events(TURN, encoded([event("on_chat_model_start"), event("on_chat_model_stream", data=data)])))
    assert (found[1]["event"], encode_json(found[1]["data"])) == ("on_chat_model_stream", encode_json(data))


def test_a_chunk_of_text_is_a_short_line():
    chunk: dict[str, Any] = {"text": "word", "calls": [], "model": "m", "usage": None}
    started = event("on_chat_model_start")
    lines = encoded([started, event("on_chat_model_stream", data={"chunk": chunk})])
    assert lines[1] == b'{"r":"1","t":"word","v":"m"} 0'
