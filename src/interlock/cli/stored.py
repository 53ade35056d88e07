"""Lists and deletes the sessions of checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from interlock.secrets import without_password
from interlock.settings import Settings
from interlock.stores.session_files import read_threads

__all__ = [
    "StoredSession",
    "delete_checkpoints",
    "list_checkpoint_sessions",
    "unlisted_checkpoints",
]

_UUID_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class StoredSession:
    """A session with persisted fields."""

    graph: str
    session: str
    turns: int
    """How many turns have stored their fields."""
    changed: str | None
    """When the last turn stored its fields."""


def unlisted_checkpoints(settings: Settings) -> str | None:
    """Return the place of the checkpoints if its sessions cannot be listed, else None. Those of a SQLite file can."""
    return None if _sqlite_file(settings) is not None else without_password(_checkpoint_url(settings) or "")


def list_checkpoint_sessions(settings: Settings) -> list[StoredSession]:
    """List the sessions in the SQLite file of the checkpoints. The file is opened read-only."""
    path = _sqlite_file(settings)
    return [] if path is None else [_session(*row) for row in read_threads(path)]


async def delete_checkpoints(settings: Settings, session: StoredSession) -> None:
    """Delete the checkpoints of a session."""
    from interlock.stores.checkpoints import open_checkpoints  # noqa: PLC0415 - importing LangGraph takes most of a second

    checkpoints = open_checkpoints(_checkpoint_url(settings), path=settings.folder / "sessions.sqlite", types=())
    thread = f"{session.graph}:{session.session}"
    try:
        async with checkpoints.exclusive(thread):
            await (await checkpoints.saver()).adelete_thread(thread)
    finally:
        await checkpoints.aclose()


def _session(thread: str, turns: int, newest: str) -> StoredSession:
    graph, _, session = thread.rpartition(":")
    return StoredSession(graph=graph, session=session, turns=turns, changed=_time_of(newest))


def _time_of(checkpoint: str) -> str | None:
    """Return the time in the id of a checkpoint, which is a UUID of version 6."""
    try:
        digits = UUID(checkpoint).hex
    except ValueError:
        return None
    return _shown(_UUID_EPOCH + timedelta(microseconds=int(digits[:12] + digits[13:16], 16) // 10))


def _checkpoint_url(settings: Settings) -> str | None:
    return None if settings.checkpoint_url is None else settings.checkpoint_url.get_secret_value()


def _sqlite_file(settings: Settings) -> Path | None:
    url = _checkpoint_url(settings)
    if url is None:
        return settings.folder / "sessions.sqlite"
    return Path(url.removeprefix("sqlite:")).expanduser() if url.startswith("sqlite:") else None


def _shown(when: datetime) -> str:
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")
