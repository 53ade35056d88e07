"""The sessions in a SQLite file of checkpoints, read without writing: neither the file nor anything beside it changes."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from interlock.errors import StoreCorrupt, StoreUnavailable

__all__ = ["read_threads"]

_THREADS = "SELECT thread_id, count(*), max(checkpoint_id) FROM checkpoints WHERE checkpoint_ns = '' GROUP BY thread_id ORDER BY 3"


def read_threads(path: Path) -> list[tuple[str, int, str]]:
    """Return each thread with the number of its checkpoints and the id of the newest one. Raises StoreUnavailable or StoreCorrupt."""
    if not path.exists():
        return []
    # Without a write-ahead log beside it, only an immutable connection leaves no new files there.
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as connection:
            has_table = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'checkpoints'").fetchone()[0]
            return connection.execute(_THREADS).fetchall() if has_table else []
    except sqlite3.OperationalError as error:
        raise StoreUnavailable(f"'{path}' cannot be read: {error}.") from error
    except sqlite3.Error as error:
        raise StoreCorrupt(f"'{path}' is damaged or holds no checkpoints ({type(error).__name__}).") from error
