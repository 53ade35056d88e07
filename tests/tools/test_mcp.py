from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from interlock.capabilities.tools import ToolRequest
from interlock.errors import ExtraMissing, SettingsInvalid, ToolDenied, ToolTimeout, ToolUnavailable
from interlock.processes import die_with_parent as leash
from interlock.runtime.redaction import REDACTED, Redactor
from interlock.tools import connection, mcp
from interlock.tools.connection import Connection
from interlock.tools.mcp import McpServer, McpSettings, McpTool
from interlock.tools.runner import MAX_RESULT, Tools
from tests.support.shop import open_tools

FOLDER = Path(__file__).parent
SDK = {"command": [sys.executable, str(FOLDER / "mcp_server.py")], "env": {"SHOP_KEY": "given"}, "cwd": str(FOLDER)}
PLAIN = {"command": [sys.executable, "-S", str(FOLDER / "plain_server.py")]}
SECRET = "hunter2"  # noqa: S105 - what no message may show


def shop(settings: dict[str, Any], *, allowed: tuple[str, ...] = ("shop.*",), timeout_s: float = 30, **options: Any) -> Tools:
    server = McpServer.configured("shop", settings)
    return Tools([], allowed={"sales": allowed}, servers={"shop": server}, timeout_s=timeout_s, backoff_s=0, **options)


@asynccontextmanager
async def opened(settings: dict[str, Any], **options: Any) -> AsyncGenerator[Tools, None]:
    tools = shop(settings, **options)
    try:
        yield tools
    finally:
        await tools.aclose()


async def ask(tools: Tools, tool: str, **args: Any) -> Any:
    result = await tools.run("sales", ToolRequest(tool=f"shop.{tool}", args=args))
    assert result.error is None, result.error
    return result.result


async def fails(tools: Tools, tool: str, code: str = "tool_failed", **args: Any) -> str:
    result = await tools.run("sales", ToolRequest(tool=f"shop.{tool}", args=args))
    assert result.result is None
    assert result.code == code
    assert result.error is not None
    assert SECRET not in result.error
    assert "Traceback" not in result.error
    return result.error


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until_dead(pid: int) -> None:
    until = time.monotonic() + 10
    while is_alive(pid):
        assert time.monotonic() < until, "the server outlived whoever started it"
        time.sleep(0.01)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.01)


# A server of the SDK: started once for all that only ask it something

together = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def tools() -> AsyncGenerator[Tools, None]:
    os.environ["INTERLOCK_MODEL_API_KEY"] = SECRET
    async with opened(SDK) as tools:
        yield tools
    del os.environ["INTERLOCK_MODEL_API_KEY"]


@together
async def test_the_tools_of_a_server_are_listed_and_called(tools: Tools):
    offered = {tool.name: tool for tool in await tools.offered("sales")}
    assert offered["shop.add"].description == "Add two numbers."
    assert offered["shop.add"].parameters["required"] == ["a", "b"]
    assert await ask(tools, "add", a=1, b=2) == {"result": 3}


@together
async def test_arguments_are_validated_against_the_schema_of_the_server(tools: Tools):
    assert await fails(tools, "add", "tool_input_invalid", a=1) == "Argument 'b' is missing."
    assert await fails(tools, "add", "tool_input_invalid", a=1, b=SECRET) == "Argument 'b' is invalid: its 'type' must be \"integer\"."
    assert await fails(tools, "add", "tool_input_invalid", a=1, b=1.5)


@together
async def test_a_tool_that_the_server_does_not_have_is_rejected(tools: Tools):
    for tool in ("nothing", "*"):
        with pytest.raises(ToolDenied):
            await ask(tools, tool)


@together
async def test_results_of_every_content_type_are_converted(tools: Tools):
    assert await fails(tools, "refuse") == "'shop.refuse' failed: There are no apples."
    assert await ask(tools, "picture") == "an apple\n[image]"


@together
async def test_large_results_are_cut(tools: Tools):
    cut = await ask(tools, "much", size=MAX_RESULT * 2)
    assert cut["cut"].startswith("The result has 524,302 bytes")
    assert len(cut["text"]) == MAX_RESULT


@together
async def test_a_hanging_call_times_out_and_the_server_keeps_running(tools: Tools, monkeypatch: pytest.MonkeyPatch):
    pid = await ask(tools, "pid")
    with monkeypatch.context() as patch:
        patch.setattr(tools, "_timeout_s", 0.2)
        assert await fails(tools, "hang", "tool_timeout") == "'shop.hang' took longer than 0.2 seconds."
    assert await ask(tools, "pid") == pid


@together
async def test_concurrent_calls_share_one_connection(tools: Tools):
    pids = await asyncio.gather(*(ask(tools, "pid") for _ in range(8)))
    assert all(pid == pids[0] for pid in pids)


@together
async def test_a_new_tool_of_a_server_is_listed_after_a_while(tools: Tools, monkeypatch: pytest.MonkeyPatch):
    await tools.offered("sales")
    await ask(tools, "learn")
    assert "shop.taught" not in [tool.name for tool in await tools.offered("sales")]
    monkeypatch.setattr(connection, "RELIST_S", 0.0)
    assert "shop.taught" in [tool.name for tool in await tools.offered("sales")]
    assert await ask(tools, "taught") == {"result": "apples"}


@together
async def test_a_server_gets_only_its_own_environment(tools: Tools):
    assert await ask(tools, "setting", name="SHOP_KEY") == {"result": "given"}
    assert await ask(tools, "setting", name="INTERLOCK_MODEL_API_KEY") == {"result": ""}
    assert await ask(tools, "where") == {"result": str(FOLDER)}


async def test_output_that_is_not_protocol_goes_to_the_log(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]):
    with caplog.at_level(logging.DEBUG, "interlock"):
        async with opened(SDK) as tools:
            assert await ask(tools, "noise") == {"result": "quiet again"}
        await until(lambda: "shop: a line of the log" in caplog.messages)
    assert capfd.readouterr().err == ""


NOISE = """
import asyncio, sys
from pathlib import Path
from interlock.tools.runner import open_tools
from interlock.capabilities.tools import ToolRequest

async def main():
    tools = open_tools(allowed={"sales": ("shop.*",)}, servers={"shop": {"command": sys.argv[1:]}}, timeout_s=30)
    print((await tools.run("sales", ToolRequest(tool="shop.noise", args={}))).error)
    await tools.aclose()

asyncio.run(main())
"""


def test_output_of_a_server_does_not_reach_the_terminal():
    ended = subprocess.run([sys.executable, "-c", NOISE, *PLAIN["command"]], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "None\n", "")


# How a server lives and dies


async def test_a_server_is_started_at_first_use_and_can_be_restarted():
    async with opened(PLAIN) as tools:
        first = await ask(tools, "pid")
        assert await ask(tools, "pid") == first
        assert is_alive(int(first))
        await tools.aclose()
        assert not is_alive(int(first))
        assert await ask(tools, "pid") != first


async def test_only_listed_tools_of_a_server_can_be_called():
    async with opened(PLAIN, allowed=("shop.pid", "shop.lost")) as tools:
        assert await ask(tools, "pid")
        for tool in ("learn", "*", "nothing"):
            with pytest.raises(ToolDenied):
                await ask(tools, tool)
        with pytest.raises(SettingsInvalid, match=r"'shop.lost' is not a tool: 'shop' has pid"):
            await tools.offered("sales")
        assert await fails(tools, "lost") == "'shop.lost' cannot be run: its server has no such tool."


async def test_a_server_that_dies_during_a_call_is_restarted_for_the_next():
    async with opened(PLAIN) as tools:
        first = await ask(tools, "pid")
        assert await fails(tools, "die") == "MCP server 'shop' closed the connection during the call."
        assert await ask(tools, "pid") != first


def connections(tools: Tools) -> list[Connection]:
    (server,) = tools._servers.values()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert isinstance(server, McpServer)
    return server._connections  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


async def test_a_server_that_died_while_idle_is_restarted():
    async with opened(PLAIN) as tools:
        pid = await ask(tools, "pid")
        os.kill(int(pid), signal.SIGKILL)
        await until(lambda: all(connection.is_ended for connection in connections(tools)))
        assert await ask(tools, "pid") != pid


async def test_an_invalid_reply_is_an_error_and_the_server_keeps_running():
    async with opened(PLAIN) as tools:
        pid = await ask(tools, "pid")
        assert await fails(tools, "lie") == "MCP server 'shop' sent an invalid answer: ValidationError."
        assert await ask(tools, "pid") == pid


async def test_a_cancelled_caller_does_not_stop_the_server(tmp_path: Path):
    async with opened({"command": [*PLAIN["command"], "slow", str(tmp_path / "go")]}) as tools:
        leaving = asyncio.create_task(ask(tools, "pid"))
        pid = await noted(tmp_path / "go.began")
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        (tmp_path / "go").write_text("")
        assert await ask(tools, "pid") == str(pid)


async def noted(note: Path) -> int:
    """Wait until a server has noted its number."""
    await until(lambda: note.exists() and note.read_text() != "")
    return int(await asyncio.to_thread(note.read_text))


async def test_a_slow_start_continues_after_its_caller_timed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with opened({"command": [*PLAIN["command"], "slow", str(tmp_path / "go")]}, timeout_s=0.01) as tools:
        assert await fails(tools, "pid", "tool_timeout") == "'shop.pid' took longer than 0.01 seconds."
        pid = await noted(tmp_path / "go.began")
        (tmp_path / "go").write_text("")
        monkeypatch.setattr(tools, "_timeout_s", 20)
        assert await ask(tools, "pid") == str(pid)


async def test_aclose_does_not_wait_for_a_server_that_never_starts(tmp_path: Path):
    tools = shop({"command": [*PLAIN["command"], "slow", str(tmp_path / "never")]})
    asking = asyncio.create_task(fails(tools, "pid", "tool_unavailable"))
    pid = await noted(tmp_path / "never.began")
    async with asyncio.timeout(15):  # a start may take 30
        await tools.aclose()
    assert "cannot be reached" in await asking
    assert not is_alive(pid)


async def test_a_list_changed_notification_updates_the_tools():
    async with opened(PLAIN) as tools:
        assert "shop.taught" not in [tool.name for tool in await tools.offered("sales")]
        await ask(tools, "learn")
        assert "shop.taught" in [tool.name for tool in await tools.offered("sales")]


async def test_all_pages_of_tools_are_read_up_to_a_limit():
    async with opened({**PLAIN, "env": {"PAGES": "3"}}) as tools:
        assert {"shop.pid", "shop.more1", "shop.more2"} <= {tool.name for tool in await tools.offered("sales")}
    async with opened({**PLAIN, "env": {"PAGES": "1000000"}}) as tools:
        assert len(await tools.offered("sales")) < 2 * connection.MAX_PAGES


def test_each_event_loop_has_its_own_connection():
    tools = shop(PLAIN)
    pids = [int(asyncio.run(ask(tools, "pid"))) for _ in range(3)]
    assert len(set(pids)) == 3
    for pid in pids:
        wait_until_dead(pid)


async def test_aclose_waits_for_connections_of_other_event_loops():
    tools, pids, done = shop(PLAIN), list[int](), threading.Event()

    async def elsewhere() -> None:
        pids.append(int(await ask(tools, "pid")))
        await until(done.is_set)

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    try:
        await until(lambda: bool(pids))
        pids.append(int(await ask(tools, "pid")))
        assert pids[0] != pids[1]
        await tools.aclose()
        assert not any(is_alive(pid) for pid in pids)
    finally:
        done.set()
        thread.join()


KILLED = """
import asyncio, sys
from pathlib import Path
from interlock.tools.runner import open_tools

async def main():
    tools = open_tools(allowed={"sales": ("shop.*",)}, servers={"shop": {"command": sys.argv[1:]}})
    await tools.offered("sales")

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a server has to end when its input does")
async def test_a_server_is_killed_with_its_parent(tmp_path: Path):
    command = [sys.executable, "-c", KILLED, *PLAIN["command"], "stubborn", str(tmp_path / "note")]
    with subprocess.Popen(command) as ours:  # noqa: ASYNC220 - it is waited for below
        pid = await noted(tmp_path / "note")
        assert is_alive(pid)
        ours.kill()
    wait_until_dead(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no leash")
def test_a_server_does_not_start_if_its_parent_is_gone():
    command = [sys.executable, "-I", "-S", leash.__file__, "1", "echo", "started"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the parent has ended" in ended.stderr


# That cannot be started


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"command": ["no-such-command"]}, "'no-such-command' was not found"),
        ({"command": ["./no-such-command"], "cwd": "/"}, "'./no-such-command' was not found"),
        ({"command": [sys.executable, "-c", ""]}, "it ended at once"),
        ({"command": [sys.executable, "-c", ""], "cwd": "/no/such/folder"}, "its folder 'folder' does not exist"),
    ],
)
async def test_a_server_that_cannot_be_started_is_a_typed_error(settings: dict[str, Any], reason: str):
    async with opened(settings) as tools:
        with pytest.raises(ToolUnavailable, match="'shop' cannot be reached") as caught:
            await tools.offered("sales")
        assert reason in str(caught.value)
        assert reason in await fails(tools, "add", "tool_unavailable", a=1, b=2)


async def test_a_silent_server_times_out():
    server = McpServer("shop", McpSettings(command=[sys.executable, "-c", "import sys; sys.stdin.read()"]), start_s=0.3)
    with pytest.raises(ToolTimeout, match=r"did not start within 0\.3 seconds"):
        await server.tools()
    await server.aclose()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "either 'command' or 'url'"),
        ({"command": ["a"], "url": "http://x"}, "either 'command' or 'url'"),
        ({"command": []}, "command"),
        ({"command": "npx server"}, "command"),
        ({"url": "ftp://x"}, "url"),
        ({"command": ["a"], "headers": {"a": "b"}}, "'headers' can only be set with 'url'"),
        ({"url": "http://x", "env": {"a": "b"}}, "'env' and 'cwd' can only be set with 'command'"),
        ({"command": ["a"], "password": SECRET}, "password"),
        ({"command": ["a"], "env": {"KEY": [SECRET]}}, "env"),
    ],
)
def test_invalid_settings_are_named_without_their_values(tmp_path: Path, settings: dict[str, Any], says: str):
    with pytest.raises(SettingsInvalid, match="Server 'shop' cannot be used") as caught:
        open_tools(tmp_path, servers={"shop": settings})
    assert says in str(caught.value)
    assert SECRET not in str(caught.value)


def test_without_the_extra_the_install_command_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def none(name: str) -> None:
        assert name == "mcp"

    monkeypatch.setattr(importlib.util, "find_spec", none)
    with pytest.raises(ExtraMissing, match=r"pip install 'interlock\[mcp\]'"):
        open_tools(tmp_path, servers={"shop": {"command": ["a"]}})


# What a server lists


class Listed:
    """A tool as a server might list it."""

    def __init__(self, name: str, schema: dict[str, Any] | None = None, description: str | None = None) -> None:
        self.name = name
        self.title = self.annotations = None
        self.description = description
        self.input_schema = schema or {"type": "object"}


def taken(*listed: Listed) -> dict[str, McpTool]:
    server: Any = McpServer("shop", McpSettings(command=["x"]))
    return server._usable(list(listed))  # noqa: SLF001


def test_tools_over_the_limits_are_ignored(caplog: pytest.LogCaptureFixture):
    large = {"type": "object", "description": "x" * mcp.MAX_SCHEMA}
    assert list(taken(Listed("a"), Listed("a b"), Listed(""), Listed("\n"), Listed("x" * 200), Listed("large", large), Listed("a"))) == [
        "a"
    ]
    assert "Of the 7 tools of MCP server 'shop', 6 cannot be used." in caplog.messages
    assert len(taken(*(Listed(f"t{n}") for n in range(1000)))) == mcp.MAX_TOOLS
    assert len(taken(Listed("a", description="x" * 10_000))["a"].tool.description) <= 2000


async def held_against(schema: dict[str, Any]) -> str:
    tools = Tools([taken(Listed("it", schema))["it"]], allowed={"sales": ("shop.it",)})
    return str((await tools.run("sales", ToolRequest(tool="shop.it", args={"a": "b"}))).error)


@pytest.mark.parametrize("schema", [{"type": 7}, {"$ref": "#/nowhere"}, {"properties": {"a": {"pattern": "("}}}])
async def test_an_unusable_schema_is_an_error(schema: dict[str, Any]):
    assert "has a schema that cannot be used" in await held_against(schema)


async def test_references_in_a_schema_are_not_fetched():
    with serving() as url:
        assert "has a schema that cannot be used" in await held_against({"$ref": f"{url}/schema"})
    assert Older.asked == []


# Over HTTP


class Older(BaseHTTPRequestHandler):
    """A server of the older protocol, where a session is known only to the server that it began with."""

    sessions: ClassVar[list[str]] = []
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.answer(405 if self.path == "/mcp" else 200, {})

    def do_DELETE(self) -> None:
        self.answer(200, {})

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, session = message["method"], self.headers.get("Mcp-Session-Id")
        to: dict[str, Any] = {"id": message.get("id")}
        if method == "server/discover":
            self.answer(200, {**to, "error": {"code": -32601, "message": "Method not found"}})
        elif method == "initialize":
            version, about = message["params"]["protocolVersion"], {"name": "older", "version": "1"}
            self.sessions.append(f"session-{len(self.asked)}")
            begun: dict[str, Any] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            self.answer(200, {**to, "result": begun}, session=self.sessions[-1])
        elif session not in self.sessions:
            self.answer(404, {**to, "error": {"code": -32600, "message": "Session not found"}})
        elif method == "tools/list":
            self.answer(200, {**to, "result": {"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]}})
        elif method == "tools/call" and (said := message["params"]["arguments"].get("complain")):
            self.answer(200, {**to, "error": {"code": -32603, "message": said}})
        elif method == "tools/call" and (said := message["params"]["arguments"].get("refuse")):
            self.answer(200, {**to, "result": {"isError": True, "content": [{"type": "text", "text": said}]}})
        elif method == "tools/call":
            self.answer(200, {**to, "result": {"content": [{"type": "text", "text": str(session)}]}})
        else:
            self.answer(202, {})

    def answer(self, status: int, data: dict[str, Any], *, session: str | None = None) -> None:
        body = json.dumps({"jsonrpc": "2.0", **data}).encode() if data else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if session is not None:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own signature
        self.asked.append(format % args)


@contextmanager
def serving() -> Generator[str, None, None]:
    Older.sessions.clear()
    Older.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Older) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


async def test_an_expired_session_is_replaced():
    with serving() as url:
        async with opened({"url": f"{url}/mcp"}) as tools:
            first = await ask(tools, "pid")
            assert await ask(tools, "pid") == first
            Older.sessions.clear()
            assert "'shop.pid' failed" in await fails(tools, "pid")
            assert await ask(tools, "pid") != first


@pytest.mark.parametrize("how", ["complain", "refuse"])
async def test_secrets_in_results_of_a_server_are_redacted_before_cutting(how: str):
    key = f"sk-{'k' * 40}"
    with serving() as url:
        async with opened({"url": f"{url}/mcp"}, redact=Redactor(["sk-[a-z]{16,}"]).data) as tools:
            for length in (0, 970, 990, 1970):
                error = await fails(tools, "pid", **{how: f"{'.' * length}{key}"})
                assert "sk-k" not in error
            assert REDACTED in error
            assert "[cut]" in await fails(tools, "pid", **{how: "x" * 10_000})


@contextmanager
def over_http(port: int = 0) -> Generator[int, None, None]:
    with subprocess.Popen([*SDK["command"], "http", str(port)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def at(port: int) -> dict[str, Any]:
    return {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}}


async def test_a_server_over_http_is_reached_again_after_a_restart():
    with over_http() as port:
        tools = shop(at(port))
        assert await ask(tools, "add", a=1, b=2) == {"result": 3}
        assert await fails(tools, "refuse") == "'shop.refuse' failed: There are no apples."
        assert await fails(tools, "add", "tool_input_invalid", a=1) == "Argument 'b' is missing."
    assert await fails(tools, "add", a=1, b=2) == "MCP server 'shop' closed the connection during the call."
    assert "cannot be reached" in await fails(tools, "add", "tool_unavailable", a=1, b=2)
    assert "shop.add" in [tool.name for tool in await tools.offered("sales")]  # as it was last listed
    with over_http(port):
        assert await ask(tools, "add", a=1, b=2) == {"result": 3}
        await tools.aclose()


async def test_an_unreachable_http_server_is_a_typed_error():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    async with opened(at(port)) as tools:
        with pytest.raises(ToolUnavailable, match="cannot be reached: ConnectError") as caught:
            await tools.offered("sales")
        assert SECRET not in str(caught.value)


async def test_a_hanging_http_server_times_out():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with opened(at(listening.getsockname()[1]), timeout_s=0.3) as tools:
            assert await fails(tools, "add", "tool_timeout", a=1, b=2) == "'shop.add' took longer than 0.3 seconds."
