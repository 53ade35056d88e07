"""The Firestore operations that are used, each with a deadline and with translated errors.

They are: get documents by name, query documents by one field, and commit. Not used, although the client has them: transactions,
preconditions other than that a document must be new, cursors, offsets, projections, collection groups and lists of
collections. The emulator implements these wrongly or not at all, so they could not be tested.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakValueDictionary

from google.api_core import exceptions as google
from google.auth.exceptions import GoogleAuthError
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.base_query import FieldFilter

from interlock.errors import SettingsInvalid, StoreError, StoreFull, StoreUnavailable
from interlock.stores.event_loops import PerEventLoop
from interlock.stores.firestore_documents import Document, tenant_name

__all__ = ["BATCH_BYTES", "BATCH_WRITES", "MOST_VALUES", "Firestore", "Found", "grouped"]

BATCH_WRITES = 500
"""Largest number of documents in one commit."""

BATCH_BYTES = 9_000_000
"""Largest size of a commit: the server accepts 10 MiB, which includes names and encoding."""

MOST_VALUES = 30
"""Largest number of values in an `in` filter."""

_DOCUMENT_BYTES = 4096  # a generous estimate of what a document takes besides its values
_PAUSES_S = (0.05, 0.2, 0.8)
_TRANSIENT = (google.ServiceUnavailable, google.Aborted, google.InternalServerError)
_TIMEOUTS = (TimeoutError, google.DeadlineExceeded, google.RetryError)
_UNREACHABLE = (google.ServerError, google.Aborted, google.Cancelled, OSError)
_REFUSED = (google.PermissionDenied, google.Unauthenticated)

T = TypeVar("T")


class Found(NamedTuple):
    """An existing document."""

    name: str
    fields: dict[str, Any]


class _LoopClient:
    """The client of one event loop, and its locks."""

    def __init__(self, client: AsyncClient | None) -> None:
        self.client = client
        self.opening = asyncio.Lock()
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


class Firestore:
    """The documents of one tenant. Each event loop has its own client, created at first use."""

    def __init__(self, *, project: str, tenant: str, timeout_s: float, client: AsyncClient | None) -> None:
        if not project or "/" in project:
            raise SettingsInvalid("The Firestore project must be the id of a Google Cloud project, as in 'firestore:my-project'.")
        self._project = project
        self._tenant_path = ("tenants", tenant_name(tenant))
        self._timeout_s = timeout_s
        self._shared_client = client
        self._loops = PerEventLoop(lambda: _LoopClient(client))

    async def get(self, collection: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the fields of those documents that exist."""

        async def operation(client: AsyncClient) -> dict[str, dict[str, Any]]:
            references = [self._collection(client, collection).document(name) for name in names]
            snapshots = client.get_all(references, retry=None, timeout=self._timeout_s)
            return dict([_found(snapshot) async for snapshot in snapshots if snapshot.exists])

        return await self._call(operation)

    async def page(self, collection: str, *, low: str, high: str, limit: int, newest: bool = False) -> list[Found]:
        """Return documents sorted by key, from `low` up to but not including `high`; with `newest`, in descending order."""
        direction = "DESCENDING" if newest else "ASCENDING"

        async def operation(client: AsyncClient) -> list[Found]:
            query = self._collection(client, collection).where(filter=FieldFilter("key", ">=", low))
            query = query.where(filter=FieldFilter("key", "<", high)).order_by("key", direction=direction).limit(limit)
            return [_found(snapshot) for snapshot in await query.get(retry=None, timeout=self._timeout_s)]

        return await self._call(operation)

    async def where_in(self, collection: str, field: str, values: Sequence[str], *, limit: int | None = None) -> list[Found]:
        """Return documents whose field has one of at most 30 values, in no particular order."""

        async def operation(client: AsyncClient) -> list[Found]:
            query: Any = self._collection(client, collection).where(filter=FieldFilter(field, "in", list(values)))
            query = query if limit is None else query.limit(limit)
            return [_found(snapshot) for snapshot in await query.get(retry=None, timeout=self._timeout_s)]

        return await self._call(operation)

    async def write(self, documents: Sequence[Document], *, after: Sequence[Document] = (), claim: Document | None = None) -> bool:
        """Write `after` and then `documents` in one commit, or in several if they are too large for one: `documents` are in the last.

        The claim must be new: if it exists already, `documents` are not written, and False is returned.
        """
        batches = list(_batches([*after, *documents]))
        if len(batches) > 1:
            batches = [*_batches(after), list(documents)]
        for batch in batches:

            async def operation(client: AsyncClient, batch: Sequence[Document] = batch, claim: Document | None = None) -> bool:
                commit = client.batch()
                if claim is not None:
                    commit.create(self._collection(client, claim.collection).document(claim.name), claim.fields)
                for document in batch:
                    commit.set(self._collection(client, document.collection).document(document.name), document.fields)
                try:
                    await commit.commit(retry=None, timeout=self._timeout_s)
                except google.AlreadyExists:
                    return False
                return True

            # The documents themselves are in the last batch, together with the claim.
            if not await self._call(functools.partial(operation, claim=claim if batch is batches[-1] else None)):
                return False
        return True

    async def delete(self, names: Sequence[tuple[str, str]]) -> None:
        """Delete documents, each named with its collection, in order."""
        for group in grouped(names, BATCH_WRITES):

            async def operation(client: AsyncClient, group: Sequence[tuple[str, str]] = group) -> None:
                commit = client.batch()
                for collection, name in group:
                    commit.delete(self._collection(client, collection).document(name))
                await commit.commit(retry=None, timeout=self._timeout_s)

            await self._call(operation)

    @asynccontextmanager
    async def lock_document(self, name: str) -> AsyncGenerator[None]:
        """Hold a lock among the tasks of this event loop, for reading and then replacing a document."""
        lock = self._loops.get().locks.setdefault(name, asyncio.Lock())
        async with lock:
            yield

    async def aclose(self) -> None:
        """Close the client of this event loop, unless it was passed in. A later call creates another."""
        loop_client = self._loops.pop()
        if loop_client is not None and loop_client.client is not None and loop_client.client is not self._shared_client:
            api: Any = loop_client.client._firestore_api  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the client itself has no way to be closed
            await api.transport.close()

    async def _client(self) -> AsyncClient:
        loop_client = self._loops.get()
        if loop_client.client is None:
            async with loop_client.opening:
                if loop_client.client is None:  # in a thread: looking for credentials blocks on files and the network
                    loop_client.client = await asyncio.to_thread(AsyncClient, project=self._project)
        return loop_client.client

    def _collection(self, client: AsyncClient, name: str) -> Any:
        return client.collection(*self._tenant_path, name)

    async def _call(self, operation: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """Run an operation, and retry it for about a second while the server is unavailable. Writes are idempotent."""
        pauses = iter(_PAUSES_S)
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    try:
                        return await operation(await self._client())
                    except _TRANSIENT:
                        pause = next(pauses, None)
                        if pause is None:
                            raise
                        await asyncio.sleep(pause)
        except (google.GoogleAPIError, GoogleAuthError, OSError) as error:  # a TimeoutError is an OSError
            raise self._translate_error(error) from error

    def _translate_error(self, error: Exception) -> StoreError:
        """Translate an error of the client. The server's text is left out, because it may contain anything."""
        whose = f"Firestore of project '{self._project}'"
        if isinstance(error, _TIMEOUTS):
            return StoreUnavailable(f"{whose} did not answer within {self._timeout_s:g} s. Check the network, and try again.")
        if isinstance(error, google.ResourceExhausted):
            return StoreFull(f"{whose} is full, or its quota is used up. Raise the quota, or wait for the next day.")
        if isinstance(error, GoogleAuthError):
            return StoreUnavailable(
                f"There are no credentials for {whose}. Run: gcloud auth application-default login; or set GOOGLE_APPLICATION_CREDENTIALS."
            )
        if isinstance(error, _REFUSED):
            return StoreUnavailable(f"{whose} rejects the credentials. Give them the role 'roles/datastore.user' in that project.")
        if isinstance(error, google.NotFound):
            return StoreUnavailable(f"{whose} has no database. Create one in native mode: gcloud firestore databases create")
        if isinstance(error, _UNREACHABLE):
            return StoreUnavailable(
                f"{whose} cannot be reached, or is failing ('{type(error).__name__}'). Check the network, and try again."
            )
        return StoreError(f"{whose} rejected the request ('{type(error).__name__}').")


def grouped(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in groups of `size`."""
    rest = iter(items)
    while group := list(islice(rest, size)):
        yield group


def _found(snapshot: Any) -> Found:
    return Found(snapshot.id, cast("dict[str, Any]", snapshot.to_dict()))


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    room = BATCH_BYTES
    for document in documents:
        size = _DOCUMENT_BYTES + _size(document.fields)
        if batch and (size > room or len(batch) == BATCH_WRITES):
            yield batch
            batch, room = [], BATCH_BYTES
        batch.append(document)
        room -= size
    if batch:
        yield batch


def _size(value: object) -> int:
    if isinstance(value, dict):
        return sum(_size(part) for part in cast("dict[str, object]", value).values())
    return len(value) if isinstance(value, bytes) else 4 * len(value) if isinstance(value, str) else 8
