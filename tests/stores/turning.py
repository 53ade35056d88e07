"""What the tests of turn stores share."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.runtime.turns import Claim, NewTurn, TurnEnd, TurnStore, Writes
from interlock.stores.turns_memory import MemoryTurns
from interlock.stores.turns_postgres import PostgresTurns
from interlock.stores.turns_sqlite import SqliteTurns
from tests.support.postgres import PostgresServer

NOTHING = Writes()
SUCCESS = TurnEnd(status="success", result=b'{"said":"hi"}')
OVER_S = -1.0
"""A lease that is over when it is given."""

_NUMBERS = itertools.count(1)


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.at = 1_000_000.0

    def __call__(self) -> float:
        return self.at

    def move(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class Turns:
    """A store under test."""

    store: TurnStore
    clock: Clock

    async def running(self, *, worker: str = "w1", lease_s: float = 3.0, **given: Any) -> Claim:
        """Accept a turn and claim it."""
        accepted = await self.store.accept(a_turn(**given), worker=worker, lease_s=lease_s)
        assert accepted.claim is not None
        return accepted.claim

    async def status(self, turn: str) -> str | None:
        found = await self.store.get(turn)
        return None if found is None else found.status


def a_turn(turn: str | None = None, **given: Any) -> NewTurn:
    number = next(_NUMBERS)
    fields: dict[str, Any] = {"agent": "sam", "session": f"session-{number}", "header": b'{"input":1}', "fingerprint": "f1"}
    return NewTurn(turn=turn or f"turn-{number}", **(fields | given))


class ServerClock(Clock):
    """Takes the place of the clock of a PostgreSQL server."""

    def __init__(self, server: PostgresServer, database: str) -> None:
        super().__init__()
        self._run: Callable[[str], object] = lambda statement: server.run(statement, database=database)
        self._run("CREATE TABLE test_clock AS SELECT 1000000::float8 AS at")
        self._run("CREATE OR REPLACE FUNCTION interlock.clock() RETURNS float8 LANGUAGE sql AS 'SELECT at FROM public.test_clock'")

    def move(self, seconds: float) -> None:
        super().move(seconds)
        self._run(f"UPDATE test_clock SET at = {self.at!r}")  # noqa: S608 - the test's own


@asynccontextmanager
async def postgres_turns(server: PostgresServer, database: str) -> AsyncGenerator[Turns]:
    store = PostgresTurns(server.database(database))
    try:
        await store.now()
        yield Turns(store, ServerClock(server, database))
    finally:
        await store.aclose()


@asynccontextmanager
async def memory_turns() -> AsyncGenerator[Turns]:
    clock = Clock()
    yield Turns(MemoryTurns(now=clock), clock)


@asynccontextmanager
async def sqlite_turns(folder: Path) -> AsyncGenerator[Turns]:
    clock = Clock()
    store = SqliteTurns(folder / "turns" / "turns.db", now=clock)
    try:
        yield Turns(store, clock)
    finally:
        await store.aclose()
