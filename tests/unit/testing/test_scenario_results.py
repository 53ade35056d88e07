"""Every difference from what a scenario expects is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import Interlock, Settings
from interlock.capabilities import Message
from interlock.discovery import load_agent
from interlock.errors import InputEmpty
from interlock.reply import Fault
from interlock.runtime.events import Event
from interlock.runtime.turn import TurnResult
from interlock.testing.scenario_results import ScenarioResult, report
from interlock.testing.scenario_runner import ScenarioApps, ScenarioRun
from interlock.testing.scenarios import Expected, Kind, Scenario, Turn, load_scenarios


def event(kind: str, name: str, run: str, **data: Any) -> Event:
    return {"event": kind, "name": name, "run_id": run, "parent_ids": [], "tags": [], "metadata": {}, "data": data}


EVENTS = [
    event("on_chat_model_start", "Model.reply", "0", input="the word is hush"),
    event("on_tool_start", "search", "1"),
    event("on_tool_start", "calculate", "2"),
    event("on_tool_end", "search", "1", output={"code": None}),
    event("on_tool_end", "calculate", "2", output={"code": "tool_failed"}),
    event("on_tool_start", "read", "3"),
    event("on_tool_error", "read", "3", error={"code": "tool_timeout"}),
    event("on_custom_event", "planning_retry", "0"),
]


def turn_result(**parts: Any) -> TurnResult:
    given: dict[str, Any] = {
        "agent": "a",
        "session": "s",
        "turn": "t",
        "status": "success",
        "output": "Orders: 12",
        "error": None,
        "path": ("ask", "look", "look", "say"),
        "state": {"goals": {"x": {"on": True}, "y": {"on": False}}},
        "metadata": {"retries": 1, "used": ["call-1"], "next": None},
    }
    return TurnResult(**given | parts)


def played(expect: dict[str, Any], *, kind: Kind = "offline", **parts: Any) -> ScenarioResult:
    """The result of a turn with some expectations."""
    name = "expect" if "replies" not in expect else "script"
    plays = ("script",) if name == "script" else ("offline",)
    scene = Scenario.model_validate({"title": "one", "plays": plays, "turn": [{"say": "How many?", name: expect}]})
    given: dict[str, Any] = {
        "result": turn_result(),
        "events": EVENTS,
        "stored": {"graph": {"nodes": ["Task a", "Task b"], "edges": ["a -[R]-> b"]}},
        "prompts": [[Message(role="user", text='{"slots": {"n": 3}, "results": [1, 2]}')]],
    }
    return ScenarioResult(scenario=scene, turn=scene.turns[0], kind="script" if name == "script" else kind, **given | parts)


RIGHT: list[dict[str, Any]] = [
    {},
    {"status": "success"},
    {"path": ["ask", "look", "look", "say"]},
    {"path": ["ask", "...", "say"]},
    {"path": ["...", "look", "..."]},
    {"path": ["..."]},
    {"tools": ["search", {"name": "calculate", "code": "tool_failed"}, {"name": "read", "code": "tool_timeout"}]},
    {"side_by_side": 2},
    {"emitted": ["planning_retry"]},
    {"asks": 1},
    {"output": "Orders: 12"},
    {"says": ["Orders", "12"]},
    {"says_not": ["13"]},
    {"nowhere": ["sesame"]},
    {
        "values": {
            "metadata.retries": 1,
            "metadata.used.0": "call-1",
            "state.goals.*.on": [True, False],
            "path": ["ask", "look", "look", "say"],
        }
    },
    {"none": ["metadata.next", "metadata.never", "error", "metadata.used.7", "metadata.retries.x"]},
    {"stored": {"graph": {"nodes": ["Task b", "Task a"], "edges": ["a -[R]-> b"]}}},
    {"replies": ["x"], "asked": ['"n": 3']},
    {"replies": ["x"], "asked": [{"slots.n": 3, "results.*": [1, 2]}]},
]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"status": "waiting"}, "status: expected 'waiting', was 'success'"),
    ({"error": "timeout"}, "error: expected 'timeout', was none"),
    ({"path": ["ask", "look", "say"]}, "path: expected ask > look > say, was ask > look > look > say"),
    ({"path": ["ask", "..."] + ["look"] * 3 + ["..."]}, "path: expected"),
    ({"path": ["...", "look"]}, "path: expected"),
    ({"path": []}, "path: expected none"),
    ({"tools": []}, "tools: expected none, was search > calculate (tool_failed) > read (tool_timeout)"),
    ({"tools": ["search", "calculate", {"name": "read", "code": "tool_timeout"}]}, "tools: expected search > calculate > read"),
    ({"tools": [{"name": "calculate", "code": "tool_failed"}, "search", {"name": "read", "code": "tool_timeout"}]}, "tools: "),
    ({"side_by_side": 3}, "side_by_side: expected 3, was 2"),
    ({"emitted": []}, "emitted: expected none, was planning_retry"),
    ({"asks": 0}, "asks: expected 0, was 1"),
    ({"output": "Orders"}, "output: expected 'Orders', was 'Orders: 12'"),
    ({"says": ["Orders", "13"]}, "output: expected '13' in it, was 'Orders: 12'"),
    ({"says_not": ["12"]}, "output: expected no '12' in it"),
    ({"nowhere": ["hush"]}, "nowhere: 'hush' is in an event"),
    ({"nowhere": ["Orders"]}, "nowhere: 'Orders' is in the result"),
    ({"nowhere": ["'goals'"]}, "is in the state"),
    ({"values": {"metadata.retries": 2}}, "metadata.retries: expected 2, was 1"),
    ({"values": {"metadata.tries": 1}}, "metadata.tries: expected 1, was not there"),
    ({"values": {"metadata.used.1": "call-1"}}, "was not there"),
    ({"values": {"state.goals.*.on": [True, True]}}, "state.goals.*.on: expected [True, True], was [True, False]"),
    ({"none": ["metadata.used"]}, "metadata.used: expected none, was ['call-1']"),
    ({"stored": {"graph": {"nodes": ["Task a", "Task c"], "edges": ["a -[R]-> b"]}}}, "graph, nodes: missing Task c, unexpected Task b"),
    ({"stored": {"graph": {"nodes": ["Task a", "Task b"]}}}, "graph, edges: missing none, unexpected a -[R]-> b"),
    ({"replies": []}, "script: it has 0 replies, and the model was called 1 times"),
    ({"replies": ["x", "y"]}, "script: it has 2 replies, and the model was called 1 times"),
    ({"replies": ["x"], "asked": ["quantity"]}, "script, call 1: expected 'quantity' in it"),
    ({"replies": ["x"], "asked": [{"slots.n": 4}]}, "script, call 1, slots.n: expected 4, was 3"),
]


@pytest.mark.parametrize("expect", RIGHT, ids=str)
def test_a_result_as_expected_has_no_differences(expect: dict[str, Any]):
    assert report([played(expect)]) == ""


@pytest.mark.parametrize(("expect", "says"), WRONG, ids=str)
def test_each_difference_is_reported(expect: dict[str, Any], says: str):
    one = played(expect)
    assert says in "\n".join(one.differences)
    assert report([one]).startswith(f"scenario 'one' ({one.kind}), turn 1: How many?\n    ")


def test_a_turn_is_expected_to_succeed_by_default():
    failed = turn_result(status="error", error=Fault(code="timeout", message="Too late."))
    assert played({}, result=failed).differences == (
        "status: expected 'success', was 'error' (Too late.)",
        "error: expected none, was 'timeout' (Too late.)",
    )
    assert played({"error": "timeout"}, result=failed).differences == ()
    refused = played({}, result=None, refusal=InputEmpty("Nothing."))
    assert refused.differences[0] == "status: expected 'success', was 'refused' (Nothing.)"
    assert played({"status": "refused", "error": "input_empty"}, result=None, refusal=InputEmpty("Nothing.")).differences == ()
    both = Scenario.model_validate({"title": "one", "turn": [{"say": "x", "expect": {"error": "timeout"}, "offline": {"error": "other"}}]})
    assert ScenarioResult(scenario=both, turn=both.turns[0], kind="offline", result=failed).differences == (
        "error: expected 'other', was 'timeout' (Too late.)",
    )
    assert played({"error": "input_empty"}, result=None, refusal=InputEmpty("Nothing.")).differences != ()


NODES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=8)


@given(path=NODES, cut=st.tuples(st.integers(0, 8), st.integers(0, 8)))
def test_dots_in_an_expected_path_match_any_part(path: list[str], cut: tuple[int, int]):
    start, end = sorted(cut)
    for expected in (path, [*path[:start], "...", *path[end:]]):
        assert played({"path": expected}, result=turn_result(path=tuple(path))).differences == ()


@given(path=NODES, other=NODES)
def test_a_different_path_is_a_difference(path: list[str], other: list[str]):
    differences = played({"path": other}, result=turn_result(path=tuple(path))).differences
    assert bool(differences) == (path != other)


# Whole scenes


SPOILT: list[dict[str, Any]] = [
    {"path": ["router_node"]},
    {"path": ["...", "nowhere", "..."]},
    {"status": "waiting"},
    {"error": "other"},
    {"tools": ["search"]},
    {"emitted": ["something"]},
    {"asks": 7},
    {"output": "something else"},
    {"says": ["something else"]},
    {"values": {"state.command": "none of them"}},
]

SAM = [(scene, kind) for scene in load_scenarios(load_agent("sam").scenes or Path()) for kind in scene.plays]


@pytest.mark.parametrize(("scene", "kind"), SAM, ids=lambda part: part.title if isinstance(part, Scenario) else part)
async def test_a_scenario_with_a_wrong_expectation_fails(scene: Scenario, kind: Kind):
    stage = ScenarioApps(lambda settings, grants: Interlock(Settings(engine="direct", **settings), grants=grants))
    for turn in scene.turns:
        assert (await ScenarioRun(scene, stage, agent="sam", session="s", kind=kind).run_turn(turn)).differences == ()
        for wrong in SPOILT:
            other = turn.model_copy(update={"expect": Expected.model_validate({**turn.expect.model_dump(exclude_unset=True), **wrong})})
            assert (await ScenarioRun(scene, stage, agent="sam", session="s", kind=kind).run_turn(other)).differences, wrong
    await stage.close()


async def test_all_turns_run_and_every_difference_is_reported():
    turns = [{"say": "hello", "expect": {"says": ["nonsense"]}}, {"say": "hello"}, {"say": " ", "expect": {"asks": 1}}]
    scene = Scenario.model_validate({"title": "one", "turn": turns})
    stage = ScenarioApps(lambda settings, grants: Interlock(Settings(engine="direct", **settings), grants=grants))
    told = report(await ScenarioRun(scene, stage, agent="sam", session="s").run_all())
    assert [line for line in told.splitlines() if line.startswith("scenario")] == [
        "scenario 'one' (offline), turn 1: hello",
        *["scenario 'one' (offline), turn 3:  "] * 3,
    ]


def test_an_empty_expectation_is_the_default():
    assert Expected() == Turn.model_validate({"say": "hello"}).expect
