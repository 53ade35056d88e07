"""Wrappers of LangGraph's checkpointers that translate their errors and validate the rows that they read."""

from __future__ import annotations

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
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

from interlock.errors import InputSchema, InterlockError, StateUnstorable, StoreCorrupt, StoreError
from interlock.stores.locks import state_conflict

__all__ = ["Call", "ComparingSaver", "MemorySaver", "Put", "Saver", "run_to_completion"]

AnySaver: TypeAlias = BaseCheckpointSaver[Any]
Found: TypeAlias = list[CheckpointTuple]
T = TypeVar("T")
Call: TypeAlias = Callable[[AnySaver], Coroutine[Any, Any, T]]

_NAMES = ("thread_id", "checkpoint_ns", "checkpoint_id")
_VERSIONS = InMemorySaver()  # all savers of LangGraph number versions in the same way


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
    """A checkpointer with compare-and-set: it compares the newest checkpoint and stores the next one in one transaction."""

    @abstractmethod
    async def aput_after(self, put: Put, *, expected: str | None) -> None:
        """Store a checkpoint if the newest one of its thread is still `expected`; None means that the thread must be empty.

        Otherwise raises StateConflict and stores nothing. No other writer can store between the comparison and the insert. A
        checkpoint that is stored already, because the reply to an earlier attempt was lost, counts as success.
        """

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise NotImplementedError: only the asynchronous methods exist."""
        raise NotImplementedError("Interlock's checkpointers are asynchronous: use 'ainvoke', 'astream', 'aget_tuple', 'aput' and so on.")

    get_tuple = list = put = put_writes = delete_thread = delete_for_runs = copy_thread = prune = _refuse


class Saver(ComparingSaver, ABC):
    """A wrapper of a LangGraph checkpointer that raises Interlock's errors. Asynchronous only: use the `a...` methods."""

    def __init__(self, serde: SerializerProtocol) -> None:
        super().__init__(serde=serde)

    @abstractmethod
    async def _put_after(self, inner: Any, put: Put, expected: str | None) -> None:
        """Compare and store on LangGraph's own checkpointer, in one transaction."""

    @abstractmethod
    async def _run(self, call: Call[T]) -> T:
        """Run a call on LangGraph's own checkpointer, and translate the errors of its driver."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest of its thread."""
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
        """List checkpoints, newest first. All are read before the first is returned, so that a slow reader does not block the store."""
        if config is not None:
            _check(config)
        for key in filter or ():
            if not key.isidentifier():
                raise InputSchema("Checkpoints can only be filtered by keys that are identifiers.")

        async def listed(inner: AnySaver) -> Found:
            listing = cast("AsyncGenerator[CheckpointTuple]", inner.alist(config, filter=filter, before=before, limit=limit))
            async with aclosing(listing):  # it holds a lock until it is exhausted or closed
                return [_shaped(found) async for found in listing]

        for found in await self._read(listed):
            yield found

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Store a checkpoint durably."""
        _check(config)
        _check_metadata(config, metadata)
        return await self._write(lambda inner: inner.aput(config, checkpoint, metadata, new_versions))

    async def aput_after(self, put: Put, *, expected: str | None) -> None:
        """Store a checkpoint if the newest one of its thread is still `expected`, otherwise raise StateConflict."""
        _check(put.config)
        _check_metadata(put.config, put.metadata)
        await self._write(lambda inner: self._put_after(inner, put, expected))

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Store the writes of a task whose step has not ended."""
        _check(config)
        await self._write(lambda inner: inner.aput_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        await self._write(lambda inner: inner.adelete_thread(thread_id))

    async def aget_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """Return the history of channels that store differences only."""
        _check(config)

        async def walked(inner: AnySaver) -> Mapping[str, DeltaChannelHistory]:
            return await inner.aget_delta_channel_history(config=config, channels=channels)

        return await self._read(walked)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the version of a channel after this one."""
        try:
            return _VERSIONS.get_next_version(current, channel)
        except (AttributeError, TypeError, ValueError) as error:
            raise StoreCorrupt("A checkpoint has an invalid channel version. It is left as it is.") from error

    def with_allowlist(self, extra_allowlist: Any) -> AnySaver:  # noqa: ARG002 - the list of classes is closed
        """Return the checkpointer unchanged: LangGraph must not extend the list of classes that are deserialized."""
        return self

    async def _read(self, call: Call[T]) -> T:
        """Run a call that reads. For a row that a saver did not write, it may raise any exception."""
        try:
            return await self._run(call)
        except InterlockError:
            raise
        except Exception as error:  # noqa: BLE001 - see above
            reason = type(error).__name__  # the error itself may quote the row
        raise StoreCorrupt(f"A checkpoint cannot be read ({reason}). It is left as it is.")

    async def _write(self, call: Call[T]) -> T:
        try:
            return await self._run(call)
        except InterlockError:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            reason = type(error).__name__  # the error itself may quote the value
        except Exception as error:
            raise StoreError(f"The checkpoint could not be stored ({type(error).__name__}).") from error
        raise StateUnstorable(f"The checkpoint contains a value that cannot be stored ({reason}).")


class MemorySaver(Saver):
    """Stores checkpoints in memory."""

    def __init__(self, serde: SerializerProtocol) -> None:
        super().__init__(serde)
        self._inner = InMemorySaver(serde=serde)
        self._comparing = threading.Lock()  # event loops in several threads may share it

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Store the writes of a task: all of them, or none if one cannot be serialized."""
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
                raise state_conflict()

    async def _run(self, call: Call[T]) -> T:
        return await call(self._inner)


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end even if the caller is cancelled, then re-raise the cancellation."""
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
    """Reject names that some store cannot hold."""
    found: Mapping[str, Any] = config.get("configurable", {})
    if "thread_id" not in found:
        raise InputSchema("A config for checkpoints has no 'thread_id'.")
    for name in _NAMES:
        value = str(found.get(name, ""))
        if "\0" in value or not _is_text(value):
            raise InputSchema(f"The '{name}' of a config contains a NUL character or half of a surrogate pair.")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> None:
    """Reject metadata that some store would save incompletely."""
    try:
        json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        reason = type(error).__name__  # the error itself quotes the text
    else:
        return
    raise StateUnstorable(f"The metadata of a checkpoint cannot be written as JSON ({reason}).")


def _shaped(found: CheckpointTuple) -> CheckpointTuple:
    """Raise StoreCorrupt for a checkpoint that LangGraph would fail on."""
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
        raise StoreCorrupt("A checkpoint does not have the fields of a checkpoint. It is left as it is.")
    return found


def _are_versions(seen: Any) -> bool:
    """Return whether these are channel versions that can be compared with one another."""
    if not all(isinstance(versions, dict) for versions in seen):
        return False
    kinds: set[Any] = {type(version) for versions in seen for version in versions.values()}
    return kinds <= {str} or kinds <= {int, float}
