"""The few things that are asked of Firestore, each with a deadline, and its errors in our terms.

Asked for are documents by their names, documents by one field, and commits. Not asked for, although the client has them:
transactions, preconditions other than that a document must be new, cursors, offsets, projections, collection groups and lists
of collections. The emulator does these wrongly or not at all, so nothing here could be shown to work.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from google.api_core import exceptions as google
from google.auth.exceptions import GoogleAuthError
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.base_query import FieldFilter

from interlock.adapters.stores.firestore_documents import Document, tenant_name
from interlock.errors import SettingsInvalid, StoreError, StoreFull, StoreUnavailable

__all__ = ["BATCH_BYTES", "BATCH_WRITES", "MOST_VALUES", "Firestore", "Found", "grouped"]

BATCH_WRITES = 500
"""How many documents one commit may have."""

BATCH_BYTES = 9_000_000
"""How large a commit may be: the server takes 10 MiB, of which the names and the encoding need their part."""

MOST_VALUES = 30
"""How many values a query may compare a field with."""

_DOCUMENT_BYTES = 4096  # what a document takes beside its values, generously
_PAUSES_S = (0.05, 0.2, 0.8)
_PASSING = (google.ServiceUnavailable, google.Aborted, google.InternalServerError)
_LATE = (TimeoutError, google.DeadlineExceeded, google.RetryError)
_FAILING = (google.ServerError, google.Aborted, google.Cancelled, OSError)
_REFUSED = (google.PermissionDenied, google.Unauthenticated)

T = TypeVar("T")


class Found(NamedTuple):
    """A document that is there."""

    name: str
    fields: dict[str, Any]


class _Link:
    """The client of one event loop, and the locks of it."""

    def __init__(self, client: AsyncClient | None) -> None:
        self.client = client
        self.opening = asyncio.Lock()
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


class Firestore:
    """The documents of one tenant. An event loop has a connection of its own, made when it is needed."""

    def __init__(self, *, project: str, tenant: str, timeout_s: float, client: AsyncClient | None) -> None:
        if not project or "/" in project:
            raise SettingsInvalid("The Firestore project must be the id of a Google Cloud project, as in 'firestore:my-project'.")
        self._project = project
        self._place = ("tenants", tenant_name(tenant))
        self._timeout_s = timeout_s
        self._given = client
        self._links: WeakKeyDictionary[asyncio.AbstractEventLoop, _Link] = WeakKeyDictionary()

    async def get(self, collection: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the fields of those documents that are there."""

        async def ask(client: AsyncClient) -> dict[str, dict[str, Any]]:
            references = [self._collection(client, collection).document(name) for name in names]
            snapshots = client.get_all(references, retry=None, timeout=self._timeout_s)
            return dict([_found(snapshot) async for snapshot in snapshots if snapshot.exists])

        return await self._ask(ask)

    async def page(self, collection: str, *, low: str, high: str, limit: int, newest: bool = False) -> list[Found]:
        """Return documents by their keys, from `low` to below `high`, or from below `high` down."""
        direction = "DESCENDING" if newest else "ASCENDING"

        async def ask(client: AsyncClient) -> list[Found]:
            query = self._collection(client, collection).where(filter=FieldFilter("key", ">=", low))
            query = query.where(filter=FieldFilter("key", "<", high)).order_by("key", direction=direction).limit(limit)
            return [_found(snapshot) for snapshot in await query.get(retry=None, timeout=self._timeout_s)]

        return await self._ask(ask)

    async def among(self, collection: str, field: str, values: Sequence[str], *, limit: int | None = None) -> list[Found]:
        """Return documents that have one of at most 30 values in a field, in no order."""

        async def ask(client: AsyncClient) -> list[Found]:
            query: Any = self._collection(client, collection).where(filter=FieldFilter(field, "in", list(values)))
            query = query if limit is None else query.limit(limit)
            return [_found(snapshot) for snapshot in await query.get(retry=None, timeout=self._timeout_s)]

        return await self._ask(ask)

    async def write(self, documents: Sequence[Document], *, after: Sequence[Document] = (), claim: Document | None = None) -> bool:
        """Replace a few documents, at once, when all those that they need are there: with them if that fits into one commit.

        The claim must be new: where it is there already, the documents are not written, and False is returned.
        """
        batches = list(_batches([*after, *documents]))
        if len(batches) > 1:
            batches = [*_batches(after), list(documents)]
        for batch in batches:

            async def ask(client: AsyncClient, batch: Sequence[Document] = batch, claim: Document | None = None) -> bool:
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

            # The documents themselves are in the last batch, and the claim goes with them.
            if not await self._ask(functools.partial(ask, claim=claim if batch is batches[-1] else None)):
                return False
        return True

    async def delete(self, names: Sequence[tuple[str, str]]) -> None:
        """Delete documents, each named with its collection, in order."""
        for group in grouped(names, BATCH_WRITES):

            async def ask(client: AsyncClient, group: Sequence[tuple[str, str]] = group) -> None:
                commit = client.batch()
                for collection, name in group:
                    commit.delete(self._collection(client, collection).document(name))
                await commit.commit(retry=None, timeout=self._timeout_s)

            await self._ask(ask)

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncGenerator[None]:
        """Hold off others of this event loop who would read a document in order to replace it."""
        lock = self._link().locks.setdefault(name, asyncio.Lock())
        async with lock:
            yield

    async def aclose(self) -> None:
        """Close the connection that this event loop has, unless it is somebody else's; a later call opens another."""
        link = self._links.pop(asyncio.get_running_loop(), None)
        if link is not None and link.client is not None and link.client is not self._given:
            api: Any = link.client._firestore_api  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the client itself has no way to be closed
            await api.transport.close()

    def _link(self) -> _Link:
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None:
            link = self._links[loop] = _Link(self._given)
        return link

    async def _client(self) -> AsyncClient:
        link = self._link()
        if link.client is None:
            async with link.opening:
                if link.client is None:  # looking for credentials reads files and asks the network, and waits for both
                    link.client = await asyncio.to_thread(AsyncClient, project=self._project)
        return link.client

    def _collection(self, client: AsyncClient, name: str) -> Any:
        return client.collection(*self._place, name)

    async def _ask(self, ask: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """Ask, and ask again for a moment when the server is not there. What is written is the same the second time."""
        pauses = iter(_PAUSES_S)
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    try:
                        return await ask(await self._client())
                    except _PASSING:
                        pause = next(pauses, None)
                        if pause is None:
                            raise
                        await asyncio.sleep(pause)
        except (google.GoogleAPIError, GoogleAuthError, OSError) as error:  # a TimeoutError is an OSError
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> StoreError:
        """Tell what an error means. What the server said is not repeated: it may be anything."""
        whose = f"Firestore of project '{self._project}'"
        if isinstance(error, _LATE):
            return StoreUnavailable(f"{whose} did not answer within {self._timeout_s:g} s. Check the network, and try again.")
        if isinstance(error, google.ResourceExhausted):
            return StoreFull(f"{whose} has no room left, or its quota is used up. Raise the quota, or wait for the next day.")
        if isinstance(error, GoogleAuthError):
            return StoreUnavailable(
                f"There are no credentials for {whose}. Run: gcloud auth application-default login; or set GOOGLE_APPLICATION_CREDENTIALS."
            )
        if isinstance(error, _REFUSED):
            return StoreUnavailable(f"{whose} refuses the credentials. Give them the role 'roles/datastore.user' in that project.")
        if isinstance(error, google.NotFound):
            return StoreUnavailable(f"{whose} has no database. Make one in native mode: gcloud firestore databases create")
        if isinstance(error, _FAILING):
            return StoreUnavailable(
                f"{whose} cannot be reached, or is failing ('{type(error).__name__}'). Check the network, and try again."
            )
        return StoreError(f"{whose} cannot do what is needed ('{type(error).__name__}').")


def grouped(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Take items a few at a time."""
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
