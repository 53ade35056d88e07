"""A seeded generator of bad requests to all routes, in process: none is answered with status 500, and every refusal is typed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import httpx

from interlock import Interlock
from interlock.server.app import create_app
from interlock.server.routing import ServerRoute
from interlock.settings import Settings
from interlock.stores.keys import create_key
from tests.server.serving import AGENTS
from tests.server.test_bad_requests import check

REQUESTS = int(os.environ.get("INTERLOCK_BAD_REQUESTS", "2000"))
SEED = int(os.environ.get("INTERLOCK_SEED", "0"))
TEXTS = (
    "", "x", "sam", "parcels", "notes.user", "t", "\0", "\ud800", "../..", "a/b", "1.2", "-1", "nan", "é" * 30, "x" * 300, "values", "now",
)  # fmt: skip
SEGMENTS = ("x", "sam", "parcels", "t", "notes.user", "%00", "%ff", "..", "%2e%2e", "a%2fb", "x" * 300, "'", "%F0%9F%98%80", "1.2")
QUERY = (
    "wait", "after", "limit", "offset", "before", "status", "agent", "session", "since", "action", "stream_mode", "last_event_id", "xray",
)  # fmt: skip
VALUES = ("0", "-1", "1e400", "nan", "x", "", "9" * 40, "\0", "open", "\u0661", "é", "success", "interrupt", "values")
FIELDS = (
    "assistant_id", "channels", "checkpoint", "command", "config", "content", "context", "id", "interrupt_before", "message", "messages",
    "metadata", "method", "multitask_strategy", "params", "parts", "resume", "role", "runId", "stream", "stream_mode", "threadId",
)  # fmt: skip
HEADERS = (
    "a2a-version",
    "last-event-id",
    "idempotency-key",
    "accept",
    "content-type",
    "x-interlock-session",
    "mcp-protocol-version",
    "mcp-method",
)
HEADER_VALUES = (
    b"x",
    b"1.0",
    b"1.2",
    b"-1",
    b"1.2.3",
    b"text/event-stream",
    b"application/json",
    b"\xe9",
    b"9" * 50,
    b"",
    b"2026-07-28",
    b"tools/call",
)


def value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(9 if depth < 3 else 6)
    if kind < 6:
        return (None, chance.choice((True, False)), chance.randrange(-(10**6), 10**30), chance.choice((1e308, -0.5, float("nan"))),
                chance.choice(TEXTS), chance.choice(TEXTS))[kind]  # fmt: skip
    if kind == 6:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(TEXTS): value(chance, depth + 1) for _ in range(chance.randrange(4))}


def body(chance: random.Random, fields: list[str]) -> bytes:
    kind = chance.randrange(10)
    if kind == 0:
        return chance.randbytes(chance.randrange(60))
    if kind == 1:
        return json.dumps(value(chance)).encode()
    likely = {"agent": "parcels", "assistant_id": "parcels", "model": "sam", "input": "now", "session": "t", "jsonrpc": "2.0", "id": 1}
    given = {name: likely[name] for name in likely if chance.random() < 0.5}
    given |= {chance.choice(fields): value(chance) for _ in range(chance.randrange(5))}
    text = json.dumps(given).encode()
    return text[: chance.randrange(len(text))] if kind == 2 else text


TASK_METHODS = ("SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "SubscribeToTask", "ListTasks", "GetExtendedAgentCard", "x")


def task_call(chance: random.Random) -> bytes:
    """Return a call of A2A that has nearly the right form, so that its parts are looked at."""

    def either(likely: Any) -> Any:
        return likely if chance.random() < 0.8 else value(chance)

    part = {chance.choice(("text", "raw", "url", "data", "mediaType", "x")): either("now") for _ in range(chance.randrange(3))}
    message = {"messageId": either("m"), "role": either("ROLE_USER"), "parts": either([part])}
    message |= {name: either(chance.choice(TEXTS)) for name in ("taskId", "contextId") if chance.random() < 0.3}
    params = {"message": either(message), "id": either(chance.choice(TEXTS)), "configuration": either({"returnImmediately": True})}
    call = {"jsonrpc": "2.0", "id": either(1), "method": either(chance.choice(TASK_METHODS)), "params": either(params)}
    return json.dumps(call).encode()


def fields_of(document: dict[str, Any]) -> list[str]:
    """Return all names of fields that the description has, with those of protocols that describe themselves elsewhere."""
    named = {name for schema in document["components"]["schemas"].values() for name in schema.get("properties", {})}
    return sorted(named | set(FIELDS))


def request_of(chance: random.Random, routes: list[ServerRoute], fields: list[str]) -> dict[str, Any]:
    route = chance.choice(routes)
    path = re.sub(r"{\w+(:\w+)?}", lambda _: chance.choice(SEGMENTS), route.path)
    method = route.method if chance.random() < 0.95 else chance.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "FOO"))
    query = {chance.choice(QUERY): chance.choice(VALUES) for _ in range(chance.randrange(3))}
    if "wait" in query:
        query["wait"] = chance.choice(("0", "-1", "nan", "x"))
    headers = {chance.choice(HEADERS): chance.choice(HEADER_VALUES) for _ in range(chance.randrange(3))}
    content = None if method == "GET" else body(chance, fields)
    if route.path.startswith("/a2a/") and chance.random() < 0.7:
        path, content, headers["a2a-version"] = route.path.format(agent="parcels", role="x"), task_call(chance), b"1.0"
        path = path.replace("parcels/x", chance.choice(("notes/user", "notes/x")))
    return {"method": method, "url": path, "params": query, "headers": headers, "content": content}


async def test_no_bad_request_is_an_error_of_the_server_and_every_refusal_is_typed(tmp_path: Path):
    chance = random.Random(SEED)  # noqa: S311 - chosen, so that a run can be repeated
    settings = Settings.isolated(data_dir=tmp_path, engine="direct", server_queue=10**9)
    statuses: dict[int, int] = {}
    async with Interlock(settings) as app:
        application = create_app(app, agents=AGENTS, concurrency=2)
        async with application.router.lifespan_context(application):
            server = application.state.server
            key, stored = create_key("fuzz", roles=("user", "admin", "operator"))
            await server.keys.add(stored)
            routes, headers = list(server.routes), {"authorization": f"Bearer {key}"}
            transport = httpx.ASGITransport(application, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
                fields = fields_of((await client.get("/openapi.json")).json())
                for number in range(REQUESTS):
                    request = request_of(chance, routes, fields)
                    try:
                        # A stream, or a run that is waited for, does not end by itself: that it was accepted is what counts.
                        async with asyncio.timeout(0.5):
                            answer = await client.request(**request)
                    except (TimeoutError, httpx.InvalidURL, httpx.LocalProtocolError):
                        continue
                    check(answer, (number, request))
                    statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
    print(REQUESTS, dict(sorted(statuses.items())))  # noqa: T201 - shown by `make soak`
    assert sum(count for status, count in statuses.items() if status >= 400) > REQUESTS / 2, statuses
