# Lines that a type checker must accept as they stand.
from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal, Protocol, TypedDict, assert_type

from pydantic import BaseModel

from interlock import END, Capability, Control, Graph, Interlock, Outcome, Present, Secret, Settings, TurnResult, Untrusted, node
from interlock.capabilities import Clock, Ids
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest, ModelResponse
from interlock.testing import CountingIds, FixedClock
from interlock_agents.sam.testing import ScriptedBackend


@dataclass
class Ticket:
    text: Annotated[str, Untrusted]
    token: Annotated[str, Secret] = ""
    kind: Annotated[Literal["bug", "wish"] | None, Control] = None
    log: list[str] = field(default_factory=list[str])


class TicketDict(TypedDict, total=False):
    text: str


class TicketModel(BaseModel):
    text: str


class Sorted(Outcome):
    kind: Literal["bug", "wish"]


class Logged(Sorted):
    log: list[str] = field(default_factory=list[str])


class Unclear(Outcome):
    pass


class Search(Capability, Protocol):
    async def find(self, words: str, *, limit: int = 10) -> list[str]: ...


class RealSearch:
    async def find(self, words: str, *, limit: int = 10) -> list[str]:
        return [words][:limit]


async def sort_ticket(text: str, *, model: ModelBackend, search: Search) -> Sorted | Logged | Unclear:
    response = await model.generate(ModelRequest(prompt=text))
    assert_type(response, ModelResponse)
    found = await search.find(text, limit=1)
    assert_type(found, list[str])
    if found:
        return Logged(kind="bug", log=found)
    return Sorted(kind="wish") if response.output else Unclear()


async def close_ticket(kind: Literal["bug", "wish"] | None, text: Present, *, clock: Clock) -> Unclear:
    assert_type(text, bool)
    assert_type(await clock.now(), datetime)
    return Unclear()


tickets = Graph(
    "tickets",
    state=Ticket,
    entry=sort_ticket,
    nodes=[
        node(sort_ticket, goes={Sorted: close_ticket, Logged: close_ticket, Unclear: END}),
        node(close_ticket, goes={Unclear: END}),
    ],
    takes=["text"],
    gives="kind",
    max_steps=10,
    forbids=[Ids],
)
on_a_typed_dict = Graph("tickets", state=TicketDict, entry=close_ticket, nodes=[node(close_ticket, goes={Unclear: END})])
on_a_model = Graph("tickets", state=TicketModel, entry=close_ticket, nodes=[node(close_ticket, goes={Unclear: END})])


async def a_node_is_tested_with_no_framework() -> None:
    outcome = await sort_ticket("x", model=ScriptedBackend("bug"), search=RealSearch())
    assert outcome == Sorted(kind="bug")
    if isinstance(outcome, Sorted):
        assert_type(outcome.kind, Literal["bug", "wish"])


async def a_graph_is_run() -> None:
    interlock = Interlock(Settings(engine="direct"), grants={Clock: FixedClock(), Ids: CountingIds(), Search: RealSearch()})
    assert_type(await interlock.run(tickets, "x"), TurnResult)
    assert_type(await interlock.run("sam", {"raw_input": "x"}), TurnResult)
    async for event in interlock.stream(tickets, "x"):
        assert_type(event["name"], str)


async def a_capability_is_implemented(search: Search) -> AsyncIterator[str]:
    for text in await search.find("words"):
        yield text


granted: Search = RealSearch()
clock: Clock = FixedClock()
