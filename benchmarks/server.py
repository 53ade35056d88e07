"""What the server costs beside a bare one and beside LangGraph by hand, and what its streams cost. One process each, raw connections."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from figures import Figure, at_least, at_most, ratio

CLIENTS = 50
REQUESTS = 400
ROUNDS = 5
STREAMS = 1000
BODY = {"assistant_id": "sam", "input": {"raw_input": "hello"}}
_PROGRAM = Path(__file__).with_name("served.py")
_TICK = os.sysconf("SC_CLK_TCK")


class Program:
    """A process that is measured."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self.pid = process.pid
        self._host, self._port = urlsplit(address).hostname, urlsplit(address).port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._host, self._port)

    def cpu(self) -> float:
        """Return the seconds of CPU that the process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def megabytes(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@asynccontextmanager
async def running(kind: str, folder: Path) -> AsyncGenerator[Program]:
    process = await asyncio.create_subprocess_exec(sys.executable, _PROGRAM, kind, folder, stdout=asyncio.subprocess.PIPE)
    try:
        out = cast("asyncio.StreamReader", process.stdout)
        yield Program(process, (await asyncio.wait_for(out.readline(), 60)).decode().strip())
    finally:
        process.kill()
        await process.wait()


def request(method: str, path: str, body: Mapping[str, Any] | None = None, *, accept: str = "*/*") -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: {accept}\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Read one response; return its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 2"):
        raise ValueError(head)
    if b"content-length: " in head:
        return await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
    parts: list[bytes] = []
    while size := int(await reader.readline(), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readline()
    return b"".join(parts)


async def seconds_of(program: Program, path: str, body: Mapping[str, Any], *, requests: int = REQUESTS) -> float:
    """Return how long clients that each send one request after the other take for all of them."""
    sent = request("POST", path, body)

    async def client() -> None:
        reader, writer = await program.connect()
        for _ in range(requests // CLIENTS):
            writer.write(sent)
            await answer(reader)
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return time.perf_counter() - started


async def measure_requests() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        async with running("bare", Path(folder)) as bare, running("hand", Path(folder)) as hand, running("server", Path(folder)) as own:
            stream = {**BODY, "stream_mode": ["values"]}
            took: dict[str, list[float]] = {"bare": [], "hand": [], "own": []}
            cpu: dict[str, list[float]] = {"bare": [], "stream": []}
            for number in range(ROUNDS + 1):
                seconds = {"bare": await seconds_of(bare, "/runs/wait", BODY), "hand": await seconds_of(hand, "/runs/wait", BODY)}
                seconds["own"] = await seconds_of(own, "/runs/wait", BODY)
                before = bare.cpu(), own.cpu()
                await seconds_of(bare, "/runs/wait", BODY, requests=5 * REQUESTS)
                await seconds_of(own, "/runs/stream", stream)
                if number:  # the first one warms up
                    for name, one in seconds.items():
                        took[name].append(one)
                    cpu["bare"].append((bare.cpu() - before[0]) / 5)
                    cpu["stream"].append(own.cpu() - before[1])
    each = Figure("sam by the server, runs/wait, 50 clients", REQUESTS / statistics.median(took["own"]), "a second")
    return [
        each,
        at_least("... of a bare Starlette with nine awaits", ratio(took["bare"], took["own"]), 0.25),
        at_least("... of Starlette with LangGraph by hand", ratio(took["hand"], took["own"]), 3),
        at_most("runs/stream, CPU of the bare server's request", ratio(cpu["stream"], cpu["bare"]), 12),
    ]


async def measure_streams() -> list[Figure]:
    """Open many streams of one session, and run a turn in it: all of them get all of its events."""
    with tempfile.TemporaryDirectory() as folder:
        async with running("front", Path(folder)) as front, running("worker", Path(folder)):
            reader, writer = await front.connect()

            async def submit() -> str:
                writer.write(request("POST", "/api/turns", {"agent": "clock", "input": "now", "session": "s"}))
                return json.loads(await answer(reader))["turn"]

            first = await submit()
            latencies = await _latencies(front, first)
            before = front.megabytes()
            streams = [await front.connect() for _ in range(STREAMS)]
            for _, stream in streams:
                stream.write(request("GET", "/api/sessions/clock/s/events?since=2.0", accept="text/event-stream"))
            await asyncio.gather(*(one.readuntil(b": open\n\n") for one, _ in streams))
            idle = front.megabytes()
            await submit()
            counts = await asyncio.gather(*(_counted(one) for one, _ in streams))
            used = front.megabytes()
            for _, stream in streams:
                stream.close()
    return [
        at_most("an event from worker to client, p50", statistics.median(latencies), 10, "ms"),
        Figure("... p99", statistics.quantiles(latencies, n=100)[98], "ms"),
        Figure(f"{STREAMS:,} open event streams, idle", idle - before, "MB"),
        at_most(f"{STREAMS:,} event streams, while a turn streams to all", used - before, 150, "MB"),
        at_least("... that got every event", sum(count == max(counts) for count in counts), STREAMS, "streams"),
    ]


async def _latencies(front: Program, turn: str) -> list[float]:
    reader, writer = await front.connect()
    writer.write(request("GET", f"/api/turns/{turn}/events", accept="text/event-stream"))
    found: list[float] = []
    while line := await reader.readline():
        arrived = time.monotonic_ns()
        if line.startswith(b"data: ") and b'"on_chat_model_stream"' in line:
            said = json.loads(line[6:])["data"]["chunk"]["text"]
            found.append((arrived - int(said)) / 1e6)
        if line == b"0\r\n":
            break
    writer.close()
    return found


async def _counted(reader: asyncio.StreamReader) -> int:
    """Return how many events a stream has until its turn ends."""
    count = 0
    while line := await reader.readline():
        count += line.startswith(b"data: ")
        if b'"on_chain_end"' in line and b'"parent_ids":[]' in line:
            return count
    return -1


async def measure_server() -> list[Figure]:
    return [*await measure_requests(), *await measure_streams()]


if __name__ == "__main__":
    for figure in asyncio.run(measure_server()):
        print(figure.name, round(figure.value, 2), figure.unit, figure.target, "" if figure.met is None else figure.met)
