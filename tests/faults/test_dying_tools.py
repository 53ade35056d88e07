"""A worker that is killed in a tool call: the call is repeated if the tool may be, and otherwise a person has to look."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from interlock import TurnResult
from interlock.capabilities import Effect
from interlock.engine import EngineName
from tests.faults.dying_tools import AGENT, TURN, open_app


async def killed_and_resumed(
    folder: Path, engine: EngineName, tool: str, *, at_first: tuple[Effect, ...] = (), then: Effect | None = None
) -> tuple[TurnResult, list[str]]:
    """Let a process be killed in a call of a tool, and resume its turn. Returns the result and the calls that were made."""
    command = [sys.executable, "-m", "tests.faults.dying_tools", str(folder), engine, tool, *at_first]
    process = await asyncio.create_subprocess_exec(*command)
    async with asyncio.timeout(60):
        assert await process.wait() == -signal.SIGKILL
    async with open_app(folder, engine, {} if then is None else {tool: then}) as app:
        result = await app.run(AGENT, {"text": tool}, session="s", turn=TURN)
    return result, (folder / "calls.txt").read_text(encoding="utf-8").splitlines()


async def test_a_call_of_a_tool_that_only_asks_is_made_again(engine: EngineName, tmp_path: Path):
    result, calls = await killed_and_resumed(tmp_path, engine, "read")
    assert (result.status, result.output, len(calls)) == ("success", "one pear", 2)


async def test_a_call_of_a_keyed_tool_is_made_again_with_the_same_key(tmp_path: Path):
    result, calls = await killed_and_resumed(tmp_path, "direct", "write")
    assert (result.status, result.output, len(calls)) == ("success", "one pear", 2)
    assert calls[0] == calls[1]
    assert TURN in calls[0]


async def test_a_call_of_any_other_tool_is_not_made_again(engine: EngineName, tmp_path: Path):
    result, calls = await killed_and_resumed(tmp_path, engine, "pay")
    assert (result.error and result.error.code, len(calls)) == ("effect_unknown", 1)


@pytest.mark.parametrize(("tool", "effect", "code", "count"), [("pay", "asks", None, 2), ("read", "once", "effect_unknown", 1)])
async def test_what_the_settings_say_of_a_tool_wins(tool: str, effect: Effect, code: str | None, count: int, tmp_path: Path):
    result, calls = await killed_and_resumed(tmp_path, "direct", tool, at_first=(effect,), then=effect)
    assert (result.error and result.error.code, len(calls)) == (code, count)


async def test_a_call_that_was_begun_as_one_that_must_not_be_repeated_stays_one(tmp_path: Path):
    result, calls = await killed_and_resumed(tmp_path, "direct", "pay", then="asks")
    assert (result.error and result.error.code, len(calls)) == ("effect_unknown", 1)
