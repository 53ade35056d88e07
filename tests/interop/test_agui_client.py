"""AG-UI's own client, as it is, talks to all five agents on a real port. It verifies the order of the events itself (`verifyEvents`)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from interlock.discovery import load_agent
from interlock.settings import EngineName
from tests.server.serving import serving
from tests.server.teller import agent as teller
from tests.support.npm import NODE, npm_packages
from tests.support.parcels import agent as parcels

PACKAGES = ("@ag-ui/client@1.0.0", "@ag-ui/core@1.0.0")
FIVE = ("sam", "desk", "analyst", "gateway", "puntini")
SAYS = {
    "sam": "Good morning",
    "desk": "laptops",
    "analyst": "12,322,384.95",
    "gateway/admin": "credentials.env",
    "gateway/user": "getting-started.md",
    "puntini": "Ada",
}


def outcome(run: dict[str, Any]) -> dict[str, Any]:
    assert run["failed"] is None
    assert run["events"][-1]["type"] == "RUN_FINISHED"
    return run["events"][-1]["outcome"]


def kinds(run: dict[str, Any]) -> set[str]:
    return {event["type"] for event in run["events"]}


def said(run: dict[str, Any]) -> str:
    assert run["messages"][-1]["role"] == "assistant"
    return run["messages"][-1]["content"]


def check_replies(seen: dict[str, Any]):
    assert seen["replies"].keys() == SAYS.keys()
    for name, run in seen["replies"].items():
        assert outcome(run) == {"type": "success"}, name
        assert SAYS[name] in said(run)
        assert {"RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "STATE_SNAPSHOT", "STATE_DELTA"} <= kinds(run), name
        started = [event["stepName"] for event in run["events"] if event["type"] == "STEP_STARTED"]
        assert sorted(started) == sorted(event["stepName"] for event in run["events"] if event["type"] == "STEP_FINISHED")
        # The client applied the patches; the last snapshot only confirms what it has.
        changed = {patch["path"][1:] for event in run["events"] if event["type"] == "STATE_DELTA" for patch in event["delta"]}
        assert changed <= run["state"].keys(), name
        called = [event["toolCallId"] for event in run["events"] if event["type"] == "TOOL_CALL_START"]
        assert called == [message["toolCallId"] for message in run["messages"] if message["role"] == "tool"], name
    assert sum(event["type"] == "TEXT_MESSAGE_CONTENT" for event in seen["replies"]["sam"]["events"]) > 3
    assert "TOOL_CALL_RESULT" in kinds(seen["replies"]["analyst"])


def check_patches(seen: dict[str, Any]):
    for name, run in seen["replies"].items():
        snapshots = [event["snapshot"] for event in run["events"] if event["type"] == "STATE_SNAPSHOT"]
        state = dict(snapshots[0])
        for event in run["events"]:
            for patch in event["delta"] if event["type"] == "STATE_DELTA" else ():
                state[patch["path"][1:]] = patch["value"]
        assert state == {field: value for field, value in snapshots[-1].items() if field in state}, name


def check_interrupts(seen: dict[str, Any]):
    first, second, asked, answered = seen["conversation"]
    assert (outcome(first), outcome(second)) == ({"type": "success"}, {"type": "success"})
    (interrupt,) = outcome(asked)["interrupts"]
    assert asked["pending"] == [interrupt]
    assert interrupt["responseSchema"] == {"type": "string", "enum": ["Person Design", "Task Design"]}
    assert "TEXT_MESSAGE_START" not in kinds(asked)
    assert "pending interrupt" in seen["ignored"]["failed"]["message"]
    assert outcome(answered) == {"type": "success"}
    assert "Task Design" in said(answered)
    assert answered["events"][1] == {"type": "STATE_SNAPSHOT", "snapshot": asked["state"]}
    assert "Nothing was changed" in said(seen["abandoned"])
    assert "Task Design" in said(seen["answered"])


def check_errors(seen: dict[str, Any]):
    assert seen["failed"]["events"][-1] == {"type": "RUN_ERROR", "message": "The model went away.", "code": "model_unavailable"}
    assert seen["unknown"]["failed"]["status"] == 404
    assert seen["stale"]["failed"]["status"] == 409
    assert outcome(seen["asked"])["type"] == "interrupt"
    assert outcome(seen["cancelled"]) == {"type": "cancelled"}


async def test_every_agent_speaks_to_the_client_and_can_be_answered_by_it(tmp_path: Path, engine: EngineName):
    # One test, because it starts the server with all agents, and Node.
    folder = await asyncio.to_thread(npm_packages, "ag-ui-client-1.0.0", *PACKAGES)
    program = Path(__file__).with_name("agui_client.mjs")
    agents = [*map(load_agent, FIVE), parcels, teller]
    async with serving(tmp_path, agents=agents, engine=engine) as running:
        key = await running.key("client", roles=("admin", "user"))
        process = await asyncio.create_subprocess_exec(
            NODE, program, folder, running.process.address, key, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), 120)
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0, err.decode()
    seen = json.loads(out)
    for check in (check_replies, check_patches, check_interrupts, check_errors):
        check(seen)
