"""An agent whose effects are counted outside of it, and the processes that run its turns, for the tests to kill and to freeze.

`python -m tests.faults.tally` imports everything once, and forks a process for each line that it reads: starting one takes a few
milliseconds. A process has no locks outside the turn store: it appends lines to one log, and applies an effect by creating a file.
"""

# ruff: noqa: T201 - the processes talk to the tests
from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol

from interlock import END, Agent, Capability, Graph, Interlock, Outcome, Settings, node
from interlock.capabilities.capability import asks, keyed
from interlock.dispatch import embedded
from interlock.errors import InterlockError
from interlock.reply import Reply
from interlock.runtime.turns import Claim, TurnStore
from interlock.runtime.worker import Lease
from interlock.stores.turns_sqlite import SqliteTurns

__all__ = ["EFFECTS", "LEASE_S", "TALLY", "Far", "Log", "agents", "open_app", "set_clock"]

EFFECTS = 4
"""How many keyed effects a turn has."""

LEASE_S = 3.0
"""How long a lease is by default."""

_REPEATS = 20
_PR_SET_PDEATHSIG = 1

_EPOCH: ContextVar[int] = ContextVar("epoch", default=0)


class Log:
    """Lines of several processes in one file. A line is written at once, so a process that is killed leaves none half done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = os.open(folder / "log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def write(self, kind: str, **fields: Any) -> None:
        line = {"kind": kind, "pid": os.getpid(), "at": time.time(), **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]


class Far(Capability, Protocol):
    """What is outside: it counts what is done to it."""

    @asks
    async def look(self, what: str) -> str: ...

    @keyed
    async def add(self, what: str, number: int) -> str: ...

    async def pay(self, what: str) -> str: ...


class FarSide:
    """Applies an effect once for each idempotency key, as a payment service does: by a file of that name. Every attempt is in the log."""

    def __init__(self, log: Log, *, slowest_s: float) -> None:
        self._log = log
        self._slowest_s = slowest_s
        self._random = Random(os.getpid())  # noqa: S311 - how long a call takes

    async def look(self, what: str) -> str:
        await asyncio.sleep(self._random.random() * self._slowest_s)
        return f"saw {what}"

    async def add(self, what: str, number: int, *, idempotency_key: str) -> str:
        await asyncio.sleep(self._random.random() * self._slowest_s)
        self._log.write("add", turn=what, number=number, key=idempotency_key, epoch=_EPOCH.get())
        (self._log.folder / "applied" / idempotency_key).touch()
        await asyncio.sleep(self._random.random() * self._slowest_s)
        return f"{number}"

    async def pay(self, what: str) -> str:
        self._log.write("pay", turn=what, epoch=_EPOCH.get())
        await asyncio.sleep(self._random.random() * self._slowest_s)
        return "paid"


@dataclass
class Fields:
    text: str
    said: str
    heard: list[str] = field(default_factory=list[str])


class Added(Outcome):
    said: str


class Paid(Outcome):
    said: str
    heard: list[str]


async def add(text: str, *, far: Far) -> Added:
    seen = await far.look(text)
    numbers = [await far.add(text, number) for number in range(EFFECTS)]
    return Added(said=f"{seen}: {' '.join(numbers)}")


async def pay(text: str, said: str, heard: list[str], *, far: Far) -> Paid:
    if text.startswith("pay"):
        said = f"{said}, {await far.pay(text)}"
    return Paid(said=said, heard=[*heard, text])


def _reply(state: Mapping[str, Any]) -> Reply:
    return Reply(output=state["said"])


_GRAPH = Graph(
    "tally", state=Fields, entry=add, nodes=[node(add, goes={Added: pay}), node(pay, goes={Paid: END})], takes=["text"], gives="said"
)
TALLY = Agent(
    name="tally",
    summary="Counts.",
    graphs=[_GRAPH],
    entries={None: _GRAPH},
    reply=_reply,
    persists=["heard"],
    has_sessions=True,
)


def open_app(folder: Path, settings: Mapping[str, str], *, slowest_s: float = 0.03) -> Interlock:
    """Open the application of one process."""
    (folder / "applied").mkdir(exist_ok=True)
    chosen = Settings.model_validate({"data_dir": folder, "model": "offline", "engine": "direct", "one_machine": True, **settings})
    app = Interlock(chosen, grants={Far: FarSide(Log(folder), slowest_s=slowest_s)})
    if isinstance(app.turns.store, SqliteTurns):
        app.turns.store._now = partial(_now, folder / "clock")  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return app


def set_clock(folder: Path, seconds: float) -> None:
    """Set the clock of all processes on a SQLite file ahead, or back: that file's clock is the machine's."""
    (folder / "clock.new").write_text(str(seconds))
    (folder / "clock.new").replace(folder / "clock")


def _now(clock: Path) -> float:
    try:
        return time.time() + float(clock.read_text())
    except FileNotFoundError:
        return time.time()


def agents(settings: Mapping[str, str]) -> list[Agent | str]:
    """Return the agents that can be run with these settings by several processes."""
    needs = {"desk": "session_url", "puntini": "graph_url"}
    return [TALLY, "sam", "analyst", *(name for name, url in needs.items() if url in settings)]


class LoggedLease(Lease):
    """A lease whose claim is in the log, with its epoch."""

    log: Log

    def __init__(self, store: TurnStore, claim: Claim, **given: Any) -> None:
        super().__init__(store, claim, **given)
        _EPOCH.set(claim.turn.epoch)
        # By the store's clock: a worker that is frozen after the store has committed its claim writes this line when it thaws.
        claimed = (claim.turn.lease_until or 0.0) - LEASE_S
        self.log.write("claim", turn=claim.turn.turn, epoch=claim.turn.epoch, claimed=claimed)


async def _work(app: Interlock, log: Log, served: list[Agent | str]) -> None:
    """Run turns until the process is ended."""
    async with app:
        await app.work(served, concurrency=4, on_ready=(log.folder / f"ready-{os.getpid()}").touch)


async def _call(app: Interlock, log: Log, calls: Sequence[Sequence[str]]) -> None:
    """Run turns, as a caller does, one after the other. A call that the store could not serve is repeated with the same key."""
    said: str | None
    code: str | None
    said = code = None
    async with app:
        for agent, text, session, turn in calls:
            chosen = TALLY if agent == "tally" else agent
            for _ in range(_REPEATS):
                try:
                    result = await app.run(chosen, text, session=session, turn=turn)
                    said, code = result.output, result.error and result.error.code
                except InterlockError as error:
                    said, code = None, error.code
                if code != "store_unavailable":
                    break
                log.write("unavailable", turn=turn)
            log.write("result", turn=turn, output=said, code=code)


def _become(order: dict[str, Any]) -> None:
    """Do what a process was started for."""
    logging.disable(logging.CRITICAL)
    folder = Path(order["folder"])
    LoggedLease.log = log = Log(folder)
    embedded.Lease = LoggedLease
    app = open_app(folder, order["settings"], slowest_s=order["slowest_s"])
    log.write("start")
    asyncio.run(_call(app, log, order["calls"]) if "calls" in order else _work(app, log, agents(order["settings"])))


async def _warm_up() -> None:
    """Import what a turn imports."""
    with tempfile.TemporaryDirectory() as folder:
        memory = {"turn_url": "memory:", "checkpoint_url": "memory:"}
        async with open_app(Path(folder), memory) as app:
            for agent in (TALLY, "sam", "analyst", "desk", "puntini"):
                await app.run(agent, "How many orders are there?", session="s")


def _main() -> None:
    for name in ("interlock.stores.turns_postgres", "interlock.dispatch.temporal", "interlock_agents.puntini.graphs.bolt", "neo4j"):
        importlib.import_module(name)
    asyncio.run(_warm_up())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            for name, descriptor in (("stdout", 1), ("stderr", 2)):
                opened = os.open(Path(json.loads(line)["folder"]) / f"{name}-{os.getpid()}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
                os.dup2(opened, descriptor)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if sys.platform == "linux":
                # Where the tests are killed, the end of its input ends this process, and that ends its children.
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            try:
                _become(json.loads(line))
            finally:
                sys.stderr.flush()
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    _main()
