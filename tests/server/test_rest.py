from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from interlock.server import shapes
from tests.server.serving import Running, frames, serving
from tests.support.parcels import sent


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path) as running:
        yield running


async def submit(running: Running, text: str, *, agent: str = "parcels", wait: int = 20, **given: Any) -> dict[str, Any]:
    response = await running.client().post("/api/turns", params={"wait": wait}, json={"agent": agent, "input": text, **given})
    assert response.status_code in {200, 202}, response.text
    return response.json()


async def test_a_submitted_turn_is_run_and_returned_with_its_result(running: Running):
    turn = await submit(running, "hello", agent="sam")
    assert turn["status"] == "success"
    assert "hello" in turn["output"]
    assert turn["path"][0] == "router_node"
    shapes.TurnShape.model_validate(turn, strict=True)
    again = (await running.client().get(f"/api/turns/{turn['turn']}")).json()
    assert again == turn
    listed = (await running.client().get("/api/turns", params={"agent": "sam", "status": "success"})).json()
    assert [one["turn"] for one in listed["turns"]] == [turn["turn"]]
    assert listed["turns"][0]["state"] is None


async def test_a_turn_that_takes_longer_than_the_client_waits_is_accepted(running: Running):
    response = await running.client().post("/api/turns", json={"agent": "parcels", "input": "wait 30"})
    assert response.status_code == 202
    turn = response.json()
    assert response.headers["location"] == f"/api/turns/{turn['turn']}"
    cancelled = await running.client().post(f"/api/turns/{turn['turn']}/cancel")
    assert cancelled.status_code in {200, 202}
    ended = (await running.client().get(f"/api/turns/{turn['turn']}", params={"wait": 20})).json()
    assert (ended["status"], ended["error"]["code"]) == ("cancelled", "cancelled")


async def test_the_same_idempotency_key_is_the_same_turn_and_another_input_is_refused(running: Running, tmp_path: Path):
    client = running.client(**{"idempotency-key": "order-1"})
    body: dict[str, Any] = {"agent": "parcels", "input": "now"}
    turns = [(await client.post("/api/turns?wait=20", json=body)).json()["turn"] for _ in range(3)]
    assert len(set(turns)) == 1
    assert sent(tmp_path) == ["now: first", "now: last"]
    other = await client.post("/api/turns", json=body | {"input": "later"})
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")


async def test_a_question_is_in_the_inbox_and_its_answer_resumes_the_turn_and_names_who_answered(running: Running, tmp_path: Path):
    turn = await submit(running, "ask", session="s")
    assert (turn["status"], turn["waiting"]["question"]) == ("waiting", turn["output"])
    client = running.client()
    inbox = (await client.get("/api/waiting")).json()["turns"]
    assert [one["turn"] for one in inbox] == [turn["turn"]]
    busy = await client.post("/api/turns", json={"agent": "parcels", "input": "now", "session": "s"})
    assert (busy.status_code, busy.json()["code"]) == (409, "turn_waiting")
    path = f"/api/turns/{turn['turn']}/answer"
    answered = await client.post(path, params={"wait": 20}, json={"text": "yes"})
    assert (answered.status_code, answered.json()["status"]) == (200, "success")
    assert answered.json()["answer"] == {"text": "yes", "by": "local"}
    assert sent(tmp_path) == ["ask: first", "ask: last"]
    assert (await client.get("/api/waiting")).json()["turns"] == []
    late = await client.post(path, json={"text": "no"})
    assert (late.status_code, late.json()["code"]) == (409, "nothing_waits")


async def test_the_events_of_a_turn_are_the_same_as_json_as_a_stream_and_resumed_at_every_cut(running: Running):
    turn = await submit(running, "hello", agent="sam")
    client, path = running.client(), f"/api/turns/{turn['turn']}/events"
    page = (await client.get(path)).json()
    shapes.EventPage.model_validate(page, strict=True)
    stream = {"accept": "text/event-stream"}
    async with client.stream("GET", path, headers=stream) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        whole = await frames(response)
    events, status = whole[:-1], whole[-1]
    assert [one["data"] for one in events] == page["events"]
    assert [one["id"] for one in events] == [f"1.{number}" for number in range(1, len(events) + 1)]
    assert (status["event"], status["data"]["status"]) == ("status", "success")
    for cut in range(0, len(events), 3):
        async with client.stream("GET", path, headers=stream | {"last-event-id": f"1.{cut}"}) as response:
            assert await frames(response) == whole[cut:]
        assert (await client.get(path, params={"after": cut})).json()["events"] == page["events"][cut:]
    gone = await client.get(path, headers=stream | {"last-event-id": f"1.{len(events)}"})
    assert gone.status_code == 204


async def test_a_stream_follows_a_turn_that_runs_and_a_client_that_leaves_does_not_end_it(running: Running):
    turn = await submit(running, "wait 1", wait=0)
    client, path = running.client(), f"/api/turns/{turn['turn']}/events"
    stream = {"accept": "text/event-stream"}
    async with client.stream("GET", path, headers=stream) as response:
        first = await frames(response, until=1)
    assert first[0]["id"] == "1.1"
    async with client.stream("GET", path, headers=stream | {"last-event-id": "1.1"}) as response:
        rest = await frames(response)
    assert [one["id"] for one in rest[:-1]] == [f"1.{number}" for number in range(2, len(rest) + 1)]
    assert rest[-1]["data"]["status"] == "success"


async def test_a_session_is_followed_over_its_turns_with_ids_that_grow(running: Running):
    await submit(running, "now", session="s")
    client = running.client()
    async with client.stream("GET", "/api/sessions/parcels/s/events") as response:
        reading = asyncio.create_task(frames(response, until=_status_count(2)))
        await submit(running, "later", session="s")
        found = await asyncio.wait_for(reading, 30)
    ids = [tuple(map(int, one["id"].split("."))) for one in found if "id" in one]
    assert ids == sorted(ids)
    assert {position for position, _ in ids} == {1, 2}
    async with client.stream("GET", "/api/sessions/parcels/s/events", headers={"last-event-id": "1.3"}) as response:
        resumed = await frames(response, until=len(found) - 3)
    assert resumed == found[3:]


def _status_count(turns: int) -> int:
    """How many frames turns of the parcels agent have that do nothing in between."""
    return turns * 9


async def test_sessions_are_listed_with_their_last_turn_and_state(running: Running):
    for text in ("one", "two"):
        await submit(running, text, agent="notes", session="diary", role="user")
    client = running.client()
    listed = (await client.get("/api/sessions")).json()
    assert [(one["agent"], one["session"], one["turns"], one["status"]) for one in listed["sessions"]] == [("notes", "diary", 2, "success")]
    session = (await client.get("/api/sessions/notes/diary")).json()
    assert session["state"]["notes"] == ["one", "two"]
    turns = (await client.get("/api/sessions/notes/diary/turns")).json()["turns"]
    assert [one["position"] for one in turns] == [2, 1]
    missing = await client.get("/api/sessions/notes/other")
    assert (missing.status_code, missing.json()["code"]) == (404, "session_unknown")


async def test_steps_tell_what_each_node_read_wrote_and_called(running: Running):
    turn = await submit(running, "hello", agent="sam")
    steps = (await running.client().get(f"/api/turns/{turn['turn']}/steps")).json()
    shapes.StepList.model_validate(steps, strict=True)
    assert [step["node"] for step in steps["steps"]] == turn["path"]
    assert steps["steps"][0]["reads"]["raw_input"] == "hello"
    assert steps["steps"][0]["writes"] == {"input_type": "text"}
    called = [(step["node"], call["kind"]) for step in steps["steps"] for call in step["calls"]]
    assert called == [("model_call_node", "model")]


async def test_a_record_is_exported_and_replayed_without_differences(running: Running, tmp_path: Path):
    turn = await submit(running, "hello", agent="sam")
    client = running.client()
    record = await client.get(f"/api/turns/{turn['turn']}/record")
    path = tmp_path / "record.jsonl"
    path.write_bytes(record.content)
    path.chmod(0o600)
    assert (await running.app.replay(path)).differences == ()
    replayed = (await client.post(f"/api/turns/{turn['turn']}/replay")).json()
    assert replayed == {"turn": turn["turn"], "is_same": True, "differences": []}


async def test_agents_come_with_contracts_and_a_layout_of_every_node_and_edge(running: Running):
    client = running.client()
    names = [one["agent"] for one in (await client.get("/api/agents")).json()["agents"]]
    assert names == ["parcels", "notes", "sam"]
    agent = (await client.get("/api/agents/sam")).json()
    (graph,) = agent["graphs"]
    shapes.Agent.model_validate(agent, strict=True)
    assert {one["name"] for one in graph["layout"]["nodes"]} == {one["name"] for one in graph["nodes"]}
    edges = {(edge["source"], outcome, edge["target"] or "END") for edge in graph["layout"]["edges"] for outcome in edge["outcomes"]}
    assert edges == {(one["name"], outcome, target) for one in graph["nodes"] for outcome, target in one["goes"].items()}
    assert any(edge["is_back"] for edge in graph["layout"]["edges"])


async def test_workers_and_metrics_are_shown_without_sessions_in_labels(running: Running):
    await submit(running, "now", session="a-secret-session")
    client = running.client()
    workers = TypeAdapter(shapes.WorkerList).validate_json((await client.get("/api/workers")).content)
    assert [worker.is_this for worker in workers.workers] == [True]
    metrics = (await client.get("/metrics")).text
    assert 'interlock_turns_total{agent="parcels",status="success"} 1' in metrics
    assert "a-secret-session" not in metrics
    families = set(re.findall(r"^# TYPE interlock_(\w+) ", metrics, re.MULTILINE))
    operated = {"turns_open", "oldest_ready_seconds", "takeovers_total", "leases_lost_total", "retold_total", "commits_total"}
    assert operated | {"turn_seconds", "loop_lag_seconds", "event_streams"} <= families
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    assert (await client.get("/readyz")).json() == {"status": "ready"}
