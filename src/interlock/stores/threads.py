"""What clients say about their sessions, beside the turns: a SQLite file next to the turn store's, or tables in the same database.

A thread is a session that a client has created by name, with metadata; it may have no turn yet. Notes are what a client says about
one turn. Every row belongs to a tenant: the same id of another tenant is another thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from interlock.errors import SettingsInvalid, StoreUnavailable
from interlock.extras import require
from interlock.stores.sqlite import check_writable, create

if TYPE_CHECKING:
    from interlock.stores.postgres_connections import Connection

__all__ = ["Note", "Thread", "ThreadStore", "contains", "open_threads", "touched"]

Note = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Thread:
    """A session with what its clients said about it. Times are in seconds since 1970."""

    id: str
    graph: str | None = None
    """The graph that its turns enter; None before the first turn."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    created: float = 0.0
    updated: float = 0.0
    is_deleted: bool = False
    """Whether it was deleted. The row stays, so that its turns are not found by a new thread of the same name."""


class ThreadStore(Protocol):
    """Keeps threads and notes. Raises StoreError where it cannot be used."""

    async def add(self, tenant: str, thread: Thread) -> bool:
        """Store a new thread; return whether it is new. One that was deleted is not."""
        ...

    async def get(self, tenant: str, id_: str) -> Thread | None:
        """Return a thread, a deleted one too."""
        ...

    async def change(self, tenant: str, id_: str, change: Callable[[Thread], Thread]) -> Thread | None:
        """Replace a thread by a changed one, in one transaction; return it."""
        ...

    async def all(self, tenant: str) -> list[Thread]:
        """Return the threads of a tenant, the newest first, without those that were deleted."""
        ...

    async def put_note(self, tenant: str, turn: str, note: Note) -> None:
        """Store what a client says about a turn, in addition to what is stored already."""
        ...

    async def notes(self, tenant: str, turns: Collection[str]) -> dict[str, Note]:
        """Return the notes on turns."""
        ...

    async def aclose(self) -> None:
        """Close what is open."""
        ...


def contains(value: Any, wanted: Any) -> bool:
    """Return whether JSON data has all of `wanted`: objects may have more keys."""
    if isinstance(wanted, Mapping):
        if not isinstance(value, Mapping):
            return False
        held = cast("Mapping[str, Any]", value)
        return all(key in held and contains(held[key], one) for key, one in cast("Mapping[str, Any]", wanted).items())
    return type(value) is type(wanted) and value == wanted


def open_threads(turn_url: str | None, folder: Path) -> ThreadStore:
    """Return the thread store that belongs to a turn store. It is opened at its first use."""
    if turn_url is None:
        return SqliteThreads(folder / "threads.db")
    if turn_url == "memory:":
        return MemoryThreads()
    if turn_url.startswith("sqlite:"):
        return SqliteThreads((folder / turn_url.removeprefix("sqlite:")).with_name("threads.db"))
    if turn_url.startswith(("postgresql://", "postgres://")):
        require("psycopg", extra="postgres", what="PostgreSQL's client")
        return PostgresThreads(turn_url)
    raise SettingsInvalid("The URL of the turn store cannot be used for threads.")


class MemoryThreads:
    """Threads in memory."""

    def __init__(self) -> None:
        self._threads: dict[tuple[str, str], Thread] = {}
        self._notes: dict[tuple[str, str], Note] = {}

    async def add(self, tenant: str, thread: Thread) -> bool:
        """Store a new thread."""
        return self._threads.setdefault((tenant, thread.id), thread) is thread

    async def get(self, tenant: str, id_: str) -> Thread | None:
        """Return a thread."""
        return self._threads.get((tenant, id_))

    async def change(self, tenant: str, id_: str, change: Callable[[Thread], Thread]) -> Thread | None:
        """Replace a thread."""
        found = self._threads.get((tenant, id_))
        if found is not None:
            found = self._threads[tenant, id_] = change(found)
        return found

    async def all(self, tenant: str) -> list[Thread]:
        """Return the threads of a tenant."""
        found = [thread for (owner, _), thread in self._threads.items() if owner == tenant and not thread.is_deleted]
        return sorted(found, key=lambda thread: thread.created, reverse=True)

    async def put_note(self, tenant: str, turn: str, note: Note) -> None:
        """Store a note."""
        self._notes[tenant, turn] = {**self._notes.get((tenant, turn), {}), **note}

    async def notes(self, tenant: str, turns: Collection[str]) -> dict[str, Note]:
        """Return the notes on turns."""
        return {turn: self._notes[tenant, turn] for turn in turns if (tenant, turn) in self._notes}

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""


_TABLES = (
    "CREATE TABLE IF NOT EXISTS threads (tenant TEXT NOT NULL, id TEXT NOT NULL, thread TEXT NOT NULL, PRIMARY KEY (tenant, id)) STRICT",
    "CREATE TABLE IF NOT EXISTS notes (tenant TEXT NOT NULL, turn TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY (tenant, turn)) STRICT",
)


class SqliteThreads:
    """Threads in a file, which each call opens: a call is one transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._is_set_up = False

    async def add(self, tenant: str, thread: Thread) -> bool:
        """Store a new thread."""
        statement = "INSERT INTO threads VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING id"
        return bool(await self._run(lambda db: db.execute(statement, (tenant, thread.id, _dump(thread))).fetchall()))

    async def get(self, tenant: str, id_: str) -> Thread | None:
        """Return a thread."""
        return await self._run(lambda db: _select(db, tenant, id_))

    async def change(self, tenant: str, id_: str, change: Callable[[Thread], Thread]) -> Thread | None:
        """Replace a thread."""

        def changed(db: sqlite3.Connection) -> Thread | None:
            db.execute("BEGIN IMMEDIATE")
            found = _select(db, tenant, id_)
            if found is not None:
                found = change(found)
                db.execute("UPDATE threads SET thread = ? WHERE tenant = ? AND id = ?", (_dump(found), tenant, id_))
            return found

        return await self._run(changed)

    async def all(self, tenant: str) -> list[Thread]:
        """Return the threads of a tenant."""
        statement = (
            "SELECT thread FROM threads WHERE tenant = ? AND NOT json_extract(thread, '$.is_deleted') "
            "ORDER BY json_extract(thread, '$.created') DESC"
        )
        return [_parse(thread) for (thread,) in await self._run(lambda db: db.execute(statement, (tenant,)).fetchall())]

    async def put_note(self, tenant: str, turn: str, note: Note) -> None:
        """Store a note."""
        statement = "INSERT INTO notes VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET note = json_patch(note, excluded.note)"
        await self._run(lambda db: db.execute(statement, (tenant, turn, json.dumps(note))).fetchall())

    async def notes(self, tenant: str, turns: Collection[str]) -> dict[str, Note]:
        """Return the notes on turns."""
        statement = "SELECT turn, note FROM notes WHERE tenant = ? AND turn IN (SELECT value FROM json_each(?))"
        found = await self._run(lambda db: db.execute(statement, (tenant, json.dumps(list(turns)))).fetchall())
        return {turn: json.loads(note) for turn, note in found}

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    async def _run(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        return await asyncio.to_thread(self._run_now, work)

    def _run_now(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        try:
            if not self._is_set_up:
                create(self._path)
                check_writable(self._path)
            with contextlib.closing(sqlite3.connect(self._path, timeout=10.0)) as db, db:
                if not self._is_set_up:
                    db.execute("PRAGMA journal_mode = WAL")
                    for statement in _TABLES:
                        db.execute(statement)
                    self._is_set_up = True
                return work(db)
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(f"The threads in '{self._path}' cannot be used ({type(error).__name__}).") from error


class PostgresThreads:
    """Threads in tables of the database that has the turns."""

    def __init__(self, url: str) -> None:
        from interlock.stores.postgres_connections import PostgresConnections  # noqa: PLC0415 - an extra

        self._connections = PostgresConnections(url, what="The thread store", set_up=_set_up, timeout_s=10.0)

    async def add(self, tenant: str, thread: Thread) -> bool:
        """Store a new thread."""
        statement = "INSERT INTO interlock.threads VALUES (%s, %s, %s::jsonb) ON CONFLICT DO NOTHING RETURNING id"
        return bool(await self._connections.query(statement, (tenant, thread.id, _dump(thread))))

    async def get(self, tenant: str, id_: str) -> Thread | None:
        """Return a thread."""
        found = await self._connections.query("SELECT thread::text FROM interlock.threads WHERE tenant = %s AND id = %s", (tenant, id_))
        return _parse(found[0][0]) if found else None

    async def change(self, tenant: str, id_: str, change: Callable[[Thread], Thread]) -> Thread | None:
        """Replace a thread, if it has not changed since it was read; else read it again."""
        statement = "UPDATE interlock.threads SET thread = %s::jsonb WHERE tenant = %s AND id = %s AND thread = %s::jsonb RETURNING id"
        while (found := await self.get(tenant, id_)) is not None:
            changed = change(found)
            if await self._connections.query(statement, (_dump(changed), tenant, id_, _dump(found))):
                return changed
        return None

    async def all(self, tenant: str) -> list[Thread]:
        """Return the threads of a tenant."""
        statement = (
            "SELECT thread::text FROM interlock.threads WHERE tenant = %s AND thread->'is_deleted' = 'false' "
            "ORDER BY (thread->>'created')::float8 DESC"
        )
        return [_parse(thread) for (thread,) in await self._connections.query(statement, (tenant,))]

    async def put_note(self, tenant: str, turn: str, note: Note) -> None:
        """Store a note."""
        statement = (
            "INSERT INTO interlock.notes AS known VALUES (%s, %s, %s::jsonb) ON CONFLICT (tenant, turn) "
            "DO UPDATE SET note = known.note || excluded.note RETURNING turn"
        )
        await self._connections.query(statement, (tenant, turn, json.dumps(note)))

    async def notes(self, tenant: str, turns: Collection[str]) -> dict[str, Note]:
        """Return the notes on turns."""
        statement = "SELECT turn, note::text FROM interlock.notes WHERE tenant = %s AND turn = ANY(%s)"
        return {turn: json.loads(note) for turn, note in await self._connections.query(statement, (tenant, list(turns)))}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()


async def _set_up(connection: Connection) -> None:
    """Create the tables if they do not exist, by one process at a time."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(401737936)")
        await connection.execute("CREATE SCHEMA IF NOT EXISTS interlock")
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS interlock.threads "
            "(tenant text NOT NULL, id text NOT NULL, thread jsonb NOT NULL, PRIMARY KEY (tenant, id))"
        )
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS interlock.notes "
            "(tenant text NOT NULL, turn text NOT NULL, note jsonb NOT NULL, PRIMARY KEY (tenant, turn))"
        )


def _select(db: sqlite3.Connection, tenant: str, id_: str) -> Thread | None:
    found = db.execute("SELECT thread FROM threads WHERE tenant = ? AND id = ?", (tenant, id_)).fetchone()
    return None if found is None else _parse(found[0])


def _dump(thread: Thread) -> str:
    return json.dumps(asdict(thread))


def _parse(stored: str) -> Thread:
    return Thread(**json.loads(stored))


def touched(thread: Thread, **changes: Any) -> Thread:
    """Return a thread with changes that were made now."""
    return replace(thread, updated=time.time(), **changes)
