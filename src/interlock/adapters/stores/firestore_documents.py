"""How checkpoints lie in Firestore: what documents are called, what is in them, and payloads that take more than one.

    tenants/{tenant}/checkpoints/T.N.I            a checkpoint; its `key` puts it in order
    tenants/{tenant}/writes/T.N.I.K.S             what a task wrote before its step ended
    tenants/{tenant}/chunks/OWNER.D.NUMBER        a part of what did not fit into its owner
    tenants/{tenant}/claims/T.N.I                 which checkpoint came after this one; without I, which one came first

T and N are digests of the thread and the namespace, I is the checkpoint's id with everything odd percent-encoded, K is a
digest of the task, S is `writes` or the number of a special write, D is the payload's digest. So any text has a legal name
of its own, and the document's own words for it must lead to the name that it has. A payload that is replaced has other
chunks than before: whoever still reads the old one finds it whole.

Of a document the server indexes no more than 1,500 bytes a field. No query asks for payloads, so their index is a waste:
in production exempt `checkpoint`, `metadata`, `writes` and `data` from single-field indexes. Each query here has one field
and is served by the index that the server makes by itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

from interlock.errors import SettingsInvalid, StateUnstorable, StoreCorrupt

__all__ = [
    "CHECKPOINTS",
    "CHUNKS",
    "CHUNK_BYTES",
    "CLAIMS",
    "INLINE_BYTES",
    "WRITES",
    "Document",
    "Payload",
    "Place",
    "Stored",
    "Write",
    "checked",
    "chunk_names",
    "chunks_of",
    "claim_of",
    "digest",
    "packed",
    "payload",
    "read_checkpoint",
    "read_writes",
    "span",
    "tenant_name",
    "unpacked",
    "write_name",
]

CHECKPOINTS, WRITES, CHUNKS, CLAIMS = "checkpoints", "writes", "chunks", "claims"

CHUNK_BYTES = 900_000
"""How much of a payload one document holds: with its name and the rest it must stay below 1 MiB."""

INLINE_BYTES = 128 * 1024
"""How large a payload may be that stays in its owner: listing reads the owners, and not what they have elsewhere."""

_MOST_CHUNKS = 100_000
_ID_BYTES = 256
_WORD_BYTES = 64 * 1024
_TENANT_BYTES = 400

T = TypeVar("T")
Fields = Mapping[str, Any]


class Document(NamedTuple):
    """A document that is to be written."""

    collection: str
    name: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a checkpoint is kept."""

    thread: str
    ns: str
    id: str
    key: str = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        inside = span(self.thread, self.ns)[0]
        object.__setattr__(self, "key", f"{inside}{self.id}")
        object.__setattr__(self, "name", f"{inside}{_quoted(self.id)}")

    def storable(self) -> bool:
        """Tell whether the id is one that a checkpoint can have been kept by."""
        return bool(self.id) and len(_encoded(self.id)) <= _ID_BYTES and _is_text(self.id)

    def check(self) -> None:
        """Refuse words that no document can hold."""
        if not self.storable():
            raise StateUnstorable(f"The id of a checkpoint must be a text of 1 to {_ID_BYTES} bytes.")
        checked(self.thread, "id of a thread")
        checked(self.ns, "namespace of a checkpoint")


@dataclass(frozen=True)
class Payload:
    """What a document says of a payload."""

    type: str
    size: int
    sha256: str
    chunks: int
    data: bytes

    def joined(self, pieces: Sequence[object], *, owner: str) -> bytes:
        """Put the payload together; unless every byte is as it was written, it is StoreCorrupt."""
        parts = [piece if isinstance(piece, bytes) else b"" for piece in pieces] if self.chunks else [self.data]
        whole = b"".join(parts)
        if len(whole) != self.size or hashlib.sha256(whole).hexdigest() != self.sha256:
            raise StoreCorrupt(f"What belongs to document '{owner}' is missing, cut short or altered; it is left as it is.")
        return whole


@dataclass(frozen=True)
class Stored:
    """A checkpoint's document, read."""

    place: Place
    parent: str | None
    run: str | None
    checkpoint: Payload
    metadata: Payload


@dataclass(frozen=True)
class Write:
    """One value that a task wrote into a channel."""

    index: int
    channel: str
    path: str
    type: str
    data: bytes


def digest(text: str) -> str:
    """Give any text a name of its own that is legal everywhere."""
    return hashlib.sha256(_encoded(text)).hexdigest()


def span(thread: str | None = None, ns: str | None = None) -> tuple[str, str]:
    """Return the bounds, of which the upper one is outside, of the keys of a thread, of one of its namespaces, or of all."""
    if thread is None:
        return "", "~"
    inside = digest(thread) if ns is None else f"{digest(thread)}.{digest(ns)}"
    return f"{inside}.", f"{inside}/"  # the character after the period


def tenant_name(tenant: str) -> str:
    """Name the document below which everything of a tenant lies."""
    if not tenant or not _is_text(tenant) or len(_encoded(tenant)) > _TENANT_BYTES:
        raise SettingsInvalid(f"The name of a tenant must be a text of 1 to {_TENANT_BYTES} bytes.")
    name = _quoted(tenant)
    return f"%5F{name[1:]}" if name.startswith("__") else name  # '__x__' is the server's own


def checked(word: str, what: str) -> str:
    """Return a word that a document can hold, and refuse others."""
    if not _is_text(word) or len(_encoded(word)) > _WORD_BYTES:
        raise StateUnstorable(f"The {what} must be a text of at most {_WORD_BYTES:,} bytes.")
    return word


def claim_of(place: Place, *, after: str | None) -> Document:
    """Return the document that says that a checkpoint comes after another one, or first. It can be made once."""
    name = Place(place.thread, place.ns, after or "").name
    return Document(CLAIMS, name, {"key": name, "of": place.key})


def write_name(place: Place, task: str, slot: str) -> str:
    """Name the document of what a task wrote."""
    return f"{place.name}.{digest(task)}.{slot}"


def payload(kind: str, data: bytes, *, owner: str, of: str) -> tuple[dict[str, Any], list[Document]]:
    """Return what the owner says of a payload, and the chunks that must be there before the owner says so."""
    sha256 = hashlib.sha256(data).hexdigest()
    inline = len(data) <= INLINE_BYTES
    pieces = [] if inline else [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    said = {"type": kind, "size": len(data), "sha256": sha256, "chunks": len(pieces), "data": data if inline else b""}
    names = chunk_names(owner, sha256, len(pieces))
    return said, [Document(CHUNKS, name, {"key": name, "of": of, "data": piece}) for name, piece in zip(names, pieces, strict=True)]


def chunk_names(owner: str, sha256: str, count: int) -> list[str]:
    """Name the chunks of a payload, in order."""
    return [f"{owner}.{sha256}.{number:05}" for number in range(count)]


def chunks_of(name: str, fields: Fields) -> list[str]:
    """Name the chunks that a document speaks of, as far as it is any use."""
    names: list[str] = []
    for key in ("checkpoint", "metadata", "writes"):
        with suppress(StoreCorrupt):
            said = _payload(fields, key, name)
            names += chunk_names(name, said.sha256, said.chunks)
    return names


def read_checkpoint(name: str, fields: Fields) -> Stored:
    """Read the document of a checkpoint."""
    place = Place(_of(fields, "thread", str, name), _of(fields, "ns", str, name), _of(fields, "id", str, name))
    if place.name != name or place.key != fields.get("key"):
        raise _corrupt(name)
    return Stored(
        place=place,
        parent=_of(fields, "parent", (str, type(None)), name),
        run=_of(fields, "run", (str, type(None)), name),
        checkpoint=_payload(fields, "checkpoint", name),
        metadata=_payload(fields, "metadata", name),
    )


def read_writes(name: str, fields: Fields, *, place: Place) -> tuple[str, str, Payload]:
    """Read the document of what a task wrote: the task, the slot, and what it says of the writes."""
    task, slot = _of(fields, "task", str, name), _of(fields, "slot", str, name)
    if write_name(place, task, slot) != name:
        raise _corrupt(name)
    return task, slot, _payload(fields, "writes", name)


def packed(writes: Iterable[Write]) -> bytes:
    """Put writes into one payload, so that either all of them are there or none: a line that says what they are, then their values."""
    listed = list(writes)
    head = [[write.index, write.channel, write.path, write.type, len(write.data)] for write in listed]
    return b"".join((json.dumps(head).encode(), b"\n", *(write.data for write in listed)))


def unpacked(data: bytes, *, owner: str) -> list[Write]:
    """Take such a payload to pieces."""
    start = data.find(b"\n") + 1
    writes: list[Write] = []
    try:
        for index, channel, path, kind, size in cast("list[list[Any]]", json.loads(data[:start])):
            writes.append(Write(int(index), str(channel), str(path), str(kind), data[start : start + int(size)]))
            start += int(size)
    except (ValueError, TypeError, RecursionError) as error:
        raise _corrupt(owner) from error
    if start != len(data):
        raise _corrupt(owner)
    return writes


def _quoted(text: str) -> str:
    return quote(_encoded(text), safe="").replace(".", "%2E")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _corrupt(name: str) -> StoreCorrupt:
    return StoreCorrupt(f"Document '{name}' is not what a checkpointer wrote there; it is left as it is.")


def _of(fields: Fields, key: str, kind: type[T] | tuple[type[Any], ...], name: str) -> T:
    value = fields.get(key, ...)
    if not isinstance(value, kind):
        raise _corrupt(name)
    return cast("T", value)


def _payload(fields: Fields, key: str, name: str) -> Payload:
    said = cast("dict[str, Any]", _of(fields, key, dict, name))
    if not 0 <= _of(said, "chunks", int, name) < _MOST_CHUNKS:
        raise _corrupt(name)
    return Payload(
        type=_of(said, "type", str, name),
        size=_of(said, "size", int, name),
        sha256=_of(said, "sha256", str, name),
        chunks=_of(said, "chunks", int, name),
        data=_of(said, "data", bytes, name),
    )
