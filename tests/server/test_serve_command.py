"""The real command: a server in a process of its own that is killed, stopped and started again while clients follow its turns."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from interlock.errors import KeyUnknown
from interlock.stores.keys import create_key, open_keys
from tests.faults.amounts import STREAMS
from tests.server.serving import read_frames
from tests.support.parcels import sent
from tests.support.postgres import PostgresServer

ROOT = Path(__file__).parents[2]
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
WAIT_S = 5
"""How long each turn of a stream takes: longer than until all of them are under way."""
AGENT = "tests.support.parcels:agent"


class Command:
    """`interlock serve` in a process."""

    def __init__(self, folder: Path, port: int) -> None:
        self._port = port
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            **os.environ,
            "INTERLOCK_DATA_DIR": str(folder),
            "INTERLOCK_ENGINE": "direct",
            "INTERLOCK_TURN_URL": f"sqlite:{folder}/turns.db",
        }
        self.process: asyncio.subprocess.Process | None = None

    async def spawn(self, *arguments: str, cwd: Path = ROOT) -> asyncio.subprocess.Process:
        """Start a command with the same settings."""
        return await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("interlock")), *arguments,
            cwd=cwd, env=self.environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip

    async def start(self, *options: str, agent: str = AGENT, cwd: Path = ROOT) -> str:
        """Start, and return what was printed until it serves."""
        self.process = await self.spawn("serve", "--port", str(self._port), "--agent", agent, *options, cwd=cwd)
        return await self.read_until_served()

    async def read_until_served(self) -> str:
        """Return what is printed until it serves, or ends."""
        assert self.process is not None
        assert self.process.stdout is not None
        printed = ""
        while "openapi.json" not in printed:
            line = await asyncio.wait_for(self.process.stdout.readline(), 60)
            if not line:
                # Popen.send_signal polls the child first, and asyncio's watcher then misses the exit code of one that is ending.
                await self.process.wait()
                break
            printed += line.decode()
        return printed

    async def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 30)


@pytest.fixture
def port() -> int:
    """A port that was free."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
async def command(tmp_path: Path, port: int) -> AsyncGenerator[Command]:
    command = Command(tmp_path, port)
    yield command
    if command.process is not None:
        await command.end(signal.SIGKILL)


async def follow(client: httpx.AsyncClient, turn: str) -> list[dict[str, Any]]:
    """Follow a turn to its end as a browser does: connect again with the id of the last event after every failure."""
    found: list[dict[str, Any]] = []
    deadline = asyncio.get_running_loop().time() + 90
    while asyncio.get_running_loop().time() < deadline:
        headers = {"accept": "text/event-stream"} | ({"last-event-id": found[-1]["id"]} if found else {})
        with contextlib.suppress(httpx.TransportError):
            async with client.stream("GET", f"/api/turns/{turn}/events", headers=headers) as response:
                if response.status_code == 204:
                    return found
                async for one in read_frames(response):
                    if one["event"] == "status":
                        return found
                    found.append(one)
        await asyncio.sleep(0.05)
    raise AssertionError("The turn has not ended.")


async def check_streams(command: Command, folder: Path, interrupt: Callable[[], Awaitable[object]]) -> None:
    """Follow turns while something dies in the middle of all of them: each has a gapless stream, the right answer and its effects once."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=command.url, timeout=60, trust_env=False, limits=limits) as client:
        inputs = [f"wait {WAIT_S} {name}" for name in range(STREAMS)]
        accepted = await asyncio.gather(*(client.post("/api/turns", json={"agent": "parcels", "input": text}) for text in inputs))
        turns = [one.json()["turn"] for one in accepted]
        following = [asyncio.create_task(follow(client, turn)) for turn in turns]
        while sent(folder).count("wait") < STREAMS:  # noqa: ASYNC110 - another process writes the file
            await asyncio.sleep(0.02)
        assert not any(one.done() for one in following), "A turn has ended before all of them were under way."
        await interrupt()
        for turn, text, events in zip(turns, inputs, await asyncio.gather(*following), strict=True):
            assert [one["id"] for one in events] == [f"1.{count}" for count in range(1, len(events) + 1)]
            page = (await client.get(f"/api/turns/{turn}/events")).json()
            assert [one["data"] for one in events] == page["events"]
            assert page["status"] == "success"
            assert (await client.get(f"/api/turns/{turn}")).json()["output"] == f"waited after {text}"
    parcels = [line for line in sent(folder) if line != "wait"]
    assert sorted(parcels) == sorted(f"{text}: {which}" for text in inputs for which in ("first", "last"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_clients_resume_without_gaps_when_the_server_dies_or_stops_in_the_middle_of_their_streams(
    command: Command, tmp_path: Path, number: signal.Signals
):
    async def start_again() -> None:
        assert await command.end(number) == (-signal.SIGKILL if number is signal.SIGKILL else 0)
        await command.start("--concurrency", str(STREAMS))

    await command.start("--concurrency", str(STREAMS))
    await check_streams(command, tmp_path, start_again)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_clients_see_no_gap_when_a_worker_behind_the_server_dies_in_the_middle_of_their_streams(
    command: Command, tmp_path: Path, store: str, request: pytest.FixtureRequest
):
    if store == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.database(request.getfixturevalue("database"))
        command.environment |= {"INTERLOCK_TURN_URL": url, "INTERLOCK_CHECKPOINT_URL": url, "INTERLOCK_ONE_MACHINE": "true"}

    async def start_worker() -> asyncio.subprocess.Process:
        ready = tmp_path / "ready"
        ready.unlink(missing_ok=True)
        worker = await command.spawn("worker", AGENT, "--concurrency", str(STREAMS), "--ready-file", str(ready))
        workers.append(worker)
        async with asyncio.timeout(60):
            while not ready.exists():  # noqa: ASYNC110 - another process creates the file
                await asyncio.sleep(0.02)
        return worker

    workers: list[asyncio.subprocess.Process] = []
    await command.start("--concurrency", "0")
    try:
        first = await start_worker()

        async def kill_worker() -> None:
            first.kill()
            await first.wait()
            await start_worker()

        await check_streams(command, tmp_path, kill_worker)
    finally:
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                worker.kill()
            await worker.wait()


async def test_the_server_starts_again_when_a_file_changes_and_finishes_what_was_under_way(command: Command, tmp_path: Path):
    code = tmp_path / "code"
    code.mkdir()
    module = code / "reloaded.py"

    def write(summary: str) -> None:
        module.write_text(
            "from dataclasses import replace\nfrom tests.support.parcels import agent as parcels\n"
            f"agent = replace(parcels, summary={summary!r})\n"
        )

    write("as it was")
    command.environment["PYTHONPATH"] = str(ROOT)
    await command.start("--reload", agent="reloaded:agent", cwd=code)
    async with httpx.AsyncClient(base_url=command.url, timeout=30, trust_env=False) as client:
        turn = (await client.post("/api/turns", json={"agent": "parcels", "input": "wait 2"})).json()["turn"]
        following = asyncio.create_task(follow(client, turn))
        while "wait" not in sent(tmp_path):  # noqa: ASYNC110 - another process writes the file
            await asyncio.sleep(0.02)
        (before,) = (await client.get("/api/agents")).json()["agents"]
        write("as it is now")
        assert "A file has changed" in await asyncio.wait_for(command.read_until_served(), 60)
        (after,) = (await client.get("/api/agents")).json()["agents"]
        assert (before["summary"], after["summary"]) == ("as it was", "as it is now")
        events = await following
        assert [one["id"] for one in events] == [f"1.{count}" for count in range(1, len(events) + 1)]
        found = (await client.get(f"/api/turns/{turn}")).json()
        assert (found["status"], found["output"]) == ("success", "waited after wait 2")
    assert [line for line in sent(tmp_path) if line != "wait"] == ["wait 2: first", "wait 2: last"]
    assert await command.end(signal.SIGTERM) == 0


async def test_without_keys_only_this_machine_may_be_listened_on_and_the_server_says_so(command: Command):
    printed = await command.start()
    assert "There are no API keys" in printed
    assert ADDRESS.search(printed)
    assert await command.end(signal.SIGTERM) == 0
    refused = await command.start("--host", "0.0.0.0")  # noqa: S104 - what is refused
    assert "server_exposed" in refused
    assert await command.end(signal.SIGTERM) == 2


async def test_a_port_that_is_taken_is_an_error_with_a_code(command: Command, port: int):
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        assert "address_taken" in await command.start()
        assert await command.end(signal.SIGTERM) == 2


async def test_keys_are_added_listed_and_revoked_at_the_command_line(command: Command, tmp_path: Path):
    async def keys(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("interlock")), "keys", *arguments,
            env={**os.environ, "INTERLOCK_DATA_DIR": str(tmp_path), "INTERLOCK_TURN_URL": f"sqlite:{tmp_path}/turns.db"},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        return (await process.communicate())[0].decode().strip()

    key = await keys("add", "eve", "--tenant", "one", "--role", "user", "--turns-a-minute", "5")
    listed = await keys("list")
    assert key not in listed
    id_ = listed.split("\t")[0]
    assert listed.split("\t")[1:4] == ["eve", "one", "user"]
    assert (tmp_path / "keys.db").stat().st_mode & 0o077 == 0
    await command.start("--host", "127.0.0.1")
    async with httpx.AsyncClient(base_url=command.url, timeout=30, trust_env=False, headers={"x-api-key": key}) as client:
        assert (await client.get("/api/me")).json() == {"name": "eve", "tenant": "one", "roles": ["user"], "is_local": False}
        assert "revoked" in await keys("revoke", id_)
        deadline = asyncio.get_running_loop().time() + 20
        while (await client.get("/api/me")).status_code != 401:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.1)


async def test_keys_are_kept_in_postgresql_beside_the_turns(postgres: PostgresServer, database: str, tmp_path: Path):
    stores = [open_keys(postgres.database(database), tmp_path) for _ in range(2)]
    created = [create_key(f"k{number}", tenant="one", roles=("user",), body_bytes=5)[1] for number in range(4)]
    await asyncio.gather(*(stores[number % 2].add(key) for number, key in enumerate(created)))
    assert sorted(await stores[0].all(), key=lambda key: key.name) == created
    await stores[1].revoke(created[0].id)
    assert [key.is_revoked for key in sorted(await stores[0].all(), key=lambda key: key.name)] == [True, False, False, False]
    with pytest.raises(KeyUnknown):
        await stores[0].revoke("none")
    for store in stores:
        await store.aclose()
