from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.processes import Place
from tests.support.postgres import PostgresServer


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """One SQLite file, or one PostgreSQL database, for all processes of a test."""
    if request.param == "sqlite":
        return Place(tmp_path, f"sqlite:{tmp_path}/turns.db", f"sqlite:{tmp_path}/checkpoints.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.database(request.getfixturevalue("database"))
    return Place(tmp_path, url, url)
