"""Checks whether a stored turn can be run again from one of its steps, in a session of another name."""

from __future__ import annotations

from typing import cast

from interlock.errors import InputSchema
from interlock.runtime.turns import ENDED, Page, StoredTurn, TurnFilter, TurnStore

__all__ = ["check_fork"]


async def check_fork(store: TurnStore, turn: str, *, session: str) -> StoredTurn:
    """Return a turn that has ended or waits. Raises InputSchema where it runs, or where the session exists."""
    # Its record has been read, so there is one.
    stored = cast("StoredTurn", await store.get(turn))
    if stored.status not in {*ENDED, "waiting"}:
        raise InputSchema(f"Turn '{turn}' has not ended: it is {stored.status}.")
    if await store.find(TurnFilter(tenant=stored.tenant, agent=stored.agent, session=session, with_hidden=True), Page(limit=1)):
        raise InputSchema(f"There is a session '{session}' already. Fix: leave the name out, or choose another one.")
    return stored
