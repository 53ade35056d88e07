"""An agent with effects that are counted outside: it sends a first parcel, does what its text says, and sends a last one.

`wait 5` waits for five seconds between the two, `ask` asks a person, `ask ask` twice, anything else does nothing in between.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from interlock import END, Agent, Capability, Graph, Outcome, Reply, Untrusted, node
from interlock.capabilities import Human, Question
from interlock.capabilities.capability import asks, keyed
from interlock.providers.provider import Context, Provider

__all__ = ["agent", "sent"]


class Courier(Capability, Protocol):
    @keyed
    async def send(self, parcel: str) -> None: ...

    @asks
    async def wait(self, seconds: float) -> None: ...


class FileCourier:
    """Writes a line for every parcel that is sent, and for every wait that begins."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def send(self, parcel: str) -> None:
        self._write(parcel)

    async def wait(self, seconds: float) -> None:
        self._write("wait")
        await asyncio.sleep(seconds)

    def _write(self, line: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(f"{line}\n")


def sent(folder: Path) -> list[str]:
    """Return what happened outside, in its order."""
    path = folder / "sent"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def _open(context: Context) -> Courier:
    return FileCourier(context.settings.folder / "sent")


@dataclass
class State:
    text: Annotated[str, Untrusted]
    answer: Annotated[str, Untrusted] = ""


class Started(Outcome): ...


class Waited(Outcome):
    answer: Annotated[str, Untrusted]


class Delivered(Outcome): ...


async def start(text: str, *, courier: Courier) -> Started:
    await courier.send(f"{text}: first")
    return Started()


async def pause(text: str, *, courier: Courier, human: Human) -> Waited:
    if text.startswith("wait "):
        await courier.wait(float(text.split()[1]))
        return Waited(answer=f"waited after {text}")
    if text.startswith("ask"):
        answers = [str(await human.ask(Question(text="Which colour?"))) for _ in range(text.count("ask"))]
        return Waited(answer=f"answered {' '.join(answers)}")
    return Waited(answer=f"delivered {text}")


async def deliver(text: str, *, courier: Courier) -> Delivered:
    await courier.send(f"{text}: last")
    return Delivered()


graph = Graph(
    "parcels",
    state=State,
    entry=start,
    takes=("text",),
    gives="answer",
    nodes=[node(start, goes={Started: pause}), node(pause, goes={Waited: deliver}), node(deliver, goes={Delivered: END})],
)

agent = Agent(
    name="parcels",
    summary="sends parcels",
    graphs=(graph,),
    entries={None: graph},
    reply=lambda state: Reply(output=state["answer"]),
    has_sessions=True,
    pauses=True,
    providers=(Provider(capabilities=(Courier,), open=_open),),
)
