from __future__ import annotations

import asyncio
import gc
import itertools
import operator
import os
import re
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, cast

import grpc
import pytest
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.async_batch import AsyncWriteBatch
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from interlock.errors import SettingsInvalid, StateUnstorable, StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from interlock.stores import firestore_calls, firestore_documents
from interlock.stores.firestore import FirestoreCheckpointer
from interlock.stores.firestore_calls import BATCH_BYTES, Firestore
from interlock.stores.firestore_documents import (
    CHUNK_BYTES,
    INLINE_BYTES,
    CheckpointPath,
    Document,
    Write,
    packed,
    tenant_name,
    unpacked,
    write_name,
)
from tests.support.firestore import emulator, shared_emulator

MEBIBYTE = 1024 * 1024
COLLECTIONS = ("checkpoints", "writes", "chunks")
LARGE = bytes(range(250)) * 140  # 35 kB: where a chunk has 9 kB, four of them
HUGE = bytes(range(250)) * 840  # 210 kB: 24 chunks, which take three commits
REAL = 100


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> str:
    address = shared_emulator()
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", address)
    return address


@pytest.fixture
def real() -> None:
    """Tell that a test is about the real sizes."""


@pytest.fixture(autouse=True)
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything a hundred times smaller, so that tests of many chunks take no time."""
    if "real" not in request.fixturenames:
        monkeypatch.setattr(firestore_documents, "INLINE_BYTES", INLINE_BYTES // REAL)
        monkeypatch.setattr(firestore_documents, "CHUNK_BYTES", CHUNK_BYTES // REAL)
        monkeypatch.setattr(firestore_calls, "BATCH_BYTES", BATCH_BYTES // REAL)
        monkeypatch.setattr(firestore_calls, "_DOCUMENT_BYTES", 0)


@pytest.fixture
def project() -> str:
    return f"test-{os.urandom(6).hex()}"


@pytest.fixture
async def saver(project: str) -> AsyncGenerator[FirestoreCheckpointer]:
    made = FirestoreCheckpointer(project=project, timeout_s=30)
    yield made
    await made.aclose()


@pytest.fixture
async def raw(project: str) -> AsyncGenerator[AsyncClient]:
    client = AsyncClient(project=project)
    yield client
    await close(client)


async def close(client: AsyncClient) -> None:
    api: Any = client._firestore_api  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    await api.transport.close()


class Crash(Exception):
    pass


class Watched(AsyncClient):
    """The client, which notes what is committed and, where it is told to, dies instead."""

    def __init__(self, project: str) -> None:
        super().__init__(project=project)
        self.commits: list[list[str]] = []
        self.sizes: list[int] = []
        self.dies_at: int | None = None

    def batch(self) -> AsyncWriteBatch:
        return WatchedBatch(self)


class WatchedBatch(AsyncWriteBatch):
    async def commit(self, *args: Any, **kwargs: Any) -> Any:
        client = cast("Watched", self._client)
        writes: list[Any] = [type(write).pb(write) for write in self._write_pbs]
        client.commits.append([(write.update.name or write.delete).split("/")[-2] for write in writes])
        client.sizes.append(sum(write.ByteSize() for write in writes))
        assert all(write.ByteSize() < MEBIBYTE for write in writes), "no document may be larger"
        if client.dies_at == len(client.commits):
            raise Crash
        return await super().commit(*args, **kwargs)


@pytest.fixture
async def watched(project: str) -> AsyncGenerator[Watched]:
    client = Watched(project)
    yield client
    await close(client)


def config(thread: str = "a", ns: str | None = "", own_id: str | None = None) -> Any:
    named = {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": own_id}
    return {"configurable": {key: value for key, value in named.items() if value is not None}}


def checkpoint(own_id: str | None = None, **values: Any) -> Checkpoint:
    return Checkpoint(
        v=4,
        id=own_id or str(uuid6()),
        ts="2026-11-16T00:00:00+00:00",
        channel_values=values,
        channel_versions=dict.fromkeys(values, "1"),
        versions_seen={},
        updated_channels=None,
    )


async def put(
    saver: FirestoreCheckpointer, where: Any, own_id: str | None = None, /, *, metadata: Any = None, **values: Any
) -> RunnableConfig:
    return await saver.aput(where, checkpoint(own_id, **values), metadata or {"source": "loop", "step": 0}, {})


async def listed(saver: FirestoreCheckpointer, where: Any, **how: Any) -> list[str]:
    return [found.checkpoint["id"] async for found in saver.alist(where, **how)]


async def values(saver: FirestoreCheckpointer, where: Any) -> dict[str, Any] | None:
    found = await saver.aget_tuple(where)
    return None if found is None else found.checkpoint["channel_values"]


async def pending(saver: FirestoreCheckpointer, where: Any) -> list[tuple[str, str, Any]]:
    found = await saver.aget_tuple(where)
    assert found is not None
    return found.pending_writes or []


def collection(raw: AsyncClient, name: str, *, tenant: str = "default") -> Any:
    return raw.collection("tenants", tenant, name)


async def documents(raw: AsyncClient, name: str, *, tenant: str = "default") -> dict[str, dict[str, Any]]:
    return {snapshot.id: snapshot.to_dict() for snapshot in await collection(raw, name, tenant=tenant).get()}


async def count(raw: AsyncClient, *, tenant: str = "default") -> dict[str, int]:
    return {name: len(await documents(raw, name, tenant=tenant)) for name in COLLECTIONS}


# Payloads


@pytest.mark.usefixtures("real")
async def test_a_value_larger_than_a_document_is_stored_in_chunks(project: str, watched: Watched, raw: AsyncClient):
    saver, value = FirestoreCheckpointer(project=project, client=watched), LARGE * REAL
    where = await put(saver, config(), value=value)
    await saver.aput_writes(where, [("other", value[1:])], "task")
    assert await values(saver, config()) == {"value": value}
    assert await pending(saver, where) == [("task", "other", value[1:])]
    assert await count(raw) == {"checkpoints": 1, "writes": 1, "chunks": 8}
    assert watched.commits == [["chunks"] * 4 + ["checkpoints"], ["chunks"] * 4 + ["writes"]], "all of it at once, its owner at the end"


@pytest.mark.parametrize("size", [0, 1, INLINE_BYTES - 100, INLINE_BYTES, CHUNK_BYTES - 100, CHUNK_BYTES, 2 * CHUNK_BYTES])
@pytest.mark.usefixtures("real")
async def test_values_of_every_size_are_loaded_as_stored(saver: FirestoreCheckpointer, size: int):
    await put(saver, config(), value=b"x" * size)
    assert await values(saver, config()) == {"value": b"x" * size}


@pytest.mark.usefixtures("real")
async def test_a_value_larger_than_a_commit_takes_several_and_the_owner_is_last(project: str, watched: Watched):
    saver, value = FirestoreCheckpointer(project=project, client=watched), HUGE * REAL
    where = await put(saver, config(), value=value)
    assert [name for commit in watched.commits for name in commit][:-1] == ["chunks"] * 24
    assert watched.commits[-1] == ["checkpoints"]
    assert len(watched.commits) == 4
    assert max(watched.sizes) < 10 * MEBIBYTE
    assert await values(saver, where) == {"value": value}


async def test_more_than_five_hundred_documents_are_deleted_by_several_commits(project: str, watched: Watched, raw: AsyncClient):
    saver, place = FirestoreCheckpointer(project=project, client=watched), CheckpointPath("a", "", "1")
    said = {"type": "", "size": 0, "sha256": "0", "chunks": 1200, "data": b""}
    await collection(raw, "checkpoints").document(place.name).set({"key": place.key, "checkpoint": said})
    await saver.adelete_thread("a")
    assert [len(commit) for commit in watched.commits] == [500, 500, 201]
    assert watched.commits[0][0] == "checkpoints"
    assert await count(raw) == {"checkpoints": 0, "writes": 0, "chunks": 0}


async def test_more_than_five_hundred_documents_are_written_by_several_commits(project: str, watched: Watched):
    firestore = Firestore(project=project, tenant="default", timeout_s=30, client=watched)
    many = [Document("chunks", f"a.{number}", {"key": f"a.{number}"}) for number in range(600)]
    await firestore.write([Document("checkpoints", "a", {"key": "a"})], after=many)
    assert [len(commit) for commit in watched.commits] == [500, 100, 1]


TAMPERED: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "missing": lambda chunk: None,
    "short": lambda chunk: {**chunk, "data": chunk["data"][:-1]},
    "long": lambda chunk: {**chunk, "data": chunk["data"] + b"x"},
    "altered": lambda chunk: {**chunk, "data": b"x" + chunk["data"][1:]},
    "of another type": lambda chunk: {**chunk, "data": "text"},
}


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("how", TAMPERED)
async def test_a_changed_chunk_is_detected_and_not_changed(saver: FirestoreCheckpointer, raw: AsyncClient, how: str, number: int):
    where = await put(saver, config(), value=LARGE)
    name, chunk = sorted((await documents(raw, "chunks")).items())[number]
    tampered = TAMPERED[how](chunk)
    reference = collection(raw, "chunks").document(name)
    await (raw_delete(raw, reference) if tampered is None else reference.set(tampered))
    before = await count(raw)
    for read in (saver.aget_tuple(config()), saver.aget_tuple(where), listed(saver, config()), saver.acopy_thread("a", "b")):
        with pytest.raises(StoreCorrupt, match="left as it is"):
            await read
    assert await count(raw) == before


async def raw_delete(raw: AsyncClient, reference: Any) -> None:
    batch = raw.batch()
    batch.delete(reference)
    await batch.commit()


async def test_a_missing_chunk_of_writes_is_detected(saver: FirestoreCheckpointer, raw: AsyncClient):
    where = await put(saver, config(), value=1)
    await saver.aput_writes(where, [("value", LARGE)], "task")
    await raw_delete(raw, collection(raw, "chunks").document(min(await documents(raw, "chunks"))))
    with pytest.raises(StoreCorrupt):
        await saver.aget_tuple(config())
    with pytest.raises(StoreCorrupt):
        await saver.aput_writes(where, [("value", 1)], "task")


DAMAGED: dict[str, Any] = {
    "thread": "b",
    "ns": None,
    "id": 5,
    "parent": 5,
    "run": b"",
    "checkpoint": "text",
    "metadata": {"type": "x"},
}


@pytest.mark.parametrize("field", DAMAGED)
async def test_a_document_with_foreign_fields_is_detected_and_not_changed(saver: FirestoreCheckpointer, raw: AsyncClient, field: str):
    where = await put(saver, config(), value=1)
    ((name, fields),) = (await documents(raw, "checkpoints")).items()
    await collection(raw, "checkpoints").document(name).set({**fields, field: DAMAGED[field]})
    for read in (saver.aget_tuple(config()), saver.aget_tuple(where), listed(saver, config()), listed(saver, None), saver.aprune(["a"])):
        with pytest.raises(StoreCorrupt, match="left as it is"):
            await read
    assert list(await documents(raw, "checkpoints")) == [name]
    await saver.adelete_thread("a")
    assert await documents(raw, "checkpoints") == {}, "it can still be deleted"


@pytest.mark.parametrize(
    ("part", "value"),
    [("size", 3), ("sha256", "0" * 64), ("chunks", -1), ("chunks", 99_999), ("chunks", 10**15), ("chunks", 7)],
)
async def test_a_payload_that_differs_from_its_description_is_detected(
    saver: FirestoreCheckpointer, raw: AsyncClient, part: str, value: object
):
    await put(saver, config(), value=1)
    ((name, fields),) = (await documents(raw, "checkpoints")).items()
    fields["checkpoint"][part] = value
    await collection(raw, "checkpoints").document(name).set(fields)
    with pytest.raises(StoreCorrupt):
        await saver.aget_tuple(config())


async def test_a_checkpoint_under_another_name_is_detected(saver: FirestoreCheckpointer, raw: AsyncClient):
    one, other = await put(saver, config(), "1", value=1), await put(saver, config(), "2", value=2)
    stored = await documents(raw, "checkpoints")
    one_name, other_name = CheckpointPath("a", "", "1").name, CheckpointPath("a", "", "2").name
    await collection(raw, "checkpoints").document(one_name).set(stored[other_name])
    with pytest.raises(StoreCorrupt):
        await saver.aget_tuple(one)
    swapped = {**stored[one_name], "checkpoint": stored[other_name]["checkpoint"]}
    await collection(raw, "checkpoints").document(one_name).set(swapped)
    with pytest.raises(StoreCorrupt, match="another checkpoint"):
        await saver.aget_tuple(one)
    assert await values(saver, other) == {"value": 2}


@pytest.mark.parametrize("said", [b"", b"{}", b"[]\nx", b"[[0]]\n", b'[[0,"c","","interlock1",9]]\nx', b'["x"]\n', b"\xff\n", b"5\n"])
async def test_damaged_writes_are_detected(saver: FirestoreCheckpointer, raw: AsyncClient, said: bytes):
    where = await put(saver, config(), value=1)
    await saver.aput_writes(where, [("value", 1)], "task")
    ((name, fields),) = (await documents(raw, "writes")).items()
    for damaged in ({**fields, "task": "other"}, {**fields, "slot": 5}, {**fields, "writes": payload(said)}):
        await collection(raw, "writes").document(name).set(damaged)
        with pytest.raises(StoreCorrupt):
            await saver.aget_tuple(where)


def payload(data: bytes) -> dict[str, Any]:
    from hashlib import sha256  # noqa: PLC0415

    return {"type": "writes", "size": len(data), "sha256": sha256(data).hexdigest(), "chunks": 0, "data": data}


async def test_errors_of_another_serializer_are_translated(project: str):
    class Broken:
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            if obj == "bad":
                raise KeyError(obj)
            return "x", b""

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            raise KeyError(data)

    saver = FirestoreCheckpointer(project=project, serde=cast("SerializerProtocol", Broken()))
    where = await put(saver, config(), value=1)
    with pytest.raises(StateUnstorable, match="'str' cannot be stored \\(KeyError\\)"):
        await saver.aput_writes(where, [("value", "bad")], "task")
    with pytest.raises(StoreCorrupt, match="cannot be read \\(KeyError\\)"):
        await saver.aget_tuple(where)
    await saver.aclose()


async def test_the_default_serializer_accepts_plain_data_only(project: str):
    theirs = FirestoreCheckpointer(project=project, serde=JsonPlusSerializer())
    ours = FirestoreCheckpointer(project=project)
    with pytest.raises(StateUnstorable):
        await put(ours, config(), value=object())
    await put(theirs, config(), value=1)
    with pytest.raises(StoreCorrupt, match="not written by Interlock"):
        await ours.aget_tuple(config())
    await theirs.aclose()
    await ours.aclose()


# Crashes


@pytest.mark.parametrize("dies_at", [1, 2, 3, 4])
async def test_a_crash_while_writing_leaves_the_previous_checkpoint(
    project: str, saver: FirestoreCheckpointer, watched: Watched, raw: AsyncClient, dies_at: int
):
    before = await put(saver, config(), "1", value="before")
    dying = FirestoreCheckpointer(project=project, client=watched)
    watched.dies_at = dies_at
    with pytest.raises(Crash):
        await put(dying, before, "2", value=HUGE)
    assert await values(saver, config()) == {"value": "before"}
    assert await listed(saver, config()) == ["1"]
    assert await saver.aget_tuple(config(own_id="2")) is None
    left = await count(raw)
    assert left["chunks"] == [0, 8, 16, 24][dies_at - 1]
    await put(saver, before, "2", value=HUGE)
    assert await values(saver, config()) == {"value": HUGE}
    await saver.adelete_thread("a")
    assert await count(raw) == {"checkpoints": 0, "writes": 0, "chunks": 0}


@pytest.mark.parametrize("dies_at", [1, 2, 3, 4])
async def test_a_crash_while_replacing_leaves_the_old_checkpoint(
    project: str, saver: FirestoreCheckpointer, watched: Watched, dies_at: int
):
    await put(saver, config(), "1", value=LARGE)
    dying = FirestoreCheckpointer(project=project, client=watched)
    watched.dies_at = dies_at
    with pytest.raises(Crash):
        await put(dying, config(), "1", value=HUGE)
    assert await values(saver, config()) == {"value": LARGE}


@pytest.mark.parametrize("dies_at", [1, 2, 3, 4])
async def test_the_writes_of_a_task_are_stored_atomically(project: str, saver: FirestoreCheckpointer, watched: Watched, dies_at: int):
    where = await put(saver, config(), value=1)
    dying = FirestoreCheckpointer(project=project, client=watched)
    watched.dies_at = dies_at
    writes = [("small", 1), ("huge", HUGE), (RESUME, LARGE), *((f"c{n}", n) for n in range(600))]
    with pytest.raises(Crash):
        await dying.aput_writes(where, writes, "task")
    assert await pending(saver, where) == []
    watched.dies_at = None
    await dying.aput_writes(where, writes, "task")
    assert len(await pending(saver, where)) == 603
    assert watched.commits[-1] == ["writes", "writes"]


async def test_a_crash_while_deleting_leaves_an_earlier_readable_state(
    project: str, saver: FirestoreCheckpointer, watched: Watched, raw: AsyncClient
):
    for number in range(40):
        where = await put(saver, config(), f"{number:03}", value=LARGE if number % 10 == 0 else number)
        await saver.aput_writes(where, [("value", number)], "task")
    dying = FirestoreCheckpointer(project=project, client=watched)
    seen: list[int] = []
    for dies_at in (2, 1, 1, 2, None):
        watched.commits, watched.dies_at = [], dies_at
        try:
            await dying.adelete_thread("a")
        except Crash:
            ids = await listed(saver, config())
            assert ids == [f"{number:03}" for number in reversed(range(len(ids)))]
            seen.append(len(ids))
    assert seen == [10, 10, 10, 0]
    assert await count(raw) == {"checkpoints": 0, "writes": 0, "chunks": 0}


async def test_a_checkpoint_deleted_while_it_is_read_is_not_corrupt(project: str, saver: FirestoreCheckpointer):
    await put(saver, config(), "1", value=LARGE)

    class Late(AsyncClient):
        """Deletes the second checkpoint as soon as anybody asks for chunks."""

        def get_all(self, references: list[Any], *args: Any, **kwargs: Any) -> Any:
            return self._late(references, *args, **kwargs)

        async def _late(self, references: list[Any], *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
            if "chunks" in references[0].path:
                await saver.adelete_for_runs(["second"])
            async for snapshot in super().get_all(references, *args, **kwargs):
                yield snapshot

    reads: list[tuple[Callable[[FirestoreCheckpointer], Awaitable[Any]], Any]] = [
        (lambda reader: values(reader, config()), {"value": LARGE}),
        (lambda reader: values(reader, config(own_id="2")), None),
        (lambda reader: listed(reader, config()), ["1"]),
        (lambda reader: listed(reader, None), ["1"]),
    ]
    for value, (read, expected) in itertools.product([LARGE, 1], reads):
        where = await put(saver, config(), "2", value=value, metadata={"run_id": "second"})
        await saver.aput_writes(where, [("value", LARGE)], "task")
        client = Late(project=project)
        assert await read(FirestoreCheckpointer(project=project, client=client)) == expected
        await close(client)


# Names


ODD = ["", ".", "..", "__x__", "a/b", "a:b|c:d", "|", "%2F", "/", "x" * 5000, "\0", "é\U0001f600", "a.b", " "]


async def test_any_text_is_a_unique_name_of_a_thread_namespace_or_checkpoint(saver: FirestoreCheckpointer):
    places = (
        [(thread, "", "1") for thread in ODD]
        + [("t", ns, "1") for ns in ODD]
        + [("u", "", own_id) for own_id in ODD if 0 < len(own_id) < 100]
    )
    for thread, ns, own_id in places:
        where = await put(saver, config(thread, ns), own_id, value=[thread, ns, own_id])
        await saver.aput_writes(where, [("c", LARGE)], thread)
    for thread, ns, own_id in places:
        found = await saver.aget_tuple(config(thread, ns, own_id))
        assert found is not None
        assert found.config == config(thread, ns, own_id)
        assert found.checkpoint["channel_values"] == {"value": [thread, ns, own_id]}
        assert found.pending_writes == [(thread, "c", LARGE)]
    assert len(await listed(saver, None)) == len(places)
    await saver.adelete_thread("")
    assert len(await listed(saver, None)) == len(places) - 1


async def test_checkpoints_are_sorted_by_id(saver: FirestoreCheckpointer):
    ids = ["a-b", "a.b", "a/b", "a:b", "a%3Ab", "a", "A", "a~", "é"]
    for own_id in ids:
        await put(saver, config(), own_id, value=own_id)
    assert await listed(saver, config()) == sorted(ids, reverse=True)
    assert await listed(saver, config(ns=None)) == sorted(ids, reverse=True)
    assert await listed(saver, config(), before=config(own_id="a:b")) == [own_id for own_id in sorted(ids, reverse=True) if own_id < "a:b"]


@pytest.mark.parametrize(
    ("where", "own_id"),
    [(config("\ud800"), "1"), (config("x" * 70_000), "1"), (config(ns="\udfff"), "1"), (config(), "\ud800"), (config(), "x" * 257)],
)
async def test_an_invalid_name_is_rejected_and_never_found(saver: FirestoreCheckpointer, where: Any, own_id: str):
    with pytest.raises(StateUnstorable):
        await put(saver, where, own_id, value=1)
    where["configurable"]["checkpoint_id"] = own_id
    with pytest.raises(StateUnstorable, match="must be a text"):
        await saver.aput_writes(where, [("value", 1)], "task")
    assert await saver.aget_tuple(where) is None
    with pytest.raises(StateUnstorable, match="must be a text"):
        await saver.aput_writes(config(own_id="1"), [("value", 1)], "\ud800")
    with pytest.raises(StateUnstorable, match="must be a text"):
        await put(saver, config(own_id="\ud800"), "2", value=1)


texts = st.text(st.characters(codec="utf-8"), max_size=80) | st.sampled_from(ODD)


def legal(name: str) -> bool:
    return (
        0 < len(name.encode()) <= 1500 and "/" not in name and name not in {".", ".."} and re.fullmatch(r"__.*__", name, re.DOTALL) is None
    )


@given(texts, texts, texts, texts)
def test_every_document_name_is_legal(thread: str, ns: str, own_id: str, task: str):
    assert legal(f"{write_name(CheckpointPath(thread, ns, own_id[:64]), task, 'writes')}.{'0' * 64}.00000")


@given(st.tuples(texts, texts, texts), st.tuples(texts, texts, texts))
def test_document_names_of_checkpoints_are_unique(one: tuple[str, str, str], other: tuple[str, str, str]):
    assert (CheckpointPath(*one).name == CheckpointPath(*other).name) == (one == other)
    assert (CheckpointPath(*one).key == CheckpointPath(*other).key) == (one == other)
    for name in ("writes", "-1"):
        assert not CheckpointPath(*other).name.startswith(f"{write_name(CheckpointPath(*one), 'task', name)}.")


@given(texts.filter(bool), texts.filter(bool))
def test_document_names_of_tenants_are_unique_and_legal(one: str, other: str):
    if max(len(one), len(other)) <= 100:
        assert legal(tenant_name(one))
        assert (tenant_name(one) == tenant_name(other)) == (one == other)


@given(st.lists(st.builds(Write, st.integers(-4, 1000), st.text(), st.text(), st.text(), st.binary(max_size=50))))
def test_packed_writes_are_unpacked(writes: list[Write]):
    assert unpacked(packed(writes), owner="x") == writes


@pytest.mark.parametrize("settings", [{"project": ""}, {"project": "a/b"}, {"tenant": ""}, {"tenant": "x" * 401}, {"tenant": "\ud800"}])
def test_invalid_settings_are_rejected_without_a_call(settings: dict[str, Any]):
    with pytest.raises(SettingsInvalid):
        FirestoreCheckpointer(**cast("Any", {"project": "x", **settings}))


# Tenants


@pytest.mark.parametrize("names", [("acme", "initech"), ("a/b", "a%2Fb"), (".", ".."), ("__a__", "a")])
async def test_tenants_are_isolated(project: str, raw: AsyncClient, names: tuple[str, str]):
    one, other = (FirestoreCheckpointer(project=project, tenant=name) for name in names)
    for number, saver in enumerate((one, other)):
        for own_id in ("1", "2"):
            where = await put(saver, config(), own_id, value=number, metadata={"run_id": "r"})
            await saver.aput_writes(where, [("value", LARGE)], "task")
    assert await values(one, config()) == {"value": 0}
    assert await values(other, config()) == {"value": 1}
    assert len(await listed(one, None)) == 2
    before = await count(raw, tenant=tenant_name(names[1]))
    await one.aprune(["a"])
    await one.adelete_for_runs(["r"])
    await one.adelete_thread("a")
    assert await one.aget_tuple(config()) is None
    assert await listed(one, None) == []
    assert await count(raw, tenant=tenant_name(names[1])) == before
    assert await values(other, config()) == {"value": 1}
    await one.aclose()
    await other.aclose()


# Listing


async def test_two_hundred_checkpoints_are_listed_in_pages(saver: FirestoreCheckpointer):
    ids = [f"{number:04}" for number in range(200)]
    for part in range(0, 200, 20):
        await asyncio.gather(
            *(put(saver, config(), own_id, value=own_id, metadata={"even": int(own_id) % 2 == 0}) for own_id in ids[part : part + 20])
        )
    await asyncio.gather(*(saver.aput_writes(config(own_id=own_id), [("value", own_id)], "task") for own_id in ids[::10]))
    newest = ids[::-1]
    assert await listed(saver, config()) == newest
    assert await listed(saver, config(ns=None)) == newest
    assert await listed(saver, None) == newest
    for limit in (0, 1, 29, 30, 31):
        assert await listed(saver, config(), limit=limit) == newest[:limit]
    assert await listed(saver, config(ns=None), limit=31) == newest[:31]
    assert await listed(saver, None, limit=31) == newest[:31]
    assert await listed(saver, config(), limit=-1) == []
    assert await listed(saver, config(), before=config(own_id="0150"), limit=40) == newest[50:90]
    assert await listed(saver, config(ns=None), before=config(own_id="0150"), limit=40) == newest[50:90]
    assert await listed(saver, config(), before=config(own_id="0000")) == []
    assert await listed(saver, config(), before=config(), limit=3) == newest[:3]
    assert await listed(saver, config(own_id="0007")) == ["0007"]
    assert await listed(saver, config(ns=None, own_id="0007")) == ["0007"]
    assert await listed(saver, config(own_id="0007"), before=config(own_id="0007")) == []
    assert await listed(saver, config(), filter={"even": True}, limit=35) == newest[1::2][:35]
    assert await listed(saver, config(), filter={"even": True, "odd": None}, limit=5) == newest[1:10:2], "what is absent is None"
    assert await listed(saver, config(), filter={"even": 5}) == []
    with_writes = [found.checkpoint["id"] async for found in saver.alist(config()) if found.pending_writes]
    assert with_writes == ids[::10][::-1]


async def test_metadata_of_any_size_can_be_filtered(saver: FirestoreCheckpointer):
    long = "x" * 20_000
    await put(saver, config(), "1", value=1, metadata={"long": long})
    await put(saver, config(), "2", value=1, metadata={"long": "short"})
    assert await listed(saver, config(), filter={"long": long}) == ["1"]


async def test_all_namespaces_and_all_threads_are_listed_newest_first(saver: FirestoreCheckpointer):
    for number, (thread, ns) in enumerate([("a", ""), ("a", "child:1"), ("b", ""), ("a", ""), ("b", "child:1")]):
        await put(saver, config(thread, ns), str(number), value=1)
    assert await listed(saver, config("a", None)) == ["3", "1", "0"]
    assert await listed(saver, config("a", "")) == ["3", "0"]
    assert await listed(saver, None) == ["4", "3", "2", "1", "0"]


async def test_an_unfinished_listing_leaves_nothing_open(saver: FirestoreCheckpointer):
    for number in range(40):
        await put(saver, config(), f"{number:02}", value=1)
    listing = cast("AsyncGenerator[CheckpointTuple]", saver.alist(config()))
    await anext(listing)
    await listing.aclose()
    del listing
    gc.collect()
    assert len(asyncio.all_tasks()) == 1


# Writes


async def test_the_first_regular_write_and_the_last_special_write_are_kept(saver: FirestoreCheckpointer):
    where = await put(saver, config(), value=1)
    await saver.aput_writes(where, [("a", 1), (ERROR, "first")], "task")
    await saver.aput_writes(where, [("a", 2), (ERROR, "second"), ("b", 3)], "task")
    await saver.aput_writes(where, [(INTERRUPT, 1), (INTERRUPT, 2)], "task")
    await saver.aput_writes(where, [], "task")
    assert await pending(saver, where) == [("task", INTERRUPT, 2), ("task", ERROR, "second"), ("task", "a", 1), ("task", "b", 3)]


async def test_writes_are_returned_in_the_order_of_application(saver: FirestoreCheckpointer):
    where = await put(saver, config(), value=1)
    for task, path in (("c", "1"), ("a", "2"), ("b", "2"), ("z", "")):
        await saver.aput_writes(where, [("x", 0), ("y", 1)], task, path)
    expected = [(task, channel, value) for task in "zcab" for channel, value in (("x", 0), ("y", 1))]
    assert await pending(saver, where) == expected
    assert [found.pending_writes async for found in saver.alist(config())] == [expected]


async def test_concurrent_writes_of_a_task_are_all_stored(saver: FirestoreCheckpointer):
    where = await put(saver, config(), value=1)
    await asyncio.gather(*(saver.aput_writes(where, [("v", n)] * (n + 1), "task") for n in reversed(range(10))))
    assert len(await pending(saver, where)) == 10


async def test_writes_may_be_stored_before_their_checkpoint(saver: FirestoreCheckpointer):
    await saver.aput_writes(config(own_id="1"), [("v", 1)], "task")
    assert await saver.aget_tuple(config()) is None
    await put(saver, config(), "1", value=1)
    assert await pending(saver, config()) == [("task", "v", 1)]


# Deleting, copying, pruning


async def filled(saver: FirestoreCheckpointer, thread: str, *, ids: str = "123", **metadata: Any) -> None:
    parent: str | None = None
    for own_id in ids:
        where = await put(saver, config(thread, own_id=parent), own_id, value=LARGE[int(own_id) :], metadata={"step": 1, **metadata})
        await saver.aput_writes(where, [("big", LARGE), ("small", own_id)], "task")
        await saver.aput_writes(where, [(RESUME, LARGE)], "task")
        parent = own_id


async def test_deleting_a_thread_deletes_all_its_documents(saver: FirestoreCheckpointer, raw: AsyncClient):
    await filled(saver, "b", ids="1")
    alone = await count(raw)
    assert all(alone.values())
    await filled(saver, "a")
    await put(saver, config("a"), "3", value=b"replaced, so that chunks belong to nobody")
    await put(saver, config("a", "child:1"), "9", value=1)
    await saver.adelete_thread("a")
    assert await count(raw) == alone
    assert await values(saver, config("b")) == {"value": LARGE[1:]}
    await saver.adelete_thread("a")
    await saver.adelete_thread("never was")


async def test_deleting_runs_deletes_all_their_documents(saver: FirestoreCheckpointer, raw: AsyncClient):
    await filled(saver, "b", ids="1", run_id="kept")
    alone = await count(raw)
    await filled(saver, "a", ids="12", run_id="one")
    await filled(saver, "c", ids="3", run_id="two")
    await saver.adelete_for_runs(["one", "two", "three", *(f"other {n}" for n in range(40))])
    assert await count(raw) == alone
    assert await listed(saver, None) == ["1"]


async def test_pruning_keeps_the_newest_checkpoint_only(saver: FirestoreCheckpointer, raw: AsyncClient):
    await filled(saver, "a", ids="3")
    alone = await count(raw)
    await filled(saver, "a", ids="12")
    await saver.aprune(["a"])
    assert await count(raw) == alone
    assert await values(saver, config()) == {"value": LARGE[3:]}
    assert len(await pending(saver, config())) == 3
    await saver.aprune(["a"], strategy="delete")
    assert await count(raw) == {"checkpoints": 0, "writes": 0, "chunks": 0}
    with pytest.raises(ValueError, match="no strategy 'other'"):
        await saver.aprune(["a"], strategy="other")


async def test_pruning_deletes_orphans_and_spares_concurrent_writers(
    project: str, saver: FirestoreCheckpointer, watched: Watched, raw: AsyncClient
):
    dying = FirestoreCheckpointer(project=project, client=watched)
    for own_id in "19":
        watched.commits, watched.dies_at = [], 4
        with pytest.raises(Crash):
            await put(dying, config(), own_id, value=HUGE)
        await saver.aput_writes(config(own_id=own_id), [("v", 1)], "task")
    await put(saver, config(), "5", value=1)
    await saver.aprune(["a"])
    left = {name: {fields["of"] for fields in (await documents(raw, name)).values()} for name in ("writes", "chunks")}
    assert left == {"writes": {CheckpointPath("a", "", "9").key}, "chunks": {CheckpointPath("a", "", "9").key}}


async def test_a_copied_thread_is_complete_and_independent(saver: FirestoreCheckpointer, raw: AsyncClient):
    await filled(saver, "a")
    await put(saver, config("a", "child:1"), "9", value="child")
    before = await count(raw)
    await saver.acopy_thread("a", "a")
    assert await count(raw) == before
    source = [found async for found in saver.alist(config("a", None))]
    await saver.acopy_thread("a", "b")
    assert await count(raw) == {name: 2 * number for name, number in before.items()}
    await saver.adelete_thread("a")
    copied = [found async for found in saver.alist(config("b", None))]
    assert [found[1:3] + found[4:] for found in copied] == [found[1:3] + found[4:] for found in source]
    assert [found.parent_config for found in copied] == [None, config("b", "", "2"), config("b", "", "1"), None]
    await saver.adelete_thread("b")
    assert await count(raw) == {"checkpoints": 0, "writes": 0, "chunks": 0}


# Errors


@asynccontextmanager
async def refusing(*codes: grpc.StatusCode) -> AsyncGenerator[tuple[str, list[str]]]:
    """Serve the calls with these errors, one after the other, and all that follow with the last of them; OK is no error."""
    left, asked = list(codes), list[str]()

    async def answer(_: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> AsyncGenerator[bytes]:
        code = left.pop(0) if len(left) > 1 else left[0]
        if code is not grpc.StatusCode.OK:
            await context.abort(code, "SECRET")
        yield b""

    class Everything(grpc.GenericRpcHandler):
        def service(self, handler_call_details: Any) -> Any:
            asked.append(handler_call_details.method.rpartition("/")[2])
            return cast("Any", grpc).unary_stream_rpc_method_handler(answer)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers([Everything()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}", asked
    await server.stop(5)


async def fails(saver: FirestoreCheckpointer, error: type[StoreError], *, says: str) -> None:
    calls = [
        saver.aget_tuple(config()),
        saver.aget_tuple(config(own_id="1")),
        listed(saver, config()),
        listed(saver, None),
        put(saver, config(), value=1),
        saver.aput_writes(config(own_id="1"), [("value", 1)], "task"),
        saver.aput_writes(config(own_id="1"), [(ERROR, 1)], "task"),
        saver.adelete_thread("a"),
        saver.adelete_for_runs(["a"]),
        saver.acopy_thread("a", "b"),
        saver.aprune(["a"]),
    ]
    for call in calls:
        with pytest.raises(error, match=says) as caught:
            await call
        assert type(caught.value) is error
        assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        ("UNAVAILABLE", StoreUnavailable, "cannot be reached"),
        ("INTERNAL", StoreUnavailable, "cannot be reached"),
        ("UNKNOWN", StoreUnavailable, "cannot be reached"),
        ("DATA_LOSS", StoreUnavailable, "cannot be reached"),
        ("ABORTED", StoreUnavailable, "cannot be reached"),
        ("CANCELLED", StoreUnavailable, "cannot be reached"),
        ("DEADLINE_EXCEEDED", StoreUnavailable, "did not answer within 30 s"),
        ("PERMISSION_DENIED", StoreUnavailable, "roles/datastore.user"),
        ("UNAUTHENTICATED", StoreUnavailable, "roles/datastore.user"),
        ("NOT_FOUND", StoreUnavailable, "gcloud firestore databases create"),
        ("RESOURCE_EXHAUSTED", StoreFull, "quota"),
        ("INVALID_ARGUMENT", StoreError, "rejected the request \\('InvalidArgument'\\)"),
        ("FAILED_PRECONDITION", StoreError, "rejected the request \\('FailedPrecondition'\\)"),
    ],
)
async def test_errors_of_the_server_are_translated(
    code: str, error: type[StoreError], says: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("interlock.stores.firestore_calls._PAUSES_S", (0.001,))
    async with refusing(grpc.StatusCode[code]) as (address, _):
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", address)
        saver = FirestoreCheckpointer(project="acme", timeout_s=30)
        await fails(saver, error, says=f"Firestore of project 'acme' .*{says}")
        await saver.aclose()
    assert caplog.records == []


async def test_a_transient_error_is_retried(monkeypatch: pytest.MonkeyPatch):
    passing = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.INTERNAL]
    async with refusing(*passing, grpc.StatusCode.OK) as (address, asked):
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", address)
        saver = FirestoreCheckpointer(project="acme", timeout_s=30)
        assert await saver.aget_tuple(config()) is None
        assert asked == ["RunQuery"] * 4
        await saver.aclose()


async def test_a_permanent_error_is_not_retried(monkeypatch: pytest.MonkeyPatch):
    async with refusing(grpc.StatusCode.PERMISSION_DENIED) as (address, asked):
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", address)
        saver = FirestoreCheckpointer(project="acme", timeout_s=30)
        with pytest.raises(StoreUnavailable):
            await put(saver, config(), value=1)
        assert asked == ["Commit"]
        await saver.aclose()


async def test_retries_end_at_the_timeout(monkeypatch: pytest.MonkeyPatch):
    async with refusing(grpc.StatusCode.UNAVAILABLE) as (address, asked):
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", address)
        saver = FirestoreCheckpointer(project="acme", timeout_s=0.5)
        with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.5 s"):
            await saver.aget_tuple(config())
        assert 1 < len(asked) < 4
        await saver.aclose()


async def test_an_id_that_cannot_exist_is_not_queried(monkeypatch: pytest.MonkeyPatch):
    async with refusing(grpc.StatusCode.INVALID_ARGUMENT) as (address, asked):
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", address)
        saver = FirestoreCheckpointer(project="acme", timeout_s=30)
        assert await saver.aget_tuple(config(own_id="x" * 2000)) is None
        assert await listed(saver, config(own_id="x" * 2000)) == []
        await saver.acopy_thread("a", "a")
        await saver.aput_writes(config(own_id="1"), [], "task")
        assert asked == []
        await saver.aclose()


async def test_a_silent_firestore_is_unavailable_after_the_timeout(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{silent.getsockname()[1]}")
        saver = FirestoreCheckpointer(project="acme", timeout_s=0.3)
        started = time.monotonic()
        await fails(saver, StoreUnavailable, says="did not answer within 0.3 s")
        assert time.monotonic() - started < 10
        await saver.aclose()


async def test_a_missing_server_is_unavailable_until_it_runs(monkeypatch: pytest.MonkeyPatch, project: str):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", nobody)
    saver = FirestoreCheckpointer(project=project, timeout_s=30)
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await saver.aget_tuple(config())
    assert time.monotonic() - started < 10
    await saver.aclose()
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", shared_emulator())
    assert await saver.aget_tuple(config()) is None
    await saver.aclose()


async def test_an_emulator_that_ends_is_unavailable(monkeypatch: pytest.MonkeyPatch, project: str):
    with emulator() as address:
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", address)
        saver = FirestoreCheckpointer(project=project, timeout_s=30)
        await put(saver, config(), value=1)
    with pytest.raises(StoreUnavailable):
        await saver.aget_tuple(config())
    await saver.aclose()


async def test_missing_credentials_are_reported_with_a_fix(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FIRESTORE_EMULATOR_HOST")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    saver = FirestoreCheckpointer(project="acme")
    with pytest.raises(StoreUnavailable, match=r"no credentials .*'acme'.* gcloud auth application-default login"):
        await saver.aget_tuple(config())
    await saver.aclose()


WAITING: dict[str, tuple[Any, ...]] = {
    "get_tuple": ({},),
    "list": (None,),
    "put": ({}, {}, {}, {}),
    "put_writes": ({}, [], ""),
    "delete_thread": ("",),
    "delete_for_runs": ([],),
    "copy_thread": ("", ""),
    "prune": ([],),
}


@pytest.mark.parametrize("name", WAITING)
def test_synchronous_methods_are_not_supported(name: str):
    with pytest.raises(NotImplementedError, match="asynchronous"):
        getattr(FirestoreCheckpointer(project="acme"), name)(*WAITING[name])


# Connections


def test_each_event_loop_has_its_own_connections(project: str):
    saver = FirestoreCheckpointer(project=project)

    async def turn(number: int) -> list[str]:
        await put(saver, config(), str(number), value=1)
        return await listed(saver, config())

    assert asyncio.run(turn(1)) == ["1"]
    assert asyncio.run(turn(2)) == ["2", "1"]
    asyncio.run(saver.aclose())
    assert asyncio.run(turn(3)) == ["3", "2", "1"]
    gc.collect()


async def test_aclose_does_not_close_a_client_that_was_passed_in(project: str, raw: AsyncClient):
    saver, other = FirestoreCheckpointer(project=project), FirestoreCheckpointer(project=project, client=raw)
    for number in range(2):
        await put(saver, config(), str(number), value=1)
        assert len(await listed(other, config())) == number + 1
        await saver.aclose()
        await other.aclose()
    await saver.aclose()


async def test_forty_concurrent_threads_are_stored(saver: FirestoreCheckpointer):
    async def turns(thread: str) -> None:
        for number in range(2):
            where = await put(saver, config(thread), f"{number}", value=[thread, number])
            await saver.aput_writes(where, [("value", thread)], "task")

    await asyncio.gather(*(turns(f"thread {n}") for n in range(40)))
    found = await asyncio.gather(*(saver.aget_tuple(config(f"thread {n}")) for n in range(40)))
    for n, one in enumerate(found):
        assert one is not None
        assert one.checkpoint["channel_values"] == {"value": [f"thread {n}", 1]}
        assert one.pending_writes == [("task", "value", f"thread {n}")]


async def test_a_cancelled_call_does_not_affect_others(saver: FirestoreCheckpointer):
    await put(saver, config(), "1", value=LARGE)
    reading = [asyncio.create_task(values(saver, config())) for _ in range(10)]
    await asyncio.sleep(0.01)
    for task in reading[::2]:
        task.cancel()
    done = await asyncio.gather(*reading, return_exceptions=True)
    assert done[1::2] == [{"value": LARGE}] * 5
    assert await values(saver, config()) == {"value": LARGE}


def test_channel_versions_increase():
    saver = FirestoreCheckpointer(project="acme")
    version: str | None = None
    for _ in range(100):
        later = saver.get_next_version(version, None)
        assert version is None or later > version
        version = later
    assert saver.get_next_version(7, None) > saver.get_next_version(6, None)


# Graphs of LangGraph's own


class Diary(TypedDict, total=False):
    pages: Annotated[list[str], operator.add]
    answer: str


def diary(saver: FirestoreCheckpointer) -> Any:
    def write(state: Diary) -> Diary:
        return {"pages": [f"page {len(state.get('pages', []))}"]}

    def ask(state: Diary) -> Diary:
        return {"answer": interrupt("Is that all?")}

    graph = StateGraph(Diary)
    graph.add_node("write", write)
    graph.add_node("ask", ask)
    graph.add_edge(START, "write")
    graph.add_edge("write", "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver)


async def test_an_interrupted_graph_is_resumed_in_another_process(project: str):
    thread = {"configurable": {"thread_id": "a"}}
    for turn in range(3):
        first = FirestoreCheckpointer(project=project)
        stopped = await diary(first).ainvoke({"pages": [f"turn {turn}"]}, thread)
        assert [one.value for one in stopped["__interrupt__"]] == ["Is that all?"]
        await first.aclose()
        later = FirestoreCheckpointer(project=project)
        state = await diary(later).aget_state(thread)
        assert state.next == ("ask",)
        ended = await diary(later).ainvoke(Command(resume=f"yes {turn}"), thread)
        assert ended["answer"] == f"yes {turn}"
        assert len(ended["pages"]) == 2 * (turn + 1)
        await later.aclose()
    last = FirestoreCheckpointer(project=project)
    history = [state async for state in diary(last).aget_state_history(thread)]
    assert history[0].values["answer"] == "yes 2"
    assert len(history) == 12
    forked = await diary(last).ainvoke(None, next(state for state in history if state.next == ("write",)).config)
    assert len(forked["pages"]) == 6
    assert (await diary(last).ainvoke(Command(resume="no"), thread))["answer"] == "no"
    await last.aclose()


def appended(had: list[str], more: Sequence[list[str]]) -> list[str]:
    return [*had, *(line for lines in more for line in lines)]


class Log(TypedDict, total=False):
    lines: Annotated[list[str], DeltaChannel(appended, snapshot_frequency=5)]
    never_written: Annotated[list[str], DeltaChannel(appended, snapshot_frequency=5)]
    count: int


def logbook(saver: FirestoreCheckpointer) -> Any:
    def write(state: Log) -> Log:
        return {"lines": [f"line {state.get('count', 0)}"], "count": state.get("count", 0) + 1}

    graph = StateGraph(Log)
    graph.add_node("write", write)
    graph.add_edge(START, "write")
    graph.add_edge("write", END)
    return graph.compile(checkpointer=saver)


async def test_pruning_keeps_the_checkpoints_that_a_delta_channel_needs(saver: FirestoreCheckpointer):
    thread = {"configurable": {"thread_id": "a"}}
    left: list[int] = []
    for turn in range(1, 12):
        ended = await logbook(saver).ainvoke({"lines": []}, thread)
        expected = [f"line {n}" for n in range(turn)]
        assert ended["lines"] == expected
        await saver.acopy_thread("a", f"copy {turn}")
        await saver.aprune(["a" if turn > 7 else f"copy {turn}"])
        for name in ("a", f"copy {turn}"):
            assert (await logbook(saver).aget_state({"configurable": {"thread_id": name}})).values["lines"] == expected
        left.append(len(await listed(saver, config("a" if turn > 7 else f"copy {turn}"))))
    assert min(left) == 1, "where the newest holds all of it, nothing else is kept"
    assert 1 < max(left) < 12, "only what is newer than the last time that it was all held"
