"""A LangGraph checkpointer that knows whose checkpoints it keeps: those of a graph with other contracts are refused, never skipped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

from interlock.errors import StateIncompatible

__all__ = ["SealedCheckpointer"]

_SEAL = "interlock_fingerprint"


class SealedCheckpointer(BaseCheckpointSaver[Any]):
    """Writes a graph's fingerprint beside every checkpoint, and reads none that has another."""

    def __init__(self, inner: BaseCheckpointSaver[Any], *, graph: str, fingerprint: str) -> None:
        super().__init__(serde=inner.serde)
        self._inner = inner
        self._graph = graph
        self._fingerprint = fingerprint

    @property
    def config_specs(self) -> list[Any]:
        """What LangGraph has to know of a thread."""
        return cast("list[Any]", self._inner.config_specs)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the version after this one."""
        return self._inner.get_next_version(current, channel)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read a checkpoint."""
        return self._checked(self._inner.get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read a checkpoint."""
        return self._checked(await self._inner.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Read checkpoints, the newest first."""
        for found in self._inner.list(config, filter=filter, before=before, limit=limit):
            yield self._check(found)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Read checkpoints, the newest first."""
        async for found in self._inner.alist(config, filter=filter, before=before, limit=limit):
            yield self._check(found)

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Keep a checkpoint."""
        return self._inner.put(config, checkpoint, self.sealed(metadata), new_versions)

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Keep a checkpoint."""
        return await self._inner.aput(config, checkpoint, self.sealed(metadata), new_versions)

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Keep what a node wrote before its step has ended."""
        self._inner.put_writes(config, writes, task_id, task_path)

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Keep what a node wrote before its step has ended."""
        await self._inner.aput_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Forget a thread."""
        self._inner.delete_thread(thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """Forget a thread."""
        await self._inner.adelete_thread(thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Keep a thread under another name, too."""
        self._inner.copy_thread(source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Keep a thread under another name, too."""
        await self._inner.acopy_thread(source_thread_id, target_thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Forget what some runs have left."""
        self._inner.delete_for_runs(run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Forget what some runs have left."""
        await self._inner.adelete_for_runs(run_ids)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Forget all of threads but the newest, or that as well."""
        self._inner.prune(thread_ids, strategy=strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Forget all of threads but the newest, or that as well."""
        await self._inner.aprune(thread_ids, strategy=strategy)

    def sealed(self, metadata: CheckpointMetadata) -> CheckpointMetadata:
        """Return the metadata of a checkpoint with the fingerprint in it."""
        sealed: Any = {**metadata, _SEAL: self._fingerprint}
        return sealed

    def _checked(self, found: CheckpointTuple | None) -> CheckpointTuple | None:
        return None if found is None else self._check(found)

    def _check(self, found: CheckpointTuple) -> CheckpointTuple:
        metadata: Any = found.metadata
        if metadata.get(_SEAL) != self._fingerprint:
            raise StateIncompatible(
                f"What is kept is of another graph than '{self._graph}' is now: its contracts have changed."
                " Fix: begin anew, or use the version that kept it."
            )
        return found
