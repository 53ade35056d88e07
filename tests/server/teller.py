"""An agent whose model says a word at a time, when a test lets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Protocol

from interlock import END, Agent, Capability, Graph, Outcome, Reply, Untrusted, node
from interlock.capabilities.capability import asks, emits
from interlock.capabilities.model import Chunk, Usage
from interlock.errors import ModelUnavailable
from interlock.providers.provider import Context, Provider

__all__ = ["agent", "held_back"]

_held: list[asyncio.Event] = []


@contextmanager
def held_back() -> Generator[asyncio.Event]:
    """Let the model say two chunks only, until the event that this returns is set."""
    event = asyncio.Event()
    _held.append(event)
    try:
        yield event
    finally:
        _held.remove(event)
        event.set()


class Teller(Capability, Protocol):
    @asks
    @emits("chat_model")
    def tell(self, text: str) -> AsyncIterator[Chunk]: ...


class WordTeller:
    async def tell(self, text: str) -> AsyncIterator[Chunk]:
        words = text.split(" ")
        for number, word in enumerate(words):
            yield Chunk(
                text=word if number == 0 else f" {word}", usage=Usage(input_tokens=3, output_tokens=4) if word == words[-1] else None
            )
            for event in _held if number else ():
                await event.wait()
        if text.endswith("fails"):
            raise ModelUnavailable("The model went away.")


def _open(_: Context) -> Teller:
    return WordTeller()


@dataclass
class State:
    text: Annotated[str, Untrusted]
    thought: Annotated[str, Untrusted] = ""
    told: Annotated[str, Untrusted] = ""


class Thought(Outcome):
    thought: Annotated[str, Untrusted]


class Told(Outcome):
    told: Annotated[str, Untrusted]


async def _all(chunks: AsyncIterator[Chunk]) -> Sequence[str]:
    return [chunk.text async for chunk in chunks]


async def think(text: str, *, teller: Teller) -> Thought:
    return Thought(thought="".join(await _all(teller.tell("do not say this"))) if text.startswith("think") else "")


async def tell(text: str, *, teller: Teller) -> Told:
    told = "".join(await _all(teller.tell(text)))
    return Told(told=told.upper() if text.endswith("loudly") else told)


graph = Graph(
    "teller",
    state=State,
    entry=think,
    takes=("text",),
    gives="told",
    nodes=[node(think, goes={Thought: tell}), node(tell, goes={Told: END})],
)

agent = Agent(
    name="teller",
    summary="says what it is told",
    graphs=(graph,),
    entries={None: graph},
    reply=lambda state: Reply(output=state["told"]),
    speaks="tell",
    providers=(Provider(capabilities=(Teller,), open=_open),),
)
