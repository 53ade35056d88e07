"""AG-UI at the level of HTTP: what a request may have, who may see a thread, and turns that another worker resumed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from interlock.runtime.event_lines import RETOLD
from interlock.runtime.events import Event
from interlock.runtime.turns import StoredTurn
from interlock.server.agui import Projection, RunAgentInput
from interlock.server.conversation import Message
from interlock.server.problems import MEDIA_TYPE
from tests.server.serving import AGENTS, Running, frames, serving
from tests.server.teller import agent as teller
from tests.support.parcels import agent as parcels


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path, agents=(*AGENTS, teller)) as running:
        yield running


def body(content: Any, *, thread: str = "t", **more: Any) -> dict[str, Any]:
    return {"threadId": thread, "runId": "r", "messages": [{"id": "m", "role": "user", "content": content}], **more}


async def events(client: httpx.AsyncClient, path: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    async with client.stream("POST", path, json=given) as response:
        assert response.status_code == 200, await response.aread()
        return [one["data"] for one in await frames(response)]


async def refused(client: httpx.AsyncClient, given: Any, path: str = "/agui/parcels") -> tuple[int, str]:
    response = await client.post(path, content=json.dumps(given))
    assert response.headers["content-type"] == MEDIA_TYPE
    return response.status_code, response.json()["code"]


async def test_requests_that_cannot_be_used_are_typed(running: Running):
    client = running.client()
    url = {"type": "image", "source": {"type": "url", "value": "https://example.org/x.png"}}
    data = {"type": "image", "source": {"type": "data", "value": "eA==", "mimeType": "image/png"}}
    resume = {"interruptId": "x", "status": "resolved", "payload": "y"}
    assert await refused(client, {}) == (400, "request_invalid")
    assert await refused(client, [1]) == (400, "request_invalid")
    assert await refused(client, body("x", resume=[{"interruptId": 3}])) == (400, "request_invalid")
    assert await refused(client, body("x", resume=[resume, resume])) == (400, "request_invalid")
    assert await refused(client, body("x", thread="a/b")) == (422, "input_schema")
    assert await refused(client, body("x") | {"messages": []}) == (422, "input_schema")
    assert await refused(client, body("x") | {"messages": [{"role": "assistant", "content": "x"}]}) == (422, "input_schema")
    assert await refused(client, body([url])) == (422, "input_schema")
    assert await refused(client, body([data, data])) == (422, "input_schema")
    assert await refused(client, body("")) == (422, "input_empty")
    assert await refused(client, body("x", resume=[resume])) == (409, "nothing_waits")
    assert await refused(client, body("x"), "/agui/missing") == (404, "agent_unknown")
    assert await refused(client, body("x"), "/agui/notes/nobody") == (404, "role_unknown")
    assert not (await client.get("/api/turns")).json()["turns"]


async def test_a_thread_is_a_session_of_its_tenant_and_its_interrupt_too(running: Running):
    owner = running.client(await running.key("a", tenant="one"))
    other = running.client(await running.key("b", tenant="two"))
    asked = await events(owner, "/agui/parcels", body("ask"))
    (interrupt,) = asked[-1]["outcome"]["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"answer": "red"}}]
    assert await refused(other, body("", resume=resume)) == (409, "nothing_waits")
    assert await refused(owner, body("", thread="other", resume=resume)) == (409, "nothing_waits")
    wrong = [resume[0] | {"payload": {"colour": "red"}}]
    assert await refused(owner, body("", resume=wrong)) == (422, "input_schema")
    answered = await events(owner, "/agui/parcels", body("", resume=resume))
    assert "".join(one["delta"] for one in answered if one["type"] == "TEXT_MESSAGE_CONTENT") == "answered red"
    assert await refused(owner, body("", resume=resume)) == (409, "nothing_waits")
    assert (await other.get("/api/turns")).json()["turns"] == []


async def test_a_role_is_part_of_the_path_and_state_continues_from_the_turn_before(running: Running):
    user = running.client(await running.key("user", roles=("user",)))
    await events(user, "/agui/notes/user", body("one"))
    second = await events(user, "/agui/notes", body("two"))
    snapshots = [one["snapshot"] for one in second if one["type"] == "STATE_SNAPSHOT"]
    assert [one["notes"] for one in snapshots] == [["one"], ["one", "two"]]
    assert [one["delta"] for one in second if one["type"] == "STATE_DELTA"] == [[{"op": "add", "path": "/notes", "value": ["one", "two"]}]]
    assert await refused(user, body("x"), "/agui/notes/admin") == (404, "role_unknown")


async def test_a_message_that_is_sent_again_with_its_key_gets_the_same_run(running: Running):
    client = running.client(**{"idempotency-key": "once"})
    first = await events(client, "/agui/teller", body("good morning"))
    assert await events(client, "/agui/teller", body("good morning")) == first
    assert len((await client.get("/api/turns")).json()["turns"]) == 1


def event(kind: str, run: str, number: int, data: dict[str, Any], *, node: str | None = None, name: str = "") -> Event:
    metadata: dict[str, Any] = {"sequence": number} | ({} if node is None else {"langgraph_node": node})
    parents = [] if node is None else ["root"]
    return {"event": kind, "name": name, "run_id": run, "parent_ids": parents, "tags": [], "metadata": metadata, "data": data}


def test_a_turn_that_another_worker_resumed_goes_back_to_the_events_that_stand():
    """Where the worker died in a step, that step stays open or opens again, and what it wrote since is taken back."""
    turn = StoredTurn(turn="t", agent="parcels", session="s", header=b"", fingerprint="", position=1, status="running", created=0)
    body = RunAgentInput.model_validate({"threadId": "s", "runId": "r", "messages": []})
    seen = Projection(parcels, Message(turn=turn), body, {})
    shown = [
        one
        for arrived in (
            event("on_chain_start", "root", 1, {"input": {"text": "x"}}),
            event("on_chain_start", "a", 2, {}, node="pause"),
            event("on_tool_start", "c", 3, {"input": "first"}, node="pause", name="ask"),
            event("on_chain_end", "a", 4, {"output": {"answer": "first"}}, node="pause"),
            event("on_chain_start", "b", 5, {}, node="deliver"),
            event("on_custom_event", "", 6, {"from": 2}, name=RETOLD),
            event("on_tool_start", "c", 7, {"input": "second"}, node="pause", name="ask"),
            event("on_tool_end", "c", 8, {"output": "done"}, node="pause", name="ask"),
            event("on_chain_end", "a", 9, {"output": {"answer": "second"}}, node="pause"),
        )
        for one in seen.project(arrived)
    ]
    steps = [(one["type"], one["stepName"]) for one in shown if one["type"].startswith("STEP")]
    assert steps == [
        ("STEP_STARTED", "pause"),
        ("STEP_FINISHED", "pause"),
        ("STEP_STARTED", "deliver"),
        ("STEP_FINISHED", "deliver"),
        ("STEP_STARTED", "pause"),
        ("STEP_FINISHED", "pause"),
    ]
    assert [one["snapshot"] for one in shown if one["type"] == "STATE_SNAPSHOT"] == [{"text": "x"}, {"text": "x"}]
    assert [one["delta"][0]["value"] for one in shown if one["type"] == "STATE_DELTA"] == ["first", "second"]
    first, second = (one["toolCallId"] for one in shown if one["type"] == "TOOL_CALL_START")
    assert first != second
    assert [one["toolCallId"] for one in shown if one["type"] == "TOOL_CALL_RESULT"] == [second]
