"""OpenAI's client, as it is, talks to all five agents: version 3 of the tests' environment, and version 2 in an environment of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.discovery import load_agent
from tests.server.serving import serving
from tests.support.interop import environment

SAYS = {
    "sam": "Good morning",
    "desk": "headphones",
    "analyst": "12,322,384.95",
    "gateway/admin": "credentials.env",
    "gateway/user": "getting-started.md",
    "puntini": "Ada",
}
AGENTS = ("sam", "desk", "analyst", "gateway", "puntini")


async def talk(python: Path, folder: Path) -> dict[str, Any]:
    async with serving(folder, agents=[load_agent(name) for name in AGENTS]) as running:
        script = Path(__file__).with_name("openai_talk.py")
        process = await asyncio.create_subprocess_exec(
            python, script, running.process.address, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            out, error = await asyncio.wait_for(process.communicate(), 240)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        assert process.returncode == 0, error.decode()
    return json.loads(out)


@pytest.mark.parametrize("version", ["2", "3"])
async def test_every_agent_is_a_model_of_openais_client(tmp_path: Path, version: str):
    python = environment("openai2") / "python" if version == "2" else Path(sys.executable)
    heard = await talk(python, tmp_path)
    assert heard["version"].startswith(f"{version}.")
    assert heard["models"] == list(SAYS)
    for model, replies in heard["replies"].items():
        assert SAYS[model] in replies[0]
        # An agent that has learned by the first message may word the others otherwise; the stream is the same as the whole.
        assert all(SAYS[model] in reply for reply in replies), (model, replies)
    assert heard["failures"] == [["NotFoundError", "agent_unknown"], ["UnprocessableEntityError", "input_empty"]]
    for said in (heard["conversation"], heard["responses"]):
        assert said[2].endswith("1. Person Design\n2. Task Design")
        # The agent goes on with the goal by itself, and the reply has what it did.
        assert "Changed Task Design (priority: 3)" in said[3]
        assert "the last goal is done" in said[4]
