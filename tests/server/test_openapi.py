"""The published description of the API is held to by real responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from interlock.server.routing import ServerRoute
from tests.server.serving import Running, serving


def schema_of(document: dict[str, Any], route: ServerRoute, status: int, kind: str) -> dict[str, Any]:
    described = document["paths"][route.path][route.method.lower()]["responses"]
    chosen = described.get(str(status), described["default"])
    return {**chosen["content"][kind]["schema"], "components": document["components"]}


def published(running: Running) -> list[ServerRoute]:
    """Return the routes of Interlock's own API, without the files of the page; other protocols are described by others."""
    return [route for route in running.server.routes if route.operation is not None]


async def answers(running: Running) -> list[tuple[str, str, dict[str, Any]]]:
    """Return requests that succeed on every route but the streams."""
    client = running.client()
    asked = (await client.post("/api/turns?wait=20", json={"agent": "parcels", "input": "ask", "session": "s"})).json()["turn"]
    done = (await client.post("/api/turns?wait=20", json={"agent": "sam", "input": "hello"})).json()["turn"]
    names = {"agent": "parcels", "session": "s"}
    return [
        (name, path, json)
        for name, path, json in [
            *((route.name, route.path.format(**names, turn=done), {}) for route in published(running) if route.method == "GET"),
            ("POST /api/turns", "/api/turns", {"agent": "sam", "input": {"raw_input": "x"}}),
            ("POST /api/turns/{turn}/answer", f"/api/turns/{asked}/answer", {"text": "x"}),
            ("POST /api/turns/{turn}/cancel", f"/api/turns/{asked}/cancel", {}),
            ("POST /api/turns/{turn}/fork", f"/api/turns/{done}/fork", {"step": 2}),
            ("POST /api/turns/{turn}/replay", f"/api/turns/{done}/replay", {}),
            ("POST /session", "/session", {"key": "x"}),
            ("DELETE /session", "/session", {}),
        ]
        if not (path.endswith("/events") and "sessions" in path)
    ]


@pytest.mark.parametrize("is_open", [True, False])
async def test_every_response_is_as_the_description_says(tmp_path: Path, *, is_open: bool):
    async with serving(tmp_path) as running:
        client = running.client()
        requests = await answers(running)
        document = (await client.get("/openapi.json")).json()
        assert document["openapi"] == "3.1.0"
        if not is_open:
            await running.key("closes")
        routes = {route.name: route for route in published(running)}
        described = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
        assert described == routes.keys()
        assert {name for name, _, _ in requests} == {
            name for name in routes if not name.startswith("GET /api/sessions/{agent}/{session}/events")
        }
        for name, path, body in requests:
            response = await client.request(routes[name].method, path, json=body if routes[name].method == "POST" else None)
            if is_open:
                assert response.status_code in {200, 202, 204}, (name, response.text)
            if response.status_code == 204:
                continue
            kind = response.headers["content-type"].partition(";")[0]
            schema = schema_of(document, routes[name], response.status_code, kind)
            jsonschema.Draft202012Validator(schema).validate(response.json() if kind.endswith("json") and "ndjson" not in kind else "")


async def test_the_bodies_that_the_description_allows_are_those_that_are_accepted(tmp_path: Path):
    async with serving(tmp_path, concurrency=0) as running:
        document = (await running.client().get("/openapi.json")).json()
        schema = document["paths"]["/api/turns"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        validator = jsonschema.Draft202012Validator({**schema, "components": document["components"]})
        good: list[Any] = [{"agent": "sam", "input": "x"}, {"agent": "sam", "input": {"raw_input": "x"}, "policy": "reject", "due": 5}]
        bad: list[Any] = [
            {"agent": "sam"},
            {"agent": 1, "input": "x"},
            {"agent": "sam", "input": "x", "more": 1},
            [],
            "x",
            {"agent": "sam", "input": "x", "policy": "no"},
        ]
        for body in good:
            assert validator.is_valid(body)
            assert (await running.client().post("/api/turns", json=body)).status_code == 202
        for body in bad:
            assert not validator.is_valid(body)
            assert (await running.client().post("/api/turns", json=body)).status_code == 400
