"""Workers on a turn store, in schedules drawn from seeds: nothing is lost or repeated, and each known bug is found when it is put back."""

# ruff: noqa: SLF001 - the bugs are put into the store
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from interlock.dispatch import embedded
from interlock.runtime.journal import Entry
from interlock.runtime.turns import StoredTurn, Verdict, Writes
from interlock.runtime.worker import Lease
from interlock.stores.turns_memory import MemoryTurns
from tests.faults.amounts import SCHEDULES
from tests.faults.simulator import Simulation, Violation

PARTS = 20
"""The schedules are shared out, so that several processes can run them."""
WITHIN = 10_000
"""Each bug must be found within so many schedules."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Workers warn of every turn that they lose."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_loses_or_repeats_anything(part: int):
    for seed in range(part, SCHEDULES, PARTS):
        Simulation(seed).run()


class CancelsByHeartbeat(MemoryTurns):
    """A worker that renews a lease which it has lost cancels the turn, though another one has claimed it."""

    async def renew(self, worker: str, turns: Mapping[str, int], *, lease_s: float = 3.0) -> dict[str, Verdict]:
        verdicts = await super().renew(worker, turns, lease_s=lease_s)
        for turn, verdict in verdicts.items():
            if verdict == "lost" and self._rows[turn].turn.status == "running":
                self._cancel(turn, is_rollback=False)
        return verdicts


class KnowsTwoVerdicts(MemoryTurns):
    """A turn that is wanted to end is lost to its worker, which then writes nothing, and the next one claims it again."""

    def _verdict(self, name: str, epoch: int) -> Verdict:
        verdict = super()._verdict(name, epoch)
        return "lost" if verdict == "stop" else verdict

    def _expired(self, only: Collection[str], lease_s: float) -> list[StoredTurn]:
        return [replace(turn, is_cancel_wanted=False) for turn in super()._expired(only, lease_s)]


class GroupsWithoutSavepoints(MemoryTurns):
    """Operations are committed together, and where one fails the others are undone, though their callers hear that all is well."""

    def grouped(self, group: Sequence[Callable[[], Any]]) -> list[tuple[Any, BaseException | None]]:
        before = copy.deepcopy(self._rows)
        answers: list[tuple[Any, BaseException | None]] = [(operation(), None) for operation in group]
        if any(answer == "lost" for answer, _ in answers):
            self._rows = before
        return answers


class PrefersNewTurns(MemoryTurns):
    """Leases that are over are claimed after all turns that are ready."""

    def _expired(self, only: Collection[str], lease_s: float) -> list[StoredTurn]:
        return [] if self._ready(only) else super()._expired(only, lease_s)


class CancelsWritesHalfWay(Lease):
    """A write is cancelled with the task that waits for it: its entries are counted, but the store may not have got them."""

    async def append(self, entries: Sequence[Entry]) -> None:
        try:
            await self._write(entries)
        except asyncio.CancelledError:
            self._entry_count += len(entries)
            raise


class WritesWithoutNumbers(MemoryTurns):
    """A write whose answer was lost is stored twice when it is sent again."""

    def _add(self, name: str, writes: Writes) -> None:
        row = self._rows[name]
        super()._add(name, replace(writes, first_entry=len(row.journal), first_event=len(row.events)))


class WritesWithoutEpochs(MemoryTurns):
    """A worker whose lease is over writes into a turn that another one has claimed."""

    def _verdict(self, name: str, epoch: int) -> Verdict:
        del epoch
        return super()._verdict(name, self._rows[name].turn.epoch)


class ForgetsTheSession(MemoryTurns):
    """The end of a turn leaves the next one of its session queued."""

    def _make_next_ready(self, ended: StoredTurn) -> None:
        del ended


BUGS = {
    "cancel by heartbeat": (CancelsByHeartbeat, Lease, "nobody had asked"),
    "livelock of a cancel": (KnowsTwoVerdicts, Lease, "is still running"),
    "no savepoints": (GroupsWithoutSavepoints, Lease, ""),
    "leases behind new turns": (PrefersNewTurns, Lease, "whose lease was over"),
    "a commit cancelled half way": (MemoryTurns, CancelsWritesHalfWay, ""),
    "no numbers in a write": (WritesWithoutNumbers, Lease, ""),
    "no epoch in a write": (WritesWithoutEpochs, Lease, ""),
    "the next turn is forgotten": (ForgetsTheSession, Lease, "is still queued"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_known_bug_is_found_when_it_is_put_back(monkeypatch: pytest.MonkeyPatch, bug: str):
    store, lease, says = BUGS[bug]
    monkeypatch.setattr(embedded, "Lease", lease)
    for seed in range(WITHIN):
        try:
            Simulation(seed, store=store).run()
        except Violation as violation:
            assert says in str(violation)  # noqa: PT017 - the first violation ends the search
            return
    pytest.fail(f"{WITHIN} schedules do not find it")


def test_a_schedule_is_the_same_for_the_same_seed():
    runs = [Simulation(7) for _ in range(2)]
    for one in runs:
        one.run()
    first, second = ([(row.turn, row.journal) for row in one.store._rows.values()] for one in runs)
    assert first == second
    assert first
