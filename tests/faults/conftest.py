from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.faults.processes import Place
from tests.support.arcadedb import shared_server
from tests.support.postgres import PostgresServer
from tests.support.puntini import fresh
from tests.support.temporal import temporal_server
from tests.support.valkey import Served, serve


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Temporal server."""
    with temporal_server(tmp_path_factory.mktemp("temporal")) as address:
        yield address


@pytest.fixture(scope="session")
def valkey() -> Generator[Served]:
    """A server for the sessions of desk."""
    with serve() as served:
        yield served


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """One SQLite file, or one PostgreSQL database, for all processes of a test."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.database(request.getfixturevalue("database"))
        return Place(tmp_path, {"turn_url": url, "checkpoint_url": url})
    place = Place(tmp_path, {"turn_url": f"sqlite:{tmp_path}/turns.db", "checkpoint_url": f"sqlite:{tmp_path}/checkpoints.db"})
    if request.param == "temporal":
        place.settings.update(dispatcher="temporal", temporal_url=request.getfixturevalue("temporal"))
    return place


@pytest.fixture
def full_place(place: Place, valkey: Served) -> Place:
    """A place with the servers that desk and puntini share."""
    graphs = shared_server()
    database = fresh("bolt")
    place.settings.update(
        session_url=valkey.url, graph_url=graphs.url, graph_user=graphs.user, graph_password=graphs.password, graph_database=database
    )
    valkey.client.flushall()
    return place
