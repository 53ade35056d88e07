"""Random sequences of calls get the same answers from SQLite as from the store in memory."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from interlock.errors import InterlockError
from interlock.runtime.turns import NewTurn, Page, TurnEnd, TurnFilter, TurnStore, Writes
from interlock.stores.turns_memory import MemoryTurns
from interlock.stores.turns_sqlite import SqliteTurns
from tests.stores.turning import Clock

TURNS = st.sampled_from([f"t{number}" for number in range(8)])
WORKERS = st.sampled_from(["w1", "w2"])
SESSIONS = st.sampled_from(["a", "b"])
TENANTS = st.sampled_from(["", "x"])
FINGERPRINTS = st.sampled_from(["f1", "f2"])
EPOCHS = st.integers(1, 3)
LEASES = st.sampled_from([-1.0, 3.0])
LINES = st.lists(st.binary(max_size=4), max_size=3)
WRITES = st.builds(Writes, entries=LINES, first_entry=st.integers(0, 3), events=LINES, first_event=st.integers(0, 3))
ENDS = st.builds(
    TurnEnd,
    status=st.sampled_from(["success", "error", "cancelled", "waiting"]),
    result=st.none() | st.just(b"{}"),
    code=st.none() | st.just("node_failed"),
    state=st.none() | st.binary(max_size=4),
)
NEW = st.builds(
    NewTurn,
    turn=TURNS,
    agent=st.just("sam"),
    session=SESSIONS,
    header=st.binary(max_size=4),
    fingerprint=FINGERPRINTS,
    tenant=TENANTS,
    key=st.none() | st.sampled_from(["k1", "k2"]),
    digest=st.sampled_from(["d1", "d1", "d1", "d2"]),
    is_exclusive=st.sampled_from([True, True, True, False]),
    policy=st.sampled_from(["enqueue", "enqueue", "reject", "interrupt", "rollback"]),
    due=st.none() | st.sampled_from([1_000_001.0, 1_000_005.0]),
)
STATUSES = st.lists(st.sampled_from(["queued", "ready", "running", "waiting", "success", "cancelled"]), max_size=2)


class TurnStores(RuleBasedStateMachine):
    """Calls both stores with the same arguments, under the same clock."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.sqlite = SqliteTurns(Path(self.folder.name) / "turns.db", now=self.clock)
        self.stores: tuple[TurnStore, TurnStore] = (MemoryTurns(now=self.clock), self.sqlite)

    def teardown(self) -> None:
        self.runner.run(self.sqlite.aclose())
        self.runner.close()
        self.folder.cleanup()

    def same(self, call: Callable[[TurnStore], Awaitable[Any]]) -> None:
        expected, got = [self.runner.run(answered(call(store))) for store in self.stores]
        assert got == expected

    @rule(new=NEW, worker=st.none() | WORKERS, lease_s=LEASES)
    def accept(self, new: NewTurn, worker: str | None, lease_s: float) -> None:
        self.same(lambda store: store.accept(new, worker=worker, lease_s=lease_s))

    @rule(worker=WORKERS, fingerprints=st.sets(FINGERPRINTS), limit=st.integers(1, 3), lease_s=LEASES, only=st.sets(TURNS, max_size=2))
    def claim(self, worker: str, fingerprints: set[str], limit: int, lease_s: float, only: set[str]) -> None:
        self.same(lambda store: store.claim(worker, fingerprints=fingerprints, limit=limit, lease_s=lease_s, only=only))

    @rule(turn=TURNS, epoch=EPOCHS, writes=WRITES)
    def write(self, turn: str, epoch: int, writes: Writes) -> None:
        self.same(lambda store: store.write(turn, epoch, writes))

    @rule(turn=TURNS, epoch=EPOCHS, end=ENDS, writes=st.just(Writes()) | WRITES)
    def end(self, turn: str, epoch: int, end: TurnEnd, writes: Writes) -> None:
        self.same(lambda store: store.end(turn, epoch, end, writes))

    @rule(worker=WORKERS, turns=st.dictionaries(TURNS, EPOCHS, max_size=3), lease_s=LEASES)
    def renew(self, worker: str, turns: dict[str, int], lease_s: float) -> None:
        self.same(lambda store: store.renew(worker, turns, lease_s=lease_s))

    @rule(turn=TURNS, epoch=EPOCHS)
    def give_back(self, turn: str, epoch: int) -> None:
        self.same(lambda store: store.give_back(turn, epoch))

    @rule(turn=TURNS, answer=st.sampled_from([b"yes", b"no"]), worker=st.none() | WORKERS, lease_s=LEASES)
    def answer(self, turn: str, answer: bytes, worker: str | None, lease_s: float) -> None:
        self.same(lambda store: store.answer(turn, answer, b"entry " + answer, worker=worker, lease_s=lease_s))

    @rule(turn=TURNS, is_rollback=st.booleans())
    def cancel(self, turn: str, is_rollback: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        self.same(lambda store: store.cancel(turn, is_rollback=is_rollback))

    @rule(before=st.sampled_from([-5.0, 0.0, 1.0]), limit=st.integers(1, 3))
    def prune(self, before: float, limit: int) -> None:
        self.same(lambda store: store.prune(ended_before=self.clock() + before, limit=limit))

    @rule(turn=TURNS)
    def delete(self, turn: str) -> None:
        self.same(lambda store: store.delete(turn))

    @rule(limit=st.integers(1, 3))
    def compact(self, limit: int) -> None:
        self.runner.run(self.sqlite.compact(ended_before=self.clock() + 1, limit=limit))

    @rule(seconds=st.sampled_from([0.5, 2.0, 4.0]))
    def wait(self, seconds: float) -> None:
        self.clock.move(seconds)

    @rule(
        tenant=st.none() | TENANTS,
        session=st.none() | SESSIONS,
        statuses=STATUSES,
        with_hidden=st.booleans(),
        page=st.builds(Page, limit=st.integers(1, 3), before=st.none() | TURNS),
    )
    def find(self, page: Page, **chosen: Any) -> None:
        self.same(lambda store: store.find(TurnFilter(**chosen), page))

    @invariant()
    def hold_the_same(self) -> None:
        """Compare all that can be read."""
        expected, got = [self.runner.run(contents(store)) for store in self.stores]
        assert got == expected


async def answered(call: Awaitable[Any]) -> Any:
    """Return the answer of a call, or the error that it raised."""
    try:
        return await call
    except InterlockError as error:
        return type(error), str(error)


async def contents(store: TurnStore) -> Any:
    turns = await store.find(TurnFilter(with_hidden=True))
    lines = [(await store.journal(turn.turn), await store.events(turn.turn)) for turn in turns]
    states = [await store.state(tenant, "sam", session) for tenant in ("", "x") for session in "ab"]
    return turns, lines, states


TestTurnStores = TurnStores.TestCase
TestTurnStores.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shorten a failing sequence takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
