"""Session state as LangGraph checkpoints: one for each turn, in any checkpoint store.

They have the format of LangGraph's own checkpoints, so its tools can resume, inspect and fork a thread.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from interlock.contract.state import Values
from interlock.engine.checkpointer import SealedCheckpointer
from interlock.errors import StateConflict, StoreCorrupt
from interlock.runtime.sessions import StoredState
from interlock.stores.locks import state_conflict
from interlock.stores.savers import ComparingSaver, Put

__all__ = ["CheckpointedSessions", "OpenCheckpoints"]

_TURN = "interlock_turn"
_EPOCH = "interlock_epoch"


class OpenCheckpoints(Protocol):
    """A checkpoint store with a lock for each thread."""

    async def saver(self) -> ComparingSaver: ...

    def exclusive(self, session: str) -> AbstractAsyncContextManager[None]: ...


class CheckpointedSessions:
    """Stores the sessions of one graph. Rejects those of another graph, or of the same graph with other contracts."""

    def __init__(self, checkpoints: OpenCheckpoints, *, graph: str, fingerprint: str) -> None:
        self._checkpoints = checkpoints
        self._graph = graph
        self._fingerprint = fingerprint

    def exclusive(self, session: str) -> AbstractAsyncContextManager[None]:
        """Hold the lock of the session, so that no other turn of it runs."""
        return self._checkpoints.exclusive(self._thread(session))

    async def load(self, session: str) -> StoredState:
        """Return the state after the last turn."""
        found = await self._sealed(await self._checkpoints.saver()).aget_tuple(self._config(session))
        if found is None:
            return StoredState()
        return StoredState(values=found.checkpoint["channel_values"], version=found.checkpoint["id"])

    async def save(self, session: str, values: Values, *, expected: str | None, turn: str, epoch: int = 0) -> None:
        """Add a checkpoint if the last one is still `expected`, or of the same turn under a lower epoch; else raise StateConflict.

        The store compares again in the transaction that adds it, so a lost lock cannot cause a lost update.
        """
        saver = await self._checkpoints.saver()
        last = await self._sealed(saver).aget_tuple(self._config(session))
        while True:
            try:
                return await self._save_after(saver, last, session, values, expected=expected, turn=turn, epoch=epoch)
            except StateConflict:
                # A worker that has lost the turn may have saved it after `last` was read. Then the two are compared again.
                seen, last = last, await self._sealed(saver).aget_tuple(self._config(session))
                if _id(seen) == _id(last):
                    raise

    async def _save_after(
        self,
        saver: ComparingSaver,
        last: CheckpointTuple | None,
        session: str,
        values: Values,
        *,
        expected: str | None,
        turn: str,
        epoch: int,
    ) -> None:
        versions: dict[str, Any] = {} if last is None else last.checkpoint["channel_versions"]
        known = {} if last is None else {name: value for name, value in last.checkpoint["channel_values"].items() if name in versions}
        written = saver.serde.dumps_typed
        changed = [name for name, value in values.items() if name not in known or written(known[name]) != written(value)]
        if last is not None and expected != _id(last) and _metadata(last).get(_TURN) == turn:
            if all(known.get(name) == values[name] for name in changed):
                return  # an earlier attempt stored it, but its reply was lost
            if _metadata(last).get(_EPOCH, 0) < epoch:
                expected = _id(last)  # a worker stored it that was frozen and had lost the turn
        if expected != _id(last):
            raise state_conflict()
        version = saver.get_next_version(max(versions.values(), default=None), None)
        new: dict[str, Any] = dict.fromkeys(changed, version)
        checkpoint = empty_checkpoint()
        checkpoint["id"] = _next_id(expected)
        checkpoint["channel_values"] = values
        # LangGraph's internal channels are left out: a node that it had scheduled must not run after this turn.
        checkpoint["channel_versions"] = {name: versions[name] for name in values if name in versions} | new
        metadata: Any = {"source": "loop", "step": _next_step(last), "parents": {}, _TURN: turn, _EPOCH: epoch}
        config = self._config(session) if last is None else last.config
        await saver.aput_after(Put(config, checkpoint, self._sealed(saver).sealed(metadata), new), expected=expected)

    def _sealed(self, saver: ComparingSaver) -> SealedCheckpointer:
        return SealedCheckpointer(saver, graph=self._graph, fingerprint=self._fingerprint)

    def _thread(self, session: str) -> str:
        return f"{self._graph}:{session}"

    def _config(self, session: str) -> RunnableConfig:
        return {"configurable": {"thread_id": self._thread(session), "checkpoint_ns": ""}}


def _id(found: CheckpointTuple | None) -> str | None:
    return None if found is None else found.checkpoint["id"]


def _metadata(found: CheckpointTuple) -> dict[str, Any]:
    metadata: Any = found.metadata
    return metadata


def _next_step(last: CheckpointTuple | None) -> int:
    step = -1 if last is None else _metadata(last).get("step", -1)
    if type(step) is not int:
        raise StoreCorrupt("A checkpoint has a step that is not an integer. It is left as it is.")
    return step + 1


def _next_id(last: str | None) -> str:
    """Return an id greater than the last one, even if the clock was set back: the checkpoint with the highest id is the newest."""
    made = str(uuid6())
    if last is None or made > last:
        return made
    try:
        made = str(UUID(int=UUID(last).int + 1))
    except ValueError:
        made = ""
    if made <= last:
        raise StoreCorrupt("A checkpoint has the highest possible id, so no other can follow it. It is left as it is.")
    return made
