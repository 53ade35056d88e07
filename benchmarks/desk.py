"""What a turn of the desk costs beside the two round trips to the session's server that it needs."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import redis.asyncio
from figures import Figure, at_most, ratio
from pydantic_core import to_json

from interlock import Interlock, Settings
from interlock.capabilities import Message, Model, ModelReply, Tool
from interlock.models.stub import StubModel
from interlock.stores.valkey import EmbeddedValkey
from interlock_agents.desk.roles import PlannerResponse

ROUNDS = 15
SESSIONS = 200
PLAN = '{"goal": {"goal_type": "sales.chat"}}'
ANSWER = '{"message": "All is well."}'

Work = Callable[[str], Awaitable[object]]


class InstantModel(StubModel):
    """A planner that has one plan, and a specialist that has one answer."""

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
        del messages, tools
        return ModelReply(text=PLAN if schema is PlannerResponse else ANSWER, model="instant")


def desk(app: Interlock) -> Work:
    async def turn(session: str) -> object:
        result = await app.run("desk", "Hello there", session=session)
        if result.error is not None:
            raise RuntimeError(result.error)
        return result

    return turn


def round_trips(server: redis.asyncio.Redis, document: bytes) -> Work:
    """Read a document and write it: what no desk can do without."""

    async def two(session: str) -> object:
        await server.get(f"bare:{session}")
        return await server.set(f"bare:{session}", document, ex=86400)

    return two


async def one_after_the_other(work: Work, count: int) -> float:
    gc.collect()
    start = time.perf_counter()
    for _ in range(count):
        await work("alone")
    return (time.perf_counter() - start) / count


async def at_once(work: Work) -> float:
    """Return how many sessions a second are served, all of them at once."""
    gc.collect()  # what the last round left behind is not this one's
    start = time.perf_counter()
    await asyncio.gather(*(work(f"session-{number}") for number in range(SESSIONS)))
    return SESSIONS / (time.perf_counter() - start)


async def beside(bare: Work, work: Work, *, rounds: int) -> tuple[list[float], list[float]]:
    """Compare two works, in turns: what one of them leaves behind is not to fall on a third."""
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        rates[0].append(await at_once(bare))
        rates[1].append(await at_once(work))
    return rates


async def measure_desk() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        settings = [Settings.model_validate({"engine": engine, "data_dir": folder}) for engine in ("direct", "langgraph")]
        apps = [Interlock(one, grants={Model: InstantModel()}) for one in settings]
        valkey = EmbeddedValkey(Path(folder) / "valkey")
        pool = redis.asyncio.BlockingConnectionPool.from_url(f"unix://{await valkey.address()}", max_connections=32)
        server = redis.asyncio.Redis.from_pool(pool)
        async with aclosing(valkey), apps[0], apps[1], server:
            return await _measure(dict(zip(("direct", "langgraph"), map(desk, apps), strict=True)), server, apps[0])


async def _measure(desks: dict[str, Work], server: redis.asyncio.Redis, app: Interlock) -> list[Figure]:
    first = await app.run("desk", "Hello there", session="alone")
    bare = round_trips(server, to_json(first.state["session"]))
    works = {"two round trips": bare, **desks}
    counts = {"two round trips": 100, "direct": 50, "langgraph": 5}
    for name, work in works.items():
        await one_after_the_other(work, counts[name])
        await at_once(work)
    alone: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            alone[name].append(await one_after_the_other(work, counts[name]))
    direct = await beside(bare, desks["direct"], rounds=ROUNDS)
    langgraph = await beside(bare, desks["langgraph"], rounds=3)
    together = {"two round trips": direct[0], "direct": direct[1], "langgraph": langgraph[1]}
    figures = [Figure(f"desk, time of a turn, {name}", statistics.median(times) * 1e6, "us") for name, times in alone.items()]
    figures += [
        Figure(f"desk, {SESSIONS} sessions at once, {name}", statistics.median(rates), "turns/s") for name, rates in together.items()
    ]
    figures.append(at_most("desk on direct / two round trips", ratio(alone["direct"], alone["two round trips"]), 3))
    figures.append(Figure("desk on langgraph / two round trips", ratio(alone["langgraph"], alone["two round trips"]), "x"))
    figures.append(at_most(f"{SESSIONS} at once: round trips / direct", ratio(*direct), 3))
    return [*figures, Figure(f"{SESSIONS} at once: round trips / langgraph", ratio(*langgraph), "x")]
