"""Opens the turn store at a URL."""

from __future__ import annotations

from pathlib import Path

from interlock.errors import SettingsInvalid
from interlock.extras import require
from interlock.runtime.turns import TurnStore
from interlock.stores.turns_memory import MemoryTurns
from interlock.stores.turns_sqlite import SqliteTurns

__all__ = ["open_turns"]

_POSTGRES = ("postgresql://", "postgres://")
_URL = "The URL of the turn store cannot be used. It is 'postgresql://user:password@host:5432/database', 'sqlite:PATH' or 'memory:'."


def open_turns(url: str | None, folder: Path) -> TurnStore:
    """Return the turn store at a URL: `postgresql://...`, `sqlite:PATH` or `memory:`. Without a URL it is a file in `folder`.

    A relative path is in `folder`. The store is opened at its first use.
    """
    if url is None:
        return SqliteTurns(folder / "turns.db")
    if url == "memory:":
        return MemoryTurns()
    if url.startswith("sqlite:"):
        path = url.removeprefix("sqlite:")
        if not path or path.startswith("//"):  # 'sqlite:///a/b' is a relative path to some programs, and an absolute one to others
            raise SettingsInvalid(_URL)
        return SqliteTurns(folder / path)
    if url.startswith(_POSTGRES):
        require("psycopg", extra="postgres", what="PostgreSQL's client")
        from interlock.stores.turns_postgres import PostgresTurns  # noqa: PLC0415 - an extra

        return PostgresTurns(url)
    raise SettingsInvalid(_URL)
