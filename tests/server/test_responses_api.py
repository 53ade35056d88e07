"""Responses, with OpenAI's own client on a real port."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.server.serving import AGENTS, Running, serving
from tests.server.teller import agent as teller
from tests.server.teller import held_back
from tests.support.parcels import sent

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path, agents=(*AGENTS, teller)) as running:
        yield running


@pytest.fixture
async def client(running: Running) -> AsyncGenerator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key="none") as client:
        yield client


async def refused(client: AsyncOpenAI, **given: Any) -> tuple[int, str]:
    create: Any = client.responses.create
    with pytest.raises(APIStatusError) as caught:
        await create(**{"model": "sam", "input": "hello", **given})
    body: Any = caught.value.body
    return caught.value.status_code, body["code"]


async def raw_events(running: Running, method: str, path: str, **given: Any) -> list[dict[str, Any]]:
    response = await running.client().request(method, path, **given)
    assert response.status_code == 200, response.text
    assert response.text.endswith("data: [DONE]\n\n")
    frames = [frame.split("\n") for frame in response.text.split("\n\n") if frame.startswith("event: ")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in frames]
    assert [name.removeprefix("event: ") for name, _ in frames] == [event["type"] for event in events]
    return events


async def test_a_response_is_the_reply_of_a_turn_with_its_usage(client: AsyncOpenAI):
    response = await client.responses.create(model="teller", input="good morning")
    assert (response.output_text, response.status, response.object) == ("good morning", "completed", "response")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (3, 4, 7)
    Response.model_validate(response.model_dump(), strict=True)
    assert response.completed_at is not None
    assert response.created_at <= response.completed_at <= time.time()
    assert (await client.responses.retrieve(response.id)).to_dict() == response.to_dict()


async def test_a_stream_has_the_events_of_open_responses_in_their_order_without_a_gap(running: Running):
    body = {"model": "teller", "input": [{"role": "user", "content": "good morning all"}], "stream": True}
    events = await raw_events(running, "POST", "/v1/responses", json=body)
    for event in events:
        EVENT.validate_python(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"].removeprefix("response.") for event in events]
    deltas = [event["delta"] for event in events if event["type"].endswith("delta")]
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        *["output_text.delta"] * len(deltas),
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert "".join(deltas) == "good morning all"
    assert len(deltas) > 1
    final = events[-1]["response"]
    assert final["output"] == [events[-2]["item"]]
    stored = (await running.client().get(f"/v1/responses/{final['id']}")).json()
    assert stored == final


async def test_a_stream_that_was_cut_goes_on_at_every_event(running: Running):
    body = {"model": "teller", "input": "one two three four", "stream": True}
    with held_back() as goes_on:
        async with running.client().stream("POST", "/v1/responses", json=body) as response:
            turn = response.headers["x-interlock-turn"]
            async for line in response.aiter_lines():
                if "output_text.delta" in line:
                    break
        goes_on.set()
        path = f"/v1/responses/resp_{turn}"
        whole = await raw_events(running, "GET", path, params={"stream": "true"})
    assert whole[-1]["response"]["output"][0]["content"][0]["text"] == "one two three four"
    for cut in range(len(whole)):
        rest = await raw_events(running, "GET", path, params={"stream": "true", "starting_after": cut})
        assert rest == whole[cut + 1 :]


async def test_previous_response_id_continues_its_session(client: AsyncOpenAI):
    first = await client.responses.create(model="notes/user", input="one")
    second = await client.responses.create(model="notes/user", input="two", previous_response_id=first.id)
    assert (second.output_text, second.previous_response_id) == ('["one","two"]', first.id)
    assert await refused(client, model="notes/user", input="x", previous_response_id=first.id) == (422, "input_schema")
    assert await refused(client, model="sam", input="x", previous_response_id=second.id) == (422, "input_schema")
    assert await refused(client, model="notes/user", previous_response_id="resp_missing") == (404, "not_found")
    assert await refused(client, model="notes/user", previous_response_id=f"{second.id}.7") == (404, "not_found")
    both: dict[str, Any] = {"previous_response_id": second.id, "metadata": {"session_id": "other"}}
    assert await refused(client, model="notes/user", **both) == (422, "input_schema")


async def test_a_conversation_is_a_session(client: AsyncOpenAI):
    for conversation in ("talk", {"id": "talk"}):
        given: Any = conversation
        response = await client.responses.create(model="notes/user", input="one", conversation=given)
        assert response.conversation is not None
        assert response.conversation.id == "talk"
    assert response.output_text == '["one","one"]'
    items: Any = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "two"}]
    assert await refused(client, model="notes/user", input=items) == (422, "input_schema")
    history = await client.responses.create(model="notes/user", input=items, conversation="talk")
    assert history.output_text == '["one","one","two"]'


async def test_a_question_is_a_response_and_so_is_the_reply_to_its_answer(client: AsyncOpenAI, tmp_path: Path):
    asked = await client.responses.create(model="parcels", input="ask")
    assert (asked.output_text, asked.status) == ("Which colour?", "completed")
    answered = await client.responses.create(model="parcels", input="red", previous_response_id=asked.id)
    assert answered.output_text == "answered red"
    assert answered.id != asked.id
    assert sent(tmp_path) == ["ask: first", "ask: last"]
    assert [(await client.responses.retrieve(one.id)).output_text for one in (asked, answered)] == ["Which colour?", "answered red"]
    assert await refused(client, model="parcels", previous_response_id=asked.id) == (422, "input_schema")
    later = await client.responses.create(model="parcels", input="now", previous_response_id=answered.id)
    assert later.output_text == "delivered now"


async def test_a_request_that_is_sent_again_with_its_key_is_the_same_response(client: AsyncOpenAI, tmp_path: Path):
    asked = await client.responses.create(model="parcels", input="ask")
    given: Any = {"model": "parcels", "previous_response_id": asked.id, "extra_headers": {"Idempotency-Key": "k"}}
    create: Any = client.responses.create
    ids: set[str] = {(await create(input="red", **given)).id for _ in range(3)}
    assert len(ids) == 1
    assert sent(tmp_path) == ["ask: first", "ask: last"]
    assert await refused(client, **given, input="green") == (422, "key_reused")


async def test_a_response_in_the_background_can_be_cancelled(client: AsyncOpenAI):
    started = await client.responses.create(model="parcels", input="wait 30", background=True)
    assert started.status in {"queued", "in_progress"}
    assert (await client.responses.retrieve(started.id)).status in {"queued", "in_progress"}
    assert (await client.responses.cancel(started.id)).status in {"in_progress", "cancelled"}
    stream = await client.responses.retrieve(started.id, stream=True)
    last = [event async for event in stream][-1]
    assert last.type == "response.failed"
    assert (await client.responses.retrieve(started.id)).status == "cancelled"


async def test_a_turn_that_fails_is_an_error_and_a_failed_response_in_a_stream(client: AsyncOpenAI):
    assert await refused(client, model="teller", input="it fails") == (502, "model_unavailable")
    stream = await client.responses.create(model="teller", input="it fails", stream=True)
    events = [event async for event in stream]
    last: Any = events[-1]
    assert (last.type, last.response.status, last.response.error.code) == ("response.failed", "failed", "model_unavailable")
    assert last.response.output[0].status == "incomplete"


async def test_a_stream_that_the_stopping_server_ends_is_not_failed(client: AsyncOpenAI, running: Running):
    with held_back():
        stream = await client.responses.create(model="teller", input="one two three", stream=True)
        kinds: list[str] = []
        async for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                await running.server.hub.aclose()
    assert kinds[-1] == "error"
    assert "response.failed" not in kinds


@pytest.mark.parametrize(
    "given",
    [
        {"store": False},
        {"text": {"format": {"type": "json_object"}}},
        {"tool_choice": "required"},
        {"input": []},
        {"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]},
    ],
)
async def test_what_cannot_be_done_as_asked_is_refused(client: AsyncOpenAI, given: dict[str, Any]):
    assert await refused(client, **given) == (400, "request_invalid")


async def test_a_last_message_that_is_no_input_is_refused(client: AsyncOpenAI):
    for item in ({"role": "assistant", "content": "hi"}, {"role": "user", "content": [{"type": "video"}]}):
        given: Any = [item]
        assert await refused(client, input=given) == (422, "input_schema")
    far: Any = [{"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": "https://example.com/x.png"}]}]
    assert await refused(client, input=far) == (422, "input_schema")


async def test_responses_of_another_tenant_are_not_found(running: Running):
    keys = [await running.key("ada", tenant=tenant) for tenant in ("north", "south")]
    clients = [AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key=key) for key in keys]
    async with clients[0] as north, clients[1] as south:
        response = await north.responses.create(model="parcels", input="ask")
        for call in (south.responses.retrieve, south.responses.cancel):
            with pytest.raises(APIStatusError) as caught:
                await call(response.id)
            assert (caught.value.status_code, caught.value.code) == (404, "not_found")
        assert await refused(south, model="parcels", input="red", previous_response_id=response.id) == (404, "not_found")
        assert (await north.responses.retrieve(response.id)).output_text == "Which colour?"
