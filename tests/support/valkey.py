"""Servers of Redis's protocol for tests: the real one, other processes that have one, and one that misbehaves as it is told."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from ssl import SSLContext
from typing import Any, Self, cast

import hiredis
import redis

from interlock.stores.valkey import EmbeddedValkey

__all__ = ["Other", "Served", "known", "misbehave", "running", "serve", "until"]

PROGRAM = Path(__file__).parents[1] / "stores" / "serving.py"


def until(so: Callable[[], object]) -> None:
    """Wait until something is so; fail when it is not so after ten seconds."""
    deadline = time.monotonic() + 10
    while not so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)


def known(pid: int) -> bool:
    """Tell whether there is such a process, also one that has ended and that nobody has taken note of."""
    return Path(f"/proc/{pid}").exists()


def running(pid: int) -> bool:
    """Tell whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


class Served:
    """A server of our own, its address, and a client behind the back of what is tested."""

    def __init__(self, valkey: EmbeddedValkey) -> None:
        self.valkey = valkey
        self.folder = valkey.folder
        self.socket = asyncio.run(valkey.address())
        self.url = f"unix://{self.socket}"
        self.client: Any = redis.Redis(unix_socket_path=self.socket)

    @property
    def pid(self) -> int:
        return cast("int", self.client.info("server")["process_id"])


@contextmanager
def serve() -> Generator[Served, None, None]:
    """Run a server. Its folder is not one of pytest's: those have names that are too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="store-") as place:
        served = Served(EmbeddedValkey(Path(place)))
        try:
            yield served
        finally:
            served.client.close()
            asyncio.run(served.valkey.aclose())


class Other:
    """Another process that runs the server of a folder, or shares it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def hear(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def ask(self, what: str) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self.hear()

    def end(self) -> int:
        """End it in the usual way."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(10)

    def kill(self) -> None:
        """End it in the worst way."""
        self._process.kill()
        self._process.wait(10)


Answer = Callable[[list[bytes]], bytes | None]


@asynccontextmanager
async def misbehave(answer: Answer, *, tls: SSLContext | None = None) -> AsyncGenerator[tuple[str, list[list[bytes]]], None]:
    """Serve whoever connects with what an answer makes of each command; None closes the connection, b"" says nothing."""
    asked: list[list[bytes]] = []
    serving: set[asyncio.Task[None]] = set()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands = hiredis.Reader()
        try:
            while piece := await reader.read(65536):
                commands.feed(piece)
                while command := commands.gets():
                    asked.append(cast("list[bytes]", command))
                    said = answer(asked[-1])
                    if said is None:
                        return
                    writer.write(said)
                    await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(serve_one(reader, writer)))

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    async with listening:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}", asked
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
    await asyncio.sleep(0)  # so that what was aborted is closed
