"""A turn with graphs inside graphs that was written down: taken again on any engine, gone on with, and held to all contracts."""

from __future__ import annotations

import asyncio
import functools
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, Subgraph, TurnResult, node
from interlock.capabilities import Clock, Ids
from interlock.capabilities.capability import emits
from interlock.contract.node import Row
from interlock.engine import ENGINES, EngineName
from interlock.errors import MediaMalformed, StateIncompatible
from interlock.runtime.events import Event
from interlock.runtime.recording import read_record
from interlock.testing import CountingIds, FixedClock
from tests.support.passing import ENOUGH, run_out, use_up


class Trip(TypedDict, total=False):
    text: str
    rounds: int
    log: list[str] | None
    out: str


class Looked(Outcome):
    log: list[str]


class Looped(Outcome):
    rounds: int
    log: list[str]


class Done(Outcome):
    out: str


class Guide(Capability, Protocol):
    async def lead(self, text: str) -> str: ...


class Scout(Capability, Protocol):
    async def look(self, text: str, rounds: int) -> list[str]: ...


class Hands(Capability, Protocol):
    @emits("tool")
    async def take(self, what: str) -> str: ...


class Stopped(BaseException):
    """The process ends, for all that anybody can tell."""


@dataclass
class RealHands:
    """Counts, so that no two calls have the same result; stops the process at one of them."""

    stop_at: int | None = None
    taken: list[str] = field(default_factory=list[str])

    async def take(self, what: str) -> str:
        if len(self.taken) == self.stop_at:
            raise Stopped
        self.taken.append(what)
        await asyncio.sleep(0)
        if what == "torn":
            raise MediaMalformed("It is torn.")
        return f"{what}-{len(self.taken)}"


async def step(text: str, rounds: int, log: list[str] | None, *, hands: Hands) -> Looped | Looked:
    """Make the same call in every round, each time with another result."""
    more = [*(log or []), await hands.take(text)]
    return Looked(log=more) if rounds == 0 else Looped(rounds=rounds - 1, log=more)


async def scout_ahead(text: str, *, scout: Scout) -> Looked:
    return Looked(log=[*await scout.look(text, 2), *await scout.look(text, 0)])


async def report(text: str, log: list[str] | None, *, hands: Hands, clock: Clock) -> Done:
    told = ""
    try:
        await hands.take("torn")
    except MediaMalformed as error:
        told = error.code
    return Done(out=f"{log} {told} {await hands.take(text)} {(await clock.now()).isoformat()}")


async def follow(text: str, *, guide: Guide, ids: Ids, hands: Hands) -> Done:
    return Done(out=f"{await ids.new()} {await guide.lead(text)} {await hands.take(text)} {await guide.lead(text)}")


def looking(**options: Any) -> Graph:
    defaults: dict[str, Any] = {"name": "scouting", "takes": ["text", "rounds"], "gives": "log", "max_steps": 9}
    return Graph(state=Trip, entry=step, nodes=[node(step, goes={Looped: step, Looked: END})], **{**defaults, **options})


leading = Graph(
    "leading",
    state=Trip,
    entry=scout_ahead,
    nodes=[node(scout_ahead, goes={Looked: report}), node(report, goes={Done: END})],
    takes=["text"],
    gives="out",
)
trip = Graph("trip", state=Trip, entry=follow, nodes=[node(follow, goes={Done: END})], takes=["text"], gives="out")
INSIDE = ("follow/scout_ahead", *("follow/scout_ahead/step",) * 4, "follow/report")
PATH = ("follow", *INSIDE * 2)


def app(engine: EngineName, hands: RealHands | None = None, more: Mapping[type, object] | None = None, **options: Any) -> Interlock:
    graphs = {Guide: Subgraph(leading), Scout: Subgraph(looking())}
    real = {Hands: hands or RealHands(), Ids: CountingIds(), Clock: FixedClock()}
    return Interlock(Settings(engine=engine, **options), grants={**graphs, **real, **(more or {})})


def replaying(engine: EngineName, more: Mapping[type, object] | None = None) -> Interlock:
    """Grant the graphs and nothing else: who replays asks nobody."""
    return Interlock(Settings(engine=engine), grants={Guide: Subgraph(leading), Scout: Subgraph(looking()), **(more or {})})


async def test_every_call_at_any_depth_is_written_down_with_the_path_of_its_node(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    result = await app(engine).run(trip, "x", record=path)
    assert result.error is None
    assert result.path == PATH
    entries = read_record(path).entries
    once = [*["follow/scout_ahead/step"] * 4, *["follow/report"] * 3]
    assert [entry.node for entry in entries] == ["follow", *once, "follow", *once]
    assert {entry.capability for entry in entries} == {"Ids", "Hands", "Clock"}  # the graphs themselves are none


@pytest.mark.parametrize("other", ENGINES)
async def test_a_turn_replayed_is_the_same_to_the_last_event_on_every_engine(engine: EngineName, other: EngineName, tmp_path: Path):
    path, first, again = tmp_path / "turn.jsonl", list[Event](), list[Event]()
    result = await app(engine).run(trip, "x", session="s", record=path, on_event=first.append)
    replay = await replaying(other).replay(path, graph=trip, on_event=again.append)
    assert replay.differences == ()
    assert replay.result.to_json() == result.to_json()
    assert again == first


@pytest.mark.parametrize("other", ENGINES)
async def test_going_on_after_a_stop_at_any_depth_repeats_nothing(engine: EngineName, other: EngineName, tmp_path: Path):
    whole = await app(engine).run(trip, "x", session="s", record=tmp_path / "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    calls = [json.loads(line)["entry"]["method"] for line in lines[1:-1]]
    reader = replaying(engine)
    for kept in range(1, len(calls) + 1):
        path, hands = tmp_path / f"{kept}.jsonl", RealHands()
        path.write_text("".join(lines[: kept + 1]))
        hands.taken = ["before"] * calls[:kept].count("take")
        result = await app(other, hands).resume(path, graph=trip)
        assert len(hands.taken) == calls.count("take")
        assert [result.path, result.state] == [whole.path, whole.state]
        assert (await reader.replay(path, graph=trip)).differences == ()


@pytest.mark.parametrize("at", [0, 2, 5, 7, 12])
async def test_a_process_that_ends_inside_an_inner_node_can_go_on(engine: EngineName, at: int, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    try:
        await app(engine, RealHands(stop_at=at)).run(trip, "x", session="s", record=path)
    except Stopped:
        pass
    else:
        raise AssertionError
    hands = RealHands(taken=["before"] * at)
    result = await app(engine, hands).resume(path, graph=trip)
    assert result.error is None
    assert result.to_json() == (await app(engine).run(trip, "x", session="s")).to_json() | {"turn": result.turn}
    assert len(hands.taken) == 13


CHANGED: dict[str, tuple[type, Callable[[], Subgraph]]] = {
    "steps": (Scout, lambda: Subgraph(looking(max_steps=8))),
    "name": (Scout, lambda: Subgraph(looking(name="looking"))),
    "takes": (Scout, lambda: Subgraph(looking(takes=["text", "rounds", "log"]))),
    "what is fixed": (Scout, lambda: Subgraph(looking(takes=["text", "rounds", "log"]), log=["fixed"])),
}


@pytest.mark.parametrize(("capability", "changed"), CHANGED.values(), ids=CHANGED.keys())
async def test_a_changed_contract_of_an_inner_graph_is_noticed(
    engine: EngineName, tmp_path: Path, capability: type, changed: Callable[[], Subgraph]
):
    path, half = tmp_path / "turn.jsonl", tmp_path / "half.jsonl"
    await app(engine).run(trip, "x", record=path)
    replay = await replaying(engine, {capability: changed()}).replay(path, graph=trip)
    assert "graph: the contracts of 'trip' have changed" in replay.differences
    half.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    before, hands = half.read_bytes(), RealHands()
    with pytest.raises(StateIncompatible, match="'trip' have changed"):
        await app(engine, hands, {capability: changed()}).resume(half, graph=trip)
    assert (hands.taken, half.read_bytes()) == ([], before)


async def test_what_is_fixed_is_part_of_what_a_turn_goes_on_with(engine: EngineName, tmp_path: Path):
    """The contracts are the same: only the value is another."""
    path, half = tmp_path / "turn.jsonl", tmp_path / "half.jsonl"
    fixed = looking(takes=["text", "rounds", "log"])
    await app(engine, more={Scout: Subgraph(fixed, log=["one"])}).run(trip, "x", record=path)
    assert (await replaying(engine, {Scout: Subgraph(fixed, log=["one"])}).replay(path, graph=trip)).differences == ()
    half.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    with pytest.raises(StateIncompatible):
        await app(engine, more={Scout: Subgraph(fixed, log=["other"])}).resume(half, graph=trip)


class PlainGuide:
    async def lead(self, text: str) -> str:
        return text


async def test_an_adapter_in_the_place_of_an_inner_graph_is_noticed(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await app(engine).run(trip, "x", record=path)
    replay = await replaying(engine, {Guide: PlainGuide()}).replay(path, graph=trip)
    assert "graph: the contracts of 'trip' have changed" in replay.differences
    assert replay.result.error is not None
    assert replay.result.error.code == "replay_diverged"


async def test_a_replay_makes_no_call_at_any_depth(engine: EngineName, tmp_path: Path):
    path, hands = tmp_path / "turn.jsonl", RealHands()
    await app(engine).run(trip, "x", record=path)
    kept = [line for line in path.read_text().splitlines(keepends=True) if '"follow/report"' not in line or '"footer"' in line]
    path.write_text("".join(kept))
    replay = await app(engine, hands).replay(path, graph=trip)
    assert replay.result.error is not None
    assert (replay.result.error.code, replay.result.error.node) == ("replay_diverged", "follow/report")
    assert hands.taken == []


# Time


class Slow(RealHands):
    """Takes all of a turn's time without letting anybody else run, so that it ends between two steps."""

    async def take(self, what: str) -> str:
        use_up()
        return what


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("other", ENGINES)
async def test_a_turn_whose_time_ran_out_between_two_inner_steps_ends_there_again(engine: EngineName, other: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    result = await app(engine, Slow(), max_turn_seconds=ENOUGH).run(trip, "x", record=path)
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("budget_exceeded", "follow/scout_ahead/step")
    assert result.path == PATH[:4], "the next call is refused"
    assert (await replaying(other).replay(path, graph=trip)).differences == ()


class Stuck(RealHands):
    async def take(self, what: str) -> str:
        await run_out()


async def wait_by_itself(text: str, rounds: int) -> Looked:
    await run_out()


waiting = Graph(
    "scouting", state=Trip, entry=wait_by_itself, nodes=[node(wait_by_itself, goes={Looked: END})], takes=["text", "rounds"], gives="log"
)


async def lead_then_wait(text: str, *, guide: Guide) -> Done:
    await guide.lead(text)
    await run_out()


late = Graph("trip", state=Trip, entry=lead_then_wait, nodes=[node(lead_then_wait, goes={Done: END})], takes=["text"], gives="out")
LATE: dict[str, tuple[Graph, RealHands, Graph]] = {
    "in an inner call": (trip, Stuck(), looking()),
    "in an inner node": (trip, RealHands(), waiting),
    "in the outer node, after the graph": (late, RealHands(), looking()),
}


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize(("graph", "hands", "scouting"), LATE.values(), ids=LATE.keys())
async def test_a_turn_whose_time_ran_out_inside_a_step_ends_there_again(
    engine: EngineName, tmp_path: Path, graph: Graph, hands: RealHands, scouting: Graph
):
    path, more = tmp_path / "turn.jsonl", {Scout: Subgraph(scouting)}
    result = await app(engine, hands, more, max_turn_seconds=ENOUGH).run(graph, "x", record=path)
    assert result.error is not None
    assert result.error.code == "budget_exceeded"
    replay = await replaying(engine, more).replay(path, graph=graph)
    assert replay.result.path == result.path
    assert replay.result.error == result.error
    assert replay.differences == ()


# Side by side


async def lead_at_once(text: str, *, guide: Guide) -> Done:
    return Done(out=" | ".join(await asyncio.gather(guide.lead("a"), guide.lead("b"))))


at_once = Graph("trip", state=Trip, entry=lead_at_once, nodes=[node(lead_at_once, goes={Done: END})], takes=["text"], gives="out")


async def test_graphs_that_were_walked_at_once_have_the_same_results_again(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    first = await app(engine).run(at_once, "x", record=path)
    replay = await replaying(engine).replay(path, graph=at_once)
    assert (first.error, replay.result.error) == (None, None)
    assert replay.result.state == first.state
    assert sorted(replay.result.path) == sorted(first.path)
    lines = path.read_text().splitlines(keepends=True)
    for kept in range(1, len(lines) - 1):
        half, hands = tmp_path / f"{kept}.jsonl", RealHands()
        half.write_text("".join(lines[:kept]))
        result = await app(engine, hands).resume(half, graph=at_once)
        assert result.error is None
        made = [json.loads(line)["entry"]["method"] for line in lines[1:-1]]
        assert len(hands.taken) == made[kept - 1 :].count("take")


# Any graphs


@dataclass(frozen=True)
class Shape:
    """What a graph does: calls, graphs that it walks, errors that it lives with or not; node after node."""

    nodes: tuple[tuple[Any, ...], ...]


def shapes(depth: int) -> st.SearchStrategy[Shape]:
    acts: st.SearchStrategy[Any] = st.sampled_from(["take", "take", "now", "torn", "raise"])
    if depth:
        acts = acts | shapes(depth - 1)
    return st.builds(Shape, st.lists(st.lists(acts, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple))


class Inner0(Capability, Protocol):
    async def walk(self, text: str) -> str: ...


class Inner1(Capability, Protocol):
    async def walk(self, text: str) -> str: ...


class Inner2(Capability, Protocol):
    async def walk(self, text: str) -> str: ...


class Inner3(Capability, Protocol):
    async def walk(self, text: str) -> str: ...


INNER = (Inner0, Inner1, Inner2, Inner3)


class Line(TypedDict, total=False):
    text: str


class Next(Outcome):
    text: str


class Built:
    """A graph of a shape, with grants for the graphs inside it."""

    def __init__(self, shape: Shape) -> None:
        self.grants: dict[type, object] = {}
        self.graph = self._graph(shape, "g")

    def _graph(self, shape: Shape, name: str) -> Graph:
        runs = [self._run(acts, f"{name}_{number}") for number, acts in enumerate(shape.nodes)]
        rows: list[Row] = [node(run, goes={Next: to}) for run, to in zip(runs, [*runs[1:], END], strict=True)]
        return Graph(name, state=Line, entry=runs[0], nodes=rows, takes=["text"], gives="text")

    def _run(self, acts: tuple[Any, ...], name: str) -> Any:
        inside: dict[int, str] = {}
        for number, act in enumerate(acts):
            if isinstance(act, Shape) and len(self.grants) < len(INNER):
                capability = INNER[len(self.grants)]
                self.grants[capability] = None
                self.grants[capability] = Subgraph(self._graph(act, f"{name}{number}"))
                inside[number] = f"{capability.__name__}"

        async def run(text: str, *, hands: Hands, clock: Clock, **graphs: Any) -> Next:
            for number, act in enumerate(acts):
                if number in inside:
                    text = await graphs[f"g{number}"].walk(text)
                elif act == "take":
                    text += await hands.take("x")
                elif act == "now":
                    text += str((await clock.now()).year)
                elif act == "torn":
                    await hands.take("torn")
                elif act == "raise":
                    raise KeyError(name)
            return Next(text=text)

        return _with_grants(run, name, {f"g{number}": capability for number, capability in inside.items()})


def _with_grants(run: Any, name: str, more: Mapping[str, str]) -> Any:
    """Write the function anew with the parameters that it is granted: a node has no open signature."""
    names = {capability.__name__: capability for capability in INNER}
    source = (
        f"async def {name}(text: str, *, hands: Hands, clock: Clock{''.join(f', {one}: {kind}' for one, kind in more.items())}) -> Next:\n"
        f"    return await run(text, hands=hands, clock=clock{''.join(f', {one}={one}' for one in more)})\n"
    )
    scope: dict[str, Any] = {"run": run, "Hands": Hands, "Clock": Clock, "Next": Next, **names}
    exec(source, scope)  # noqa: S102 - our own text
    return scope[name]


@functools.cache
def built(shape: Shape) -> Built:
    return Built(shape)


async def taken(engine: EngineName, made: Built, path: Path) -> tuple[TurnResult, list[Event]]:
    events: list[Event] = []
    real = {Hands: RealHands(), Ids: CountingIds(), Clock: FixedClock()}
    interlock = Interlock(Settings(engine=engine), grants={**made.grants, **real})
    return await interlock.run(made.graph, "x", session="s", record=path, on_event=events.append), events


@settings(max_examples=12)  # each takes six turns
@given(shape=shapes(2))
async def test_any_graphs_inside_graphs_do_the_same_on_every_engine_and_again(shape: Shape):
    made = built(shape)
    with tempfile.TemporaryDirectory() as folder:
        (first, events), *others = [await taken(engine, made, Path(folder, engine)) for engine in ENGINES]
        for result, told in others:
            assert result.to_json() == first.to_json()
            assert told == events
        for engine in ENGINES:
            for other in ENGINES:
                replay = await Interlock(Settings(engine=other), grants=made.grants).replay(Path(folder, engine), graph=made.graph)
                assert replay.differences == ()
    assert first.error is None or first.error.node in first.path
