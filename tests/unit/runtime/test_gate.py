from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

import pytest
from typing_extensions import TypedDict as Record

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, TurnResult, node
from interlock.capabilities import Clock
from interlock.capabilities.capability import emits
from interlock.engine import EngineName
from interlock.errors import ContractError, MediaMalformed
from interlock.grant_checks import gate_problems
from interlock.runtime.events import Event
from interlock.runtime.gate import Gate
from interlock.testing import FixedClock
from interlock_agents.sam.capabilities import ModelBackend


class Lookup(TypedDict, total=False):
    text: str
    found: str


class Found(Outcome):
    found: str


@dataclass
class Page:
    title: str
    size: int


class Row(Record):
    title: str
    size: int


class Shelf(Capability, Protocol):
    async def find(self, title: str) -> str: ...


class Catalogue(Shelf, Protocol):
    async def page(self, title: str) -> Page: ...
    async def maybe_page(self, title: str) -> Page | None: ...
    async def row(self, title: str) -> Row: ...
    async def sizes(self) -> dict[str, int]: ...
    async def close(self) -> None: ...


class RealCatalogue:
    """Grants a Catalogue, and has more to it than that."""

    password = "hunter2"  # noqa: S105 - what must not be reached

    def __init__(self, **results: Any) -> None:
        self._results: dict[str, Any] = {"find": "found", "close": None, **results}
        self.calls: list[str] = []

    async def find(self, title: str) -> str:
        return self._result("find")

    async def page(self, title: str) -> Page:
        return self._result("page")

    async def maybe_page(self, title: str) -> Page | None:
        return self._result("maybe_page")

    async def row(self, title: str) -> Row:
        return self._result("row")

    async def sizes(self) -> dict[str, int]:
        return self._result("sizes")

    async def close(self) -> None:
        return self._result("close")

    async def burn(self) -> None:
        self.calls.append("burn")

    def _result(self, name: str) -> Any:
        self.calls.append(name)
        result = self._results[name]
        if isinstance(result, Exception):
            raise result
        return result


async def find(text: str, *, shelf: Shelf) -> Found:
    return Found(found=await shelf.find(text))


async def find_by(text: str, *, catalogue: Catalogue) -> Found:
    return Found(found=repr(await getattr(catalogue, text)(*(() if text in {"sizes", "close"} else ("title",)))))


async def clocked(text: str, *, clock: Clock) -> Found:
    return Found(found=(await clock.now()).isoformat())


async def both(text: str, *, shelf: Shelf, catalogue: Catalogue) -> Found:
    return Found(found=await shelf.find(text) + await catalogue.find(text))


def lookup(*runs: Any) -> Graph:
    targets = [*runs[1:], END]
    rows = [node(run, goes={Found: to}) for run, to in zip(runs, targets, strict=True)]
    return Graph("lookup", state=Lookup, entry=runs[0], nodes=rows, takes=["text"])


async def call(engine: EngineName, method: str, catalogue: object) -> TurnResult:
    return await Interlock(Settings(engine=engine), grants={Catalogue: catalogue}).run(lookup(find_by), method)


async def test_a_capability_that_is_not_granted_stops_the_graph_before_it_runs(engine: EngineName):
    with pytest.raises(ContractError) as caught:
        await Interlock(Settings(engine=engine)).run(lookup(find, find_by), "x")
    assert [problem.rule for problem in caught.value.problems] == ["not_granted", "not_granted"]
    for problem, capability, user in zip(caught.value.problems, ("Shelf", "Catalogue"), ("find", "find_by"), strict=True):
        assert "graph 'lookup'" in str(problem)
        assert f"'{capability}'" in str(problem)
        assert f"'{user}'" in str(problem)
        assert problem.fix


class NoFind:
    pass


class SyncFind:
    def find(self, title: str) -> str:
        return title


class FindIsData:
    find = "found"


@pytest.mark.parametrize("adapter", [NoFind(), SyncFind(), FindIsData(), None])
def test_an_adapter_without_the_async_method_is_refused(adapter: object):
    (problem,) = gate_problems(lookup(find), {}, {Shelf: adapter}, [Shelf])
    assert (problem.rule, problem.graph) == ("bad_grant", "lookup")
    assert "'Shelf'" in str(problem)
    assert "'find'" in str(problem)
    assert problem.fix


def test_an_adapter_needs_the_methods_that_a_capability_inherits():
    problems = gate_problems(lookup(find_by), {}, {Catalogue: NoFind()}, [Catalogue])
    assert any("'find'" in str(problem) for problem in problems)


def test_a_grant_that_no_node_asks_for_does_no_harm():
    assert list(gate_problems(lookup(find), {}, {Shelf: RealCatalogue(), ModelBackend: NoFind()}, [Shelf])) == []


async def test_each_capability_goes_to_its_own_adapter(engine: EngineName):
    grants = {Shelf: RealCatalogue(find="a"), Catalogue: RealCatalogue(find="b")}
    result = await Interlock(Settings(engine=engine), grants=grants).run(lookup(both), "x")
    assert result.state["found"] == "ab"


async def test_a_grant_takes_the_place_of_the_configured_adapter(engine: EngineName):
    result = await Interlock(Settings(engine=engine), grants={Clock: FixedClock()}).run(lookup(clocked), "x")
    assert result.state["found"] == "2026-01-01T00:00:00+00:00"


class Unavailable(Exception):
    pass


@pytest.mark.parametrize("error", [Unavailable("hunter2"), OSError("hunter2"), KeyError("hunter2"), TimeoutError("hunter2")])
async def test_a_capability_that_raises_is_capability_failed_and_tells_no_details(engine: EngineName, error: Exception):
    catalogue = RealCatalogue(find=error)
    result = await call(engine, "find", catalogue)
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("capability_failed", "find_by")
    assert "'Catalogue.find'" in result.error.message
    assert type(error).__name__ in result.error.message
    assert "hunter2" not in str(result.to_json())
    assert catalogue.calls == ["find"]


async def test_a_typed_error_of_an_adapter_keeps_its_code(engine: EngineName):
    result = await call(engine, "find", RealCatalogue(find=MediaMalformed("It is torn.")))
    assert result.error is not None
    assert (result.error.code, result.error.message, result.error.node) == ("media_malformed", "It is torn.", "find_by")


async def survive(text: str, *, catalogue: Catalogue) -> Found:
    try:
        return Found(found=await catalogue.find(text))
    except MediaMalformed as error:
        return Found(found=error.code)


async def test_a_node_may_turn_a_typed_error_into_an_outcome(engine: EngineName):
    grants = {Catalogue: RealCatalogue(find=MediaMalformed())}
    result = await Interlock(Settings(engine=engine), grants=grants).run(lookup(survive), "x")
    assert (result.error, result.state["found"]) == (None, "media_malformed")


async def test_an_error_that_an_adapter_raises_again_and_again_names_its_node_once(engine: EngineName):
    catalogue = RealCatalogue(find=MediaMalformed())
    nodes = [(await call(engine, "find", catalogue)).error for _ in range(2)]
    assert [error and error.node for error in nodes] == ["find_by", "find_by"]


BAD_RESULTS: list[tuple[str, Any]] = [
    ("find", 5),
    ("find", None),
    ("sizes", {"a": "hunter2"}),
    ("sizes", [("a", 1)]),
    ("close", "hunter2"),
    ("maybe_page", Page("hunter2", "hunter2")),  # pyright: ignore[reportArgumentType]
    ("maybe_page", {"title": "hunter2", "size": 1}),
    ("page", Page("hunter2", "5")),  # pyright: ignore[reportArgumentType]
    ("page", {"title": "hunter2", "size": 1}),
    ("row", {"title": "hunter2", "size": "5"}),
    ("row", {"title": "hunter2", "size": 5, "more": 1}),
]


@pytest.mark.parametrize(("method", "returned"), BAD_RESULTS)
async def test_a_wrong_result_is_capability_result_invalid_and_is_reported_without_the_value(
    engine: EngineName, method: str, returned: Any
):
    result = await call(engine, method, RealCatalogue(**{method: returned}))
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("capability_result_invalid", "find_by")
    assert f"'Catalogue.{method}'" in result.error.message
    assert "hunter2" not in result.error.message


@pytest.mark.parametrize(
    ("method", "returned"),
    [("page", Page("a", 1)), ("maybe_page", None), ("row", {"title": "a", "size": 1}), ("sizes", {"a": 1}), ("close", None)],
)
async def test_a_result_of_the_right_type_reaches_the_node(engine: EngineName, method: str, returned: Any):
    result = await call(engine, method, RealCatalogue(**{method: returned}))
    assert (result.error, result.state["found"]) == (None, repr(returned))


class Client:
    pass


class Connector(Capability, Protocol):
    async def connect(self) -> Client: ...


class RealConnector:
    async def connect(self) -> Client:
        return Client()


async def connect(text: str, *, connector: Connector) -> Found:
    return Found(found=repr(await connector.connect()))


def test_a_capability_that_returns_what_is_not_data_is_reported():
    with pytest.raises(ContractError, match="Connector"):
        Gate(lookup(connect), {Connector: RealConnector()})


async def reach(text: str, *, catalogue: Catalogue) -> Found:
    getattr(catalogue, text)
    return Found(found="reached")


@pytest.mark.parametrize("attribute", ["burn", "password", "calls", "_results"])
async def test_a_node_reaches_only_the_methods_of_the_capability(engine: EngineName, attribute: str):
    result = await Interlock(Settings(engine=engine), grants={Catalogue: RealCatalogue()}).run(lookup(reach), attribute)
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("node_failed", "reach")


async def replace(text: str, *, catalogue: Any) -> Found:
    catalogue.find = "replaced"
    return Found(found="")


replace.__annotations__["catalogue"] = Catalogue


async def test_a_node_cannot_put_something_else_in_the_place_of_a_method(engine: EngineName):
    result = await Interlock(Settings(engine=engine), grants={Catalogue: RealCatalogue()}).run(lookup(replace), "x")
    assert result.error is not None
    assert result.error.code == "node_failed"


KEPT: list[Shelf] = []


async def keep_handle(text: str, *, shelf: Shelf) -> Found:
    KEPT.append(shelf)
    return Found(found=await shelf.find(text))


async def use_kept_handle(text: str) -> Found:
    return Found(found=await KEPT.pop().find(text))


async def test_a_handle_is_dead_once_its_node_has_ended(engine: EngineName):
    shelf = RealCatalogue()
    result = await Interlock(Settings(engine=engine), grants={Shelf: shelf}).run(lookup(keep_handle, use_kept_handle), "x")
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("contract_violation", "use_kept_handle")
    assert "'Shelf.find'" in result.error.message
    assert "'keep_handle'" in result.error.message
    assert shelf.calls == ["find"]


async def keep_handle_and_fail(text: str, *, shelf: Shelf) -> Found:
    KEPT.append(shelf)
    raise RuntimeError


async def test_a_handle_is_dead_once_its_node_has_failed(engine: EngineName):
    shelf = RealCatalogue()
    await Interlock(Settings(engine=engine), grants={Shelf: shelf}).run(lookup(keep_handle_and_fail), "x")
    with pytest.raises(Exception, match="after node 'keep_handle_and_fail' had ended") as caught:
        await KEPT.pop().find("x")
    assert getattr(caught.value, "code", None) == "contract_violation"
    assert shelf.calls == []


async def many_at_once(text: str, *, shelf: Shelf) -> Found:
    return Found(found="".join(await asyncio.gather(*(shelf.find(text) for _ in range(3)))))


async def test_a_node_may_use_a_handle_several_times_at_once(engine: EngineName):
    result = await Interlock(Settings(engine=engine), grants={Shelf: RealCatalogue(find="a")}).run(lookup(many_at_once), "x")
    assert result.state["found"] == "aaa"


class Tool:
    """No data: nothing but itself knows what it is."""

    def __repr__(self) -> str:
        return "<a saw>"


class Bench(Capability, Protocol):
    @emits("tool")
    async def work(self, tool: Tool) -> str: ...


class RealBench:
    async def work(self, tool: Tool) -> str:
        return f"worked with {tool!r}"


async def saw(text: str, *, bench: Bench) -> Found:
    return Found(found=await bench.work(Tool()))


async def test_an_argument_that_is_no_data_is_shown_as_it_writes_itself(engine: EngineName):
    events: list[Event] = []
    graph = Graph("bench", state=Lookup, entry=saw, nodes=[node(saw, goes={Found: END})], takes=["text"], gives="found")
    result = await Interlock(Settings(engine=engine), grants={Bench: RealBench()}).run(graph, "x", on_event=events.append)
    assert result.output == "worked with <a saw>"
    assert [event["data"]["input"] for event in events if event["event"] == "on_tool_start"] == [["<a saw>"]]
