"""The programs that `server.py` measures, each a process of its own: Interlock's server, a worker, and what they are compared with."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import uvicorn
from sam_by_hand import by_hand_sam
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from interlock import END, Agent, Capability, Graph, Interlock, Outcome, Reply, Untrusted, node
from interlock.capabilities.capability import asks, emits
from interlock.capabilities.model import Chunk
from interlock.discovery import load_agent
from interlock.providers.provider import Context, Provider
from interlock.server.app import create_app
from interlock.server.process import ServerProcess
from interlock.settings import Settings
from interlock_agents.sam.backends import StubBackend

CHUNKS = 200


class Ticker(Capability, Protocol):
    @asks
    @emits("chat_model")
    def tick(self, text: str) -> AsyncIterator[Chunk]: ...


class ClockTicker:
    """Says what time it is, a hundred times a second. The clock is the same in all processes of the machine."""

    async def tick(self, text: str) -> AsyncIterator[Chunk]:  # noqa: ARG002 - the capability has it
        for _ in range(CHUNKS):
            await asyncio.sleep(0.01)
            yield Chunk(text=f"{time.monotonic_ns()} ")


def _open(_: Context) -> Ticker:
    return ClockTicker()


@dataclass
class State:
    text: Annotated[str, Untrusted]
    ticks: Annotated[int, Untrusted] = 0


class Ticked(Outcome):
    ticks: Annotated[int, Untrusted]


async def tick(text: str, *, ticker: Ticker) -> Ticked:
    """Say what time it is."""
    return Ticked(ticks=len([chunk async for chunk in ticker.tick(text)]))


clock = Graph("clock", state=State, entry=tick, takes=("text",), gives="ticks", nodes=[node(tick, goes={Ticked: END})])
agent = Agent(
    name="clock",
    summary="Says what time it is.",
    graphs=(clock,),
    entries={None: clock},
    reply=lambda state: Reply(output=state["ticks"]),
    has_sessions=True,
    providers=(Provider(capabilities=(Ticker,), open=_open),),
)


async def step() -> None:
    """Do nothing, as a node may."""


async def nine_awaits(request: Request) -> JSONResponse:
    given: dict[str, Any] = await request.json()
    for _ in range(9):
        await step()
    return JSONResponse({"text": given["input"]["raw_input"]})


def by_hand() -> Starlette:
    turn = by_hand_sam(StubBackend())

    async def wait(request: Request) -> JSONResponse:
        given: dict[str, Any] = await request.json()
        response = await turn(given["input"]["raw_input"])
        return JSONResponse({"response": str(response)})

    return Starlette(routes=[Route("/runs/wait", wait, methods=["POST"])])


async def main(kind: str, folder: Path) -> None:
    agents = (load_agent("sam"), agent)
    settings = Settings.isolated(data_dir=folder, engine="direct", model="stub", server_queue=10**6)
    if kind in {"bare", "hand"}:
        app = Starlette(routes=[Route("/runs/wait", nine_awaits, methods=["POST"])]) if kind == "bare" else by_hand()
        config = uvicorn.Config(app, port=0, log_level="error", access_log=False)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        print(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
        await serving
        return
    async with Interlock(settings) as app:
        if kind == "worker":
            await app.work(agents, concurrency=4, on_ready=lambda: print("ready", flush=True))
            return
        process = ServerProcess(create_app(app, agents=agents, concurrency=0 if kind == "front" else 4), host="127.0.0.1", port=0)
        process.on_ready = lambda: print(process.address, flush=True)
        await process.serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
