"""LangGraph's checkpointers as Interlock uses them: whatever goes wrong in them is one of our errors, and rows are held to their shape."""

from __future__ import annotations

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from interlock.adapters.stores.exclusion import overtaken
from interlock.errors import InputSchema, InterlockError, StateUnstorable, StoreCorrupt, StoreError

__all__ = ["Call", "ComparingSaver", "MemorySaver", "Put", "Saver", "finished"]

AnySaver: TypeAlias = BaseCheckpointSaver[Any]
Found: TypeAlias = list[CheckpointTuple]
T = TypeVar("T")
Call: TypeAlias = Callable[[AnySaver], Coroutine[Any, Any, T]]

_NAMES = ("thread_id", "checkpoint_ns", "checkpoint_id")
_VERSIONS = InMemorySaver()  # all savers of LangGraph count alike


class Put(NamedTuple):
    """The arguments of `aput`."""

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    new_versions: ChannelVersions

    @property
    def thread(self) -> tuple[str, str]:
        """The thread of the checkpoint and its namespace."""
        found: Mapping[str, Any] = self.config.get("configurable", {})
        return str(found["thread_id"]), str(found.get("checkpoint_ns", ""))


class ComparingSaver(BaseCheckpointSaver[Any], ABC):
    """A checkpointer that can compare and store in one transaction."""

    @abstractmethod
    async def aput_after(self, put: Put, *, expected: str | None) -> None:
        """Store a checkpoint if the newest one of its thread is still `expected`; None means that there is none yet.

        Otherwise raises StateConflict and stores nothing. Nobody else can store between the comparison and the insert. A checkpoint
        that is stored already, because the answer to an earlier attempt was lost, counts as stored.
        """


class Saver(ComparingSaver, ABC):
    """A checkpointer of LangGraph whose errors are Interlock's. It can only be waited for: use the `a...` methods."""

    def __init__(self, serde: SerializerProtocol) -> None:
        super().__init__(serde=serde)

    @abstractmethod
    async def _put_after(self, inner: Any, put: Put, expected: str | None) -> None:
        """Compare and store on LangGraph's own checkpointer, in one transaction."""

    @abstractmethod
    async def _run(self, call: Call[T]) -> T:
        """Run a call on LangGraph's own checkpointer, and translate what its driver raises."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint: the one that the config names, or the newest of its thread."""
        _check(config)
        found = await self._read(lambda inner: inner.aget_tuple(config))
        return None if found is None else _shaped(found)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """List checkpoints, the newest first. They are read before the first is returned, so that nobody waits for who reads slowly."""
        if config is not None:
            _check(config)
        for key in filter or ():
            if not key.isidentifier():
                raise InputSchema("Checkpoints can be filtered by keys that are names, and by no others.")

        async def listed(inner: AnySaver) -> Found:
            listing = cast("AsyncGenerator[CheckpointTuple]", inner.alist(config, filter=filter, before=before, limit=limit))
            async with aclosing(listing):  # it holds a lock until it is at its end
                return [_shaped(found) async for found in listing]

        for found in await self._read(listed):
            yield found

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Keep a checkpoint. When this returns, it outlives the process."""
        _check(config)
        _check_metadata(config, metadata)
        return await self._write(lambda inner: inner.aput(config, checkpoint, metadata, new_versions))

    async def aput_after(self, put: Put, *, expected: str | None) -> None:
        """Store a checkpoint if the newest one of its thread is still `expected`, otherwise raise StateConflict."""
        _check(put.config)
        _check_metadata(put.config, put.metadata)
        await self._write(lambda inner: self._put_after(inner, put, expected))

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Keep what a node wrote before its step has ended."""
        _check(config)
        await self._write(lambda inner: inner.aput_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Forget a thread."""
        await self._write(lambda inner: inner.adelete_thread(thread_id))

    async def aget_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to channels that keep differences only."""
        _check(config)

        async def walked(inner: AnySaver) -> Mapping[str, DeltaChannelHistory]:
            return await inner.aget_delta_channel_history(config=config, channels=channels)

        return await self._read(walked)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the version of a channel after this one."""
        try:
            return _VERSIONS.get_next_version(current, channel)
        except (AttributeError, TypeError, ValueError) as error:
            raise StoreCorrupt("A checkpoint has a version that is none; it is left as it is.") from error

    def with_allowlist(self, extra_allowlist: Any) -> AnySaver:  # noqa: ARG002 - the list of classes is closed
        """Return the checkpointer as it is: which classes it reads is not for LangGraph to say."""
        return self

    async def _read(self, call: Call[T]) -> T:
        """Run a call that reads. What a saver makes of a row that it did not write can be any exception."""
        try:
            return await self._run(call)
        except InterlockError:
            raise
        except Exception as error:  # noqa: BLE001 - see above
            reason = type(error).__name__  # the error itself may quote the row
        raise StoreCorrupt(f"A checkpoint is not of the shape that it was written in ({reason}); it is left as it is.")

    async def _write(self, call: Call[T]) -> T:
        try:
            return await self._run(call)
        except InterlockError:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            reason = type(error).__name__  # likewise
        except Exception as error:
            raise StoreError(f"The checkpoint could not be stored ({type(error).__name__}).") from error
        raise StateUnstorable(f"The checkpoint holds something that cannot be stored ({reason}).")

    def get_tuple(self, config: RunnableConfig) -> NoReturn:  # noqa: ARG002 - likewise below
        """Refuse: see the class."""
        _refuse()

    def list(self, config: RunnableConfig | None, **_: Any) -> Iterator[CheckpointTuple]:  # noqa: ARG002
        """Refuse: see the class."""
        _refuse()

    def put(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions) -> NoReturn:  # noqa: ARG002
        """Refuse: see the class."""
        _refuse()

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> NoReturn:  # noqa: ARG002
        """Refuse: see the class."""
        _refuse()

    def delete_thread(self, thread_id: str) -> NoReturn:  # noqa: ARG002
        """Refuse: see the class."""
        _refuse()


class MemorySaver(Saver):
    """Keeps checkpoints in memory."""

    def __init__(self, serde: SerializerProtocol) -> None:
        super().__init__(serde)
        self._inner = InMemorySaver(serde=serde)
        self._comparing = threading.Lock()  # event loops of several threads may share it

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Keep what a node wrote before its step has ended: all of it, or nothing where a part cannot be kept."""
        for _, value in writes:
            self.serde.dumps_typed(value)
        await super().aput_writes(config, writes, task_id, task_path)

    async def _put_after(self, inner: InMemorySaver, put: Put, expected: str | None) -> None:
        thread, ns = put.thread
        own_id = put.checkpoint["id"]
        with self._comparing:
            newest = inner.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ns}})
            if expected == (None if newest is None else newest.checkpoint["id"]):
                inner.put(*put)
            elif inner.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": own_id}}) is None:
                raise overtaken()

    async def _run(self, call: Call[T]) -> T:
        return await call(self._inner)


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Wait until the work is done, also where that is cancelled: nothing is left half done, or is done later on."""
    task = asyncio.create_task(work)
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled
    return task.result()


def _check(config: RunnableConfig) -> None:
    """Refuse names that not every store can keep."""
    found: Mapping[str, Any] = config.get("configurable", {})
    if "thread_id" not in found:
        raise InputSchema("A config for checkpoints has no 'thread_id'.")
    for name in _NAMES:
        value = str(found.get(name, ""))
        if "\0" in value or not _is_text(value):
            raise InputSchema(f"The '{name}' of a config holds a NUL character or half of a surrogate pair.")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> None:
    """Refuse metadata that a store would leave something out of."""
    try:
        json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        reason = type(error).__name__  # the error itself quotes the text
    else:
        return
    raise StateUnstorable(f"The metadata of a checkpoint cannot be kept as JSON ({reason}).")


def _shaped(found: CheckpointTuple) -> CheckpointTuple:
    """Refuse a checkpoint that LangGraph would stumble over."""
    config, checkpoint, metadata, _, writes = cast("tuple[Any, ...]", found)
    kept = cast("dict[str, Any]", checkpoint if isinstance(checkpoint, dict) else {})
    if not (
        kept.get("id") == config["configurable"]["checkpoint_id"]
        and type(kept.get("v")) is int
        and type(kept.get("ts")) is str
        and all(isinstance(part, dict) for part in (metadata, kept.get("channel_values"), kept.get("versions_seen")))
        and _are_versions([kept.get("channel_versions"), *kept["versions_seen"].values()])
        and all(type(task) is type(channel) is str for task, channel, _ in writes or ())
    ):
        raise StoreCorrupt("A checkpoint is not of the shape that it was written in; it is left as it is.")
    return found


def _are_versions(seen: Any) -> bool:
    """Tell whether these are versions of channels that can be compared with one another."""
    if not all(isinstance(versions, dict) for versions in seen):
        return False
    kinds: set[Any] = {type(version) for versions in seen for version in versions.values()}
    return kinds <= {str} or kinds <= {int, float}


def _refuse() -> NoReturn:
    raise NotImplementedError("Interlock's checkpointers are asynchronous: use 'ainvoke', 'astream', 'aget_state' and the like.")
