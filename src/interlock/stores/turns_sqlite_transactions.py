"""The transactions of the turn store on SQLite. Each function runs inside a transaction that its caller begins and commits."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from interlock.errors import TurnUnknown
from interlock.runtime.turns import (
    CANCELLED,
    ENDED,
    Accepted,
    Claim,
    NewTurn,
    Page,
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
    refuse_answer,
)
from interlock.stores import turns_sqlite_statements as sql
from interlock.stores.turns_packing import pack, unpack

__all__ = [
    "accept",
    "answer",
    "can_claim",
    "cancel",
    "claim",
    "compact",
    "end",
    "find",
    "get",
    "give_back",
    "prune",
    "read_events",
    "read_journal",
    "read_state",
    "renew",
    "write",
]

_ALL = -1  # as a limit


class _Held(NamedTuple):
    """What decides whether a worker may write to a turn."""

    number: int
    place: int
    status: TurnStatus
    epoch: int
    is_cancel_wanted: int
    fingerprint: str
    owner: str | None
    turn: str

    def verdict(self, epoch: int) -> Verdict:
        if self.status != "running" or self.epoch != epoch:
            return "lost"
        return "stop" if self.is_cancel_wanted else "ok"


class _Found(NamedTuple):
    """A turn with the rows that belong to it."""

    turn: StoredTurn
    number: int
    place: int
    state: SavedState | None


def accept(db: sqlite3.Connection, now: float, new: NewTurn, *, worker: str | None, lease_s: float) -> Accepted:
    """Store a turn."""
    known = _first(db, sql.BY_TURN, new.turn)
    if known is None and new.key is not None:
        known = _first(db, sql.BY_KEY, new.tenant, new.key)
    if known is not None:
        check_key(known.turn, new)
        return _accepted_again(db, now, known, new, worker=worker, lease_s=lease_s)
    place, position, *state = db.execute(sql.NEXT_POSITION, (new.tenant, new.agent, new.session)).fetchone()
    earlier = _open_of_place(db, place) if new.is_exclusive and position > 1 else []
    check_policy(new, [found.turn for found in earlier])
    if earlier and new.policy in {"interrupt", "rollback"}:
        for found in earlier:
            _cancel(db, now, found, is_rollback=new.policy == "rollback")
        earlier = _open_of_place(db, place)
    startable = now if new.due is None else max(now, new.due)
    is_claimed = worker is not None and not earlier and startable <= now
    turn = StoredTurn(**vars(new), position=position, status="queued" if earlier else "ready", created=now)
    if is_claimed:
        turn = replace(turn, status="running", epoch=1, attempts=1, owner=worker, lease_until=now + lease_s, started=now)
    inserted = db.execute(sql.INSERT, _insert_values(turn, place, startable))
    db.execute(sql.INSERT_HEADER, (inserted.lastrowid, turn.header))
    return Accepted(turn=turn, is_new=True, claim=Claim(turn=turn, state=_state(state)) if is_claimed else None)


def can_claim(db: sqlite3.Connection, now: float, fingerprints: Collection[str]) -> bool:
    """Return whether there may be a turn to claim, without a transaction that writes."""
    return bool(db.execute(sql.CAN_CLAIM, {"now": now, "fingerprints": json.dumps(list(fingerprints))}).fetchone()[0])


def claim(
    db: sqlite3.Connection,
    now: float,
    worker: str,
    *,
    fingerprints: Collection[str],
    limit: int,
    lease_s: float,
    only: Collection[str],
) -> list[Claim]:
    """Claim turns: first those whose lease is over. They must not starve behind new turns."""
    chosen = {"now": now, "fingerprints": json.dumps(list(fingerprints)), "only": json.dumps(list(only))}
    among = sql.ONLY if only else ""
    claims: list[Claim] = []
    for number, place, is_cancel_wanted in db.execute(f"{sql.FIND_EXPIRED}{among} ORDER BY lease_until, number", chosen).fetchall():
        if len(claims) == limit:
            return claims
        if is_cancel_wanted:
            _end(db, now, number, place, CANCELLED)
        else:
            claims.append(_claim(db, now, number, worker, lease_s))
    ready = f"{sql.FIND_READY}{among} ORDER BY startable, number LIMIT :limit"
    for (number,) in db.execute(ready, chosen | {"limit": limit - len(claims)}).fetchall():
        claims.append(_claim(db, now, number, worker, lease_s))
    return claims


def write(db: sqlite3.Connection, now: float, turn: str, epoch: int, writes: Writes) -> Verdict:
    """Store journal entries and events."""
    held = _held(db, turn)
    verdict: Verdict = "lost" if held is None else held.verdict(epoch)
    if held is not None and verdict != "lost":
        _add(db, now, held, writes)
    return verdict


def end(db: sqlite3.Connection, now: float, turn: str, epoch: int, *, how: TurnEnd, writes: Writes) -> Verdict:
    """Store how a turn ended."""
    held = _held(db, turn)
    if held is None:
        return "lost"
    verdict = held.verdict(epoch)
    if verdict == "lost":
        return "ok" if is_same_end(held.status, held.epoch, how, epoch) else "lost"
    _add(db, now, held, writes)
    if how.state is not None:
        db.execute(sql.SAVE_STATE, (how.state, turn, held.fingerprint, held.place))
    _end(db, now, held.number, held.place, effective_end(how, is_cancel_wanted=verdict == "stop"))
    return verdict


def renew(db: sqlite3.Connection, now: float, worker: str, turns: Mapping[str, int], *, lease_s: float) -> dict[str, Verdict]:
    """Extend leases."""
    verdicts: dict[str, Verdict] = {}
    for turn, epoch in turns.items():
        held = _held(db, turn)
        verdicts[turn] = "lost" if held is None else held.verdict(epoch)
        if held is not None and verdicts[turn] != "lost" and held.owner == worker:
            db.execute(sql.RENEW, (now + lease_s, held.number))
    return verdicts


def give_back(db: sqlite3.Connection, now: float, turn: str, epoch: int) -> Verdict:
    """End the lease of a turn."""
    held = _held(db, turn)
    verdict: Verdict = "lost" if held is None else held.verdict(epoch)
    if held is not None and (held.status, held.epoch) == ("ready", epoch):
        return "ok"
    if held is not None and verdict == "ok":
        db.execute(sql.GIVE_BACK, (held.number,))
    elif held is not None and verdict == "stop":
        _end(db, now, held.number, held.place, CANCELLED)
    return verdict


def answer(db: sqlite3.Connection, now: float, turn: str, *, said: bytes, entry: bytes, worker: str | None, lease_s: float) -> Accepted:
    """Store a person's answer to a waiting turn."""
    found = _first(db, sql.BY_TURN, turn)
    if found is not None and is_same_answer(found.turn, said, _column(db, sql.JOURNAL, found.number), entry):
        return Accepted(turn=found.turn, is_new=False)
    if found is None or found.turn.status != "waiting":
        raise refuse_answer(found and found.turn, turn)
    db.execute(sql.APPEND_ENTRY, (found.number, found.turn.epoch, entry))
    db.execute(sql.ANSWER, (said, found.number))
    if worker is None:
        return Accepted(turn=_numbered(db, found.number).turn, is_new=False)
    claimed = _claim(db, now, found.number, worker, lease_s)
    return Accepted(turn=claimed.turn, is_new=False, claim=claimed)


def cancel(db: sqlite3.Connection, now: float, turn: str, *, is_rollback: bool) -> StoredTurn:
    """End a turn as cancelled, or ask its worker to."""
    found = _first(db, sql.BY_TURN, turn)
    if found is None:
        raise TurnUnknown(f"There is no turn '{turn}'.")
    if found.turn.status in ENDED:
        return found.turn
    _cancel(db, now, found, is_rollback=is_rollback)
    return _numbered(db, found.number).turn


def prune(db: sqlite3.Connection, ended_before: float, limit: int) -> int:
    """Delete turns that ended before a time."""
    numbers = [number for (number,) in db.execute(sql.OLD, (ended_before, limit))]
    for statement in sql.DELETE if numbers else ():
        db.execute(statement, (json.dumps(numbers),))
    return len(numbers)


def compact(db: sqlite3.Connection, ended_before: float, limit: int) -> int:
    """Compress the journals and events of turns that ended before a time."""
    numbers = [number for (number,) in db.execute(sql.UNPACKED, (ended_before, limit)).fetchall()]
    for number in numbers:
        journal, events = _column(db, sql.JOURNAL, number), _column(db, sql.EVENTS, number, 0, _ALL)
        db.execute(sql.PACK, (number, pack(journal), pack(events)))
        for statement in sql.PACKED:
            db.execute(statement, (number,))
    return len(numbers)


def get(db: sqlite3.Connection, turn: str) -> StoredTurn | None:
    """Return a turn."""
    found = _first(db, sql.BY_TURN, turn)
    return None if found is None else found.turn


def find(db: sqlite3.Connection, chosen: TurnFilter, page: Page) -> list[StoredTurn]:
    """Return turns, newest first."""
    names = {"turns.tenant": chosen.tenant, "agent": chosen.agent, "session": chosen.session, "key": chosen.key}
    where = [f"{column} = ?" for column, value in names.items() if value is not None]
    values: list[Any] = [value for value in names.values() if value is not None]
    if chosen.statuses:
        where.append("status IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(chosen.statuses)))
    if not chosen.with_hidden:
        where.append("is_hidden = 0")
    if page.before is not None:
        where.append("turns.number < (SELECT number FROM turns WHERE turn = ?)")
        values.append(page.before)
    statement = f"{sql.TURN} WHERE {' AND '.join(where) or 'TRUE'} ORDER BY turns.number DESC LIMIT ?"
    return [_found(row).turn for row in db.execute(statement, (*values, page.limit))]


def read_journal(db: sqlite3.Connection, turn: str) -> list[bytes]:
    """Return the journal of a turn."""
    number, packed = _packed(db, sql.PACKED_JOURNAL, turn)
    return _column(db, sql.JOURNAL, number) if packed is None else unpack(packed)


def read_events(db: sqlite3.Connection, turn: str, after: int, limit: int) -> list[bytes]:
    """Return events of a turn."""
    number, packed = _packed(db, sql.PACKED_EVENTS, turn)
    return _column(db, sql.EVENTS, number, after, limit) if packed is None else unpack(packed)[after : after + limit]


def read_state(db: sqlite3.Connection, tenant: str, agent: str, session: str) -> SavedState | None:
    """Return the state of a session."""
    row = db.execute(sql.STATE, (tenant, agent, session)).fetchone()
    return None if row is None else _state(row)


def _accepted_again(db: sqlite3.Connection, now: float, known: _Found, new: NewTurn, *, worker: str | None, lease_s: float) -> Accepted:
    """Return the turn that was accepted before, with its claim where the answer to its first accept was lost."""
    turn = known.turn
    if worker is None or (turn.turn, turn.status, turn.owner, turn.epoch) != (new.turn, "running", worker, 1):
        return Accepted(turn=turn, is_new=False)
    db.execute(sql.RENEW, (now + lease_s, known.number))
    claimed = _claimed(db, known.number)
    return Accepted(turn=claimed.turn, is_new=False, claim=claimed)


def _claim(db: sqlite3.Connection, now: float, number: int, worker: str, lease_s: float) -> Claim:
    db.execute(sql.CLAIM, (worker, now + lease_s, now, number))
    return _claimed(db, number)


def _claimed(db: sqlite3.Connection, number: int) -> Claim:
    found = _numbered(db, number)
    journal, events = _column(db, sql.JOURNAL, number), _column(db, sql.EVENTS, number, 0, _ALL)
    return Claim(turn=found.turn, journal=tuple(journal), events=tuple(events), state=found.state)


def _add(db: sqlite3.Connection, now: float, held: _Held, writes: Writes) -> None:
    """Add what the store does not have yet."""
    if not writes.entries and not writes.events:
        return
    entries, events = db.execute(sql.COUNTS, (held.number,)).fetchone()
    check_numbers(writes, entries=entries, events=events)
    number, epoch = held.number, held.epoch
    new_entries = list(enumerate(writes.entries, writes.first_entry))[max(0, entries - writes.first_entry) :]
    new_events = list(enumerate(writes.events, writes.first_event))[max(0, events - writes.first_event) :]
    db.executemany(sql.INSERT_ENTRY, [(number, seq, epoch, entry) for seq, entry in new_entries])
    db.executemany(sql.INSERT_EVENT, [(number, seq, epoch, now, line) for seq, line in new_events])


def _end(db: sqlite3.Connection, now: float, number: int, place: int, how: TurnEnd) -> None:
    is_ended = how.status != "waiting"
    db.execute(sql.END, (how.status, how.result, how.code, now if is_ended else None, number))
    if is_ended:
        db.execute(sql.NEXT_READY, (place,))


def _cancel(db: sqlite3.Connection, now: float, found: _Found, *, is_rollback: bool) -> None:
    if is_rollback:
        db.execute(sql.HIDE, (found.number,))
    if found.turn.status == "running":
        db.execute(sql.ASK_TO_END, (found.number,))
    else:
        _end(db, now, found.number, found.place, CANCELLED)


def _held(db: sqlite3.Connection, turn: str) -> _Held | None:
    row = db.execute(sql.HELD, (turn,)).fetchone()
    return None if row is None else _Held(*row)


def _open_of_place(db: sqlite3.Connection, place: int) -> list[_Found]:
    return [_found(row) for row in db.execute(sql.OPEN_OF_PLACE, (place,)).fetchall()]


def _numbered(db: sqlite3.Connection, number: int) -> _Found:
    return _found(db.execute(sql.BY_NUMBER, (number,)).fetchone())


def _first(db: sqlite3.Connection, statement: str, *values: Any) -> _Found | None:
    row = db.execute(statement, values).fetchone()
    return None if row is None else _found(row)


def _column(db: sqlite3.Connection, statement: str, *values: Any) -> list[bytes]:
    return [value for (value,) in db.execute(statement, values).fetchall()]


def _found(row: Sequence[Any]) -> _Found:
    """Make a turn of a row of `sql.COLUMNS`."""
    (
        turn, agent, session, header, fingerprint, tenant, role, key, digest, principal, build, is_exclusive, policy, due, deadline,
        position, status, created, epoch, attempts, owner, lease_until, is_cancel_wanted, is_hidden, said, started, ended, result, code,
        number, place, *state,
    ) = row  # fmt: skip
    stored = StoredTurn(
        turn=turn, agent=agent, session=session, header=header, fingerprint=fingerprint, tenant=tenant, role=role, key=key, digest=digest,
        principal=principal, build=build, is_exclusive=bool(is_exclusive), policy=policy, due=due, deadline=deadline, position=position,
        status=status, created=created, epoch=epoch, attempts=attempts, owner=owner, lease_until=lease_until,
        is_cancel_wanted=bool(is_cancel_wanted), is_hidden=bool(is_hidden), answer=said, started=started, ended=ended, result=result,
        code=code,
    )  # fmt: skip
    return _Found(stored, number, place, _state(state))


def _insert_values(turn: StoredTurn, place: int, startable: float) -> tuple[Any, ...]:
    return (
        turn.turn, place, turn.position, turn.tenant, turn.role, turn.key, turn.digest, turn.principal, turn.fingerprint, turn.build,
        turn.is_exclusive, turn.policy, turn.due, turn.deadline, turn.status, turn.created, startable, turn.epoch, turn.attempts,
        turn.owner, turn.lease_until, turn.started,
    )  # fmt: skip


def _packed(db: sqlite3.Connection, statement: str, turn: str) -> tuple[int | None, bytes | None]:
    """Return the number of a turn, and what its rows were packed to."""
    return db.execute(statement, (turn,)).fetchone() or (None, None)


def _state(row: Sequence[Any]) -> SavedState | None:
    values, turn, fingerprint = row
    return None if values is None else SavedState(values=values, turn=turn, fingerprint=fingerprint)
