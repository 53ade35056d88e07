"""The call pipeline: every call passes the same layers, and a concern is added by naming one more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, Subgraph, TurnResult, node
from interlock.agent import Agent
from interlock.discovery import agent_of
from interlock.engine import EngineName
from interlock.errors import InputSchema, RateLimited, StoreFull
from interlock.runtime import call
from interlock.runtime.layers import Layer
from interlock.runtime.rate_limits import RateLimits
from interlock.runtime.targets import Composed


class Shop(Capability, Protocol):
    async def buy(self, what: str) -> str: ...

    def list(self, what: str) -> AsyncIterator[str]: ...


class Helper(Capability, Protocol):
    async def help(self, text: str) -> str: ...


class Talk(Outcome):
    out: str


class Fields(TypedDict, total=False):
    text: str
    out: str


class Till:
    def __init__(self) -> None:
        self.keys: list[str] = []

    async def buy(self, what: str, *, idempotency_key: str) -> str:
        self.keys.append(idempotency_key)
        return f"one {what}"

    async def list(self, what: str) -> AsyncIterator[str]:
        for number in range(3):
            yield f"{what} {number}"


async def shop_around(text: str, *, shop: Shop) -> Talk:
    bought = [await shop.buy(text), await shop.buy(text)]
    return Talk(out=", ".join([*bought, *[found async for found in shop.list(text)]]))


async def ask_helper(text: str, *, helper: Helper) -> Talk:
    return Talk(out=await helper.help(text))


def graph(run: Any, name: str = "talk") -> Graph:
    return Graph(name, state=Fields, entry=run, nodes=[node(run, goes={Talk: END})], takes=("text",), gives="out")


class HelpfulAdapter:
    async def help(self, text: str, *, shop: Shop) -> str:
        return await shop.buy(text)


def app(engine: EngineName, till: Till, **settings: Any) -> Interlock:
    return Interlock(Settings(engine=engine, **settings), grants={Shop: till})


def code(result: TurnResult) -> str | None:
    return None if result.error is None else result.error.code


@pytest.mark.parametrize("behind", ["adapter", "graph", "composed"])
async def test_a_layer_sees_every_call_no_matter_what_answers_it(behind: str, engine: EngineName, monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []

    class Seen(Layer):
        def start(self, call: call.Call) -> None:
            seen.append(f"start {call.target.method.label}")

        def chunk(self, call: call.Call, chunk: Any) -> Any:
            seen.append(f"chunk {call.target.method.label}")
            return chunk

        def end(self, call: call.Call) -> None:
            seen.append(f"end {call.target.method.label}")

    monkeypatch.setattr(call, "LAYERS", (*call.LAYERS, Seen()))
    till, grants = Till(), dict[type, object]()
    if behind == "graph":
        grants[Helper] = Subgraph(graph(shop_around, "inner"))
    elif behind == "composed":
        grants[Helper] = Composed(HelpfulAdapter(), parts={Shop: till})
    run = shop_around if behind == "adapter" else ask_helper
    result = await Interlock(Settings(engine=engine), grants={Shop: till, **grants}).run(graph(run), "pear")
    assert code(result) is None
    bought = ["start Shop.buy", "chunk Shop.buy", "end Shop.buy"]
    listed = ["start Shop.list", *["chunk Shop.list"] * 3, "end Shop.list"]
    inside = [*bought, *bought, *listed] if behind != "composed" else bought
    around = {"adapter": inside, "graph": ["start Helper.help", *inside, "chunk Helper.help", "end Helper.help"]}
    assert seen == around.get(behind, ["start Helper.help", *inside, "chunk Helper.help", "end Helper.help"])


async def test_a_rate_limit_refuses_calls_beyond_it(engine: EngineName):
    till = Till()
    limited = app(engine, till, rate_limits={"Shop": 4})
    assert code(await limited.run(graph(shop_around), "pear")) is None
    result = await limited.run(graph(shop_around), "fig")
    assert (code(result), len(till.keys)) == ("rate_limited", 3)
    assert result.error is not None
    assert "'Shop' was called 4 times in the last minute" in result.error.message
    assert "rate_limits" in result.error.message


async def test_another_capability_is_not_limited(engine: EngineName):
    till = Till()
    limited = app(engine, till, rate_limits={"Model": 1})
    for _ in range(3):
        assert code(await limited.run(graph(shop_around), "pear")) is None


async def test_a_replay_is_not_limited(engine: EngineName, tmp_path: Path):
    limited = app(engine, Till(), rate_limits={"Shop": 3})
    path = tmp_path / "turn"
    await limited.run(graph(shop_around), "pear", record=path)
    for _ in range(3):
        assert (await limited.replay(path, graph=graph(shop_around))).differences == ()


async def test_a_refusal_by_the_rate_is_replayed_as_it_was(engine: EngineName, tmp_path: Path):
    limited = app(engine, Till(), rate_limits={"Shop": 1})
    path = tmp_path / "turn"
    assert code(await limited.run(graph(shop_around), "pear", record=path)) == "rate_limited"
    replayed = await Interlock(Settings(engine=engine), grants={Shop: Till()}).replay(path, graph=graph(shop_around))
    assert (code(replayed.result), replayed.differences) == ("rate_limited", ())


@given(limit=st.integers(1, 5), waits=st.lists(st.floats(0, 40), max_size=30))
def test_never_more_calls_in_a_minute_than_the_limit(limit: int, waits: list[float]):
    now, made = 0.0, list[float]()
    limits = RateLimits({"Shop": limit}, now=lambda: now)
    for wait in waits:
        now += wait
        try:
            limits.take("Shop")
        except RateLimited:
            assert sum(1 for moment in made if moment > now - 60) == limit
        else:
            made.append(now)
        assert sum(1 for moment in made if moment > now - 60) <= limit


async def test_every_call_has_a_key_of_its_own_and_the_same_one_when_it_is_made_again(engine: EngineName, tmp_path: Path):
    till, path = Till(), tmp_path / "turn"
    await app(engine, till).run(graph(shop_around), "pear", turn="t-1", record=path)
    assert till.keys == ["t-1:1", "t-1:2"]
    header, first, *_ = path.read_text().splitlines(keepends=True)
    path.write_text(header + first)
    resumed = Till()
    result = await app(engine, resumed).resume(path, graph=graph(shop_around))
    assert (code(result), resumed.keys) == (None, ["t-1:2"])


async def test_the_caller_can_name_the_turn(engine: EngineName):
    result = await app(engine, Till()).run(graph(shop_around), "pear", turn="order:4711")
    assert (result.turn, result.session) == ("order:4711", "order:4711")


@pytest.mark.parametrize("wrong", ["", " ", "a b", "x" * 1025, "\n", 5])
@pytest.mark.parametrize("name", ["turn", "principal"])
async def test_an_invalid_id_is_refused(name: str, wrong: Any, engine: EngineName):
    till = Till()
    with pytest.raises(Exception, match=name) as refused:
        await app(engine, till).run(graph(shop_around), "pear", **{name: wrong})
    assert getattr(refused.value, "code", None) == "input_schema"
    assert till.keys == []


async def test_an_id_of_a_turn_is_shorter_than_one_of_a_principal(engine: EngineName):
    with pytest.raises(InputSchema, match="1 to 128"):
        await app(engine, Till()).run(graph(shop_around), "pear", turn="x" * 129)
    assert (await app(engine, Till()).run(graph(shop_around), "pear", principal="x" * 1024)).error is None


class Known(TypedDict, total=False):
    text: str
    user: str
    out: str


async def greet(text: str, user: str) -> Talk:
    return Talk(out=f"{user}: {text}")


greeting = Graph("greeting", state=Known, entry=greet, nodes=[node(greet, goes={Talk: END})], takes=("text", "user"), gives="out")


def greeter() -> Agent:
    return replace(agent_of(greeting), identity="user")


async def test_the_principal_is_who_calls_no_matter_what_the_input_says(engine: EngineName):
    running = Interlock(Settings(engine=engine))
    result = await running.run(greeter(), {"text": "hi"}, principal="ann")
    assert result.output == "ann: hi"
    result = await running.run(greeter(), {"text": "hi", "user": "ann"}, principal="ann")
    assert result.output == "ann: hi"
    with pytest.raises(Exception, match="'user' is not who calls") as refused:
        await running.run(greeter(), {"text": "hi", "user": "the-boss"}, principal="ann")
    assert getattr(refused.value, "code", None) == "input_schema"


@pytest.mark.parametrize(("agent", "field"), [("analyst", "user_id"), ("desk", "customer_id")])
async def test_agents_that_know_their_users_take_them_from_the_principal(agent: str, field: str, tmp_path: Path):
    async with Interlock(Settings(engine="direct", data_dir=tmp_path)) as running:
        given: Any = {"text": "hello"} if agent == "desk" else {"messages": [{"role": "user", "content": "hello"}]}
        result = await running.run(agent, given, session="s", principal="ann")
        assert (result.status, result.state[field]) == ("success", "ann")
        with pytest.raises(Exception, match="not who calls"):
            await running.run(agent, {**given, field: "the-boss"}, session="s", principal="ann")


async def test_agents_are_compiled_before_the_first_turn(engine: EngineName, tmp_path: Path):
    async with Interlock(Settings(engine=engine, data_dir=tmp_path)) as running:
        await running.open(["sam"])
        before = dict(running._compiler._compiled)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        assert before
        await running.run("sam", "hello")
        assert running._compiler._compiled == before  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


class Rejecting(Layer):
    def chunk(self, call: call.Call, chunk: Any) -> Any:
        raise RateLimited("rejected")


class EndingBadly(Layer):
    def end(self, call: call.Call) -> None:
        raise StoreFull("ended badly")


class FailingBadly(Layer):
    def fail(self, call: call.Call, error: BaseException) -> BaseException:
        raise StoreFull("failed badly")


class Waiting(Layer):
    """Lets other tasks run before each chunk."""

    def wait(self, call: call.Call) -> Awaitable[None]:
        return asyncio.sleep(0)


class BrokenTill(Till):
    async def buy(self, what: str, *, idempotency_key: str) -> str:
        raise RateLimited("not now")


async def test_a_layer_that_fails_while_a_call_ends_or_fails_gives_the_error(monkeypatch: pytest.MonkeyPatch):
    layers = call.LAYERS
    monkeypatch.setattr(call, "LAYERS", (Rejecting(), *layers, EndingBadly()))
    assert code(await app("direct", Till()).run(graph(shop_around), "pear")) == "store_full"
    monkeypatch.setattr(call, "LAYERS", (Rejecting(), *layers))
    assert code(await app("direct", Till()).run(graph(shop_around), "pear")) == "rate_limited"
    monkeypatch.setattr(call, "LAYERS", (*layers, FailingBadly()))
    assert code(await app("direct", BrokenTill()).run(graph(shop_around), "pear")) == "store_full"


async def test_a_layer_may_wait_before_each_chunk(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(call, "LAYERS", (*call.LAYERS, Waiting()))
    result = await app("direct", Till()).run(graph(shop_around), "pear")
    assert result.output == "one pear, one pear, pear 0, pear 1, pear 2"


def test_a_call_that_is_a_minute_old_is_not_counted_any_more():
    now = 0.0
    limits = RateLimits({"Shop": 1}, now=lambda: now)
    limits.take("Shop")
    with pytest.raises(RateLimited):
        limits.take("Shop")
    now = 60.0
    limits.take("Shop")
