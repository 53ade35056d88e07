from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.langgraph_server import Server, langgraph_dev


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """LangGraph's server with the graphs of `langgraph.json`."""
    with langgraph_dev(tmp_path_factory.mktemp("server")) as server:
        yield server
