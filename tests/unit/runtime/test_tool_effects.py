"""A call has the effect of its tool: what a resumed turn repeats depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from typing_extensions import TypedDict

from interlock import END, Graph, Outcome, TurnResult, node
from interlock.capabilities import Effect, ToolGateway, ToolRequest, ToolResult
from interlock.engine.direct import DirectGraph
from interlock.reply import Reply
from interlock.runtime.gate import Gate
from interlock.runtime.journal import Entry, Journal
from interlock.runtime.turn import Turn, TurnOptions, TurnRequest


class State(TypedDict, total=False):
    text: str
    out: str


class Done(Outcome):
    out: str


class Stored:
    """Stores a journal as a turn store does: events are shown after they were stored."""

    shows_late = True
    is_stale = False

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    async def append(self, entries: Sequence[Entry]) -> None:
        self.entries += entries


class Shed:
    """Runs one tool. Its process may die in the call, and it may know what the tool does."""

    def __init__(self, *, dies: bool) -> None:
        self.calls = 0
        self.reached = asyncio.Event()
        self._dies = dies

    async def run(self, specialist: str, request: ToolRequest) -> ToolResult:
        del specialist
        self.calls += 1
        self.reached.set()
        if self._dies:
            await asyncio.Event().wait()
        return ToolResult(tool=request.tool, result="done")


class DeclaredShed(Shed):
    def __init__(self, *, dies: bool, effect: Effect) -> None:
        super().__init__(dies=dies)
        self._effect: Effect = effect

    async def effect_of(self, request: ToolRequest) -> Effect:
        del request
        return self._effect


async def work(text: str, *, tools: ToolGateway) -> Done:
    return Done(out=str((await tools.run("any", ToolRequest(tool=text, args={}))).result))


GRAPH = Graph("worker", state=State, entry=work, takes=("text",), gives="out", nodes=[node(work, goes={Done: END})])


async def take(shed: Shed, stored: Stored) -> TurnResult:
    request = TurnRequest(
        agent="a", graph=GRAPH, role=None, session="s", turn="t", given={"text": "dig"}, reply=lambda state: Reply(output=state.get("out"))
    )
    journal = Journal("t", entries=stored.entries, store=stored)
    return await Turn(request, Gate(GRAPH, {ToolGateway: shed}), options=TurnOptions(), journal=journal).run(DirectGraph(GRAPH))


async def killed(shed: Shed) -> Stored:
    """Run a turn whose process dies in its call: what was stored until then is left."""
    stored = Stored()
    running = asyncio.ensure_future(take(shed, stored))
    await shed.reached.wait()
    left = list(stored.entries)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    stored.entries = left
    return stored


@pytest.mark.parametrize("effect", ["asks", "keyed"])
async def test_a_call_that_may_be_repeated_leaves_no_intent_and_is_made_again(effect: Effect):
    stored = await killed(DeclaredShed(dies=True, effect=effect))
    assert stored.entries == []
    result = await take(shed := DeclaredShed(dies=False, effect=effect), stored)
    assert (result.output, shed.calls) == ("done", 1)


@pytest.mark.parametrize("now", ["asks", "keyed", "once"])
async def test_a_call_that_was_begun_as_one_that_must_not_be_repeated_is_not_made_again_no_matter_what_is_said_now(now: Effect):
    stored = await killed(DeclaredShed(dies=True, effect="once"))
    assert [entry.is_intent for entry in stored.entries] == [True]
    result = await take(shed := DeclaredShed(dies=False, effect=now), stored)
    assert (result.error and result.error.code, shed.calls) == ("effect_unknown", 0)


async def test_a_call_of_an_adapter_that_does_not_know_its_tools_is_not_made_again():
    result = await take(shed := Shed(dies=False), await killed(Shed(dies=True)))
    assert (result.error and result.error.code, shed.calls) == ("effect_unknown", 0)


async def test_what_only_asks_is_stored_with_what_comes_next(monkeypatch: pytest.MonkeyPatch):
    stored: Any = Stored()
    commits: list[int] = []
    append = stored.append

    async def counted(entries: Sequence[Entry]) -> None:
        commits.append(len(entries))
        await append(entries)

    monkeypatch.setattr(stored, "append", counted)
    await take(DeclaredShed(dies=False, effect="asks"), stored)
    assert commits == []
    await take(DeclaredShed(dies=False, effect="once"), stored)
    assert commits == [1, 1]
