"""Stores, by settings: sessions, memory, property graphs, and the session state that the runtime itself persists."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from interlock.capabilities.graph_store import GraphStore
from interlock.errors import InterlockError, StoreCorrupt, StoreUnavailable
from interlock.providers.provider import Check, Context
from interlock.secrets import without_password
from interlock.settings import Settings

if TYPE_CHECKING:
    from interlock.adapters.stores.kept import CheckpointedSessions
    from interlock.adapters.stores.memory import StoredMemory
    from interlock.adapters.stores.sessions import RedisSessions
    from interlock.contract import Graph

__all__ = [
    "check_graphs",
    "check_memory",
    "check_session_state",
    "check_sessions",
    "open_graph_tools",
    "open_graphs",
    "open_memory",
    "open_session_state",
    "open_sessions",
]

Close = Callable[[], Awaitable[None]]

_NO_SESSION = ".doctor"  # cannot be the name of a session, because it has a dot


def open_sessions(context: Context) -> RedisSessions:
    """Open the store of session documents."""
    from interlock.adapters.stores.sessions import open_sessions as open_redis  # noqa: PLC0415 - only for agents with sessions

    settings = context.settings
    limits: dict[str, Any] = {"ttl_seconds": settings.session_seconds, "timeout_s": settings.max_call_seconds or 1 << 31}
    return context.closing(open_redis(_clear(settings.session_url), folder=settings.folder / "valkey", **limits))


def open_memory(context: Context) -> StoredMemory:
    """Open the memory that outlives sessions."""
    from interlock.adapters.stores.memory import open_memory as open_stored  # noqa: PLC0415 - only for agents with a memory

    settings = context.settings
    path, timeout_s = settings.folder / "memory.sqlite", settings.max_call_seconds or 1 << 31
    return context.closing(open_stored(_clear(settings.memory_url), path=path, timeout_s=timeout_s))


def open_graphs(context: Context) -> GraphStore:
    """Open the store of property graphs: files of our own, or a server."""
    settings = context.settings
    limits: dict[str, Any] = {"timeout_s": settings.graph_seconds, "max_rows": 1000, "max_bytes": settings.graph_bytes}
    url = _clear(settings.graph_url)
    if url is None:
        from interlock.adapters.graphs.ladybug import open_ladybug  # noqa: PLC0415 - only for agents with property graphs

        return context.closing(open_ladybug(settings.folder / "graphs", **limits))
    from interlock.adapters.graphs.bolt import open_bolt  # noqa: PLC0415 - an extra

    user, password = settings.graph_user, _clear(settings.graph_password) or ""
    return context.closing(open_bolt(url, user=user, password=password, database=settings.graph_database, **limits))


def open_graph_tools(_: Context) -> object:
    """Make the tools of a property graph, which work on the store that they are handed."""
    from interlock.adapters.graphs.registry import GraphTools  # noqa: PLC0415 - only for agents with property graphs

    return GraphTools()


def open_session_state(settings: Settings, graph: Graph | None, fingerprint: str) -> tuple[CheckpointedSessions, Close]:
    """Open the store of the fields that outlive a turn of this graph, and return it with what closes it."""
    from interlock.adapters.stores.checkpoints import open_checkpoints  # noqa: PLC0415 - only for agents that persist fields
    from interlock.adapters.stores.kept import CheckpointedSessions  # noqa: PLC0415 - likewise

    opened = open_checkpoints(
        _clear(settings.checkpoint_url),
        path=settings.folder / "sessions.sqlite",
        types=() if graph is None else graph.state.classes,
        seal=fingerprint,
        timeout_s=settings.max_call_seconds or 1 << 31,
    )
    return CheckpointedSessions(opened, graph="" if graph is None else graph.name, fingerprint=fingerprint), opened.aclose


def _clear(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


async def check_sessions(context: Context) -> AsyncIterator[Check]:
    """Ask the store of session documents whether it is there."""
    settings = context.settings
    place = settings.session_url or settings.folder / "valkey"
    yield await _check_store("sessions", place, lambda: open_sessions(context), "INTERLOCK_SESSION_URL=redis://...")


async def check_memory(context: Context) -> AsyncIterator[Check]:
    """Ask the memory whether it is there."""
    settings = context.settings
    place = settings.memory_url or settings.folder / "memory.sqlite"
    yield await _check_store("memory", place, lambda: open_memory(context), "INTERLOCK_MEMORY_URL=postgresql://...")


async def _check_store(what: str, place: SecretStr | Path, find: Callable[[], Any], elsewhere: str) -> Check:
    """Ask a store whether it is there. An embedded one that does not exist yet is not made: looking changes nothing."""
    where = str(place) if isinstance(place, Path) else without_password(_clear(place) or "")
    fix = elsewhere if isinstance(place, Path) else ""
    if isinstance(place, Path) and not place.exists():  # noqa: ASYNC240 - one look at a file
        return Check(what=what, state="ok", found=f"{where} (made when it is needed)", fix=fix)
    try:
        await find().ping()
    except InterlockError as error:
        return Check(what=what, state="broken", found=f"{where}: {error.message}", fix=fix)
    return Check(what=what, state="ok", found=f"{where} answers", fix=fix)


async def check_graphs(context: Context) -> AsyncIterator[Check]:
    """Ask the graph server for a node. Files exist, or are made when they are needed."""
    folder, url = context.settings.folder / "graphs", _clear(context.settings.graph_url)
    if url is None:
        made = "" if folder.exists() else " (made when they are needed)"
        yield Check(what="graphs", state="ok", found=f"files in {folder}{made}", fix="INTERLOCK_GRAPH_URL=bolt://...")
        return
    shown = without_password(url)
    try:
        await open_graphs(context).nodes(_NO_SESSION, limit=1)
    except InterlockError as error:
        yield Check(what="graphs", state="broken", found=f"{shown}: {error.message}")
    else:
        yield Check(what="graphs", state="ok", found=f"{shown} answers")


async def check_session_state(settings: Settings) -> Check:
    """Look for the sessions of agents whose fields outlive a turn. Neither a file nor a table is made or changed."""
    url = _clear(settings.checkpoint_url)
    shown = str(settings.folder / "sessions.sqlite") if url is None else without_password(url)
    fix = "INTERLOCK_CHECKPOINT_URL=postgresql://... or firestore:PROJECT" if url is None else ""
    try:
        found = await _find_session_state(settings, url)
    except InterlockError as error:
        return Check(what="checkpoints", state="broken", found=f"{shown}: {error.message}", fix=fix)
    return Check(what="checkpoints", state="ok", found=f"{shown} {found}", fix=fix)


async def _find_session_state(settings: Settings, url: str | None) -> str:
    """Say what is at the URL, or raise what a turn would raise."""
    store, close = open_session_state(settings, None, "")
    try:
        if url == "memory:":
            return "(gone when the command ends)"
        if url is None or url.startswith("sqlite:"):
            return _sessions_in(settings.folder / "sessions.sqlite" if url is None else url.removeprefix("sqlite:"))
        if url.startswith("firestore:"):
            await store.load(_NO_SESSION)
        else:
            async with store.exclusive(_NO_SESSION):  # asks the server for a lock, and makes no table
                pass
    finally:
        await close()
    return "answers"


def _sessions_in(place: Path | str) -> str:
    """Count the sessions in a file without writing: a connection that may write leaves files beside it."""
    path = Path(place).expanduser()
    if not path.exists():
        return "(made when it is needed)"
    if not path.is_file() or not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreUnavailable("it cannot be written.")
    how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as connection:
            is_ours = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'checkpoints'").fetchone()[0]
            count = connection.execute("SELECT count(DISTINCT thread_id) FROM checkpoints").fetchone()[0] if is_ours else 0
    except sqlite3.Error as error:
        raise StoreCorrupt(f"it is damaged or holds no checkpoints ({type(error).__name__}).") from error
    return f"has {count} session{'' if count == 1 else 's'}"
