"""Who may take a turn of a session: one at a time, on this event loop, and among the processes that share a file."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from interlock.errors import SessionBusy, StateConflict, StoreFull, StoreUnavailable

__all__ = ["Exclusion", "FileExclusion", "LocalExclusion", "busy", "digest", "overtaken", "patiently"]

_FIRST_S, _LAST_S = 0.005, 0.1
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

T = TypeVar("T")


class Exclusion(Protocol):
    """Lets one hold a session at a time."""

    def hold(self, session: str, *, deadline: float) -> AbstractAsyncContextManager[None]:
        """Hold a session. Where others do until the deadline, by the event loop's time, it is SessionBusy."""
        ...

    async def aclose(self) -> None:
        """Close what is open for it."""
        ...


class LocalExclusion:
    """Lets one task of the event loop hold a session, in the order in which they came."""

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, asyncio.Lock]] = WeakKeyDictionary()

    @asynccontextmanager
    async def hold(self, session: str, *, deadline: float) -> AsyncGenerator[None]:
        """Hold a session."""
        locks = self._loops.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        lock = locks.get(session)
        if lock is None:
            lock = locks[session] = asyncio.Lock()
        if lock.locked():
            try:
                async with asyncio.timeout_at(deadline):
                    await lock.acquire()
            except TimeoutError:
                raise busy(session) from None
        else:
            await lock.acquire()
        try:
            yield
        finally:
            lock.release()

    async def aclose(self) -> None:
        """Do nothing: a lock is there for as long as somebody wants it."""


class FileExclusion:
    """Lets one task of all processes hold a session, by a locked file in a folder. The system lets go of it for whoever is killed.

    Each session has a file of its own for as long as it is held; one that somebody left who was killed goes with the next
    turn of the session. A few files for all sessions were tried first: two sessions that meet in one wait for each other.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def hold(self, session: str, *, deadline: float) -> AsyncGenerator[None]:
        """Hold a session."""
        path = self._folder / digest(session).hex()

        async def attempt() -> int | None:
            return self._try(path)

        held = await patiently(attempt, session=session, deadline=deadline)
        try:
            yield
        finally:
            # Only who has the lock takes the file away, and before letting go: whoever opened it meanwhile finds it gone.
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(held)

    async def aclose(self) -> None:
        """Do nothing: a file is open for as long as its session is held."""

    def _try(self, path: Path) -> int | None:
        try:
            return self._locked(path)
        except OSError as error:
            if error.errno in _FULL:
                raise StoreFull(f"There is no room left for the locks in '{self._folder}'.") from error
            raise StoreUnavailable(f"The locks in '{self._folder}' cannot be used ({error.strerror}).") from error

    def _locked(self, path: Path) -> int | None:
        """Open and lock the file; None where somebody else has it."""
        for folder in reversed([folder for folder in path.parents if not folder.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        opened = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        is_ours = False
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(opened), path.stat())
        except (BlockingIOError, FileNotFoundError):
            pass  # somebody has it, or had it and has taken it away
        finally:
            if not is_ours:
                os.close(opened)
        return opened if is_ours else None


async def patiently(attempt: Callable[[], Awaitable[T | None]], *, session: str, deadline: float) -> T:
    """Try until there is something, at first often and then less; at the deadline, by the event loop's time, it is SessionBusy."""
    loop = asyncio.get_running_loop()
    pause = _FIRST_S
    while (made := await attempt()) is None:
        left = deadline - loop.time()
        if left <= 0:
            raise busy(session)
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 2, _LAST_S)
    return made


def busy(session: str) -> SessionBusy:
    """Say that somebody else has a session."""
    return SessionBusy(f"Session '{session:.100}' is held by another turn, which did not end in time.")


def overtaken() -> StateConflict:
    """Say that another turn of the session was saved first."""
    return StateConflict("Another turn of the session has ended in the meantime.")


def digest(session: str) -> bytes:
    """Give a session a name of fixed length, so that any text has one of its own."""
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()
