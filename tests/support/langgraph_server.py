"""LangGraph's own development server."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.interop import ROOT, environment

STARTS_WITHIN_S = 120


def surroundings(data: Path) -> dict[str, str]:
    """Return the environment variables of a server that traces nothing and keeps its data in a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "LANG", "PYTHON"))}
    return kept | {
        "INTERLOCK_DATA_DIR": str(data),
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "N_JOBS_PER_WORKER": "4",
        "PYTHONUNBUFFERED": "1",
    }


class Server:
    """A server that runs."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self._log = log

    @property
    def log(self) -> str:
        return re.sub(r"\x1b\[[0-9;]*m", "", self._log.read_text(errors="replace"))


@contextmanager
def langgraph_dev(folder: Path, **more: str) -> Generator[Server]:
    """Start `langgraph dev` with the project's own `langgraph.json`; it keeps what it writes in a folder."""
    commands = environment("langgraph")
    (folder / "langgraph.json").write_bytes((ROOT / "langgraph.json").read_bytes())
    (folder / "src").symlink_to(ROOT / "src")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "log"
    command = [commands / "langgraph", "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as written:
        process = subprocess.Popen(command, cwd=folder, env=surroundings(folder / "data") | more, stdout=written, stderr=written)
    try:
        server = Server(f"http://127.0.0.1:{port}", log)
        _wait(server, process)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait(server: Server, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until:
        assert process.poll() is None, server.log
        try:
            if httpx.get(f"{server.url}/ok", timeout=5).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)  # until it listens, which it cannot be asked for
    raise AssertionError(server.log)
