from __future__ import annotations

import asyncio
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.runtime import get_runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import interrupt

from interlock import END, Graph, Interlock, Outcome, Settings, node
from interlock.contract.node import Node, StepResult
from interlock.engine import EngineName
from interlock.engine.direct import DirectGraph

LANGCHAINS = "langchain_core.runnables.config"


class Safe(TypedDict, total=False):
    text: str
    secret: str
    reached: Annotated[list[str], operator.add]


class Tried(Outcome):
    reached: list[str]


def configurable() -> dict[str, Any]:
    return get_config().get("configurable", {})


def whole_state() -> Any:
    return configurable()["__pregel_read"]("secret")


def write_past_the_contract() -> Any:
    return configurable()["__pregel_send"]([("secret", "forged")])


WAYS: dict[str, Callable[[], Any]] = {
    "config": get_config,
    "store": get_store,
    "runtime": get_runtime,
    "stream writer": get_stream_writer,
    "interrupt": lambda: interrupt("who is there?"),
    "whole state": whole_state,
    "send": write_past_the_contract,
}


async def walk_every_way() -> list[str]:
    reached: list[str] = []
    for name, way in WAYS.items():
        try:
            way()
        except RuntimeError:
            continue
        except Exception as error:  # noqa: BLE001 - the way is there and only ends differently
            reached.append(f"{name}: {type(error).__name__}")
        else:
            reached.append(name)
    return reached


async def pry(text: str) -> Tried:
    return Tried(reached=await walk_every_way())


async def pry_from_a_task(text: str) -> Tried:
    return Tried(reached=await asyncio.create_task(walk_every_way()))


async def pry_from_a_runnable(text: str) -> Tried:
    async def take(way: str) -> list[str]:
        return [key for key in configurable() if key.startswith("__pregel")]

    return Tried(reached=await RunnableLambda(take).ainvoke("way"))


def safe(run: Any) -> Graph:
    return Graph("safe", state=Safe, entry=run, nodes=[node(run, goes={Tried: END})])


NODES = [pry, pry_from_a_task, pry_from_a_runnable]


@pytest.mark.parametrize("run", NODES)
async def test_a_node_cannot_reach_around_its_contract(engine: EngineName, run: Any):
    result = await Interlock(Settings(engine=engine)).run(safe(run), {"text": "x", "secret": "s"})
    assert result.error is None
    assert result.state == {"text": "x", "secret": "s", "reached": []}


@pytest.mark.parametrize("run", NODES)
async def test_a_node_cannot_reach_around_its_contract_where_langgraph_alone_drives(run: Any):
    compiled = Interlock(Settings()).langgraph(safe(run), checkpointer=InMemorySaver(), store=InMemoryStore())
    state = await compiled.ainvoke({"text": "x", "secret": "s"}, {"configurable": {"thread_id": "1"}})
    assert state == {"text": "x", "secret": "s", "reached": []}


async def ask(text: str) -> Tried:
    return Tried(reached=[interrupt("who is there?")])


async def test_a_node_that_tries_to_interrupt_fails_by_name(engine: EngineName):
    result = await Interlock(Settings(engine=engine)).run(safe(ask), {"text": "x"})
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("node_failed", "ask")


async def test_a_node_cannot_reach_the_config_of_the_caller_of_the_turn(engine: EngineName):
    async def call(given: dict[str, str]) -> dict[str, Any]:
        return (await Interlock(Settings(engine=engine)).run(safe(pry), given)).state

    state = await RunnableLambda(call).ainvoke({"text": "x"}, {"configurable": {"password": "hunter2"}})
    assert state["reached"] == []


async def test_where_langchain_is_not_loaded_a_turn_neither_needs_nor_loads_it(monkeypatch: pytest.MonkeyPatch):
    async def tell(text: str) -> Tried:
        return Tried(reached=[text])

    async def run_node(taken: Node, state: Mapping[str, Any]) -> StepResult:
        return taken.validate_outcome(await taken.run(*taken.read(state)))

    monkeypatch.delitem(sys.modules, LANGCHAINS)
    assert await DirectGraph(safe(tell)).run({"text": "hello"}, run_node) == {"text": "hello", "reached": ["hello"]}
    assert LANGCHAINS not in sys.modules


async def test_the_caller_has_its_config_back_after_a_turn(engine: EngineName):
    async def call(given: dict[str, str]) -> object:
        await Interlock(Settings(engine=engine)).run(safe(pry), given)
        return configurable()["password"]

    assert await RunnableLambda(call).ainvoke({"text": "x"}, {"configurable": {"password": "hunter2"}}) == "hunter2"
