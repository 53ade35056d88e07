"""A LangGraph checkpointer for one graph: it refuses the checkpoints of a graph with other contracts instead of skipping them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

from interlock.errors import StateIncompatible

__all__ = ["SealedCheckpointer"]

_FINGERPRINT = "interlock_fingerprint"

_DELEGATED = [
    *("get_next_version", "put_writes", "aput_writes", "delete_thread", "adelete_thread", "copy_thread", "acopy_thread"),
    *("delete_for_runs", "adelete_for_runs", "prune", "aprune"),
]
"""The methods that neither write nor return the metadata of a checkpoint."""


class SealedCheckpointer(BaseCheckpointSaver[Any]):
    """Stores a graph's fingerprint in the metadata of each checkpoint. Raises StateIncompatible for a checkpoint with another one."""

    def __init__(self, inner: BaseCheckpointSaver[Any], *, graph: str, fingerprint: str) -> None:
        super().__init__(serde=inner.serde)
        self._inner = inner
        self._graph = graph
        self._fingerprint = fingerprint

    @property
    def config_specs(self) -> list[Any]:
        return cast("list[Any]", self._inner.config_specs)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._check(self._inner.get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._check(await self._inner.aget_tuple(config))

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        for found in self._inner.list(config, **options):
            self._check(found)
            yield found

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        async for found in self._inner.alist(config, **options):
            self._check(found)
            yield found

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        return self._inner.put(config, checkpoint, self.sealed(metadata), new_versions)

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        return await self._inner.aput(config, checkpoint, self.sealed(metadata), new_versions)

    def sealed(self, metadata: CheckpointMetadata) -> CheckpointMetadata:
        with_fingerprint: Any = {**metadata, _FINGERPRINT: self._fingerprint}
        return with_fingerprint

    def _check(self, found: CheckpointTuple | None) -> CheckpointTuple | None:
        metadata: Any = {} if found is None else found.metadata
        if found is not None and metadata.get(_FINGERPRINT) != self._fingerprint:
            raise StateIncompatible(
                f"The stored state belongs to another version of graph '{self._graph}': its contracts have changed."
                " Fix: start a new session, or use the version that stored it."
            )
        return found


def _delegate(name: str) -> Callable[..., Any]:
    def call(self: SealedCheckpointer, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._inner, name)(*args, **kwargs)  # pyright: ignore[reportPrivateUsage] - a method of the class

    call.__name__ = name
    return call


for _name in _DELEGATED:
    setattr(SealedCheckpointer, _name, _delegate(_name))
