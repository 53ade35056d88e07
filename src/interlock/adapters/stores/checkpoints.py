"""Where LangGraph keeps its checkpoints: in memory, in a SQLite file, on a PostgreSQL server or in Firestore, by URL."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from interlock.adapters.stores.exclusion import Exclusion, FileExclusion, LocalExclusion
from interlock.errors import SettingsInvalid

if TYPE_CHECKING:  # takes most of a second, so each store imports it when it is used
    from interlock.adapters.stores.savers import ComparingSaver
    from interlock.engine.serializer import ClosedSerializer

__all__ = ["Checkpoints", "open_checkpoints"]

_POSTGRES = ("postgresql://", "postgres://")
_FIRESTORE = re.compile(r"(?P<project>[A-Za-z0-9][A-Za-z0-9.:_-]*)(?:/(?P<tenant>[A-Za-z0-9][A-Za-z0-9._-]*))?")


@dataclass(frozen=True)
class Kinds:
    """What checkpoints may hold, and whose they are."""

    types: tuple[type, ...]
    seal: str

    def serializer(self) -> ClosedSerializer:
        from interlock.engine.serializer import ClosedSerializer  # noqa: PLC0415 - see above

        return ClosedSerializer(self.types, seal=self.seal)


class Place(Protocol):
    """Somewhere to keep checkpoints."""

    async def saver(self) -> ComparingSaver:
        """Return what the running event loop is to use, ready for it."""
        ...

    async def aclose(self) -> None:
        """Close what the running event loop uses, and what loops that have ended left open."""
        ...


class Checkpoints:
    """Keeps checkpoints in one place, and gives whoever takes a turn of a session the session for themselves.

    May be used on any event loop, on several one after the other, and after it is closed.
    """

    def __init__(self, place: Place, exclusion: Exclusion, *, timeout_s: float) -> None:
        self._place = place
        self._exclusion = exclusion
        self._local = LocalExclusion()
        self._timeout_s = timeout_s

    async def saver(self) -> ComparingSaver:
        """Return the checkpointer of the running event loop, opened when it is first asked for."""
        return await self._place.saver()

    def exclusive(self, session: str) -> AbstractAsyncContextManager[None]:
        """Hold a session: nobody else on the same store does so meanwhile. Where somebody does for too long: SessionBusy.

        A process that is killed lets go at once. On PostgreSQL so does one whose connection is lost, without noticing: the lock puts
        turns in order, and what others must not have overtaken is stored by `aput_after`, which compares. In memory and on Firestore
        those who are kept out are the others on this event loop.
        """
        return self._held(session)

    @asynccontextmanager
    async def _held(self, session: str) -> AsyncGenerator[None]:
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        async with self._local.hold(session, deadline=deadline), self._exclusion.hold(session, deadline=deadline):
            yield

    async def aclose(self) -> None:
        """Close the files and connections; a later call opens them anew."""
        await self._exclusion.aclose()
        await self._place.aclose()


def open_checkpoints(url: str | None, *, path: Path, types: Iterable[type], seal: str = "", timeout_s: float = 60.0) -> Checkpoints:
    """Return the checkpoints at a URL or, without one, in the SQLite file `path`. Nothing is opened before it is used.

    `types` are the classes of records that they may hold beside plain data, `seal` says whose they are. `timeout_s` is how
    long to wait for the store, and for a session that somebody else holds.
    """
    kinds = Kinds(tuple(types), seal)
    if url is None:
        return _sqlite(path, kinds, timeout_s)
    if url == "memory:":
        return Checkpoints(_Memory(kinds), LocalExclusion(), timeout_s=timeout_s)
    if url.startswith("sqlite:"):
        return _sqlite(_path(url.removeprefix("sqlite:")), kinds, timeout_s)
    if url.startswith(_POSTGRES):
        return _postgres(url, kinds, timeout_s)
    if url.startswith("firestore:"):
        return _firestore(url.removeprefix("firestore:"), kinds, timeout_s)
    raise SettingsInvalid("'checkpoint_url' must be 'memory:', 'sqlite:PATH', 'postgresql://...' or 'firestore:PROJECT'.")


class _Memory:
    """Keeps checkpoints for as long as this object is there, also when it is closed."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._saver: ComparingSaver | None = None

    async def saver(self) -> ComparingSaver:
        from interlock.adapters.stores.savers import MemorySaver  # noqa: PLC0415 - see above

        if self._saver is None:
            self._saver = MemorySaver(self._kinds.serializer())
        return self._saver

    async def aclose(self) -> None:
        pass


class _Sqlite:
    def __init__(self, path: Path, kinds: Kinds, timeout_s: float) -> None:
        self._path = path
        self._kinds = kinds
        self._timeout_s = timeout_s
        self._savers: dict[asyncio.AbstractEventLoop, Any] = {}

    async def saver(self) -> ComparingSaver:
        from interlock.adapters.stores.sqlite_saver import SqliteSaver  # noqa: PLC0415 - see above

        loop = asyncio.get_running_loop()
        saver: SqliteSaver | None = self._savers.get(loop)
        if saver is None:
            saver = self._savers[loop] = SqliteSaver(self._path, serde=self._kinds.serializer(), timeout_s=self._timeout_s)
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


class _Firestore:
    def __init__(self, saver: Any) -> None:
        self._saver = saver

    async def saver(self) -> ComparingSaver:
        return self._saver

    async def aclose(self) -> None:
        await self._saver.aclose()


def _sqlite(path: Path, kinds: Kinds, timeout_s: float) -> Checkpoints:
    own = path.absolute()
    return Checkpoints(_Sqlite(own, kinds, timeout_s), FileExclusion(own.with_name(f"{own.name}.locks")), timeout_s=timeout_s)


def _path(name: str) -> Path:
    if not name or name.startswith((":", "//")) or "\0" in name:
        raise SettingsInvalid(
            "'checkpoint_url' has no path. Write 'sqlite:' and the path: 'sqlite:data/checkpoints.db', 'sqlite:/data/x.db'."
        )
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise SettingsInvalid("'checkpoint_url' begins with the home directory of somebody who has none.") from None


def _postgres(url: str, kinds: Kinds, timeout_s: float) -> Checkpoints:
    try:
        from interlock.adapters.stores.postgres_saver import PostgresCheckpoints  # noqa: PLC0415 - an extra, and most of a second
    except ImportError as error:
        raise SettingsInvalid("PostgreSQL's client is not installed. Run: pip install 'interlock[postgres]'") from error
    place = PostgresCheckpoints(url, types=kinds.types, seal=kinds.seal, timeout_s=timeout_s)
    return Checkpoints(place, place.locks, timeout_s=timeout_s)


def _firestore(name: str, kinds: Kinds, timeout_s: float) -> Checkpoints:
    found = _FIRESTORE.fullmatch(name)
    if found is None:
        raise SettingsInvalid("'checkpoint_url' names no project of Firestore. Write 'firestore:PROJECT' or 'firestore:PROJECT/TENANT'.")
    try:
        from interlock.adapters.stores.firestore import FirestoreCheckpointer  # noqa: PLC0415 - an extra, and most of a second
    except ImportError as error:
        raise SettingsInvalid("Firestore's client is not installed. Run: pip install 'interlock[firestore]'") from error
    tenant = found["tenant"] or "default"
    saver = FirestoreCheckpointer(project=found["project"], tenant=tenant, serde=kinds.serializer(), timeout_s=timeout_s)
    return Checkpoints(_Firestore(saver), LocalExclusion(), timeout_s=timeout_s)
