"""Reads, writes and deletes checkpoints and their pending writes in Firestore, so that readers never see a partial one.

The chunks of a document are written before it and deleted after it. Up to nine megabytes, a checkpoint or the writes of a
task are one commit. Chunks that a killed process leaves behind are invisible to readers, and are deleted with their thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from interlock.errors import StoreCorrupt
from interlock.stores.firestore_calls import MOST_VALUES, Firestore, Found, grouped
from interlock.stores.firestore_documents import (
    CHECKPOINTS,
    CHUNKS,
    CLAIMS,
    WRITES,
    CheckpointPath,
    Document,
    Payload,
    StoredCheckpoint,
    Write,
    checked,
    chunk_names,
    chunks_of,
    packed,
    payload,
    read_checkpoint,
    read_writes,
    span,
    unpacked,
    write_name,
)

__all__ = ["PAGE", "REGULAR", "Records", "Slots"]

PAGE = MOST_VALUES
"""How many checkpoints one query reads."""

REGULAR = "writes"
"""The slot of a task's regular writes. Each special write has its own slot."""

_CHUNKS = 8  # how many one query reads

T = TypeVar("T")
Slots: TypeAlias = Mapping[str, Sequence[Write]]
"""The writes of a task by slot."""


class Records:
    """The serialized checkpoints of one tenant."""

    def __init__(self, firestore: Firestore) -> None:
        self._firestore = firestore

    async def put(
        self,
        path: CheckpointPath,
        *,
        parent: str | None,
        run: str | None,
        checkpoint: tuple[str, bytes],
        metadata: tuple[str, bytes],
        claim: Document | None = None,
    ) -> bool:
        """Store or replace a checkpoint. Returns False, and stores nothing, if another checkpoint has the claim."""
        path.check()
        checked(parent or "", "id of a checkpoint")
        stored_checkpoint, chunks = payload(*checkpoint, owner=path.name, of=path.key)
        stored_metadata, metadata_chunks = payload(*metadata, owner=path.name, of=path.key)
        fields = {"key": path.key, "thread": path.thread, "ns": path.ns, "id": path.id, "parent": parent, "run": run}
        document = Document(CHECKPOINTS, path.name, {**fields, "checkpoint": stored_checkpoint, "metadata": stored_metadata})
        if await self._firestore.write([document], after=[*chunks, *metadata_chunks], claim=claim) or claim is None:
            return True
        found = await self._firestore.get(CLAIMS, [claim.name])  # the claim is its own if the reply to an earlier attempt was lost
        return claim.name in found and found[claim.name].get("of") == path.key

    async def put_writes(self, path: CheckpointPath, task: str, slots: Slots) -> None:
        """Store the writes of a task. In the regular slot existing writes stay and new ones are added; other slots are replaced."""
        path.check()
        checked(task, "id of a task")
        async with self._firestore.lock_document(write_name(path, task, REGULAR)):
            documents: list[Document] = []
            chunks: list[Document] = []
            for slot, given in slots.items():
                name = write_name(path, task, slot)
                writes = await self._merged(path, name, given) if slot == REGULAR else given
                stored_writes, own_chunks = payload(REGULAR, packed(writes), owner=name, of=path.key)
                if writes:
                    documents.append(
                        Document(WRITES, name, {"key": name, "of": path.key, "task": task, "slot": slot, "writes": stored_writes})
                    )
                    chunks += own_chunks
            await self._firestore.write(documents, after=chunks)

    async def get(self, path: CheckpointPath) -> StoredCheckpoint | None:
        """Return a checkpoint."""
        found = await self._firestore.get(CHECKPOINTS, [path.name]) if path.storable() else {}
        return read_checkpoint(path.name, found[path.name]) if found else None

    async def newest(self, thread: str, ns: str) -> StoredCheckpoint | None:
        """Return the newest checkpoint of a namespace."""
        low, high = span(thread, ns)
        found = await self._firestore.page(CHECKPOINTS, low=low, high=high, limit=1, newest=True)
        return read_checkpoint(*found[0]) if found else None

    async def pages(
        self, thread: str | None, ns: str | None, *, only: str | None, before: str | None, size: int
    ) -> AsyncGenerator[list[StoredCheckpoint]]:
        """Yield pages of checkpoints, newest first: of a namespace, of a thread, or of all threads."""
        low, high = span(thread, ns)
        if thread is None or ns is None:
            ids = [(stored.path.id, name) async for name, stored in self._all(low, high)]
            wanted = [name for own_id, name in sorted(ids, reverse=True) if _is_wanted(own_id, only=only, before=before)]
            for names in grouped(wanted, size):
                found = await self._firestore.get(CHECKPOINTS, names)
                yield [read_checkpoint(name, found[name]) for name in names if name in found]
        elif only is not None:
            stored = await self.get(CheckpointPath(thread, ns, only)) if _is_wanted(only, only=only, before=before) else None
            yield [] if stored is None else [stored]
        else:
            async for page in self._pages_down(CHECKPOINTS, low, high if before is None else f"{low}{before}", size=size):
                yield [read_checkpoint(*found) for found in page]

    async def writes(self, checkpoints: Sequence[StoredCheckpoint]) -> dict[str, dict[str, dict[str, list[Write]]]]:
        """Return the pending writes of at most 30 checkpoints, by checkpoint key, task and slot."""
        paths = {stored.path.key: stored.path for stored in checkpoints}
        written: dict[str, dict[str, dict[str, list[Write]]]] = {key: {} for key in paths}
        for name, fields in await self._firestore.where_in(WRITES, "of", list(paths)) if paths else ():
            path = paths[fields["of"]]
            stored = read_writes(name, fields, path=path)
            written[path.key].setdefault(stored.task, {})[stored.slot] = unpacked(await self.joined(stored.writes, owner=name), owner=name)
        return written

    async def joined(self, payload: Payload, *, owner: str) -> bytes:
        """Return the bytes of a payload, from its document or its chunks."""
        chunks: list[object] = []
        for names in grouped(chunk_names(owner, payload.sha256, payload.chunks), _CHUNKS):
            found = await self._firestore.get(CHUNKS, names)
            chunks += [found[name].get("data") for name in names if name in found]
            if len(found) < len(names):
                break
        return payload.joined(chunks, owner=owner)

    async def none_if_deleted(self, stored: StoredCheckpoint, reading: Awaitable[T]) -> T | None:
        """Await a read that belongs to a checkpoint. Returns None if it fails because the checkpoint was deleted meanwhile."""
        try:
            return await reading
        except StoreCorrupt:
            if await self.get(stored.path) == stored:
                raise
            return None

    async def copy(self, source: str, target: str) -> None:
        """Copy a thread, oldest checkpoints first, so that parents exist before their children."""
        async for name, stored in self._all(*span(source)):
            path = CheckpointPath(target, stored.path.ns, stored.path.id)
            for task, slots in (await self.writes([stored]))[stored.path.key].items():
                await self.put_writes(path, task, slots)
            checkpoint = stored.checkpoint.type, await self.joined(stored.checkpoint, owner=name)
            metadata = stored.metadata.type, await self.joined(stored.metadata, owner=name)
            await self.put(path, parent=stored.parent, run=stored.run, checkpoint=checkpoint, metadata=metadata)

    async def heads(self, thread: str) -> list[StoredCheckpoint]:
        """Return the newest checkpoint of each namespace of a thread."""
        newest = {stored.path.ns: stored async for _, stored in self._all(*span(thread))}
        return list(newest.values())

    async def delete(self, thread: str, ns: str | None = None, *, should_delete: Callable[[str], bool] = lambda _: True) -> None:
        """Delete the checkpoints of a thread or a namespace whose keys match `should_delete`, with their writes and chunks.

        The newest are deleted first, so that a reader sees an earlier state meanwhile. Claims are deleted before their checkpoint:
        a claim left behind would keep every writer from adding a checkpoint after its parent.
        """
        await self._delete(*span(thread, ns), should_delete=should_delete, owners=(CLAIMS, CHECKPOINTS, WRITES))

    async def delete_runs(self, runs: Sequence[str]) -> None:
        """Delete the checkpoints that runs wrote in any thread, with their writes and chunks."""
        for group in grouped(runs, MOST_VALUES):
            while found := await self._firestore.where_in(CHECKPOINTS, "run", group, limit=PAGE):
                claims = await self._firestore.where_in(CLAIMS, "of", [_of(one) for one in found])
                await self._firestore.delete([(CLAIMS, claim.name) for claim in claims])
                await self._delete_owners(CHECKPOINTS, found)
                for name, _ in found:
                    await self._delete(f"{name}.", f"{name}/", should_delete=lambda _: True, owners=(WRITES,))

    async def _merged(self, path: CheckpointPath, name: str, given: Sequence[Write]) -> list[Write]:
        """Return the stored writes of a slot with the new ones added, or an empty list if there is nothing to add."""
        found = await self._firestore.get(WRITES, [name])
        if not found:
            return list(given)
        stored = read_writes(name, found[name], path=path)
        had = unpacked(await self.joined(stored.writes, owner=name), owner=name)
        more = [write for write in given if write.index not in {other.index for other in had}]
        return [*had, *more] if more else []

    async def _all(self, low: str, high: str) -> AsyncGenerator[tuple[str, StoredCheckpoint]]:
        """Yield checkpoints in the order of their keys: in each namespace the oldest first."""
        while found := await self._firestore.page(CHECKPOINTS, low=low, high=high, limit=PAGE):
            for name, fields in found:
                yield name, read_checkpoint(name, fields)
            low = f"{found[-1].fields['key']}\0"

    async def _pages_down(self, collection: str, low: str, high: str, *, size: int) -> AsyncGenerator[list[Found]]:
        """Yield pages of documents, the greatest keys first."""
        while found := await self._firestore.page(collection, low=low, high=high, limit=size, newest=True):
            yield found
            high = found[-1].fields["key"]

    async def _delete(self, low: str, high: str, *, should_delete: Callable[[str], bool], owners: Sequence[str]) -> None:
        for collection in owners:
            async for page in self._pages_down(collection, low, high, size=PAGE):
                await self._delete_owners(collection, [found for found in page if should_delete(_of(found))])
        async for page in self._pages_down(CHUNKS, low, high, size=_CHUNKS):  # chunks that a killed writer left behind
            await self._firestore.delete([(CHUNKS, found.name) for found in page if should_delete(_of(found))])

    async def _delete_owners(self, collection: str, page: Sequence[Found]) -> None:
        owners = [(collection, found.name) for found in page]
        await self._firestore.delete([*owners, *((CHUNKS, name) for found in page for name in chunks_of(*found))])


def _of(found: Found) -> str:
    """Return the key of the checkpoint that a document is or belongs to."""
    return str(found.fields.get("of", found.fields["key"]))


def _is_wanted(own_id: str, *, only: str | None, before: str | None) -> bool:
    return (only is None or own_id == only) and (before is None or own_id < before)
