"""LangGraph's checkpoints in Firestore: the extra `interlock[firestore]`.

Of those who save turns of one thread only one goes on after a checkpoint: it makes the claim document of that checkpoint in
the commit that stores the next one. LangGraph itself is taken to be the only writer of its thread; readers may come at any
time. How the documents lie is in `firestore_documents.py`, in which order they come and go in `firestore_records.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NoReturn, cast

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

from interlock.adapters.stores.exclusion import overtaken
from interlock.adapters.stores.firestore_calls import Firestore
from interlock.adapters.stores.firestore_documents import Document, Payload, Place, Stored, Write, claim_of, digest
from interlock.adapters.stores.firestore_records import PAGE, REGULAR, Records, Slots
from interlock.adapters.stores.savers import ComparingSaver, Put
from interlock.engine.serializer import ClosedSerializer
from interlock.errors import InterlockError, StateUnstorable, StoreCorrupt

__all__ = ["FirestoreCheckpointer"]

_COUNTERS = "counters_since_delta_snapshot"


class FirestoreCheckpointer(ComparingSaver):
    """Keeps the checkpoints of one tenant in a Firestore database in native mode. It can only be waited for: use the `a...` methods.

    Credentials are the default ones of the machine; with FIRESTORE_EMULATOR_HOST the emulator is asked instead. A call that
    is not answered within `timeout_s` is StoreUnavailable. A client that is passed in stays open on `aclose`.
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
        """Close the connection of this event loop; a later call opens another."""
        await self._firestore.aclose()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint: the one that the config names, or the newest of its thread and namespace."""
        thread, ns, own_id = _thread(config), _ns(config) or "", get_checkpoint_id(config)
        while True:
            stored = await (self._records.get(Place(thread, ns, own_id)) if own_id else self._records.newest(thread, ns))
            found = None if stored is None else await self._records.unless_gone(stored, self._alone(stored))
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
        """Return checkpoints, the newest first.

        A filter is applied here, to what was read: the values of metadata that it names must be equal. Without a namespace in the
        config all checkpoints of the thread, and without a config all of the tenant, are read twice: once to put them in order.
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
                wanted = [stored for stored in page if not filter or await self._fits(stored, filter)]
                writes = await self._writes(wanted)
                for stored in wanted:
                    reading = self._again(stored) if writes is None else self._tuple(stored, writes[stored.place.key])
                    found = await self._records.unless_gone(stored, reading)
                    if found is None:
                        continue
                    yield found
                    left = None if left is None else left - 1
                    if left == 0:
                        return

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Keep a checkpoint, whole: which channels are new in it makes no difference."""
        place = Place(_thread(config), _ns(config) or "", checkpoint["id"])
        await self._put(place, Put(config, checkpoint, metadata, new_versions))
        return _config(place, place.id)

    async def aput_after(self, put: Put, *, expected: str | None) -> None:
        """Store a checkpoint if the newest one of its thread is still `expected`, otherwise raise StateConflict."""
        place = Place(*put.thread, put.checkpoint["id"])
        newest = await self._records.newest(place.thread, place.ns)
        if expected == (None if newest is None else newest.place.id):
            is_stored = await self._put(place, put, claim=claim_of(place, after=expected))
        else:
            is_stored = await self._records.get(place) is not None
        if not is_stored:
            raise overtaken()

    async def _put(self, place: Place, put: Put, *, claim: Document | None = None) -> bool:
        told = get_checkpoint_metadata(put.config, put.metadata)
        run: object = told.get("run_id")
        return await self._records.put(
            place,
            parent=get_checkpoint_id(put.config),
            run=None if run is None else digest(str(run)),
            checkpoint=self._dumped(put.checkpoint),
            metadata=self._dumped(told),
            claim=claim,
        )

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Keep what a task wrote: all of it or nothing. A special write replaces an earlier one, of the others the first stays."""
        place = Place(_thread(config), _ns(config) or "", _configurable(config)["checkpoint_id"])
        slots: dict[str, list[Write]] = {}
        for position, (channel, value) in enumerate(writes):
            write = Write(WRITES_IDX_MAP.get(channel, position), channel, task_path, *self._dumped(value))
            if write.index < 0:
                slots[str(write.index)] = [write]
            else:
                slots.setdefault(REGULAR, []).append(write)
        await self._records.put_writes(place, task_id, slots)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        await self._records.delete(str(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs wrote, in whichever threads, and what belongs to them.

        A `DeltaChannel` of a later run that is made up of what they wrote loses it.
        """
        await self._records.delete_runs(list(dict.fromkeys(digest(str(run)) for run in run_ids)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread and what was written beside them."""
        if str(source_thread_id) != str(target_thread_id):
            await self._records.copy(str(source_thread_id), str(target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads but the newest of each namespace, or with the strategy `delete` these too.

        Where the newest has a `DeltaChannel`, the ones before it stay that the channel's value is made up of.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise ValueError(f"There is no strategy '{strategy}'. Use 'keep_latest' or 'delete'.")
        for thread in dict.fromkeys(str(thread_id) for thread_id in thread_ids):
            if strategy == "delete":
                await self._records.delete(thread)
                continue
            for head in await self._records.heads(thread):
                await self._records.delete(thread, head.place.ns, doomed=_older(head.place.key, await self._needed(head)))

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """Return a version that is greater than the current one."""
        del channel
        number = int(current.split(".")[0]) if isinstance(current, str) else current or 0
        return f"{number + 1:032}.{secrets.randbelow(10**16):016}"

    def get_tuple(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `aget_tuple`."""
        raise _waiting("aget_tuple")

    def list(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `alist`."""
        raise _waiting("alist")

    def put(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `aput`."""
        raise _waiting("aput")

    def put_writes(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `aput_writes`."""
        raise _waiting("aput_writes")

    def delete_thread(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `adelete_thread`."""
        raise _waiting("adelete_thread")

    def delete_for_runs(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `adelete_for_runs`."""
        raise _waiting("adelete_for_runs")

    def copy_thread(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `acopy_thread`."""
        raise _waiting("acopy_thread")

    def prune(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `aprune`."""
        raise _waiting("aprune")

    async def _writes(self, wanted: Sequence[Stored]) -> Mapping[str, Mapping[str, Slots]] | None:
        """Return what was written beside checkpoints; None when something does not fit, which is then found out one by one."""
        try:
            return await self._records.writes(wanted)
        except StoreCorrupt:
            return None

    async def _again(self, stored: Stored) -> CheckpointTuple | None:
        current = await self._records.get(stored.place)
        return None if current is None else await self._alone(current)

    async def _alone(self, stored: Stored) -> CheckpointTuple:
        return await self._tuple(stored, (await self._records.writes([stored]))[stored.place.key])

    async def _tuple(self, stored: Stored, written: Mapping[str, Slots]) -> CheckpointTuple:
        place = stored.place
        pending = [(task, write) for task, slots in written.items() for writes in slots.values() for write in writes]
        pending.sort(key=lambda one: writes_sort_key(one[1].path, one[0], one[1].index))
        return CheckpointTuple(
            config=_config(place, place.id),
            checkpoint=await self._checkpoint(stored),
            metadata=cast("CheckpointMetadata", await self._dict(stored.metadata, place)),
            parent_config=_config(place, stored.parent) if stored.parent else None,
            pending_writes=[(task, write.channel, self._loaded(write.type, write.data, place)) for task, write in pending],
        )

    async def _fits(self, stored: Stored, wanted: Mapping[str, Any]) -> bool:
        metadata = await self._records.unless_gone(stored, self._dict(stored.metadata, stored.place))
        return metadata is not None and all(metadata.get(key) == value for key, value in wanted.items())

    async def _needed(self, head: Stored) -> set[str]:
        """Return the keys of the checkpoints that the channels of one are made up of."""
        needed = {head.place.key}
        counted: object = (await self._dict(head.metadata, head.place)).get(_COUNTERS)
        if not isinstance(counted, dict):
            return needed
        stored: Stored | None = head
        made_up = cast("dict[str, object]", counted).keys() & (await self._checkpoint(head))["channel_versions"].keys()
        while stored is not None:
            needed.add(stored.place.key)
            made_up -= (await self._checkpoint(stored))["channel_values"].keys()
            parent = stored.parent if made_up else None
            stored = await self._records.get(Place(stored.place.thread, stored.place.ns, parent)) if parent else None
        return needed

    async def _checkpoint(self, stored: Stored) -> Checkpoint:
        checkpoint = await self._dict(stored.checkpoint, stored.place)
        whole = all(isinstance(checkpoint.get(part), dict) for part in ("channel_values", "channel_versions", "versions_seen"))
        if not whole or checkpoint.get("id") != stored.place.id:
            raise StoreCorrupt(f"Checkpoint '{stored.place.name}' holds another one, or none; it is left as it is.")
        return cast("Checkpoint", checkpoint)

    async def _dict(self, said: Payload, place: Place) -> dict[str, Any]:
        value = self._loaded(said.type, await self._records.joined(said, owner=place.name), place)
        if not isinstance(value, dict):
            raise StoreCorrupt(f"Checkpoint '{place.name}' holds something else than what is known of one; it is left as it is.")
        return cast("dict[str, Any]", value)

    def _loaded(self, kind: str, data: bytes, place: Place) -> Any:
        try:
            return self.serde.loads_typed((kind, data))
        except InterlockError:
            raise
        except Exception as error:
            raise StoreCorrupt(f"Checkpoint '{place.name}' cannot be read ({type(error).__name__}); it is left as it is.") from error

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


def _config(place: Place, own_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": place.thread, "checkpoint_ns": place.ns, "checkpoint_id": own_id}}


def _older(key: str, needed: set[str]) -> Callable[[str], bool]:
    """Doom what is older than a checkpoint: what is newer has been added in the meantime, or is about to be."""
    return lambda of: of < key and of not in needed


def _waiting(name: str) -> NotImplementedError:
    return NotImplementedError(f"FirestoreCheckpointer can only be waited for: use 'await {name}(...)', and run graphs by 'ainvoke'.")
