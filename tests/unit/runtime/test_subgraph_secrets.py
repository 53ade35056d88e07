"""A secret of an inner graph is one from the moment it goes in, whoever reads it, and however it looks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import pytest
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Secret, Settings, Subgraph, node
from interlock.capabilities.capability import emits
from interlock.engine import EngineName
from interlock.runtime.events import Event

CANARY = "Canary_Xq7-ZvK"


class Work(TypedDict, total=False):
    text: str
    size: int


@dataclass
class Kept:
    text: str
    token: Annotated[str, Secret] = ""
    default: Annotated[str, Secret] = f"{CANARY}-default"
    gem: Annotated[str | None, Secret] = None


class Dug(Outcome):
    gem: str


class Sized(Outcome):
    size: int


class Mine(Capability, Protocol):
    async def dig(self, text: str, token: Annotated[str, Secret]) -> Annotated[str, Secret]: ...


class Tools(Capability, Protocol):
    @emits("tool")
    async def find(self, words: str) -> None: ...


class RealTools:
    async def find(self, words: str) -> None:
        pass


async def dig(text: str, *, tools: Tools) -> Dug:
    """Read no secret, and tell what it was told."""
    await tools.find(text)
    return Dug(gem="g5")


async def echo(token: str) -> Dug:
    return Dug(gem=token)


def mine(run: Any) -> Subgraph:
    graph = Graph("mine", state=Kept, entry=run, nodes=[node(run, goes={Dug: END})], takes=["text", "token"], gives="gem")
    return Subgraph(graph)


TOLD = {
    "what goes in beside it": (dig, f"it is {CANARY}", CANARY),
    "what nobody has read": (dig, f"{CANARY}-default", "other"),
    "too short to be looked for": (echo, "x", "k7"),
}


async def send(text: str, *, mine: Mine) -> Sized:
    _, said, token = TOLD[text]
    return Sized(size=len(await mine.dig(said, token)))


async def name(text: str, *, mine: Mine) -> Sized:
    return Sized(size=len(await mine.dig(text, "token")))


def work(run: Any) -> Graph:
    return Graph("work", state=Work, entry=run, nodes=[node(run, goes={Sized: END})], takes=["text"], gives="size")


async def events_of(engine: EngineName, run: Any, inner: Any, text: str) -> list[Event]:
    events: list[Event] = []
    app = Interlock(Settings(engine=engine), grants={Mine: mine(inner), Tools: RealTools()})
    result = await app.run(work(run), text, on_event=events.append)
    assert result.error is None
    return events


@pytest.mark.parametrize("case", TOLD)
async def test_a_secret_is_in_no_event(engine: EngineName, case: str):
    inner, _, token = TOLD[case]
    told = json.dumps(await events_of(engine, send, inner, case))
    assert not any(secret in told for secret in (CANARY, token, "g5"))


async def test_a_secret_that_is_an_ordinary_word_hides_no_field_of_an_inner_graph(engine: EngineName):
    events = {(event["event"], event["name"]): event["data"] for event in await events_of(engine, name, echo, "a token")}
    assert events["on_chain_start", "mine"]["input"].keys() == {"text", "token"}
    assert events["on_chain_end", "mine"]["output"].keys() == {"gem"}
    assert events["on_chain_end", "name/echo"]["output"].keys() == {"gem"}
