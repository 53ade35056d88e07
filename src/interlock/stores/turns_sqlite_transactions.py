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
)
from interlock.stores import turns_sqlite_statements as sql
from interlock.stores.turns_packing import join_lines, split_lines, unpack_turn

__all__ = [
    "accept",
    "answer",
    "can_claim",
    "cancel",
    "claim",
    "delete",
    "end",
    "find",
    "get",
    "give_back",
    "prune",
    "read_entries",
    "read_events",
    "read_journal",
    "read_lines",
    "read_load",
    "read_progress",
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


def can_claim(db: sqlite3.Connection, now: float, fingerprints: Collection[str], lease_s: float) -> bool:
    """Return whether there may be a turn to claim, without a transaction that writes."""
    chosen = {"now": now, "latest": latest_lease(now, lease_s), "fingerprints": json.dumps(list(fingerprints))}
    return bool(db.execute(sql.CAN_CLAIM, chosen).fetchone()[0])


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
    chosen: dict[str, Any] = {"now": now, "latest": latest_lease(now, lease_s), "fingerprints": json.dumps(list(fingerprints))}
    chosen["only"] = json.dumps(list(only))
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
            db.execute(sql.RENEW, {"now": now, "lease_s": lease_s, "number": held.number})
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
    if found is not None and is_same_answer(found.turn, said, read_entries(db, found.number), entry):
        return Accepted(turn=found.turn, is_new=False)
    if found is None or found.turn.status != "waiting":
        raise refuse_answer(found and found.turn, turn)
    db.execute(sql.APPEND_ENTRY, (found.number, found.turn.epoch, join_lines([entry])))
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
    return _delete(db, [number for (number,) in db.execute(sql.OLD, (ended_before, limit))])


def delete(db: sqlite3.Connection, turn: str) -> bool:
    """Delete a turn that has ended."""
    return _delete(db, [number for (number,) in db.execute(sql.ENDED_TURN, (turn,))]) == 1


def _delete(db: sqlite3.Connection, numbers: Sequence[int]) -> int:
    """Delete turns with everything that belongs to them, and the dictionaries that no turn uses any more."""
    for statement in sql.DELETE if numbers else ():
        db.execute(statement, (json.dumps(numbers),))
    if numbers:
        db.execute(sql.DELETE_DICTIONARIES)
    return len(numbers)


def get(db: sqlite3.Connection, turn: str) -> StoredTurn | None:
    """Return a turn."""
    found = _first(db, sql.BY_TURN, turn)
    return None if found is None else found.turn


def find(db: sqlite3.Connection, chosen: TurnFilter, page: Page) -> list[StoredTurn]:
    """Return turns, newest first."""
    names = {"turns.tenant": chosen.tenant, "agent": chosen.agent, "session": chosen.session, "key": chosen.key}
    names |= {"principal": chosen.principal}
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
    number, contents, dictionary = _contents(db, turn)
    return read_entries(db, number) if contents is None else unpack_turn(contents, dictionary or b"").journal


def read_events(db: sqlite3.Connection, turn: str, after: int, limit: int) -> list[bytes]:
    """Return events of a turn."""
    number, contents, dictionary = _contents(db, turn)
    if contents is None:
        return read_lines(db, number, after=after, limit=limit)
    return unpack_turn(contents, dictionary or b"").events[after : after + limit]


def read_entries(db: sqlite3.Connection, number: int | None) -> list[bytes]:
    """Return the journal of a turn that is not compressed."""
    return [entry for (entries,) in db.execute(sql.JOURNAL, (number,)).fetchall() for entry in split_lines(entries)]


def read_lines(db: sqlite3.Connection, number: int | None, *, after: int = 0, limit: int = _ALL) -> list[bytes]:
    """Return events of a turn that is not compressed. A row has at least one, and the first row may have some that come before."""
    found: list[bytes] = []
    for last, lines in db.execute(sql.EVENTS, (number, after, limit)).fetchall():
        together = split_lines(lines)
        found += together[max(0, after - (last + 1 - len(together))) :]
    return found if limit == _ALL else found[:limit]


def read_progress(db: sqlite3.Connection, turns: Collection[str]) -> dict[str, Progress]:
    """Return the status of turns and how many events they have."""
    return {turn: Progress(status, events) for turn, status, events in db.execute(sql.PROGRESS, (json.dumps(list(turns)),))}


def read_load(db: sqlite3.Connection) -> list[Load]:
    """Return how many turns are open, by agent and status."""
    return [Load(*row) for row in db.execute(sql.LOAD)]


def read_state(db: sqlite3.Connection, tenant: str, agent: str, session: str) -> SavedState | None:
    """Return the state of a session."""
    row = db.execute(sql.STATE, (tenant, agent, session)).fetchone()
    return None if row is None else _state(row)


def _accepted_again(db: sqlite3.Connection, now: float, known: _Found, new: NewTurn, *, worker: str | None, lease_s: float) -> Accepted:
    """Return the turn that was accepted before, with its claim where the answer to its first accept was lost."""
    turn = known.turn
    if worker is None or (turn.turn, turn.status, turn.owner, turn.epoch) != (new.turn, "running", worker, 1):
        return Accepted(turn=turn, is_new=False)
    db.execute(sql.RENEW, {"now": now, "lease_s": lease_s, "number": known.number})
    claimed = _claimed(db, known.number)
    return Accepted(turn=claimed.turn, is_new=False, claim=claimed)


def _claim(db: sqlite3.Connection, now: float, number: int, worker: str, lease_s: float) -> Claim:
    db.execute(sql.CLAIM, {"worker": worker, "now": now, "lease_s": lease_s, "number": number})
    return _claimed(db, number)


def _claimed(db: sqlite3.Connection, number: int) -> Claim:
    found = _numbered(db, number)
    return Claim(turn=found.turn, journal=tuple(read_entries(db, number)), events=tuple(read_lines(db, number)), state=found.state)


def _add(db: sqlite3.Connection, now: float, held: _Held, writes: Writes) -> None:
    """Add what the store does not have yet."""
    if not writes.entries and not writes.events:
        return
    entries, events = db.execute(sql.COUNTS, (held.number,)).fetchone()
    check_numbers(writes, entries=entries, events=events)
    number, epoch = held.number, held.epoch
    new_entries = writes.entries[max(0, entries - writes.first_entry) :]
    new_events = writes.events[max(0, events - writes.first_event) :]
    if new_entries:
        db.execute(sql.INSERT_ENTRIES, (number, entries + len(new_entries) - 1, epoch, join_lines(new_entries)))
    if new_events:
        db.execute(sql.INSERT_EVENTS, (number, events + len(new_events) - 1, epoch, now, join_lines(new_events)))


def _end(db: sqlite3.Connection, now: float, number: int, place: int, how: TurnEnd) -> None:
    is_ended = how.status != "waiting"
    db.execute(sql.END, (how.status, how.code, now if is_ended else None, number))
    if how.result is None:
        db.execute(sql.DELETE_RESULT, (number,))
    else:
        db.execute(sql.SAVE_RESULT, (number, how.result))
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


def _found(row: Sequence[Any]) -> _Found:
    """Make a turn of a row of `sql.COLUMNS`."""
    (
        turn, agent, session, header, fingerprint, tenant, role, key, digest, principal, build, is_exclusive, policy, due, position,
        status, created, epoch, attempts, owner, lease_until, used, is_cancel_wanted, is_hidden, said, started, ended, result, code,
        contents, dictionary, number, place, *state,
    ) = row  # fmt: skip
    if contents is not None:
        header, result, *_ = unpack_turn(contents, dictionary or b"")
    stored = StoredTurn(
        turn=turn, agent=agent, session=session, header=header, fingerprint=fingerprint, tenant=tenant, role=role, key=key, digest=digest,
        principal=principal, build=build, is_exclusive=bool(is_exclusive), policy=policy, due=due, position=position,
        status=status, created=created, epoch=epoch, attempts=attempts, owner=owner, lease_until=lease_until, used=used,
        is_cancel_wanted=bool(is_cancel_wanted), is_hidden=bool(is_hidden), answer=said, started=started, ended=ended, result=result,
        code=code,
    )  # fmt: skip
    return _Found(stored, number, place, _state(state))


def _insert_values(turn: StoredTurn, place: int, startable: float) -> tuple[Any, ...]:
    return (
        turn.turn, place, turn.position, turn.tenant, turn.role, turn.key, turn.digest, turn.principal, turn.fingerprint, turn.build,
        turn.is_exclusive, turn.policy, turn.due, turn.status, turn.created, startable, turn.epoch, turn.attempts,
        turn.owner, turn.lease_until, turn.started,
    )  # fmt: skip


def _contents(db: sqlite3.Connection, turn: str) -> tuple[int | None, bytes | None, bytes | None]:
    """Return the number of a turn, what its contents were compressed to, and with which dictionary."""
    return db.execute(sql.CONTENTS, (turn,)).fetchone() or (None, None, None)


def _state(row: Sequence[Any]) -> SavedState | None:
    values, turn, fingerprint = row
    return None if values is None else SavedState(values=values, turn=turn, fingerprint=fingerprint)
