"""A real server on a port of this machine, with agents whose effects are counted outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx

from interlock import END, Agent, Graph, Interlock, Outcome, Reply, Untrusted, node
from interlock.discovery import load_agent
from interlock.server.app import Server, create_app
from interlock.server.process import ServerProcess
from interlock.settings import Settings
from interlock.stores.keys import create_key
from tests.support.parcels import agent as parcels

__all__ = ["AGENTS", "Running", "frames", "notes", "read_frames", "serving"]


@dataclass
class Notes:
    text: Annotated[str, Untrusted]
    notes: Annotated[tuple[str, ...], Untrusted] = ()


class Noted(Outcome):
    notes: Annotated[tuple[str, ...], Untrusted]


async def admin_note(text: str, notes: tuple[str, ...]) -> Noted:
    """Keep a note."""
    return Noted(notes=(*notes, text))


async def user_note(text: str, notes: tuple[str, ...]) -> Noted:
    """Keep a note."""
    return Noted(notes=(*notes, text))


admin_notes = Graph(
    "notes.admin", state=Notes, entry=admin_note, nodes=[node(admin_note, goes={Noted: END})], takes=("text",), gives="notes", max_steps=2
)
user_notes = Graph(
    "notes.user", state=Notes, entry=user_note, nodes=[node(user_note, goes={Noted: END})], takes=("text",), gives="notes", max_steps=2
)
notes = Agent(
    name="notes",
    summary="Keeps what it is told, for each side apart.",
    graphs=(admin_notes, user_notes),
    entries={"admin": admin_notes, "user": user_notes},
    reply=lambda state: Reply(output=list(state["notes"])),
    has_sessions=True,
    persists=("notes",),
)
AGENTS = (parcels, notes, load_agent("sam"))


@dataclass
class Running:
    """A server that runs, and clients of it."""

    process: ServerProcess
    server: Server
    app: Interlock
    clients: list[httpx.AsyncClient] = field(default_factory=list[httpx.AsyncClient])

    def client(self, key: str | None = None, **headers: str) -> httpx.AsyncClient:
        given = headers | ({} if key is None else {"authorization": f"Bearer {key}"})
        made = httpx.AsyncClient(base_url=self.process.address, headers=given, timeout=30, trust_env=False)
        self.clients.append(made)
        return made

    async def key(self, name: str, **given: Any) -> str:
        """Add a key that is valid at once."""
        text, key = create_key(name, **given)
        await self.server.keys.add(key)
        self.server.auth.forget()
        return text


@asynccontextmanager
async def serving(
    folder: Path, *, agents: Iterable[Agent] = AGENTS, concurrency: int = 4, port: int = 0, **settings: Any
) -> AsyncGenerator[Running]:
    """Serve agents whose data is in a folder."""
    async with Interlock(Settings.isolated(**{"data_dir": folder, "engine": "direct", **settings})) as app:
        application = create_app(app, agents=agents, concurrency=concurrency)
        process = ServerProcess(application, host="127.0.0.1", port=port)
        ready = asyncio.Event()
        process.on_ready = ready.set
        task = asyncio.create_task(process.serve())
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        running = Running(process, application.state.server, app)
        try:
            yield running
        finally:
            for client in running.clients:
                await client.aclose()
            waiting.cancel()
            process.stop()
            await task


async def read_frames(response: httpx.Response) -> AsyncGenerator[dict[str, Any]]:
    """Yield the server-sent events of a response that have data."""
    current: dict[str, Any] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            continue
        name, _, value = line.partition(": ")
        if not line and "data" in current:
            yield current
            current = {}
        elif line:
            current[name] = json.loads(value) if name == "data" else value


async def frames(response: httpx.Response, *, until: int | None = None) -> list[dict[str, Any]]:
    """Return the server-sent events of a response: all of them, or the first ones."""
    found: list[dict[str, Any]] = []
    async for one in read_frames(response):
        found.append(one)
        if until is not None and len(found) >= until:
            break
    return found
