"""Turns in the turn store: the events of those that waited for a person, and the turns that follow others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Settings
from interlock.engine import EngineName
from interlock.runtime.event_lines import RETOLD, retold_line, standing_lines, timed
from interlock.runtime.events import Event
from tests.support.parcels import agent, sent


@pytest.fixture
def app(tmp_path: Path, engine: EngineName) -> Interlock:
    return Interlock(Settings(data_dir=tmp_path, engine=engine))


async def answered_twice(app: Interlock) -> list[list[Event]]:
    """Run a turn that asks two questions; return the events that the caller and the two who answered have seen."""
    seen: list[list[Event]] = [[], [], []]
    await app.run(agent, "ask ask", session="s", turn="t", on_event=seen[0].append)
    await app.answer(agent, "red", session="s", on_event=seen[1].append)
    result = await app.answer(agent, "blue", session="s", on_event=seen[2].append)
    assert result.output == "answered red blue"
    return seen


async def test_the_record_of_a_turn_that_waited_twice_replays_without_a_difference(app: Interlock, tmp_path: Path):
    await answered_twice(app)
    await app.turns.export("t", tmp_path / "turn.jsonl")
    replay = await app.replay(tmp_path / "turn.jsonl", graph=agent)
    assert replay.differences == ()
    assert sent(tmp_path) == ["ask ask: first", "ask ask: last"]


async def test_listeners_see_the_numbers_under_which_events_are_stored(app: Interlock):
    seen = await answered_twice(app)
    stored = {event["metadata"]["sequence"]: event async for event in app.turns.events("t")}
    assert list(stored) == list(range(1, len(stored) + 1))
    for events in seen:
        assert [stored[event["metadata"]["sequence"]] for event in events] == events
    assert seen[2][-1] == stored[len(stored)]


async def test_a_client_that_comes_back_with_the_last_number_gets_exactly_what_was_missed(app: Interlock):
    seen = await answered_twice(app)
    last = seen[1][-1]["metadata"]["sequence"]
    after = [event async for event in app.turns.events("t", after=last)]
    new = [event for event in seen[2] if event["metadata"]["sequence"] > last]
    assert after == new
    assert after[0]["name"] == RETOLD


async def test_a_later_attempt_stores_only_what_is_new(app: Interlock):
    await answered_twice(app)
    events = [event async for event in app.turns.events("t")]
    starts = [event["name"] for event in events if event["event"] == "on_chain_start"]
    assert starts == ["parcels", "start", "pause", "deliver"]
    standing = await app.turns.standing_events("t")
    assert [event["metadata"]["sequence"] for event in standing] == list(range(1, len(standing) + 1))
    assert [event["event"] for event in standing if event["name"] == "pause"] == ["on_chain_start", "on_chain_end"]


async def test_events_have_the_times_at_which_they_were_emitted(app: Interlock):
    await app.run(agent, "wait 0.2", session="s", turn="t")
    times = {(event["name"], event["event"]): ms for ms, event in await app.turns.timed_events("t")}
    waited = times["pause", "on_chain_end"] - times["pause", "on_chain_start"]
    assert waited >= 199
    assert times["start", "on_chain_start"] < 10_000
    assert times["deliver", "on_chain_end"] >= times["pause", "on_chain_end"]


def test_lines_that_were_replaced_do_not_stand():
    lines = [b"0", b"1", b"2", timed(retold_line(1), 7), b"1b", b"2b", b"3b", timed(retold_line(5), 9), b"2c"]
    assert [lines[number] for number in standing_lines(lines)] == [b"0", b"1b", b"2c"]


def follow(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Deliver one letter after the other."""
    left = str(state["text"])[1:]
    return {"text": left} if left else None


def again(_: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"text": "a"}


letters = replace(agent, follow=follow)


async def test_a_repeated_call_returns_the_result_of_the_last_turn_that_followed(app: Interlock, tmp_path: Path):
    results = [await app.run(letters, "abc", session="s", turn="t") for _ in range(2)]
    assert [(result.turn, result.output) for result in results] == [("t+3", "delivered c")] * 2
    assert len(sent(tmp_path)) == 6


async def test_turns_do_not_follow_one_another_without_end(app: Interlock, tmp_path: Path):
    endless = replace(agent, follow=again)
    assert (await app.run(endless, "a", session="s", turn="t")).turn == "t+11"
    assert len(sent(tmp_path)) == 2 * 11


async def test_a_turn_that_has_just_become_ready_is_left_to_its_own_caller(app: Interlock):
    running = asyncio.create_task(app.run(agent, "wait 0.5", session="s", turn="a"))
    await until_accepted(app, "a")
    await app.submit(agent, "b", session="s", turn="b")  # and its process dies
    assert (await app.run(agent, "c", session="s")).status == "success"
    await running
    first, left = [await app.turns.store.get(turn) for turn in ("a", "b")]
    assert first is not None
    assert left is not None
    assert left.started is not None
    assert left.started - (first.ended or 0) >= 1.0  # it was seen twice before it was run by another caller


async def test_a_listener_that_raises_gets_no_more_events_and_the_turn_is_finished(app: Interlock):
    seen: list[Event] = []

    def listen(event: Event) -> None:
        seen.append(event)
        raise KeyError(event["name"])

    with pytest.raises(KeyError):
        await app.run(agent, "wait 0.2", session="s", turn="t", on_event=listen)
    assert len(seen) == 1
    found = await app.turns.store.get("t")
    assert found is not None
    assert found.status == "success"


async def test_the_result_of_a_submitted_turn_is_waited_for_though_its_agent_is_not_installed(app: Interlock):
    turn = await app.submit(agent, "box", session="s")
    assert (await app.result(turn)).output == "delivered box"


async def test_a_question_is_answered_though_many_turns_are_queued_behind_it(app: Interlock):
    first = await app.submit(agent, "ask", session="s", turn="first")
    for number in range(120):
        await app.submit(agent, f"{number}", session="s", turn=f"later-{number}")
    assert (await app.result(first)).status == "waiting"
    assert (await app.answer(agent, "red", session="s")).output == "answered red"


async def test_a_caller_finds_the_turn_of_a_dead_worker_behind_many_that_are_queued(app: Interlock):
    await app.submit(agent, "a", session="s", turn="first")
    await app.turns.store.claim("dead", fingerprints=[await fingerprint(app, "first")], lease_s=0.0)
    waiting = [await app.submit(agent, "b", session="s", turn=f"later-{number}") for number in range(120)]
    async with asyncio.timeout(60):
        assert (await app.result(waiting[0])).status == "success"


async def fingerprint(app: Interlock, turn: str) -> str:
    found = await app.turns.store.get(turn)
    assert found is not None
    return found.fingerprint


async def until_accepted(app: Interlock, turn: str) -> None:
    async with asyncio.timeout(30):
        while await app.turns.store.get(turn) is None:
            await app.turns.store.changed(timeout_s=0.1)
