"""A turn that was written down: taken again to the last event, gone on with after a crash, and never believed blindly."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, InterlockError, Outcome, Settings, TurnResult, node
from interlock.capabilities import Chunk, Clock, Human, Ids, Message, Model, Question
from interlock.capabilities.capability import emits
from interlock.engine import ENGINES, EngineName
from interlock.errors import CapabilityError, MediaMalformed, ModelTimeout, RecordInvalid, StoreFull, StoreUnavailable
from interlock.human import LaterHuman, ScriptedHuman
from interlock.replay import Replay
from interlock.runtime.journal import Entry
from interlock.runtime.limits import Limits
from interlock.runtime.recording import Header, Record, RecordFile, check_new_record, read_header, read_record, write_record
from interlock.testing import CountingIds, FixedClock, ScriptedModel
from tests.support.passing import ENOUGH, run_out, use_up


class Trip(TypedDict, total=False):
    text: str
    when: datetime
    words: list[str]
    found: list[str]
    choice: str
    rounds: int
    out: str


class Begun(Outcome):
    when: datetime
    rounds: int


class Looped(Outcome):
    rounds: int
    found: list[str]


class Looked(Outcome):
    found: list[str]


class Spoken(Outcome):
    words: list[str]


class Chosen(Outcome):
    choice: str


class Done(Outcome):
    out: str


class Choice(BaseModel):
    way: str
    certainty: float


class Search(Capability, Protocol):
    @emits("tool")
    async def find(self, words: str) -> list[str]: ...
    async def raw(self, words: str) -> bytes: ...
    async def any(self, words: str) -> float: ...
    @emits("tool")
    def walk(self, words: str) -> AsyncIterator[str]: ...


class Special(ModelTimeout):
    """An adapter's own kind of an error that is known."""


@dataclass
class RealSearch:
    """Counts, so that no two calls have the same result."""

    made: list[str] = field(default_factory=list[str])
    before: Callable[[str], None] = lambda _: None

    def _make(self, call: str) -> int:
        self.before(call)
        self.made.append(call)
        return len(self.made)

    async def find(self, words: str) -> list[str]:
        number = self._make(f"find {words}")
        await asyncio.sleep(0)
        if words == "torn":
            raise MediaMalformed("It is torn.")
        if words == "broken":
            raise KeyError(words)
        if words == "special":
            raise Special("It is special.")
        return [f"{words}-{number}"]

    async def raw(self, words: str) -> bytes:
        return f"\xff{words}-{self._make(f'raw {words}')}".encode("latin-1")

    async def any(self, words: str) -> float:
        self._make(f"any {words}")
        return float(words)

    async def walk(self, words: str) -> AsyncIterator[str]:
        number = self._make(f"walk {words}")
        for word in words.split():
            await asyncio.sleep(0)
            yield f"{word}{number} "


async def begin(text: str, *, clock: Clock, ids: Ids) -> Begun:
    await ids.new()
    return Begun(when=await clock.now(), rounds=0)


async def loop(text: str, rounds: int, found: list[str] | None, *, search: Search) -> Looped | Looked:
    """Make the same call again and again, with another result each time."""
    result = await search.find(text)
    known = [*(found or []), *result, (await search.raw(text)).decode("latin-1")]
    return Looped(rounds=rounds + 1, found=known) if rounds < 2 else Looked(found=known)


async def stumble(found: list[str], *, search: Search) -> Looked:
    """Make calls that fail, and live with it."""
    told: list[str] = []
    for words in ("torn", "broken"):
        try:
            await search.find(words)
        except CapabilityError as error:
            told.append(f"{error.code} {error.message}")
    return Looked(found=[*found, *told])


async def speak(text: str, *, model: Model, search: Search) -> Spoken:
    words = [piece.text async for piece in model.stream([Message(role="user", text=text)])]
    async for piece in search.walk("one two three"):
        words.append(piece)
        if piece.startswith("two"):
            break
    return Spoken(words=words)


async def choose(text: str, *, model: Model) -> Chosen:
    decision = await model.decide([Message(role="user", text=text)], schema=Choice)
    return Chosen(choice=f"{decision.value.way} {decision.value.certainty}")


async def finish(when: datetime, words: list[str], found: list[str], choice: str) -> Done:
    return Done(out=f"{when.isoformat()} {words} {found} {choice}")


trip = Graph(
    "trip",
    state=Trip,
    entry=begin,
    takes=["text"],
    gives="out",
    nodes=[
        node(begin, goes={Begun: loop}),
        node(loop, goes={Looped: loop, Looked: stumble}),
        node(stumble, goes={Looked: speak}),
        node(speak, goes={Spoken: choose}),
        node(choose, goes={Chosen: finish}),
        node(finish, goes={Done: END}),
    ],
)


def script() -> ScriptedModel:
    return ScriptedModel("some words of a model", Choice(way="left", certainty=0.5))


def grants(search: RealSearch | None = None) -> dict[type, object]:
    return {Search: search or RealSearch(), Model: script(), Clock: FixedClock(), Ids: CountingIds()}


def app(engine: EngineName, search: RealSearch | None = None, **options: Any) -> Interlock:
    return Interlock(Settings(engine=engine, **options), grants=grants(search))


async def recorded(path: Path, engine: EngineName = "direct", **options: Any) -> TurnResult:
    return await app(engine, **options).run(trip, "hello", session="s", record=path)


def entries(path: Path) -> list[dict[str, Any]]:
    return [line["entry"] for line in map(json.loads, path.read_text().splitlines()) if "entry" in line]


# Replay


@pytest.mark.parametrize("other", ENGINES)
async def test_a_turn_replayed_is_the_same_to_the_last_event_on_every_engine(engine: EngineName, other: EngineName, tmp_path: Path):
    """No grants are given to whoever replays, so nothing can be asked anew."""
    path = tmp_path / "turn.jsonl"
    first = await recorded(path, engine)
    again = await Interlock(Settings(engine=other)).replay(path, graph=trip)
    assert first.error is None
    assert again.differences == ()
    assert again.result.to_json() == first.to_json()


SAM = ["hello", "  ", "data:image/png;base64,AAAA", "data:audio/wav;base64,UklGRg==", "data:text/plain,hi"]


@pytest.mark.parametrize("text", [text for text in SAM if text.strip()])
@pytest.mark.parametrize("model", ["stub", "offline"])
async def test_sam_replayed_is_the_same(engine: EngineName, text: str, model: str, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    first = await Interlock(Settings(engine=engine, model=model)).run("sam", text, record=path)
    for other in ENGINES:
        again = await Interlock(Settings(engine=other)).replay(path)
        assert (again.differences, again.result.to_json()) == ((), first.to_json())


async def test_a_replay_tells_its_events(engine: EngineName, tmp_path: Path):
    path, first, again = tmp_path / "turn.jsonl", list[Any](), list[Any]()
    await app(engine).run(trip, "hello", record=path, on_event=first.append)
    await Interlock(Settings(engine=engine)).replay(path, graph=trip, on_event=again.append)
    assert again == first
    assert any(event["event"] == "on_chat_model_stream" for event in again)


def one(run: Any, **options: Any) -> Graph:
    return Graph("one", state=Trip, entry=run, nodes=[node(run, goes={Done: END})], takes=["text"], gives="out", **options)


async def gather(text: str, *, search: Search) -> Done:
    """Make calls at once, equal ones and different ones, of which some take longer."""
    results = await asyncio.gather(*(search.find(words) for words in (text, text, "other", text)), search.raw(text))
    return Done(out=str(results))


async def interleave(text: str, *, search: Search) -> Done:
    """Read two streams by turns."""
    first, second = search.walk("one two three"), search.walk("four five")
    said = [await anext(first), await anext(second), await anext(first), await anext(second)]
    return Done(out="".join(said))


@pytest.mark.parametrize("run", [gather, interleave])
async def test_what_was_done_at_once_is_the_same_again(engine: EngineName, run: Any, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    first = await Interlock(Settings(engine=engine), grants={Search: RealSearch()}).run(one(run), "x", record=path)
    again = await Interlock(Settings(engine=engine)).replay(path, graph=one(run))
    assert first.error is None
    assert again.result.to_json() == first.to_json()
    assert again.differences == ()


async def test_calls_made_at_once_of_which_some_were_recorded_are_made_once_each(engine: EngineName, tmp_path: Path):
    whole, graph = tmp_path / "whole.jsonl", one(gather)
    await Interlock(Settings(engine=engine), grants={Search: RealSearch()}).run(graph, "x", record=whole)
    for kept in range(len(entries(whole)) + 1):
        path, search = tmp_path / f"{kept}.jsonl", RealSearch()
        path.write_text("".join(whole.read_text().splitlines(keepends=True)[: kept + 1]))
        result = await Interlock(Settings(engine=engine), grants={Search: search}).resume(path, graph=graph)
        assert result.error is None
        assert len(search.made) == 5 - kept
        assert sorted(entry["sequence"] for entry in entries(path)) == [1, 2, 3, 4, 5]
        assert (await Interlock(Settings(engine=engine)).replay(path, graph=graph)).result.to_json() == result.to_json()


async def fail(text: str, *, search: Search) -> Done:
    return Done(out=str(await search.find(text)))


async def catch_special(text: str, *, search: Search) -> Done:
    try:
        return Done(out=str(await search.find(text)))
    except Special as error:
        return Done(out=f"special: {error}")


async def any_number(text: str, *, search: Search) -> Done:
    return Done(out=str(await search.any(text)))


async def any_number_caught(text: str, *, search: Search) -> Done:
    try:
        return Done(out=str(await search.any(text)))
    except InterlockError as error:
        return Done(out=error.code)


async def raise_something(text: str, *, search: Search) -> Done:
    raise KeyError(await search.find(text))


async def odd_text(text: str, *, search: Search) -> Done:
    return Done(out=str(len(await search.find("\ud800"))))


async def read_set(text: str, *, shelf: Shelf) -> Done:
    return Done(out=await shelf.count({text, *"abcdefgh"}))


class Shelf(Capability, Protocol):
    async def count(self, words: set[str]) -> str: ...


class RealShelf:
    async def count(self, words: set[str]) -> str:
        return str(len(words))


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (fail, "torn"),
        (fail, "broken"),
        (fail, "special"),
        (catch_special, "special"),
        (any_number, "1.5"),
        (any_number, "inf"),
        (any_number, "nan"),
        (any_number_caught, "nan"),
        (raise_something, "x"),
        (odd_text, "x"),
        (read_set, "x"),
    ],
)
async def test_a_turn_that_met_trouble_meets_the_same_again(engine: EngineName, run: Any, text: str, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    granted = {Search: RealSearch(), Shelf: RealShelf()}
    first = await Interlock(Settings(engine=engine), grants=granted).run(one(run), text, record=path)
    assert first.error is None or first.error.code != "internal"
    again = await Interlock(Settings(engine=engine)).replay(path, graph=one(run))
    assert again.differences == ()
    assert again.result.to_json() == first.to_json()


async def test_a_turn_is_the_same_whether_it_is_written_down_or_not(engine: EngineName, tmp_path: Path):
    plain = await Interlock(Settings(engine=engine), grants={Search: RealSearch()}).run(one(odd_text), "x")
    written = await Interlock(Settings(engine=engine), grants={Search: RealSearch()}).run(one(odd_text), "x", record=tmp_path / "turn")
    assert (written.status, written.error, written.output) == (plain.status, plain.error, plain.output)


async def hang(text: str) -> Done:
    await run_out()


class Moved(Outcome):
    rounds: int


async def dawdle(text: str, *, search: Search) -> Moved:
    await search.find(text)
    use_up()
    return Moved(rounds=1)


async def ask(rounds: int, *, search: Search) -> Done:
    return Done(out=str(await search.find("asked")))


async def wait_for_call(text: str, *, slow: Slow) -> Done:
    return Done(out=await slow.wait())


class Slow(Capability, Protocol):
    async def wait(self) -> str: ...


class RealSlow:
    async def wait(self) -> str:
        await run_out()


dawdling = Graph("one", state=Trip, entry=dawdle, nodes=[node(dawdle, goes={Moved: ask}), node(ask, goes={Done: END})], takes=["text"])


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("graph", [one(hang), dawdling, one(wait_for_call)], ids=["hangs", "dawdles", "waits"])
async def test_a_turn_that_ran_out_of_time_is_the_same_again(engine: EngineName, graph: Graph, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    granted: dict[type, object] = {Search: RealSearch(), Slow: RealSlow()}
    async with asyncio.timeout(20):
        first = await Interlock(Settings(engine=engine, max_turn_seconds=ENOUGH), grants=granted).run(graph, "x", record=path)
    assert first.error is not None
    assert first.error.code == "budget_exceeded"
    async with asyncio.timeout(20):
        again = await Interlock(Settings(engine=engine)).replay(path, graph=graph)
    assert again.differences == ()


@pytest.mark.usefixtures("time_passes")
async def test_a_call_that_ran_out_of_time_is_the_same_again(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    limited = Settings(engine=engine, max_call_seconds=ENOUGH)
    async with asyncio.timeout(20):
        first = await Interlock(limited, grants={Slow: RealSlow()}).run(one(wait_for_call), "x", record=path)
    again = await Interlock(Settings(engine=engine)).replay(path, graph=one(wait_for_call))
    assert first.error is not None
    assert (first.error.code, again.differences) == ("capability_timeout", ())


@pytest.mark.parametrize("limits", [{"max_model_calls": 1}, {"max_output_bytes": 10}, {"max_tokens": 3}, {"max_steps": 4}])
async def test_a_turn_that_ran_out_of_a_budget_is_the_same_again(engine: EngineName, limits: dict[str, int], tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    first = await recorded(path, engine, **limits)
    assert first.error is not None
    again = await Interlock(Settings(engine=engine)).replay(path, graph=trip)
    assert (first.error.code, again.differences) == ("budget_exceeded", ())


async def test_what_is_done_otherwise_is_reported(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await Interlock(Settings(), grants={Search: RealSearch()}).run(one(fail), "x", record=path)

    async def fail_otherwise(text: str, *, search: Search) -> Done:
        return Done(out=str(await search.find(f"{text}!")))

    fail_otherwise.__name__ = "fail"
    again = await Interlock(Settings()).replay(path, graph=one(fail_otherwise))
    assert again.result.error is not None
    assert again.result.error.code == "replay_diverged"
    assert [difference.partition(":")[0] for difference in again.differences] == [
        "status",
        "output",
        "error",
        "state.out",
        "event 3",
        "call 1",
    ]


async def test_a_graph_whose_contracts_have_changed_is_reported(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await Interlock(Settings(), grants={Search: RealSearch()}).run(one(fail), "x", record=path)
    again = await Interlock(Settings()).replay(path, graph=one(fail, max_steps=7))
    assert again.differences == ("graph: the contracts of 'one' have changed",)
    cut_short(path, 1)
    with pytest.raises(InterlockError) as caught:
        await Interlock(Settings(), grants={Search: RealSearch()}).resume(path, graph=one(fail, max_steps=7))
    assert caught.value.code == "state_incompatible"


async def test_a_record_of_another_graph_is_refused(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await Interlock(Settings(), grants={Search: RealSearch()}).run(one(fail), "x", record=path)
    with pytest.raises(RecordInvalid):
        await Interlock(Settings()).replay(path, graph=trip)
    with pytest.raises(RecordInvalid, match="one of your own"):
        await Interlock(Settings()).replay(path)


async def test_a_turn_that_saw_a_secret_word_that_is_ordinary_can_be_replayed(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    settings_ = Settings(model_api_key="status")  # pyright: ignore[reportArgumentType]
    await Interlock(settings_, grants={Search: RealSearch()}).run(one(fail), "x", record=path)
    assert (await Interlock(settings_).replay(path, graph=one(fail))).differences == ()


# The file


async def test_a_record_is_for_its_owner_only(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    before = os.umask(0)
    try:
        await recorded(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_record_is_json_lines_in_order(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await recorded(path, engine)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [next(iter(line)) for line in lines] == ["header", *["entry"] * (len(lines) - 2), "footer"]
    made = [line["entry"] for line in lines[1:-1]]
    assert [entry["sequence"] for entry in made] == list(range(1, len(made) + 1))
    assert {entry["turn"] for entry in made} == {"id-1"}


async def test_an_entry_is_in_the_file_before_the_node_sees_the_result(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    seen: list[int] = []
    search = RealSearch(before=lambda _: seen.append(len(entries(path))))
    await app("direct", search).run(trip, "hello", record=path)
    assert seen[:6] == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
async def test_what_is_there_already_is_never_written_over(kind: str, tmp_path: Path):
    path, other = tmp_path / "turn.jsonl", tmp_path / "other"
    other.write_text("precious")
    if kind == "file":
        path.write_text("precious")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(other)
    search = RealSearch()
    with pytest.raises(RecordInvalid):
        await app("direct", search).run(trip, "hello", record=path)
    assert (other.read_text(), search.made) == ("precious", [])
    assert kind != "file" or path.read_text() == "precious"


@pytest.mark.parametrize("path", ["/nowhere/turn.jsonl", "/proc/turn.jsonl"])
async def test_a_place_that_cannot_be_written_is_store_unavailable(path: str):
    search = RealSearch()
    with pytest.raises(StoreUnavailable) as caught:
        await app("direct", search).run(trip, "hello", record=Path(path))
    assert (caught.value.code, search.made) == ("store_unavailable", [])


async def test_an_input_that_cannot_be_recorded_is_typed_and_makes_no_file(tmp_path: Path):
    class Number(TypedDict, total=False):
        number: float
        out: str

    graph = Graph("number", state=Number, entry=_say_number, nodes=[node(_say_number, goes={Done: END})], takes=["number"])
    with pytest.raises(InterlockError) as caught:
        await Interlock(Settings()).run(graph, {"number": float("nan")}, record=tmp_path / "turn.jsonl")
    assert caught.value.code == "state_unstorable"
    assert not (tmp_path / "turn.jsonl").exists()


@pytest.mark.parametrize("text", ["plain", "\u00e9\u2028\x85\U0001f600", "half a letter: \ud800", "\r\n\0"], ids=ascii)
async def test_all_that_is_written_down_is_one_line_of_ascii(text: str, tmp_path: Path):
    path = tmp_path / "record"
    entry = Entry(
        turn="t", sequence=1, node="n", capability="C", method="m", key="k", told=(text,), result=[text, float("inf"), 10**30, 0.1]
    )
    with RecordFile(path, os.open(path, os.O_CREAT | os.O_WRONLY)) as recorder:
        await recorder.append([entry])
        await recorder.append([entry])
    lines = path.read_text(encoding="ascii").splitlines()
    assert [json.loads(line) for line in lines] == [{"entry": vars(entry) | {"told": [text]}}] * 2


async def _say_number(number: float) -> Done:
    return Done(out=str(number))


def test_a_disk_without_room_is_store_full_and_nothing_else():
    with pytest.raises(StoreFull), RecordFile(Path("/dev/full"), os.open("/dev/full", os.O_WRONLY)) as recorder:
        recorder.write_lines({"header": {"a": 1}})


@contextmanager
def files_no_larger_than(size: int) -> Generator[None]:
    """Let no file of this process grow beyond a size."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def open_files() -> int:
    return len([*Path("/dev/fd").iterdir()])


@pytest.mark.parametrize("limit", [0, 10, 1000, 1500, 5000])
async def test_a_record_that_cannot_grow_is_a_store_error_and_nothing_else(limit: int, tmp_path: Path):
    sam = Interlock(Settings(engine="direct", model="stub"))
    await sam.run("sam", "hello")
    opened = open_files()
    with files_no_larger_than(limit):
        try:
            result = await sam.run("sam", "hello", record=tmp_path / "turn.jsonl")
        except (StoreFull, StoreUnavailable) as error:  # of the first line or the last
            code = error.code
        else:
            code = result.error and result.error.code
    assert code in {"store_full", "store_unavailable"}
    assert open_files() == opened


def run_python(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


# Resume


def cut_short(path: Path, lines: int) -> None:
    """Leave the heading and this many entries less one."""
    kept = path.read_text().splitlines(keepends=True)[:lines]
    path.write_text("".join(kept))


async def test_a_turn_that_stopped_anywhere_goes_on_and_ends_as_if_it_had_not(engine: EngineName, tmp_path: Path):
    whole = tmp_path / "whole.jsonl"
    first = await recorded(whole, engine)
    count, reader = len(entries(whole)), Interlock(Settings(engine=engine))
    for kept in range(count + 1):
        path, search = tmp_path / f"{kept}.jsonl", RealSearch()
        path.write_text("".join(whole.read_text().splitlines(keepends=True)[: kept + 1]))
        known = [entry for entry in entries(path) if entry["capability"] == "Search"]
        search.made = ["from the record"] * len(known)  # it counts on where it was
        model = ScriptedModel(*(["some words of a model"] if not _has(path, "stream") else []), Choice(way="left", certainty=0.5))
        granted: dict[type, object] = {**grants(search), Model: model}
        result = await Interlock(Settings(engine=engine), grants=granted).resume(path, graph=trip)
        assert result.error is None
        assert len(search.made) == len([entry for entry in entries(whole) if entry["capability"] == "Search"])
        again = await reader.replay(path, graph=trip)
        assert again.differences == ()
        assert result.to_json() == first.to_json()


def _has(path: Path, method: str) -> bool:
    return any(entry["method"] == method for entry in entries(path))


async def consult(text: str, *, human: Human) -> Done:
    said = await human.ask(Question(text="Shall I?", options=("yes", "no"), recommended="no"))
    return Done(out=f"{text}: {said}")


async def test_a_suspended_turn_has_its_question_in_the_journal_and_is_resumed_with_the_answer(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    first = await Interlock(Settings(engine=engine), grants={Human: LaterHuman()}).run(one(consult), "sell", record=path)
    assert (first.status, first.output, first.error) == ("waiting", "Shall I?", None)
    assert first.metadata["waiting"] == {"question": "Shall I?", "options": ["yes", "no"], "recommended": "no"}
    (asked,) = entries(path)
    assert (asked["question"]["text"], asked["result"]) == ("Shall I?", None)
    again = await Interlock(Settings(engine=engine), grants={Human: ScriptedHuman("yes")}).resume(path, graph=one(consult))
    assert (again.status, again.output) == ("success", "sell: yes")
    assert [(entry["question"] is None, entry["result"]) for entry in entries(path)] == [(False, None), (True, "yes")]


async def test_the_time_of_a_turn_does_not_start_again_when_it_is_resumed(engine: EngineName, tmp_path: Path):
    path, clock = tmp_path / "turn.jsonl", FixedClock()
    running = app(engine, max_turn_seconds=60)
    running._runner._clock = clock  # type: ignore[assignment] # noqa: SLF001
    await running.run(trip, "hello", session="s", record=path)
    whole = path.read_text()
    cut_short(path, 3)
    clock.move(timedelta(seconds=59))
    assert (await running.resume(path, graph=trip)).error is None
    path.write_text(whole)
    cut_short(path, 3)
    clock.move(timedelta(seconds=2))
    late = await running.resume(path, graph=trip)
    assert late.error is not None
    assert (late.error.code, "max_turn_seconds" in late.error.message) == ("budget_exceeded", True)


async def test_the_time_that_a_person_takes_is_not_the_turns(engine: EngineName, tmp_path: Path):
    path, clock = tmp_path / "turn.jsonl", FixedClock()
    running = Interlock(Settings(engine=engine, max_turn_seconds=60), grants={Human: LaterHuman()})
    running._runner._clock = clock  # type: ignore[assignment] # noqa: SLF001
    assert (await running.run(one(consult), "sell", record=path)).status == "waiting"
    clock.move(timedelta(days=3))
    assert (await running.resume(path, graph=one(consult))).status == "waiting"


async def test_a_turn_that_has_ended_is_not_resumed(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await recorded(path)
    with pytest.raises(RecordInvalid, match="has ended"):
        await app("direct").resume(path, graph=trip)


async def test_a_turn_that_stopped_half_way_is_not_replayed(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await recorded(path)
    cut_short(path, 3)
    with pytest.raises(RecordInvalid, match="half way"):
        await app("direct").replay(path, graph=trip)


async def test_a_stream_that_was_cut_off_by_cancellation_is_not_taken_for_whole(engine: EngineName, tmp_path: Path):
    """Else the turn that goes on would answer with half of what the model said, and nobody would know."""
    path = tmp_path / "turn.jsonl"

    class Waiting(ScriptedModel):
        async def stream(self, messages: Sequence[Message], *, tools: Any = ()) -> AsyncIterator[Chunk]:  # pyright: ignore[reportIncompatibleMethodOverride]
            yield Chunk(text="half ")
            said.set()
            await asyncio.Event().wait()

    said = asyncio.Event()
    graph = one(say)
    task = asyncio.create_task(Interlock(Settings(engine=engine), grants={Model: Waiting()}).run(graph, "x", record=path))
    await said.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cut_short(path, 1)  # as if the process had been killed then
    result = await Interlock(Settings(engine=engine), grants={Model: ScriptedModel("half and the rest")}).resume(path, graph=graph)
    assert result.output == "half and the rest"


async def say(text: str, *, model: Model) -> Done:
    return Done(out="".join([piece.text async for piece in model.stream([Message(role="user", text=text)])]))


@pytest.mark.usefixtures("time_passes")
async def test_a_stream_that_was_cut_off_by_the_turns_time_is_the_same_again(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"

    class Waiting(ScriptedModel):
        async def stream(self, messages: Sequence[Message], *, tools: Any = ()) -> AsyncIterator[Chunk]:  # pyright: ignore[reportIncompatibleMethodOverride]
            yield Chunk(text="half ")
            await run_out()

    limited = Settings(engine=engine, max_turn_seconds=ENOUGH)
    async with asyncio.timeout(20):
        first = await Interlock(limited, grants={Model: Waiting()}).run(one(say), "x", record=path)
    assert first.error is not None
    again = await Interlock(Settings(engine=engine)).replay(path, graph=one(say))
    assert (first.error.code, again.differences) == ("budget_exceeded", ())


CRASH = """
    import asyncio, os, signal, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    import crashing
    asyncio.run(crashing.main(Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
"""

CRASHING = """
import asyncio, os, signal
from typing import Protocol
from typing_extensions import TypedDict
from interlock import END, Capability, Graph, Interlock, Outcome, Settings, node

class Text(TypedDict, total=False):
    text: str
    done: list[str]

class Went(Outcome):
    done: list[str]

class Over(Outcome):
    done: list[str]

class Hand(Capability, Protocol):
    async def do(self, what: set[str]) -> str: ...

async def work(text: str, done: list[str] | None, *, hand: Hand) -> Went | Over:
    known = [*(done or []), await hand.do({text, "a", "b", str(len(done or []))})]
    return Went(done=known) if len(known) < 4 else Over(done=known)

graph = Graph("crashing", state=Text, entry=work, nodes=[node(work, goes={Went: work, Over: END})], takes=["text"], gives="done")

class RealHand:
    def __init__(self, log, crash_at):
        self.log, self.crash_at = log, crash_at

    async def do(self, what):
        word = ",".join(sorted(what))
        with open(self.log, "a") as log:
            log.write(word + "\\n")
        with open(self.log) as log:
            made = len(log.readlines())
        if str(made) == self.crash_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return word

async def main(path, log, crash_at):
    app = Interlock(Settings(engine="direct"), grants={Hand: RealHand(log, crash_at)})
    result = await (app.resume(path, graph=graph) if path.exists() else app.run(graph, "hello", record=path))
    print(result.output, result.error)
"""


def test_a_process_that_is_killed_in_a_call_goes_on_in_another(tmp_path: Path):
    """In another process a set has another order, and a call that was recorded must be known all the same."""
    (tmp_path / "crashing.py").write_text(CRASHING)
    path, log, crash_at = tmp_path / "turn.jsonl", tmp_path / "log", 2
    killed = run_python(CRASH, tmp_path, path, log, crash_at)
    assert killed.returncode == -signal.SIGKILL
    ended = run_python(CRASH, tmp_path, path, log, "never")
    assert ended.stderr == ""
    made = log.read_text().splitlines()
    wanted = ["0,a,b,hello", "1,a,b,hello", "2,a,b,hello", "3,a,b,hello"]
    assert ended.stdout.strip() == f"{wanted} None"
    assert made == [*wanted[:crash_at], *wanted[crash_at - 1 :]]  # only the call that it died in is made again


# Files that somebody has been at

QUICK = [Phase.explicit, Phase.reuse, Phase.generate]  # every example takes a turn or two


def outcome_of(engine: EngineName, content: bytes) -> InterlockError | Replay | TurnResult | None:
    """Replay, or else resume, whatever this is; only typed errors may come of it."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "turn.jsonl"
        path.write_bytes(content)
        try:
            return asyncio.run(_limited(Interlock(Settings(engine=engine)).replay(path, graph=trip)))
        except RecordInvalid as error:
            if "half way" not in error.message:
                return error
        except InterlockError as error:
            return error
        try:
            return asyncio.run(_limited(app(engine).resume(path, graph=trip)))
        except InterlockError as error:
            return error


async def _limited(taking: Any) -> Any:
    async with asyncio.timeout(20):
        return await taking


@pytest.fixture(scope="module")
def whole() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "turn.jsonl"
        asyncio.run(recorded(path))
        return path.read_bytes()


def typed(found: InterlockError | Replay | TurnResult | None) -> bool:
    if isinstance(found, Replay):
        found = found.result
    if isinstance(found, TurnResult):
        return found.error is None or found.error.code != "internal"
    return found is not None and found.code != "internal"


@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_no_record(content: bytes):
    assert isinstance(outcome_of("direct", content), RecordInvalid)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["header", "entry", "footer", "x"]), inner, max_size=3),
    max_leaves=6,
)


@given(lines=st.lists(JSON, min_size=1, max_size=4))
def test_lines_of_any_json_are_no_record(lines: list[Any]):
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert isinstance(outcome_of("direct", content), RecordInvalid)


@pytest.mark.parametrize("content", [b"", b"\xff\n", b"\n", b'{"entry": {}}\n', b'{"footer": {}}\n', b'{"x": 1}\n'])
def test_what_does_not_begin_as_a_record_is_refused(content: bytes, tmp_path: Path):
    (tmp_path / "turn").write_bytes(content)
    with pytest.raises(RecordInvalid):
        read_record(tmp_path / "turn")


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_line_that_is_not_in_its_place_is_reported(whole: bytes, place: int, tmp_path: Path):
    lines = whole.splitlines(keepends=True)
    for stray in (lines[place], b'{"x": 1}\n'):
        (tmp_path / "turn").write_bytes(whole + stray)
        with pytest.raises(RecordInvalid):
            read_record(tmp_path / "turn")


@pytest.mark.parametrize("line", ["[]", "1", '"x"', "null", "[" * 100_000, '{"a":' * 100_000, "9" * 5000, "{}", '{"header": []}'])
def test_a_line_that_is_no_entry_is_refused(line: str):
    assert isinstance(outcome_of("direct", f"{line}\n".encode()), RecordInvalid)


@settings(max_examples=40, phases=QUICK)
@given(data=st.data())
def test_a_record_cut_anywhere_is_resumed_or_refused(whole: bytes, data: st.DataObject):
    cut = data.draw(st.integers(min_value=0, max_value=len(whole)))
    found = outcome_of("direct", whole[:cut])
    assert typed(found)


@settings(max_examples=100, phases=QUICK)
@given(data=st.data())
def test_a_flipped_bit_is_reported_or_does_nothing(whole: bytes, data: st.DataObject):
    position = data.draw(st.integers(min_value=0, max_value=len(whole) - 1))
    changed = bytearray(whole)
    changed[position] ^= 1 << data.draw(st.integers(min_value=0, max_value=7))
    assert typed(outcome_of("direct", bytes(changed)))


@settings(max_examples=100, phases=QUICK)
@given(data=st.data())
def test_lines_that_were_taken_out_doubled_or_put_elsewhere_are_reported(whole: bytes, data: st.DataObject):
    lines = whole.splitlines(keepends=True)
    chosen = data.draw(st.lists(st.sampled_from(lines), max_size=len(lines) + 2) | st.permutations(lines))
    assert typed(outcome_of("direct", b"".join(chosen)))


def _places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        inside: list[tuple[Any, Any]] = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        inside = list(enumerate(cast("list[Any]", value)))
    else:
        return []
    return [place for key, item in inside for place in [(*way, key), *_places(item, (*way, key))]]


def _changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    first, *rest = place
    made: Any = copy.copy(value)
    if rest:
        made[first] = _changed(made[first], tuple(rest), new)
    elif new is ...:
        del made[first]
    else:
        made[first] = new
    return made


FORGED: st.SearchStrategy[Any] = st.sampled_from(
    cast(
        "list[Any]",
        [..., None, 0, -1, 10**400, 1e308, True, "", "x", "\ud800", "(", "(?=", [], {}, ["x"], {"x": 1}, {"code": "x"}, [[]], "internal"],
    )
)


@settings(max_examples=100, phases=QUICK)
@given(data=st.data())
def test_a_value_that_was_forged_is_reported_or_does_nothing(whole: bytes, data: st.DataObject):
    lines = [json.loads(line) for line in whole.splitlines()]
    number = data.draw(st.sampled_from([0, 0, 0, *range(1, len(lines) - 1), len(lines) - 1, len(lines) - 1]))
    places = [place for place in _places(lines[number]) if number != len(lines) - 1 or len(place) < 5]
    lines[number] = _changed(lines[number], data.draw(st.sampled_from(places)), data.draw(FORGED))
    assert typed(outcome_of("direct", "".join(json.dumps(line) + "\n" for line in lines).encode()))


FORGERIES: list[tuple[tuple[Any, ...], Any]] = [
    (("header", "redact"), ["("]),
    (("header", "turn"), "\ud800"),
    (("header", "session"), "\ud800"),
    (("header", "role"), "admin"),
    (("header", "version"), 2),
    (("header", "limits", "max_steps"), -1),
    (("header", "given", "text"), 5),
    (("footer", "result", "status"), ...),
    (("footer", "result", "state"), 5),
    (("footer", "result"), {}),
    (("footer", "events"), []),
    (("entry", "result"), {"a": 1}),
    (("entry", "error"), {}),
    (("entry", "error"), {"code": "unheard_of", "message": "x"}),
    (("entry", "key"), "x"),
]


@pytest.mark.parametrize(("place", "value"), FORGERIES)
def test_a_forgery_is_reported(engine: EngineName, whole: bytes, place: tuple[Any, ...], value: Any):
    lines = [json.loads(line) for line in whole.splitlines()]
    number = {"header": 0, "entry": 1, "footer": -1}[place[0]]
    lines[number] = _changed(lines[number], place, value)
    found = outcome_of(engine, "".join(json.dumps(line) + "\n" for line in lines).encode())
    assert typed(found)
    assert not isinstance(found, Replay) or found.differences or place[-1] == "max_steps"


def test_a_record_that_is_no_file_is_refused(tmp_path: Path):
    for path in (tmp_path, tmp_path / "none", tmp_path / "none" / "turn", Path("/dev/null")):
        with pytest.raises(RecordInvalid):
            read_record(path)


async def test_two_who_go_on_with_the_same_turn_do_not_both_do_its_work(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await recorded(path)
    cut_short(path, 3)
    first, second = RealSearch(), RealSearch()
    found = await asyncio.gather(*(app("direct", search).resume(path, graph=trip) for search in (first, second)), return_exceptions=True)
    assert all(isinstance(one, TurnResult | InterlockError) for one in found)
    assert not (first.made and second.made)


async def test_who_claims_a_record_gets_its_entries(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await Interlock(Settings(), grants={Ids: CountingIds()}).run("sam", "hello", record=path)
    with RecordFile.reopen(path) as file:
        assert await file.claim("any", 1) == read_record(path).entries


def test_a_record_is_named_by_a_path():
    with pytest.raises(RecordInvalid, match="'str'"):
        read_record(cast("Any", "turn.jsonl"))


@pytest.mark.parametrize(("written", "says"), [(b"{", "not JSON"), (b'{"agent": 1}', "cannot be read")])
def test_a_stored_header_that_is_damaged_is_refused(written: bytes, says: str):
    with pytest.raises(RecordInvalid, match=says):
        read_header(written)


def test_a_record_of_a_turn_that_has_not_ended_is_written_whole_and_never_over_another(tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    header = Header(agent="a", graph="g", fingerprint="f", role=None, session="s", turn="t", given={}, limits=Limits(), redact=())
    record = Record(header=header, entries=[Entry(turn="t", sequence=1, node="n", capability="C", method="m", key="k")])
    check_new_record(path)
    write_record(path, record)
    assert read_record(path) == record
    with pytest.raises(RecordInvalid, match="never overwritten"):
        check_new_record(path)
