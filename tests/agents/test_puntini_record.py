"""Turns of puntini that were written down: taken again without a store, a model or time; gone on with after a crash."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Settings
from interlock.capabilities import Human
from interlock.engine import ENGINES, EngineName
from interlock.errors import ModelUnavailable, RecordInvalid, StoreUnavailable
from interlock.human import ScriptedHuman
from interlock.runtime.events import Event
from interlock.testing import Scripted
from interlock_agents.puntini.graph_store import AddNode, Node
from tests.support.puntini import Desk, Watched, final, many, opened, simple, step, unclear

A, B = step("add_node", label="Task", key="a", properties={"n": 1, "f": 0.5, "l": ["x"]}), final("add_node", label="Task", key="b")
EDGE = step("add_edge", from_node="a", to_node="missing", relationship="NEEDS")
OTHER: dict[EngineName, EngineName] = {ENGINES[0]: ENGINES[1], ENGINES[1]: ENGINES[0]}
TURNS: dict[str, tuple[Scripted, ...]] = {
    "one call": (simple("query_graph"),),
    "two steps": (many("a", "b"), A, B),
    "a failure on the way": (many("a", "b"), A, EDGE, B),
    "given up": (many("a", "b"), A, EDGE, EDGE),
    "unclear": (unclear("Why?"),),
    "a store that is not there once": (many("a", "b"), A, B),
    "a model that is no use": ("nonsense",),
    "no model": (ModelUnavailable("Not now."),),
    "raw writes": (simple("cypher_query", query="MATCH (n) DETACH DELETE n"), final("cypher_query", query="CREATE (n)")),
}


@pytest.fixture
async def desk(engine: EngineName, tmp_path: Path) -> AsyncGenerator[Desk]:
    store = opened("ladybug", tmp_path / "graphs")
    yield Desk(engine, tmp_path, Watched(store), "s")
    await store.aclose()


def nowhere(engine: EngineName, folder: Path) -> Interlock:
    """An application that has neither a store nor a model: whatever it asked would leave something in its folder."""
    settings: dict[str, Any] = {"data_dir": folder / "nowhere", "model": "openai:none", "model_base_url": "http://127.0.0.1:9"}
    return Interlock(Settings(engine=engine, **settings))


async def test_a_recorded_turn_is_replayed_on_both_engines(desk: Desk, tmp_path: Path):
    for name, replies in TURNS.items():
        record = tmp_path / name.replace(" ", "-")
        desk.store.fails = {len(desk.store.applied) + 1: StoreUnavailable("Not now.")} if "not there once" in name else {}
        events: list[Event] = []
        before = await desk.take("Do it.", *replies, record=record, on_event=events.append, grants={Human: ScriptedHuman("abort")})
        applied = len(desk.store.applied)
        for other in ENGINES:
            again: list[Event] = []
            replay = await nowhere(other, tmp_path).replay(record, on_event=again.append)
            assert replay.differences == (), name
            assert (replay.result.to_json(), replay.result.path) == (before.to_json(), before.path)
            assert again == events
        assert len(desk.store.applied) == applied
    assert not (tmp_path / "nowhere").exists()


async def test_a_recorded_turn_of_the_offline_rules_is_replayed(desk: Desk, tmp_path: Path):
    for number, goal in enumerate(
        ("Create a project Apollo with tasks Design and Build", "How many tasks does Apollo have?", "Tell me a joke")
    ):
        await desk.take(goal, record=tmp_path / str(number))
        for other in ENGINES:
            assert (await nowhere(other, tmp_path).replay(tmp_path / str(number))).differences == ()


async def test_an_interrupted_turn_resumes_without_repeating_calls(desk: Desk, tmp_path: Path):
    before = await desk.take("Do it.", many("a", "b"), A, B, record=tmp_path / "record")
    lines = (tmp_path / "record").read_text().splitlines(keepends=True)
    applies = [number for number, line in enumerate(lines) if json.loads(line).get("entry", {}).get("method") == "apply"]
    assert len(applies) == 2
    desk.store.applied.clear()
    cut = tmp_path / "cut"
    cut.write_text("".join(lines[: applies[0] + 1]))
    async with desk.app(B) as app:
        result = await app.resume(cut)
    assert len(desk.store.applied) == 1, "the first step was not done again"
    assert result.path == before.path
    assert [key for _, key, _ in await desk.nodes()] == ["a", "b"]
    assert (await nowhere(OTHER[desk.engine], tmp_path).replay(cut)).differences == (), "the record is whole now"


async def test_a_record_is_never_overwritten_and_private(desk: Desk, tmp_path: Path):
    record = tmp_path / "record"
    await desk.take("Do it.", simple("add_node", label="Task", key="a"), record=record)
    assert stat.S_IMODE(record.stat().st_mode) & 0o077 == 0
    kept = record.read_bytes()
    applied = len(desk.store.applied)
    with pytest.raises(RecordInvalid):
        await desk.take("Do it.", simple("add_node", label="Task", key="b"), record=record)
    assert (record.read_bytes(), len(desk.store.applied)) == (kept, applied)
    with pytest.raises(StoreUnavailable):
        await desk.take("Do it.", simple("add_node", label="Task", key="b"), record=tmp_path / "missing" / "record")
    assert len(desk.store.applied) == applied


async def test_the_turn_after_an_answer_has_its_own_record(desk: Desk, tmp_path: Path):
    given = (many("a", "b"), A, EDGE, B)
    with desk.store.unreadable():
        result = await desk.take("Do it.", *given, record=tmp_path / "turn.jsonl", grants={Human: ScriptedHuman("Leave it, add b.")})
    assert [key for _, key, _ in await desk.nodes()] == ["a", "b"]
    applied = len(desk.store.applied)
    for other in ENGINES:
        first = await nowhere(other, tmp_path).replay(tmp_path / "turn.jsonl")
        second = await nowhere(other, tmp_path).replay(tmp_path / "turn.2.jsonl")
        assert (first.differences, second.differences) == ((), ())
        assert (first.result.path[-2:], second.result.to_json()) == (("escalate", "answer"), result.to_json())
    assert len(desk.store.applied) == applied


async def test_an_interrupted_answered_turn_resumes_without_repeating_calls(desk: Desk, tmp_path: Path):
    record = tmp_path / "record"
    with desk.store.unreadable():
        before = await desk.take("Do it.", many("a", "b"), A, EDGE, record=record, grants={Human: ScriptedHuman("abort")})
    assert (before.state["escalation"].taken_back, len(desk.store.applied)) == (True, 2)
    lines = record.read_text().splitlines(keepends=True)
    for end in range(1, len(lines)):
        cut = tmp_path / f"cut-{end}"
        cut.write_text("".join(lines[:end]))
        done = sum(json.loads(line).get("entry", {}).get("method") == "apply" for line in lines[:end])
        if done == 1:
            await desk.store.store.apply("s", (AddNode(node=Node(label="Task", key="a", properties={"n": 1, "f": 0.5, "l": ["x"]})),))
        desk.store.applied.clear()
        model = [many("a", "b"), A, EDGE][sum(json.loads(line).get("entry", {}).get("method") == "decide" for line in lines[:end]) :]
        async with desk.app(*(model or ["never asked"]), grants={Human: ScriptedHuman("abort")}) as app:
            with desk.store.unreadable():
                result = await app.resume(cut)
        assert (result.status, result.path, len(desk.store.applied)) == ("success", before.path, 2 - done), end
        assert await desk.nodes() == []


async def test_a_suspended_turn_is_recorded(desk: Desk, tmp_path: Path):
    with desk.store.unreadable():
        result = await desk.take("Do it.", many("a", "b"), A, EDGE, record=tmp_path / "record", human="wait")
    assert result.status == "waiting"
    with pytest.raises(RecordInvalid, match="half way"):
        await nowhere(desk.engine, tmp_path).replay(tmp_path / "record")
    assert (await desk.answer("abort")).status == "success"
