"""Three graphs, each inside a node of the other, for tests of graphs inside graphs."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, Subgraph, TurnResult, node
from interlock.capabilities import Message, Model
from interlock.engine import EngineName
from interlock.errors import MediaMalformed
from interlock.runtime.events import Event


class Top(TypedDict, total=False):
    text: str
    found: str
    out: str


class Bottom(TypedDict, total=False):
    text: str
    word: str
    made: str | None


class Begun(Outcome):
    found: str


class Done(Outcome):
    out: str


class Picked(Outcome):
    word: str


class Made(Outcome):
    made: str | None


class Stray(Outcome):
    word: str


class Mid(Capability, Protocol):
    async def go(self, text: str) -> str: ...


class Low(Capability, Protocol):
    async def fetch(self, text: str) -> str: ...


class Hands(Capability, Protocol):
    async def take(self, what: str) -> str: ...


class RealHands:
    def __init__(self) -> None:
        self.taken: list[str] = []

    async def take(self, what: str) -> str:
        self.taken.append(what)
        await asyncio.sleep(0)
        return what


def stumble(text: str, name: str) -> None:
    """Go wrong in the one node that the text names, in the way that it says."""
    if text == f"{name} raises":
        raise RuntimeError("broken")
    if text == f"{name} raises typed":
        raise MediaMalformed("It is torn.")


def settled(made: Outcome, text: str, name: str) -> Any:
    return Stray(word="") if text == f"{name} strays" else made


async def pick(text: str, *, hands: Hands) -> Picked:
    stumble(text, "pick")
    return settled(Picked(word=await hands.take(text)), text, "pick")


async def polish(word: str) -> Made:
    stumble(word, "polish")
    return settled(Made(made=None if word == "nothing" else f"{word}!"), word, "polish")


async def begin(text: str) -> Begun:
    stumble(text, "begin")
    return settled(Begun(found=text), text, "begin")


async def descend(found: str, *, low: Low) -> Done:
    stumble(found, "descend")
    return settled(Done(out=await low.fetch(found)), found, "descend")


async def enter(text: str, *, mid: Mid) -> Begun:
    stumble(text, "enter")
    return settled(Begun(found=await mid.go(text)), text, "enter")


async def leave(text: str, found: str, *, hands: Hands) -> Done:
    stumble(text, "leave")
    return settled(Done(out=f"{found} {await hands.take('hat')}"), text, "leave")


low_graph = Graph(
    "low",
    state=Bottom,
    entry=pick,
    nodes=[node(pick, goes={Picked: polish}), node(polish, goes={Made: END})],
    takes=["text"],
    gives="made",
)
mid_graph = Graph(
    "mid",
    state=Top,
    entry=begin,
    nodes=[node(begin, goes={Begun: descend}), node(descend, goes={Done: END})],
    takes=["text"],
    gives="out",
    max_steps=2,
)
top_graph = Graph(
    "top",
    state=Top,
    entry=enter,
    nodes=[node(enter, goes={Begun: leave}), node(leave, goes={Done: END})],
    takes=["text"],
    gives="out",
    max_steps=2,
)
PATH = ("enter", "enter/begin", "enter/descend", "enter/descend/pick", "enter/descend/polish", "leave")


def app(engine: EngineName, more: dict[type, object] | None = None, **options: Any) -> Interlock:
    grants = {Mid: Subgraph(mid_graph), Low: Subgraph(low_graph), Hands: RealHands()}
    return Interlock(Settings(engine=engine, **options), grants={**grants, **(more or {})})


def one(run: Any, *, outcome: type[Outcome] = Done, **options: Any) -> Graph:
    return Graph("top", state=Top, entry=run, nodes=[node(run, goes={outcome: END})], takes=["text"], gives="out", **options)


def failure(result: TurnResult) -> tuple[str, str | None]:
    assert result.error is not None
    return result.error.code, result.error.node


async def ask(text: str, *, model: Model) -> Made:
    return Made(made=(await model.reply([Message(role="user", text=text)])).text)


ask_graph = Graph("asking", state=Bottom, entry=ask, nodes=[node(ask, goes={Made: END})], takes=["text"], gives="made")


async def pass_on(text: str, *, low: Low) -> Done:
    return Done(out=await low.fetch(text))


class Gatekeeper:
    """Lets nobody through, and knows who was there."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.cancelled = 0

    async def take(self, what: str) -> str:
        self.reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return what


def open_runs(events: list[Event]) -> list[str]:
    """Name the runs that began and did not end inside the run that they began in, or ended more than once."""
    wrong: list[str] = []
    running: dict[str, str] = {}
    for event in events:
        name, run = event["name"], event["run_id"]
        if event["event"].endswith("_start"):
            wrong += [name for parent in event["parent_ids"] if parent not in running]
            running[run] = name
        elif running.pop(run, None) is None or any(run in other["parent_ids"] and other["run_id"] in running for other in events):
            wrong.append(name)
    return [*wrong, *running.values()]
