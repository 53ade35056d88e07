"""A child process that answers one request at a time, each within a time limit, and is killed when it does not answer.

A process can have hard limits, can be killed, gets no environment variables but those it needs, and does not crash its
parent. It runs `child_main`. The code that starts it defines its requests and the meaning of its failures.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock.processes import child_main

__all__ = ["Child"]

_START_S = 30.0  # how long a process may take to start on a busy machine
_GONE_S = 0.5  # how long a process may take to end after it has closed the socket
_CLOSE_S = 10.0
_RECEIVE_BYTES = 1 << 16
_NO_LIMIT = 2**40
_NEEDED = ("LD_LIBRARY_PATH", "SYSTEMROOT")  # the interpreter needs them, if they are set


class Child:
    """A process that answers one request at a time. Callers must not send requests concurrently.

    An answer is a JSON object. One with the key `failed` is a failure: `late` means that the process did not answer in time,
    `gone` that it has died, and other values come from the process. It is killed after `late` and `gone`, and also when a
    caller is cancelled, because the unread answer would be taken for the next one. `hello` is the answer that the process
    sends when it has started.
    """

    def __init__(
        self,
        program: str,
        file: Path,
        given: Mapping[str, Any],
        *,
        needs: str,
        keeps: tuple[str, ...] = _NEEDED,
        sets: Mapping[str, str] | None = None,
        within: float = _START_S,
        most: int = _NO_LIMIT,
    ) -> None:
        """Start a program on a file and wait for its `hello`. A program is a module that imports only the package that it `needs`.

        `given` is sent over the socket and not on the command connection, which other users can see. The process gets the environment
        variables whose names start with one of `keeps`, and those in `sets`. No answer may have more bytes than `most`.
        """
        self._most = most
        self._owner = os.getpid()
        self._socket, child_socket = socket.socketpair()
        found = importlib.util.find_spec(needs)
        folders = [str(Path(found.origin).parent.parent)] if found is not None and found.origin else []
        with child_socket:
            self._process = subprocess.Popen(  # noqa: S603 - a program of ours
                [sys.executable, "-I", child_main.__file__, program, str(file)],
                stdin=child_socket.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name.startswith(keeps)} | dict(sets or {}),
                start_new_session=True,  # Ctrl-C must not reach it
            )
        weakref.finalize(self, _end, self._process, self._socket, self._owner)
        self.pid = self._process.pid
        self.hello = self.ask({**given, "folders": folders, "root": _root(program)}, within=within)
        if "failed" in self.hello:
            self.kill()

    def is_ours(self) -> bool:
        """Return whether it can answer: it is running, and this process started it and is not a fork of that one."""
        return self._owner == os.getpid() and self._socket.fileno() >= 0 and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while it is running."""
        return self._process.returncode

    def ask(self, request: Any, *, within: float) -> dict[str, Any]:
        """Send a request and block until the answer arrives."""
        connection, until = self._socket, time.monotonic() + within
        answer = bytearray()
        try:
            connection.settimeout(within)
            connection.sendall(_encoded(request))
            while not answer.endswith(b"\n"):
                connection.settimeout(max(0.001, until - time.monotonic()))
                self._append(connection.recv(_RECEIVE_BYTES), answer)
        except OSError as error:
            return self._failed(error)
        except BaseException:
            self.kill()
            raise
        return json.loads(answer)

    async def asked(self, request: Any, *, within: float) -> dict[str, Any]:
        """Send a request and await the answer on the event loop, without a thread, which would take longer than the request."""
        connection, loop = self._socket, asyncio.get_running_loop()
        answer = bytearray()
        try:
            connection.setblocking(False)
            async with asyncio.timeout(within):
                await loop.sock_sendall(connection, _encoded(request))
                while not answer.endswith(b"\n"):
                    self._append(await loop.sock_recv(connection, _RECEIVE_BYTES), answer)
        except OSError as error:
            return self._failed(error)
        except BaseException:
            self.kill()
            raise
        return json.loads(answer)

    def close(self) -> None:
        """Let it close its files and exit. It is killed if it does not exit in time."""
        if self.is_ours():
            with suppress(OSError, subprocess.TimeoutExpired):
                self._socket.settimeout(_CLOSE_S)
                self._socket.sendall(_encoded(None))
                self._process.wait(_CLOSE_S)
        self.kill()

    def kill(self) -> None:
        """Kill it now."""
        _end(self._process, self._socket, self._owner)

    def _append(self, chunk: bytes, answer: bytearray) -> None:
        answer += chunk
        if not chunk:
            raise ConnectionError("the process closed the socket")
        if len(answer) > self._most:
            self.kill()
            raise ConnectionError("the answer exceeds the size limit")

    def _failed(self, error: OSError) -> dict[str, Any]:
        late = isinstance(error, TimeoutError)
        if not late:
            with suppress(subprocess.TimeoutExpired):  # to get its exit code if it ended by itself
                self._process.wait(_GONE_S)
        self.kill()
        return {"failed": "late" if late else "gone"}


def _encoded(request: Any) -> bytes:
    return json.dumps(request).encode() + b"\n"


def _end(process: subprocess.Popen[bytes], connection: socket.socket, owner: int) -> None:
    if owner == os.getpid():  # before the socket is closed: a process that notices the close could still change its file
        process.kill()
        process.wait()
    connection.close()


def _root(program: str) -> str:
    """Return the folder that contains the outermost package of a module."""
    outermost = importlib.util.find_spec(program.partition(".")[0])
    origin = None if outermost is None else outermost.origin
    return "" if origin is None else str(Path(origin).parent.parent)
