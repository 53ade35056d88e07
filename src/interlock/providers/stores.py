"""Stores, by settings: sessions, memory, and the session state that the runtime itself persists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from interlock.errors import InterlockError
from interlock.extras import require
from interlock.providers.provider import Check, Context
from interlock.secrets import without_password
from interlock.settings import Settings

if TYPE_CHECKING:
    from interlock.contract import Graph
    from interlock.stores.memory import StoredMemory
    from interlock.stores.session_state import CheckpointedSessions
    from interlock.stores.sessions import RedisSessions

__all__ = [
    "check_memory",
    "check_sessions",
    "missing_memory",
    "missing_session_state",
    "missing_sessions",
    "open_memory",
    "open_session_state",
    "open_sessions",
]

Close = Callable[[], Awaitable[None]]


def open_sessions(context: Context) -> RedisSessions:
    """Open the store of session documents."""
    require("redis", extra="redis", what="Redis's client")
    from interlock.stores.sessions import open_sessions as open_redis  # noqa: PLC0415 - only for agents with sessions

    settings = context.settings
    limits: dict[str, Any] = {"ttl_seconds": settings.session_seconds, "timeout_s": settings.max_call_seconds or 1 << 31}
    return context.closing(open_redis(_clear(settings.session_url), folder=settings.folder / "valkey", **limits))


def open_memory(context: Context) -> StoredMemory:
    """Open the memory that outlives sessions."""
    require("langgraph", extra="langgraph", what="LangGraph, whose stores keep the memory,")
    from interlock.stores.memory import open_memory as open_stored  # noqa: PLC0415 - only for agents with a memory

    settings = context.settings
    path, timeout_s = settings.folder / "memory.sqlite", settings.max_call_seconds or 1 << 31
    return context.closing(open_stored(_clear(settings.memory_url), path=path, timeout_s=timeout_s))


def open_session_state(settings: Settings, graph: Graph | None, fingerprint: str) -> tuple[CheckpointedSessions, Close]:
    """Open the store of the fields that outlive a turn of this graph, and return it with what closes it."""
    require("langgraph", extra="langgraph", what="LangGraph, whose checkpoints keep the fields that an agent persists,")
    from interlock.stores.checkpoints import open_checkpoints  # noqa: PLC0415 - only for agents that persist fields
    from interlock.stores.session_state import CheckpointedSessions  # noqa: PLC0415 - as above

    opened = open_checkpoints(
        _clear(settings.checkpoint_url),
        path=settings.folder / "sessions.sqlite",
        types=() if graph is None else graph.state.classes,
        seal=fingerprint,
        timeout_s=settings.max_call_seconds or 1 << 31,
    )
    return CheckpointedSessions(opened, graph="" if graph is None else graph.name, fingerprint=fingerprint), opened.aclose


def missing_sessions(settings: Settings) -> str | None:
    """Return the setting that several machines need to share session documents, where it is not set."""
    return "session_url" if settings.session_url is None else None


def missing_memory(settings: Settings) -> str | None:
    """Return the setting that several machines need to share the memory, where it is not set."""
    return "memory_url" if _is_local(settings.memory_url) else None


def missing_session_state(settings: Settings) -> str | None:
    """Return the setting that several machines need to share the fields that outlive a turn, where it is not set."""
    return "checkpoint_url" if _is_local(settings.checkpoint_url) else None


def _is_local(secret: SecretStr | None) -> bool:
    url = _clear(secret)
    return url is None or url.startswith(("memory:", "sqlite:"))


def _clear(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


async def check_sessions(context: Context) -> AsyncIterator[Check]:
    """Check that the store of session documents answers."""
    require("redis", extra="redis", what="Redis's client")
    settings = context.settings
    place = settings.session_url or settings.folder / "valkey"
    yield await _check_store("sessions", place, lambda: open_sessions(context), "INTERLOCK_SESSION_URL=redis://...")


async def check_memory(context: Context) -> AsyncIterator[Check]:
    """Check that the memory answers."""
    require("langgraph", extra="langgraph", what="LangGraph, whose stores keep the memory,")
    settings = context.settings
    place = settings.memory_url or settings.folder / "memory.sqlite"
    yield await _check_store("memory", place, lambda: open_memory(context), "INTERLOCK_MEMORY_URL=postgresql://...")


async def _check_store(what: str, place: SecretStr | Path, find: Callable[[], Any], elsewhere: str) -> Check:
    """Check that a store answers. An embedded one that does not exist yet is not created: a check changes nothing."""
    where = str(place) if isinstance(place, Path) else without_password(_clear(place) or "")
    fix = elsewhere if isinstance(place, Path) else ""
    if isinstance(place, Path) and not place.exists():  # noqa: ASYNC240 - one look at a file
        return Check(what=what, state="ok", found=f"{where} (created when it is needed)", fix=fix)
    try:
        await find().ping()
    except InterlockError as error:
        return Check(what=what, state="broken", found=f"{where}: {error.message}", fix=fix)
    return Check(what=what, state="ok", found=f"{where} answers", fix=fix)
