"""The state of sessions as checkpoints of LangGraph: one for each turn, in any store that has a checkpointer.

They are checkpoints like those that LangGraph writes itself, so a thread can be gone on with, looked at and forked by its own means.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from interlock.adapters.stores.exclusion import overtaken
from interlock.adapters.stores.savers import ComparingSaver, Put
from interlock.contract.state import Values
from interlock.engine.checkpointer import SealedCheckpointer
from interlock.errors import StoreCorrupt
from interlock.runtime.sessions import StoredState

__all__ = ["CheckpointedSessions", "OpenCheckpoints"]

_TURN = "interlock_turn"


class OpenCheckpoints(Protocol):
    """A store of checkpoints, and a lock that puts those in order who add to a thread."""

    async def saver(self) -> ComparingSaver: ...

    def exclusive(self, session: str) -> AbstractAsyncContextManager[None]: ...


class CheckpointedSessions:
    """Keeps the sessions of one graph; those of another, or of the same graph with other contracts, are not for it."""

    def __init__(self, checkpoints: OpenCheckpoints, *, graph: str, fingerprint: str) -> None:
        self._checkpoints = checkpoints
        self._graph = graph
        self._fingerprint = fingerprint

    def exclusive(self, session: str) -> AbstractAsyncContextManager[None]:
        """Hold off everybody else who would take a turn of the session."""
        return self._checkpoints.exclusive(self._thread(session))

    async def load(self, session: str) -> StoredState:
        """Return the state that the last turn left."""
        found = await self._sealed(await self._checkpoints.saver()).aget_tuple(self._config(session))
        if found is None:
            return StoredState()
        return StoredState(values=found.checkpoint["channel_values"], version=found.checkpoint["id"])

    async def save(self, session: str, values: Values, *, expected: str | None, turn: str) -> None:
        """Add a checkpoint, if the last one is still the expected one, else raise StateConflict.

        The store compares again in the transaction that adds it: whatever became of the lock, nobody adds anything in between.
        """
        saver = await self._checkpoints.saver()
        sealed = self._sealed(saver)
        last = await sealed.aget_tuple(self._config(session))
        versions: dict[str, Any] = {} if last is None else last.checkpoint["channel_versions"]
        known = {} if last is None else {name: value for name, value in last.checkpoint["channel_values"].items() if name in versions}
        written = saver.serde.dumps_typed
        changed = [name for name, value in values.items() if name not in known or written(known[name]) != written(value)]
        if expected != (None if last is None else last.checkpoint["id"]):
            if last is not None and _told(last).get(_TURN) == turn and all(known.get(name) == values[name] for name in changed):
                return  # it was saved, and then something broke before anybody was told
            raise overtaken()
        version = saver.get_next_version(max(versions.values(), default=None), None)
        new: dict[str, Any] = dict.fromkeys(changed, version)
        checkpoint = empty_checkpoint()
        checkpoint["id"] = _next_id(expected)
        checkpoint["channel_values"] = values
        # What LangGraph keeps for itself stays behind: a node that it was about to run is not to be run after this turn.
        checkpoint["channel_versions"] = {name: versions[name] for name in values if name in versions} | new
        metadata: Any = {"source": "loop", "step": _next_step(last), "parents": {}, _TURN: turn}
        config = self._config(session) if last is None else last.config
        await saver.aput_after(Put(config, checkpoint, sealed.sealed(metadata), new), expected=expected)

    def _sealed(self, saver: ComparingSaver) -> SealedCheckpointer:
        return SealedCheckpointer(saver, graph=self._graph, fingerprint=self._fingerprint)

    def _thread(self, session: str) -> str:
        return f"{self._graph}:{session}"

    def _config(self, session: str) -> RunnableConfig:
        return {"configurable": {"thread_id": self._thread(session), "checkpoint_ns": ""}}


def _told(found: CheckpointTuple) -> dict[str, Any]:
    metadata: Any = found.metadata
    return metadata


def _next_step(last: CheckpointTuple | None) -> int:
    step = -1 if last is None else _told(last).get("step", -1)
    if type(step) is not int:
        raise StoreCorrupt("A checkpoint has a step that is no number; it is left as it is.")
    return step + 1


def _next_id(last: str | None) -> str:
    """Make an id that comes after the last one, also where the clock has gone back: the highest is the newest."""
    made = str(uuid6())
    if last is None or made > last:
        return made
    try:
        made = str(UUID(int=UUID(last).int + 1))
    except ValueError:
        made = ""
    if made <= last:
        raise StoreCorrupt("A checkpoint has an id after which none comes; it is left as it is.")
    return made
