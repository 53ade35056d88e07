from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from interlock.engine import ENGINES, EngineName
from tests.support.amount import EXAMPLES
from tests.support.forked import Commands
from tests.support.passing import let_time_pass
from tests.support.postgres import PostgresServer, fresh_database, shared_postgres
from tests.support.spans import Spans, spanned

# An engine's first turn takes longer than the others; whoever has more time than a build tries more.
settings.register_profile("interlock", deadline=None, max_examples=EXAMPLES)
settings.load_profile("interlock")

SHARED = frozenset({"acceptance", "faults", "interop", "docs"})
SHARED_FILES = frozenset(
    {"test_puntini_waiting", "test_puntini_record", "test_analyst_sessions", "test_desk_concurrency", "test_desk_talk"}
)
"""Where tests keep their turns in a file, as users do."""


@pytest.fixture(autouse=True)
def turns_in_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the turns of a test in memory, except where several applications or processes share them."""
    if not SHARED.intersection(request.path.parts) and request.path.stem not in SHARED_FILES:
        monkeypatch.setenv("INTERLOCK_TURN_URL", "memory:")


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> EngineName:
    return request.param


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    return shared_postgres()


@pytest.fixture
def database(postgres: PostgresServer) -> Generator[str]:
    """A database with nothing in it."""
    with fresh_database(postgres) as name:
        yield name


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """Whoever runs the commands of this process."""
    commands = Commands()
    yield commands
    commands.close()


@pytest.fixture
async def time_passes() -> None:
    """Time can be made to pass in this test."""
    let_time_pass()


@pytest.fixture
def spans() -> Generator[Spans]:
    """The spans of this test."""
    with spanned() as spans:
        yield spans


@pytest.fixture(scope="session")
def success_path() -> tuple[str, ...]:
    """The nodes of a turn of sam that succeeds."""
    return (
        "router_node",
        "state_init_node",
        "decision_logic_node",
        "task_preprocessing_node",
        "decision_logic_node",
        "model_call_node",
        "result_handling_node",
        "decision_logic_node",
        "format_response_node",
    )


@pytest.fixture(scope="session")
def refused_path(success_path: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes of a turn of sam whose input is no use: the model is never asked."""
    return (*success_path[:5], "error_router_node", "format_response_node")
