"""A capability that is made of others: what stands behind it is handed them, and what it does with them passes the gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Secret, Settings, node
from interlock.capabilities import Clock, Ids, Message, Model, ModelReply
from interlock.capabilities.tools import ToolRequest, ToolResult
from interlock.engine import ENGINES, EngineName
from interlock.errors import ContractError, ContractViolation, ModelUnavailable
from interlock.runtime.events import Event
from interlock.runtime.targets import Composed, parts_of
from interlock.testing import CountingIds, FixedClock, ScriptedModel
from interlock_agents.gateway.file_tools import FileTools


class Work(TypedDict, total=False):
    text: str
    found: str


class Found(Outcome):
    found: str


class Worker(Capability, Protocol):
    async def work(self, task: str) -> str: ...


class Sealed(Capability, Protocol):
    async def work(self, task: str, key: Annotated[str, Secret]) -> str: ...


async def ask(text: str, *, worker: Worker) -> Found:
    return Found(found=await worker.work(text))


async def ask_with_a_key(text: str, *, worker: Sealed) -> Found:
    return Found(found=await worker.work(text, "a key that is long"))


def graph(run: Any = ask) -> Graph:
    return Graph("work", state=Work, entry=run, nodes=[node(run, goes={Found: END})], takes=("text",), gives="found")


def said(text: str) -> list[Message]:
    return [Message(role="user", text=text)]


class Files:
    """Counts what it runs."""

    def __init__(self) -> None:
        self.ran: list[ToolRequest] = []

    async def run(self, request: ToolRequest) -> ToolResult:
        self.ran.append(request)
        return ToolResult(tool=request.tool, result="written")


class Plain:
    """Asks its model, runs a tool, asks its model."""

    async def work(self, task: str, *, model: Model, files: FileTools) -> str:
        first = await model.reply(said(task))
        tool = await files.run(ToolRequest(tool="write_file", args={"path": first.text}))
        return f"{(await model.reply(said(str(tool.result)))).text} {task}"


def app(
    engine: EngineName, adapter: object, *, parts: dict[type, object] | None = None, capability: type = Worker, **settings: Any
) -> Interlock:
    made_of = {Model: ScriptedModel("one", "two"), FileTools: Files()} if parts is None else parts
    grants = {capability: Composed(adapter, parts=made_of), Ids: CountingIds("turn"), Clock: FixedClock()}
    return Interlock(Settings(engine=engine, **settings), grants=grants)


async def take(engine: EngineName, adapter: object, **more: Any) -> tuple[Any, list[Event]]:
    events: list[Event] = []
    result = await app(engine, adapter, **more).run(graph(), "do it", on_event=events.append)
    return result, events


async def test_what_it_does_with_its_parts_is_seen_under_the_node(engine: EngineName):
    result, events = await take(engine, Plain())
    assert result.output == "two do it"
    kinds = [event["event"] for event in events]
    model, tool = ["on_chat_model_start", "on_chat_model_end"], ["on_tool_start", "on_tool_end"]
    assert kinds == ["on_chain_start", "on_chain_start", *model, *tool, *model, "on_chain_end", "on_chain_end"]
    turn, ran = events[0]["run_id"], events[1]["run_id"]
    for event in events[2:-2]:
        assert event["metadata"]["langgraph_node"] == "ask"
        assert event["parent_ids"] == [turn, ran]
    assert [event["name"] for event in events if event["event"] == "on_tool_start"] == ["write_file"]


async def test_both_engines_tell_the_same():
    told = [await take(engine, Plain()) for engine in ENGINES]
    assert told[0][1] == told[1][1]


async def test_the_models_calls_are_counted(engine: EngineName):
    result, _ = await take(engine, Plain(), max_model_calls=1)
    assert result.error.code == "budget_exceeded"

    class Loops:
        async def work(self, task: str, *, model: Model) -> str:
            while True:
                await model.reply(said(task))

    result, events = await take(engine, Loops(), max_model_calls=5)
    assert result.error.code == "budget_exceeded"
    assert len([event for event in events if event["event"] == "on_chat_model_end"]) == 5

    class Stubborn:
        async def work(self, task: str, *, model: Model) -> str:
            while True:
                with suppress(Exception):
                    await model.reply(said(task))

    result, _ = await asyncio.wait_for(take(engine, Stubborn(), max_model_calls=5, max_turn_seconds=0.3), 30)
    assert result.error.code == "budget_exceeded"


async def test_one_that_never_ends_ends_with_the_turn(engine: EngineName):
    ended: list[str] = []

    class Hangs:
        async def work(self, task: str, *, model: Model) -> str:
            await model.reply(said(task))
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(task)
            return task

    result, _ = await asyncio.wait_for(take(engine, Hangs(), max_turn_seconds=0.6, max_call_seconds=0.3), 30)
    assert (result.error.code, ended) == ("budget_exceeded", ["do it"])


async def test_a_part_that_hangs_is_late_by_its_own_time(engine: EngineName):
    class Slow(ScriptedModel):
        async def reply(self, *_: Any, **__: Any) -> ModelReply:
            await asyncio.Event().wait()
            raise AssertionError

    result, _ = await take(engine, Plain(), parts={Model: Slow(), FileTools: Files()}, max_call_seconds=0.05)
    assert (result.error.code, result.error.node) == ("model_timeout", "ask")


async def test_cancelling_the_turn_ends_it_and_its_parts(engine: EngineName):
    began, ended = asyncio.Event(), asyncio.Event()

    class Hangs(Files):
        async def run(self, request: ToolRequest) -> ToolResult:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

    events: list[Event] = []
    running = app(engine, Plain(), parts={Model: ScriptedModel("one"), FileTools: Hangs()})
    before = asyncio.all_tasks()
    task = asyncio.create_task(running.run(graph(), "x", on_event=events.append))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert asyncio.all_tasks() == before
    assert events[-1]["data"]["error"]["code"] == "cancelled"


async def test_what_a_part_raises_is_what_the_node_gets(engine: EngineName):
    result, _ = await take(engine, Plain(), parts={Model: ScriptedModel(ModelUnavailable("Gone.")), FileTools: Files()})
    assert (result.error.code, result.error.message) == ("model_unavailable", "Gone.")

    class Breaks:
        async def work(self, task: str) -> str:
            raise RuntimeError(task)

    result, _ = await take(engine, Breaks())
    assert (result.error.code, result.error.message) == ("capability_failed", "'Worker.work' failed: RuntimeError.")

    class Odd:
        async def work(self, task: str) -> Any:
            return 5

    result, _ = await take(engine, Odd())
    assert result.error.code == "capability_result_invalid"


async def test_a_part_that_is_carried_off_is_of_no_use_after_the_node(engine: EngineName):
    carried: list[Model] = []
    later: list[asyncio.Task[Any]] = []
    model = ScriptedModel("one")

    class Thief:
        async def work(self, task: str, *, model: Model) -> str:
            carried.append(model)

            async def afterwards() -> None:
                await done.wait()
                await model.reply(said("stolen"))

            later.append(asyncio.create_task(afterwards()))
            return task

    done = asyncio.Event()
    result, _ = await take(engine, Thief(), parts={Model: model})
    assert result.output == "do it"
    done.set()
    with pytest.raises(ContractViolation, match="after node 'ask' had ended"):
        await later[0]
    with pytest.raises(ContractViolation):
        await carried[0].reply(said("stolen"))
    assert model.messages == []
    assert not isinstance(carried[0], ScriptedModel)
    assert [name for name in dir(carried[0]) if not name.startswith("_")] == ["decide", "reply", "stream"]


async def test_a_node_cannot_hand_over_parts_of_its_own(engine: EngineName):
    async def cheat(text: str, *, worker: Worker) -> Found:
        return Found(found=await worker.work(text, model=ScriptedModel("mine")))  # type: ignore[call-arg] - that is what is tried

    result = await app(engine, Plain()).run(graph(cheat), "x")
    assert result.error is not None
    assert result.error.code in {"capability_failed", "node_failed"}


async def test_a_secret_that_it_gets_is_hidden_wherever_it_is_said(engine: EngineName):
    class Tells:
        async def work(self, task: str, key: str, *, model: Model) -> str:
            await model.reply(said(f"use {key}"))
            return f"{task} with {key}"

    events: list[Event] = []
    running = app(engine, Tells(), parts={Model: ScriptedModel("the key is a key that is long")}, capability=Sealed)
    result = await running.run(graph(ask_with_a_key), "x", on_event=events.append)
    assert "a key that is long" not in str(events)
    assert "a key that is long" not in str(result.to_json())


# Before anything runs


async def test_what_cannot_stand_behind_a_capability_is_refused(engine: EngineName):
    class NoMethod:
        pass

    class NotAsync:
        def work(self, task: str) -> str:
            return task

    for adapter in (NoMethod(), NotAsync()):
        with pytest.raises(ContractError) as refused:
            await app(engine, adapter).run(graph(), "x")
        assert [problem.rule for problem in refused.value.problems] == ["bad_grant"]
    with pytest.raises(ContractError) as refused:
        await app(engine, Plain(), parts={Model: ScriptedModel()}).run(graph(), "x")
    assert [problem.rule for problem in refused.value.problems] == ["not_granted"]
    assert "FileTools" in str(refused.value)


async def test_a_stream_is_not_made_of_others(engine: EngineName):
    class Streams(Capability, Protocol):
        def work(self, task: str) -> AsyncIterator[str]: ...

    async def listen(text: str, *, worker: Streams) -> Found:
        return Found(found="".join([piece async for piece in worker.work(text)]))

    class Pieces:
        async def work(self, task: str, *, model: Model) -> AsyncIterator[str]:
            yield task

    listen.__annotations__["worker"] = Streams
    with pytest.raises(ContractError) as refused:
        await app(engine, Pieces(), capability=Streams).run(graph(listen), "x")
    assert [problem.rule for problem in refused.value.problems] == ["bad_grant"]


def test_only_capabilities_that_are_named_are_parts():
    async def made(task: str, limit: int = 5, *, model: Model, files: FileTools, loud: bool = False, key: str = "") -> str:
        return task

    assert parts_of(made) == {"model": Model, "files": FileTools}


# Record, replay, resume


async def test_its_calls_are_recorded_and_not_made_again(engine: EngineName, tmp_path: Path):
    running = app(engine, Plain())
    before = await running.run(graph(), "x", record=tmp_path / "record")
    text = (tmp_path / "record").read_text()
    assert text.count('"capability":"Worker"') == text.count('"capability": "Worker"') == 0
    for other in ENGINES:
        nobody = app(other, Plain(), parts={Model: ScriptedModel(AssertionError("asked")), FileTools: Files()})
        replay = await nobody.replay(tmp_path / "record", graph=graph())
        assert (replay.differences, replay.result.output) == ((), before.output)


async def test_half_a_turn_goes_on_without_doing_twice_what_was_done(engine: EngineName, tmp_path: Path):
    await app(engine, Plain()).run(graph(), "x", record=tmp_path / "whole")
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    assert len(lines) == 5  # the heading, three calls, the end
    for cut in range(1, 5):
        path = tmp_path / f"cut-{cut}"
        path.write_text("".join(lines[:cut]))
        model, files = ScriptedModel(*["one", "two"][min(cut // 2, 1) :]), Files()
        result = await app(engine, Plain(), parts={Model: model, FileTools: files}).resume(path, graph=graph())
        assert result.output == "two x"
        assert len(files.ran) == (1 if cut < 3 else 0)
        assert len(model.messages) == {1: 2, 2: 1, 3: 1, 4: 0}[cut]
