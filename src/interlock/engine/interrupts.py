"""Questions to a person through LangGraph's `interrupt()`, where LangGraph runs an exported graph.

LangGraph runs an interrupted node again from its start. So the results of the calls that the node made before the interrupt are
stored beside the checkpoint, as writes of a task that LangGraph does not know and ignores. The node's next run gets them from there
and repeats no call.
"""

from __future__ import annotations

import contextvars
from typing import Any, cast
from uuid import NAMESPACE_OID, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import CONFIG_KEY_CHECKPOINT_MAP, CONFIG_KEY_CHECKPOINT_NS, CONFIG_KEY_CHECKPOINTER, CONFIG_KEY_TASK_ID
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

__all__ = ["Interrupts"]

_CALLS = "interlock_calls"


class Interrupts:
    """The questions that one run of a node asks a person."""

    def __init__(self, config: RunnableConfig) -> None:
        self._settings = cast("dict[str, Any]", config.get("configurable"))
        # Taken before LangGraph's config is hidden from the node: `interrupt` needs it.
        self._context = contextvars.copy_context()
        self._known = 0
        self.raised: GraphInterrupt | None = None
        """What is raised to LangGraph when the node ends without an answer."""

    def ask(self, asked: dict[str, Any], schema: dict[str, Any]) -> tuple[Any, ...]:
        """Return the answer, or an empty tuple where it has not come yet. `schema` is the JSON schema of an answer."""
        try:
            return (self._context.run(interrupt, {**asked, "schema": schema}, response_schema=schema),)
        except GraphInterrupt as raised:
            self.raised = raised
            return ()

    async def load(self) -> list[dict[str, Any]]:
        """Return the calls that this node made before it was interrupted."""
        if self._saver is None:
            return []
        found = await self._saver.aget_tuple(self._checkpoint)
        stored = [value for _, channel, value in (found.pending_writes if found else None) or () if channel == _CALLS]
        own = sorted((one for one in stored if one["task"] == self._task), key=lambda one: one["first"])
        calls = [call for one in own for call in one["calls"]]
        self._known = len(calls)
        return calls

    async def save(self, calls: list[dict[str, Any]]) -> None:
        """Store the calls that this node has made since, for its next run."""
        if self._saver is None or not calls:
            return
        # Each pause has an id of its own, because checkpointers ignore a second write of the same task.
        task = str(uuid5(NAMESPACE_OID, f"{self._task} {self._known}"))
        await self._saver.aput_writes(self._checkpoint, [(_CALLS, {"task": self._task, "first": self._known, "calls": calls})], task)

    @property
    def _saver(self) -> BaseCheckpointSaver[Any] | None:
        return self._settings.get(CONFIG_KEY_CHECKPOINTER)

    @property
    def _task(self) -> str:
        return self._settings[CONFIG_KEY_TASK_ID]

    @property
    def _checkpoint(self) -> RunnableConfig:
        """The checkpoint that the node runs on."""
        graph = cast("str", self._settings[CONFIG_KEY_CHECKPOINT_NS]).rpartition("|")[0]
        id_ = self._settings[CONFIG_KEY_CHECKPOINT_MAP][graph]
        return {"configurable": {"thread_id": self._settings["thread_id"], "checkpoint_ns": graph, "checkpoint_id": id_}}
