"""Generated requests with LangGraph's fields and any values: all are answered, and none is an error of the server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.server.langgraph.bodies import (
    CancelBody,
    CheckpointBody,
    CommandBody,
    HistoryBody,
    RunBody,
    SearchBody,
    ThreadBody,
    ThreadPatch,
)
from tests.server.serving import Running, serving
from tests.server.test_bad_requests import check

TEXT = st.one_of(
    st.text(max_size=8), st.sampled_from(["", "\0", "\ud800", "..", "*", "t", "sam", "parcels", "1.2", "-1", "values", "x" * 200])
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
MESSAGE = st.fixed_dictionaries({}, optional=dict.fromkeys(("role", "type", "content", "id", "text"), JSON))
LIKELY = {
    "assistant_id": st.sampled_from(["sam", "parcels", "notes.user", "nobody"]),
    "input": st.one_of(
        JSON, st.just("now"), st.fixed_dictionaries({"messages": st.one_of(JSON, st.lists(st.one_of(MESSAGE, JSON), max_size=2))})
    ),
    "command": st.one_of(JSON, st.fixed_dictionaries({}, optional=dict.fromkeys(CommandBody.model_fields, JSON))),
    "stream_mode": st.one_of(JSON, st.just(["values", "updates"])),
    "thread_id": st.one_of(TEXT, st.just("t")),
    "after_seconds": st.one_of(JSON, st.just(1e8)),
    "checkpoint": st.one_of(JSON, st.fixed_dictionaries({"checkpoint_id": JSON})),
    "config": st.one_of(JSON, st.fixed_dictionaries({"configurable": JSON})),
}
SHAPES = (RunBody, ThreadBody, ThreadPatch, SearchBody, HistoryBody, CheckpointBody, CancelBody)


def bodies(shape: type[Any]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {name: LIKELY.get(name, JSON) for name in shape.model_fields}
    required = {name: fields.pop(name) for name, field in shape.model_fields.items() if field.is_required()}
    return st.fixed_dictionaries(required, optional={**fields, "unknown": JSON})


QUERY = st.dictionaries(
    st.sampled_from(["limit", "offset", "before", "status", "stream_mode", "action", "last_event_id"]), TEXT, max_size=3
)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path) as running:
        yield running


async def test_no_generated_request_is_an_error_of_the_server(running: Running):
    loop = asyncio.get_running_loop()
    client = running.client(await running.key("fuzz", roles=("user",)))
    await client.post("/threads", json={"thread_id": "t"})
    await client.post("/threads/t/runs/wait", json={"assistant_id": "parcels", "input": "ask"})
    run = (await client.get("/threads/t/runs")).json()[0]["run_id"]
    routes = [route for route in running.server.routes if re.match("/(threads|runs|assistants|store)", route.path)]
    assert len(routes) > 40

    async def send(number: int, body: dict[str, Any], query: dict[str, str], last: str) -> None:
        route = routes[number % len(routes)]
        values = {
            "thread": ("t", "missing", "%00")[number % 3],
            "run": (run, "missing")[number % 2],
            "assistant": "sam",
            "checkpoint": "1.2",
        }
        path = re.sub(r"{(\w+)}", lambda name: values[name[1]], route.path)
        content = None if route.method == "GET" else json.dumps(body).encode()
        headers = {b"last-event-id": last.encode("latin-1", "replace").replace(b"\0", b"").replace(b"\r", b"").replace(b"\n", b"")}
        given_query = {name: value.encode("utf-8", "replace").decode() for name, value in query.items()}
        try:
            async with (
                asyncio.timeout(5),
                client.stream(route.method, path, params=given_query, headers=headers, content=content) as answer,
            ):
                if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                    await answer.aread()
                    check(answer, (route.name, body))
        except TimeoutError:
            pass  # A run that is due later is waited for; that it was accepted is what counts.
        except httpx.LocalProtocolError:
            pass  # The client refuses to send it.

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
    @given(st.integers(0, 10**6), st.one_of(*(bodies(shape) for shape in SHAPES)), QUERY, TEXT)
    def fuzz(number: int, body: dict[str, Any], query: dict[str, str], last: str) -> None:
        asyncio.run_coroutine_threadsafe(send(number, body, query, last), loop).result(60)

    await asyncio.to_thread(fuzz)
