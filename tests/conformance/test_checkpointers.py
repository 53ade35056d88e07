"""The checkpointers by URL against LangGraph's own suite for checkpointers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import BASE_CAPABILITIES, EXTENDED_CAPABILITIES

from interlock.stores.checkpoints import open_checkpoints
from tests.support.postgres import fresh_database, shared_postgres


@contextmanager
def memory() -> Generator[str]:
    yield "memory:"


@contextmanager
def sqlite() -> Generator[None]:
    yield None


@contextmanager
def postgres() -> Generator[str]:
    server = shared_postgres()
    with fresh_database(server) as name:
        yield server.database(name)


# Each with what it can do beyond what every checkpointer can. Firestore, which needs its emulator, has a test of its own.
STORES: dict[str, tuple[Callable[[], AbstractContextManager[str | None]], set[str]]] = {
    "memory": (memory, set()),
    "sqlite": (sqlite, set()),
    "postgres": (postgres, {"prune"}),
}


@pytest.mark.parametrize("store", list(STORES))
async def test_a_checkpointer_keeps_what_langgraph_expects_of_it(store: str, tmp_path: Path):
    place, more = STORES[store]
    with place() as url:

        @checkpointer_test(name=store)
        async def registered() -> AsyncGenerator[Any]:
            checkpoints = open_checkpoints(url, path=tmp_path / "checkpoints.db", types=())
            yield await checkpoints.saver()
            await checkpoints.aclose()

        report = await validate(registered)
    print(store, {name: result.detected for name, result in report.results.items()})  # noqa: T201 - with -s, what there is
    assert [failure for result in report.results.values() for failure in result.failures] == []
    assert all(report.results[capability.value].tests_passed for capability in BASE_CAPABILITIES)
    assert report.passed_all()
    assert {capability.value for capability in EXTENDED_CAPABILITIES if report.results[capability.value].detected} == more
