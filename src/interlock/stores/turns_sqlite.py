"""Turns in a SQLite file, which several processes of one machine may share.

One thread writes, with group commit; another one reads. A short turn costs two transactions: accept with its claim, and its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TypeVar

from interlock.errors import InterlockError, StateUnstorable, StoreCorrupt, StoreFull, StoreUnavailable
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
)
from interlock.stores import turns_sqlite_compaction as compaction
from interlock.stores import turns_sqlite_transactions as transactions
from interlock.stores.event_loops import PerEventLoop
from interlock.stores.sqlite import CORRUPT, FULL, LONGEST_S, PRIMARY, check_writable, create, log_ahead
from interlock.stores.sqlite_commits import GroupCommit, begin
from interlock.stores.turn_changes import TurnChanges

__all__ = ["SqliteTurns"]

VERSION = 3
APPLICATION = 0x17E8_10CE  # says whose file it is
_SCHEMA = Path(__file__).with_suffix(".sql")
_POLL_S, _BUSY_POLL_S = 0.02, 0.002
_BUSY_S = 1.0
"""How often the file is looked at, and how long more often after another process has written to it."""
_PAGE = Page()

T = TypeVar("T")


class SqliteTurns:
    """Turns in a file. `now` is its clock.

    With `synchronous` NORMAL, what was acknowledged survives the death of any process; with FULL also a power cut, for about ten
    times the time of a commit.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], float] = time.time,
        timeout_s: float = 10.0,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
    ) -> None:
        self._path = path.absolute()
        self._now = now
        self._timeout_s = min(timeout_s, LONGEST_S)
        self._synchronous = synchronous
        self._writing = _Connection(self._path, self._open)
        self._reading = _Connection(self._path, self._open)
        self._commits = GroupCommit(self._writing.get, discard=self._writing.close, translate=self._translated, timeout_s=self._timeout_s)
        self._starting = threading.Lock()
        self._reader: ThreadPoolExecutor | None = None
        self._pollings = PerEventLoop(_ChangePolling)

    async def accept(self, new: NewTurn, *, worker: str | None = None, lease_s: float = 3.0) -> Accepted:
        """Store a turn; with `worker`, claim it at once if it can start."""
        return await self._write(lambda db: transactions.accept(db, self._now(), new, worker=worker, lease_s=lease_s))

    async def claim(
        self, worker: str, *, fingerprints: Collection[str], limit: int = 1, lease_s: float = 3.0, only: Collection[str] = ()
    ) -> list[Claim]:
        """Claim turns: first those whose lease is over, then those that are ready."""
        # An idle worker asks again and again, and should not take the lock of the file for that.
        if not await self._read(lambda db: transactions.can_claim(db, self._now(), fingerprints, lease_s)):
            return []
        return await self._commits.run(
            lambda db: transactions.claim(db, self._now(), worker, fingerprints=fingerprints, limit=limit, lease_s=lease_s, only=only)
        )

    async def write(self, turn: str, epoch: int, writes: Writes) -> Verdict:
        """Store journal entries and events."""
        return await self._write(lambda db: transactions.write(db, self._now(), turn, epoch, writes))

    async def end(self, turn: str, epoch: int, end: TurnEnd, writes: Writes) -> Verdict:
        """Store how a turn ended; make the session's next turn ready."""
        return await self._write(lambda db: transactions.end(db, self._now(), turn, epoch, how=end, writes=writes))

    async def renew(self, worker: str, turns: Mapping[str, int], *, lease_s: float = 3.0) -> dict[str, Verdict]:
        """Extend the leases of a worker's turns."""
        return await self._commits.run(lambda db: transactions.renew(db, self._now(), worker, turns, lease_s=lease_s))

    async def give_back(self, turn: str, epoch: int) -> Verdict:
        """End the lease of a turn."""
        return await self._write(lambda db: transactions.give_back(db, self._now(), turn, epoch))

    async def answer(self, turn: str, answer: bytes, entry: bytes, *, worker: str | None = None, lease_s: float = 3.0) -> Accepted:
        """Store a person's answer to a waiting turn."""
        return await self._write(
            lambda db: transactions.answer(db, self._now(), turn, said=answer, entry=entry, worker=worker, lease_s=lease_s)
        )

    async def cancel(self, turn: str, *, is_rollback: bool = False) -> StoredTurn:
        """End a turn as cancelled."""
        return await self._write(lambda db: transactions.cancel(db, self._now(), turn, is_rollback=is_rollback))

    async def get(self, turn: str) -> StoredTurn | None:
        """Return a turn."""
        return await self._read(lambda db: transactions.get(db, turn))

    async def find(self, chosen: TurnFilter, page: Page | None = None) -> list[StoredTurn]:
        """Return turns, newest first."""
        return await self._read(lambda db: transactions.find(db, chosen, page or _PAGE))

    async def journal(self, turn: str) -> list[bytes]:
        """Return the journal of a turn."""
        return await self._read(lambda db: transactions.read_journal(db, turn))

    async def events(self, turn: str, *, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return the events of a turn from number `after` on."""
        return await self._read(lambda db: transactions.read_events(db, turn, after, limit))

    async def progress(self, turns: Collection[str]) -> dict[str, Progress]:
        """Return the status of turns and how many events they have."""
        return await self._read(lambda db: transactions.read_progress(db, turns))

    async def load(self) -> list[Load]:
        """Return how many turns are open, by agent and status."""
        return await self._read(transactions.read_load)

    async def state(self, tenant: str, agent: str, session: str) -> SavedState | None:
        """Return the state of a session."""
        return await self._read(lambda db: transactions.read_state(db, tenant, agent, session))

    async def prune(self, *, ended_before: float, limit: int = 1000) -> int:
        """Delete turns that ended before a time."""
        return await self._write(lambda db: transactions.prune(db, ended_before, limit))

    async def delete(self, turn: str) -> bool:
        """Delete a turn that has ended."""
        return await self._write(lambda db: transactions.delete(db, turn))

    async def compact(self, *, ended_before: float, limit: int = 1000) -> int:
        """Compress the journals and events of turns that ended before a time."""
        return await self._commits.run(lambda db: compaction.compact(db, self._now(), ended_before, limit))

    async def changed(self, *, timeout_s: float, since: int | None = None) -> int:
        """Return when turns may have changed, or after a time. Other processes' changes are seen within 20 ms, and then within 2."""
        polling = self._pollings.get()
        polling.waiters += 1
        if polling.waiters == 1:
            polling.task = asyncio.create_task(self._poll(polling))
        try:
            return await polling.changes.wait(timeout_s=timeout_s, since=since)
        finally:
            polling.waiters -= 1
            if polling.waiters == 0 and polling.task is not None:
                polling.task.cancel()

    async def now(self) -> float:
        """Return the time."""
        return self._now()

    async def aclose(self) -> None:
        """Finish what was begun, and close the file. A later call opens it again."""
        await self._commits.aclose()
        with self._starting:
            reader, self._reader = self._reader, None
        if reader is not None:
            await asyncio.get_running_loop().run_in_executor(reader, self._reading.close)
            reader.shutdown()

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        result = await self._commits.run(work)
        self._pollings.get().changes.note()
        return result

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._starting:
            if self._reader is None:
                self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interlock-turns")
            reader = self._reader
        return await asyncio.get_running_loop().run_in_executor(reader, self._read_now, work)

    def _read_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            db = self._reading.get()
            db.execute("BEGIN")
            try:
                return work(db)
            finally:
                db.execute("COMMIT")
        except InterlockError:
            raise
        except Exception as error:
            with contextlib.suppress(sqlite3.Error):
                self._reading.close()
            raise self._translated(error) from error

    async def _poll(self, polling: _ChangePolling) -> None:
        """Notice the commits of all connections but the reading one, which makes none."""
        loop = asyncio.get_running_loop()
        busy_until = 0.0
        while True:
            try:
                version = await self._read(lambda db: db.execute("PRAGMA data_version").fetchone()[0])
            except InterlockError:
                version = None  # the next read gets the error
            if version is None or version != polling.version:
                polling.version = version
                polling.changes.note()
                busy_until = loop.time() + _BUSY_S
            await asyncio.sleep(_BUSY_POLL_S if loop.time() < busy_until else _POLL_S)

    def _open(self) -> sqlite3.Connection:
        create(self._path)
        check_writable(self._path)
        connection = sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False)
        try:
            deadline = time.monotonic() + self._timeout_s
            log_ahead(connection, deadline)
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            self._set_up(connection, deadline)
            connection.execute("PRAGMA busy_timeout = 0")  # see `begin`
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection, deadline: float) -> None:
        """Create the tables if they do not exist, in one transaction: a process that is killed leaves none half done."""
        if self._is_set_up(connection):
            return
        begin(connection, deadline)
        if not self._is_set_up(connection):
            for statement in _SCHEMA.read_text("utf-8").split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")

    def _is_set_up(self, connection: sqlite3.Connection) -> bool:
        # Tables are looked for first: another process that creates them in between also writes whose they are.
        has_tables = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None
        ((application,), (version,)) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
        if application == APPLICATION and version > VERSION:
            raise StoreCorrupt(f"'{self._path}' was written by a newer version of Interlock, and is left as it is. Use that version.")
        if application == APPLICATION and version == VERSION:
            return True
        if application == APPLICATION and has_tables:
            raise StoreCorrupt(
                f"'{self._path}' was written by Interlock before its first release, and is left as it is. Fix: move it away."
            )
        if has_tables:
            raise StoreCorrupt(f"'{self._path}' is not a file of turns. It is left as it is.")
        return False

    def _translated(self, error: Exception) -> InterlockError:
        code: int | None = getattr(error, "sqlite_errorcode", None)
        if isinstance(error, UnicodeError):
            return StateUnstorable("An id or a key of the turn holds a character that cannot be stored.")
        if isinstance(error, OSError):
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = error.strerror or os.strerror(error.errno or 0)
            return self._full() if is_full else StoreUnavailable(f"The turns in '{self._path}' cannot be opened ({reason}).")
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if code is not None and {code, code & PRIMARY} & FULL:
            return self._full()
        if code is not None and code & PRIMARY in CORRUPT:
            return StoreCorrupt(f"The file '{self._path}' is damaged or is not a file of turns ({name}). It is left as it is.")
        return StoreUnavailable(f"The turns in '{self._path}' cannot be used ({name}).")

    def _full(self) -> StoreFull:
        return StoreFull(f"The disk is full: the turns in '{self._path}' cannot be written. Free some space.")


class _ChangePolling:
    """Who waits for changes in one event loop."""

    def __init__(self) -> None:
        self.changes = TurnChanges()
        self.version: int | None = None
        self.waiters = 0
        self.task: asyncio.Task[None] | None = None


class _Connection:
    """A connection that is opened at first use, and again when the file was replaced: what is written to a deleted file is lost."""

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self._name = str(path)
        self._connect = connect
        self._opened: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def get(self) -> sqlite3.Connection:
        if self._opened is not None and self._file == self._seen():
            return self._opened
        self.close()
        self._opened = self._connect()
        self._file = self._seen()
        return self._opened

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _seen(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._name)  # noqa: PTH116 - a third of the time
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino
