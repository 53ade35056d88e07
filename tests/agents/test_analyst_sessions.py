"""Conversations with the analyst: what it acknowledged is there, on every store and engine, whoever else writes, dies or meddles."""

# ruff: noqa: ASYNC240 - files of a test's own, which nobody waits for
from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import id as checkpoint_id
from pydantic import BaseModel

from interlock import Graph, TurnResult, attempts
from interlock import app as app_module
from interlock.agent import Agent
from interlock.capabilities import Chunk, Decision, Message, Model, ModelReply, Tool
from interlock.engine import ENGINES, EngineName
from interlock.engine.serializer import TAG, ClosedSerializer
from interlock.errors import StateIncompatible
from interlock.runtime.events import Event
from interlock.stores.checkpoints import open_checkpoints
from interlock_agents.analyst import agent
from interlock_agents.analyst.graph import analyst
from interlock_agents.analyst.plan import Summary
from interlock_agents.analyst.state import Human
from tests.support.amount import ALL, EXAMPLES
from tests.support.analyst import SHORT, app, said, take, talk
from tests.support.firestore import shared_emulator
from tests.support.postgres import PostgresServer

T = TypeVar("T", bound=BaseModel)
OTHER: dict[EngineName, EngineName] = {ENGINES[0]: ENGINES[1], ENGINES[1]: ENGINES[0]}
TURNS: dict[EngineName, int] = {"direct": 200, "langgraph": 40}
WIDE = 10_000  # messages that are kept word for word


@pytest.fixture(params=["sqlite", "postgres", "firestore"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    match request.param:
        case "sqlite":
            return f"sqlite:{tmp_path / 'kept.sqlite'}"
        case "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            return server.database(request.getfixturevalue("database"))
        case _:
            monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", shared_emulator())
            return f"firestore:test-{os.urandom(6).hex()}"


shared = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)


class Parrot:
    """A model that answers every question by itself, so that every turn can be told from the others."""

    def __init__(self, size: int = 0, do: Any = None) -> None:
        self.asked = 0
        self._size = size
        self._do = do

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        self.asked += 1
        await asyncio.sleep(0)
        made: dict[str, Any] = {"summary": "They talked."} if schema is Summary else talk()
        return Decision(value=schema.model_validate(made))

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        self.asked += 1
        await asyncio.sleep(0)
        yield Chunk(text=f"Noted {json.loads(messages[-1].text)['question']}".ljust(self._size, "."))
        if self._do is not None:
            await self._do()

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
        raise NotImplementedError


def code(result: TurnResult) -> str | None:
    return None if result.error is None else result.error.code


async def talked(engine: EngineName, folder: Path, text: str, *, session: str = "s", **settings: Any) -> TurnResult:
    return await take(engine, folder, text, session=session, grants={Model: Parrot()}, analyst_window=WIDE, **settings)


def pairs(*texts: str) -> list[str]:
    return [line for text in texts for line in (text, f"Noted {text}")]


# After a restart


async def test_a_conversation_continues_after_a_restart_on_either_engine(url: str, engine: EngineName, tmp_path: Path):
    texts: list[str] = []
    starts: set[float] = set()
    for number in range(4):
        texts.append(f"t{number}")
        result = await talked((engine, OTHER[engine])[number % 2], tmp_path, texts[-1], checkpoint_url=url)
        assert (code(result), result.path, said(result)) == (None, SHORT, pairs(*texts))
        starts.add(result.state["start_time"])
    assert len(starts) == 1
    other = await talked(engine, tmp_path, "alone", session="t", checkpoint_url=url)
    assert said(other) == pairs("alone")


async def test_a_session_in_memory_lives_as_long_as_the_application(engine: EngineName, tmp_path: Path):
    async with app(engine, tmp_path, grants={Model: Parrot()}, checkpoint_url="memory:") as running:
        for number in range(3):
            result = await running.run("analyst", f"t{number}", session="s")
            assert said(result) == pairs(*(f"t{one}" for one in range(number + 1)))
        assert said(await running.run("analyst", "alone", session="t")) == pairs("alone")
    assert said(await talked(engine, tmp_path, "new", checkpoint_url="memory:")) == pairs("new")
    assert not [path.name for path in tmp_path.iterdir() if not path.name.startswith("turns.db")]


async def test_a_session_belongs_to_its_owner(engine: EngineName, tmp_path: Path):
    given = {"messages": [{"type": "human", "content": "mine"}], "user_id": "ada"}
    async with app(engine, tmp_path, grants={Model: Parrot()}) as running:
        assert code(await running.run("analyst", given, session="s")) is None
        for text in ("not mine", {**given, "user_id": "eve"}):
            assert code(await running.run("analyst", text, session="s")) == "input_schema"
        assert said(await running.run("analyst", given, session="s")) == pairs("mine", "mine")


async def test_unusual_characters_are_restored(url: str, tmp_path: Path):
    texts = ["ä\u2028\u202e\x1b[31m\x7f", "'; DELETE FROM checkpoints; --", "\U0001f600" * 50, "{{call-1}} %s {0} \\u0000", "x" * 30_000]
    results = [await talked("direct", tmp_path, text, checkpoint_url=url) for text in texts]
    assert said(results[-1]) == pairs(*texts)


# LangGraph alone goes on


@asynccontextmanager
async def native(url: str, folder: Path, graph: str | Graph | Agent = "analyst", *, seal: str = analyst.fingerprint) -> AsyncGenerator[Any]:
    """The graph as LangGraph's own, on the same store."""
    checkpoints = open_checkpoints(url, path=Path("unused"), types=analyst.state.classes, seal=seal)
    async with app("langgraph", folder, grants={Model: Parrot()}) as running:
        try:
            yield running.langgraph(graph, checkpointer=await checkpoints.saver())
        finally:
            await checkpoints.aclose()


AT: Any = {"configurable": {"thread_id": "analyst:s"}}


def given(text: str) -> dict[str, Any]:
    return {"messages": [Human(content=text)], "user_id": "anybody", "session_id": "s"}


async def test_langgraph_and_the_analyst_continue_the_same_conversation(url: str, engine: EngineName, tmp_path: Path):
    await talked(engine, tmp_path, "one", checkpoint_url=url)
    async with native(url, tmp_path) as graph:
        state = await graph.aget_state(AT)
        assert (state.next, state.tasks) == ((), ())
        assert state.values["messages"] == [HumanMessage("one"), AIMessage("Noted one")]
        after = await graph.ainvoke(given("two"), AT)
        assert [message.content for message in after["messages"]] == pairs("one", "two")
    third = await talked(engine, tmp_path, "three", checkpoint_url=url)
    assert (code(third), said(third)) == (None, pairs("one", "two", "three"))
    assert third.state["tokens_used"] > after["tokens_used"]
    async with native(url, tmp_path) as graph:
        assert [message.content for message in (await graph.aget_state(AT)).values["messages"]] == pairs("one", "two", "three")
        assert len((await graph.ainvoke(given("four"), AT))["messages"]) == 8


async def test_a_conversation_started_by_langgraph_continues(url: str, engine: EngineName, tmp_path: Path):
    async with native(url, tmp_path) as graph:
        await graph.ainvoke(given("one"), AT)
    assert said(await talked(engine, tmp_path, "two", checkpoint_url=url)) == pairs("one", "two")


# Another graph


other_steps = copy.copy(analyst)
other_steps.max_steps = analyst.max_steps - 1
vars(other_steps).pop("fingerprint", None)  # it is another graph now


async def dump(url: str) -> list[Any]:
    """Everything that is kept of the session, as it is kept."""
    checkpoints = open_checkpoints(url, path=Path("unused"), types=analyst.state.classes, seal=analyst.fingerprint)
    try:
        return [(one.config, one.checkpoint, one.metadata) async for one in (await checkpoints.saver()).alist(AT)]
    finally:
        await checkpoints.aclose()


async def test_a_session_of_another_graph_is_refused_unchanged(
    url: str, engine: EngineName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    await talked(engine, tmp_path, "one", checkpoint_url=url)
    before = await dump(url)
    changed = replace(agent, graphs=(other_steps,), entries={None: other_steps})
    model = Parrot()
    with monkeypatch.context() as patch:

        def load_agent(_name: str) -> Agent:
            return changed

        patch.setattr(app_module, "load_agent", load_agent)
        async with app(engine, tmp_path, grants={Model: model}, checkpoint_url=url) as running:
            refused = await running.run("analyst", "two", session="s")
            assert (code(refused), refused.path, refused.output, model.asked) == ("state_incompatible", (), None, 0)
            assert code(await running.run("analyst", "new", session="other")) is None
    for seal in (analyst.fingerprint, other_steps.fingerprint):  # on the same saver, and on one of its own
        async with native(url, tmp_path, changed, seal=seal) as graph:
            for call in (graph.aget_state(AT), graph.ainvoke(given("two"), AT)):
                with pytest.raises(StateIncompatible):
                    await call
    assert await dump(url) == before
    assert said(await talked(engine, tmp_path, "two", checkpoint_url=url)) == pairs("one", "two")


# The store fails


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try a turn again soon whose store cannot be reached."""
    monkeypatch.setattr(attempts, "_SHORTEST_S", 0.001)


@pytest.mark.usefixtures("short_pauses")
async def test_no_model_is_called_if_the_store_is_down(engine: EngineName, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("not a folder")
    down = [f"sqlite:{tmp_path}/folder", f"sqlite:{tmp_path}/text/a.sqlite", f"postgresql://u:hunter2@/x?host={tmp_path}"]
    for url in down:
        model, events = Parrot(), list[Event]()
        result = await take(engine, tmp_path, "hi", grants={Model: model}, checkpoint_url=url, on_event=events.append)
        assert (code(result), result.path, result.output, model.asked) == ("store_unavailable", (), None, 0)
        assert [event["event"] for event in events] == ["on_chain_start", "on_chain_end"]
        assert "hunter2" not in json.dumps(events)


@pytest.mark.usefixtures("short_pauses")
async def test_a_turn_that_cannot_be_saved_fails(engine: EngineName, tmp_path: Path):
    file, aside = tmp_path / "sessions.sqlite", tmp_path / "aside"
    await talked(engine, tmp_path, "one")

    async def take_away() -> None:
        file.rename(aside)
        file.mkdir()

    events: list[Event] = []
    result = await take(engine, tmp_path, "two", grants={Model: Parrot(do=take_away)}, on_event=events.append)
    assert (result.status, code(result), result.path) == ("error", "store_unavailable", SHORT)
    assert events[-1]["data"]["output"]["status"] == "error"
    file.rmdir()
    aside.rename(file)
    assert said(await talked(engine, tmp_path, "three")) == pairs("one", "three")


async def test_a_write_without_the_lock_is_detected(engine: EngineName, tmp_path: Path):
    async def meddle() -> None:
        async with native(f"sqlite:{tmp_path / 'sessions.sqlite'}", tmp_path) as graph:
            await graph.ainvoke(given("meddled"), AT)

    await talked(engine, tmp_path, "one")
    result = await take(engine, tmp_path, "two", grants={Model: Parrot(do=meddle)}, analyst_window=WIDE)
    assert (code(result), result.status) == ("state_conflict", "error")
    assert said(await talked(engine, tmp_path, "three")) == pairs("one", "meddled", "three")


async def test_a_cancelled_turn_keeps_earlier_turns(engine: EngineName, tmp_path: Path):
    """Cancel after ever longer, from before it has begun until after it has ended by itself."""
    texts: list[str] = []
    async with app(engine, tmp_path, grants={Model: Parrot()}, analyst_window=WIDE) as running, asyncio.timeout(60):
        await running.run("analyst", "first", session="s")
        texts.append("first")
        number, is_done = 0, False
        while not is_done:
            task = asyncio.create_task(running.run("analyst", f"t{number}", session="s"))
            await asyncio.wait({task}, timeout=0.0005 * number)
            is_done = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            kept = said(await running.run("analyst", f"after {number}", session="s"))
            texts += [f"t{number}"] if kept[-4] == f"t{number}" else []
            assert is_done <= (kept[-4] == f"t{number}")
            texts.append(f"after {number}")
            assert kept == pairs(*texts)
            number += 1


# Many at once


def assert_all_are_there(result: TurnResult, texts: Sequence[str]) -> None:
    """Look for every acknowledged turn in the history, once, each with its answer."""
    lines = said(result)
    assert lines[1::2] == [f"Noted {text}" for text in lines[::2]]
    assert Counter(lines[:-2:2]) == Counter(texts)


@pytest.mark.parametrize("sessions", [1, 20])
async def test_concurrent_turns_of_a_session_run_one_after_the_other(engine: EngineName, tmp_path: Path, sessions: int):
    turns = [(f"t{number}", f"s{number % sessions}") for number in range(TURNS[engine])]
    async with app(engine, tmp_path, grants={Model: Parrot()}, analyst_window=WIDE) as running:
        results = await asyncio.gather(*(running.run("analyst", text, session=session) for text, session in turns))
        assert {code(result) for result in results} == {None}
        for session in {session for _, session in turns}:
            last = await running.run("analyst", "last", session=session)
            assert_all_are_there(last, [text for text, own in turns if own == session])


async def test_concurrent_turns_in_several_applications_are_not_lost(engine: EngineName, tmp_path: Path):
    apps = [app(engine, tmp_path, grants={Model: Parrot()}, analyst_window=WIDE) for _ in range(3)]
    texts = [f"t{number}" for number in range(30)]
    try:
        results = await asyncio.gather(*(apps[number % 3].run("analyst", text, session="s") for number, text in enumerate(texts)))
    finally:
        for running in apps:
            await running.close()
    assert {code(result) for result in results} == {None}
    assert_all_are_there(await talked(engine, tmp_path, "last"), texts)


# Forks when everything is loaded, because that takes longest.
PROGRAM = """
    import asyncio, os, random, signal, sys, time
    from pathlib import Path
    from interlock import Interlock, Settings
    from interlock.stores import postgres_saver, sqlite_saver
    from interlock.capabilities import Model
    from tests.agents.test_analyst_sessions import Parrot

    url, folder, file = sys.argv[1:]
    told = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    pause = 0

    async def take(url, *texts):
        settings = Settings(engine="direct", data_dir=Path(folder), checkpoint_url=url, analyst_window=10_000)
        async with Interlock(settings, grants={Model: Parrot()}) as running:
            for text in texts:
                result = await running.run("analyst", text, session="s")
                os.write(told, f"{text if result.error is None else result.error.code}\\n".encode())
                await asyncio.sleep(pause * random.random())  # so that others come in between

    def fork(name, count):
        child = os.fork()
        if child == 0:
            asyncio.run(take(url, *(f"{name}.{number}" for number in range(count))))
            os._exit(0)
        return child

    asyncio.run(take("memory:", "warm"))
"""
TOGETHER = """
    pause = 0.2
    children = [fork(number, 10) for number in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
"""
KILLED = """
    for number in range(20):
        random.seed(number)
        before, child = os.path.getsize(file), fork(number, 1000)
        deadline = time.monotonic() + 30
        while os.path.getsize(file) == before and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(random.random() * 0.06)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""
CUT = """
    import contextlib, psycopg

    HOLDING = \"\"\"SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database
        WHERE locktype = 'advisory' AND datname = current_database()\"\"\"
    ANYBODY = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

    @contextlib.contextmanager
    def server():
        with psycopg.connect(url, autocommit=True) as connection:
            def cut():
                chosen = ANYBODY if random.random() < 0.05 else HOLDING
                time.sleep(0.03 * random.random())
                connection.execute(f"SELECT pg_terminate_backend(pid) FROM ({chosen}) AS chosen")
            yield cut

    @contextlib.contextmanager
    def files():
        locks = Path(url.removeprefix("sqlite:") + ".locks")
        def cut():
            for file in locks.glob("*"):
                file.unlink(missing_ok=True)
        yield cut

    @contextlib.contextmanager
    def nothing():  # on Firestore there is no lock between processes to begin with
        yield lambda: None

    CUTTING = {"sqlite": files, "postgresql": server, "firestore": nothing}
    children = {fork(number, TURNS) for number in range(4)}
    with CUTTING[url.partition(":")[0]]() as cut:
        while children:
            cut()
            time.sleep(0.001)
            ended, status = os.waitpid(-1, os.WNOHANG)
            assert status == 0
            children.discard(ended)
"""
ROOT = Path(__file__).parents[2]


def play(program: str, url: str, folder: Path) -> list[str]:
    """Let processes take turns of one session; return what they told, a line for each turn."""
    file = folder / "told"
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM) + textwrap.dedent(program), url, str(folder), str(file)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    lines = file.read_text().split()
    assert lines[0] == "warm"
    return lines[1:]


@shared
def test_several_processes_lose_no_acknowledged_turn(url: str, tmp_path: Path):
    told = play(TOGETHER, url, tmp_path)
    acknowledged = [line for line in told if "." in line]
    assert len(told) == 40
    assert set(told) - set(acknowledged) <= {"session_busy", "state_conflict"}
    assert len(acknowledged) >= 30
    assert [line[0] for line in told] != sorted(line[0] for line in told)  # they met
    assert_all_are_there(asyncio.run(talked("direct", tmp_path, "last", checkpoint_url=url)), acknowledged)


def test_no_acknowledged_turn_is_lost_when_locks_are_cut(url: str, tmp_path: Path):
    """The server ends the connections that hold locks, or the lock files are deleted: every acknowledged turn is there all the same."""
    turns = 100 if EXAMPLES >= ALL else 40
    told = play(f"    TURNS = {turns}\n{CUT}", url, tmp_path)
    acknowledged = [line for line in told if "." in line]
    assert len(told) == 4 * turns
    assert set(told) - set(acknowledged) <= {"session_busy", "state_conflict", "store_unavailable"}
    assert len(acknowledged) >= turns
    there = said(asyncio.run(talked("direct", tmp_path, "last", checkpoint_url=url)))[:-2:2]
    assert len(set(there)) == len(there)
    assert set(acknowledged) <= set(there), f"{len(set(acknowledged) - set(there))} of {len(acknowledged)} are lost"


@shared
def test_acknowledged_turns_of_a_killed_process_are_saved(url: str, tmp_path: Path):
    acknowledged = play(KILLED, url, tmp_path)
    assert {line.split(".")[0] for line in acknowledged} == set(map(str, range(20)))
    lines = said(asyncio.run(talked("direct", tmp_path, "last", checkpoint_url=url)))
    assert lines[1::2] == [f"Noted {text}" for text in lines[::2]]
    there = lines[:-2:2]
    assert len(set(there)) == len(there)
    assert set(there) >= set(acknowledged)
    assert len(there) - len(acknowledged) <= 20  # at most one in each round was saved when nobody could be told


def jumped(now: Callable[[], int], seconds: int) -> int:
    return now() + seconds * 10**9


@pytest.mark.parametrize("jumps", [(0, -3600, 0), (86_400, -3600, 0)], ids=str)
async def test_nothing_is_lost_when_the_clock_jumps(url: str, tmp_path: Path, jumps: tuple[int, ...]):
    texts: list[str] = []
    for seconds in jumps:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkpoint_id, "_last_v6_timestamp", None)  # as in a process that begins
            patch.setattr(time, "time_ns", partial(jumped, time.time_ns, seconds))
            async with app("direct", tmp_path, grants={Model: Parrot()}, analyst_window=WIDE, checkpoint_url=url) as running:
                for _ in range(2):
                    texts.append(f"t{len(texts)}")
                    assert said(await running.run("analyst", texts[-1], session="s")) == pairs(*texts)


# Rows that somebody has changed


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.canary),))


@dataclass(frozen=True)
class Strange:
    content: str


def changed(kind: str, tag: str, good: bytes, canary: Path) -> tuple[Any, Any]:
    match kind:
        case "pickled":
            return "pickle", pickle.dumps(Trap(canary))
        case "an extension":
            return "msgpack", ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(["os", "system", f"mkdir {canary}"])))
        case "an extension of ours":
            return tag, ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(["os", "system", f"mkdir {canary}"])))
        case "a strange class":
            kept = ClosedSerializer(analyst.state.classes, seal=analyst.fingerprint).loads_typed((tag, good))
            kept["channel_values"] = {**kept.get("channel_values", {}), "messages": (Strange("hi"),)}
            return ClosedSerializer([*analyst.state.classes, Strange], seal=analyst.fingerprint).dumps_typed(kept)
        case "a constructor":
            return "json", json.dumps({"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "args": [str(canary)]}).encode()
        case "cut off":
            return tag, good[:-3]
        case "nothing":
            return tag, b""
        case _:
            return tag, good[:40] + bytes([good[40] ^ 4]) + good[41:]


@pytest.mark.parametrize(
    "kind",
    ["pickled", "an extension", "an extension of ours", "a strange class", "a constructor", "cut off", "nothing", "flipped"],
)
async def test_a_changed_row_is_corrupt_and_is_kept(engine: EngineName, tmp_path: Path, kind: str):
    file, canary = tmp_path / "sessions.sqlite", tmp_path / "canary"
    for session in ("s", "t"):
        await talked(engine, tmp_path, "one", session=session)
    select = "SELECT rowid, * FROM checkpoints ORDER BY rowid"
    with closing(sqlite3.connect(file)) as connection, connection:
        tag, good = connection.execute("SELECT type, checkpoint FROM checkpoints WHERE thread_id = 'analyst:s'").fetchone()
        assert tag.startswith(TAG)
        bad = changed(kind, tag, good, canary)
        connection.execute("UPDATE checkpoints SET type = ?, checkpoint = ? WHERE thread_id = 'analyst:s'", bad)
    with closing(sqlite3.connect(file)) as connection:
        before = connection.execute(select).fetchall()
    model = Parrot()
    result = await take(engine, tmp_path, "two", grants={Model: model})
    assert (code(result), result.path, model.asked) == ("store_corrupt", (), 0)
    assert str(canary) not in str(result.error)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute(select).fetchall() == before
    assert not canary.exists()
    assert said(await talked(engine, tmp_path, "two", session="t")) == pairs("one", "two")


# Growth


async def test_a_long_conversation_takes_little_space(tmp_path: Path):
    file, sizes = tmp_path / "sessions.sqlite", list[int]()
    for _ in range(2):
        async with app("direct", tmp_path, grants={Model: Parrot(400)}) as running:
            for number in range(60):
                result = await running.run("analyst", f"{number} ".ljust(400, "x"), session="s")
                assert code(result) is None
                assert len(result.state["messages"]) <= 21
        sizes.append(sum(path.stat().st_size for path in tmp_path.glob(f"{file.name}*") if path.is_file()))
    assert sizes[1] < 3_000_000
    assert sizes[1] - sizes[0] < 1.2 * sizes[0]
