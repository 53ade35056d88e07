"""Fields that outlive a turn: loaded before the first node, saved before anybody hears of the end, and never half."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Protocol

import pytest

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, TurnResult, attempts, node
from interlock import app as app_module
from interlock.agent import Agent
from interlock.capabilities import Ids
from interlock.contract import Secret
from interlock.engine import ENGINES, EngineName
from interlock.errors import InterlockError, SessionBusy, StateConflict, StoreFull, StoreUnavailable
from interlock.providers.resolver import Providers
from interlock.reply import Fault, Reply
from interlock.runtime.events import Event
from interlock.runtime.journal import Journal
from interlock.runtime.recording import MemoryJournal
from interlock.runtime.sessions import SessionState, StoredState
from interlock.runtime.turns import TurnFilter
from interlock.testing import CountingIds
from tests.support.passing import ENOUGH, leap

TOKEN = "hunter2-" + "q7w8e9"
OTHER: dict[EngineName, EngineName] = {ENGINES[0]: ENGINES[1], ENGINES[1]: ENGINES[0]}


def appended(said: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return (*said, *new)


def extended(pages: list[str], new: list[str]) -> list[str]:
    """Add to the list that is there, as a reducer should not."""
    pages.extend(new)
    return pages


@dataclass
class State:
    text: str
    said: Annotated[tuple[str, ...], appended] = ()
    pages: Annotated[list[str], extended] = field(default_factory=list[str])
    token: Annotated[str | None, Secret] = None
    passing: int = 0
    begun: int = 0


class Heard(Outcome):
    said: tuple[str, ...]
    passing: int
    begun: int


class Trusted(Outcome):
    token: str
    said: tuple[str, ...]


class Answered(Outcome):
    said: tuple[str, ...]
    pages: list[str]


class Hands(Capability, Protocol):
    async def take(self, what: str) -> str: ...


class Work:
    """What the nodes ask for: a count of it, and something that may go wrong."""

    def __init__(self, do: Callable[[str], Any] | None = None) -> None:
        self.asked: list[str] = []
        self._do = do

    async def take(self, what: str) -> str:
        self.asked.append(what)
        await asyncio.sleep(0)
        if self._do is not None:
            await self._do(what)
        return what


async def hear(text: str, passing: int, *, hands: Hands) -> Heard | Trusted:
    if text == "token":
        return Trusted(token=TOKEN, said=("a token",))
    return Heard(said=(await hands.take(text),), passing=passing + 1, begun=passing)


async def answer(text: str, *, hands: Hands) -> Answered:
    reply = await hands.take(f"{text}!")
    if text == "tell":
        raise RuntimeError(f"the token is {TOKEN}")
    return Answered(said=(TOKEN if text == "echo" else reply,), pages=[text])


diary = Graph(
    "diary",
    state=State,
    entry=hear,
    nodes=[node(hear, goes={Heard: answer, Trusted: answer}), node(answer, goes={Answered: END})],
    takes=("text",),
    gives="said",
)


def replied(state: Mapping[str, Any]) -> Reply:
    match state["text"]:
        case "bad":
            return Reply(status="error", error=Fault(code="media_malformed", message="It is torn."))
        case "wait":
            return Reply(status="waiting", output="Which one?")
        case _:
            return Reply(output=state["said"][-1])


KEEPER = Agent(
    name="diary",
    summary="",
    graphs=(diary,),
    entries={None: diary},
    parse_input=lambda given, _: {"text": given} if isinstance(given, str) else given,
    reply=replied,
    has_sessions=True,
    persists=("said", "pages", "token"),
)


class Notebook:
    """Keeps sessions in memory, and a note of everything that happens. What it hands out is its own."""

    def __init__(self) -> None:
        self.pages: dict[str, StoredState] = {}
        self.turns: dict[str, str] = {}
        self.log: list[str] = []
        self.faults: dict[str, Exception] = {}
        self.slow: dict[str, Any] = {}
        self._lock = asyncio.Lock()
        self._saves = 0

    async def _at(self, moment: str) -> None:
        """Take a while, as a store does, and go wrong where it is to."""
        await asyncio.sleep(0)
        if moment in self.slow:
            await self.slow[moment]()
        if moment in self.faults:
            raise self.faults[moment]
        await asyncio.sleep(0)

    @asynccontextmanager
    async def exclusive(self, session: str) -> AsyncGenerator[None]:
        async with self._lock:
            try:
                await self._at("hold")
                self.log.append("held")
                yield
                await asyncio.sleep(0)
            finally:
                self.log.append("let go")

    async def load(self, session: str) -> StoredState:
        await self._at("load")
        self.log.append("loaded")
        return self.pages.get(session, StoredState())

    async def save(self, session: str, values: Mapping[str, Any], *, expected: str | None, turn: str, epoch: int = 0) -> None:
        await self._at("save")
        now = self.pages.get(session, StoredState())
        if now.version != expected:
            if self.turns.get(session) == turn:
                return
            raise StateConflict
        self._saves += 1
        self.pages[session] = StoredState(values=dict(values), version=f"v{self._saves}")
        self.turns[session] = turn
        self.log.append("saved")
        await self._at("saved")

    def said(self, session: str = "s") -> tuple[str, ...]:
        return self.pages.get(session, StoredState()).values.get("said", ())


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> dict[str, Agent]:
    """What agent the graph is; a test may make it another one."""
    chosen = {"diary": KEEPER}

    def agent_of(graph: Graph) -> Agent:
        return chosen[graph.name]

    monkeypatch.setattr(app_module, "agent_of", agent_of)
    return chosen


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, notebook: Notebook, agents: dict[str, Agent]) -> Callable[..., Interlock]:
    def kept(*_: object) -> Notebook:
        return notebook

    monkeypatch.setattr(Providers, "session_state", kept)
    monkeypatch.setattr(attempts, "_SHORTEST_S", 0.001)
    monkeypatch.setattr(attempts, "_SAVE_S", 0.2)

    def make(engine: EngineName, work: Work | None = None, **settings: Any) -> Interlock:
        return Interlock(Settings(engine=engine, **settings), grants={Hands: work or Work(), Ids: CountingIds()})

    return make


Make = Callable[..., Interlock]


def code(result: TurnResult) -> str | None:
    return None if result.error is None else result.error.code


async def test_a_turn_begins_with_what_the_last_one_kept_and_nothing_else(app: Make, notebook: Notebook, engine: EngineName):
    running = app(engine)
    first = await running.run(diary, "one", session="s")
    second = await running.run(diary, "two", session="s")
    other = await running.run(diary, "three", session="t")
    assert first.output == "one!"
    assert second.state["said"] == ("one", "one!", "two", "two!")
    assert (second.state["passing"], second.state["begun"]) == (1, 0)
    assert other.state["said"] == ("three", "three!")
    assert notebook.pages["s"].values == {"said": ("one", "one!", "two", "two!"), "pages": ["one", "two"], "token": None}


async def test_what_the_store_hands_out_is_not_changed_in_place(app: Make, notebook: Notebook, engine: EngineName):
    running = app(engine)
    await running.run(diary, "one", session="s")
    before = notebook.pages["s"].values["pages"]
    await running.run(diary, "two", session="s")
    notebook.faults["save"] = StoreFull()
    await running.run(diary, "three", session="s")
    assert before == ["one"]
    assert notebook.pages["s"].values["pages"] == ["one", "two"]


async def test_a_session_goes_on_on_the_other_engine(app: Make, engine: EngineName):
    for number in range(4):
        result = await app((engine, OTHER[engine])[number % 2]).run(diary, str(number), session="s")
        assert result.error is None
        assert result.state["said"] == tuple(word for one in range(number + 1) for word in (str(one), f"{one}!"))


async def test_it_is_saved_before_anybody_hears_that_it_has_ended(app: Make, notebook: Notebook, engine: EngineName):
    running = app(engine)

    def hear_it(event: Event) -> None:
        notebook.log.append(f"{event['event']} {event['name']}")

    await running.run(diary, "one", session="s", on_event=hear_it)
    own = [line for line in notebook.log if line in {"loaded", "saved"} or line.endswith(" diary")]
    assert own == ["loaded", "on_chain_start diary", "saved", "on_chain_end diary"]


@pytest.mark.parametrize("moment", ["load"])
async def test_where_the_store_is_down_nothing_is_begun(app: Make, notebook: Notebook, engine: EngineName, moment: str):
    work = Work()
    running = app(engine, work)
    await running.run(diary, "one", session="s")
    before, work.asked = notebook.pages["s"], []
    for error in (StoreUnavailable("Down."), SessionBusy("Held.")):
        events: list[Event] = []
        notebook.faults = {moment: error}
        result = await running.run(diary, "two", session="s", on_event=events.append)
        assert (result.status, code(result), result.path, result.output) == ("error", error.code, (), None)
        assert [event["event"] for event in events] == ["on_chain_start", "on_chain_end"]
        assert (work.asked, notebook.pages["s"]) == ([], before)
    notebook.faults = {}
    assert (await running.run(diary, "two", session="s")).error is None


async def test_what_could_not_be_saved_is_not_acknowledged(app: Make, notebook: Notebook, engine: EngineName):
    running = app(engine)
    await running.run(diary, "one", session="s")
    before = notebook.pages["s"]
    for error in (StoreUnavailable("Down."), StoreFull("Full."), StateConflict("Moved on.")):
        events: list[Event] = []
        notebook.faults["save"] = error
        result = await running.run(diary, "two", session="s", on_event=events.append)
        assert (result.status, code(result), result.output) == ("error", error.code, None)
        assert events[-1]["data"]["output"]["status"] == "error"
        assert events[-1]["data"]["output"]["output"] is None
        assert notebook.pages["s"] == before
    notebook.faults = {}
    assert (await running.run(diary, "three", session="s")).state["said"] == ("one", "one!", "three", "three!")


@pytest.mark.parametrize("moment", ["load", "save"])
async def test_a_stored_turn_outlasts_a_store_that_is_down_for_a_while(app: Make, notebook: Notebook, engine: EngineName, moment: str):
    work, events, attempts = Work(), list[Event](), 0

    async def count() -> None:
        nonlocal attempts
        attempts += 1
        notebook.faults = {moment: StoreUnavailable("Down.")} if attempts < 4 else {}

    notebook.slow[moment] = count
    running = app(engine, work)
    result = await running.run(diary, "one", session="s", on_event=events.append)
    assert (result.status, code(result), result.output) == ("success", None, "one!")
    assert (attempts, work.asked, notebook.said()) == (4, ["one", "one!"], ("one", "one!"))
    # Nothing of the attempts that failed is shown, and nothing is shown twice.
    assert [event["metadata"]["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert [event["event"] for event in events if not event["parent_ids"]] == ["on_chain_start", "on_chain_end"]
    (stored,) = await running.turns.store.find(TurnFilter())
    assert (stored.status, stored.attempts) == ("success", 4)


@pytest.mark.parametrize("moment", ["load", "save"])
async def test_a_store_that_raises_anything_at_all_ends_the_turn_typed(app: Make, notebook: Notebook, engine: EngineName, moment: str):
    notebook.faults[moment] = RuntimeError("broken")
    result = await app(engine).run(diary, "one", session="s")
    assert (result.status, code(result)) == ("error", "internal")
    assert notebook.pages == {}


async def test_a_turn_that_fails_is_not_kept_and_one_that_waits_is(app: Make, notebook: Notebook, engine: EngineName):
    running = app(engine)
    for text, status in (("one", "success"), ("bad", "error"), ("tell", "error"), ("wait", "waiting")):
        assert (await running.run(diary, text, session="s")).status == status
    assert notebook.said() == ("one", "one!", "wait", "wait!")


async def test_a_turn_that_fails_tells_the_state_that_it_reached(app: Make, notebook: Notebook, engine: EngineName):
    running = app(engine)
    await running.run(diary, "one", session="s")
    result = await running.run(diary, "tell", session="s")
    assert result.state["said"] == ("one", "one!", "tell")


@pytest.mark.parametrize("values", [{"said": "one"}, {"said": (1,)}, {"token": 7}, {"pages": {"a": 1}}], ids=str)
async def test_what_does_not_fit_is_refused_and_stays(app: Make, notebook: Notebook, engine: EngineName, values: dict[str, Any]):
    work = Work()
    before = notebook.pages["s"] = StoredState(values=values, version="v1")
    result = await app(engine, work).run(diary, "one", session="s")
    assert (code(result), result.path, work.asked) == ("state_incompatible", (), [])
    assert notebook.pages["s"] == before


async def test_fields_that_are_not_kept_any_more_are_left_alone(app: Make, notebook: Notebook, engine: EngineName):
    notebook.pages["s"] = StoredState(values={"said": ("old",), "passing": 7, "gone": object()}, version="v1")
    result = await app(engine).run(diary, "one", session="s")
    assert (result.error, result.state["said"], result.state["begun"]) == (None, ("old", "one", "one!"), 0)


# Cancellation


async def ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_whenever_a_turn_is_cancelled_what_was_acknowledged_is_kept_and_the_session_is_not_blocked(
    app: Make, notebook: Notebook, engine: EngineName
):
    """Cancel after one round of the event loop, after two, and so on until the turn has ended by itself."""
    acknowledged: list[str] = []
    running, rounds, cancelled = app(engine), 0, 0
    while rounds < 2000:
        text = f"t{rounds}"
        task = asyncio.create_task(running.run(diary, text, session="s"))
        await ticks(rounds)
        task.cancel()
        [result] = await asyncio.gather(task, return_exceptions=True)
        if isinstance(result, TurnResult):
            assert result.error is None
            acknowledged.append(text)
            break
        assert isinstance(result, asyncio.CancelledError)
        cancelled += 1
        kept = list(notebook.said()[::2])
        assert kept[: len(acknowledged)] == acknowledged
        if kept[-1:] == [text]:  # it was saved, and nobody was told
            acknowledged.append(text)
        assert kept == acknowledged
        rounds += 1
    assert cancelled > 10
    async with asyncio.timeout(20):
        assert (await running.run(diary, "last", session="s")).state["said"][::2] == (*acknowledged, "last")


@pytest.mark.parametrize("moment", ["save", "saved"])
async def test_a_turn_whose_caller_is_cancelled_while_it_is_saved_ends_as_what_it_is(
    app: Make, notebook: Notebook, engine: EngineName, moment: str
):
    reached, may_go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        reached.set()
        await may_go_on.wait()

    notebook.slow[moment] = wait
    running = app(engine)
    task = asyncio.create_task(running.run(diary, "one", session="s"))
    await reached.wait()
    task.cancel()
    await ticks(5)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    (stored,) = await running.turns.store.find(TurnFilter())
    assert (stored.status, notebook.said()) == ("success", ("one", "one!"))


@pytest.mark.parametrize("moment", ["load", "save", "saved"])
async def test_a_turn_that_is_cancelled_lets_the_next_one_in(app: Make, notebook: Notebook, engine: EngineName, moment: str):
    reached = asyncio.Event()

    async def hang() -> None:
        reached.set()
        await asyncio.Event().wait()

    notebook.slow[moment] = hang
    running = app(engine)
    async with asyncio.timeout(20):
        stuck = asyncio.create_task(running.run(diary, "stuck", session="s"))
        await reached.wait()
        behind = asyncio.create_task(running.run(diary, "behind", session="s"))
        await ticks(5)
        notebook.slow = {}
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        assert (await behind).error is None
    assert notebook.said()[-2:] == ("behind", "behind!")
    assert ("stuck" in notebook.said()) == (moment == "saved")


async def test_a_stream_that_is_left_while_it_is_saved_lets_the_next_one_in(app: Make, notebook: Notebook, engine: EngineName):
    running = app(engine)
    async with asyncio.timeout(20):
        stream = running.stream(diary, "one", session="s")
        async for event in stream:
            if (event["event"], event["name"]) == ("on_chain_end", "answer"):
                break
        await stream.aclose()
        assert (await running.run(diary, "two", session="s")).error is None


# Time


async def outlast() -> None:
    """Go on for longer than there is time, the grace included."""
    await leap(ENOUGH + 1)
    for _ in range(50):  # the grace period counts how often the event loop comes round, too
        await leap(0.02)


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("moment", ["save", "saved"])
async def test_time_that_runs_out_while_it_is_saved_is_no_error(app: Make, notebook: Notebook, engine: EngineName, moment: str):
    notebook.slow[moment] = outlast
    result = await app(engine, max_turn_seconds=ENOUGH).run(diary, "one", session="s")
    assert (result.error, result.output, notebook.said()) == (None, "one!", ("one", "one!"))


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("moment", ["load"])
async def test_time_that_runs_out_before_it_begins_ends_it(app: Make, notebook: Notebook, engine: EngineName, moment: str, tmp_path: Path):
    work = Work()
    notebook.slow[moment] = outlast
    running = app(engine, work, max_turn_seconds=ENOUGH)
    result = await running.run(diary, "one", session="s", record=tmp_path / "record")
    assert (code(result), result.path, work.asked) == ("budget_exceeded", (), [])
    replay = await app(OTHER[engine]).replay(tmp_path / "record", graph=diary)
    assert (replay.differences, replay.result.error) == ((), result.error)


async def test_a_turn_without_limits_of_time_is_kept_as_well(app: Make, notebook: Notebook, engine: EngineName):
    result = await app(engine, max_turn_seconds=None, max_call_seconds=None).run(diary, "one", session="s")
    assert (result.error, notebook.said()) == (None, ("one", "one!"))


@pytest.mark.usefixtures("time_passes")
async def test_time_that_runs_out_in_a_node_leaves_the_session_as_it_was(app: Make, notebook: Notebook, engine: EngineName):
    async def wait(what: str) -> None:
        if what == "slow!":
            await outlast()

    running = app(engine, Work(wait), max_turn_seconds=ENOUGH)
    await running.run(diary, "one", session="s")
    result = await running.run(diary, "slow", session="s")
    assert (code(result), notebook.said()) == ("budget_exceeded", ("one", "one!"))


@pytest.mark.usefixtures("time_passes")
async def test_a_caller_that_cancels_while_it_is_saved_gets_no_error_about_time(app: Make, notebook: Notebook, engine: EngineName):
    is_late = asyncio.Event()

    async def save() -> None:
        try:
            await outlast()
        finally:
            is_late.set()
        await asyncio.Event().wait()

    notebook.slow["save"] = save
    task = asyncio.create_task(app(engine, max_turn_seconds=ENOUGH).run(diary, "one", session="s"))
    await is_late.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert notebook.pages == {}


# Secrets


@pytest.mark.parametrize("text", ["echo", "tell"])
async def test_a_secret_that_is_kept_is_never_shown(  # noqa: PLR0917 - fixtures
    app: Make, notebook: Notebook, engine: EngineName, text: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
):
    caplog.set_level(logging.DEBUG, "interlock")
    events: list[Event] = []
    running = app(engine)
    first = await running.run(diary, "token", session="s", on_event=events.append)
    assert notebook.pages["s"].values["token"] == TOKEN
    second = await running.run(diary, text, session="s", on_event=events.append, record=tmp_path / "record")
    assert second.state["token"] == TOKEN
    told = [json.dumps(events), json.dumps(first.to_json()), json.dumps(second.to_json()), repr(second.error), caplog.text]
    told += [str(vars(record)) for record in caplog.records]
    assert not [one for one in told if TOKEN in one]
    assert (second.error is None) == (text == "echo")
    again: list[Event] = []
    replay = await app(OTHER[engine]).replay(tmp_path / "record", graph=diary, on_event=again.append)
    assert replay.differences == ()
    assert TOKEN not in json.dumps(again)


async def test_a_stored_secret_that_does_not_fit_is_not_shown(app: Make, notebook: Notebook, engine: EngineName):
    notebook.pages["s"] = StoredState(values={"token": [TOKEN]}, version="v1")
    events: list[Event] = []
    result = await app(engine).run(diary, "one", session="s", on_event=events.append)
    assert code(result) == "state_incompatible"
    assert TOKEN not in json.dumps(events) + repr(result.error)


# Records


def entries(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text().splitlines())
    return [f"{line['entry']['capability']}.{line['entry']['method']}" for line in lines if "entry" in line]


FAULTS: Sequence[tuple[str, InterlockError]] = [
    ("load", SessionBusy("Held.")),
    ("load", StoreUnavailable("Down.")),
    ("save", StoreFull("Full.")),
    ("save", StateConflict("Moved on.")),
]


@pytest.mark.parametrize(("moment", "error"), FAULTS, ids=[f"{moment}-{error.code}" for moment, error in FAULTS])
async def test_a_turn_whose_store_failed_is_repeated_with_its_error(  # noqa: PLR0917 - fixtures
    app: Make, notebook: Notebook, engine: EngineName, moment: str, error: InterlockError, tmp_path: Path
):
    await app(engine).run(diary, "one", session="s")
    notebook.faults[moment] = error
    before = await app(engine).run(diary, "two", session="s", record=tmp_path / "record")
    assert code(before) == error.code
    notebook.log.clear()
    notebook.faults = {}
    replay = await app(OTHER[engine]).replay(tmp_path / "record", graph=diary)
    assert (replay.differences, replay.result.error, notebook.log) == ((), before.error, [])


async def test_a_turn_of_a_session_is_repeated_without_its_store(app: Make, notebook: Notebook, engine: EngineName, tmp_path: Path):
    running = app(engine)
    await running.run(diary, "token", session="s")
    before = await running.run(diary, "two", session="s", record=tmp_path / "record")
    assert entries(tmp_path / "record") == ["Sessions.load", "Hands.take", "Hands.take", "Sessions.save"]
    notebook.pages.clear()
    notebook.log.clear()
    replay = await app(OTHER[engine]).replay(tmp_path / "record", graph=diary)
    assert (replay.differences, replay.result.state, notebook.log) == ((), before.state, [])


async def test_a_turn_that_stopped_anywhere_goes_on_and_is_saved_once(app: Make, notebook: Notebook, engine: EngineName, tmp_path: Path):
    await app(engine).run(diary, "one", session="s")
    begun = notebook.pages["s"]
    await app(engine).run(diary, "two", session="s", record=tmp_path / "whole")
    ended, name = notebook.pages["s"], notebook.turns["s"]
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    for cut in range(1, len(lines)):
        for is_saved in (False, True):  # the process may have died before the save, or after it
            known = cut == len(lines) - 1
            if known and not is_saved:
                continue
            notebook.pages["s"], notebook.turns["s"] = (ended, name) if is_saved else (begun, "")
            if cut == 1 and is_saved:
                continue  # what was not even loaded cannot have been saved
            path = tmp_path / f"cut-{cut}-{is_saved}"
            path.write_text("".join(lines[:cut]) + '{"entry": {"tu')
            notebook.log.clear()
            result = await app(OTHER[engine]).resume(path, graph=diary)
            assert (code(result), result.output) == (None, "two!")
            assert notebook.said() == ("one", "one!", "two", "two!")
            assert notebook.log.count("loaded") == (cut == 1)
            assert notebook.log.count("saved") == (not is_saved)
            assert (await app(engine).replay(path, graph=diary)).differences == ()


async def test_a_turn_that_goes_on_when_its_session_has_moved_on_changes_nothing(
    app: Make, notebook: Notebook, engine: EngineName, tmp_path: Path
):
    await app(engine).run(diary, "one", session="s")
    begun = notebook.pages["s"]
    await app(engine).run(diary, "two", session="s", record=tmp_path / "whole")
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    notebook.pages["s"] = begun
    await Interlock(Settings(engine=engine), grants={Hands: Work(), Ids: CountingIds("other")}).run(diary, "three", session="s")
    moved = notebook.pages["s"]
    (tmp_path / "before").write_text("".join(lines[:-2]))
    result = await app(engine).resume(tmp_path / "before", graph=diary)
    assert (code(result), result.output, notebook.pages["s"]) == ("state_conflict", None, moved)
    assert (await app(OTHER[engine]).replay(tmp_path / "before", graph=diary)).differences == ()
    (tmp_path / "after").write_text("".join(lines[:-1]))  # it is on record that it was saved
    result = await app(engine).resume(tmp_path / "after", graph=diary)
    assert (code(result), result.output, notebook.pages["s"]) == (None, "two!", moved)


async def test_an_agent_that_keeps_nothing_has_no_store(app: Make, agents: dict[str, Agent], notebook: Notebook, engine: EngineName):
    agents["diary"] = replace(KEEPER, persists=())
    for _ in range(2):
        assert (await app(engine).run(diary, "one", session="s")).state["said"] == ("one", "one!")
    assert notebook.log == []


async def test_a_resumed_turn_that_is_refused_again_records_that_once():
    session = SessionState(diary, ("said",), None, session="s", turn="t")
    store = MemoryJournal()
    for _ in range(2):
        entries = await store.claim("t", 1)
        turn: Any = SimpleNamespace(journal=Journal("t", entries=entries, store=store), next_sequence=lambda: 1)
        await session.record_refusal(SessionBusy("Busy."), turn)
    assert [entry.error and entry.error["code"] for entry in store.turns["t"].entries] == ["session_busy"]
