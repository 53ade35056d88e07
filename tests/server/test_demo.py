"""The demo: scenarios of the tour in sessions of their own, and the examples that the page offers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import httpx

from interlock.discovery import load_agent
from interlock.server.examples import run_demo
from tests.server.serving import serving


async def test_the_demo_leaves_the_last_question_for_a_person(tmp_path: Path):
    async with serving(tmp_path, agents=[load_agent("puntini")]) as running:
        await run_demo(running.server)
        client = running.client()
        sessions = (await client.get("/api/sessions")).json()["sessions"]
        assert [(one["agent"], one["session"], one["status"]) for one in sessions] == [("puntini", "demo-1", "waiting")]
        (waiting,) = (await client.get("/api/waiting")).json()["turns"]
        assert waiting["waiting"]["options"] == ["yes, run it", "no"]
        turns = (await client.get("/api/sessions/puntini/demo-1/turns")).json()["turns"]
        # One question on the way was answered as the scenario says.
        assert [turn["answer"]["text"] for turn in turns if turn["answer"] is not None] == ["the task"]


async def test_examples_are_those_of_the_callers_roles(tmp_path: Path):
    async with serving(tmp_path, agents=[load_agent("gateway"), load_agent("sam")]) as running:
        local = (await running.client().get("/api/agents/gateway")).json()["examples"]
        assert {one["role"] for one in local} == {"admin", "user"}
        user = running.client(await running.key("bob", roles=("user",)))
        found = (await user.get("/api/agents/gateway")).json()
        assert {one["role"] for one in found["examples"]} == {"user"}
        assert found["graphs"][0]["name"] == "gateway.user"
        listed = (await user.get("/api/agents")).json()["agents"]
        assert all(one["examples"] == [] for one in listed)


async def test_the_command_runs_the_demo_and_deletes_it(tmp_path: Path):
    command = [str(Path(sys.executable).with_name("interlock")), "serve", "--demo", "--port", "0", "--agent", "sam"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("INTERLOCK_TURN_URL", None)
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        address = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip().rpartition(" ")[2]
        assert (await process.stderr.readline()).decode() == f"The studio is at {address}/\n"
        async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
            assert "Interlock studio" in (await client.get("/")).text
            for _ in range(600):
                if (await client.get("/api/turns", params={"status": "success"})).json()["turns"]:
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError("the demo ran no turn within a minute")
        assert [path.name.startswith("interlock-demo-") for path in tmp_path.iterdir()].count(True) == 1  # noqa: ASYNC240 - a small folder
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    assert not any(path.name.startswith("interlock-demo-") for path in tmp_path.iterdir())  # noqa: ASYNC240 - likewise
