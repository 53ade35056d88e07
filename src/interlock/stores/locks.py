"""Locks that let one turn of a session run at a time: on this event loop, and among processes that share a folder."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from interlock.errors import SessionBusy, StateConflict, StoreFull, StoreUnavailable
from interlock.runtime.file_locks import file_lock
from interlock.stores.event_loops import PerEventLoop

__all__ = ["FileLocks", "LocalLocks", "SessionLocks", "digest", "poll_until_locked", "session_busy", "state_conflict"]

_FIRST_S, _LAST_S = 0.005, 0.1
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

T = TypeVar("T")


class SessionLocks(Protocol):
    """One lock for each session."""

    def hold(self, session: str, *, deadline: float) -> AbstractAsyncContextManager[None]:
        """Hold the lock of a session. Raises SessionBusy if it is not free by `deadline`, in the event loop's time."""
        ...

    async def aclose(self) -> None:
        """Close files and connections of the locks."""
        ...


class LocalLocks:
    """Locks among the tasks of one event loop, in the order in which they waited."""

    def __init__(self) -> None:
        self._loops = PerEventLoop(WeakValueDictionary[str, asyncio.Lock])

    @asynccontextmanager
    async def hold(self, session: str, *, deadline: float) -> AsyncGenerator[None]:
        """Hold the lock of a session."""
        locks = self._loops.get()
        lock = locks.get(session)
        if lock is None:
            lock = locks[session] = asyncio.Lock()
        if lock.locked():
            try:
                async with asyncio.timeout_at(deadline):
                    await lock.acquire()
            except TimeoutError:
                raise session_busy(session) from None
        else:
            await lock.acquire()
        try:
            yield
        finally:
            lock.release()

    async def aclose(self) -> None:
        """Do nothing: a lock exists only while a task holds it or waits for it."""


class FileLocks:
    """Locks among processes, by `flock` on files in a folder. The kernel releases the lock of a killed process.

    Each session has its own file while its lock is held. A file that a killed process left behind is removed with the next
    turn of the session. A few files shared by all sessions were tried first: two sessions that hash to one file wait for each other.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def hold(self, session: str, *, deadline: float) -> AsyncGenerator[None]:
        """Hold the lock of a session."""
        path = self._folder / digest(session).hex()

        async def attempt() -> int | None:
            return self._try(path)

        held = await poll_until_locked(attempt, session=session, deadline=deadline)
        try:
            yield
        finally:
            # Remove the file before releasing the lock: a process that opened it meanwhile then sees that the path has changed.
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(held)

    async def aclose(self) -> None:
        """Do nothing: a file is open only while its lock is held."""

    def _try(self, path: Path) -> int | None:
        try:
            return self._locked(path)
        except OSError as error:
            if error.errno in _FULL:
                raise StoreFull(f"The disk is full: no lock can be created in '{self._folder}'. Free some space.") from error
            raise StoreUnavailable(f"The locks in '{self._folder}' cannot be used ({error.strerror}).") from error

    def _locked(self, path: Path) -> int | None:
        """Open and lock the file. Returns None if another task or process has the lock."""
        lock = file_lock()
        for folder in reversed([folder for folder in path.parents if not folder.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        opened = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        is_locked = False
        try:
            lock(opened)
            is_locked = os.path.samestat(os.fstat(opened), path.stat())
        except (BlockingIOError, FileNotFoundError):
            pass  # another process has the lock, or has just removed the file
        finally:
            if not is_locked:
                os.close(opened)
        return opened if is_locked else None


async def poll_until_locked(attempt: Callable[[], Awaitable[T | None]], *, session: str, deadline: float) -> T:
    """Call `attempt` until it returns a lock, with growing pauses. Raises SessionBusy at `deadline`, in the event loop's time."""
    loop = asyncio.get_running_loop()
    pause = _FIRST_S
    while (made := await attempt()) is None:
        left = deadline - loop.time()
        if left <= 0:
            raise session_busy(session)
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 2, _LAST_S)
    return made


def session_busy(session: str) -> SessionBusy:
    """Return the error for a session whose lock another turn holds."""
    return SessionBusy(f"Another turn holds session '{session:.100}' and did not finish in time. Try again.")


def state_conflict() -> StateConflict:
    """Return the error for a session that another turn has saved first."""
    return StateConflict("Another turn of the session was saved in the meantime. Load the session again.")


def digest(session: str) -> bytes:
    """Return a digest of any text, for use as the name of a lock."""
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()
