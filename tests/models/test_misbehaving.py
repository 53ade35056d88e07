"""A server that does everything wrong: a caller gets one of our errors, says nothing of what was said, and nothing hangs."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import itertools
import json
import resource
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock.capabilities.model import Message, ModelReply, Tool, join_chunks
from interlock.errors import ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable
from interlock.models.langchain import LangChainModel

Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[Behaviour], Awaitable[str]]
Open = Callable[..., LangChainModel]

HELLO = [Message(role="user", text="hunter2 {not} a {{template}}")]
LOOK = Tool(name="look", description="Look.", parameters={"type": "object", "properties": {"at": {"type": "string"}}})


class Colour(BaseModel):
    colour: str


async def reply(model: LangChainModel) -> object:
    return await model.reply(HELLO, tools=[LOOK])


async def stream(model: LangChainModel) -> object:
    return join_chunks([piece async for piece in model.stream(HELLO, tools=[LOOK])])


async def decide(model: LangChainModel) -> object:
    return await model.decide(HELLO, schema=Colour)


WAYS = pytest.mark.parametrize("ask", [reply, stream, decide])


def answer(body: bytes, *, status: str = "200 OK", headers: Iterable[str] = ("content-type: application/json",)) -> Behaviour:
    """Send a whole answer and close."""

    async def behave(writer: asyncio.StreamWriter) -> None:
        head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", "connection: close", *headers))
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()

    return behave


def completion(message: dict[str, Any], **more: Any) -> bytes:
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "tiny"}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    return json.dumps({**whole, "choices": [choice], **more}).encode()


def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "finish_reason": finish, "delta": delta}
    whole = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice], **more}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"


def says(text: str) -> bytes:
    return event({"role": "assistant", "content": text})


STOP = event({}, "stop")
DONE = b"data: [DONE]\n\n"
EVENTS = ("content-type: text/event-stream",)


def events(*parts: bytes) -> Behaviour:
    return answer(b"".join(parts), headers=EVENTS)


async def failure(ask: Callable[[LangChainModel], Awaitable[object]], model: LangChainModel) -> ModelError:
    """Ask, and check that the error shows neither the request, nor the key, nor what the server said."""
    with pytest.raises(ModelError) as raised:
        await ask(model)
    for hidden in ("hunter2", "sk-secret", "swordfish"):
        assert hidden not in str(raised.value)
    return raised.value


@WAYS
@pytest.mark.parametrize(
    ("status", "expected", "fix"),
    [
        ("500 Internal Server Error", ModelUnavailable, ""),
        ("503 Service Unavailable", ModelUnavailable, ""),
        ("429 Too Many Requests", ModelUnavailable, "too many requests"),
        ("408 Request Timeout", ModelTimeout, "in time"),
        ("402 Payment Required", ModelRefused, "no credit"),
        ("413 Content Too Large", ModelRefused, "longer than the model's context"),
        ("504 Gateway Timeout", ModelTimeout, "in time"),
        ("401 Unauthorized", ModelRefused, "INTERLOCK_MODEL_API_KEY"),
        ("403 Forbidden", ModelRefused, "INTERLOCK_MODEL_API_KEY"),
        ("404 Not Found", ModelRefused, "INTERLOCK_MODEL_BASE_URL"),
        ("400 Bad Request", ModelRefused, "too long"),
        ("418 Teapot", ModelRefused, ""),
        ("422 Unprocessable", ModelRefused, ""),
    ],
)
@pytest.mark.parametrize("body", [b'{"error": {"message": "swordfish"}}', b"\xff<html>swordfish"])
async def test_http_statuses_are_translated(
    served: Serve, opened: Open, *, ask: Any, status: str, expected: type[ModelError], fix: str, body: bytes
) -> None:
    asked = 0

    async def behave(writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await answer(body, status=status)(writer)

    error = await failure(ask, opened(await served(behave)))
    assert type(error) is expected
    assert status[:3] in str(error)
    assert fix in str(error)
    assert asked == 1  # it is never asked again


@WAYS
async def test_redirects_are_not_followed(served: Serve, opened: Open, ask: Any) -> None:
    visited: list[str] = []

    async def elsewhere(writer: asyncio.StreamWriter) -> None:
        visited.append("here")

    there = await served(elsewhere)
    model = opened(await served(answer(b"", status="307 Temporary Redirect", headers=[f"location: {there}/chat/completions"])))
    error = await failure(ask, model)
    assert type(error) is ModelRefused
    assert visited == []


async def reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def reset_after_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
    await writer.drain()
    writer.transport.abort()


async def not_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 swordfish ESMTP\r\n")


async def closes(writer: asyncio.StreamWriter) -> None:
    pass


@WAYS
@pytest.mark.parametrize("behave", [reset, reset_after_headers, not_http, closes])
async def test_a_broken_connection_is_unavailable(served: Serve, opened: Open, ask: Any, behave: Behaviour) -> None:
    assert type(await failure(ask, opened(await served(behave)))) is ModelUnavailable


@WAYS
@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "http://nowhere.invalid/v1"])
async def test_an_unreachable_server_is_unavailable(opened: Open, ask: Any, url: str) -> None:
    assert type(await failure(ask, opened(url))) is ModelUnavailable


async def hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hang_after_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
    await hang(writer)


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def keep_alive(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
    while True:
        writer.write(b": still here\n\n")
        await writer.drain()
        await asyncio.sleep(0.05)


@WAYS
@pytest.mark.parametrize("behave", [hang, hang_after_headers, drip, keep_alive])
async def test_a_late_answer_is_a_timeout(served: Serve, opened: Open, ask: Any, behave: Behaviour) -> None:
    assert type(await failure(ask, opened(await served(behave), timeout_s=0.2))) is ModelTimeout


@WAYS
async def test_cancellation_is_not_translated(served: Serve, opened: Open, ask: Any) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await ask(opened(await served(hang)))


WRONG = {
    "half JSON": completion({"content": "swordfish"})[:-20],
    "nothing": b"",
    "HTML": b"<html>swordfish</html>",
    "invalid UTF-8": b'{"choices": "\xff\xfe"}',
    "deep": b"[" * 100_000,
    "a number": b"5",
    "a list": b"[]",
    "null": b"null",
    "an object": b"{}",
    "choices null": b'{"choices": null}',
    "choices empty": b'{"choices": []}',
    "choices of numbers": b'{"choices": [1]}',
    "no message": b'{"choices": [{"index": 0, "finish_reason": "stop"}]}',
    "message null": b'{"choices": [{"index": 0, "finish_reason": "stop", "message": null}]}',
    "content null": completion({"content": None}),
    "content a number": completion({"content": 5}),
    "content an object": completion({"content": {"a": 1}}),
    "content empty": completion({"content": ""}),
    "content blank": completion({"content": " \n\t"}),
    "half a surrogate": completion({"content": "\ud800"}),
    "another role": completion({"role": "user", "content": '{"colour": "red"}'}),
    "an error in a good answer": b'{"error": {"message": "swordfish"}}',
    "counts that are none": completion({"content": '{"colour": "red"}'}, usage={"prompt_tokens": "many"}),
    "calls that are none": completion({"content": "", "tool_calls": [5]}),
    "call with half arguments": completion({"tool_calls": [{"id": "1", "function": {"name": "look", "arguments": '{"at": "x'}}]}),
    "call with a list": completion({"tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "[1]"}}]}),
}


@WAYS
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
async def test_a_response_that_is_not_a_reply_is_invalid_output(
    served: Serve, opened: Open, ask: Any, body: bytes, content_type: str
) -> None:
    model = opened(await served(answer(body, headers=[f"content-type: {content_type}"])))
    assert type(await failure(ask, model)) is ModelOutputInvalid


async def test_an_error_code_in_a_successful_response_is_translated(served: Serve, opened: Open) -> None:
    body = b'{"error": {"message": "swordfish", "code": 429}}'
    assert type(await failure(reply, opened(await served(answer(body))))) is ModelUnavailable


FILTERED = {
    "filter": json.loads(completion({"content": "swordf"})) | {"choices": [{"finish_reason": "content_filter", "index": 0, "message": {"role": "assistant", "content": "swordf"}}]},  # noqa: E501
    "refusal": json.loads(completion({"content": None, "refusal": "swordfish"})),
}  # fmt: skip


@pytest.mark.parametrize("ask", [reply, decide])
@pytest.mark.parametrize("body", FILTERED.values(), ids=FILTERED.keys())
async def test_a_filtered_answer_is_refused(served: Serve, opened: Open, ask: Any, body: Any) -> None:
    assert type(await failure(ask, opened(await served(answer(json.dumps(body).encode()))))) is ModelRefused


UNDECIDED = {
    "half a fence": '```json\n{"colour": "red"}',
    "trailing text": '{"colour": "red"} swordfish',
    "leading text": 'swordfish: {"colour": "red"}',
    "half": '{"colour": "red"',
    "another shape": '{"color": "red"}',
    "a number for a text": '{"colour": 5}',
    "single quotes": "{'colour': 'red'}",
    "a list": '[{"colour": "red"}]',
    "half a surrogate": '{"colour": "\\ud800"}',
}


@pytest.mark.parametrize("text", UNDECIDED.values(), ids=UNDECIDED.keys())
async def test_a_decision_is_not_repaired(served: Serve, opened: Open, text: str) -> None:
    model = opened(await served(answer(completion({"content": text}))))
    assert type(await failure(decide, model)) is ModelOutputInvalid


async def test_a_number_as_text_is_not_accepted(served: Serve, opened: Open) -> None:
    class Count(BaseModel):
        count: int

    model = opened(await served(answer(completion({"content": '{"count": "5"}'}))))
    with pytest.raises(ModelOutputInvalid):
        await model.decide(HELLO, schema=Count)


@pytest.mark.parametrize("usage", [{"prompt_tokens": -5, "completion_tokens": 1, "total_tokens": 1}, {}, None])
async def test_an_invalid_token_count_is_ignored(served: Serve, opened: Open, usage: Any) -> None:
    model = opened(await served(answer(completion({"content": "hi"}, usage=usage))))
    assert await model.reply(HELLO) == ModelReply(text="hi", model="openai:tiny")


def calls(*given: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"index": n, "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}, **call} for n, call in enumerate(given)
    ]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("given", "expected"),
    cast(
        "list[tuple[list[dict[str, Any]], list[str]]]",
        [
            ([{"id": "a"}, {"id": "b"}], ["a", "b"]),
            ([{}], ["call-2"]),
            ([{"id": ""}, {"id": None}], ["call-2", "call-3"]),
            ([{"id": "a"}, {"id": "a"}], ["a", "call-3"]),
            ([{"id": "call-2"}, {}], ["call-2", "call-3"]),
            ([{"id": "old"}], ["call-2"]),
        ],
    ),
)
async def test_every_tool_call_has_a_unique_id(
    served: Serve, opened: Open, *, streamed: bool, given: list[dict[str, Any]], expected: list[str]
) -> None:
    made = calls(*given)
    behave = events(event({"tool_calls": made}), STOP, DONE) if streamed else answer(completion({"tool_calls": made}))
    model = opened(await served(behave))
    earlier = ModelReply(calls=(await opened(await served(answer(completion({"tool_calls": calls({"id": "old"})})))).reply(HELLO)).calls)
    messages = [*HELLO, Message(role="assistant", calls=earlier.calls), Message(role="tool", text="nothing", answers="old")]
    got = join_chunks([piece async for piece in model.stream(messages)]) if streamed else await model.reply(messages)
    assert [call.id for call in got.calls] == expected
    assert all(call.name == "look" and call.arguments == {"at": "x"} for call in got.calls)


@pytest.mark.parametrize("ask", [reply, stream])
async def test_an_invalid_tool_call_is_dropped_if_another_is_valid(served: Serve, opened: Open, ask: Any) -> None:
    made = calls({"id": "a"}, {"id": "b", "function": {"name": "look", "arguments": "{"}})
    behave = answer(completion({"tool_calls": made})) if ask is reply else events(event({"tool_calls": made}), STOP, DONE)
    got = await ask(opened(await served(behave)))
    assert [call.id for call in got.calls] == ["a"]


@pytest.mark.parametrize("ask", [reply, stream])
async def test_text_beside_an_invalid_tool_call_is_not_an_answer(served: Serve, opened: Open, ask: Any) -> None:
    said = {"content": "Let me look.", "tool_calls": calls({"id": "a", "function": {"name": "look", "arguments": "{"}})}
    behave = answer(completion(said)) if ask is reply else events(event(said), STOP, DONE)
    assert type(await failure(ask, opened(await served(behave)))) is ModelOutputInvalid


# Size


@pytest.mark.parametrize(
    "headers", [["content-length: 10000000000"], ["transfer-encoding: chunked"], []], ids=["length", "chunked", "close"]
)
@pytest.mark.parametrize(
    ("ask", "filler"),
    # A stream of empty lines takes no memory: it is a matter of time.
    [(reply, b" "), (reply, b"\n"), (decide, b"\n"), (decide, b"data: {\n"), (stream, b" "), (stream, b"data: {\n"), (stream, b": x\n")],
)
async def test_a_body_over_the_limit_is_rejected(served: Serve, opened: Open, ask: Any, headers: list[str], filler: bytes) -> None:
    sent = 0
    block = (filler * 65536)[:65536]
    chunk = b"10000\r\n" + block + b"\r\n" if headers and "chunked" in headers[0] else block

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await answer(b"", headers=[*EVENTS, *headers])(writer)
        while sent < 250_000_000:
            writer.write(chunk)
            await writer.drain()
            sent += len(chunk)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = opened(await served(flood))
    assert type(await failure(ask, model)) is ModelOutputInvalid
    assert sent < 20_000_000  # what fits into the buffers of the sockets beside the cap of one megabyte
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


@WAYS
async def test_a_large_error_body_keeps_its_status(served: Serve, opened: Open, ask: Any) -> None:
    async def flood(writer: asyncio.StreamWriter) -> None:
        await answer(b"", status="401 Unauthorized")(writer)
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    assert type(await failure(ask, opened(await served(flood)))) is ModelRefused


@WAYS
async def test_a_compressed_body_is_rejected(served: Serve, opened: Open, ask: Any) -> None:
    packed = gzip.compress(b" " * 10_000_000)
    model = opened(await served(answer(packed, headers=[*EVENTS, "content-encoding: gzip"])))
    error = await failure(ask, model)
    assert type(error) is ModelOutputInvalid
    assert "compressed" in str(error)  # and not what was in it


@pytest.mark.parametrize("ask", [reply, decide])
async def test_a_reply_over_the_limit_is_rejected(served: Serve, opened: Open, ask: Any) -> None:
    text = json.dumps({"colour": "x" * 10_000})
    assert type(await failure(ask, opened(await served(answer(completion({"content": text})))))) is ModelOutputInvalid


async def test_the_limit_counts_bytes(served: Serve, opened: Open) -> None:
    model = opened(await served(answer(completion({"content": "é" * 10}))), max_reply_bytes=19)
    assert type(await failure(reply, model)) is ModelOutputInvalid


async def test_arguments_count_towards_the_limit(served: Serve, opened: Open) -> None:
    made = calls({"id": "a", "function": {"name": "look", "arguments": json.dumps({"at": "x" * 10_000})}})
    assert type(await failure(reply, opened(await served(answer(completion({"tool_calls": made})))))) is ModelOutputInvalid
    assert type(await failure(stream, opened(await served(events(event({"tool_calls": made}), STOP))))) is ModelOutputInvalid


async def test_a_stream_ends_at_the_limit(served: Serve, opened: Open) -> None:
    gone = asyncio.Event()

    async def flood(writer: asyncio.StreamWriter) -> None:
        await events()(writer)
        try:
            for number in itertools.count():
                writer.write(says(hashlib.shake_256(str(number).encode()).hexdigest(500)))  # a text that does not repeat itself
                await writer.drain()
        finally:
            gone.set()

    heard = 0
    with pytest.raises(ModelOutputInvalid):  # noqa: PT012 - what was heard must survive the error
        async for piece in opened(await served(flood)).stream(HELLO):
            heard += len(piece.text)
    assert heard == 10_000
    await asyncio.wait_for(gone.wait(), 5)


# Streams


async def test_a_long_stream_of_small_events_is_accepted(served: Serve, opened: Open) -> None:
    thinking = event({"role": "assistant", "content": "", "reasoning_content": "x" * 1000}) * 2000
    got = await stream(opened(await served(events(thinking, says("hi"), STOP, DONE))))
    assert isinstance(got, ModelReply)
    assert got.text == "hi"


async def then_resets(writer: asyncio.StreamWriter) -> None:
    await events(says("swordfish"))(writer)
    await asyncio.sleep(0.05)
    writer.transport.abort()


async def then_hangs(writer: asyncio.StreamWriter) -> None:
    await events(says("swordfish"))(writer)
    await hang(writer)


async def then_ends_short(writer: asyncio.StreamWriter) -> None:
    await answer(says("swordfish"), headers=[*EVENTS, "content-length: 10000"])(writer)


async def then_fails_with_a_code(writer: asyncio.StreamWriter) -> None:
    await events(says("swordfish"), b'data: {"error": {"message": "swordfish", "code": 400}}\n\n')(writer)


BROKEN_STREAMS: list[tuple[Behaviour, type[ModelError]]] = [
    (then_resets, ModelUnavailable),
    (then_hangs, ModelTimeout),
    (then_ends_short, ModelUnavailable),
    (events(says("swordfish")), ModelUnavailable),
    (events(says("swordfish"), b'data: {"error": {"message": "swordfish"}}\n\n'), ModelUnavailable),
    (then_fails_with_a_code, ModelRefused),
    (events(says("swordfish"), b"data: swordfish\n\n", STOP, DONE), ModelOutputInvalid),
    (events(says("swordfish"), b"data: {}\n\n", b"data: 5\n\n"), ModelOutputInvalid),
    (events(says("swordfish"), b"data: \xff\n\n"), ModelOutputInvalid),
    (events(says("swordfish"), event({"content": 5}), STOP), ModelOutputInvalid),
    (events(says("swordfish"), event({"content": "\ud800"}), STOP), ModelOutputInvalid),
    (events(says("swordfish"), b'data: {"choices": [5]}\n\n', STOP), ModelOutputInvalid),
    (events(says("swordfish"), event({}, "content_filter")), ModelRefused),
    (events(event({"refusal": "swordfish"}), STOP), ModelOutputInvalid),  # LangChain does not pass it on
    (events(STOP, DONE), ModelOutputInvalid),
    (events(DONE), ModelOutputInvalid),
    (events(says(" \n"), says(" "), STOP, DONE), ModelOutputInvalid),
    (events(event({"tool_calls": calls({"id": "a", "function": {"name": "look", "arguments": '{"at": "x'}})}), STOP), ModelOutputInvalid),
    (events(event({"tool_calls": calls({"id": "a", "function": {"name": "look", "arguments": "[1]"}})}), STOP), ModelOutputInvalid),
    (events(event({"tool_calls": calls({"id": "a", "function": {"arguments": "{}"}})}), STOP), ModelOutputInvalid),
    (events(event({"tool_calls": calls({"id": "a", "function": {"name": "look", "arguments": "[" * 9000}})}), STOP), ModelOutputInvalid),
]


@pytest.mark.parametrize(("behave", "expected"), BROKEN_STREAMS)
async def test_a_broken_stream_is_unavailable(served: Serve, opened: Open, behave: Behaviour, expected: type[ModelError]) -> None:
    assert type(await failure(stream, opened(await served(behave), timeout_s=0.5))) is expected


async def test_chunks_before_a_stream_broke_are_yielded(served: Serve, opened: Open) -> None:
    heard: list[str] = []
    with pytest.raises(ModelUnavailable):  # noqa: PT012 - what was heard must survive the error
        async for piece in opened(await served(then_resets)).stream(HELLO):
            heard.append(piece.text)  # noqa: PERF401 - likewise
    assert heard == ["swordfish"]


@pytest.mark.parametrize("end", [[STOP, DONE], [STOP], [event({"content": "!"}, "stop")]], ids=["done", "no done", "stop with text"])
async def test_a_stream_with_a_finish_reason_is_complete(served: Serve, opened: Open, end: list[bytes]) -> None:
    got = await stream(opened(await served(events(says("hi"), says(" you"), *end))))
    assert isinstance(got, ModelReply)
    assert got.text.rstrip("!") == "hi you"


async def test_tool_calls_are_joined_and_come_with_the_last_chunk(served: Serve, opened: Open) -> None:
    parts = [
        event({"content": "Let me look."}),
        event({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look", "arguments": ""}}]}),
        event({"tool_calls": [{"index": 0, "function": {"arguments": '{"at": '}}]}),
        event({"tool_calls": [{"index": 0, "function": {"arguments": '"x"}'}}]}),
        event({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "look"}}]}),
        event({"tool_calls": [{"index": 1, "id": "c", "function": {"name": "look", "arguments": "{}"}}]}),
        event({}, "tool_calls", usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}),
        DONE,
    ]
    pieces = [piece async for piece in opened(await served(events(*parts))).stream(HELLO)]
    assert [piece.text for piece in pieces] == ["Let me look.", ""]
    assert [(call.id, call.arguments) for call in pieces[-1].calls] == [("a", {"at": "x"}), ("b", {}), ("c", {})]
    assert pieces[-1].usage is not None
    assert pieces[-1].usage.tokens == 5


async def test_closing_a_stream_closes_the_connection(served: Serve, opened: Open) -> None:
    gone = asyncio.Event()

    async def talk(writer: asyncio.StreamWriter) -> None:
        await events(says("hi"))(writer)
        try:
            while True:
                writer.write(b": still here\n\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        finally:
            gone.set()

    async with contextlib.aclosing(opened(await served(talk)).stream(HELLO)) as pieces:
        assert (await anext(pieces)).text == "hi"
    await asyncio.wait_for(gone.wait(), 5)


def test_any_response_has_a_typed_outcome() -> None:
    from interlock.models.langchain import open_provider  # noqa: PLC0415 - the servers below live in a loop of their own

    body = b""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        await answer(body, headers=EVENTS if body.startswith(b"data") else ("content-type: application/json",))(writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    with asyncio.Runner() as runner:
        server = runner.run(asyncio.start_server(behave, "127.0.0.1", 0))
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        model = open_provider("openai:tiny", base_url=url, api_key=None, timeout_s=5, max_tokens=9, max_reply_bytes=1000)
        pieces = st.sampled_from(
            [says("hi"), STOP, DONE, event({"tool_calls": calls({})}), b"data: ", b"{", b"\n\n", b'"choices": [', b"}"]
        )
        bodies = st.one_of(st.binary(), st.lists(pieces).map(b"".join), st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["choices", "message", "content", "delta", "role", "tool_calls", "error", "usage"]), inner)).map(lambda made: json.dumps(made).encode()))  # fmt: skip  # noqa: E501

        @settings(max_examples=100)
        @given(bodies, st.sampled_from([reply, stream, decide]))
        def check(sent: bytes, ask: Callable[[LangChainModel], Awaitable[object]]) -> None:
            nonlocal body
            body = sent

            async def end() -> None:
                with contextlib.suppress(ModelError):
                    await ask(model)

            runner.run(end())

        check()
        server.close()
        runner.run(model.aclose())
