"""What is remembered from one session to the next: in a SQLite file, on a PostgreSQL server, or in any store of LangGraph."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from interlock.adapters.stores.sqlite import SqliteFile
from interlock.errors import InterlockError, SettingsInvalid, StateUnstorable, StoreCorrupt, StoreError

__all__ = ["MAX_BYTES", "Kept", "Store", "StoredMemory", "open_memory"]

MAX_BYTES = 64 * 1024
"""How many bytes are remembered of one subject."""

_PLACE = ("desk", "memory")
_KEY = "summary"
_SCHEMES = ("postgresql://", "postgres://")

T = TypeVar("T")


class Kept(Protocol):
    """What a store gives back: of LangGraph's items, the part that is used."""

    @property
    def value(self) -> Any: ...


class Store(Protocol):
    """Keeps a value for a namespace and a key, as every `BaseStore` of LangGraph does."""

    async def aget(self, namespace: tuple[str, ...], key: str) -> Kept | None: ...

    async def aput(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None: ...


class StoredMemory:
    """Remembers one text a subject. A subject is any text, and no other one reads or replaces what is remembered of it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def recall(self, subject: str) -> str | None:
        """Return what is remembered of a subject. A row of another shape is StoreCorrupt, and is left as it is."""
        place = _place(subject)
        kept = await _asked(self._store.aget(place, _KEY))
        return None if kept is None else _text(kept, place)

    async def remember(self, subject: str, text: str) -> None:
        """Replace what is remembered of a subject. What not every store can keep is StateUnstorable on all of them."""
        fault = _fault(text)
        if fault is not None:
            raise StateUnstorable(f"What is to be remembered {fault}.")
        await _asked(self._store.aput(_place(subject), _KEY, {"text": text}))

    async def ping(self) -> None:
        """Raise what a turn would be met with: one row, of no subject, is written and read."""
        place = (*_PLACE, "ping")
        await _asked(self._store.aput(place, _KEY, {"text": ""}))
        kept = await _asked(self._store.aget(place, _KEY))
        if kept is None:
            raise StoreError("The memory's store does not keep what it is given.")
        _text(kept, place)

    async def aclose(self) -> None:
        """Close the files and connections, from whichever event loop; a later call opens them anew."""
        close = getattr(self._store, "aclose", None)
        if close is not None:
            await close()


def open_memory(url: str | None, *, path: Path, timeout_s: float) -> StoredMemory:
    """Return the memory of a PostgreSQL server or, without a URL, of the SQLite file `path`. Nothing is opened before it is used."""
    if url is None:
        return StoredMemory(SqliteFile(path, timeout_s=timeout_s))
    if not url.startswith(_SCHEMES):
        raise SettingsInvalid("'memory_url' must start with 'postgresql://'. Leave it out to remember in a SQLite file.")
    try:
        from interlock.adapters.stores.postgres import PostgresServer  # noqa: PLC0415 - an extra, and most of a second
    except ImportError as error:
        raise SettingsInvalid("PostgreSQL's client is not installed. Run: pip install 'interlock[postgres]'") from error
    return StoredMemory(PostgresServer(url, timeout_s=timeout_s))


def _place(subject: str) -> tuple[str, ...]:
    """Give a subject its namespace, which takes neither periods nor emptiness: a digest, so that any text has one of its own."""
    return (*_PLACE, hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest())


def _fault(text: str) -> str | None:
    """Say why a text cannot be kept."""
    if "\0" in text:
        return "holds a NUL character, which PostgreSQL cannot keep"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "holds half of a surrogate pair, which is no text"
    return f"has {size:,} bytes; the most is {MAX_BYTES:,}" if size > MAX_BYTES else None


def _text(kept: Kept, place: tuple[str, ...]) -> str:
    value: object = kept.value
    text = cast("dict[object, object]", value).get("text") if isinstance(value, dict) else None
    if not isinstance(text, str) or _fault(text) is not None:
        raise StoreCorrupt(f"Memory '{'.'.join(place)}' holds something else than a text that was remembered; it is left as it is.")
    return text


async def _asked(call: Awaitable[T]) -> T:
    """Wait for a store. Those of this package raise what is ours; what another one raises is not known here."""
    try:
        return await call
    except InterlockError:
        raise
    except Exception as error:
        raise StoreError(f"The memory's store failed ({type(error).__name__}).") from error
