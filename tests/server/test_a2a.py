"""A2A at the level of HTTP: what a call may have, who may see a task, what a message of a task is, and the chunks of a reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from interlock.discovery import load_agent
from interlock.server.problems import MEDIA_TYPE
from tests.server.serving import AGENTS, Running, frames, read_frames, serving
from tests.server.teller import agent as teller
from tests.server.teller import held_back

VERSION = {"a2a-version": "1.0"}


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path, agents=(*AGENTS, teller)) as running:
        yield running


def message(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": part} if isinstance(part, str) else part for part in parts], **more}


def call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def answer(client: httpx.AsyncClient, method: str, path: str = "/a2a/parcels", **params: Any) -> dict[str, Any]:
    response = await client.post(path, json=call(method, **params), headers=VERSION)
    assert response.status_code == 200, response.text
    body = response.json()
    assert (body["jsonrpc"], body["id"], len(body)) == ("2.0", 1, 3)
    return body


async def task(client: httpx.AsyncClient, *parts: Any, path: str = "/a2a/parcels", **more: Any) -> dict[str, Any]:
    return (await answer(client, "SendMessage", path, message=message(*parts, **more)))["result"]["task"]


async def got(client: httpx.AsyncClient, id_: str, path: str = "/a2a/parcels") -> dict[str, Any]:
    return (await answer(client, "GetTask", path, id=id_))["result"]


async def refused(client: httpx.AsyncClient, method: str, path: str = "/a2a/parcels", **params: Any) -> tuple[int, str]:
    error = (await answer(client, method, path, **params))["error"]
    (detail,) = error["data"]
    assert detail["domain"] == "a2a-protocol.org"
    return error["code"], detail["metadata"]["code"]


async def streamed(client: httpx.AsyncClient, method: str, path: str = "/a2a/parcels", **params: Any) -> list[dict[str, Any]]:
    async with client.stream("POST", path, json=call(method, **params), headers=VERSION) as response:
        assert response.headers["content-type"].startswith("text/event-stream"), await response.aread()
        return [one["data"]["result"] for one in await frames(response)]


def text_of(results: list[dict[str, Any]]) -> str:
    """Return the reply as a client puts it together."""
    text = ""
    for update in (result["artifactUpdate"] for result in results if "artifactUpdate" in result):
        (part,) = update["artifact"]["parts"]
        text = text + part["text"] if update["append"] else part["text"]
    return text


def states(results: list[dict[str, Any]]) -> list[str]:
    found = [(one.get("task") or one.get("statusUpdate")) for one in results if "artifactUpdate" not in one]
    return [one["status"]["state"].removeprefix("TASK_STATE_").lower() for one in found if one is not None]


async def test_calls_that_cannot_be_used_are_typed(running: Running):
    client = running.client()
    schema = (-32602, "input_schema")
    assert await refused(client, "SendMessage") == (-32602, "request_invalid")
    assert await refused(client, "SendMessage", message={"parts": []}) == (-32602, "request_invalid")
    assert await refused(client, "SendMessage", message=message("x") | {"role": "ROLE_AGENT"}) == (-32602, "request_invalid")
    assert await refused(client, "SendMessage", message=message("x", contextId="a/b")) == schema
    assert await refused(client, "SendMessage", message=message({})) == schema
    assert await refused(client, "SendMessage", message=message({"text": "x", "data": {}})) == schema
    assert await refused(client, "SendMessage", message=message({"data": [1]})) == schema
    assert await refused(client, "SendMessage", message=message({"raw": "eA=="}, {"raw": "eA=="})) == schema
    assert await refused(client, "SendMessage", message=message({"url": "https://example.org/x"})) == (-32005, "input_schema")
    assert await refused(client, "SendStreamingMessage", message=message("")) == (-32602, "input_empty")
    assert await refused(client, "SendMessage", message=message("x", taskId="none")) == (-32001, "turn_unknown")
    for method in ("GetTask", "CancelTask", "SubscribeToTask"):
        assert await refused(client, method) == (-32602, "request_invalid")
        assert await refused(client, method, id="none") == (-32001, "turn_unknown")
        assert await refused(client, method, id="not an id") == (-32001, "turn_unknown")
    push = {"taskPushNotificationConfig": {"url": "https://example.org"}}
    assert await refused(client, "SendMessage", message=message("x"), configuration=push) == (-32003, "request_invalid")
    assert await refused(client, "CreateTaskPushNotificationConfig") == (-32003, "request_invalid")
    assert await refused(client, "ListTasks") == (-32004, "request_invalid")
    assert await refused(client, "GetExtendedAgentCard") == (-32004, "request_invalid")
    assert await refused(client, "message/send") == (-32601, "not_found")
    assert not (await client.get("/api/turns")).json()["turns"]


@pytest.mark.parametrize(
    ("content", "code", "id_"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"[" * 10_000, -32700, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc": "2.0", "method": "GetTask"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "GetTask"}', -32600, None),
        (b'{"jsonrpc": "1.0", "id": "a", "method": "GetTask"}', -32600, "a"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": []}', -32600, 7),
    ],
)
async def test_what_is_no_call_is_refused_with_the_id_that_it_has(running: Running, content: bytes, code: int, id_: Any):
    response = await running.client().post("/a2a/parcels", content=content, headers=VERSION)
    assert response.status_code == 200
    assert (response.json()["error"]["code"], response.json()["id"]) == (code, id_)


async def test_a_client_of_another_version_is_refused(running: Running):
    client = running.client()
    for headers in ({}, {"a2a-version": "0.3"}, {"a2a-version": "2.0"}, {"a2a-version": "1"}):
        response = await client.post("/a2a/parcels", json=call("GetTask", id="x"), headers=headers)
        assert response.json()["error"]["code"] == -32009, headers
    for path, headers in (("/a2a/parcels?A2A-Version=1.0", {}), ("/a2a/parcels", {"a2a-version": "1.0.2"})):
        response = await client.post(path, json=call("GetTask", id="x"), headers=headers)
        assert response.json()["error"]["code"] == -32001


async def test_what_is_refused_before_the_call_is_read_is_an_error_of_http(tmp_path: Path):
    async with serving(tmp_path, server_body_bytes=1000, max_input_bytes=500) as running:
        client = running.client()
        for path, content, status in (
            ("/a2a/missing", "x", 404),
            ("/a2a/notes/nobody", "x", 404),
            ("/a2a/notes", "x", 422),
            ("/a2a/parcels", "x" * 2000, 413),
            ("/a2a/parcels", "x" * 600, 413),
        ):
            response = await client.post(path, json=call("SendMessage", message=message(content)), headers=VERSION)
            assert (response.status_code, response.headers["content-type"]) == (status, MEDIA_TYPE), path
        once = running.client(await running.key("once", turns_a_minute=1))
        await task(once, "now")
        response = await once.post("/a2a/parcels", json=call("SendMessage", message=message("now")), headers=VERSION)
        assert (response.status_code, response.json()["code"]) == (429, "too_many_requests")
        assert int(response.headers["retry-after"]) >= 1


async def test_a_task_belongs_to_its_tenant_and_to_its_agent(running: Running):
    owner = running.client(await running.key("a", tenant="one"))
    other = running.client(await running.key("b", tenant="two"))
    asked = await task(owner, "ask", contextId="s")
    for client, path in ((other, "/a2a/parcels"), (owner, "/a2a/sam")):
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            seen, unseen = (await answer(client, method, path, id=asked["id"]), await answer(client, method, path, id="f" * 32))
            assert seen == unseen
            assert seen["error"]["code"] == -32001
        assert await refused(client, "SendMessage", path, message=message("red", taskId=asked["id"])) == (-32001, "turn_unknown")
    assert (await task(other, "now", contextId="s"))["contextId"] == "s"
    assert (await got(owner, asked["id"]))["status"] == asked["status"]
    assert [turn["turn"] for turn in (await owner.get("/api/turns")).json()["turns"]] == [asked["id"]]


async def test_a_role_has_its_own_card_and_its_own_tasks(running: Running):
    admin = running.client(await running.key("admin", roles=("admin", "user")))
    user = running.client(await running.key("user", roles=("user",)))
    done = await task(admin, "secret", path="/a2a/notes/admin")
    assert done["artifacts"][0]["parts"] == [{"text": '["secret"]'}]
    assert await refused(admin, "GetTask", "/a2a/notes/user", id=done["id"]) == (-32001, "turn_unknown")
    assert await refused(user, "GetTask", "/a2a/notes", id=done["id"]) == (-32001, "turn_unknown")
    address = running.process.address
    for client, path, status, name in (
        (admin, "/a2a/notes/admin", 200, "notes/admin"),
        (admin, "/a2a/notes", 422, None),
        (user, "/a2a/notes", 200, "notes/user"),
        (user, "/a2a/notes/admin", 404, None),
        (user, "/a2a/missing", 404, None),
    ):
        response = await client.get(f"{path}/.well-known/agent-card.json")
        assert response.status_code == status, path
        if name is not None:
            assert response.json()["name"] == name
            assert response.json()["supportedInterfaces"][0]["url"] == f"{address}{path}"
    first = (await user.get("/.well-known/agent-card.json")).json()
    assert (first["name"], first["supportedInterfaces"][0]["url"]) == ("parcels", f"{address}/a2a/parcels")
    assert first["securitySchemes"].keys() == {"bearer", "key"}


async def test_a_card_is_of_the_first_agent_that_a_caller_may_use_and_asks_for_no_key_where_the_server_has_none(tmp_path: Path):
    async with serving(tmp_path, agents=AGENTS[1:2]) as running:
        local = (await running.client().get("/.well-known/agent-card.json")).json()
        assert "securitySchemes" not in local
        assert local["name"] == "notes/admin"
        for roles, status, name in ((("user",), 200, "notes/user"), ((), 404, None)):
            response = await running.client(await running.key(f"k{status}", roles=roles)).get("/.well-known/agent-card.json")
            assert (response.status_code, response.json().get("name")) == (status, name)


async def test_a_message_of_a_task_that_asks_is_its_answer(running: Running):
    client = running.client()
    asked = await task(client, "ask ask", contextId="s")
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    text, data = asked["status"]["message"]["parts"]
    assert (text, data["data"]["question"]) == ({"text": "Which colour?"}, "Which colour?")
    assert await got(client, asked["id"]) == asked
    wrong = message("red", taskId=asked["id"], contextId="other")
    assert await refused(client, "SendMessage", message=wrong) == (-32602, "input_schema")
    assert await refused(client, "SendMessage", message=message({"data": {}}, taskId=asked["id"])) == (-32602, "input_schema")
    again = await task(client, "red", taskId=asked["id"])
    assert (again["id"], again["status"]["state"]) == (asked["id"], "TASK_STATE_INPUT_REQUIRED")
    assert again["status"]["message"]["messageId"] != asked["status"]["message"]["messageId"]
    assert await streamed(client, "SubscribeToTask", id=asked["id"]) == [{"task": again}]
    # Without the id of the task, a message of the context is the answer too.
    results = await streamed(client, "SendStreamingMessage", message=message("blue", contextId="s"))
    assert results[0]["task"]["id"] == asked["id"]
    assert states(results)[-1] == "completed"
    done = await got(client, asked["id"])
    assert done["artifacts"][0]["parts"] == [{"text": "answered red blue"}]
    assert "timestamp" in done["status"]
    ended = message("green", taskId=asked["id"])
    assert await refused(client, "SendMessage", message=ended) == (-32004, "nothing_waits")
    assert await refused(client, "SubscribeToTask", id=asked["id"]) == (-32004, "request_invalid")


async def test_a_task_is_cancelled_while_it_works_and_while_it_waits(running: Running):
    client = running.client()
    configuration = {"returnImmediately": True}
    begun = (await answer(client, "SendMessage", message=message("wait 60"), configuration=configuration))["result"]["task"]
    assert begun["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
    assert await refused(client, "SendMessage", message=message("more", taskId=begun["id"])) == (-32004, "nothing_waits")
    asked = await task(client, "ask")
    for id_ in (begun["id"], asked["id"]):
        cancelled = (await answer(client, "CancelTask", id=id_))["result"]
        assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
        assert await got(client, id_) == cancelled
        assert await refused(client, "CancelTask", id=id_) == (-32002, "request_invalid")


async def test_a_reply_is_streamed_in_pieces_which_every_follower_gets(running: Running):
    client = running.client()
    with held_back() as go_on:
        async with client.stream(
            "POST", "/a2a/teller", json=call("SendStreamingMessage", message=message("good morning to you")), headers=VERSION
        ) as response:
            first = [one["data"]["result"] for one in await frames(response, until=3)]
        assert text_of(first) in {"good", "good morning"}  # The client leaves; the task runs on.
        follower = running.client()
        async with follower.stream(
            "POST", "/a2a/teller", json=call("SubscribeToTask", id=first[0]["task"]["id"]), headers=VERSION
        ) as response:
            go_on.set()
            results = [one["data"]["result"] for one in await frames(response)]
    assert text_of(results) == "good morning to you"
    assert sum("artifactUpdate" in one for one in results) == 5
    assert [one["artifactUpdate"]["lastChunk"] for one in results if "artifactUpdate" in one][-2:] == [False, True]
    assert states(results) == ["working", "completed"]
    done = await got(client, first[0]["task"]["id"], "/a2a/teller")
    assert done["artifacts"][0]["parts"] == [{"text": "good morning to you"}]


async def test_a_reply_that_is_another_text_than_was_streamed_replaces_it(running: Running):
    with held_back() as go_on:
        client = running.client()
        given = call("SendStreamingMessage", message=message("say it loudly"))
        async with client.stream("POST", "/a2a/teller", json=given, headers=VERSION) as response:
            go_on.set()
            results = [one["data"]["result"] for one in await frames(response)]
    assert text_of(results) == "SAY IT LOUDLY"


async def test_a_turn_that_fails_is_a_task_that_failed_and_one_with_a_bad_input_was_rejected(running: Running):
    client = running.client()
    failed = await task(client, "it fails", path="/a2a/teller")
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    assert failed["status"]["message"]["parts"] == [{"text": "The model went away."}]
    assert failed["status"]["message"]["metadata"] == {"code": "model_unavailable"}
    assert await got(client, failed["id"], "/a2a/teller") == failed
    rejected = await task(client, "look", {"raw": "eA==", "mediaType": "image/png"}, path="/a2a/sam")
    assert rejected["status"]["state"] == "TASK_STATE_REJECTED"
    assert rejected["status"]["message"]["metadata"] == {"code": "media_malformed"}
    fields = await task(client, {"data": {"text": "by fields"}})
    assert fields["artifacts"][0]["parts"] == [{"text": "delivered by fields"}]


async def test_a_message_that_is_sent_again_with_its_key_gets_the_same_task(running: Running):
    first = running.client(**{"idempotency-key": "one"})
    asked = await task(first, "ask ask")
    assert (await task(first, "ask ask"))["id"] == asked["id"]
    second = running.client(**{"idempotency-key": "two"})
    answered = await task(second, "red", taskId=asked["id"])
    assert await task(second, "red", taskId=asked["id"]) == answered
    assert await refused(second, "SendMessage", message=message("blue", taskId=asked["id"])) == (-32602, "key_reused")
    assert len((await first.get("/api/turns")).json()["turns"]) == 1


async def test_a_stream_ends_with_an_error_where_the_server_stops_and_the_task_runs_on(running: Running):
    client = running.client()
    with held_back():
        given = call("SendStreamingMessage", message=message("good morning to you"))
        async with client.stream("POST", "/a2a/teller", json=given, headers=VERSION) as response:
            results: list[dict[str, Any]] = []
            async for one in read_frames(response):
                results.append(one["data"])
                if len(results) == 3:
                    await running.server.drain()
        error = results[-1]["error"]
        assert (error["code"], error["data"][0]["metadata"]["code"]) == (-32603, "overloaded")
        begun = await got(client, results[0]["result"]["task"]["id"], "/a2a/teller")
        assert begun["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
        response = await client.post("/a2a/parcels", json=call("SendMessage", message=message("now")), headers=VERSION)
        assert (response.status_code, response.json()["code"]) == (503, "overloaded")


async def test_a_question_to_a_colleague_is_work_to_the_client_and_not_its_to_answer(tmp_path: Path):
    async with serving(tmp_path, agents=[load_agent("desk")]) as running:
        client = running.client()
        asked = await task(client, "I want to talk to a person", path="/a2a/desk")
        assert asked["status"]["state"] == "TASK_STATE_WORKING"
        assert asked["status"]["message"]["parts"] == [{"text": "This was passed on to a colleague, who has not answered yet."}]
        answered = message("all is free", taskId=asked["id"])
        assert await refused(client, "SendMessage", "/a2a/desk", message=answered) == (-32004, "nothing_waits")
        assert await got(client, asked["id"], "/a2a/desk") == asked
        assert (await client.post(f"/api/turns/{asked['id']}/answer", json={"text": "It is not free."})).status_code == 202
        assert (await client.get(f"/api/turns/{asked['id']}?wait=20")).json()["status"] == "success"
        assert (await got(client, asked["id"], "/a2a/desk"))["status"]["state"] == "TASK_STATE_COMPLETED"
