"""An agent whose effects are counted outside of it, and the processes that run its turns, for the tests to kill and to freeze.

`python -m tests.faults.tally` imports everything once, and forks a process for each line that it reads: starting one takes a few
milliseconds. A process has no locks outside the turn store: it appends lines to one log, and applies an effect by creating a file.
"""

# ruff: noqa: T201 - the processes talk to the tests
from __future__ import annotations

import asyncio
import contextlib
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

__all__ = ["EFFECTS", "LEASE_S", "TALLY", "Far", "Log", "open_app"]

EFFECTS = 4
"""How many keyed effects a turn has."""

LEASE_S = 3.0
"""How long a lease is by default."""

_REPEATS = 20

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
    """Applies an effect once for each idempotency key, as a payment service does. Every attempt is in the log."""

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
        with contextlib.suppress(FileExistsError):
            (self._log.folder / "applied" / idempotency_key).touch(exist_ok=False)
            self._log.write("applied", turn=what, number=number, key=idempotency_key)
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


def open_app(folder: Path, turn_url: str, checkpoint_url: str, *, slowest_s: float = 0.03, engine: str = "direct") -> Interlock:
    """Open the application of one process."""
    (folder / "applied").mkdir(exist_ok=True)
    settings = {"data_dir": folder, "turn_url": turn_url, "checkpoint_url": checkpoint_url, "model": "offline", "engine": engine}
    return Interlock(Settings.model_validate(settings), grants={Far: FarSide(Log(folder), slowest_s=slowest_s)})


class LoggedLease(Lease):
    """A lease whose claim is in the log, with its epoch."""

    log: Log

    def __init__(self, store: TurnStore, claim: Claim, **given: Any) -> None:
        super().__init__(store, claim, **given)
        _EPOCH.set(claim.turn.epoch)
        # By the store's clock: a worker that is frozen after the store has committed its claim writes this line when it thaws.
        claimed = (claim.turn.lease_until or 0.0) - LEASE_S
        self.log.write("claim", turn=claim.turn.turn, epoch=claim.turn.epoch, claimed=claimed)


async def _work(app: Interlock, log: Log) -> None:
    """Run turns until the process is ended."""
    async with app:
        await app.work([TALLY, "sam", "analyst"], concurrency=4, on_ready=(log.folder / f"ready-{os.getpid()}").touch)


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
    app = open_app(folder, order["turn_url"], order["checkpoint_url"], slowest_s=order["slowest_s"])
    log.write("start")
    asyncio.run(_call(app, log, order["calls"]) if "calls" in order else _work(app, log))


async def _warm_up() -> None:
    """Import what a turn imports."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_app(Path(folder), "memory:", "memory:") as app:
            for agent in (TALLY, "sam", "analyst"):
                await app.run(agent, "How many orders are there?", session="s", turn=f"{agent}"[:5])


def _main() -> None:
    importlib.import_module("interlock.stores.turns_postgres")
    asyncio.run(_warm_up())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            with open(Path(json.loads(line)["folder"]) / f"stderr-{os.getpid()}", "w", encoding="utf-8") as stderr:  # noqa: PTH123 - as it is
                os.dup2(stderr.fileno(), 2)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                _become(json.loads(line))
            finally:
                sys.stderr.flush()
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    _main()
