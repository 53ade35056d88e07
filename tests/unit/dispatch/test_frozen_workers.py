"""A worker that was frozen for longer than its lease asks the store before it does anything outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from interlock import END, Agent, Capability, Graph, Interlock, Outcome, Reply, Settings, node
from interlock.capabilities.capability import keyed
from interlock.engine import EngineName
from interlock.providers.provider import Provider
from interlock.stores.turns_memory import MemoryTurns
from tests.support.passing import let_time_pass, pass_time


class Post(Capability, Protocol):
    @keyed
    async def send(self, letter: str) -> None: ...


@dataclass
class PostOffice:
    sent: list[str] = field(default_factory=list[str])

    async def send(self, letter: str) -> None:
        self.sent.append(letter)


@dataclass
class State:
    text: str


class Sent(Outcome): ...


def sending(office: PostOffice, freeze: Callable[[], None]) -> Agent:
    """Return an agent that is frozen between two letters."""

    async def send(text: str, *, post: Post) -> Sent:
        await post.send(f"{text}: first")
        freeze()
        await post.send(f"{text}: last")
        return Sent()

    graph = Graph("post", state=State, entry=send, nodes=[node(send, goes={Sent: END})], takes=("text",), gives="text")
    return Agent(
        name="post",
        summary="sends two letters",
        graphs=(graph,),
        entries={None: graph},
        reply=lambda state: Reply(output=state["text"]),
        has_sessions=True,
        providers=(Provider(capabilities=(Post,), open=lambda _: office),),
    )


@pytest.fixture
def app(tmp_path: Path, engine: EngineName) -> Interlock:
    return Interlock(Settings(data_dir=tmp_path, engine=engine))


@pytest.mark.parametrize("is_taken_over", [False, True])
async def test_a_frozen_worker_makes_no_call_of_a_turn_that_another_one_has(app: Interlock, *, is_taken_over: bool):
    let_time_pass()
    office, claimed = PostOffice(), list[str]()
    store = app.turns.store
    assert isinstance(store, MemoryTurns)

    def freeze() -> None:
        pass_time(4.0)
        if is_taken_over and not claimed:
            # What `claim` of another worker does when the lease is over.
            store._change("t", epoch=7, owner="another")  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            claimed.append("t")

    assert (await app.run(sending(office, freeze), "a", session="s", turn="t")).status == "success"
    assert office.sent == ["a: first", "a: last"]
