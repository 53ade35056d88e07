"""LangGraph's own development server, in an environment of its own on top of the one that runs the tests."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tests" / "interop" / "langgraph.txt"
FOLDER = ROOT / "build" / "interop"
UNREACHABLE = re.compile(r"error sending request|dns error|failed to fetch|failed to download|could not connect|network", re.IGNORECASE)
STARTS_WITHIN_S = 120


def environment() -> Path:
    """Make the environment with the server, once for all workers and runs, and return its folder of commands."""
    site = sysconfig.get_path("purelib")
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + f"{sys.version}{site}".encode()).hexdigest()
    folder = FOLDER / "langgraph"
    ready = folder / ".ready"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.is_file() or ready.read_text() != digest:
            uv = Path(sys.executable).with_name("uv")
            _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder])
            _run([uv, "pip", "install", "--quiet", "--python", folder, "--no-deps", "--require-hashes", "-r", REQUIREMENTS])
            # Interlock and all that it needs come from the environment of the tests.
            own = next(folder.glob("lib/python*/site-packages"))
            (own / "tests.pth").write_text(f"import site; site.addsitedir({site!r})\n")
            ready.write_text(digest)
    return folder / "bin"


def _run(command: list[str | Path]) -> None:
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    if made.returncode and UNREACHABLE.search(made.stderr):
        pytest.skip(f"LangGraph's server cannot be installed here: {made.stderr.strip().splitlines()[-1]}")
    assert made.returncode == 0, made.stderr


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
    commands = environment()
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
