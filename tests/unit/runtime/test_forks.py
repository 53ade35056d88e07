"""The journal of a fork: calls before the step are answered from the record of the first session, and the step ends it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from interlock.errors import JournalFailed, ReplayDiverged
from interlock.runtime.forks import ForkJournal, renamed
from interlock.runtime.journal import Entry, JournalSlot

NAMES = {"old": "new"}


def entry(sequence: int, key: str = "k", **changes: Any) -> Entry:
    return replace(Entry(turn="first", sequence=sequence, node="n", capability="C", method="m", key=key, result=sequence), **changes)


def journal(*entries: Entry, step: int = 2) -> ForkJournal:
    return ForkJournal("second", entries=entries, step=step, session="old", to="new")


def take(found: ForkJournal, key: str, *, sequence: int = 1, node: str = "n", capability: str = "C", method: str = "m") -> Entry:
    slot: JournalSlot = found.slot(sequence, node, capability, method, key)
    assert slot.known is not None
    return slot.known


def started(step: int, **metadata: Any) -> Any:
    return {"event": "on_chain_start", "metadata": {"langgraph_node": "n", "langgraph_step": step, **metadata}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("old", "new"),
        ("older", "older"),
        ("the old one", "the old one"),
        ({"session": "old", "old": "x"}, {"session": "new", "old": "x"}),
        ([["old"], None, 1, True], [["new"], None, 1, True]),
        ('{"session": "old", "n": 1}', '{"session":"new","n":1}'),
        ('{"inner": "{\\"session\\": \\"old\\"}"}', '{"inner":"{\\"session\\":\\"new\\"}"}'),
        ('{ "n": 1 }', '{ "n": 1 }'),
        ('{"session": "old"', '{"session": "old"'),
    ],
)
def test_a_name_is_replaced_where_it_is_a_whole_value(value: Any, expected: Any):
    assert renamed(value, NAMES) == expected


def test_a_text_that_is_nested_too_deep_stays_as_it_is():
    text = '{"a":' * 5_000 + '"old"' + "}" * 5_000
    assert renamed({"said": text}, NAMES) == {"said": text}


def test_a_call_that_names_the_session_is_recognised_by_its_place():
    found = journal(entry(1, "of old", result={"session": "old", "text": json.dumps({"id": "old"})}), entry(2, "of old", node="other"))
    known = take(found, "of new", sequence=7)
    assert (known.turn, known.sequence, known.key) == ("second", 7, "of new")
    assert known.result == {"session": "new", "text": '{"id":"new"}'}
    assert found.reused == (known,)
    with pytest.raises(JournalFailed) as raised:
        take(found, "of new")
    assert isinstance(raised.value.reason, ReplayDiverged)


def test_a_call_with_equal_arguments_keeps_its_result_and_comes_before_one_by_its_place():
    found = journal(entry(1, "a"), entry(2, "b", result="old"), entry(3, "c"))
    assert take(found, "b").result == "old"
    assert [take(found, key).result for key in ("x", "y")] == [1, 3]


def test_the_state_of_the_framework_has_no_version_in_the_other_session():
    load: dict[str, Any] = {"capability": "Sessions", "method": "load", "node": ""}
    found = journal(entry(1, "of old", result={"version": 3, "state": {}}, **load), entry(2, "of old", result=None, **load))
    assert take(found, "of new", **load).result == {"version": None, "state": {}}
    assert take(found, "of new", **load).result is None


def test_the_replay_ends_where_the_step_starts():
    found = journal(entry(1), entry(2))
    others: list[Any] = [started(1), {**started(2), "event": "on_chain_end"}, {"event": "on_chain_start", "metadata": {}}]
    for event in others:
        found.on_event(event)
    assert take(found, "k").result == 1
    found.on_event(started(2))
    found.on_event(started(3))
    assert found.is_reached
    with pytest.raises(JournalFailed):
        take(found, "k")
    assert [one.result for one in found.reused] == [1]


def test_calls_that_did_not_end_are_not_taken_over():
    question = entry(2, question={"text": "?", "options": [], "recommended": ""})
    found = journal(question, entry(1, is_intent=True))
    with pytest.raises(JournalFailed):
        take(found, "k")


def test_calls_are_stored_in_the_order_in_which_they_ended():
    # The second call ended before the first one.
    found = journal(entry(2, "b"), entry(1, "a"))
    assert [take(found, key).result for key in "ab"] == [1, 2]
    assert [one.result for one in found.reused] == [2, 1]
    assert [one.result for one in found.replay_order] == [2, 1]
