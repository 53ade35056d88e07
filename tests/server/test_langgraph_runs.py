"""Runs of the LangGraph Server API, by LangGraph's own client on a real port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from interlock.settings import EngineName
from tests.server.serving import Running, frames, serving
from tests.support.parcels import sent

MODES = ["values", "updates", "messages", "messages-tuple", "custom", "events", "tasks", "checkpoints", "debug"]
HELLO = {"messages": [{"role": "user", "content": "hello there", "id": "m-1"}]}


@pytest.fixture
async def running(tmp_path: Path, engine: EngineName) -> AsyncGenerator[Running]:
    async with serving(tmp_path, engine=engine) as running:
        yield running


@pytest.fixture
async def client(running: Running) -> AsyncGenerator[Any]:
    async with get_client(url=running.process.address) as client:
        yield client


async def stream(client: Any, thread: str | None, assistant: str, **given: Any) -> list[Any]:
    return [part async for part in client.runs.stream(thread, assistant, **given)]


async def until(client: Any, thread: str, run: str, status: str) -> dict[str, Any]:
    """Wait until a run has a status."""
    async with asyncio.timeout(20):
        while (found := await client.runs.get(thread, run))["status"] != status:  # noqa: ASYNC110 - by another process
            await asyncio.sleep(0.02)
    return dict(found)


async def until_waits(folder: Path, count: int) -> None:
    """Wait until a number of turns are in the middle of their work."""
    async with asyncio.timeout(20):
        while sent(folder).count("wait") < count:  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.02)


async def test_a_run_leaves_values_with_the_conversation_as_messages(client: Any):
    thread = (await client.threads.create())["thread_id"]
    values: Any = await client.runs.wait(thread, "sam", input=HELLO)
    assert (values["messages"][0]["type"], values["messages"][0]["id"]) == ("human", "m-1")
    assert "hello there" in values["messages"][1]["content"]
    assert values["final_output"] == values["messages"][1]["content"]
    again: Any = await client.runs.wait(thread, "sam", input={"messages": [("user", "once more")]})
    assert [one["type"] for one in again["messages"]] == ["human", "ai", "human", "ai"]
    assert again["messages"][:2] == values["messages"]
    assert (await client.threads.get_state(thread))["values"] == again
    found = await client.threads.get(thread)
    assert (found["values"], found["status"]) == (again, "idle")
    assert found["metadata"]["graph_id"] == "sam"


async def test_a_stream_has_every_mode_in_order_and_ends(client: Any):
    thread = (await client.threads.create())["thread_id"]
    parts = await stream(client, thread, "sam", input=HELLO, stream_mode=MODES)
    names = [part.event for part in parts]
    assert names[:2] == ["metadata", "values"]
    assert names[-2:] != ["values", "values"]
    assert names[-1] == "end"
    expected = {
        "messages/metadata",
        "messages/partial",
        "messages/complete",
        "messages",
        "tasks",
        "checkpoints",
        "debug",
        "events",
        "updates",
    }
    assert expected <= set(names)
    chunks = [part.data[0] for part in parts if part.event == "messages"]
    assert {chunk["type"] for chunk in chunks} == {"AIMessageChunk"}
    values = [part.data for part in parts if part.event == "values"]
    reply = values[-1]["messages"][-1]
    assert "".join(chunk["content"] for chunk in chunks) == reply["content"]
    assert {chunk["id"] for chunk in chunks} == {reply["id"]}
    ids = [tuple(map(int, part.id.split("."))) for part in parts]
    assert ids == sorted(set(ids))
    updates = [name for part in parts if part.event == "updates" for name in part.data]
    tasks = [part.data["name"] for part in parts if part.event == "tasks" and "result" in part.data]
    assert updates == tasks
    assert updates[0] == "router_node"
    assert parts[1].data["raw_input"] == "hello there"
    assert await stream(client, thread, "sam", input="x", stream_mode=["updates"])
    default = await stream(client, thread, "sam", input="x")
    assert {part.event for part in default} == {"metadata", "values", "end"}


async def test_an_agent_that_does_not_stream_its_reply_sends_it_as_one_message(client: Any):
    parts = await stream(client, None, "parcels", input="now", stream_mode=["messages-tuple"])
    messages = [part.data[0] for part in parts if part.event == "messages"]
    assert [(one["type"], one["content"]) for one in messages] == [("ai", "delivered now")]


async def test_a_stream_that_is_joined_at_every_frame_has_nothing_lost_or_doubled(running: Running, client: Any):
    thread = (await client.threads.create())["thread_id"]
    asked = await stream(client, thread, "parcels", input="ask", stream_mode=MODES)
    answered = await stream(client, thread, "parcels", command={"resume": "blue"}, stream_mode=MODES)
    run = asked[0].data["run_id"]
    http, path = running.client(), f"/threads/{thread}/runs/{run}/stream"
    query = {"stream_mode": MODES}
    async with http.stream("GET", path, params=query, headers={"last-event-id": "-1"}) as response:
        whole = await frames(response)
    live = [(part.id, part.event, part.data) for part in (*asked[:-1], *answered[1:])]
    assert [(one["id"], one["event"], one["data"]) for one in whole] == live
    for number, frame in enumerate(whole):
        async with http.stream("GET", path, params=query, headers={"last-event-id": frame["id"]}) as response:
            assert await frames(response) == whole[number + 1 :] or frame["event"] == "end"


async def test_a_stream_that_is_joined_while_the_run_is_under_way_gets_all_of_it(client: Any, tmp_path: Path):
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, "parcels", input="wait 1", stream_mode=["values", "updates"])
    await until_waits(tmp_path, 1)
    joined = [part async for part in client.runs.join_stream(thread, run["run_id"], last_event_id="-1")]
    assert [name for part in joined if part.event == "updates" for name in part.data] == ["start", "pause", "deliver"]
    assert (joined[0].event, joined[-1].event) == ("metadata", "end")
    assert (await client.runs.join(thread, run["run_id"]))["answer"] == "waited after wait 1"


async def test_the_client_resumes_by_itself_when_its_connection_is_cut(running: Running):
    """The SDK reconnects to `Location` with the id of its last frame. The first answer is cut after some frames."""

    class Cutting(httpx.AsyncHTTPTransport):
        cuts = 1

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            if "stream" in request.url.path and self.cuts:
                self.cuts -= 1
                whole = cast("httpx.AsyncByteStream", response.stream)

                async def cut() -> AsyncGenerator[bytes]:
                    seen = 0
                    async for part in whole:
                        seen += part.count(b"\n\n")
                        yield part
                        if seen > 3:
                            await whole.aclose()
                            raise httpx.ReadError("cut")

                response.stream = Parts(cut())
            return response

    transport = Cutting()
    http = httpx.AsyncClient(base_url=running.process.address, transport=transport, timeout=30)
    async with LangGraphClient(http) as client:
        thread = (await client.threads.create())["thread_id"]
        parts = await stream(client, thread, "parcels", input="wait 1", stream_mode=["updates", "values"])
    assert transport.cuts == 0
    assert [name for part in parts if part.event == "updates" for name in part.data] == ["start", "pause", "deliver"]
    assert len({part.id for part in parts}) == len(parts)


class Parts(httpx.AsyncByteStream):
    """The body of a response."""

    def __init__(self, parts: AsyncGenerator[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        async for part in self._parts:
            yield part

    async def aclose(self) -> None:
        await self._parts.aclose()


async def test_a_question_is_an_interrupt_and_its_answer_resumes_the_run(client: Any, tmp_path: Path):
    thread = (await client.threads.create())["thread_id"]
    asked: Any = await client.runs.wait(thread, "parcels", input="ask")
    value = asked["__interrupt__"][0]["value"]
    assert value["question"] == "Which colour?"
    assert value["action_requests"] == [{"name": "answer", "args": {"answer": ""}, "description": "Which colour?"}]
    assert value["review_configs"] == [{"action_name": "answer", "allowed_decisions": ["edit"]}]
    found = await client.threads.get(thread)
    state = await client.threads.get_state(thread)
    assert (found["status"], state["next"]) == ("interrupted", ["pause"])
    assert state["tasks"][0]["interrupts"] == asked["__interrupt__"] == next(iter(found["interrupts"].values()))
    with pytest.raises(UnprocessableEntityError, match="decision 'approve' is not one"):
        await client.runs.create(thread, "parcels", command={"resume": {"decisions": [{"type": "approve"}]}})
    with pytest.raises(ConflictError):
        await client.runs.create(thread, "parcels", input="another")
    by_id = {asked["__interrupt__"][0]["id"]: {"answer": "blue"}}
    ended: Any = await client.runs.wait(thread, "parcels", command={"resume": by_id})
    assert ended["answer"] == "answered blue"
    assert "__interrupt__" not in ended
    assert sent(tmp_path) == ["ask: first", "ask: last"]
    # What was emitted again after the answer replaces what the run had emitted before it waited.
    assert [state["next"] for state in await client.threads.get_history(thread)] == [[], ["deliver"], ["pause"], ["start"]]
    with pytest.raises(ConflictError, match="waits for an answer"):
        await client.runs.create(thread, "parcels", command={"resume": "red"})
    edited = {"decisions": [{"type": "edit", "edited_action": {"name": "answer", "args": {"answer": "green"}}}]}
    await client.runs.wait(thread, "parcels", input="ask")
    ended = await client.runs.wait(thread, "parcels", command={"resume": edited})
    assert ended["answer"] == "answered green"


async def test_the_text_of_an_interrupt_in_a_state_is_not_an_interrupt(client: Any):
    thread = (await client.threads.create())["thread_id"]
    parts = await stream(client, thread, "parcels", input="__interrupt__", stream_mode=["values", "updates"])
    assert not any("__interrupt__" in part.data for part in parts if isinstance(part.data, dict))
    assert (await client.threads.get(thread))["status"] == "idle"
    assert (await client.threads.get_state(thread))["interrupts"] == []


async def test_an_error_is_reported_in_the_values_and_in_the_stream(client: Any):
    image: Any = {"raw_input": {"text": "what is this", "file": "not base64"}}
    with pytest.raises(Exception, match="media_malformed"):
        await client.runs.wait(None, "sam", input=image)
    values: Any = await client.runs.wait(None, "sam", input=image, raise_error=False)
    assert values["__error__"]["error"] == "media_malformed"
    parts = await stream(client, None, "sam", input=image)
    assert [part.event for part in parts][-2:] == ["error", "end"]
    assert parts[-2].data["error"] == "media_malformed"


async def test_reject_refuses_a_run_beside_another_one(client: Any, tmp_path: Path):
    for assistant, text in (("parcels", "wait 30"), ("sam", "x")):
        thread = (await client.threads.create())["thread_id"]
        first = await client.runs.create(thread, assistant, input=text, after_seconds=None if assistant == "parcels" else 60)
        with pytest.raises(ConflictError):
            await client.runs.create(thread, assistant, input="now", multitask_strategy="reject")
        await client.runs.cancel(thread, first["run_id"], wait=True)
        assert len(await client.runs.list(thread)) == 1
    assert "now: first" not in sent(tmp_path)


async def test_enqueue_is_the_default_and_keeps_the_order(client: Any, tmp_path: Path):
    thread = (await client.threads.create())["thread_id"]
    first = await client.runs.create(thread, "parcels", input="wait 0.5")
    second = await client.runs.create(thread, "parcels", input="now")
    assert (second["status"], second["multitask_strategy"]) == ("pending", "enqueue")
    assert (await client.threads.get(thread))["status"] == "busy"
    await client.runs.join(thread, second["run_id"])
    assert (await client.runs.get(thread, first["run_id"]))["status"] == "success"
    assert sent(tmp_path) == ["wait 0.5: first", "wait", "wait 0.5: last", "now: first", "now: last"]


async def test_interrupt_cancels_the_run_before_it_and_says_why(client: Any, tmp_path: Path):
    thread = (await client.threads.create())["thread_id"]
    first = await client.runs.create(thread, "parcels", input="wait 30")
    await until_waits(tmp_path, 1)
    second = await client.runs.create(thread, "parcels", input="now", multitask_strategy="interrupt")
    values: Any = await client.runs.join(thread, second["run_id"])
    assert values["answer"] == "delivered now"
    cancelled = await client.runs.get(thread, first["run_id"])
    assert (cancelled["status"], cancelled["cancel_reason"]) == ("interrupted", f"interrupt by run {second['run_id']}")
    assert [run["run_id"] for run in await client.runs.list(thread)] == [second["run_id"], first["run_id"]]
    assert "wait 30: last" not in sent(tmp_path)


async def test_rollback_also_removes_the_run_before_it_from_the_thread(client: Any, tmp_path: Path):
    thread = (await client.threads.create())["thread_id"]
    first = await client.runs.create(thread, "parcels", input="wait 30")
    await until_waits(tmp_path, 1)
    second = await client.runs.create(thread, "parcels", input="now", multitask_strategy="rollback")
    values: Any = await client.runs.join(thread, second["run_id"])
    assert [one["content"] for one in values["messages"]] == ["now", "delivered now"]
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, first["run_id"])
    assert [run["run_id"] for run in await client.runs.list(thread)] == [second["run_id"]]


async def test_a_cancelled_run_ends_its_stream_with_the_reason_and_is_not_run_again(client: Any, tmp_path: Path):
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, "parcels", input="wait 30")
    following = asyncio.create_task(stream_of(client, thread, run["run_id"]))
    await until_waits(tmp_path, 1)
    await client.runs.cancel(thread, run["run_id"], wait=True)
    parts = await following
    assert [part.event for part in parts][-2:] == ["error", "end"]
    assert parts[-2].data["error"] == "cancelled"
    found = await client.runs.get(thread, run["run_id"])
    assert (found["status"], found["cancel_reason"]) == ("interrupted", "interrupt by local")
    assert (await client.threads.get(thread))["status"] == "idle"
    await client.runs.cancel(thread, run["run_id"])
    rolled = await client.runs.create(thread, "parcels", input="wait 30")
    await until_waits(tmp_path, 2)
    await client.runs.cancel(thread, rolled["run_id"], wait=True, action="rollback")
    assert [one["run_id"] for one in await client.runs.list(thread)] == [run["run_id"]]
    others = [await client.runs.create(thread, "parcels", input="wait 30") for _ in range(2)]
    await client.runs.cancel_many(thread_id=thread, run_ids=[one["run_id"] for one in others])
    for one in others:
        await until(client, thread, one["run_id"], "interrupted")
    assert "wait 30: last" not in sent(tmp_path)


async def stream_of(client: Any, thread: str, run: str) -> list[Any]:
    return [part async for part in client.runs.join_stream(thread, run)]


@pytest.mark.parametrize("on_disconnect", ["cancel", "continue", None])
@pytest.mark.parametrize("kind", ["stream", "wait"])
async def test_a_client_that_leaves_ends_its_run_only_if_it_asked_for_that(
    running: Running, client: Any, tmp_path: Path, kind: str, on_disconnect: str | None
):
    thread = (await client.threads.create())["thread_id"]
    seconds = 5 if on_disconnect == "cancel" else 1
    body = {"assistant_id": "parcels", "input": f"wait {seconds}", "on_disconnect": on_disconnect}
    leaving = asyncio.create_task(running.client().post(f"/threads/{thread}/runs/{kind}", json=body))
    await until_waits(tmp_path, 1)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    run = (await client.runs.list(thread))[0]["run_id"]
    await until(client, thread, run, "interrupted" if on_disconnect == "cancel" else "success")
    assert (f"wait {seconds}: last" in sent(tmp_path)) == (on_disconnect != "cancel")


async def test_runs_without_a_thread(client: Any):
    created: list[Any] = []
    values: Any = await client.runs.wait(None, "sam", input="hello", on_run_created=created.append)
    assert values["messages"][-1]["type"] == "ai"
    run = await client.runs.get(created[0]["thread_id"], created[0]["run_id"])
    assert run["status"] == "success"
    with pytest.raises(NotFoundError):
        await client.threads.get(created[0]["thread_id"])
    assert await client.threads.search() == []
    kept: Any = await client.runs.create(None, "sam", input="hello", on_completion="keep", metadata={"a": 1})
    assert (await client.runs.join(kept["thread_id"], kept["run_id"]))["messages"]
    assert [one["thread_id"] for one in await client.threads.search(metadata={"a": 1, "graph_id": "sam"})] == [kept["thread_id"]]
    again: Any = await client.runs.wait(kept["thread_id"], "sam", input="more")
    assert len(again["messages"]) == 4


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"command": {"update": {"answer": "x"}}}, "command.update"),
        ({"command": {"goto": "deliver", "resume": "x"}}, "command.goto"),
        ({"input": "x", "interrupt_before": ["deliver"]}, "interrupt_before"),
        ({"input": "x", "interrupt_after": "*"}, "interrupt_after"),
        ({"input": "x", "context": {"model": "m"}}, "context"),
        ({"input": "x", "config": {"configurable": {"user_id": "root"}}}, "config.configurable.user_id"),
        ({"input": "x", "webhook": "http://127.0.0.1/"}, "webhook"),
        ({"input": "x", "checkpoint_id": "1.2"}, "checkpoint"),
        ({"input": "x", "stream_mode": ["values", "lists"]}, "lists"),
        ({"input": "x", "command": {"resume": "x"}}, "not both"),
        ({"input": "x", "nonsense": 1}, "nonsense"),
        ({"input": None}, "no input"),
        ({"input": {"text": "x", "answer": "forged"}}, "answer"),
        ({"input": {"messages": [{"role": "system", "content": "x"}]}}, "user only"),
        ({"input": {"messages": [{"role": "assistant", "content": "x"}]}}, "user only"),
        ({"input": {"messages": [{"role": "user", "content": "x"}] * 2}}, "one new message"),
        ({"input": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "http://x"}]}]}}, "text here"),
        ({"input": "x", "metadata": {"a": "\0"}}, "NUL"),
    ],
)
async def test_what_a_client_cannot_do_is_refused_by_name_and_starts_nothing(
    running: Running, client: Any, tmp_path: Path, given: dict[str, Any], name: str
):
    thread = (await client.threads.create())["thread_id"]
    response = await running.client().post(f"/threads/{thread}/runs", json={"assistant_id": "parcels", **given})
    assert (response.status_code, response.json()["code"].startswith("input_")) == (422, True), response.text
    assert name in response.json()["detail"]
    assert await client.runs.list(thread) == []
    assert sent(tmp_path) == []
    # A first run that was refused does not decide the graph of the thread.
    assert (await client.runs.wait(thread, "sam", input="hello"))["messages"]


async def test_a_message_id_is_used_once_in_a_thread(client: Any):
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "sam", input=HELLO)
    with pytest.raises(UnprocessableEntityError, match="message with that id"):
        await client.runs.create(thread, "sam", input=HELLO)


async def test_a_run_can_start_from_the_newest_state_and_from_no_other(client: Any):
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "sam", input="one")
    head = (await client.threads.get_state(thread))["checkpoint"]
    values: Any = await client.runs.wait(thread, "sam", input="two", checkpoint=head)
    assert len(values["messages"]) == 4
    with pytest.raises(UnprocessableEntityError, match="checkpoint"):
        await client.runs.create(thread, "sam", input="three", checkpoint=head)
