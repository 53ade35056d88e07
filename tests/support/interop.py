"""Environments of their own for programs that Interlock is tested with, on top of the one that runs the tests."""

from __future__ import annotations

import fcntl
import hashlib
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

__all__ = ["ROOT", "environment"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "interop"
UNREACHABLE = re.compile(r"error sending request|dns error|failed to fetch|failed to download|could not connect|network", re.IGNORECASE)


def environment(name: str) -> Path:
    """Make the environment of `tests/interop/NAME.txt`, once for all workers and runs, and return its folder of commands."""
    requirements = ROOT / "tests" / "interop" / f"{name}.txt"
    site = sysconfig.get_path("purelib")
    digest = hashlib.sha256(requirements.read_bytes() + f"{sys.version}{site}".encode()).hexdigest()
    folder = FOLDER / name
    ready = folder / ".ready"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.is_file() or ready.read_text() != digest:
            uv = Path(sys.executable).with_name("uv")
            _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder])
            _run([uv, "pip", "install", "--quiet", "--python", folder, "--no-deps", "--require-hashes", "-r", requirements])
            # Interlock and all that it needs come from the environment of the tests.
            own = next(folder.glob("lib/python*/site-packages"))
            (own / "tests.pth").write_text(f"import site; site.addsitedir({site!r})\n")
            ready.write_text(digest)
    return folder / "bin"


def _run(command: list[str | Path]) -> None:
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    if made.returncode and UNREACHABLE.search(made.stderr):
        pytest.skip(f"The environment cannot be installed here: {made.stderr.strip().splitlines()[-1]}")
    assert made.returncode == 0, made.stderr
