"""The command line without the second that Python needs to import it: every command is a fork of one process that has.

What a command is, it is here too: a process of its own with its own arguments, environment, directory and streams, that ends
as processes do. What a process decides before its first line of Python (locale, buffering) needs a process that is new.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["Commands"]

_HEAVY = (
    "interlock.cli",
    "interlock.engine.langgraph",
    "interlock.models.langchain",
    "interlock_agents.gateway.workers.deep",
    "redis.asyncio",
)
_MOST = 1 << 20


class Commands:
    """Runs commands of `interlock` as forks."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asked = ours
        with theirs:
            self._process = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env={})

    def run(
        self, arguments: Sequence[str | bytes], *, given: bytes, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        with contextlib.ExitStack() as held:
            streams = [held.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            streams[0].write(given)
            streams[0].seek(0)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            held.enter_context(ours)
            command = {"argv": [os.fsdecode(word) for word in arguments], "cwd": str(cwd), "env": dict(env)}
            with theirs:
                told = json.dumps(command).encode()
                socket.send_fds(self._asked, [told], [*(stream.fileno() for stream in streams), theirs.fileno()])
            ours.settimeout(timeout)
            code = int(ours.recv(64) or b"-9")
            for stream in streams:
                stream.seek(0)
            return subprocess.CompletedProcess([*arguments], code, streams[1].read(), streams[2].read())

    def close(self) -> None:
        """End the process that has imported everything."""
        self._asked.close()
        self._process.wait(30)


def _serve(asked: socket.socket) -> None:
    """Fork a command for everyone who asks; returns in each of these, and at the end."""
    while True:
        told, streams, _, _ = socket.recv_fds(asked, _MOST, 4)
        if not told:
            os._exit(0)
        if os.fork() == 0:  # who waits for the command
            asked.close()
            command = os.fork()
            if command == 0:
                _become(json.loads(told), streams)
                return
            os.write(streams[3], str(os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])).encode())
            os._exit(0)
        for stream in streams:
            os.close(stream)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _become(command: dict[str, object], streams: Sequence[int]) -> None:
    """Make this process the one that was asked for."""
    for number, stream in enumerate(streams[:3]):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115 - they are the process's own
        for number, mode, errors in ((0, "r", "surrogateescape"), (1, "w", "strict"), (2, "w", "backslashreplace"))
    )
    os.environ.clear()
    os.environ.update(command["env"])  # pyright: ignore[reportArgumentType, reportCallIssue] - as it was sent
    os.chdir(str(command["cwd"]))
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = ["interlock", *command["argv"]]  # pyright: ignore[reportGeneralTypeIssues] - likewise


def _main() -> NoReturn:
    for name in _HEAVY:
        __import__(name)
    from interlock.cli import main  # noqa: PLC0415 - in this process only
    from interlock.discovery import AGENTS, load_agent  # noqa: PLC0415 - likewise

    for name in AGENTS:
        load_agent(name)
    sys.path.pop(0)  # where this file is
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    atexit._run_exitfuncs()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - all of the end that can be seen from outside; to free the memory takes longer than most commands
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    _main()
