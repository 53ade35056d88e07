"""LangGraph's checkpoints in Firestore: the extra `interlock[firestore]`.

Only one of several concurrent writers can add a checkpoint after another one: it creates the claim document of that
checkpoint in the commit that stores the next one. LangGraph itself is assumed to be the only writer of its thread; readers
may read at any time. `firestore_documents.py` has the layout, `firestore_records.py` the order of writes and deletes.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from google.cloud.firestore import AsyncClient
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from interlock.engine.serializer import ClosedSerializer
from interlock.errors import InterlockError, StateUnstorable, StoreCorrupt
from interlock.stores.firestore_calls import Firestore
from interlock.stores.firestore_documents import CheckpointPath, Document, Payload, StoredCheckpoint, Write, claim_of, digest
from interlock.stores.firestore_records import PAGE, REGULAR, Records, Slots
from interlock.stores.locks import state_conflict
from interlock.stores.savers import ComparingSaver, Put

__all__ = ["FirestoreCheckpointer"]

_COUNTERS = "counters_since_delta_snapshot"


class FirestoreCheckpointer(ComparingSaver):
    """Stores the checkpoints of one tenant in a Firestore database in native mode. Asynchronous only: use the `a...` methods.

    Uses the application default credentials, or the emulator if FIRESTORE_EMULATOR_HOST is set. A call that takes longer than
    `timeout_s` raises StoreUnavailable. A client that is passed in stays open on `aclose`.
    """

    def __init__(
        self,
        *,
        project: str,
        tenant: str = "default",
        serde: SerializerProtocol | None = None,
        timeout_s: float = 60.0,
        client: AsyncClient | None = None,
    ) -> None:
        super().__init__(serde=serde or ClosedSerializer())
        self._firestore = Firestore(project=project, tenant=tenant, timeout_s=timeout_s, client=client)
        self._records = Records(self._firestore)

    async def aclose(self) -> None:
        """Close the client of this event loop. A later call creates another."""
        await self._firestore.aclose()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest of its thread and namespace."""
        thread, ns, own_id = _thread(config), _ns(config) or "", get_checkpoint_id(config)
        while True:
            stored = await (self._records.get(CheckpointPath(thread, ns, own_id)) if own_id else self._records.newest(thread, ns))
            found = None if stored is None else await self._records.none_if_deleted(stored, self._load(stored))
            if stored is None or found is not None:
                return found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name for it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first.

        A filter compares metadata after reading, not in the query. Without a namespace in the config all checkpoints of the thread,
        and without a config all of the tenant, are read twice: once to sort them.
        """
        left = limit
        if left is not None and left <= 0:
            return
        pages = self._records.pages(
            None if config is None else _thread(config),
            None if config is None else _ns(config),
            only=None if config is None else get_checkpoint_id(config),
            before=None if before is None else get_checkpoint_id(before),
            size=PAGE if filter or left is None else min(PAGE, left),
        )
        async with aclosing(pages):
            async for page in pages:
                wanted = [stored for stored in page if not filter or await self._matches(stored, filter)]
                writes = await self._writes(wanted)
                for stored in wanted:
                    reading = self._reload(stored) if writes is None else self._tuple(stored, writes[stored.path.key])
                    found = await self._records.none_if_deleted(stored, reading)
                    if found is None:
                        continue
                    yield found
                    left = None if left is None else left - 1
                    if left == 0:
                        return

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Store a checkpoint with all its channels; `new_versions` is not used."""
        path = CheckpointPath(_thread(config), _ns(config) or "", checkpoint["id"])
        await self._put(path, Put(config, checkpoint, metadata, new_versions))
        return _config(path, path.id)

    async def aput_after(self, put: Put, *, expected: str | None) -> None:
        """Store a checkpoint if the newest one of its thread is still `expected`, otherwise raise StateConflict."""
        path = CheckpointPath(*put.thread, put.checkpoint["id"])
        newest = await self._records.newest(path.thread, path.ns)
        if expected == (None if newest is None else newest.path.id):
            is_stored = await self._put(path, put, claim=claim_of(path, after=expected))
        else:
            is_stored = await self._records.get(path) is not None
        if not is_stored:
            raise state_conflict()

    async def _put(self, path: CheckpointPath, put: Put, *, claim: Document | None = None) -> bool:
        metadata = get_checkpoint_metadata(put.config, put.metadata)
        run: object = metadata.get("run_id")
        return await self._records.put(
            path,
            parent=get_checkpoint_id(put.config),
            run=None if run is None else digest(str(run)),
            checkpoint=self._dumped(put.checkpoint),
            metadata=self._dumped(metadata),
            claim=claim,
        )

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Store the writes of a task, all or none. A special write replaces an earlier one; a regular write never does."""
        path = CheckpointPath(_thread(config), _ns(config) or "", _configurable(config)["checkpoint_id"])
        slots: dict[str, list[Write]] = {}
        for position, (channel, value) in enumerate(writes):
            write = Write(WRITES_IDX_MAP.get(channel, position), channel, task_path, *self._dumped(value))
            if write.index < 0:
                slots[str(write.index)] = [write]
            else:
                slots.setdefault(REGULAR, []).append(write)
        await self._records.put_writes(path, task_id, slots)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its documents."""
        await self._records.delete(str(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs wrote in any thread, with their writes and chunks.

        A `DeltaChannel` of a later run that builds on their values loses them.
        """
        await self._records.delete_runs(list(dict.fromkeys(digest(str(run)) for run in run_ids)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread with their pending writes."""
        if str(source_thread_id) != str(target_thread_id):
            await self._records.copy(str(source_thread_id), str(target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads but the newest of each namespace, or with the strategy `delete` these too.

        If the newest has a `DeltaChannel`, the earlier checkpoints that the channel's value builds on stay.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise ValueError(f"There is no strategy '{strategy}'. Use 'keep_latest' or 'delete'.")
        for thread in dict.fromkeys(str(thread_id) for thread_id in thread_ids):
            if strategy == "delete":
                await self._records.delete(thread)
                continue
            for head in await self._records.heads(thread):
                await self._records.delete(thread, head.path.ns, should_delete=_older(head.path.key, await self._needed(head)))

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """Return a version that is greater than the current one."""
        del channel
        number = int(current.split(".")[0]) if isinstance(current, str) else current or 0
        return f"{number + 1:032}.{secrets.randbelow(10**16):016}"

    async def _writes(self, wanted: Sequence[StoredCheckpoint]) -> Mapping[str, Mapping[str, Slots]] | None:
        """Return the pending writes of checkpoints, or None if one is corrupt. The caller then reads them one by one."""
        try:
            return await self._records.writes(wanted)
        except StoreCorrupt:
            return None

    async def _reload(self, stored: StoredCheckpoint) -> CheckpointTuple | None:
        current = await self._records.get(stored.path)
        return None if current is None else await self._load(current)

    async def _load(self, stored: StoredCheckpoint) -> CheckpointTuple:
        return await self._tuple(stored, (await self._records.writes([stored]))[stored.path.key])

    async def _tuple(self, stored: StoredCheckpoint, written: Mapping[str, Slots]) -> CheckpointTuple:
        path = stored.path
        pending = [(task, write) for task, slots in written.items() for writes in slots.values() for write in writes]
        pending.sort(key=lambda one: writes_sort_key(one[1].path, one[0], one[1].index))
        return CheckpointTuple(
            config=_config(path, path.id),
            checkpoint=await self._checkpoint(stored),
            metadata=cast("CheckpointMetadata", await self._dict(stored.metadata, path)),
            parent_config=_config(path, stored.parent) if stored.parent else None,
            pending_writes=[(task, write.channel, self._loaded(write.type, write.data, path)) for task, write in pending],
        )

    async def _matches(self, stored: StoredCheckpoint, wanted: Mapping[str, Any]) -> bool:
        metadata = await self._records.none_if_deleted(stored, self._dict(stored.metadata, stored.path))
        return metadata is not None and all(metadata.get(key) == value for key, value in wanted.items())

    async def _needed(self, head: StoredCheckpoint) -> set[str]:
        """Return the keys of the checkpoints that the channels of one build on."""
        needed = {head.path.key}
        counted: object = (await self._dict(head.metadata, head.path)).get(_COUNTERS)
        if not isinstance(counted, dict):
            return needed
        stored: StoredCheckpoint | None = head
        made_up = cast("dict[str, object]", counted).keys() & (await self._checkpoint(head))["channel_versions"].keys()
        while stored is not None:
            needed.add(stored.path.key)
            made_up -= (await self._checkpoint(stored))["channel_values"].keys()
            parent = stored.parent if made_up else None
            stored = await self._records.get(CheckpointPath(stored.path.thread, stored.path.ns, parent)) if parent else None
        return needed

    async def _checkpoint(self, stored: StoredCheckpoint) -> Checkpoint:
        checkpoint = await self._dict(stored.checkpoint, stored.path)
        whole = all(isinstance(checkpoint.get(part), dict) for part in ("channel_values", "channel_versions", "versions_seen"))
        if not whole or checkpoint.get("id") != stored.path.id:
            raise StoreCorrupt(f"Checkpoint '{stored.path.name}' contains another checkpoint, or none. It is left as it is.")
        return cast("Checkpoint", checkpoint)

    async def _dict(self, payload: Payload, path: CheckpointPath) -> dict[str, Any]:
        value = self._loaded(payload.type, await self._records.joined(payload, owner=path.name), path)
        if not isinstance(value, dict):
            raise StoreCorrupt(f"Checkpoint '{path.name}' does not contain an object. It is left as it is.")
        return cast("dict[str, Any]", value)

    def _loaded(self, kind: str, data: bytes, path: CheckpointPath) -> Any:
        try:
            return self.serde.loads_typed((kind, data))
        except InterlockError:
            raise
        except Exception as error:
            raise StoreCorrupt(f"Checkpoint '{path.name}' cannot be read ({type(error).__name__}). It is left as it is.") from error

    def _dumped(self, value: object) -> tuple[str, bytes]:
        try:
            return self.serde.dumps_typed(value)
        except InterlockError:
            raise
        except Exception as error:
            raise StateUnstorable(f"A value of class '{type(value).__qualname__}' cannot be stored ({type(error).__name__}).") from error


def _configurable(config: RunnableConfig) -> dict[str, Any]:
    return config.get("configurable", {})


def _thread(config: RunnableConfig) -> str:
    return str(_configurable(config)["thread_id"])


def _ns(config: RunnableConfig) -> str | None:
    return _configurable(config).get("checkpoint_ns")


def _config(path: CheckpointPath, own_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": path.thread, "checkpoint_ns": path.ns, "checkpoint_id": own_id}}


def _older(key: str, needed: set[str]) -> Callable[[str], bool]:
    """Return a filter for keys older than a checkpoint, without those needed. Newer ones may be added concurrently."""
    return lambda of: of < key and of not in needed
