from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.capabilities.model import Tool
from interlock.capabilities.tools import ToolRequest, ToolResult
from interlock.errors import (
    CapabilityError,
    CapabilityTimeout,
    ModelTimeout,
    QueryDenied,
    QueryTimeout,
    SessionBusy,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
    ToolDenied,
    ToolError,
    ToolInputInvalid,
    ToolTimeout,
    ToolUnavailable,
)
from interlock.tools.failure import ToolFailure
from interlock.tools.functions import FunctionTool
from interlock.tools.mcp import McpServer
from interlock.tools.runner import BACKOFF_S, RETRIES, OneTool, Tools
from tests.support.shop import open_tools

PLAIN = [sys.executable, "-S", str(Path(__file__).parent / "plain_server.py")]


class Flaky:
    """A tool that fails in a few ways, one after the other, and then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self._errors = list(errors)
        self.asked = list[float]()
        self.tool = Tool(name="it", description="It fails.", parameters={"type": "object"})

    async def run(self, args: dict[str, Any]) -> str:
        self.asked.append(time.monotonic())
        if self._errors:
            raise self._errors.pop(0)
        return "here"


async def run(tool: OneTool, **options: Any) -> ToolResult:
    given: dict[str, Any] = {"backoff_s": 0, **options}
    tools = Tools([tool], allowed={"sales": ("it",)}, **given)
    return await tools.run("sales", ToolRequest(tool="it", args={}))


# What is tried again


@pytest.mark.parametrize("kind", [ToolUnavailable, StoreUnavailable, StoreFull, SessionBusy])
async def test_transient_errors_are_retried(kind: type[CapabilityError]):
    tool = Flaky(kind(), kind())
    assert await run(tool) == ToolResult(tool="it", result="here")
    assert len(tool.asked) == 3


@pytest.mark.parametrize(
    "error",
    [
        ToolTimeout(),
        QueryTimeout(),
        CapabilityTimeout(),
        ModelTimeout(),
        ToolError(),
        ToolInputInvalid(),
        ToolDenied(),
        QueryDenied(),
        StoreCorrupt(),
        ToolFailure("no"),
        KeyError("no"),
        TimeoutError(),
        ConnectionError(),  # of a tool that is no function: what it has done is not known
        SystemExit(1),
    ],
    ids=repr,
)
async def test_permanent_errors_and_timeouts_are_not_retried(error: BaseException):
    tool = Flaky(error)
    result = await run(tool)
    assert len(tool.asked) == 1
    assert result.error is not None
    assert "tried" not in result.error


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_connection_error_of_a_function_is_retried(is_async: bool):  # noqa: FBT001 - pytest passes it
    left = [ConnectionResetError("hunter2"), ConnectionRefusedError("hunter2")]

    def call() -> str:
        """Call."""
        if left:
            raise left.pop()
        return "reached"

    async def call_too() -> str:
        """Call."""
        return call()

    assert (await run(FunctionTool("it", call_too if is_async else call))).result == "reached"
    assert left == []


async def test_the_error_has_the_number_of_attempts():
    tool = Flaky(*(ToolUnavailable("The warehouse sleeps.") for _ in range(9)))
    result = await run(tool)
    assert result == ToolResult(tool="it", error="The warehouse sleeps. It was tried 3 times.", code="tool_unavailable")
    assert len(tool.asked) == 3
    mixed = await run(Flaky(ToolUnavailable("The warehouse sleeps."), QueryDenied("Only one SELECT.")))
    assert (mixed.error, mixed.code) == ("Only one SELECT. It was tried 2 times.", "query_denied")
    failed = await run(Flaky(ToolUnavailable("The warehouse sleeps."), KeyError("x")))
    assert (failed.error, failed.code) == ("'it' failed: KeyError. It was tried 2 times.", "tool_failed")


async def test_the_number_of_attempts_is_kept_when_the_error_is_cut():
    result = await run(Flaky(*(ToolUnavailable("x" * 10_000) for _ in range(9))))
    assert str(result.error).endswith(" [cut] It was tried 3 times.")


@given(st.integers(-2, 6), st.integers(0, 8))
@settings(max_examples=40, deadline=None)
def test_the_number_of_retries_is_limited(retries: int, failures: int):
    tool = Flaky(*(ToolUnavailable() for _ in range(failures)))
    result = asyncio.run(run(tool, retries=retries))
    assert len(tool.asked) == min(failures, max(retries, 0)) + 1
    assert (result.error is None) == (failures <= max(retries, 0))


async def test_tools_are_retried_by_default(tmp_path: Path):
    asked = list[int]()

    def call() -> str:
        """Call."""
        asked.append(1)
        raise ToolUnavailable

    lists = {"sales": ("it",)}
    result = await open_tools(tmp_path, functions={"it": call}, allowed=lists).run("sales", ToolRequest(tool="it", args={}))
    assert len(asked) == RETRIES + 1 == 3
    assert "It was tried 3 times." in str(result.error)
    await open_tools(tmp_path, functions={"it": call}, allowed=lists, retries=0).run("sales", ToolRequest(tool="it", args={}))
    assert len(asked) == 4


async def test_a_failed_attempt_is_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, "interlock"):
        await run(Flaky(ToolUnavailable()))
    assert caplog.messages == ["Tool 'it' failed and will be retried in 0 seconds."]


# How long it takes


async def test_the_pause_doubles_with_each_retry():
    tool = Flaky(*(ToolUnavailable() for _ in range(3)))
    assert (await run(tool, retries=3, backoff_s=0.02)).result == "here"
    pauses = [after - before for before, after in zip(tool.asked, tool.asked[1:], strict=False)]
    assert all(pause >= least * 0.99 for pause, least in zip(pauses, (0.02, 0.04, 0.08), strict=True))
    assert BACKOFF_S == 0.1


async def test_no_retry_starts_after_the_deadline():
    tool = Flaky(ToolUnavailable("The warehouse sleeps."))
    began = time.monotonic()
    result = await run(tool, timeout_s=30, backoff_s=31)
    assert (result.error, result.code) == ("The warehouse sleeps.", "tool_unavailable")
    assert time.monotonic() - began < 10


async def test_all_attempts_share_one_timeout():
    async def hang_then() -> str:
        """Be away first, then hang."""
        asked.append(1)
        if len(asked) == 1:
            raise ToolUnavailable
        await asyncio.Event().wait()
        return ""

    asked = list[int]()
    result = await run(FunctionTool("it", hang_then), timeout_s=0.1)
    assert result == ToolResult(tool="it", error="'it' took longer than 0.1 seconds. It was tried 2 times.", code="tool_timeout")

    async def be_away() -> str:
        """Be away."""
        raise ToolUnavailable

    began = time.monotonic()
    many = await run(FunctionTool("it", be_away), retries=1_000_000, timeout_s=0.1)
    assert time.monotonic() - began < 10
    assert many.code in ("tool_unavailable", "tool_timeout")


async def test_cancellation_during_a_pause_ends_at_once():
    tool = Flaky(ToolUnavailable())
    asking = asyncio.create_task(run(tool, backoff_s=5))
    while not tool.asked:  # noqa: ASYNC110 - it has no way to tell
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(tool.asked) == 1


async def test_a_retry_does_not_delay_other_tools():
    away, here = Flaky(ToolUnavailable()), Flaky()
    here.tool = Tool(name="other", description="It answers.", parameters={"type": "object"})
    tools = Tools([away, here], allowed={"sales": ("it", "other")}, backoff_s=5)
    waiting = asyncio.create_task(tools.run("sales", ToolRequest(tool="it", args={})))
    assert (await tools.run("sales", ToolRequest(tool="other", args={}))).result == "here"
    assert not waiting.done()
    waiting.cancel()


# Servers


class Away:
    """A server that is never reached, and while it is looked for, its user may leave."""

    def __init__(self) -> None:
        self.asked = 0
        self.user: Tools | None = None

    async def tools(self) -> Mapping[str, OneTool]:
        self.asked += 1
        if self.user is not None:
            await self.user.aclose()
        raise ToolUnavailable("MCP server 'shop' cannot be reached.")

    async def aclose(self) -> None:
        pass


async def test_a_retry_does_not_reopen_closed_servers():
    server = Away()
    tools = Tools([], allowed={"sales": ("shop.*",)}, servers={"shop": server}, backoff_s=0)
    assert "3 times" in str((await tools.run("sales", ToolRequest(tool="shop.it", args={}))).error)
    server.asked, server.user = 0, tools
    result = await tools.run("sales", ToolRequest(tool="shop.it", args={}))
    assert (server.asked, result.error) == (1, "MCP server 'shop' cannot be reached.")


def shop(settings: dict[str, Any]) -> Tools:
    return Tools([], allowed={"sales": ("shop.*",)}, servers={"shop": McpServer.configured("shop", settings)}, timeout_s=30, backoff_s=0.05)


async def test_an_unreachable_server_is_retried(tmp_path: Path):
    # Ends at once the first time, and serves the second.
    script = (
        f"import os, sys\nnote = {str(tmp_path / 'note')!r}\n"
        "if not os.path.exists(note): open(note, 'w'); sys.exit()\nos.execv(sys.argv[1], sys.argv[1:])"
    )
    tools = shop({"command": [sys.executable, "-S", "-c", script, *PLAIN]})
    try:
        result = await tools.run("sales", ToolRequest(tool="shop.pid", args={}))
        assert result.error is None
        assert str(result.result).isdigit()
    finally:
        await tools.aclose()


async def test_an_unreachable_server_has_its_error_code():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    tools = shop({"url": f"http://127.0.0.1:{port}/mcp"})
    result = await tools.run("sales", ToolRequest(tool="shop.pid", args={}))
    assert (result.error, result.code) == (
        "MCP server 'shop' cannot be reached: ConnectError. It was tried 3 times.",
        "tool_unavailable",
    )
    await tools.aclose()


async def test_a_call_that_may_have_reached_the_server_is_not_retried(tmp_path: Path):
    # Notes every call that reaches it, and dies in it.
    note = tmp_path / "calls"
    script = (
        "import runpy, sys, os\n"
        f"os_exit = os._exit\ndef die(code): open({str(note)!r}, 'a').write('call\\n'); os_exit(code)\n"
        "os._exit = die\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    )
    tools = shop({"command": [sys.executable, "-S", "-c", script, PLAIN[-1]]})
    try:
        result = await tools.run("sales", ToolRequest(tool="shop.die", args={}))
    finally:
        await tools.aclose()
    assert (result.error, result.code) == ("MCP server 'shop' closed the connection during the call.", "tool_failed")
    assert note.read_text() == "call\n"
