"""What operators see: tokens in the metrics, and the turn and the session of a request in the access log."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from tests.server.serving import AGENTS, Running, serving
from tests.server.teller import agent as teller


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path, agents=(*AGENTS, teller)) as running:
        yield running


async def run(client: httpx.AsyncClient, agent: str, text: str) -> str:
    """Run a turn to its end; return its id."""
    turn = (await client.post("/api/turns?wait=20", json={"agent": agent, "input": text})).json()
    assert turn["status"] == "success", turn
    return turn["turn"]


async def tokens(client: httpx.AsyncClient) -> list[str]:
    return [line for line in (await client.get("/metrics")).text.splitlines() if line.startswith("interlock_tokens_total")]


async def test_the_tokens_of_turns_are_counted_by_agent_and_direction(running: Running):
    client = running.client()
    await run(client, "parcels", "now")
    assert await tokens(client) == []
    for count in (1, 2):
        await run(client, "teller", "good morning")
        assert await tokens(client) == [
            f'interlock_tokens_total{{agent="teller",direction="input"}} {3 * count}',
            f'interlock_tokens_total{{agent="teller",direction="output"}} {4 * count}',
        ]
    text = (await client.get("/metrics")).text
    assert "# TYPE interlock_tokens_total counter" in text


@pytest.mark.parametrize("route", ["", "/join", "/stream", "/cancel"])
async def test_the_access_log_has_the_turn_and_the_session_of_a_run(running: Running, caplog: pytest.LogCaptureFixture, route: str):
    client = running.client()
    thread = (await client.post("/threads", json={})).json()["thread_id"]
    run_id = (await client.post(f"/threads/{thread}/runs", json={"assistant_id": "parcels", "input": {"text": "now"}})).json()["run_id"]
    await client.get(f"/threads/{thread}/runs/{run_id}/join")
    with caplog.at_level(logging.INFO, "interlock.server"):
        await client.request("POST" if route == "/cancel" else "GET", f"/threads/{thread}/runs/{run_id}{route}")
    assert logged(caplog) == (run_id, thread)


@pytest.mark.parametrize("route", ["state", "history"])
async def test_the_access_log_has_the_session_of_a_thread(running: Running, caplog: pytest.LogCaptureFixture, route: str):
    client = running.client()
    thread = (await client.post("/threads", json={})).json()["thread_id"]
    with caplog.at_level(logging.INFO, "interlock.server"):
        assert (await client.get(f"/threads/{thread}/{route}")).status_code == 200
    assert logged(caplog) == (None, thread)


def logged(caplog: pytest.LogCaptureFixture) -> tuple[str | None, str | None]:
    """Return the turn and the session in the last line of the access log."""
    fields = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "request"][-1]
    return fields["turn"], fields["session"]
