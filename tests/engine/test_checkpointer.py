"""A thread belongs to the graph that wrote it: one with other contracts is refused, and nothing of it changes."""

from __future__ import annotations

import asyncio
import copy
import operator
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from typing_extensions import TypedDict

from interlock import END, Graph, Interlock, Outcome, node
from interlock.engine.checkpointer import SealedCheckpointer
from interlock.engine.serializer import ClosedSerializer
from interlock.errors import StateIncompatible
from interlock.stores.checkpoints import open_checkpoints

THREAD: Any = {"configurable": {"thread_id": "a"}}
OTHER: Any = {"configurable": {"thread_id": "b"}}


class Diary(TypedDict, total=False):
    page: str
    log: Annotated[list[str], operator.add]


class Written(Outcome):
    log: list[str]


class Skipped(Outcome):
    log: list[str]


async def write(page: str) -> Written:
    RAN.append(page)
    return Written(log=[page])


async def write_or_skip(page: str) -> Written | Skipped:
    RAN.append(page)
    return Written(log=[page])


RAN: list[str] = []
write_or_skip.__name__ = "write"

diary = Graph("diary", state=Diary, entry=write, nodes=[node(write, goes={Written: END})], takes=["page"])
changed = Graph("diary", state=Diary, entry=write_or_skip, nodes=[node(write_or_skip, goes={Written: END, Skipped: END})], takes=["page"])
renamed = Graph("journal", state=Diary, entry=write, nodes=[node(write, goes={Written: END})], takes=["page"])
SERDE: Any = ClosedSerializer(diary.state.classes)


@asynccontextmanager
async def memory(_: Path) -> AsyncGenerator[BaseCheckpointSaver[Any]]:
    yield InMemorySaver(serde=SERDE)


@asynccontextmanager
async def file(folder: Path) -> AsyncGenerator[BaseCheckpointSaver[Any]]:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.sqlite")) as saver:
        saver.serde = SERDE
        yield saver


@asynccontextmanager
async def ours(folder: Path) -> AsyncGenerator[BaseCheckpointSaver[Any]]:
    opened = open_checkpoints(f"sqlite:{folder / 'threads.sqlite'}", path=Path("unused"), types=diary.state.classes)
    yield await opened.saver()
    await opened.aclose()


@pytest.fixture(params=[memory, file, ours], ids=lambda made: made.__name__)
async def saver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[BaseCheckpointSaver[Any]]:
    async with request.param(tmp_path) as made:
        yield made


async def contents(saver: Any, thread: Any = THREAD) -> list[Any]:
    """Everything that is kept of a thread, as it is kept."""
    return [(one.config, one.checkpoint, one.metadata, one.pending_writes) async for one in saver.alist(thread)]


async def collected(history: Any) -> list[Any]:
    return [one async for one in history]


CALLS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "aget_state": lambda graph: graph.aget_state(THREAD),
    "aget_state_history": lambda graph: collected(graph.aget_state_history(THREAD)),
    "ainvoke": lambda graph: graph.ainvoke({"page": "tuesday"}, THREAD),
    "go on": lambda graph: graph.ainvoke(None, THREAD),
    "astream": lambda graph: collected(graph.astream({"page": "tuesday"}, THREAD)),
    "aupdate_state": lambda graph: graph.aupdate_state(THREAD, {"log": ["forged"]}, as_node="write"),
}


@pytest.mark.parametrize("other", [changed, renamed], ids=["changed", "renamed"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_graph_with_other_contracts_does_not_touch_a_thread(saver: Any, other: Graph, call: Callable[[Any], Awaitable[Any]]):
    await Interlock().langgraph(diary, checkpointer=saver).ainvoke({"page": "monday"}, THREAD)
    before = await contents(saver)
    RAN.clear()
    graph: Any = Interlock().langgraph(other, checkpointer=saver)
    with pytest.raises(StateIncompatible, match=f"'{other.name}'") as caught:
        await call(graph)
    assert caught.value.code == "state_incompatible"
    assert (await contents(saver), RAN) == (before, [])
    await graph.ainvoke({"page": "sunday"}, OTHER)
    assert (await graph.aget_state(OTHER)).values["log"] == ["sunday"]


async def test_the_same_contracts_go_on_in_another_process(saver: Any):
    again = Graph("diary", state=Diary, entry=write, nodes=[node(write, goes={Written: END})], takes=["page"])
    for number, graph in enumerate((diary, again, diary)):
        state = await Interlock().langgraph(graph, checkpointer=saver).ainvoke({"page": str(number)}, THREAD)
        assert state["log"] == [str(one) for one in range(number + 1)]


async def test_a_thread_without_a_fingerprint_is_refused(saver: Any):
    checkpoint = empty_checkpoint()
    at: Any = {"configurable": {"thread_id": "a", "checkpoint_ns": ""}}
    await saver.aput(at, checkpoint, {"source": "loop", "step": 1, "parents": {}}, {})
    before = await contents(saver)
    graph: Any = Interlock().langgraph(diary, checkpointer=saver)
    for call in CALLS.values():
        with pytest.raises(StateIncompatible):
            await call(graph)
    assert await contents(saver) == before


async def test_an_older_checkpoint_of_other_contracts_is_refused_where_it_is_named(saver: Any):
    await Interlock().langgraph(diary, checkpointer=saver).ainvoke({"page": "monday"}, THREAD)
    [newest, *_] = await contents(saver)
    graph: Any = Interlock().langgraph(changed, checkpointer=saver)
    with pytest.raises(StateIncompatible):
        await graph.aget_state(newest[0])
    with pytest.raises(StateIncompatible):
        await graph.ainvoke({"page": "tuesday"}, newest[0])


async def test_the_metadata_of_the_caller_stay(saver: Any):
    graph: Any = Interlock().langgraph(diary, checkpointer=saver)
    await graph.ainvoke({"page": "monday"}, THREAD | {"metadata": {"tenant": "t1"}})
    state = await graph.aget_state(THREAD)
    assert state.metadata["tenant"] == "t1"
    assert state.metadata["interlock_fingerprint"] == diary.fingerprint


async def test_a_callers_metadata_is_not_a_fingerprint(saver: Any):
    forged = THREAD | {"metadata": {"interlock_fingerprint": changed.fingerprint}}
    forged["configurable"] = {**forged["configurable"], "interlock_fingerprint": changed.fingerprint}
    await Interlock().langgraph(diary, checkpointer=saver).ainvoke({"page": "monday"}, forged)
    with pytest.raises(StateIncompatible):
        await Interlock().langgraph(changed, checkpointer=saver).aget_state(THREAD)
    assert (await Interlock().langgraph(diary, checkpointer=saver).aget_state(THREAD)).values["log"] == ["monday"]


def test_it_holds_for_callers_who_do_not_wait():
    saver = InMemorySaver()
    asyncio.run(Interlock().langgraph(diary, checkpointer=saver).ainvoke({"page": "monday"}, THREAD))
    before = copy.deepcopy(dict(saver.storage["a"]))
    same: Any = Interlock().langgraph(diary, checkpointer=saver)
    assert same.get_state(THREAD).values["log"] == ["monday"]
    assert len(list(same.get_state_history(THREAD))) == 3
    other: Any = Interlock().langgraph(changed, checkpointer=saver)
    for call in (
        lambda: other.get_state(THREAD),
        lambda: list(other.get_state_history(THREAD)),
        lambda: other.update_state(THREAD, {"log": ["forged"]}, as_node="write"),
    ):
        with pytest.raises(StateIncompatible):
            call()
    assert dict(saver.storage["a"]) == before
    same.update_state(THREAD, {"log": ["added"]}, as_node="write")
    assert same.get_state(THREAD).values["log"] == ["monday", "added"]


# As a checkpointer


def sealed(inner: Any, fingerprint: str = "f1") -> SealedCheckpointer:
    return SealedCheckpointer(inner, graph="g", fingerprint=fingerprint)


async def put(saver: Any, thread: str, step: int, **metadata: Any) -> Any:
    at: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    return await saver.aput(at, empty_checkpoint(), {"source": "loop", "step": step, "parents": {}, **metadata}, {})


def told(found: Any) -> dict[str, Any]:
    return found.metadata


async def test_it_lists_as_the_one_inside_does(saver: Any):
    ours = sealed(saver)
    configs = [await put(ours, "a", step, kind=str(step % 2)) for step in range(4)]

    async def steps(**options: Any) -> list[int]:
        return [told(one)["step"] async for one in ours.alist(THREAD, **options)]

    assert await steps() == [3, 2, 1, 0]
    assert await steps(limit=2) == [3, 2]
    assert await steps(filter={"kind": "1"}) == [3, 1]
    assert await steps(before=configs[2]) == [1, 0]


async def test_of_a_list_with_checkpoints_of_others_nothing_is_passed_over(saver: Any):
    await put(sealed(saver, "f2"), "a", 0)
    await put(sealed(saver), "a", 1)
    found: list[int] = []
    with pytest.raises(StateIncompatible):
        found += [told(one)["step"] async for one in sealed(saver).alist(THREAD)]
    newest = await sealed(saver).aget_tuple(THREAD)
    assert newest is not None
    assert told(newest)["step"] == 1


async def test_writes_and_deletions_reach_the_one_inside(saver: Any):
    ours = sealed(saver)
    config = await put(ours, "a", 0)
    await ours.aput_writes(config, [("log", ["x"])], "task")
    found = await ours.aget_tuple(THREAD)
    assert found is not None
    assert found.pending_writes == [("task", "log", ["x"])]
    await put(ours, "b", 0)
    await ours.adelete_thread("a")
    assert await contents(saver) == []
    assert len(await contents(saver, OTHER)) == 1


def test_a_thread_is_forgotten_for_callers_who_do_not_wait():
    ours = sealed(InMemorySaver())
    for thread in ("a", "b"):
        asyncio.run(put(ours, thread, 0))
    ours.delete_thread("a")
    assert ours.get_tuple(THREAD) is None
    assert ours.get_tuple(OTHER) is not None


class Able(InMemorySaver):
    """Does what only some checkpointers do, and remembers who asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    async def acopy_thread(self, *args: Any, **options: Any) -> None:
        self.asked.append(("copy_thread", args, options))

    async def adelete_for_runs(self, *args: Any, **options: Any) -> None:
        self.asked.append(("delete_for_runs", args, options))

    async def aprune(self, *args: Any, **options: Any) -> None:
        self.asked.append(("prune", args, options))

    def copy_thread(self, *args: Any, **options: Any) -> None:
        self.asked.append(("copy_thread", args, options))

    def delete_for_runs(self, *args: Any, **options: Any) -> None:
        self.asked.append(("delete_for_runs", args, options))

    def prune(self, *args: Any, **options: Any) -> None:
        self.asked.append(("prune", args, options))


async def test_what_the_one_inside_can_do_it_can_do():
    inner = Able()
    ours = sealed(inner)
    await ours.acopy_thread("a", "b")
    await ours.adelete_for_runs(["r"])
    await ours.aprune(["a"], strategy="delete")
    ours.copy_thread("a", "b")
    ours.delete_for_runs(["r"])
    ours.prune(["a"], strategy="delete")
    expected: list[Any] = [("copy_thread", ("a", "b"), {}), ("delete_for_runs", (["r"],), {}), ("prune", (["a"],), {"strategy": "delete"})]
    assert inner.asked == [*expected, *expected]
    with pytest.raises(NotImplementedError):
        await sealed(InMemorySaver()).aprune(["a"])


def test_versions_and_settings_are_those_of_the_one_inside():
    class Counting(InMemorySaver):
        def get_next_version(self, current: Any, channel: None) -> Any:
            return f"{current}+1"

        @property
        def config_specs(self) -> list[Any]:
            return ["mine"]

    ours = sealed(Counting())
    assert (ours.get_next_version("v", None), ours.config_specs) == ("v+1", ["mine"])
