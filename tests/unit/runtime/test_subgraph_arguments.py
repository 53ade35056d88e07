"""What a node hands to a graph behind a capability, and what the graph makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, Subgraph, node
from interlock.engine import EngineName


class Work(TypedDict, total=False):
    text: str
    out: str


class Done(Outcome):
    out: str


class Order(TypedDict, total=False):
    text: str
    count: int
    notes: list[str]
    out: str


class Shop(Capability, Protocol):
    async def order(self, text: str, count: int = 3, *, notes: list[str]) -> str: ...


class Counter(Capability, Protocol):
    async def order(self, text: str) -> str: ...


async def serve(text: str, count: int, notes: list[str]) -> Done:
    notes.append("served")
    return Done(out=f"{count} {text} {notes}")


shop = Graph("shop", state=Order, entry=serve, nodes=[node(serve, goes={Done: END})], takes=["text", "count", "notes"], gives="out")


def app(engine: EngineName, grants: dict[type, object] | None = None) -> Interlock:
    return Interlock(Settings(engine=engine), grants=grants or {Shop: Subgraph(shop)})


def one(run: Any) -> Graph:
    return Graph("work", state=Work, entry=run, nodes=[node(run, goes={Done: END})], takes=["text"], gives="out")


def asking(call: Callable[[Any], Any]) -> Graph:
    async def order(text: str, *, shop: Shop) -> Done:
        return Done(out=await call(shop))

    return one(order)


async def test_arguments_are_fields_by_their_names_with_the_defaults_of_the_method(engine: EngineName):
    calls: dict[str, Callable[[Any], Any]] = {
        "3 tea ['served']": lambda shop: shop.order("tea", notes=[]),
        "2 tea ['now', 'served']": lambda shop: shop.order("tea", 2, notes=["now"]),
        "1 cake ['served']": lambda shop: shop.order(notes=[], count=1, text="cake"),
    }
    for expected, call in calls.items():
        assert (await app(engine).run(asking(call), "x")).output == expected


async def test_what_is_passed_in_is_not_shared_with_the_graph(engine: EngineName):
    async def order(text: str, *, shop: Shop) -> Done:
        notes = ["mine"]
        await shop.order("tea", notes=notes)
        return Done(out=str(notes))

    assert (await app(engine).run(one(order), "x")).output == "['mine']"


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another type": (lambda shop: shop.order("tea", "hunter2", notes=[]), "'count'"),
    "another type inside": (lambda shop: shop.order("tea", notes=["hunter2", 5]), "'notes.1'"),
    "half a surrogate": (lambda shop: shop.order("\ud800", notes=[]), "'text'"),
    "too many": (lambda shop: shop.order("hunter2", 2, [], notes=[]), "too many"),
    "too few": (lambda shop: shop.order("hunter2"), "'notes'"),
    "unknown": (lambda shop: shop.order("hunter2", notes=[], colour="red"), "'colour'"),
}


@pytest.mark.parametrize(("call", "says"), WRONG.values(), ids=WRONG.keys())
async def test_arguments_that_do_not_fit_the_graph_break_the_contract_of_the_node_that_calls(engine: EngineName, call: Any, says: str):
    result = await app(engine).run(asking(call), "x")
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("contract_violation", "order")
    assert "'Shop.order'" in result.error.message
    assert says in result.error.message
    assert "hunter2" not in str(result.to_json())
    assert result.path == ("order",)


async def twice(text: str, *, shop: Shop, counter: Counter) -> Done:
    told = [await counter.order("tea"), await shop.order("cake", notes=["now"]), await counter.order("tea")]
    return Done(out=" | ".join(told))


async def test_one_graph_behind_two_capabilities_has_for_each_what_is_fixed_for_it(engine: EngineName):
    grants: dict[type, object] = {Shop: Subgraph(shop), Counter: Subgraph(shop, count=9, notes=["fixed"])}
    result = await app(engine, grants).run(one(twice), "x")
    assert result.output == "9 tea ['fixed', 'served'] | 3 cake ['now', 'served'] | 9 tea ['fixed', 'served']"
    assert result.path == ("twice", "twice/serve", "twice/serve", "twice/serve")
