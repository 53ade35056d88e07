"""What a fork of a turn takes to its new session: the input fields that name the session, and what the agent keeps by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.agent import Agent, SessionCopy
from interlock.errors import InterlockError
from interlock.runtime.recording import Record
from interlock.runtime.sessions import stored_session

__all__ = ["session_copy", "session_fields"]


def session_fields(agent: Agent, session: str, other: str) -> set[str]:
    """Return the input fields that an agent fills with the session: those that differ where only the session does."""
    if agent.parse_input is None:
        return set()
    try:
        one, two = (agent.parse_input("?", name) for name in (session, other))
    except InterlockError:
        return set()
    return {name for name in one if (one[name], two.get(name)) == (session, other)}


def session_copy(record: Record, to: str, find: Callable[[type], Any]) -> SessionCopy:
    """Return what an agent needs to copy the session of a recorded turn."""
    read: dict[str, Any] = {}
    for entry in sorted(record.entries, key=lambda entry: entry.sequence):
        if entry.error is None and entry.question is None and not entry.is_intent:
            read.setdefault(f"{entry.capability}.{entry.method}", entry.result)
    old, new = (stored_session(record.header.tenant, name) for name in (record.header.session, to))
    return SessionCopy(session=old, to=new, find=find, read=read)
