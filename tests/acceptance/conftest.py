from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import Commands
from tests.support.person import Person

SCRIPT = Path(sys.executable).with_name("interlock")


@pytest.fixture(scope="session")
def script() -> str:
    """Where the command is that users call."""
    assert SCRIPT.exists()
    return str(SCRIPT)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment with nothing in it but an empty home and the engine that starts fastest."""
    return {"INTERLOCK_ENGINE": "direct", "HOME": str(tmp_path / "home")}


@pytest.fixture
def interlock(
    script: str, commands: Commands, environment: dict[str, str], tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in an empty directory. No traceback is ever an answer."""

    def run(
        *arguments: str | bytes, stdin: bytes = b"", env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        around = environment | dict(env or {})
        if options or any(name.startswith(("LC_", "LANG", "PYTHON")) and name != "PYTHONPATH" for name in around):
            ran = subprocess.run(
                [script, *arguments], input=stdin, capture_output=True, check=False, cwd=tmp_path, env=around, timeout=120, **options
            )
        else:
            ran = commands.run(arguments, given=stdin, cwd=tmp_path, env=around, timeout=120)
        stdout, stderr = ran.stdout.decode(), ran.stderr.decode()
        assert "Traceback" not in stderr, stderr
        return subprocess.CompletedProcess(ran.args, ran.returncode, stdout, stderr)

    return run


@pytest.fixture
def sit_down(script: str, environment: dict[str, str], tmp_path: Path) -> Generator[Callable[..., Person]]:
    """Let somebody begin a command at a terminal of their own."""
    people: list[tuple[int, subprocess.Popen[bytes]]] = []

    def begin(*arguments: str, columns: int = 100, **env: str) -> Person:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = subprocess.Popen(
            [script, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=tmp_path,
            env=environment | {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"} | env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - so that Ctrl-C is a signal
        )
        os.close(theirs)
        people.append((ours, process))
        return Person(ours, process)

    yield begin
    for terminal, process in people:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(terminal)
