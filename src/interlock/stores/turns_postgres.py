"""Turns on a PostgreSQL server, which several machines share: the extra `interlock[postgres]`.

The work is done by functions in the database (turns_postgres.sql), so that each method is one statement and one round trip. The
statements are prepared, and changes are heard by LISTEN: there must be no pooler in between that shares connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psycopg

from interlock.errors import InterlockError, Internal, StoreCorrupt, TurnUnknown
from interlock.runtime.turns import (
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
    Verdict,
    Writes,
    check_key,
    is_same_answer,
    refuse_answer,
    refuse_turn,
)
from interlock.stores.event_loops import PerEventLoop
from interlock.stores.postgres_connections import Connection, PostgresConnections
from interlock.stores.turn_changes import TurnChanges
from interlock.stores.turns_packing import pack, unpack

__all__ = ["PostgresTurns"]

VERSION = 2
_SCHEMA = Path(__file__).with_suffix(".sql")
_SETUP_LOCK = 0x17E8_10CF  # key of the advisory lock: any number, the same in every process
_PAUSE_S = 1.0
_PAGE = Page()

_COLUMNS = (
    "t.turn, agent, session, header, t.fingerprint, t.tenant, role, key, digest, principal, build, is_exclusive, policy, due, position, "
    "status, created, epoch, attempts, owner, lease_until, used, is_cancel_wanted, is_hidden, answer, started, ended, result, code"
)
_FROM = "FROM interlock.turns t JOIN interlock.sessions s ON s.number = t.place"
_TURN = f"SELECT {_COLUMNS} {_FROM} "
_ENTRIES = "ARRAY(SELECT entry FROM interlock.journal j WHERE j.turn = t.number ORDER BY seq)"
_LINES = "ARRAY(SELECT line FROM interlock.events e WHERE e.turn = t.number ORDER BY seq)"
_CLAIMED = f"SELECT {_COLUMNS}, {_ENTRIES}, {_LINES}, state, state_by, s.fingerprint {_FROM} "
_CLAIMS = _CLAIMED + (
    "JOIN unnest(%s::bigint[], %s::integer[]) WITH ORDINALITY AS c (claimed, under, place_in_order) "
    "ON t.number = claimed AND epoch = under ORDER BY place_in_order"
)

_ACCEPT = "SELECT * FROM interlock.accept(%s, %s, %s, %s, %s, %s, %s, %b, %s, %s, %s, %s, %s, %s, %s, %s)"
_CLAIM = "SELECT claimed, under FROM interlock.claim(%s, %s, %s, %s, %s)"
_WRITE = "SELECT interlock.write(%s, %s, %s::bytea[], %s, %s::bytea[], %s)"
_END = "SELECT interlock.end_turn(%s, %s, %s, %b, %s, %b, %s::bytea[], %s, %s::bytea[], %s)"
_RENEW = "SELECT renewed, is_wanted FROM interlock.renew(%s, %s, %s, %s)"
_OLD = "SELECT number FROM interlock.turns WHERE ended < %s AND NOT is_packed ORDER BY ended LIMIT %s"
_ROWS = f"SELECT {_ENTRIES}, {_LINES} FROM interlock.turns t WHERE number = %s AND NOT is_packed"  # noqa: S608 - constants
_PACKED = "FROM interlock.turns t LEFT JOIN interlock.packed p ON p.turn = t.number WHERE t.turn = %s"
_JOURNAL = f"SELECT {_ENTRIES}, p.journal {_PACKED}"
_LINES_AFTER = "ARRAY(SELECT line FROM interlock.events e WHERE e.turn = t.number AND seq >= %s ORDER BY seq LIMIT %s)"
_EVENTS = f"SELECT {_LINES_AFTER}, p.events {_PACKED}"

_PARTS = ", ".join(
    f"{table}_gone AS (DELETE FROM interlock.{table} WHERE turn IN (SELECT number FROM chosen))"  # noqa: S608 - constants
    for table in ("journal", "events", "packed")
)
_DELETE = (
    f"WITH chosen AS (SELECT number FROM interlock.turns WHERE turn = %s AND ended IS NOT NULL FOR UPDATE), {_PARTS} "  # noqa: S608 - constants
    "DELETE FROM interlock.turns WHERE number IN (SELECT number FROM chosen) RETURNING number"
)
_PROGRESS = (
    "SELECT turn, status, (SELECT coalesce(max(seq) + 1, 0) FROM interlock.events e WHERE e.turn = t.number) "
    "FROM interlock.turns t WHERE turn = ANY (%s)"
)
_LOAD = (
    "SELECT agent, status, count(*), min(created) FROM interlock.turns t JOIN interlock.sessions s ON s.number = t.place "
    "WHERE status IN ('queued', 'ready', 'running', 'waiting') GROUP BY agent, status"
)


class PostgresTurns:
    """Turns on a server. Leases go by the server's clock."""

    def __init__(self, url: str, *, timeout_s: float = 10.0) -> None:
        self._connections = PostgresConnections(url, what="The turn store", set_up=_set_up, timeout_s=timeout_s)
        self._listeners = PerEventLoop(_Listener, release=_Listener.finish)

    async def accept(self, new: NewTurn, *, worker: str | None = None, lease_s: float = 3.0) -> Accepted:
        """Store a turn; with `worker`, claim it at once if it can start."""
        values = (
            new.turn, new.tenant, new.agent, new.session, new.role, new.key, new.digest, new.principal, new.header, new.fingerprint,
            new.build, new.is_exclusive, new.policy, new.due, worker, float(lease_s),
        )  # fmt: skip
        ((outcome, known, position, status, created, *state),) = await self._connections.query(_ACCEPT, values)
        if outcome in {"busy", "waiting"}:
            raise refuse_turn(new, is_waiting=outcome == "waiting")
        if known is not None:
            return await self._known(known, new, is_claimed=outcome == "again")
        turn = StoredTurn(**vars(new), position=position, status=status, created=created)
        if outcome == "new":
            self._note()
            return Accepted(turn=turn, is_new=True)
        turn = replace(turn, epoch=1, attempts=1, owner=worker, lease_until=created + lease_s, started=created)
        return Accepted(turn=turn, is_new=True, claim=Claim(turn=turn, state=_state(state)))

    async def claim(
        self, worker: str, *, fingerprints: Collection[str], limit: int = 1, lease_s: float = 3.0, only: Collection[str] = ()
    ) -> list[Claim]:
        """Claim turns: first those whose lease is over, then those that are ready."""
        values = (worker, list(fingerprints), limit, float(lease_s), list(only) or None)
        return await self._claimed(await self._connections.query(_CLAIM, values))

    async def write(self, turn: str, epoch: int, writes: Writes) -> Verdict:
        """Store journal entries and events."""
        ((verdict,),) = await self._connections.query(_WRITE, (turn, epoch, *_written(writes)))
        self._note()
        return _verdict(verdict, writes)

    async def end(self, turn: str, epoch: int, end: TurnEnd, writes: Writes) -> Verdict:
        """Store how a turn ended; make the session's next turn ready."""
        values = (turn, epoch, end.status, end.result, end.code, end.state, *_written(writes))
        ((verdict,),) = await self._connections.query(_END, values)
        self._note()
        return _verdict(verdict, writes)

    async def renew(self, worker: str, turns: Mapping[str, int], *, lease_s: float = 3.0) -> dict[str, Verdict]:
        """Extend the leases of a worker's turns."""
        if not turns:
            return {}
        rows = await self._connections.query(_RENEW, (worker, list(turns), list(turns.values()), float(lease_s)))
        held = dict(rows)
        return {turn: "lost" if turn not in held else "stop" if held[turn] else "ok" for turn in turns}

    async def give_back(self, turn: str, epoch: int) -> Verdict:
        """End the lease of a turn."""
        ((verdict,),) = await self._connections.query("SELECT interlock.give_back(%s, %s)", (turn, epoch))
        self._note()
        return verdict

    async def answer(self, turn: str, answer: bytes, entry: bytes, *, worker: str | None = None, lease_s: float = 3.0) -> Accepted:
        """Store a person's answer to a waiting turn."""
        statement = "SELECT interlock.answer(%s, %b, %b, %s, %s)"
        ((epoch,),) = await self._connections.query(statement, (turn, answer, entry, worker, float(lease_s)))
        if epoch is None:
            return await self._answered(turn, answer, entry)
        self._note()
        rows = await self._connections.query(f"{_CLAIMED} WHERE t.turn = %s", (turn,))
        if not rows:
            raise TurnUnknown(f"There is no turn '{turn}'.")
        claim = _claim(rows[0])
        return Accepted(turn=claim.turn, is_new=False, claim=claim if worker is not None and claim.turn.epoch == epoch else None)

    async def cancel(self, turn: str, *, is_rollback: bool = False) -> StoredTurn:
        """End a turn as cancelled."""
        await self._connections.query("SELECT interlock.cancel(%s, %s)", (turn, is_rollback))
        self._note()
        found = await self.get(turn)
        if found is None:
            raise TurnUnknown(f"There is no turn '{turn}'.")
        return found

    async def get(self, turn: str) -> StoredTurn | None:
        """Return a turn."""
        rows = await self._connections.query(f"{_TURN} WHERE t.turn = %s", (turn,))
        return _stored(rows[0]) if rows else None

    async def find(self, chosen: TurnFilter, page: Page | None = None) -> list[StoredTurn]:
        """Return turns, newest first."""
        page = page or _PAGE
        names = {"t.tenant": chosen.tenant, "agent": chosen.agent, "session": chosen.session, "key": chosen.key}
        names |= {"principal": chosen.principal}
        where = [f"{column} = %s" for column, value in names.items() if value is not None]
        values: list[Any] = [value for value in names.values() if value is not None]
        if chosen.statuses:
            where.append("status = ANY (%s)")
            values.append(list(chosen.statuses))
        if not chosen.with_hidden:
            where.append("NOT is_hidden")
        if page.before is not None:
            where.append("t.number < (SELECT number FROM interlock.turns WHERE turn = %s)")
            values.append(page.before)
        statement = f"{_TURN} WHERE {' AND '.join(where) or 'TRUE'} ORDER BY t.number DESC LIMIT %s"
        return [_stored(row) for row in await self._connections.query(statement, (*values, page.limit))]

    async def journal(self, turn: str) -> list[bytes]:
        """Return the journal of a turn."""
        rows = await self._connections.query(_JOURNAL, (turn,))
        return [] if not rows else rows[0][0] if rows[0][1] is None else unpack(rows[0][1])

    async def events(self, turn: str, *, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return the events of a turn from number `after` on."""
        rows = await self._connections.query(_EVENTS, (after, limit, turn))
        return [] if not rows else rows[0][0] if rows[0][1] is None else unpack(rows[0][1])[after : after + limit]

    async def progress(self, turns: Collection[str]) -> dict[str, Progress]:
        """Return the status of turns and how many events they have."""
        rows = await self._connections.query(_PROGRESS, (list(turns),))
        return {turn: Progress(status, events) for turn, status, events in rows}

    async def load(self) -> list[Load]:
        """Return how many turns are open, by agent and status."""
        return [Load(*row) for row in await self._connections.query(_LOAD)]

    async def state(self, tenant: str, agent: str, session: str) -> SavedState | None:
        """Return the state of a session."""
        statement = "SELECT state, state_by, fingerprint FROM interlock.sessions WHERE tenant = %s AND agent = %s AND session = %s"
        rows = await self._connections.query(statement, (tenant, agent, session))
        return _state(rows[0]) if rows else None

    async def prune(self, *, ended_before: float, limit: int = 1000) -> int:
        """Delete turns that ended before a time."""
        ((count,),) = await self._connections.query("SELECT interlock.prune(%s, %s)", (float(ended_before), limit))
        return count

    async def delete(self, turn: str) -> bool:
        """Delete a turn that has ended."""
        deleted = await self._connections.query(_DELETE, (turn,))
        for number in deleted:
            # The statement does not see what was packed while it waited for the turn.
            await self._connections.query("DELETE FROM interlock.packed WHERE turn = %s", number)
        return bool(deleted)

    async def compact(self, *, ended_before: float, limit: int = 1000) -> int:
        """Compress the journals and events of turns that ended before a time."""
        count = 0
        for (number,) in await self._connections.query(_OLD, (float(ended_before), limit)):
            for entries, lines in await self._connections.query(_ROWS, (number,)):
                values = (number, pack(entries), pack(lines))
                ((is_packed,),) = await self._connections.query("SELECT interlock.pack(%s, %b, %b)", values)
                count += is_packed
        return count

    async def changed(self, *, timeout_s: float, since: int | None = None) -> int:
        """Return when turns may have changed, or after a time."""
        listener = self._listeners.get()
        if listener.task is None or listener.task.done():
            listener.task = asyncio.create_task(self._listen(listener))
        return await listener.changes.wait(timeout_s=timeout_s, since=since)

    async def now(self) -> float:
        """Return the time of the server's clock."""
        ((now,),) = await self._connections.query("SELECT interlock.clock()")
        return now

    async def aclose(self) -> None:
        """Finish what was begun, and close the connections. A later call opens new ones."""
        listener = self._listeners.pop()
        if listener is not None and listener.task is not None:
            listener.task.cancel()
            await asyncio.wait({listener.task})
            listener.finish()
        self._listeners.release_all()
        await self._connections.aclose()

    def _note(self) -> None:
        """Wake the tasks of this event loop without waiting for the server's notification."""
        self._listeners.get().changes.note()

    async def _listen(self, listener: _Listener) -> None:
        """Hear the changes of all processes. While the server cannot be reached, tasks that wait look each second."""
        while True:
            with contextlib.suppress(InterlockError, psycopg.Error, OSError):
                listener.connection = await self._connections.connect()
                await listener.connection.execute("LISTEN interlock_turns")
                listener.changes.note()  # what happened before was not heard
                async for _ in listener.connection.notifies():
                    listener.changes.note()
            listener.finish()
            listener.changes.note()
            await asyncio.sleep(_PAUSE_S)

    async def _known(self, turn: str, new: NewTurn, *, is_claimed: bool) -> Accepted:
        rows = await self._connections.query(f"{_CLAIMED} WHERE t.turn = %s", (turn,))
        if not rows:  # it was pruned meanwhile
            raise TurnUnknown(f"There is no turn '{turn}' any more.")
        claim = _claim(rows[0])
        check_key(claim.turn, new)
        return Accepted(turn=claim.turn, is_new=False, claim=claim if is_claimed and claim.turn.epoch == 1 else None)

    async def _answered(self, turn: str, answer: bytes, entry: bytes) -> Accepted:
        found = await self.get(turn)
        if found is None or not is_same_answer(found, answer, await self.journal(turn), entry):
            raise refuse_answer(found, turn)
        return Accepted(turn=found, is_new=False)

    async def _claimed(self, taken: Sequence[tuple[Any, ...]]) -> list[Claim]:
        """Return claims with what belongs to them, but for those that another worker has claimed since."""
        if not taken:
            return []
        numbers, epochs = zip(*taken, strict=True)
        return [_claim(row) for row in await self._connections.query(_CLAIMS, (list(numbers), list(epochs)))]


class _Listener:
    """What one event loop hears."""

    def __init__(self) -> None:
        self.changes = TurnChanges()
        self.task: asyncio.Task[None] | None = None
        self.connection: Connection | None = None

    def finish(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.pgconn.finish()


async def _set_up(connection: Connection) -> None:
    """Create the tables if they do not exist, by one process at a time."""
    if await _is_set_up(connection):
        return
    # A lock of the session, not of the transaction: in the transaction that waited for it, the new tables would not be seen.
    await connection.execute("SELECT pg_advisory_lock(%s)", (_SETUP_LOCK,))
    if not await _is_set_up(connection):
        async with connection.transaction():
            await connection.execute(cast("Any", _SCHEMA.read_text("utf-8")))
    await connection.execute("SELECT pg_advisory_unlock(%s)", (_SETUP_LOCK,))


async def _is_set_up(connection: Connection) -> bool:
    cursor = await connection.execute("SELECT to_regclass('interlock.version') IS NOT NULL")
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return False
    row = await (await connection.execute("SELECT version FROM interlock.version")).fetchone()
    if row is None or row[0] > VERSION:
        raise StoreCorrupt("The turn store was written by a newer version of Interlock, and is left as it is. Use that version.")
    if row[0] < VERSION:
        raise StoreCorrupt("The turn store was written by Interlock before its first release, and is left as it is. Fix: drop its schema.")
    return True


def _written(writes: Writes) -> tuple[Any, ...]:
    return list(writes.entries), writes.first_entry, list(writes.events), writes.first_event


def _verdict(verdict: str, writes: Writes) -> Verdict:
    if verdict == "gap":
        raise Internal(f"A write begins at entry {writes.first_entry} and event {writes.first_event}, but fewer are stored.")
    return cast("Verdict", verdict)


def _claim(row: Sequence[Any]) -> Claim:
    *turn, journal, events, state, state_by, fingerprint = row
    return Claim(turn=_stored(turn), journal=tuple(journal), events=tuple(events), state=_state((state, state_by, fingerprint)))


def _stored(row: Sequence[Any]) -> StoredTurn:
    """Make a turn of a row of `_COLUMNS`."""
    (
        turn, agent, session, header, fingerprint, tenant, role, key, digest, principal, build, is_exclusive, policy, due, position,
        status, created, epoch, attempts, owner, lease_until, used, is_cancel_wanted, is_hidden, answer, started, ended, result, code,
    ) = row  # fmt: skip
    return StoredTurn(
        turn=turn, agent=agent, session=session, header=header, fingerprint=fingerprint, tenant=tenant, role=role, key=key, digest=digest,
        principal=principal, build=build, is_exclusive=is_exclusive, policy=policy, due=due, position=position,
        status=status, created=created, epoch=epoch, attempts=attempts, owner=owner, lease_until=lease_until, used=used,
        is_cancel_wanted=is_cancel_wanted, is_hidden=is_hidden, answer=answer, started=started, ended=ended, result=result, code=code,
    )  # fmt: skip


def _state(row: Sequence[Any]) -> SavedState | None:
    values, turn, fingerprint = row
    return None if values is None else SavedState(values=values, turn=turn, fingerprint=fingerprint)
