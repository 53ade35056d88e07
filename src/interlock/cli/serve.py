"""interlock serve: agents behind HTTP."""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.screen import print_error, print_line, safe
from interlock.cli.target import EngineOption, GrantsOption, ModelOption, find, open_app
from interlock.errors import ServerExposed
from interlock.extras import require

if TYPE_CHECKING:
    from interlock.app import Interlock
    from interlock.server.app import Server
    from interlock.server.process import ServerProcess

__all__ = ["serve"]

_LOOK_S = 0.5
"""How often files are looked at for changes."""


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on. Without API keys it must be of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8123,
    agents: Annotated[
        list[str] | None, typer.Option("--agent", help="An agent to serve, by name or as MODULE:NAME; may be given several times.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=0, help="How many turns to run at a time; 0 where workers run them.")] = 4,
    demo: Annotated[
        bool, typer.Option("--demo", help="Run example turns, and keep everything in a temporary folder that is deleted at the end.")
    ] = False,
    reload: Annotated[bool, typer.Option("--reload", help="Start again when a Python file below the current folder changes.")] = False,
    model: ModelOption = None,
    engine: EngineOption = None,
    grants: GrantsOption = None,
) -> None:
    """Serve agents over HTTP until it is stopped. On SIGTERM, turns under way are given back to other processes."""
    for module in ("starlette", "uvicorn"):
        require(module, extra="server", what="The server")
    # On Ctrl-C, an event loop cancels what it runs, and a server that is cancelled while it starts logs a traceback. So nothing slow
    # is imported in the loop.
    for module in ("app", "examples", "process"):
        importlib.import_module(f"interlock.server.{module}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interlock-demo-"))) if demo else None
        app = open_app(grants, model=model, engine=engine, data_dir=folder)
        is_changed = asyncio.run(_serve(app, agents, host=host, port=port, concurrency=concurrency, reload=reload, demo=demo))
    if is_changed:
        print_error("A file has changed: the server starts again.")
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very command


async def _serve(app: Interlock, agents: list[str] | None, *, host: str, port: int, concurrency: int, reload: bool, demo: bool) -> bool:
    """Serve until a signal; return whether a file has changed."""
    from interlock.server.app import create_app  # noqa: PLC0415 - an extra
    from interlock.server.examples import run_demo  # noqa: PLC0415 - an extra
    from interlock.server.process import ServerProcess  # noqa: PLC0415 - an extra

    async with app:
        chosen = None if agents is None else [find(name) for name in agents]
        application = create_app(app, agents=chosen, concurrency=concurrency, hosts=() if _is_wildcard(host) else (host,))
        server: Server = application.state.server
        is_open = await server.auth.is_open()
        if is_open and not _is_loopback(host):
            raise ServerExposed(
                f"There are no API keys, so the server listens on this machine only and not on '{host}'."
                " Fix: add a key by 'interlock keys add NAME', or leave '--host' out."
            )
        process = ServerProcess(application, host=host, port=port)
        beside: list[asyncio.Task[None]] = []

        def on_ready() -> None:
            _introduce(server, process.address, is_open=is_open)
            if demo:
                beside.append(asyncio.create_task(run_demo(server)))

        process.on_ready = on_ready
        if reload:
            beside.append(asyncio.create_task(_until_changed(process)))
        try:
            # A pending Ctrl-C ends it here.
            await asyncio.sleep(0)
            await process.serve()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        return process.is_changed


def _introduce(server: Server, address: str, *, is_open: bool) -> None:
    names = ", ".join(server.agents)
    print_line(f"Interlock serves {safe(names)} at {address}")
    print_error(f"The studio is at {address}/")
    if is_open:
        print_error("There are no API keys: every program on this machine may call. 'interlock keys add NAME' creates one.")
    else:
        print_error("Callers need an API key: 'interlock keys list' lists them.")
    # The shortest name: an agent that takes text, where the five that come with Interlock are served.
    first = min(server.agents, key=len, default="AGENT")
    key = "" if is_open else " -H 'Authorization: Bearer KEY'"
    body = f'{{"agent": "{first}", "input": "hello"}}'
    print_error(f"Try: curl{key} '{address}/api/turns?wait=10' -d '{body}'")
    print_error(f"The API is described at {address}/openapi.json")
    if not server.concurrency:
        print_error("No turns are run here: start 'interlock worker'.")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_wildcard(host: str) -> bool:
    return host in {"0.0.0.0", "::", "[::]", ""}  # noqa: S104 - compared, not bound


async def _until_changed(process: ServerProcess) -> None:
    """Stop the server when a Python file below the current folder changes."""
    before = _modified()
    while not process.is_changed:
        await asyncio.sleep(_LOOK_S)
        if _modified() != before:
            process.stop(is_changed=True)


def _modified() -> dict[Path, float]:
    found: dict[Path, float] = {}
    for folder, folders, files in os.walk("."):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in {"node_modules", "__pycache__"}]
        for name in files:
            if name.endswith(".py"):
                path = Path(folder) / name
                found[path] = path.stat().st_mtime if path.exists() else 0.0
    return found
