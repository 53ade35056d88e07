"""Checkpoint stores for LangGraph, opened by URL: in memory, in a SQLite file, on a PostgreSQL server or in Firestore."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from interlock.errors import SettingsInvalid
from interlock.extras import require
from interlock.stores.locks import FileLocks, LocalLocks, SessionLocks

if TYPE_CHECKING:  # takes most of a second, so each store imports it when it is used
    from interlock.engine.serializer import ClosedSerializer
    from interlock.stores.savers import ComparingSaver

__all__ = ["Checkpoints", "open_checkpoints"]

_POSTGRES = ("postgresql://", "postgres://")
_FIRESTORE = re.compile(r"(?P<project>[A-Za-z0-9][A-Za-z0-9.:_-]*)(?:/(?P<tenant>[A-Za-z0-9][A-Za-z0-9._-]*))?")


@dataclass(frozen=True)
class StoredTypes:
    """The classes that checkpoints may contain, and the seal that identifies their owner."""

    types: tuple[type, ...]
    seal: str

    def serializer(self) -> ClosedSerializer:
        from interlock.engine.serializer import ClosedSerializer  # noqa: PLC0415 - see above

        return ClosedSerializer(self.types, seal=self.seal)

    def memory_saver(self) -> ComparingSaver:
        from interlock.stores.savers import MemorySaver  # noqa: PLC0415 - see above

        return MemorySaver(self.serializer())


class CheckpointStore(Protocol):
    """Gives out checkpointers."""

    async def saver(self) -> ComparingSaver:
        """Return the checkpointer of the running event loop, ready for use."""
        ...

    async def aclose(self) -> None:
        """Close the checkpointer of the running event loop, and those that closed loops left open."""
        ...


class Checkpoints:
    """A checkpoint store with a lock for each session. Can be used from several event loops, and again after `aclose`."""

    def __init__(self, store: CheckpointStore, locks: SessionLocks, *, timeout_s: float) -> None:
        self._store = store
        self._locks = locks
        self._local = LocalLocks()
        self._timeout_s = timeout_s

    async def saver(self) -> ComparingSaver:
        """Return the checkpointer of the running event loop. Opens it at the first call."""
        return await self._store.saver()

    def exclusive(self, session: str) -> AbstractAsyncContextManager[None]:
        """Hold the lock of a session. Raises SessionBusy if another turn holds it for too long.

        The lock of a killed process is released at once. On PostgreSQL the lock is also released, without notice, when the
        connection is lost: the lock only orders turns, and `aput_after` detects conflicts. In memory and on Firestore the lock
        works only among the tasks of this event loop.
        """
        return self._hold(session)

    @asynccontextmanager
    async def _hold(self, session: str) -> AsyncGenerator[None]:
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        async with self._local.hold(session, deadline=deadline), self._locks.hold(session, deadline=deadline):
            yield

    async def aclose(self) -> None:
        """Close the files and connections. A later call opens them again."""
        await self._locks.aclose()
        await self._store.aclose()


def open_checkpoints(url: str | None, *, path: Path, types: Iterable[type], seal: str = "", timeout_s: float = 60.0) -> Checkpoints:
    """Return the checkpoints at a URL or, without one, in the SQLite file `path`. They are opened at the first use.

    `types` are the classes that checkpoints may contain besides plain data, and `seal` identifies their owner. `timeout_s` limits
    how long to wait for the store, and for the lock of a session.
    """
    stored_types = StoredTypes(tuple(types), seal)
    if url is None:
        return _sqlite(path, stored_types, timeout_s)
    if url == "memory:":
        return Checkpoints(_SharedStore(stored_types.memory_saver), LocalLocks(), timeout_s=timeout_s)
    if url.startswith("sqlite:"):
        return _sqlite(_path(url.removeprefix("sqlite:")), stored_types, timeout_s)
    if url.startswith(_POSTGRES):
        return _postgres(url, stored_types, timeout_s)
    if url.startswith("firestore:"):
        return _firestore(url.removeprefix("firestore:"), stored_types, timeout_s)
    raise SettingsInvalid("'checkpoint_url' must be 'memory:', 'sqlite:PATH', 'postgresql://...' or 'firestore:PROJECT'.")


class _SharedStore:
    """A store with one checkpointer for all event loops, created at first use. It survives `aclose`."""

    def __init__(self, create: Callable[[], ComparingSaver]) -> None:
        self._create = create
        self._saver: ComparingSaver | None = None

    async def saver(self) -> ComparingSaver:
        if self._saver is None:
            self._saver = self._create()
        return self._saver

    async def aclose(self) -> None:
        close = getattr(self._saver, "aclose", None)
        if close is not None:
            await close()


class _SqliteStore:
    def __init__(self, path: Path, stored_types: StoredTypes, timeout_s: float) -> None:
        self._path = path
        self._stored_types = stored_types
        self._timeout_s = timeout_s
        self._savers: dict[asyncio.AbstractEventLoop, Any] = {}

    async def saver(self) -> ComparingSaver:
        from interlock.stores.sqlite_saver import SqliteSaver  # noqa: PLC0415 - see above

        loop = asyncio.get_running_loop()
        saver: SqliteSaver | None = self._savers.get(loop)
        if saver is None:
            saver = self._savers[loop] = SqliteSaver(self._path, serde=self._stored_types.serializer(), timeout_s=self._timeout_s)
            await self._close_ended()
        await saver.open()
        return saver

    async def aclose(self) -> None:
        saver = self._savers.get(asyncio.get_running_loop())
        if saver is not None:
            await saver.aclose()
        await self._close_ended()

    async def _close_ended(self) -> None:
        for loop in [loop for loop in self._savers if loop.is_closed()]:
            await self._savers.pop(loop).abandon()


def _sqlite(path: Path, stored_types: StoredTypes, timeout_s: float) -> Checkpoints:
    own = path.absolute()
    return Checkpoints(_SqliteStore(own, stored_types, timeout_s), FileLocks(own.with_name(f"{own.name}.locks")), timeout_s=timeout_s)


def _path(name: str) -> Path:
    if not name or name.startswith((":", "//")) or "\0" in name:
        raise SettingsInvalid(
            "'checkpoint_url' has no path. Write 'sqlite:' and the path: 'sqlite:data/checkpoints.db', 'sqlite:/data/x.db'."
        )
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise SettingsInvalid("'checkpoint_url' starts with the home directory of an unknown user.") from None


def _postgres(url: str, stored_types: StoredTypes, timeout_s: float) -> Checkpoints:
    require("psycopg", extra="postgres", what="PostgreSQL's client")
    from interlock.stores.postgres_saver import PostgresCheckpoints  # noqa: PLC0415 - an extra, and most of a second

    store = PostgresCheckpoints(url, types=stored_types.types, seal=stored_types.seal, timeout_s=timeout_s)
    return Checkpoints(store, store.locks, timeout_s=timeout_s)


def _firestore(name: str, stored_types: StoredTypes, timeout_s: float) -> Checkpoints:
    found = _FIRESTORE.fullmatch(name)
    if found is None:
        raise SettingsInvalid("'checkpoint_url' has no Firestore project. Write 'firestore:PROJECT' or 'firestore:PROJECT/TENANT'.")
    require("google.cloud.firestore", extra="firestore", what="Firestore's client")
    from interlock.stores.firestore import FirestoreCheckpointer  # noqa: PLC0415 - an extra, and most of a second

    tenant = found["tenant"] or "default"
    saver = FirestoreCheckpointer(project=found["project"], tenant=tenant, serde=stored_types.serializer(), timeout_s=timeout_s)
    return Checkpoints(_SharedStore(lambda: saver), LocalLocks(), timeout_s=timeout_s)
