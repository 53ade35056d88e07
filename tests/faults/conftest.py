from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.faults.processes import Place, sqlite_settings
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
    """One SQLite file, or one PostgreSQL database, for all processes of a test; with `temporal`, a server that hands out the turns."""
    kind: str = request.param
    if kind.endswith("postgres"):
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.database(request.getfixturevalue("database"))
        place = Place(tmp_path, {"turn_url": url, "checkpoint_url": url})
    else:
        place = Place(tmp_path, sqlite_settings(tmp_path))
    if kind.startswith("temporal"):
        place.settings.update(dispatcher="temporal", temporal_url=request.getfixturevalue("temporal"))
    return place


@pytest.fixture
def shared(valkey: Served) -> dict[str, str]:
    """The settings of the servers that desk and puntini share, with nothing in them."""
    graphs = shared_server()
    valkey.client.flushall()
    found = {"session_url": valkey.url, "graph_url": graphs.url, "graph_user": graphs.user, "graph_password": graphs.password}
    return found | {"graph_database": fresh("bolt")}


@pytest.fixture
def full_place(place: Place, shared: dict[str, str]) -> Place:
    """A place with the servers that desk and puntini share."""
    place.settings.update(shared)
    return place
