"""What a client sees of a turn's error: its code and what went wrong, and nothing of the server's machine."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from pydantic import SecretStr

from interlock.discovery import load_agent
from interlock.errors import ModelUnavailable, SessionBusy, StoreUnavailable
from interlock.server.problems import turn_error
from tests.server.serving import Running, frames, serving

SIGNING = "0123456789abcdef" * 2
TOKENS: dict[str, Any] = {
    "jwt_key": SecretStr(SIGNING),
    "jwt_issuer": "https://id.example",
    "jwt_audience": "interlock",
    "jwt_algorithms": ("HS256",),
}
ASKED = {
    "sam": "hello",
    "desk": "Do you have mugs?",
    "analyst": "How many orders are there?",
    "gateway": "list my documents",
    "puntini": "Add a task A",
}


def token(**given: Any) -> str:
    claims = {"iss": "https://id.example", "aud": "interlock", "exp": time.time() + 600, "roles": ["user"]}
    return jwt.encode(claims | given, SIGNING, "HS256")


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "ann"},
        {"sub": "ann", "tenant": "acme"},
        {"sub": "auth0|5f7c152d6a1f3b0012345678"},
        {"sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ"},
        {"sub": "/%" * 127, "tenant": "a" * 60},
    ],
    ids=lambda claims: claims["sub"][:12],
)
async def test_every_agent_runs_turns_of_every_caller_that_a_provider_of_identities_may_name(tmp_path: Path, claims: dict[str, str]):
    async with serving(tmp_path, agents=[load_agent(name) for name in ASKED], **TOKENS) as running:
        client = running.client(token(**claims))
        for agent, text in ASKED.items():
            turn = (await client.post("/api/turns", params={"wait": 20}, json={"agent": agent, "input": text})).json()
            assert turn["status"] == "success", (agent, turn)


async def test_a_store_that_is_down_is_not_named_by_any_protocol(tmp_path: Path):
    async with serving(tmp_path, agents=[load_agent("desk")], session_url=SecretStr("redis://127.0.0.1:1/0")) as running:
        turn = await call(running, "/api/turns?wait=20", {"agent": "desk", "input": "hi"})
        completion = await call(running, "/v1/chat/completions", {"model": "desk", "messages": [{"role": "user", "content": "hi"}]})
        run = await call(running, "/runs/wait", {"assistant_id": "desk", "input": {"text": "hi"}})
        client = running.client()
        page = (await client.get(f"/api/turns/{turn['turn']}/events")).json()["events"]
        steps = (await client.get(f"/api/turns/{turn['turn']}/steps")).json()["steps"]
        async with client.stream("GET", f"/api/turns/{turn['turn']}/events", headers={"accept": "text/event-stream"}) as response:
            streamed = [frame["data"] for frame in await frames(response)]
    faults = [turn["error"], completion["error"], run["__error__"], *(step["error"] for step in steps if step["error"])]
    for events in (page, streamed):
        errors = [event["data"]["error"] for event in events if event.get("event") == "on_chain_error"]
        (ended,) = [event["data"]["output"] for event in events if event.get("event") == "on_chain_end" and not event["parent_ids"]]
        assert errors
        faults += [*errors, ended["error"]]
    assert len(faults) >= 8
    for fault in faults:
        assert fault["message"]
        assert not any(part in fault["message"] for part in ("127.0.0.1", "INTERLOCK_", "Check ", "Run: ", "/")), fault


async def call(running: Running, path: str, body: dict[str, Any]) -> Any:
    return (await running.client().post(path, json=body)).json()


def test_what_a_client_may_see_of_an_error():
    assert turn_error("model_unavailable", "Check INTERLOCK_MODEL.").message == (ModelUnavailable.__doc__ or "")
    assert turn_error("store_unavailable", "It is down.").message == (StoreUnavailable.__doc__ or "")
    assert turn_error("session_busy", "'/data/x.lock' is held.").message == (SessionBusy.__doc__ or "")
    assert turn_error("input_schema", "The field 'a' is missing. Fix: add it.").message == "The field 'a' is missing."
    own = turn_error("out_of_stock", "There are no mugs.")
    assert (own.code, own.message) == ("out_of_stock", "There are no mugs.")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"INTERLOCK_MODEL": "openai:gpt-x", "INTERLOCK_MODEL_API_KEY": ""}, "settings_invalid"),
        ({"INTERLOCK_MODEL": "scripted:/missing.json"}, "settings_invalid"),
    ],
)
async def test_a_server_that_cannot_open_its_agents_says_why_in_one_line(tmp_path: Path, given: dict[str, str], code: str):
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("interlock")), "serve", "--port", "0", "--agent", "sam",
        env={**os.environ, "INTERLOCK_DATA_DIR": str(tmp_path), **given},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2
    assert out == b""
    assert error.startswith(f"{code}: ".encode())
    assert error.count(b"\n") == 1
