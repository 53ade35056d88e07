"""Layout of checkpoints in Firestore: names and fields of the documents, and payloads that need more than one document.

    tenants/{tenant}/checkpoints/T.N.I            a checkpoint; queries sort by its `key`
    tenants/{tenant}/writes/T.N.I.K.S             the writes of a task whose step has not ended
    tenants/{tenant}/chunks/OWNER.D.NUMBER        a part of a payload that does not fit into its owner
    tenants/{tenant}/claims/T.N.I                 the checkpoint that follows this one; without I, the first one

T and N are digests of the thread and the namespace, I is the checkpoint's id with special characters percent-encoded, K is a
digest of the task, S is `writes` or the number of a special write, D is the payload's digest. So any text has a legal and
unique name, and a document is read only if its fields lead back to its name. A replaced payload gets new chunks: a reader of
the old one still finds it complete.

The server indexes at most 1,500 bytes of a field. No query uses payloads, so in production exempt `checkpoint`, `metadata`,
`writes` and `data` from single-field indexes. Each query here filters by one field and uses its automatic index.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from interlock.errors import SettingsInvalid, StateUnstorable, StoreCorrupt

__all__ = [
    "CHECKPOINTS",
    "CHUNKS",
    "CHUNK_BYTES",
    "CLAIMS",
    "INLINE_BYTES",
    "WRITES",
    "CheckpointPath",
    "Document",
    "Payload",
    "StoredCheckpoint",
    "StoredWrites",
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
"""Size of a chunk: a document with its name and its other fields must stay below 1 MiB."""

INLINE_BYTES = 128 * 1024
"""Largest payload that is stored in its owner. Listing reads owners, but not their chunks."""

_MOST_CHUNKS = 100_000
_ID_BYTES = 256
_WORD_BYTES = 64 * 1024
_TENANT_BYTES = 400

T = TypeVar("T", bound=BaseModel)
Fields = Mapping[str, Any]


class Document(NamedTuple):
    """A document to write."""

    collection: str
    name: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class CheckpointPath:
    """Thread, namespace and id of a checkpoint, with its sort key and the name of its document."""

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
        """Return whether a checkpoint with this id can exist."""
        return bool(self.id) and len(_encoded(self.id)) <= _ID_BYTES and _is_text(self.id)

    def check(self) -> None:
        """Raise StateUnstorable for names that no document can hold."""
        if not self.storable():
            raise StateUnstorable(f"The id of a checkpoint must be a text of 1 to {_ID_BYTES} bytes.")
        checked(self.thread, "id of a thread")
        checked(self.ns, "namespace of a checkpoint")


class _Stored(BaseModel):
    """Fields of a document that is read. Values of another type are rejected, and other fields ignored."""

    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)


class Payload(_Stored):
    """The description of a payload in its document, with the data itself if it is small."""

    type: str
    size: int
    sha256: str
    chunks: Annotated[int, Field(ge=0, lt=_MOST_CHUNKS)]
    data: bytes

    def joined(self, chunks: Sequence[object], *, owner: str) -> bytes:
        """Join the chunks. Raises StoreCorrupt unless the bytes match the stored size and digest."""
        parts = [chunk if isinstance(chunk, bytes) else b"" for chunk in chunks] if self.chunks else [self.data]
        whole = b"".join(parts)
        if len(whole) != self.size or hashlib.sha256(whole).hexdigest() != self.sha256:
            raise StoreCorrupt(f"The payload of document '{owner}' is incomplete or was changed. It is left as it is.")
        return whole


class StoredCheckpoint(_Stored):
    """The document of a checkpoint."""

    key: str
    thread: str
    ns: str
    id: str
    parent: str | None
    run: str | None
    checkpoint: Payload
    metadata: Payload

    @cached_property
    def path(self) -> CheckpointPath:
        return CheckpointPath(self.thread, self.ns, self.id)


class StoredWrites(_Stored):
    """The document of a task's writes."""

    task: str
    slot: str
    writes: Payload


@dataclass(frozen=True)
class Write:
    """One value that a task wrote into a channel."""

    index: int
    channel: str
    path: str
    type: str
    data: bytes


def digest(text: str) -> str:
    """Return a digest of any text that is a legal part of a document name."""
    return hashlib.sha256(_encoded(text)).hexdigest()


def span(thread: str | None = None, ns: str | None = None) -> tuple[str, str]:
    """Return the range of keys, without its upper bound, of a thread, of one of its namespaces, or of all threads."""
    if thread is None:
        return "", "~"
    inside = digest(thread) if ns is None else f"{digest(thread)}.{digest(ns)}"
    return f"{inside}.", f"{inside}/"  # the character after the period


def tenant_name(tenant: str) -> str:
    """Return the name of a tenant's root document."""
    if not tenant or not _is_text(tenant) or len(_encoded(tenant)) > _TENANT_BYTES:
        raise SettingsInvalid(f"The name of a tenant must be a text of 1 to {_TENANT_BYTES} bytes.")
    name = _quoted(tenant)
    return f"%5F{name[1:]}" if name.startswith("__") else name  # Firestore reserves '__x__'


def checked(word: str, what: str) -> str:
    """Return a text that a field can hold. Raises StateUnstorable for others."""
    if not _is_text(word) or len(_encoded(word)) > _WORD_BYTES:
        raise StateUnstorable(f"The {what} must be a text of at most {_WORD_BYTES:,} bytes.")
    return word


def claim_of(path: CheckpointPath, *, after: str | None) -> Document:
    """Return the claim of a checkpoint to follow another one, or to be the first. Only one can be created."""
    name = CheckpointPath(path.thread, path.ns, after or "").name
    return Document(CLAIMS, name, {"key": name, "of": path.key})


def write_name(path: CheckpointPath, task: str, slot: str) -> str:
    """Return the name of the document of a task's writes."""
    return f"{path.name}.{digest(task)}.{slot}"


def payload(kind: str, data: bytes, *, owner: str, of: str) -> tuple[dict[str, Any], list[Document]]:
    """Return the description of a payload for its owner, and the chunks that must be written before the owner."""
    sha256 = hashlib.sha256(data).hexdigest()
    inline = len(data) <= INLINE_BYTES
    chunks = [] if inline else [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    stored = {"type": kind, "size": len(data), "sha256": sha256, "chunks": len(chunks), "data": data if inline else b""}
    names = chunk_names(owner, sha256, len(chunks))
    return stored, [Document(CHUNKS, name, {"key": name, "of": of, "data": chunk}) for name, chunk in zip(names, chunks, strict=True)]


def chunk_names(owner: str, sha256: str, count: int) -> list[str]:
    """Return the names of a payload's chunks, in order."""
    return [f"{owner}.{sha256}.{number:05}" for number in range(count)]


def chunks_of(name: str, fields: Fields) -> list[str]:
    """Return the names of the chunks that a document refers to. Damaged descriptions are skipped."""
    names: list[str] = []
    for key in ("checkpoint", "metadata", "writes"):
        with suppress(StoreCorrupt):
            payload = _parsed(Payload, name, fields.get(key))
            names += chunk_names(name, payload.sha256, payload.chunks)
    return names


def read_checkpoint(name: str, fields: Fields) -> StoredCheckpoint:
    """Parse the document of a checkpoint."""
    stored = _parsed(StoredCheckpoint, name, fields)
    if stored.path.name != name or stored.path.key != stored.key:
        raise _corrupt(name)
    return stored


def read_writes(name: str, fields: Fields, *, path: CheckpointPath) -> StoredWrites:
    """Parse the document of a task's writes."""
    stored = _parsed(StoredWrites, name, fields)
    if write_name(path, stored.task, stored.slot) != name:
        raise _corrupt(name)
    return stored


def packed(writes: Iterable[Write]) -> bytes:
    """Serialize writes into one payload, so that all or none are stored: a JSON header line, then the values."""
    listed = list(writes)
    head = [[write.index, write.channel, write.path, write.type, len(write.data)] for write in listed]
    return b"".join((json.dumps(head).encode(), b"\n", *(write.data for write in listed)))


def unpacked(data: bytes, *, owner: str) -> list[Write]:
    """Parse a payload that `packed` has written."""
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
    return StoreCorrupt(f"Document '{name}' does not have the fields that the checkpointer writes. It is left as it is.")


def _parsed(kind: type[T], name: str, fields: object) -> T:
    try:
        return kind.model_validate(fields)
    except ValidationError:
        raise _corrupt(name) from None
