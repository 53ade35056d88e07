"""A Bolt server for tests: ArcadeDB from its wheel, Java inside, one for a test process."""

from __future__ import annotations

import atexit
import functools
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

__all__ = ["Served", "serve", "shared_server"]

USER, PASSWORD = "root", "not-a-secret"

# It makes the databases that it is told to over its input, and ends with that, and so with whoever started it.
PROGRAM = """
import socket, sys
import arcadedb_embedded as arcadedb

plugin = "Bolt:com.arcadedb.bolt.BoltProtocolPlugin"

def free():
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return tried.getsockname()[1]

for attempt in range(5):  # a port that was free may be somebody's by the time that it is used
    ports = free(), free()
    config = {"host": "127.0.0.1", "http_port": ports[0], "bolt_port": ports[1], "server_plugins": plugin}
    server = arcadedb.create_server(sys.argv[1], root_password=sys.argv[2], config=config)
    try:
        server.start()
        break
    except Exception:
        if attempt == 4:
            raise
print("ready", ports[1], flush=True)
for line in sys.stdin:
    server.create_database(line.strip())
    print("made", line.strip(), flush=True)
server.stop()
"""


@dataclass
class Served:
    """Where a server is, and how to make a database on it."""

    url: str
    process: subprocess.Popen[str]
    user: str = USER
    password: str = PASSWORD

    def make(self, database: str) -> None:
        """Make a database."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{database}\n")
        self.process.stdin.flush()
        _hear(self.process, "made")


@contextmanager
def serve() -> Generator[Served]:
    """Run a server."""
    with tempfile.TemporaryDirectory(prefix="arcadedb-") as folder, tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-c", PROGRAM, folder, PASSWORD]
        with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process:
            try:
                yield Served(f"bolt://127.0.0.1:{_hear(process, 'ready', log)}", process)
            finally:
                process.kill()


@functools.cache
def shared_server() -> Served:
    """Return the one server of this process, which is started when it is first asked for and ends with the process."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(serve())


def _hear(process: subprocess.Popen[str], word: str, log: IO[str] | None = None) -> str:
    """Return what the server says after a word; what else it says is of no interest."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(f"{word} "):
            return line.split()[1]
    if log is not None:
        log.seek(0)
    raise RuntimeError(f"the Bolt server does not start: {log.read()[-2000:] if log else ''}")
