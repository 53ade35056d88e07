"""A turn that is run again from one of its steps: in a new session, without the calls before that step, and for its own caller."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from interlock.discovery import load_agent
from interlock.errors import InputSchema
from tests.server.serving import Running, serving
from tests.support.parcels import sent

FIVE = {
    "sam": (["hello"], None),
    "analyst": (["Revenue by country in 2025", "And in 2024?"], None),
    "desk": (["I want a desk lamp", "How do I return a product?"], None),
    "gateway": (["What do the docs say about cancelling?"], "admin"),
    "puntini": (["Create a task Design", "Create a task Build", "Connect Build to Design as DEPENDS_ON"], None),
}


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path) as running:
        yield running


async def submit(client: httpx.AsyncClient, agent: str, text: str, session: str, role: str | None = None) -> dict[str, Any]:
    body = {"agent": agent, "input": text, "session": session, "role": role}
    return (await client.post("/api/turns", params={"wait": 30}, json=body)).json()


async def fork(client: httpx.AsyncClient, turn: dict[str, Any], step: int, **body: Any) -> dict[str, Any]:
    response = await client.post(f"/api/turns/{turn['turn']}/fork", json={"step": step, **body})
    assert response.status_code == 202, response.text
    return (await client.get(response.headers["location"], params={"wait": 30})).json()


async def test_calls_before_the_step_are_not_made_again(running: Running, tmp_path: Path):
    client = running.client()
    turn = await submit(client, "parcels", "tea", "kitchen")
    assert sent(tmp_path) == ["tea: first", "tea: last"]
    forked = await fork(client, turn, 3)
    assert (forked["status"], forked["output"], forked["path"]) == ("success", "delivered tea", ["start", "pause", "deliver"])
    assert forked["forked_from"] == {"turn": turn["turn"], "step": 3}
    assert forked["session"] == forked["turn"] != "kitchen"
    assert sent(tmp_path) == ["tea: first", "tea: last", "tea: last"]
    # It has a journal of its own: it can be forked and replayed as any turn.
    again = await fork(client, forked, 1, session="third")
    assert (again["session"], again["output"]) == ("third", "delivered tea")
    assert sent(tmp_path)[3:] == ["tea: first", "tea: last"]
    replayed = await client.post(f"/api/turns/{forked['turn']}/replay")
    assert replayed.json()["is_same"] is True
    assert len(sent(tmp_path)) == 5
    assert (await client.get("/api/sessions/parcels/kitchen/turns")).json()["turns"][0]["turn"] == turn["turn"]


async def test_a_question_that_was_answered_before_the_step_is_not_asked_again(running: Running):
    client = running.client()
    turn = await submit(client, "parcels", "ask", "one")
    early = await fork(client, turn, 2)
    assert (early["status"], early["waiting"]["question"]) == ("waiting", "Which colour?")
    await client.post(f"/api/turns/{turn['turn']}/answer", params={"wait": 30}, json={"text": "blue"})
    assert (await fork(client, turn, 3))["output"] == "answered blue"
    # The step that had asked asks again, and another answer changes what follows.
    asks = await fork(client, turn, 2)
    assert asks["status"] == "waiting"
    answered = await client.post(f"/api/turns/{asks['turn']}/answer", params={"wait": 30}, json={"text": "red"})
    assert answered.json()["output"] == "answered red"


async def test_the_new_session_starts_from_the_state_that_the_turn_started_from(running: Running):
    client = running.client()
    await submit(client, "notes", "first", "a", "user")
    second = await submit(client, "notes", "second", "a", "user")
    await submit(client, "notes", "third", "a", "user")
    forked = await fork(client, second, 1, session="b")
    assert forked["output"] == ["first", "second"]
    assert (await submit(client, "notes", "other", "b", "user"))["output"] == ["first", "second", "other"]
    assert (await submit(client, "notes", "fourth", "a", "user"))["output"] == ["first", "second", "third", "fourth"]


@pytest.mark.parametrize("agent", FIVE)
async def test_each_agent_runs_again_from_any_step(agent: str, tmp_path: Path):
    texts, role = FIVE[agent]
    async with serving(tmp_path, agents=[load_agent(agent)]) as running:
        client = running.client()
        turn = [await submit(client, agent, text, "here", role) for text in texts][-1]
        assert turn["status"] == "success"
        steps: int = len(turn["path"])
        for step in {1, steps // 2 + 1, steps}:
            forked = await fork(client, turn, step)
            assert (forked["status"], forked["path"]) == ("success", turn["path"]), forked["error"]
            # puntini finds its change done already, because it works on a copy of the graph as it is now.
            assert agent == "puntini" or forked["output"] == turn["output"]
            follows = await submit(client, agent, texts[-1], forked["session"], role)
            assert follows["status"] == "success", follows["error"]
        assert (await submit(client, agent, texts[0], "here", role))["status"] == "success"


async def test_a_graph_is_copied_and_the_first_session_keeps_its_own(tmp_path: Path):
    async with serving(tmp_path, agents=[load_agent("puntini")]) as running:
        client = running.client()
        turn = await submit(client, "puntini", "Create a task Design", "here")
        forked = await fork(client, turn, 5)
        await submit(client, "puntini", "Delete the task Design", forked["session"])
        assert "Design" in (await submit(client, "puntini", "Which tasks are there?", "here"))["output"]
        assert "Design" not in (await submit(client, "puntini", "Which tasks are there?", forked["session"]))["output"]


async def test_what_cannot_be_forked_is_refused(running: Running, tmp_path: Path):
    client = running.client()
    turn = await submit(client, "parcels", "tea", "kitchen")
    for body, says in (
        ({"step": 4}, "has no step 4"),
        ({"step": 0}, "step"),
        ({"step": 1, "session": "kitchen"}, "There is a session 'kitchen' already"),
        ({"step": 1, "session": "a/b"}, "session"),
        ({"step": 1, "more": 1}, "more"),
    ):
        response = await client.post(f"/api/turns/{turn['turn']}/fork", json=body)
        assert response.json()["code"] in {"input_schema", "request_invalid"}, body
        assert says in response.text
    assert sent(tmp_path) == ["tea: first", "tea: last"]
    running_turn = (await client.post("/api/turns", json={"agent": "parcels", "input": "wait 60", "session": "long"})).json()
    with pytest.raises(InputSchema, match="has not ended"):
        await running.app.fork(running.server.agents["parcels"], running_turn["turn"], step=1)
    await client.post(f"/api/turns/{running_turn['turn']}/cancel")


async def test_a_turn_is_forked_by_its_own_caller_and_by_operators(running: Running):
    ada, bob, root = await running.key("ada"), await running.key("bob"), await running.key("root", roles=("operator",))
    turn = await submit(running.client(ada), "parcels", "tea", "kitchen")
    refused = await running.client(bob).post(f"/api/turns/{turn['turn']}/fork", json={"step": 1})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert (await fork(running.client(ada), turn, 1))["status"] == "success"
    assert (await fork(running.client(root), turn, 1))["status"] == "success"
