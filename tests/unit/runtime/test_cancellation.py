"""Whoever cancels a turn gets rid of all of it: calls, streams, tasks, spans; and the next turn is as if nothing had been."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, node
from interlock.capabilities import Chunk, Ids, Message, Model, ModelReply, Tool
from interlock.capabilities.capability import emits
from interlock.engine import EngineName
from interlock.errors import TurnCancelled
from interlock.runtime.events import Event
from interlock.runtime.recording import read_record
from interlock.testing import CountingIds


class Work(TypedDict, total=False):
    text: str
    found: list[str]
    out: str


class Found(Outcome):
    found: list[str]


class Done(Outcome):
    out: str


class Hands(Capability, Protocol):
    @emits("tool")
    async def fetch(self, what: str) -> str: ...


@dataclass
class Busy:
    """A model and a tool that take a few ticks of the loop for everything, and count what is open."""

    opened: int = 0
    closed: int = 0
    log: list[str] = field(default_factory=list[str])

    async def fetch(self, what: str) -> str:
        return await self._do(f"fetch {what}")

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
        return ModelReply(text=await self._do("reply"))

    async def decide(self, messages: Sequence[Message], *, schema: type[Any]) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncIterator[Chunk]:
        self.opened += 1
        try:
            for word in ("some ", "words ", "more"):
                await asyncio.sleep(0)
                yield Chunk(text=word)
            self.log.append("streamed")
        finally:
            self.closed += 1
            await asyncio.sleep(0)

    async def _do(self, what: str) -> str:
        self.opened += 1
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.log.append(what)
            return what
        finally:
            self.closed += 1


async def look(text: str, *, hands: Hands) -> Found:
    first = await hands.fetch("a")
    return Found(found=[first, *await asyncio.gather(hands.fetch("b"), hands.fetch("c"))])


async def speak(found: list[str], *, model: Model) -> Done:
    asked = [Message(role="user", text=" ".join(found))]
    async for _ in model.stream(asked):
        break
    said = [piece.text async for piece in model.stream(asked)]
    return Done(out="".join(said) + (await model.reply(asked)).text)


work = Graph(
    "work", state=Work, entry=look, nodes=[node(look, goes={Found: speak}), node(speak, goes={Done: END})], takes=["text"], gives="out"
)
OUTPUT = "some words morereply"


def app(engine: EngineName, busy: Busy) -> Interlock:
    return Interlock(Settings(engine=engine), grants={Hands: busy, Model: busy, Ids: CountingIds()})


@pytest.fixture
def complaints() -> Iterator[list[Any]]:
    """Collect what the event loop and the interpreter complain about."""
    found: list[Any] = []
    before = sys.unraisablehook
    sys.unraisablehook = found.append
    yield found
    sys.unraisablehook = before


async def ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@dataclass
class Left:
    """What is left of a turn that was cancelled."""

    count: int
    was_done: bool
    ended: Any
    busy: Busy
    events: list[Event]
    running: Interlock
    tasks: set[asyncio.Task[Any]]


async def sweep(engine: EngineName, complaints: list[Any], directory: Path | None = None) -> AsyncIterator[Left]:
    """Cancel a turn after each number of ticks until it gets done before; yield what was left of each."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    busy = Busy()
    running = app(engine, busy)
    await running.run(work, "x")  # what is loaded once takes no part in this
    for count in range(1, 400):
        events = list[Event]()
        busy.opened = busy.closed = 0
        busy.log.clear()
        record = None if directory is None else directory / f"{count}"
        task = asyncio.create_task(running.run(work, "x", on_event=events.append, record=record))
        await ticks(count)
        was_done = task.done()
        task.cancel()
        ended = await asyncio.gather(task, return_exceptions=True)
        tasks = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
        yield Left(count, was_done, ended[0], busy, events, running, tasks)
        if was_done:
            return
    raise AssertionError("The turn never got done.")


def unbalanced(events: list[Event]) -> list[str]:
    """Name the runs that started and did not end, or the other way round."""
    names = {event["run_id"]: event["name"] for event in events}
    started = [event["run_id"] for event in events if event["event"].endswith("_start")]
    ended = [event["run_id"] for event in events if event["event"].endswith(("_end", "_error"))]
    return [names[run] for run in {*started, *ended} if started.count(run) != 1 or ended.count(run) != 1]


async def test_a_turn_can_be_cancelled_anywhere(engine: EngineName, complaints: list[Any]):
    cancelled = 0
    async for left in sweep(engine, complaints):
        assert not left.tasks, f"after {left.count} ticks"
        assert left.busy.opened == left.busy.closed, f"after {left.count} ticks"
        if left.was_done:
            assert left.ended.output == OUTPUT
        else:
            assert isinstance(left.ended, asyncio.CancelledError), f"after {left.count} ticks"
            cancelled += 1
        after = await left.running.run(work, "x")
        assert (after.error, after.output) == (None, OUTPUT)
    gc.collect()
    assert complaints == []
    assert cancelled > 10


async def test_a_turn_that_is_cancelled_anywhere_tells_the_end_of_everything_it_began(engine: EngineName, complaints: list[Any]):
    wrong: dict[int, list[str]] = {}
    async for left in sweep(engine, complaints):
        if unbalanced(left.events):
            wrong[left.count] = unbalanced(left.events)
    assert wrong == {}


async def test_a_turn_that_was_cancelled_anywhere_has_ended_and_one_that_was_killed_there_goes_on(
    engine: EngineName, complaints: list[Any], tmp_path: Path
):
    wrong: dict[int, Any] = {}
    async for left in sweep(engine, complaints, tmp_path):
        path = tmp_path / f"{left.count}"
        if left.was_done or not path.exists():
            continue
        record, made = read_record(path), len(left.busy.log)
        assert record.footer is not None
        assert (record.footer.result["status"], record.footer.events[-1]["event"]) == ("cancelled", "on_chain_error")
        for again in (left.running.resume, left.running.replay):
            with pytest.raises(TurnCancelled, match="was cancelled"):
                await again(path, graph=work)
        assert len(left.busy.log) == made
        known = [entry.method for entry in record.entries if entry.method != "stream"]
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))  # as if the process had been killed then
        result = await left.running.resume(path, graph=work)
        if (result.error, result.output) != (None, OUTPUT):
            wrong[left.count] = (result.error, result.output)
        assert len(left.busy.log) - made <= 5 - len(known)
    assert wrong == {}


async def test_cancelling_twice_is_cancelling(engine: EngineName):
    busy = Busy()
    running = app(engine, busy)
    for count in range(1, 30):
        task = asyncio.create_task(running.run(work, "x"))
        await ticks(count)
        task.cancel()
        await ticks(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await ticks(5)  # LangChain tells its own callbacks in a task of theirs
        assert busy.opened == busy.closed, f"after {count} ticks"
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_reader_who_stops_listening_ends_the_turn(engine: EngineName):
    busy = Busy()
    running = app(engine, busy)
    for count in range(1, 12):
        stream = running.stream(work, "x")
        for _ in range(count):
            await anext(stream)
        await stream.aclose()
        assert busy.opened == busy.closed
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_callers_own_time_limit_is_the_callers(engine: EngineName):
    class Waits(Busy):
        async def fetch(self, what: str) -> str:
            await asyncio.Event().wait()
            return what

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await app(engine, Waits()).run(work, "x")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(app(engine, Waits()).run(work, "x"), 0.05)


async def await_what_was_cancelled(text: str) -> Done:
    inner = asyncio.ensure_future(asyncio.Event().wait())
    asyncio.get_running_loop().call_soon(inner.cancel)
    await inner
    return Done(out="")


async def test_what_a_node_waits_for_may_be_cancelled_without_the_turn(engine: EngineName):
    graph = Graph("g", state=Work, entry=await_what_was_cancelled, nodes=[node(await_what_was_cancelled, goes={Done: END})], takes=["text"])
    result = await Interlock(Settings(engine=engine)).run(graph, "x")
    assert result.error is not None
    assert result.error.code == "node_failed"


class Cancels:
    async def fetch(self, what: str) -> str:
        raise asyncio.CancelledError


async def test_an_adapter_that_says_it_was_cancelled_does_not_cancel_the_turn(engine: EngineName):
    """HTTP clients do that when their own pool is closed."""
    graph = Graph("g", state=Work, entry=look, nodes=[node(look, goes={Found: END})], takes=["text"])
    events: list[Event] = []
    result = await Interlock(Settings(engine=engine), grants={Hands: Cancels()}).run(graph, "x", on_event=events.append)
    assert result.error is not None
    assert result.error.code == "capability_failed"
    assert unbalanced(events) == []
