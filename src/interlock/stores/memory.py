"""Long-term memory across sessions: in a SQLite file, on a PostgreSQL server, or in any LangGraph store."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from interlock.errors import InterlockError, SettingsInvalid, StateUnstorable, StoreCorrupt, StoreError
from interlock.extras import require
from interlock.stores.sqlite import SqliteFile

__all__ = ["MAX_BYTES", "Store", "StoredItem", "StoredMemory", "open_memory"]

MAX_BYTES = 64 * 1024
"""Largest size of the text of one subject."""

_NAMESPACE = ("desk", "memory")
_KEY = "summary"
_SCHEMES = ("postgresql://", "postgres://")

T = TypeVar("T")


class StoredItem(Protocol):
    """The part of LangGraph's `Item` that is used here."""

    @property
    def value(self) -> Any: ...


class Store(Protocol):
    """The part of LangGraph's `BaseStore` that is used here."""

    async def aget(self, namespace: tuple[str, ...], key: str) -> StoredItem | None: ...

    async def aput(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None: ...


class StoredMemory:
    """Stores one text for each subject. A subject can be any text; different subjects never share an entry."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def recall(self, subject: str) -> str | None:
        """Return the stored text of a subject, or None. Raises StoreCorrupt for a row of another shape, which is left as it is."""
        namespace = _namespace(subject)
        item = await _translate_errors(self._store.aget(namespace, _KEY))
        return None if item is None else _text(item, namespace)

    async def remember(self, subject: str, text: str) -> None:
        """Replace the stored text of a subject. Raises StateUnstorable on every store for text that only some stores accept."""
        reason = _why_unstorable(text)
        if reason is not None:
            raise StateUnstorable(f"The text for the memory {reason}.")
        await _translate_errors(self._store.aput(_namespace(subject), _KEY, {"text": text}))

    async def ping(self) -> None:
        """Write and read a row that belongs to no subject. Raises the error that a turn would get."""
        namespace = (*_NAMESPACE, "ping")
        await _translate_errors(self._store.aput(namespace, _KEY, {"text": ""}))
        item = await _translate_errors(self._store.aget(namespace, _KEY))
        if item is None:
            raise StoreError("The memory's store did not return the row that was just written.")
        _text(item, namespace)

    async def aclose(self) -> None:
        """Close the files and connections of all event loops. A later call opens them again."""
        close = getattr(self._store, "aclose", None)
        if close is not None:
            await close()


def open_memory(url: str | None, *, path: Path, timeout_s: float) -> StoredMemory:
    """Return the memory on a PostgreSQL server or, without a URL, in the SQLite file `path`. It is opened at the first use."""
    if url is None:
        return StoredMemory(SqliteFile(path, timeout_s=timeout_s))
    if not url.startswith(_SCHEMES):
        raise SettingsInvalid("'memory_url' must start with 'postgresql://'. Leave it out to use a SQLite file.")
    require("psycopg", extra="postgres", what="PostgreSQL's client")
    from interlock.stores.postgres import PostgresMemory  # noqa: PLC0415 - an extra, and most of a second

    return StoredMemory(PostgresMemory(url, timeout_s=timeout_s))


def _namespace(subject: str) -> tuple[str, ...]:
    """Return the namespace of a subject: a digest, because a namespace must not be empty or contain periods."""
    return (*_NAMESPACE, hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest())


def _why_unstorable(text: str) -> str | None:
    """Return the reason why a text cannot be stored, or None."""
    if "\0" in text:
        return "contains a NUL character, which PostgreSQL cannot store"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "contains half of a surrogate pair, which is not valid text"
    return f"has {size:,} bytes; the limit is {MAX_BYTES:,}" if size > MAX_BYTES else None


def _text(item: StoredItem, namespace: tuple[str, ...]) -> str:
    value: object = item.value
    text = cast("dict[object, object]", value).get("text") if isinstance(value, dict) else None
    if not isinstance(text, str) or _why_unstorable(text) is not None:
        raise StoreCorrupt(f"Memory '{'.'.join(namespace)}' does not contain a text that this memory wrote. It is left as it is.")
    return text


async def _translate_errors(call: Awaitable[T]) -> T:
    """Await a call of a store. Errors of stores outside this package become a StoreError."""
    try:
        return await call
    except InterlockError:
        raise
    except Exception as error:
        raise StoreError(f"The memory's store failed ({type(error).__name__}).") from error
