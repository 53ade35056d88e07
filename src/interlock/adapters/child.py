"""A program of ours in a process of its own: asked one thing after another, each in bounded time, and killed when it does not answer.

A process can be given hard limits, can be killed, sees nothing of the environment, and takes nobody down with it. What runs in it is
`child_side`; what it is asked, and what its failures mean, is for whoever starts it to say.
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

from interlock.adapters import child_side

__all__ = ["Child"]

_START_S = 30.0  # how long a process may take to begin, on a machine that is busy
_GONE_S = 0.5  # for a process that has hung up to end by itself
_CLOSE_S = 10.0
_PIECE = 1 << 16
_ANY = 2**40
_NEEDED = ("LD_LIBRARY_PATH", "SYSTEMROOT")  # by the interpreter itself, where they are set


class Child:
    """A process that answers one request after another. Whoever uses it takes turns.

    An answer is an object; one that has `failed` in it is a failure, and `late` and `gone` are those that come from here: the process did
    not answer in time, or has died. It is killed then. So it is when a caller stops waiting, since nobody would take the answer away.
    `hello` is what the process said by itself when it had begun.
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
        most: int = _ANY,
    ) -> None:
        """Start a program, a module that imports nothing of ours and the package that it needs, on a file, and hear what it says.

        What it is `given` is not on its command line, which others can see. Of the environment it gets the variables that begin with
        what it `keeps`, and those that it `sets`. No answer may have more bytes than `most`.
        """
        self._most = most
        self._owner = os.getpid()
        self._line, theirs = socket.socketpair()
        found = importlib.util.find_spec(needs)
        folders = [str(Path(found.origin).parent.parent)] if found is not None and found.origin else []
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - a program of ours
                [sys.executable, "-I", child_side.__file__, program, str(file)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name.startswith(keeps)} | dict(sets or {}),
                start_new_session=True,  # Ctrl-C is for us
            )
        weakref.finalize(self, _end, self._process, self._line, self._owner)
        self.pid = self._process.pid
        self.hello = self.ask({**given, "folders": folders}, within=within)
        if "failed" in self.hello:
            self.kill()

    def is_ours(self) -> bool:
        """Tell whether it can be asked: it lives, and it is not that of the process that this one was forked from."""
        return self._owner == os.getpid() and self._line.fileno() >= 0 and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """How it ended, if it has ended."""
        return self._process.returncode

    def ask(self, request: Any, *, within: float) -> dict[str, Any]:
        """Ask it something and wait for the answer, in a thread that may wait."""
        line, until = self._line, time.monotonic() + within
        heard = bytearray()
        try:
            line.settimeout(within)
            line.sendall(_written(request))
            while not heard.endswith(b"\n"):
                line.settimeout(max(0.001, until - time.monotonic()))
                self._take(line.recv(_PIECE), heard)
        except OSError as error:
            return self._failed(error)
        except BaseException:
            self.kill()
            raise
        return json.loads(heard)

    async def asked(self, request: Any, *, within: float) -> dict[str, Any]:
        """Ask it something and wait for the answer, in an event loop: without a thread, which would take longer than the way there."""
        line, loop = self._line, asyncio.get_running_loop()
        heard = bytearray()
        try:
            line.setblocking(False)
            async with asyncio.timeout(within):
                await loop.sock_sendall(line, _written(request))
                while not heard.endswith(b"\n"):
                    self._take(await loop.sock_recv(line, _PIECE), heard)
        except OSError as error:
            return self._failed(error)
        except BaseException:
            self.kill()
            raise
        return json.loads(heard)

    def close(self) -> None:
        """Let it close what it has open and end; one that does not in time is killed."""
        if self.is_ours():
            with suppress(OSError, subprocess.TimeoutExpired):
                self._line.settimeout(_CLOSE_S)
                self._line.sendall(_written(None))
                self._process.wait(_CLOSE_S)
        self.kill()

    def kill(self) -> None:
        """End it now."""
        _end(self._process, self._line, self._owner)

    def _take(self, piece: bytes, heard: bytearray) -> None:
        heard += piece
        if not piece:
            raise ConnectionError("it has hung up")
        if len(heard) > self._most:
            self.kill()
            raise ConnectionError("it says more than it may")

    def _failed(self, error: OSError) -> dict[str, Any]:
        late = isinstance(error, TimeoutError)
        if not late:
            with suppress(subprocess.TimeoutExpired):  # to learn how it came to its end, if that was by itself
                self._process.wait(_GONE_S)
        self.kill()
        return {"failed": "late" if late else "gone"}


def _written(request: Any) -> bytes:
    return json.dumps(request).encode() + b"\n"


def _end(process: subprocess.Popen[bytes], line: socket.socket, owner: int) -> None:
    if owner == os.getpid():  # before the line is closed: a process that hears of that could still do something to its file
        process.kill()
        process.wait()
    line.close()
