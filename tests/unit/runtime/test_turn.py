from __future__ import annotations

import asyncio
import functools
import operator
from typing import Annotated, Any, Protocol, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.types import Command

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, node
from interlock.capabilities import Ids
from interlock.engine import EngineName
from interlock.errors import ContractViolation
from interlock.testing import CountingIds


class Trip(TypedDict, total=False):
    text: str
    steps: int
    log: Annotated[list[str], operator.add]


class Stepped(Outcome):
    steps: int
    log: list[str]


class Arrived(Outcome):
    log: list[str]


class Stray(Outcome):
    log: list[str]


class Counter(Capability, Protocol):
    async def count(self) -> int: ...


class RealCounter:
    def __init__(self) -> None:
        self.calls = 0

    async def count(self) -> int:
        self.calls += 1
        return self.calls


async def step(steps: int) -> Stepped | Arrived:
    return Stepped(steps=steps - 1, log=["step"]) if steps else Arrived(log=["arrived"])


async def rest(steps: int) -> Stepped:
    return Stepped(steps=steps, log=["rest"])


def trip(budget: int) -> Graph:
    return Graph(
        "trip",
        state=Trip,
        entry=step,
        nodes=[node(step, goes={Stepped: rest, Arrived: END}), node(rest, goes={Stepped: step})],
        max_steps=budget,
    )


async def test_a_step_budget_that_is_used_up_is_budget_exceeded(engine: EngineName):
    result = await Interlock(Settings(engine=engine)).run(trip(5), {"steps": 10})
    assert result.status == "error"
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("budget_exceeded", "rest")
    assert "5 steps" in result.error.message
    assert result.path == ("step", "rest", "step", "rest", "step")
    assert result.state == {"steps": 7, "log": ["step", "rest", "step", "rest", "step"]}


@pytest.mark.parametrize(("budget", "fits"), [(121, True), (120, False)])
async def test_a_turn_may_use_its_whole_budget_and_no_more(engine: EngineName, budget: int, *, fits: bool):
    result = await Interlock(Settings(engine=engine)).run(trip(budget), {"steps": 60})
    assert (result.error is None) == fits
    assert len(result.path) == min(budget, 121)


class Broken(Exception):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot be written")


def failing(error: BaseException) -> Graph:
    async def fail(log: list[str], *, counter: Counter) -> Arrived:
        await counter.count()
        raise error

    fail.__annotations__ = {"log": list[str], "counter": Counter, "return": Arrived}
    return Graph("trip", state=Trip, entry=rest, nodes=[node(rest, goes={Stepped: fail}), node(fail, goes={Arrived: END})])


ERRORS = [
    Broken("a reason"),
    OSError("a reason"),
    ConnectionError("a reason"),
    TimeoutError("a reason"),
    AssertionError("a reason"),
    ExceptionGroup("a reason", [Broken()]),
    StopAsyncIteration("a reason"),
    GraphInterrupt(()),
    ParentCommand(Command(goto="rest")),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_node_that_raises_is_node_failed_by_name_and_is_not_run_again(engine: EngineName, error: Exception):
    counter = RealCounter()
    result = await Interlock(Settings(engine=engine), grants={Counter: counter}).run(failing(error), {"steps": 1})
    assert result.status == "error"
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("node_failed", "fail")
    assert type(error).__name__ in result.error.message
    assert result.path == ("rest", "fail")
    assert result.state == {"steps": 1, "log": ["rest"]}
    assert counter.calls == 1


async def test_a_node_that_raises_what_cannot_be_written_is_node_failed_by_name(engine: EngineName):
    result = await Interlock(Settings(engine=engine), grants={Counter: RealCounter()}).run(failing(Unspeakable()), {"steps": 1})
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("node_failed", "fail")


async def test_a_node_that_awaits_a_cancelled_task_is_node_failed_by_name(engine: EngineName):
    graph, grants = failing(asyncio.CancelledError()), {Counter: RealCounter()}
    turn = asyncio.create_task(Interlock(Settings(engine=engine), grants=grants).run(graph, {"steps": 1}))
    await asyncio.wait([turn])
    assert not turn.cancelled()
    error = turn.result().error
    assert error is not None
    assert (error.code, error.node) == ("node_failed", "fail")


async def test_a_contract_violation_is_never_retried(engine: EngineName):
    counter = RealCounter()
    result = await Interlock(Settings(engine=engine), grants={Counter: counter}).run(failing(ContractViolation()), {"steps": 1})
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("contract_violation", "fail")
    assert counter.calls == 1
    assert not ContractViolation.transient


async def stray(log: list[str], *, counter: Counter) -> Arrived:
    await counter.count()
    wrong: Any = Stray(log=[])
    return wrong


async def test_a_node_whose_outcome_is_refused_is_not_run_again(engine: EngineName):
    graph = Graph("trip", state=Trip, entry=stray, nodes=[node(stray, goes={Arrived: END})])
    counter = RealCounter()
    result = await Interlock(Settings(engine=engine), grants={Counter: counter}).run(graph, {"steps": 1})
    assert result.error is not None
    assert result.error.code == "contract_violation"
    assert counter.calls == 1


class Gatekeeper(Capability, Protocol):
    async def wait(self) -> None: ...


class RealGatekeeper:
    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.cancelled = False

    async def wait(self) -> None:
        self.reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def wait_for_ever(text: str, *, gatekeeper: Gatekeeper) -> Arrived:
    await gatekeeper.wait()
    return Arrived(log=[])


waiting = Graph("trip", state=Trip, entry=wait_for_ever, nodes=[node(wait_for_ever, goes={Arrived: END})], takes=["text"])


async def test_a_turn_that_is_cancelled_ends_and_takes_its_capability_call_along(engine: EngineName):
    gatekeeper = RealGatekeeper()
    turn = asyncio.create_task(Interlock(Settings(engine=engine), grants={Gatekeeper: gatekeeper}).run(waiting, "x"))
    await gatekeeper.reached.wait()
    turn.cancel()
    await asyncio.wait([turn])
    assert turn.cancelled()
    assert gatekeeper.cancelled


async def test_a_stream_that_is_left_early_ends_its_turn(engine: EngineName):
    gatekeeper = RealGatekeeper()
    stream = Interlock(Settings(engine=engine), grants={Gatekeeper: gatekeeper}).stream(waiting, "x")
    async for _ in stream:
        if gatekeeper.reached.is_set():
            break
        await asyncio.wait_for(gatekeeper.reached.wait(), timeout=20)
    await stream.aclose()
    assert gatekeeper.cancelled


@functools.cache
def running(engine: EngineName) -> Interlock:
    return Interlock(Settings(engine=engine))


long_trip = trip(100)


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(min_value=0, max_value=8), min_size=1, max_size=5))
async def test_turns_that_run_at_once_do_not_see_each_other(engine: EngineName, lengths: list[int]):
    results = await asyncio.gather(*(running(engine).run(long_trip, {"steps": length}) for length in lengths))
    for length, result in zip(lengths, results, strict=True):
        assert result.state == {"steps": 0, "log": [*["step", "rest"] * length, "arrived"]}
        assert result.path == (*("step", "rest") * length, "step")


async def test_a_result_is_plain_json_when_asked(engine: EngineName):
    result = await Interlock(Settings(engine=engine), grants={Ids: CountingIds()}).run(trip(10), {"steps": 0}, session="s-1")
    assert result.to_json() == {
        "agent": "trip",
        "session": "s-1",
        "turn": "id-1",
        "status": "success",
        "output": {"steps": 0, "log": ["arrived"]},
        "error": None,
        "path": ["step"],
        "state": {"steps": 0, "log": ["arrived"]},
        "metadata": {},
        "usage": {"model_calls": 0, "input_tokens": None, "output_tokens": None, "output_bytes": 0},
    }


async def test_a_failed_result_is_plain_json_when_asked(engine: EngineName):
    result = await Interlock(Settings(engine=engine)).run(trip(3), {"steps": 9})
    error = result.to_json()["error"]
    assert error == {"code": "budget_exceeded", "message": "The graph took all of its 3 steps without ending.", "node": "rest"}


class Speech(TypedDict, total=False):
    text: str
    said: str


class Said(Outcome):
    said: str


async def say(text: str) -> Said:
    if "fail" in text:
        raise RuntimeError(text)
    return Said(said=text)


speech = Graph("speech", state=Speech, entry=say, takes=("text",), gives="said", nodes=[node(say, goes={Said: END})])


async def test_a_notebook_shows_how_a_turn_ended_without_its_secrets():
    app = Interlock(Settings(engine="direct", redact=("hunter2",)))
    result = await app.run(speech, "hunter2 ```![x](http://evil.example/x.png)```")
    assert result._repr_markdown_() == (  # pyright: ignore[reportPrivateUsage] - a notebook calls it
        "**speech: success**\n\n````text\n[redacted] ```![x](http://evil.example/x.png)```\n````\n\nPath: `say`\n\n"
        "model calls: 0, output bytes: 0"
    )
    failed = (await app.run(speech, "fail hunter2"))._repr_markdown_()  # pyright: ignore[reportPrivateUsage] - likewise
    assert failed.startswith("**speech: error**\n\n```text\nnode_failed (say): ")
    assert "hunter2" not in failed
