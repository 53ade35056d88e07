"""Checkpoints and what was written beside them as they come into Firestore and go from it: never seen by half.

What belongs to a document is there before the document, and goes after it. As long as a checkpoint or the writes of a task
have no more than nine megabytes, that is one commit. What is left behind by whoever is killed in between is found by no
reader, and is deleted with its thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from interlock.adapters.stores.firestore_calls import MOST_VALUES, Firestore, Found, grouped
from interlock.adapters.stores.firestore_documents import (
    CHECKPOINTS,
    CHUNKS,
    CLAIMS,
    WRITES,
    Document,
    Payload,
    Place,
    Stored,
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
from interlock.errors import StoreCorrupt

__all__ = ["PAGE", "REGULAR", "Records", "Slots"]

PAGE = MOST_VALUES
"""How many checkpoints are read at once."""

REGULAR = "writes"
"""The slot of what a task wrote in the usual way; each special write has one of its own."""

_CHUNKS = 8  # that many are read at once

T = TypeVar("T")
Slots: TypeAlias = Mapping[str, Sequence[Write]]
"""What a task wrote, by slots."""


class Records:
    """The checkpoints of one tenant, as bytes."""

    def __init__(self, firestore: Firestore) -> None:
        self._firestore = firestore

    async def put(
        self,
        place: Place,
        *,
        parent: str | None,
        run: str | None,
        checkpoint: tuple[str, bytes],
        metadata: tuple[str, bytes],
        claim: Document | None = None,
    ) -> bool:
        """Keep a checkpoint. One that is there already is replaced. Returns False, and keeps nothing, where another one has the claim."""
        place.check()
        checked(parent or "", "id of a checkpoint")
        said, pieces = payload(*checkpoint, owner=place.name, of=place.key)
        told, more = payload(*metadata, owner=place.name, of=place.key)
        fields = {"key": place.key, "thread": place.thread, "ns": place.ns, "id": place.id, "parent": parent, "run": run}
        document = Document(CHECKPOINTS, place.name, {**fields, "checkpoint": said, "metadata": told})
        if await self._firestore.write([document], after=[*pieces, *more], claim=claim) or claim is None:
            return True
        found = await self._firestore.get(CLAIMS, [claim.name])  # it is its own where the answer to the first attempt was lost
        return claim.name in found and found[claim.name].get("of") == place.key

    async def put_writes(self, place: Place, task: str, slots: Slots) -> None:
        """Keep what a task wrote. In the usual slot what is there stays and the rest is added, the others are replaced."""
        place.check()
        checked(task, "id of a task")
        async with self._firestore.alone(write_name(place, task, REGULAR)):
            documents: list[Document] = []
            chunks: list[Document] = []
            for slot, given in slots.items():
                name = write_name(place, task, slot)
                writes = await self._added(place, name, given) if slot == REGULAR else given
                said, pieces = payload(REGULAR, packed(writes), owner=name, of=place.key)
                if writes:
                    documents.append(Document(WRITES, name, {"key": name, "of": place.key, "task": task, "slot": slot, "writes": said}))
                    chunks += pieces
            await self._firestore.write(documents, after=chunks)

    async def get(self, place: Place) -> Stored | None:
        """Return a checkpoint."""
        found = await self._firestore.get(CHECKPOINTS, [place.name]) if place.storable() else {}
        return read_checkpoint(place.name, found[place.name]) if found else None

    async def newest(self, thread: str, ns: str) -> Stored | None:
        """Return the newest checkpoint of a namespace."""
        low, high = span(thread, ns)
        found = await self._firestore.page(CHECKPOINTS, low=low, high=high, limit=1, newest=True)
        return read_checkpoint(*found[0]) if found else None

    async def pages(
        self, thread: str | None, ns: str | None, *, only: str | None, before: str | None, size: int
    ) -> AsyncGenerator[list[Stored]]:
        """Return checkpoints, a few at a time, the newest first: of a namespace, of a thread, or of all."""
        low, high = span(thread, ns)
        if thread is None or ns is None:
            ids = [(stored.place.id, name) async for name, stored in self._all(low, high)]
            wanted = [name for own_id, name in sorted(ids, reverse=True) if _asked(own_id, only=only, before=before)]
            for names in grouped(wanted, size):
                found = await self._firestore.get(CHECKPOINTS, names)
                yield [read_checkpoint(name, found[name]) for name in names if name in found]
        elif only is not None:
            stored = await self.get(Place(thread, ns, only)) if _asked(only, only=only, before=before) else None
            yield [] if stored is None else [stored]
        else:
            async for page in self._down(CHECKPOINTS, low, high if before is None else f"{low}{before}", size=size):
                yield [read_checkpoint(*found) for found in page]

    async def writes(self, checkpoints: Sequence[Stored]) -> dict[str, dict[str, dict[str, list[Write]]]]:
        """Return what was written beside at most 30 checkpoints: by their keys, tasks and slots."""
        places = {stored.place.key: stored.place for stored in checkpoints}
        written: dict[str, dict[str, dict[str, list[Write]]]] = {key: {} for key in places}
        for name, fields in await self._firestore.among(WRITES, "of", list(places)) if places else ():
            place = places[fields["of"]]
            task, slot, said = read_writes(name, fields, place=place)
            written[place.key].setdefault(task, {})[slot] = unpacked(await self.joined(said, owner=name), owner=name)
        return written

    async def joined(self, said: Payload, *, owner: str) -> bytes:
        """Return a payload, from wherever it lies."""
        pieces: list[object] = []
        for names in grouped(chunk_names(owner, said.sha256, said.chunks), _CHUNKS):
            found = await self._firestore.get(CHUNKS, names)
            pieces += [found[name].get("data") for name in names if name in found]
            if len(found) < len(names):
                break
        return said.joined(pieces, owner=owner)

    async def unless_gone(self, stored: Stored, reading: Awaitable[T]) -> T | None:
        """Read what belongs to a checkpoint; None when it does not fit because the checkpoint has been deleted in the meantime."""
        try:
            return await reading
        except StoreCorrupt:
            if await self.get(stored.place) == stored:
                raise
            return None

    async def copy(self, source: str, target: str) -> None:
        """Copy a thread; the older checkpoints first, so that each has its parent."""
        async for name, stored in self._all(*span(source)):
            place = Place(target, stored.place.ns, stored.place.id)
            for task, slots in (await self.writes([stored]))[stored.place.key].items():
                await self.put_writes(place, task, slots)
            checkpoint = stored.checkpoint.type, await self.joined(stored.checkpoint, owner=name)
            metadata = stored.metadata.type, await self.joined(stored.metadata, owner=name)
            await self.put(place, parent=stored.parent, run=stored.run, checkpoint=checkpoint, metadata=metadata)

    async def heads(self, thread: str) -> list[Stored]:
        """Return the newest checkpoint of each namespace of a thread."""
        newest = {stored.place.ns: stored async for _, stored in self._all(*span(thread))}
        return list(newest.values())

    async def delete(self, thread: str, ns: str | None = None, *, doomed: Callable[[str], bool] = lambda _: True) -> None:
        """Delete the checkpoints of a thread or a namespace that are doomed by their keys, and all that belongs to them.

        The newest go first, so that what is there for the moment is an earlier state. Claims go before what they speak of: one that
        was left behind would keep others from going on after the checkpoint before it.
        """
        await self._delete(*span(thread, ns), doomed=doomed, owners=(CLAIMS, CHECKPOINTS, WRITES))

    async def delete_runs(self, runs: Sequence[str]) -> None:
        """Delete the checkpoints that runs wrote, in whichever threads, and all that belongs to them."""
        for group in grouped(runs, MOST_VALUES):
            while found := await self._firestore.among(CHECKPOINTS, "run", group, limit=PAGE):
                claims = await self._firestore.among(CLAIMS, "of", [_of(one) for one in found])
                await self._firestore.delete([(CLAIMS, claim.name) for claim in claims])
                await self._delete_owners(CHECKPOINTS, found)
                for name, _ in found:
                    await self._delete(f"{name}.", f"{name}/", doomed=lambda _: True, owners=(WRITES,))

    async def _added(self, place: Place, name: str, given: Sequence[Write]) -> list[Write]:
        """Return what is in a slot and what is to be added; nothing when all of it is there."""
        found = await self._firestore.get(WRITES, [name])
        if not found:
            return list(given)
        _, _, said = read_writes(name, found[name], place=place)
        had = unpacked(await self.joined(said, owner=name), owner=name)
        more = [write for write in given if write.index not in {other.index for other in had}]
        return [*had, *more] if more else []

    async def _all(self, low: str, high: str) -> AsyncGenerator[tuple[str, Stored]]:
        """Return checkpoints in the order of their keys: in each namespace the oldest first."""
        while found := await self._firestore.page(CHECKPOINTS, low=low, high=high, limit=PAGE):
            for name, fields in found:
                yield name, read_checkpoint(name, fields)
            low = f"{found[-1].fields['key']}\0"

    async def _down(self, collection: str, low: str, high: str, *, size: int) -> AsyncGenerator[list[Found]]:
        """Return documents a few at a time, the greatest keys first."""
        while found := await self._firestore.page(collection, low=low, high=high, limit=size, newest=True):
            yield found
            high = found[-1].fields["key"]

    async def _delete(self, low: str, high: str, *, doomed: Callable[[str], bool], owners: Sequence[str]) -> None:
        for collection in owners:
            async for page in self._down(collection, low, high, size=PAGE):
                await self._delete_owners(collection, [found for found in page if doomed(_of(found))])
        async for page in self._down(CHUNKS, low, high, size=_CHUNKS):  # what a dead writer has left, if anything
            await self._firestore.delete([(CHUNKS, found.name) for found in page if doomed(_of(found))])

    async def _delete_owners(self, collection: str, page: Sequence[Found]) -> None:
        owners = [(collection, found.name) for found in page]
        await self._firestore.delete([*owners, *((CHUNKS, name) for found in page for name in chunks_of(*found))])


def _of(found: Found) -> str:
    """Return the key of the checkpoint that a document belongs to or is."""
    return str(found.fields.get("of", found.fields["key"]))


def _asked(own_id: str, *, only: str | None, before: str | None) -> bool:
    return (only is None or own_id == only) and (before is None or own_id < before)
