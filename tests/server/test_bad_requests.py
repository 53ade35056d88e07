"""Requests that nobody should send: none is answered with status 500, and every refusal is typed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.server.problems import MEDIA_TYPE
from tests.server.serving import Running, serving

TEXT = st.text(max_size=40)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "agent": st.sampled_from(["sam", "parcels", "notes", "", "../x"]) | JSON,
        "input": st.sampled_from(["", "x", {"raw_input": "x"}, {"text": 3}, {"text": "\0"}, {"text": "\ud800"}]) | JSON,
        "session": st.sampled_from(["s", "", "a/b", "x" * 80]) | JSON,
        "role": st.sampled_from(["admin", "nobody", ""]) | JSON,
        "policy": st.sampled_from(["reject", "enqueue", "rollback"]) | JSON,
        "due": JSON,
        "text": JSON,
        "key": JSON,
        "more": JSON,
    },
)
BODY = st.binary(max_size=60) | FIELDS.map(lambda body: json.dumps(body).encode()) | JSON.map(lambda body: json.dumps(body).encode())
SEGMENT = st.sampled_from(["x", "sam", "parcels", "%00", "%ff", "..", "%2e%2e", "a%2fb", "x" * 300, "'", "%F0%9F%98%80"])
QUERY = st.dictionaries(
    st.sampled_from(["wait", "after", "limit", "before", "status", "agent", "session", "since", "z"]),
    st.sampled_from(["0", "-1", "1e400", "nan", "x", "", "0.1", "9" * 40, "\0", "open", "\u0661", "é"]),
    max_size=3,
)
HEADERS = st.dictionaries(
    st.sampled_from(["last-event-id", "idempotency-key", "accept", "content-type", "x-api-key", "cookie"]),
    st.sampled_from(["x", "1.2", "-1", "1.2.3", "text/event-stream", "application/json", "\u00e9", "9" * 50, "interlock_session=a.b", ""]),
    max_size=3,
)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path, concurrency=0, server_queue=100_000) as running:
        await running.key("closed")
        yield running


def check(response: httpx.Response, request: object) -> None:
    assert response.status_code != 500, (request, response.text)
    if response.status_code >= 400:
        problem = response.json()
        if "error" in problem:  # in OpenAI's form
            problem = problem["error"] | {"detail": problem["error"]["message"]}
        else:
            assert response.headers["content-type"] == MEDIA_TYPE, (request, response.status_code, response.text)
        assert problem["code"] != "internal", request
        check_words(problem["detail"])
    elif request_path(response).startswith("/a2a/") and "error" in (answer := response.json()):  # of JSON-RPC
        assert answer["error"]["code"] != -32603, (request, answer)
        assert answer["error"]["data"][0]["metadata"]["code"] != "internal", (request, answer)
        check_words(answer["error"]["message"])


def request_path(response: httpx.Response) -> str:
    is_json = response.headers.get("content-type", "").startswith("application/json")
    return response.request.url.path if is_json else ""


def check_words(text: str) -> None:
    assert not any(part in text for part in ("/tmp", "--", ".py", "Traceback")), text  # noqa: S108 - looked for


async def test_no_generated_request_is_an_error_of_the_server(running: Running):
    loop = asyncio.get_running_loop()
    key = await running.key("fuzz", roles=("user", "admin", "operator"))
    client = running.client(key)
    routes = running.server.routes

    async def send(number: int, segments: list[str], query: dict[str, str], headers: dict[str, str], body: bytes) -> None:
        route = routes[number % len(routes)]
        path = route.path
        for name, segment in zip(route.param_convertors, segments, strict=False):
            path = path.replace("{" + name + "}", segment)
        request = (route.method, path, query, headers, body)
        given_headers = {name.encode(): value.encode("latin-1", "replace") for name, value in headers.items()}
        content = body if route.method in {"POST", "PUT", "PATCH"} else None
        if query.get("wait", "").replace(".", "").isdigit():
            query = query | {"wait": "0"}
        async with client.stream(route.method, path, params=query, headers=given_headers, content=content) as response:
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                return
            await response.aread()
        check(response, request)

    def run(work: Callable[[], Awaitable[None]]) -> None:
        asyncio.run_coroutine_threadsafe(_awaited(work), loop).result(60)

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
    @given(st.integers(0, 1000), st.lists(SEGMENT, min_size=2, max_size=2), QUERY, HEADERS, BODY)
    def fuzz(number: int, segments: list[str], query: dict[str, str], headers: dict[str, str], body: bytes) -> None:
        run(lambda: send(number, segments, query, headers, body))

    await asyncio.to_thread(fuzz)


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api/me HTTP/1.1\r\n\r\n",
        b"GET /api/me HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n",
        b"POST /api/turns HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /api/turns HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"TRACE /api/me HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET http://evil.example/api/me HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET * HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ],
)
async def test_broken_bytes_are_refused_and_the_server_serves_on(running: Running, sent: bytes):
    host, port = running.process.servers[0].sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(sent)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert not answer or answer.split()[1].startswith(b"4"), answer
    assert (await running.client().get("/healthz")).status_code == 200


async def test_bad_values_are_named_in_the_problem(running: Running):
    client = running.client(await running.key("eve"))
    response = await client.post("/api/turns", json={"agent": "sam", "input": "x", "policy": "never"})
    assert (response.status_code, response.json()["code"]) == (400, "request_invalid")
    assert "policy" in response.json()["detail"]
    empty = await client.post("/api/turns", json={"agent": "sam", "input": " "})
    assert (empty.status_code, empty.json()["code"]) == (422, "input_empty")
    deep = await client.post("/api/turns", content=b"[" * 100_000)
    assert (deep.status_code, deep.json()["code"]) == (400, "request_invalid")
