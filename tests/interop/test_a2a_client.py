"""The A2A project's own client, as it is, finds all five agents by their cards and talks to them on a real port."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from interlock.discovery import load_agent
from tests.server.serving import serving
from tests.support.interop import environment
from tests.support.parcels import agent as parcels

SAYS = {
    "sam": "Good morning",
    "desk": "laptops",
    "analyst": "12,322,384.95",
    "gateway/admin": "credentials.env",
    "gateway/user": "getting-started.md",
    "puntini": "Ada",
}
FIVE = ("sam", "desk", "analyst", "gateway", "puntini")


def text_of(results: list[dict[str, Any]]) -> str:
    """Return the reply as the artifact whose chunks came."""
    text = ""
    for result in results:
        chunks = [result["artifactUpdate"]] if "artifactUpdate" in result else []
        for chunk in chunks:
            added = chunk["artifact"]["parts"][0].get("text", "")
            text = text + added if chunk.get("append") else added
        for artifact in result.get("task", {}).get("artifacts", ()):
            text = artifact["parts"][0]["text"]
    return text


def state_of(results: list[dict[str, Any]]) -> str:
    last = results[-1]["statusUpdate"] if "statusUpdate" in results[-1] else results[-1]["task"]
    return last["status"]["state"].removeprefix("TASK_STATE_").lower()


def check_replies(seen: dict[str, Any], address: str):
    assert seen["first"] == seen["replies"]["sam"]["card"]
    assert seen["replies"].keys() == SAYS.keys()
    for name, reply in seen["replies"].items():
        card, stream, whole = reply["card"], reply["stream"], reply["whole"]
        assert card["supportedInterfaces"] == [{"url": f"{address}/a2a/{name}", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}], (
            name
        )
        assert card["capabilities"]["streaming"] is True
        assert card["securitySchemes"].keys() == {"bearer", "key"}
        assert [skill["id"] for skill in card["skills"]] == [name]
        assert "task" in stream[0], name
        assert (state_of(stream), state_of(whole), len(whole)) == ("completed", "completed", 1), name
        assert SAYS[name] in text_of(stream), name
        assert SAYS[name] in text_of(whole), name
    assert sum("artifactUpdate" in one for one in seen["replies"]["sam"]["stream"]) > 3


def check_conversation(heard: list[list[dict[str, Any]]]):
    assert [state_of(results) for results in heard] == ["completed", "completed", "input_required", "completed"]
    asked = heard[2][-1]["statusUpdate"]["status"]["message"]
    assert asked["parts"][0]["text"].endswith("1. Person Design\n2. Task Design")
    assert asked["parts"][1]["data"]["options"] == ["Person Design", "Task Design"]
    first = [results[0]["task"] for results in heard]
    assert {task["contextId"] for task in first} == {"talk"}
    assert len({task["id"] for task in first}) == 3
    assert "Task Design" in text_of(heard[3])


def check_tasks(seen: dict[str, Any]):
    assert seen["begun"]["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
    assert "task" in seen["followed"][0]
    assert state_of(seen["followed"]) == "canceled"
    assert seen["cancelled"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert seen["got"] == seen["cancelled"]
    assert seen["failures"] == [
        "TaskNotCancelableError",
        "TaskNotFoundError",
        "UnsupportedOperationError",
        "InvalidParamsError",
        "UnsupportedOperationError",
    ]


async def test_every_agent_is_found_by_its_card_and_speaks_to_the_client(tmp_path: Path):
    python = (await asyncio.to_thread(environment, "a2a")) / "python"
    async with serving(tmp_path, agents=[*map(load_agent, FIVE), parcels]) as running:
        key = await running.key("client", roles=("admin", "user"))
        address = running.process.address
        process = await asyncio.create_subprocess_exec(
            python, Path(__file__).with_name("a2a_talk.py"), address, key, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            out, error = await asyncio.wait_for(process.communicate(), 120)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, error.decode()
    seen = json.loads(out)
    check_replies(seen, address)
    check_conversation(seen["conversation"])
    check_tasks(seen["tasks"])
