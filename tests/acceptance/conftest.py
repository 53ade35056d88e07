from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(sys.executable).with_name("interlock")


@pytest.fixture(scope="session")
def script() -> str:
    """Where the command is that users call."""
    assert SCRIPT.exists()
    return str(SCRIPT)


@pytest.fixture
def environment() -> dict[str, str]:
    """An environment with nothing in it but the engine that starts fastest."""
    return {"INTERLOCK_ENGINE": "direct"}


@pytest.fixture
def interlock(script: str, environment: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real command in an empty directory. No traceback is ever an answer."""

    def run(
        *arguments: str | bytes, stdin: bytes | None = None, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(
            [script, *arguments],
            input=stdin if stdin is not None else b"",
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=environment | dict(env or {}),
            timeout=120,
            **options,
        )
        stdout, stderr = ran.stdout.decode(), ran.stderr.decode()
        assert "Traceback" not in stderr, stderr
        return subprocess.CompletedProcess(ran.args, ran.returncode, stdout, stderr)

    return run
