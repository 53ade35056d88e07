"""Turns in memory: for tests, for the simulator of the store's protocol, and for programs that need no more."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from interlock.errors import TurnUnknown
from interlock.runtime.turns import (
    CANCELLED,
    ENDED,
    OPEN,
    Accepted,
    Claim,
    Load,
    NewTurn,
    Page,
    Progress,
    SavedState,
    StoredTurn,
    TurnEnd,
    TurnFilter,
    TurnStatus,
    Verdict,
    Writes,
    check_key,
    check_numbers,
    check_policy,
    effective_end,
    is_same_answer,
    is_same_end,
    latest_lease,
    refuse_answer,
    seconds_used,
)
from interlock.stores.turn_changes import TurnChanges

__all__ = ["MemoryTurns"]

_PAGE = Page()


@dataclass(kw_only=True)
class _Row:
    """A turn with its journal and its events."""

    turn: StoredTurn
    journal: list[bytes] = field(default_factory=list[bytes])
    events: list[bytes] = field(default_factory=list[bytes])


class MemoryTurns:
    """Turns in the memory of one process. `now` is its clock."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._rows: dict[str, _Row] = {}
        self._states: dict[tuple[str, str, str], SavedState] = {}
        self._positions: dict[tuple[str, str, str], int] = {}
        self._changes = TurnChanges()

    async def accept(self, new: NewTurn, *, worker: str | None = None, lease_s: float = 3.0) -> Accepted:
        """Store a turn; with `worker`, claim it at once if it can start."""
        known = self._with_key(new)
        if known is not None:
            check_key(known, new)
            return self._accepted_again(known, new, worker, lease_s)
        earlier = self._open_of_session(new) if new.is_exclusive else []
        check_policy(new, earlier)
        if new.policy in {"interrupt", "rollback"}:
            for turn in earlier:
                self._cancel(turn.turn, is_rollback=new.policy == "rollback")
            earlier = self._open_of_session(new) if new.is_exclusive else []
        place = (new.tenant, new.agent, new.session)
        position = self._positions[place] = self._positions.get(place, 0) + 1
        turn = StoredTurn(**vars(new), position=position, status="queued" if earlier else "ready", created=self._now())
        self._rows[new.turn] = _Row(turn=turn)
        self._changes.note()
        claim = self._claim(new.turn, worker, lease_s) if worker is not None and not earlier and self._is_due(turn) else None
        return Accepted(turn=self._rows[new.turn].turn, is_new=True, claim=claim)

    async def claim(
        self, worker: str, *, fingerprints: Collection[str], limit: int = 1, lease_s: float = 3.0, only: Collection[str] = ()
    ) -> list[Claim]:
        """Claim turns: first those whose lease is over, then those that are ready."""
        claims: list[Claim] = []
        # Leases that are over come first: they must not starve behind new turns.
        for turn in self._expired(only, lease_s):
            if len(claims) < limit and turn.is_cancel_wanted:
                self._end(turn, CANCELLED)
            elif len(claims) < limit and turn.fingerprint in fingerprints:
                claims.append(self._claim(turn.turn, worker, lease_s))
        ready = [turn for turn in self._ready(only) if turn.fingerprint in fingerprints]
        return claims + [self._claim(turn.turn, worker, lease_s) for turn in ready[: limit - len(claims)]]

    async def write(self, turn: str, epoch: int, writes: Writes) -> Verdict:
        """Store journal entries and events."""
        verdict = self._verdict(turn, epoch)
        if verdict != "lost":
            self._add(turn, writes)
        return verdict

    async def end(self, turn: str, epoch: int, end: TurnEnd, writes: Writes) -> Verdict:
        """Store how a turn ended; make the session's next turn ready."""
        verdict = self._verdict(turn, epoch)
        if verdict == "lost":
            known = await self.get(turn)
            return "ok" if known is not None and is_same_end(known.status, known.epoch, end, epoch) else "lost"
        self._add(turn, writes)
        self._end(self._rows[turn].turn, end)
        return verdict

    async def renew(self, worker: str, turns: Mapping[str, int], *, lease_s: float = 3.0) -> dict[str, Verdict]:
        """Extend the leases of a worker's turns."""
        verdicts: dict[str, Verdict] = {turn: self._verdict(turn, epoch) for turn, epoch in turns.items()}
        for turn, verdict in verdicts.items():
            if verdict != "lost" and self._rows[turn].turn.owner == worker:
                self._extend(turn, lease_s)
        return verdicts

    async def give_back(self, turn: str, epoch: int) -> Verdict:
        """End the lease of a turn."""
        verdict = self._verdict(turn, epoch)
        if verdict == "lost" and turn in self._rows and (self._rows[turn].turn.status, self._rows[turn].turn.epoch) == ("ready", epoch):
            return "ok"
        if verdict == "ok":
            self._change(turn, status="ready", owner=None, lease_until=None)
        elif verdict == "stop":
            self._end(self._rows[turn].turn, CANCELLED)
        return verdict

    async def answer(self, turn: str, answer: bytes, entry: bytes, *, worker: str | None = None, lease_s: float = 3.0) -> Accepted:
        """Store a person's answer to a waiting turn."""
        row = self._rows.get(turn)
        if row is not None and is_same_answer(row.turn, answer, row.journal, entry):
            return Accepted(turn=row.turn, is_new=False)
        if row is None or row.turn.status != "waiting":
            raise refuse_answer(row and row.turn, turn)
        row.journal.append(entry)
        self._change(turn, status="ready", answer=answer, used=0.0)
        claim = None if worker is None else self._claim(turn, worker, lease_s)
        return Accepted(turn=row.turn, is_new=False, claim=claim)

    async def cancel(self, turn: str, *, is_rollback: bool = False) -> StoredTurn:
        """End a turn as cancelled."""
        if turn not in self._rows:
            raise TurnUnknown(f"There is no turn '{turn}'.")
        return self._cancel(turn, is_rollback=is_rollback)

    async def get(self, turn: str) -> StoredTurn | None:
        """Return a turn."""
        row = self._rows.get(turn)
        return None if row is None else row.turn

    async def find(self, chosen: TurnFilter, page: Page | None = None) -> list[StoredTurn]:
        """Return turns, newest first."""
        page = page or _PAGE
        found: Iterable[StoredTurn] = (row.turn for row in reversed(self._rows.values()))
        if page.before is not None:
            found = itertools.islice(itertools.dropwhile(lambda turn: turn.turn != page.before, found), 1, None)
        return list(itertools.islice((turn for turn in found if _is_chosen(turn, chosen)), page.limit))

    async def journal(self, turn: str) -> list[bytes]:
        """Return the journal of a turn."""
        return list(self._rows[turn].journal) if turn in self._rows else []

    async def events(self, turn: str, *, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return the events of a turn from number `after` on."""
        return self._rows[turn].events[after : after + limit] if turn in self._rows else []

    async def progress(self, turns: Collection[str]) -> dict[str, Progress]:
        """Return the status of turns and how many events they have."""
        return {turn: Progress(self._rows[turn].turn.status, len(self._rows[turn].events)) for turn in turns if turn in self._rows}

    async def load(self) -> list[Load]:
        """Return how many turns are open, by agent and status."""
        found: dict[tuple[str, TurnStatus], list[float]] = {}
        for row in self._rows.values():
            if row.turn.status in OPEN:
                found.setdefault((row.turn.agent, row.turn.status), []).append(row.turn.created)
        return [Load(agent, status, len(created), min(created)) for (agent, status), created in found.items()]

    async def state(self, tenant: str, agent: str, session: str) -> SavedState | None:
        """Return the state of a session."""
        return self._states.get((tenant, agent, session))

    async def prune(self, *, ended_before: float, limit: int = 1000) -> int:
        """Delete turns that ended before a time."""
        ended = [(row.turn.ended, name) for name, row in self._rows.items() if row.turn.ended is not None]
        old = [name for at, name in sorted(ended, key=lambda one: one[0]) if at < ended_before][:limit]
        for name in old:
            del self._rows[name]
        return len(old)

    async def delete(self, turn: str) -> bool:
        """Delete a turn that has ended."""
        row = self._rows.get(turn)
        if row is None or row.turn.ended is None:
            return False
        del self._rows[turn]
        return True

    async def compact(self, *, ended_before: float, limit: int = 1000) -> int:  # noqa: ARG002 - of the protocol
        """Do nothing: memory is not compressed."""
        return 0

    async def changed(self, *, timeout_s: float, since: int | None = None) -> int:
        """Return when turns may have changed, or after a time."""
        return await self._changes.wait(timeout_s=timeout_s, since=since)

    async def now(self) -> float:
        """Return the time."""
        return self._now()

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    def _of_session(self, new: NewTurn) -> Iterator[StoredTurn]:
        place = (new.tenant, new.agent, new.session)
        return (row.turn for row in self._rows.values() if (row.turn.tenant, row.turn.agent, row.turn.session) == place)

    def _open_of_session(self, new: NewTurn) -> list[StoredTurn]:
        """Return the turns that a turn of the session has to wait for, in their order."""
        turns = [turn for turn in self._of_session(new) if turn.status in OPEN and turn.is_exclusive]
        return sorted(turns, key=lambda turn: turn.position)

    def _accepted_again(self, known: StoredTurn, new: NewTurn, worker: str | None, lease_s: float) -> Accepted:
        """Return the turn that was accepted before, with its claim where the answer to its first accept was lost."""
        if worker is None or (known.turn, known.status, known.owner, known.epoch) != (new.turn, "running", worker, 1):
            return Accepted(turn=known, is_new=False)
        self._extend(known.turn, lease_s)
        claim = self._claimed(known.turn)
        return Accepted(turn=claim.turn, is_new=False, claim=claim)

    def _with_key(self, new: NewTurn) -> StoredTurn | None:
        if new.turn in self._rows:
            return self._rows[new.turn].turn
        if new.key is None:
            return None
        return next((row.turn for row in self._rows.values() if (row.turn.tenant, row.turn.key) == (new.tenant, new.key)), None)

    def _is_due(self, turn: StoredTurn) -> bool:
        return turn.due is None or turn.due <= self._now()

    def _expired(self, only: Collection[str], lease_s: float) -> list[StoredTurn]:
        turns = [row.turn for name, row in self._rows.items() if not only or name in only]
        now = self._now()
        latest = latest_lease(now, lease_s)
        over = [turn for turn in turns if turn.status == "running" and not now < (turn.lease_until or 0) <= latest]
        return sorted(over, key=lambda turn: turn.lease_until or 0)

    def _ready(self, only: Collection[str]) -> list[StoredTurn]:
        turns = [row.turn for name, row in self._rows.items() if not only or name in only]
        ready = [turn for turn in turns if turn.status == "ready" and self._is_due(turn)]
        return sorted(ready, key=lambda turn: max(turn.created, turn.due or 0))

    def _claim(self, name: str, worker: str, lease_s: float) -> Claim:
        turn = self._rows[name].turn
        now = self._now()
        self._change(
            name,
            status="running",
            epoch=turn.epoch + 1,
            attempts=turn.attempts + 1,
            owner=worker,
            lease_until=now + lease_s,
            used=seconds_used(turn, now, lease_s),
            started=turn.started or now,
        )
        return self._claimed(name)

    def _extend(self, name: str, lease_s: float) -> None:
        now = self._now()
        self._change(name, lease_until=now + lease_s, used=seconds_used(self._rows[name].turn, now, lease_s))

    def _claimed(self, name: str) -> Claim:
        row = self._rows[name]
        state = self._states.get((row.turn.tenant, row.turn.agent, row.turn.session))
        return Claim(turn=row.turn, journal=tuple(row.journal), events=tuple(row.events), state=state)

    def _verdict(self, name: str, epoch: int) -> Verdict:
        row = self._rows.get(name)
        if row is None or row.turn.status != "running" or row.turn.epoch != epoch:
            return "lost"
        return "stop" if row.turn.is_cancel_wanted else "ok"

    def _add(self, name: str, writes: Writes) -> None:
        row = self._rows[name]
        check_numbers(writes, entries=len(row.journal), events=len(row.events))
        self._changes.note()
        for kept, first, new in (
            (row.journal, writes.first_entry, writes.entries),
            (row.events, writes.first_event, writes.events),
        ):
            kept.extend(new[max(0, len(kept) - first) :])

    def _end(self, turn: StoredTurn, end: TurnEnd) -> None:
        effective = effective_end(end, is_cancel_wanted=turn.is_cancel_wanted)
        self._change(
            turn.turn,
            status=effective.status,
            result=effective.result,
            code=effective.code,
            owner=None,
            lease_until=None,
            ended=None if effective.status == "waiting" else self._now(),
        )
        if end.state is not None:
            place = (turn.tenant, turn.agent, turn.session)
            self._states[place] = SavedState(values=end.state, turn=turn.turn, fingerprint=turn.fingerprint)
        if effective.status != "waiting":
            self._make_next_ready(turn)

    def _make_next_ready(self, ended: StoredTurn) -> None:
        """Let the next turn of a session start, if no earlier one is open."""
        opened = self._open_of_session(ended)
        if opened and opened[0].status == "queued":
            self._change(opened[0].turn, status="ready")

    def _cancel(self, name: str, *, is_rollback: bool) -> StoredTurn:
        turn = self._rows[name].turn
        if turn.status in ENDED:
            return turn
        if is_rollback:
            self._change(name, is_hidden=True)
        if turn.status == "running":
            self._change(name, is_cancel_wanted=True)
        else:
            self._end(turn, CANCELLED)
        return self._rows[name].turn

    def _change(self, name: str, **changed: object) -> None:
        row = self._rows[name]
        row.turn = replace(row.turn, **changed)
        self._changes.note()


def _is_chosen(turn: StoredTurn, chosen: TurnFilter) -> bool:
    return (
        chosen.tenant in (None, turn.tenant)
        and chosen.agent in (None, turn.agent)
        and chosen.session in (None, turn.session)
        and chosen.key in (None, turn.key)
        and chosen.principal in (None, turn.principal)
        and (not chosen.statuses or turn.status in chosen.statuses)
        and (chosen.with_hidden or not turn.is_hidden)
    )
