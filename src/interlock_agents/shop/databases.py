"""SQLite files that tools read: created atomically, opened read-only."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from interlock.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable

__all__ = ["MAX_SECONDS", "build", "reading", "translated"]

MAX_SECONDS = 10.0
"""How long one query may take. It runs in a thread, which cannot be stopped after its caller was cancelled."""

_BUSY_S = 1.0  # how long to wait for a writer
_STEPS = 10_000  # virtual machine instructions of SQLite between two checks of the time
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH})
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_PRIMARY = 0xFF  # an extended code has the primary one in its last byte


@contextmanager
def reading(path: Path, *, what: str) -> Generator[sqlite3.Connection, None, None]:
    """Open a file read-only with a new connection, which works in any thread. Queries that take too long are interrupted."""
    with translated(path, what), closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)) as connection:
        until = time.monotonic() + MAX_SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
        yield connection


def build(path: Path, *, what: str, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Create a file under a temporary name and rename it when it is complete, so that concurrent builders do not conflict."""
    with translated(path, what):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)
        os.close(handle)
        unfinished = Path(name)
        try:
            with closing(sqlite3.connect(unfinished)) as connection, connection:
                fill(connection)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


@contextmanager
def translated(path: Path, what: str) -> Generator[None, None, None]:
    """Raise errors about a file or a folder as a StoreError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _typed(error, f"{what} '{path.name}'") from error
    except OSError as error:
        # Only the name of the file: a caller of a tool must not see paths of this machine.
        kind = StoreFull if error.errno in _NO_ROOM else StoreUnavailable
        raise kind(f"{what} '{path.name}' cannot be reached: {error.strerror or type(error).__name__}.") from error


def _typed(error: sqlite3.Error, whose: str) -> StoreError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"{whose} cannot be written: the disk is full.")
    if code == sqlite3.SQLITE_INTERRUPT:
        return StoreUnavailable(f"{whose} takes longer than {MAX_SECONDS:g} seconds to look through.")
    if code in _CORRUPT:
        return StoreCorrupt(f"{whose} cannot be used: {error}.")
    return StoreUnavailable(f"{whose} cannot be opened: {error}.")
