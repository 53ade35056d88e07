"""Nothing is shown or done that rests on a call whose entry is not stored, wherever the process is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Outcome, TurnResult, node
from interlock import capabilities as library
from interlock.capabilities.capability import asks, emits, is_capability, keyed, marks_of, methods
from interlock.engine.direct import DirectGraph
from interlock.errors import StoreFull
from interlock.reply import Reply
from interlock.runtime.events import Event
from interlock.runtime.gate import Gate
from interlock.runtime.journal import Entry, Journal
from interlock.runtime.recording import MemoryJournal, StoredJournal
from interlock.runtime.turn import Turn, TurnOptions, TurnRequest
from interlock_agents.analyst import capabilities as analyst
from interlock_agents.gateway import file_tools
from interlock_agents.puntini import graph_store, tool_registry
from interlock_agents.sam import capabilities as sam


class World(Capability, Protocol):
    @asks
    async def look(self, what: str) -> str: ...

    @asks
    @emits("tool")
    async def search(self, what: str) -> str: ...

    @keyed
    async def save(self, what: str) -> str: ...

    async def pay(self, what: str) -> str: ...


EFFECTS = ("save", "pay")


class Fields(TypedDict, total=False):
    text: str
    out: str


class Done(Outcome):
    out: str


class Killed(BaseException):
    """The process ends here: no error handling runs."""


class Scene:
    """What happened, in order. The process is killed at the moment with the number `kill`."""

    def __init__(self, stored: StoredJournal, *, kill: int | None = None) -> None:
        self.stored = stored
        self.log: list[str] = []
        self.seen: list[int] = []
        self._moments = 0
        self._kill = kill

    def moment(self, what: str) -> None:
        """Note what happens, and kill the process if this is the moment."""
        self._moments += 1
        if self._moments == self._kill:
            raise Killed
        self.log.append(what)

    def check(self) -> None:
        """Everything that the node has seen is stored."""
        assert {entry.sequence for entry in self.stored.entries} >= set(self.seen)


class Store(MemoryJournal):
    def __init__(self, scene: Scene) -> None:
        super().__init__({"t": scene.stored})
        self._scene = scene

    async def append(self, entries: Sequence[Entry]) -> None:
        self._scene.moment("before store")
        await asyncio.sleep(0)
        await super().append(entries)
        self._scene.moment(f"store {' '.join(entry.method for entry in entries)}")


class RealWorld:
    """Effects happen once for each key, except those of `pay`, which happen each time."""

    def __init__(self, scene: Scene, done: list[tuple[str, str]]) -> None:
        self._scene = scene
        self.done = done

    async def look(self, what: str) -> str:
        self._scene.moment("look")
        return f"saw {what}"

    async def search(self, what: str) -> str:
        self._scene.moment("search")
        return f"found {what}"

    async def save(self, what: str, *, idempotency_key: str) -> str:
        return await self._do("save", what, idempotency_key)

    async def pay(self, what: str, *, idempotency_key: str) -> str:
        return await self._do("pay", what, idempotency_key)

    async def _do(self, method: str, what: str, key: str) -> str:
        self._scene.check()
        self._scene.moment(f"before {method}")
        await asyncio.sleep(0)
        if method == "pay" or ("save", key) not in self.done:
            self.done.append((method, key))
        self._scene.moment(method)
        return f"{method} {what}"


Plan = tuple[tuple[str, ...], ...]
"""Groups of methods. The calls of a group are made at the same time, one group after the other."""


async def run_turn(plan: Plan, scene: Scene, done: list[tuple[str, str]], *, listening: bool) -> TurnResult:
    async def act(text: str, *, world: World) -> Done:
        said: list[str] = []
        number = 0
        for group in plan:
            first = number + 1
            number += len(group)
            said += await asyncio.gather(*(getattr(world, method)(f"{first + at}") for at, method in enumerate(group)))
            scene.seen += range(first, number + 1)
        return Done(out=", ".join(said))

    def listener(event: Event) -> None:
        scene.check()
        scene.moment(event["event"])

    def reply(state: Mapping[str, Any]) -> Reply:
        return Reply(output=state["out"])

    graph = Graph("act", state=Fields, entry=act, nodes=[node(act, goes={Done: END})], takes=["text"], gives="out")
    store = Store(scene)
    journal = Journal("t", entries=await store.claim("t", scene.stored.epoch + 1), store=store)
    request = TurnRequest(agent="act", graph=graph, role=None, session="s", turn="t", given={"text": "x"}, reply=reply)
    gate = Gate(graph, {World: RealWorld(scene, done)})
    turn = Turn(request, gate, options=TurnOptions(), listener=listener if listening else None, journal=journal)
    result = await turn.run(DirectGraph(graph))
    scene.check()
    return result


async def test_calls_that_only_ask_are_stored_together_before_the_next_effect_and_at_the_end():
    scene, done = Scene(StoredJournal(epoch=0)), list[tuple[str, str]]()
    result = await run_turn((("look",), ("look",), ("pay",), ("look",), ("search",)), scene, done, listening=False)
    assert result.error is None
    assert scene.log == [
        *("look", "look"),
        *("before store", "store look look"),
        *("before pay", "pay"),
        *("before store", "store pay"),
        *("look", "search"),
        *("before store", "store look search"),
    ]


async def test_what_is_shown_rests_on_what_is_stored():
    scene, done = Scene(StoredJournal(epoch=0)), list[tuple[str, str]]()
    await run_turn((("look",), ("search",), ("look",)), scene, done, listening=True)
    assert [moment for moment in scene.log if moment != "before store"] == [
        *("on_chain_start", "on_chain_start"),
        *("look", "store look"),
        *("on_tool_start", "search", "store search", "on_tool_end"),
        *("look", "store look"),
        *("on_chain_end", "on_chain_end"),
    ]


PLANS = st.lists(
    st.lists(st.sampled_from(["look", "search", "save", "pay"]), min_size=1, max_size=3).map(tuple), min_size=1, max_size=4
).map(tuple)


@example(plan=(("look",), ("look", "look", "look"), ("look", "save")), listening=True, kills=[13])
@example(plan=(("look", "save", "save"),), listening=False, kills=[3])
@given(plan=PLANS, listening=st.booleans(), kills=st.lists(st.integers(1, 25), max_size=4))
async def test_a_turn_that_is_killed_anywhere_and_resumed_does_every_effect_and_repeats_only_what_it_may(
    plan: Plan,
    listening: bool,  # noqa: FBT001 - an example
    kills: list[int],
):
    done: list[tuple[str, str]] = []
    stored = StoredJournal(epoch=0)
    for kill in kills:
        try:
            await run_turn(plan, Scene(stored, kill=kill), done, listening=listening)
        except Killed:
            # What a killed process left behind: its other tasks are gone with it.
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
    result = await run_turn(plan, Scene(stored), done, listening=listening)
    assert result.error is None
    calls = [method for group in plan for method in group]
    says = {"look": "saw", "search": "found", "save": "save", "pay": "pay"}
    assert result.output == ", ".join(f"{says[method]} {number}" for number, method in enumerate(calls, start=1))
    for number, method in enumerate(calls, start=1):
        times = done.count((method, f"t:{number}"))
        if method == "save":
            assert times == 1
        elif method == "pay":
            # Only a call that was under way when the process was killed is made again.
            assert 1 <= times <= 1 + len(kills)
    assert len({key for _, key in done}) == sum(method in EFFECTS for method in calls)
    assert sorted(entry.sequence for entry in stored.entries) == list(range(1, len(calls) + 1))


class FullStore(Store):
    async def append(self, entries: Sequence[Entry]) -> None:
        raise StoreFull("Full.")


@pytest.mark.parametrize("listening", [False, True])
@pytest.mark.parametrize("plan", [(("look",),), (("look",), ("pay",)), (("pay",),)])
async def test_a_turn_whose_pending_entries_cannot_be_stored_fails(
    monkeypatch: pytest.MonkeyPatch,
    plan: Plan,
    listening: bool,  # noqa: FBT001 - a parameter
):
    monkeypatch.setitem(globals(), "Store", FullStore)
    scene, done = Scene(StoredJournal(epoch=0)), list[tuple[str, str]]()
    scene.check = lambda: None  # Nothing is stored, and nothing rests on it: the turn fails.
    result = await run_turn(plan, scene, done, listening=listening)
    assert result.error is not None
    assert result.error.code == "store_full"
    assert len(done) == (plan == (("pay",),))
    assert "on_chain_end" not in scene.log[:-1]


def test_what_a_call_does_outside_is_declared_by_its_capability():
    modules = (library, sam, analyst, file_tools, graph_store, tool_registry)
    found = {one for module in modules for one in vars(module).values() if is_capability(one)}
    declared = {f"{one.__name__}.{name}": marks_of(run).effect for one in found for name, run in methods(one).items()}
    assert {name for name, effect in declared.items() if effect == "keyed"} == {
        "GraphStore.apply",
        "Human.ask",
        "Memory.remember",
        "MemoryWriter.remember",
        "SessionStore.save",
        "SessionWriter.save",
    }
    assert {name for name, effect in declared.items() if effect == "once"} == {
        "FileTools.run",
        "GraphUndo.take_back",
        "ToolGateway.run",
        "ToolRegistry.call",
    }
