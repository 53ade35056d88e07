"""Sessions as checkpoints: what a turn left is what the next one finds, on every store, whatever the clock or another writer does."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import id as checkpoint_id
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from interlock.engine.checkpointer import SealedCheckpointer
from interlock.errors import StateConflict, StateIncompatible, StateUnstorable, StoreCorrupt
from interlock.runtime.sessions import StoredState
from interlock.stores.checkpoints import open_checkpoints
from interlock.stores.savers import Put
from interlock.stores.session_state import CheckpointedSessions
from tests.support.firestore import shared_emulator
from tests.support.postgres import PostgresServer


@dataclass(frozen=True)
class Fact:
    text: str
    tags: tuple[str, ...] = ()
    source: str = field(default="", compare=False)


VALUES: dict[str, Any] = {"messages": (Fact("a", ("x", "y")), Fact("b")), "summary": "", "count": 3, "owner": None, "share": 0.5}


@pytest.fixture(params=["memory", "sqlite", "postgres", "firestore"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    match request.param:
        case "memory":
            return "memory:"
        case "sqlite":
            return f"sqlite:{tmp_path / 'sessions.sqlite'}"
        case "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            return server.database(request.getfixturevalue("database"))
        case _:
            monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", shared_emulator())
            return f"firestore:test-{os.urandom(6).hex()}"


lasting = pytest.mark.parametrize("url", ["sqlite", "postgres", "firestore"], indirect=True)


class Opened:
    """A store, and the sessions of graphs in it."""

    def __init__(self, url: str) -> None:
        self.checkpoints = open_checkpoints(url, path=Path("unused"), types=(Fact,), timeout_s=30)

    def sessions(self, graph: str = "g", fingerprint: str = "f1") -> CheckpointedSessions:
        return CheckpointedSessions(self.checkpoints, graph=graph, fingerprint=fingerprint)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Opened]:
    made = Opened(url)
    try:
        yield made
    finally:
        await made.checkpoints.aclose()


async def grow(sessions: CheckpointedSessions, session: str, *texts: str) -> StoredState:
    """Take turns, each of which adds a word to what is kept."""
    kept = await sessions.load(session)
    for text in texts:
        said: tuple[str, ...] = kept.values.get("said", ())
        await sessions.save(session, {"said": (*said, text)}, expected=kept.version, turn=f"turn of {text}")
        kept = await sessions.load(session)
    return kept


async def test_a_saved_state_is_loaded(url: str):
    async with opened(url) as store:
        sessions = store.sessions()
        assert await sessions.load("s") == StoredState()
        await sessions.save("s", VALUES, expected=None, turn="t1")
        first = await sessions.load("s")
        assert first.values == VALUES
        assert {name: type(value) for name, value in first.values.items()} == {name: type(value) for name, value in VALUES.items()}
        await sessions.save("s", VALUES | {"count": 4, "owner": "ada"}, expected=first.version, turn="t2")
        second = await sessions.load("s")
        assert second.values == VALUES | {"count": 4, "owner": "ada"}
        assert first.version is not None
        assert second.version is not None
        assert second.version > first.version


@lasting
async def test_the_state_survives_a_restart(url: str):
    for number in range(3):
        async with opened(url) as store:
            kept = await grow(store.sessions(), "s", str(number))
            assert kept.values["said"] == tuple(map(str, range(number + 1)))


async def test_sessions_and_graphs_do_not_mix(url: str):
    async with opened(url) as store:
        for graph in ("g", "h"):
            for session in ("s", "t"):
                await grow(store.sessions(graph), session, f"{graph}{session}")
        for graph in ("g", "h"):
            for session in ("s", "t"):
                assert (await store.sessions(graph).load(session)).values == {"said": (f"{graph}{session}",)}


async def test_a_late_save_is_a_conflict_and_changes_nothing(url: str):
    async with opened(url) as store:
        sessions = store.sessions()
        with pytest.raises(StateConflict):
            await sessions.save("s", {"said": ()}, expected="1f000000-0000-6000-8000-000000000000", turn="t")
        assert await sessions.load("s") == StoredState()
        before = await grow(sessions, "s", "a")
        after = await grow(sessions, "s", "b")
        for expected in (None, before.version, "1f000000-0000-6000-8000-000000000000"):
            with pytest.raises(StateConflict):
                await sessions.save("s", {"said": ("c",)}, expected=expected, turn="t")
        assert await sessions.load("s") == after


async def test_a_repeated_save_of_a_turn_is_stored_once(url: str):
    async with opened(url) as store:
        sessions = store.sessions()
        before = await grow(sessions, "s", "a")
        for _ in range(3):
            await sessions.save("s", {"said": ("a", "b")}, expected=before.version, turn="t")
        after = await sessions.load("s")
        assert after.values == {"said": ("a", "b")}
        saver = await store.checkpoints.saver()
        assert len([one async for one in saver.alist(cast("Any", {"configurable": {"thread_id": "g:s"}}))]) == 2
        await grow(sessions, "s", "c")
        with pytest.raises(StateConflict):  # whoever went on has not seen it
            await sessions.save("s", {"said": ("a", "b")}, expected=before.version, turn="t")


async def test_another_turn_with_the_same_id_is_a_conflict(url: str):
    async with opened(url) as store:
        sessions = store.sessions()
        before = await grow(sessions, "s", "a")
        await sessions.save("s", {"said": ("a", "b")}, expected=before.version, turn="id-1")
        with pytest.raises(StateConflict):
            await sessions.save("s", {"said": ("a", "x")}, expected=before.version, turn="id-1")
        assert (await sessions.load("s")).values == {"said": ("a", "b")}


async def test_what_a_frozen_worker_saved_is_replaced_by_the_worker_that_has_the_turn(url: str):
    async with opened(url) as store:
        sessions = store.sessions()
        before = await grow(sessions, "s", "a")
        await sessions.save("s", {"said": ("a", "lost")}, expected=before.version, turn="t", epoch=1)
        for _ in range(2):
            await sessions.save("s", {"said": ("a", "told")}, expected=before.version, turn="t", epoch=2)
        with pytest.raises(StateConflict):
            await sessions.save("s", {"said": ("a", "late")}, expected=before.version, turn="t", epoch=1)
        assert (await sessions.load("s")).values == {"said": ("a", "told")}
        await grow(sessions, "s", "c")
        with pytest.raises(StateConflict):
            await sessions.save("s", {"said": ("a", "later")}, expected=before.version, turn="t", epoch=3)


class InBetween:
    """A checkpoint store in which something happens before the next checkpoint is added, after the last one was read."""

    def __init__(self, saver: Any, happens: Callable[[], Awaitable[None]]) -> None:
        self._saver = saver
        self._happens: list[Callable[[], Awaitable[None]]] = [happens]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saver, name)

    async def aput_after(self, put: Put, *, expected: str | None) -> None:
        while self._happens:
            await self._happens.pop()()
        await self._saver.aput_after(put, expected=expected)


@pytest.mark.parametrize("said", ["lost", "told"])
async def test_a_worker_that_has_lost_its_turn_may_save_while_the_other_one_saves(url: str, monkeypatch: pytest.MonkeyPatch, said: str):
    """Both have read the state before one of them adds to it: the turn must not end with a conflict with itself."""
    async with opened(url) as store:
        sessions = store.sessions()
        before = await grow(sessions, "s", "a")
        saver = await store.checkpoints.saver()

        async def save_late() -> None:
            await sessions.save("s", {"said": ("a", said)}, expected=before.version, turn="t", epoch=1)

        async def slow() -> Any:
            return between

        between = InBetween(saver, save_late)
        taken_over = store.sessions()
        monkeypatch.setattr(taken_over, "_checkpoints", SimpleNamespace(saver=slow))
        await taken_over.save("s", {"said": ("a", "told")}, expected=before.version, turn="t", epoch=2)
        assert (await sessions.load("s")).values == {"said": ("a", "told")}


async def test_a_save_that_another_turn_precedes_is_a_conflict(url: str, monkeypatch: pytest.MonkeyPatch):
    async with opened(url) as store:
        sessions = store.sessions()
        before = await grow(sessions, "s", "a")
        saver = await store.checkpoints.saver()

        async def save_other() -> None:
            await sessions.save("s", {"said": ("a", "other")}, expected=before.version, turn="u", epoch=1)

        async def slow() -> Any:
            return between

        between = InBetween(saver, save_other)
        late = store.sessions()
        monkeypatch.setattr(late, "_checkpoints", SimpleNamespace(saver=slow))
        with pytest.raises(StateConflict):
            await late.save("s", {"said": ("a", "told")}, expected=before.version, turn="t", epoch=2)
        assert (await sessions.load("s")).values == {"said": ("a", "other")}


async def test_a_state_of_other_contracts_is_rejected_and_not_changed(url: str):
    async with opened(url) as store:
        before = await grow(store.sessions(), "s", "a")
        changed = store.sessions(fingerprint="f2")
        with pytest.raises(StateIncompatible, match="'g'"):
            await changed.load("s")
        for expected in (None, before.version):
            with pytest.raises(StateIncompatible):
                await changed.save("s", {"said": ()}, expected=expected, turn="t")
        assert await store.sessions().load("s") == before
        assert (await grow(changed, "other", "b")).values == {"said": ("b",)}


async def test_an_unstorable_value_is_rejected_and_the_stored_state_is_unchanged(url: str):
    async with opened(url) as store:
        sessions = store.sessions()
        before = await grow(sessions, "s", "a")
        for value in (object(), "\ud800", {1: {2: lambda: None}}):
            with pytest.raises(StateUnstorable):
                await sessions.save("s", {"said": ("a", value)}, expected=before.version, turn="t")
        assert await sessions.load("s") == before


EQUAL: list[tuple[Any, Any]] = [(1, True), (1, 1.0), (0, False), (Fact("a", source="x"), Fact("a", source="y")), ((1,), (True,))]


async def test_an_equal_value_of_another_type_is_stored(url: str):
    firsts, seconds = ({str(number): pair[which] for number, pair in enumerate(EQUAL)} for which in (0, 1))
    assert firsts == seconds
    async with opened(url) as store:
        sessions = store.sessions()
        await sessions.save("s", firsts, expected=None, turn="t1")
        kept = await sessions.load("s")
        await sessions.save("s", seconds, expected=kept.version, turn="t2")
        found = (await sessions.load("s")).values
        assert {name: repr(value) for name, value in found.items()} == {name: repr(value) for name, value in seconds.items()}


async def test_the_order_of_a_set_makes_no_difference(url: str):
    one, other = frozenset([0, 8]), frozenset([8, 0])
    assert list(one) != list(other)  # as in another process
    async with opened(url) as store:
        sessions = store.sessions()
        for value in (one, other):
            await sessions.save("s", {"set": value}, expected=None, turn="t")
        assert (await sessions.load("s")).values == {"set": one}


async def test_unchanged_fields_are_not_stored_again(postgres: PostgresServer, database: str):
    """Where each value has a row of its own, a long one that stays is there once."""
    async with opened(postgres.database(database)) as store:
        sessions = store.sessions()
        version = None
        for number in range(5):
            await sessions.save("s", {"facts": (Fact("x" * 1000),), "count": number}, expected=version, turn=str(number))
            version = (await sessions.load("s")).version
    [(found,)] = postgres.run("SELECT count(*) FROM checkpoint_blobs WHERE channel = 'facts'", database=database)
    assert found == 1


# The clock


def jump(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a process begin whose clock is off by so much."""
    time_ns = time.time_ns
    monkeypatch.setattr(checkpoint_id, "_last_v6_timestamp", None)
    monkeypatch.setattr(time, "time_ns", lambda: time_ns() + int(seconds * 1e9))


JUMPS = ((0, -3600, 0), (86400, -86400, 0), (0, 86400, -86400, -7200, 0), (-3600, -3600, -3600))


async def test_a_clock_jump_loses_nothing(url: str):
    async with opened(url) as store:
        for session, jumps in enumerate(JUMPS):
            words: list[str] = []
            for number, seconds in enumerate(jumps):
                with pytest.MonkeyPatch.context() as patch:
                    jump(patch, seconds)
                    for turn in range(2):
                        words.append(f"{number}.{turn}")
                        kept = await grow(store.sessions(), str(session), words[-1])
                        assert kept.values["said"] == tuple(words)


def test_checkpoint_ids_increase():
    from interlock.stores import session_state as kept  # noqa: PLC0415

    last: str | None = None
    next_id: Callable[[str | None], str] = vars(kept)["_next_id"]
    with pytest.MonkeyPatch.context() as patch:
        for seconds in (0, -3600, 86400, -86400, -86400, 1):
            jump(patch, seconds)
            for _ in range(300):
                made = next_id(last)
                assert last is None or made > last
                assert len(made) == 36
                last = made


# LangGraph itself goes on


class Talk(TypedDict, total=False):
    said: tuple[str, ...]
    note: str


def native(saver: SealedCheckpointer, **options: Any) -> Any:
    async def hear(state: Any) -> Any:
        return {"note": "heard"}

    async def answer(state: Any) -> Any:
        return {"said": (*state.get("said", ()), "native")}

    builder: Any = StateGraph(Talk)
    builder.add_node("hear", hear)
    builder.add_node("answer", answer)
    builder.add_edge(START, "hear")
    builder.add_edge("hear", "answer")
    return builder.compile(checkpointer=saver, **options)


AT: Any = {"configurable": {"thread_id": "g:s"}}


async def test_langgraph_resumes_our_threads_and_we_resume_its(url: str):
    async with opened(url) as store:
        sessions = store.sessions()
        graph = native(SealedCheckpointer(await store.checkpoints.saver(), graph="g", fingerprint="f1"))
        await grow(sessions, "s", "a")
        for number in range(2):
            state = await graph.aget_state(AT)
            assert (state.next, state.tasks) == ((), ())
            expected = (*state.values["said"], "native")
            assert (await graph.ainvoke({"note": ""}, AT))["said"] == expected
            assert (await grow(sessions, "s", f"b{number}")).values["said"] == (*expected, f"b{number}")
        assert (await graph.aget_state(AT)).values["said"] == ("a", "native", "b0", "native", "b1")


async def test_pending_tasks_of_langgraph_do_not_run_after_our_turn(url: str):
    async with opened(url) as store:
        sessions = store.sessions()
        graph = native(SealedCheckpointer(await store.checkpoints.saver(), graph="g", fingerprint="f1"), interrupt_before=["answer"])
        await graph.ainvoke({"said": ("a",)}, AT)
        assert (await graph.aget_state(AT)).next == ("answer",)
        kept = await sessions.load("s")
        await sessions.save("s", {"said": ("a", "ours")}, expected=kept.version, turn="t")
        state = await graph.aget_state(AT)
        assert (state.next, state.tasks) == ((), ())
        assert state.values == {"said": ("a", "ours")}


# Rows that somebody has changed


def rewrite(path: Path, **columns: Any) -> list[tuple[Any, ...]]:
    """Change columns of the newest row; return all rows."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, value in columns.items():
            connection.execute(f"UPDATE checkpoints SET {name} = ? WHERE rowid = (SELECT max(rowid) FROM checkpoints)", (value,))  # noqa: S608
    return rows(path)


def rows(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM checkpoints ORDER BY rowid").fetchall()


@pytest.mark.parametrize("step", ["1", None, [], {"a": 1}, 1.5], ids=str)
async def test_an_invalid_step_is_corrupt(tmp_path: Path, step: Any):
    path = tmp_path / "sessions.sqlite"
    async with opened(f"sqlite:{path}") as store:
        kept = await grow(store.sessions(), "s", "a")
        [[*_, metadata]] = rows(path)
        before = rewrite(path, metadata=json.dumps(json.loads(metadata) | {"step": step}).encode())
        with pytest.raises(StoreCorrupt, match="left as it is"):
            await store.sessions().save("s", {"said": ("b",)}, expected=kept.version, turn="t")
    assert rows(path) == before


@pytest.mark.parametrize(
    "bad", ["zzz", "ffffffff-ffff-ffff-ffff-ffffffffffff", "{ffffffff-0000-6000-8000-000000000000}", "F" * 32], ids=str
)
async def test_the_highest_possible_id_is_corrupt(tmp_path: Path, bad: str):
    path = tmp_path / "sessions.sqlite"
    async with opened(f"sqlite:{path}") as store:
        await grow(store.sessions(), "s", "a")
        saver = await store.checkpoints.saver()
        found = await saver.aget_tuple(AT)
        assert found is not None
        checkpoint = dict(found.checkpoint) | {"id": bad}
        kind, changed = saver.serde.dumps_typed(checkpoint)
        before = rewrite(path, checkpoint_id=bad, checkpoint=changed, type=kind)
        kept = await store.sessions().load("s")
        assert kept.version == bad
        with pytest.raises(StoreCorrupt, match="left as it is"):
            await store.sessions().save("s", {"said": ("b",)}, expected=kept.version, turn="t")
    assert rows(path) == before


# Several who write


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["load", "save", "again"])), max_size=40))
def test_acknowledged_turns_are_stored_in_order(steps: list[tuple[int, str]]):
    """Three who read and write as they like: only who has seen everything is acknowledged, and all of that stays."""

    async def play() -> None:
        async with opened("memory:") as store:
            writers = [store.sessions() for _ in range(3)]
            seen = [StoredState()] * 3
            acknowledged: tuple[str, ...] = ()
            last: dict[int, tuple[dict[str, Any], str | None, str]] = {}
            for number, (who, what) in enumerate(steps):
                if what == "load":
                    seen[who] = await writers[who].load("s")
                    continue
                words = seen[who].values.get("said", ())
                call = last.get(who) if what == "again" else ({"said": (*words, str(number))}, seen[who].version, f"t{number}")
                if call is None:
                    continue
                values, expected, turn = last[who] = call
                try:
                    await writers[who].save("s", values, expected=expected, turn=turn)
                except StateConflict:
                    continue
                if values["said"] != acknowledged:
                    assert values["said"][:-1] == acknowledged
                    acknowledged = values["said"]
            assert (await writers[0].load("s")).values.get("said", ()) == acknowledged

    asyncio.run(play())


async def test_one_of_many_concurrent_saves_is_acknowledged(url: str):
    """Nobody holds the session: the store itself decides who is next."""
    async with opened(url) as store:
        sessions = store.sessions()
        kept = await sessions.load("s")
        for number in range(4):
            saves = [sessions.save("s", {"said": (number, who)}, expected=kept.version, turn=f"{number}.{who}") for who in range(8)]
            ends = await asyncio.gather(*saves, return_exceptions=True)
            assert [type(end) for end in ends if end is not None] == [StateConflict] * 7
            kept = await sessions.load("s")
            assert kept.values == {"said": (number, ends.index(None))}


async def test_a_checkpoint_whose_reply_was_lost_is_stored_once(url: str):
    async with opened(url) as store:
        before = await grow(store.sessions(), "s", "a")
        saver = await store.checkpoints.saver()
        found = await saver.aget_tuple(AT)
        assert found is not None
        put = Put(found.config, {**found.checkpoint, "id": checkpoint_id_after(before)}, found.metadata, {})
        for _ in range(2):
            await saver.aput_after(put, expected=before.version)
        await grow(store.sessions(), "s", "b")
        await saver.aput_after(put, expected=before.version)
        assert len([one async for one in saver.alist(AT)]) == 3


def checkpoint_id_after(kept: StoredState) -> str:
    made = str(checkpoint_id.uuid6())
    assert kept.version is not None
    assert made > kept.version
    return made


async def test_a_deleted_session_starts_empty(url: str):
    async with opened(url) as store:
        for number in range(3):
            assert (await grow(store.sessions(), "s", f"a{number}", "b")).values["said"] == (f"a{number}", "b")
            await (await store.checkpoints.saver()).adelete_thread("g:s")


@pytest.mark.parametrize("url", ["firestore"], indirect=True)
async def test_after_deleting_a_run_the_previous_checkpoint_is_resumed(url: str):
    async with opened(url) as store:
        before = await grow(store.sessions(), "s", "a")
        saver = await store.checkpoints.saver()
        found = await saver.aget_tuple(AT)
        assert found is not None
        metadata: Any = {**found.metadata, "run_id": "r"}
        put = Put(found.config, {**found.checkpoint, "id": checkpoint_id_after(before)}, metadata, {})
        await saver.aput_after(put, expected=before.version)
        await saver.adelete_for_runs(["r"])
        assert (await grow(store.sessions(), "s", "b")).values["said"] == ("a", "b")


async def test_one_task_at_a_time_holds_a_session_of_a_graph(url: str):
    async with opened(url) as store:
        entered: list[str] = []

        async def take(name: str, graph: str, session: str, go_on: asyncio.Event) -> None:
            async with store.sessions(graph).exclusive(session):
                entered.append(name)
                await go_on.wait()

        go_on = asyncio.Event()
        names = {"mine": ("g", "s"), "next": ("g", "s"), "other": ("g", "t"), "others": ("h", "s")}
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for name, (graph, session) in names.items():
                group.create_task(take(name, graph, session, go_on))
            while len(entered) < 3:  # noqa: ASYNC110 - there is nothing to wait for
                await asyncio.sleep(0.001)
            assert set(entered) == {"mine", "other", "others"}
            go_on.set()
        assert entered[-1] == "next"
