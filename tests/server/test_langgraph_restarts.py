"""LangGraph's client while the server dies: streams resume by themselves, waits are joined again, cancelled runs stay cancelled."""

from __future__ import annotations

import asyncio
import signal
import warnings
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from tests.server.test_serve_command import Command, command, port
from tests.support.parcels import sent

__all__ = ["command", "port"]


async def until_waits(folder: Path, count: int) -> None:
    async with asyncio.timeout(30):
        while sent(folder).count("wait") < count:  # noqa: ASYNC110 - a file of another process
            await asyncio.sleep(0.02)


@pytest.mark.filterwarnings("default:Request failed, attempting reconnect")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_streams_and_waits_outlive_the_server(command: Command, tmp_path: Path, number: signal.Signals):
    await command.start("--concurrency", "8")
    async with get_client(url=command.url) as opened:
        client: Any = opened

        async def stream(text: str) -> list[Any]:
            modes: Any = ["values", "updates", "events"]
            return [part async for part in client.runs.stream(None, "parcels", input={"text": text}, stream_mode=modes)]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            streams = [asyncio.create_task(stream(f"wait 2 {name}")) for name in "abcd"]
            waits = [asyncio.create_task(client.runs.wait(None, "parcels", input={"text": f"wait 2 {name}"})) for name in "ef"]
            await until_waits(tmp_path, 6)
            await command.end(number)
            await command.start("--concurrency", "8")
            async with asyncio.timeout(90):
                streamed, values = await asyncio.gather(*streams), await asyncio.gather(*waits)
    for parts in streamed:
        ids = [tuple(map(int, part.id.split("."))) for part in parts]
        assert ids == sorted(set(ids))
        assert [name for part in parts if part.event == "updates" for name in part.data] == ["start", "pause", "deliver"]
        numbers = [part.data["metadata"]["sequence"] for part in parts if part.event == "events"]
        assert numbers == list(range(1, len(numbers) + 1))
        assert parts[-1].event == "end"
    assert sorted(value["answer"] for value in values) == ["waited after wait 2 e", "waited after wait 2 f"]
    assert sorted(line for line in sent(tmp_path) if "last" in line) == [f"wait 2 {name}: last" for name in "abcdef"]


async def test_a_server_that_stops_cuts_its_streams_instead_of_ending_them(command: Command, tmp_path: Path):
    """A stream that ends cleanly looks like the end of its run: the client would ask for the run, and may find it finished by then."""
    await command.start()
    body = {"assistant_id": "parcels", "input": "wait 30", "stream_mode": "updates"}
    async with httpx.AsyncClient(base_url=command.url, timeout=30, trust_env=False) as client:
        for kind in ("stream", "wait"):
            calling = asyncio.create_task(client.post(f"/runs/{kind}", json=body))
            await until_waits(tmp_path, 1)
            (tmp_path / "sent").unlink()
            await command.end(signal.SIGTERM)
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
                await calling
            await command.start("--concurrency", "0")
            assert (await client.post("/runs/cancel", json={"status": "all"})).status_code == 204
            await command.end(signal.SIGTERM)
            await command.start()


async def test_a_cancelled_run_is_not_run_again_after_its_worker_died(command: Command, tmp_path: Path):
    await command.start()
    async with get_client(url=command.url) as opened:
        client: Any = opened
        thread = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread, "parcels", input={"text": "wait 30"})
        await until_waits(tmp_path, 1)
        await command.end(signal.SIGKILL)
        await command.start("--concurrency", "0")
        await client.runs.cancel(thread, run["run_id"])
        await command.end(signal.SIGTERM)
        await command.start()
        async with asyncio.timeout(30):
            while (await client.runs.get(thread, run["run_id"]))["status"] != "interrupted":  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        values: Any = await client.runs.wait(thread, "parcels", input={"text": "now"})
    assert values["answer"] == "delivered now"
    assert sent(tmp_path) == ["wait 30: first", "wait", "now: first", "now: last"]
