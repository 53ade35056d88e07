"""OpenAI's own client on a real port."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai import APIError, APIStatusError, AsyncOpenAI

from interlock.discovery import load_agent
from interlock.runtime.event_lines import RETOLD
from interlock.server.conversation import SpokenText
from tests.server.serving import AGENTS, Running, frames, serving
from tests.server.teller import agent as teller
from tests.server.teller import held_back
from tests.support.parcels import agent as parcels
from tests.support.parcels import sent

HEADERS = ["X-Interlock-Session", "X-OpenWebUI-Chat-Id", "X-Conversation-Id"]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path, agents=(*AGENTS, teller)) as running:
        yield running


@pytest.fixture
async def client(running: Running) -> AsyncGenerator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key="none") as client:
        yield client


def user(*texts: str) -> list[Any]:
    """A conversation in which the assistant has answered all messages but the last."""
    said = [message for text in texts for message in ({"role": "user", "content": text}, {"role": "assistant", "content": "Yes."})]
    return [{"role": "system", "content": "Be brief."}, *said[:-1]]


async def ask(client: AsyncOpenAI, model: str, *texts: str, **given: Any) -> str:
    create: Any = client.chat.completions.create
    completion = await create(model=model, messages=user(*texts), **given)
    return completion.choices[0].message.content or ""


async def streamed(client: AsyncOpenAI, model: str, *texts: str, **given: Any) -> str:
    stream = await client.chat.completions.create(model=model, messages=user(*texts), stream=True, **given)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def refused(client: AsyncOpenAI, model: str = "sam", **given: Any) -> tuple[int, str]:
    create: Any = client.chat.completions.create
    with pytest.raises(APIStatusError) as caught:
        await create(**{"model": model, "messages": user("hello"), **given})
    body: Any = caught.value.body
    assert {"message", "type", "param", "code"} <= body.keys()
    return caught.value.status_code, body["code"]


async def turns(running: Running, agent: str) -> list[dict[str, Any]]:
    return (await running.client().get("/api/turns", params={"agent": agent})).json()["turns"]


async def test_a_completion_is_the_reply_of_a_turn_with_its_usage(client: AsyncOpenAI, running: Running):
    completion = await client.chat.completions.create(model="teller", messages=user("good morning"))
    assert completion.choices[0].message.content == "good morning"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens, completion.usage.total_tokens) == (3, 4, 7)
    (turn,) = await turns(running, "teller")
    assert (completion.id, completion.object, completion.model) == (f"chatcmpl-{turn['turn']}", "chat.completion", "teller")
    assert completion.metadata == {"session_id": turn["session"], "turn": turn["turn"]}


async def test_what_a_model_may_be_named_is_said_where_it_is_not(client: AsyncOpenAI, running: Running):
    said = [("sim", "Did you mean 'sam'?"), ("zebra", "There are: "), ("notes", "'admin' or 'user'"), ("notes", "'notes/admin'")]
    for model, says in said:
        with pytest.raises(APIStatusError) as refused:
            await ask(client, model, "hello")
        assert says in str(refused.value), model
    # What a caller may not use is not named.
    key = await running.key("reader", roles=("admin",))
    async with AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key=key) as other:
        with pytest.raises(APIStatusError) as refused:
            await ask(other, "notes/user", "hello")
    assert "has no role 'user'" in str(refused.value)


def _shorter(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    left = str(state["text"])[1:]
    return {"text": left} if left else None


async def test_a_reply_has_what_the_turns_say_that_the_agent_starts_after_its_own(tmp_path: Path):
    letters = replace(parcels, name="letters", follow=_shorter)
    async with serving(tmp_path, agents=[letters]) as running, AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key="k") as client:
        said = "\n\n".join(f"delivered {text}" for text in ("abc", "bc", "c"))
        session = {"extra_headers": {"X-Interlock-Session": "s"}}
        assert await ask(client, "letters", "abc", **session) == said
        assert await streamed(client, "letters", "abc", **session) == said
        first = await client.responses.create(model="letters", input="abc")
        assert first.output_text == said
        # The conversation continues from its end, which is the end of the last turn.
        again = await client.responses.create(model="letters", input="ask", previous_response_id=first.id)
        assert again.output_text.endswith("Which colour?")
        with pytest.raises(APIStatusError, match="not the last response"):
            await client.responses.create(model="letters", input="x", previous_response_id=first.id)


async def test_a_stream_has_the_role_the_text_the_reason_the_usage_if_asked_and_done(running: Running):
    body: dict[str, Any] = {"model": "teller", "messages": user("good morning"), "stream": True}
    for given in (body, body | {"stream_options": {"include_usage": True}}):
        response = await running.client().post("/v1/chat/completions", json=given)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.text.endswith("data: [DONE]\n\n")
        async with running.client().stream("POST", "/v1/chat/completions", json=given) as lines:
            read = [one["data"] for one in await frames(lines, until=response.text.count("data: {"))]
        first, *middle, last = [chunk for chunk in read if chunk["choices"]]
        assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in middle) == "good morning"
        assert [chunk["choices"][0]["finish_reason"] for chunk in (first, *middle)] == [None] * (1 + len(middle))
        assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
        usages = [chunk["usage"] for chunk in read if "usage" in chunk]
        used = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
        assert usages == ([] if given is body else [None] * (len(read) - 1) + [used])


async def test_text_arrives_while_the_model_speaks_and_what_it_thinks_is_not_said(client: AsyncOpenAI):
    with held_back() as goes_on:
        stream = await client.chat.completions.create(model="teller", messages=user("one two three"), stream=True)
        said = ""
        async for chunk in stream:
            said += chunk.choices[0].delta.content or ""
            if said.startswith("one"):
                break
        goes_on.set()
        said += "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert said == "one two three"
    assert await streamed(client, "teller", "think first") == await ask(client, "teller", "think first") == "think first"


async def test_a_reply_that_is_not_what_was_streamed_follows_in_a_paragraph_of_its_own(client: AsyncOpenAI):
    assert await streamed(client, "teller", "say loudly") == "say loudly\n\nSAY LOUDLY"
    assert await ask(client, "teller", "say loudly") == "SAY LOUDLY"


@pytest.mark.parametrize("header", HEADERS)
async def test_a_header_names_the_session_and_only_the_last_message_is_new(client: AsyncOpenAI, header: str):
    headers = {header: "0b7c1c5e-96a5-4f6e-9d1e-d3c1f8f7f9aa"}
    assert await ask(client, "notes/user", "one", extra_headers=headers) == '["one"]'
    assert await streamed(client, "notes/user", "one", "two", extra_headers=headers) == '["one","two"]'
    assert await ask(client, "notes/user", "one", extra_headers={header: "other"}) == '["one"]'


async def test_metadata_names_the_session_and_a_reply_says_which_session_it_began(client: AsyncOpenAI):
    first = await client.chat.completions.with_raw_response.create(model="notes/user", messages=user("one"))
    metadata: Any = first.parse().metadata
    assert first.headers["x-interlock-session"] == metadata["session_id"]
    assert await ask(client, "notes/user", "one", "two", metadata=metadata) == '["one","two"]'


async def test_a_session_that_is_named_twice_or_badly_is_refused(client: AsyncOpenAI):
    both: dict[str, Any] = {"extra_headers": {"X-Interlock-Session": "a"}, "metadata": {"session_id": "b"}}
    assert await refused(client, **both) == (422, "input_schema")
    assert await refused(client, extra_headers={"X-Conversation-Id": "../a"}) == (422, "input_schema")
    assert await ask(client, "sam", "hi", extra_headers={"X-Interlock-Session": "a"}, metadata={"session_id": "a"})


async def test_a_conversation_without_a_session_is_refused_by_an_agent_that_would_not_know_it(client: AsyncOpenAI, running: Running):
    assert await refused(client, "notes/user", messages=user("one", "two")) == (422, "input_schema")
    assert await turns(running, "notes") == []
    # An agent without sessions knows nothing of earlier messages anyway.
    assert "two" in await ask(client, "sam", "one", "two")


async def test_a_question_is_text_and_the_next_message_its_answer(client: AsyncOpenAI, running: Running, tmp_path: Path):
    named: dict[str, Any] = {"metadata": {"session_id": "s"}}
    asked = await client.chat.completions.create(model="parcels", messages=user("ask"), metadata={"session_id": "s"})
    assert asked.choices[0].message.content == "Which colour?"
    assert asked.choices[0].finish_reason == "stop"
    assert await streamed(client, "parcels", "ask", "red", **named) == "answered red"
    assert sent(tmp_path) == ["ask: first", "ask: last"]
    (turn,) = await turns(running, "parcels")
    assert turn["answer"]["text"] == "red"
    assert await ask(client, "parcels", "ask", "red", "now", **named) == "delivered now"


@pytest.mark.parametrize("talk", [ask, streamed])
async def test_a_request_that_is_sent_again_with_its_key_runs_nothing_again(
    client: AsyncOpenAI, running: Running, tmp_path: Path, talk: Any
):
    def named(key: str) -> dict[str, Any]:
        return {"extra_headers": {"Idempotency-Key": key, "X-Interlock-Session": "s"}}

    for _ in range(2):
        assert await talk(client, "parcels", "ask", **named("first")) == "Which colour?"
        assert len(await turns(running, "parcels")) == 1
    for _ in range(3):
        assert await talk(client, "parcels", "ask", "red", **named("second")) == "answered red"
    assert len(await turns(running, "parcels")) == 1
    assert sent(tmp_path) == ["ask: first", "ask: last"]
    assert await refused(client, "parcels", messages=user("ask", "green"), **named("second")) == (422, "key_reused")
    assert await refused(client, "parcels", messages=user("now"), **named("first")) == (422, "key_reused")


async def test_a_turn_that_fails_is_an_error_that_the_client_does_not_send_again(client: AsyncOpenAI, running: Running):
    broken = base64.b64encode(b"\x89PNG\r\n\x1a\nnothing").decode()
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{broken}"}}]}
    assert await refused(client, messages=[message]) == (422, "media_malformed")
    assert len(await turns(running, "sam")) == 1
    assert await refused(client, "teller", messages=user("it fails")) == (502, "model_unavailable")
    assert len(await turns(running, "teller")) == 1


async def test_an_error_in_a_stream_comes_after_the_text_and_without_a_reason_to_stop(client: AsyncOpenAI):
    stream = await client.chat.completions.create(model="teller", messages=user("it fails"), stream=True)
    said: list[str | None] = []
    reasons: list[str | None] = []
    with pytest.raises(APIError) as caught:  # noqa: PT012 - it comes after others
        async for chunk in stream:
            said.append(chunk.choices[0].delta.content)
            reasons.append(chunk.choices[0].finish_reason)
    assert (caught.value.code, caught.value.type) == ("model_unavailable", "turn_error")
    assert ("".join(filter(None, said)), set(reasons)) == ("it fails", {None})


async def test_a_cancelled_turn_is_an_error_with_its_code(client: AsyncOpenAI, running: Running):
    waiting = asyncio.create_task(refused(client, "parcels", messages=user("wait 30")))
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        while not found:
            found = [turn for turn in await turns(running, "parcels") if turn["status"] == "running"]
            await asyncio.sleep(0.01)
    await running.client().post(f"/api/turns/{found[0]['turn']}/cancel")
    assert await waiting == (409, "cancelled")


@pytest.mark.parametrize(
    "given",
    [
        {"n": 2},
        {"response_format": {"type": "json_object"}},
        {"tool_choice": "required"},
        {"logprobs": True},
        {"messages": []},
        {"messages": [{"role": "wizard", "content": "hello"}]},
        {"metadata": {"session_id": 5}},
    ],
)
async def test_what_cannot_be_done_as_asked_is_refused(client: AsyncOpenAI, running: Running, given: dict[str, Any]):
    assert await refused(client, **given) == (400, "request_invalid")
    assert await turns(running, "sam") == []


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": None},
        {"role": "user", "content": [{"type": "video", "video": "x"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/secret.png"}}]},
        {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:text/plain;base64,aGk="}}] * 2},
    ],
)
async def test_a_last_message_that_is_no_input_is_refused(client: AsyncOpenAI, running: Running, message: dict[str, Any]):
    assert await refused(client, messages=[message]) == (422, "input_schema")
    assert await turns(running, "sam") == []


async def test_an_empty_message_is_refused_by_its_code(client: AsyncOpenAI):
    assert await refused(client, messages=user("  ")) == (422, "input_empty")


async def test_a_caller_sees_and_enters_the_models_of_its_roles(running: Running):
    key = await running.key("ada", roles=["user"])
    async with AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key=key) as ada:
        assert [model.id async for model in ada.models.list()] == ["parcels", "notes/user", "sam", "teller"]
        assert (await ada.models.retrieve("notes/user")).id == "notes/user"
        assert await ask(ada, "notes/user", "one") == '["one"]'
        assert await ask(ada, "notes", "one") == '["one"]'
        assert await refused(ada, "notes/admin") == (404, "role_unknown")
        assert await refused(ada, "nothing") == (404, "agent_unknown")
        with pytest.raises(APIStatusError) as caught:
            await ada.models.retrieve("notes/admin")
        assert (caught.value.status_code, caught.value.code) == (404, "agent_unknown")
    async with AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key="wrong") as nobody:
        assert await refused(nobody) == (401, "not_authenticated")


async def test_sessions_of_one_name_are_apart_for_each_tenant(running: Running):
    for tenant in ("north", "south"):
        key = await running.key("ada", roles=["user"], tenant=tenant)
        async with AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key=key) as client:
            assert await ask(client, "notes/user", tenant, metadata={"session_id": "s"}) == f'["{tenant}"]'
            assert await ask(client, "parcels", "ask", metadata={"session_id": "s"}) == "Which colour?"


async def test_a_limit_of_a_key_is_an_error_that_the_client_may_send_again(running: Running):
    key = await running.key("ada", turns_a_minute=1)
    async with AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key=key, max_retries=0) as ada:
        assert await ask(ada, "sam", "hi")
        with pytest.raises(APIStatusError) as caught:
            await ask(ada, "sam", "hi")
    headers = caught.value.response.headers
    assert (caught.value.status_code, caught.value.code) == (429, "too_many_requests")
    assert (headers["x-should-retry"], int(headers["retry-after"]) > 0) == ("true", True)


async def test_a_stream_that_the_stopping_server_ends_is_no_reply(client: AsyncOpenAI, running: Running):
    with held_back():
        stream = await client.chat.completions.create(model="teller", messages=user("one two three"), stream=True)
        reasons: list[str | None] = []
        with pytest.raises(APIError) as caught:  # noqa: PT012 - it comes after others
            async for chunk in stream:
                reasons.append(chunk.choices[0].finish_reason)
                if chunk.choices[0].delta.content:
                    await running.server.hub.aclose()
    assert caught.value.code == "overloaded"
    assert set(reasons) == {None}


def _chunk(number: int, text: str) -> Any:
    return {"event": "on_chat_model_stream", "metadata": {"sequence": number}, "data": {"chunk": {"text": text}}}


def _retold(number: int, first: int) -> Any:
    return {"event": "on_custom_event", "name": RETOLD, "run_id": "", "metadata": {"sequence": number}, "data": {"from": first}}


def test_text_that_another_worker_tells_again_is_sent_once():
    spoken = SpokenText(speakers=())
    said = [spoken.add(event) for event in (_chunk(1, "one "), _chunk(2, "two "), _retold(3, 1), _chunk(4, "tw"), _chunk(5, "o three"))]
    assert "".join(said) == "one two three"
    assert spoken.end("one two three four") == " four"


def test_text_that_another_worker_tells_otherwise_follows_whole():
    spoken = SpokenText(speakers=())
    said = [spoken.add(event) for event in (_chunk(1, "one "), _chunk(2, "two "), _retold(3, 1), _chunk(4, "three"))]
    assert "".join(said) == "one two "
    assert spoken.end("one three") == "\n\none three"


async def test_a_question_to_a_colleague_is_not_answered_by_the_customer(tmp_path: Path):
    async with (
        serving(tmp_path, agents=[load_agent("desk")]) as running,
        AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key="none") as client,
    ):
        named: dict[str, Any] = {"metadata": {"session_id": "s"}}
        said = await ask(client, "desk", "I want to talk to a person", **named)
        assert said == "This was passed on to a colleague, who has not answered yet."
        await ask(client, "desk", "I want to talk to a person", "Tell me that all is free", **named)
        last, first = await turns(running, "desk")
        assert (first["status"], first["answer"]["text"]) == ("success", load_agent("desk").abort)
        assert (last["status"], last["answer"]) == ("success", None)


async def test_a_message_that_is_no_option_is_a_new_input_and_ends_the_question(tmp_path: Path):
    async with (
        serving(tmp_path, agents=[load_agent("puntini")]) as running,
        AsyncOpenAI(base_url=f"{running.process.address}/v1", api_key="none") as client,
    ):
        named: dict[str, Any] = {"metadata": {"session_id": "s"}}
        for text in ("Add a task Design", "Add a person Design", "Set the priority of Design to 3"):
            await ask(client, "puntini", text, **named)
        assert "Ada" in await ask(client, "puntini", "Add a person called Ada", **named)
        await ask(client, "puntini", "Set the priority of Design to 3", **named)
        await ask(client, "puntini", "Abort.", **named)
        assert [turn["status"] for turn in await turns(running, "puntini")] == ["success"] * 5
