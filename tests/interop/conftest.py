from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.langgraph_server import Server, langgraph_dev
from tests.support.temporal import temporal_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """LangGraph's server with the graphs of `langgraph.json`."""
    with langgraph_dev(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Temporal server."""
    with temporal_server(tmp_path_factory.mktemp("temporal")) as address:
        yield address
