from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.valkey import Served, serve


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return where a server may keep its data. pytest's own directories have names that are too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="store-") as place:
        yield Path(place) / "sessions"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Run one server for all tests of a module."""
    with serve() as server:
        yield server


@pytest.fixture
def own() -> Iterator[Served]:
    """Run a server for one test, which may do to it what it likes."""
    with serve() as server:
        yield server


@pytest.fixture
def session_id() -> str:
    """Return the id of a session that nobody has."""
    return os.urandom(8).hex()
