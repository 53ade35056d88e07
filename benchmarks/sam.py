"""What a turn of sam costs beside a bare loop and beside LangGraph by hand, and what the gate costs with everything on."""

from __future__ import annotations

import asyncio
import gc
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping

from figures import Figure, at_least, at_most, ratio
from sam_bare import bare_sam
from sam_by_hand import by_hand_sam

from interlock import Interlock, Settings
from interlock.runtime.events import Event
from interlock.runtime.limits import Limits
from interlock_agents.sam.backends import StubBackend
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest, ModelResponse

Turn = Callable[[str], Awaitable[object]]
ROUNDS = 25
OFF: dict[str, object] = {"redact": (), **dict.fromkeys(Limits.__dataclass_fields__)}
"""No budgets, no deadlines, no redaction, and no listener."""


class SlowModel:
    """A model that takes 50 ms."""

    async def generate(self, request: ModelRequest) -> ModelResponse:
        await asyncio.sleep(0.05)
        return ModelResponse(status="success", output="done", metadata={"backend": "slow", "trace_id": request.trace_id})


def interlock_sam(engine: str, model: ModelBackend | None = None, settings: Mapping[str, object] | None = None) -> Turn:
    app = Interlock(
        Settings.model_validate({"engine": engine, "model": "stub", **(settings or {})}), grants={ModelBackend: model} if model else {}
    )

    async def turn(text: str) -> object:
        return await app.run("sam", text)

    return turn


def watched_sam(engine: str) -> Turn:
    """As turns are by default, with a listener."""
    app = Interlock(Settings.model_validate({"engine": engine, "model": "stub"}))
    seen = 0

    def look(event: Event) -> None:
        nonlocal seen
        seen += len(event["data"])

    async def turn(text: str) -> object:
        return await app.run("sam", text, on_event=look)

    return turn


async def cpu_per_turn(turns: dict[str, tuple[Turn, int]]) -> dict[str, list[float]]:
    """Measure CPU seconds a turn, everyone once in every round, so that a slow moment hits all of them."""
    for turn, count in turns.values():
        for _ in range(count):
            await turn("warm up")
    found: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(ROUNDS):
        for name, (turn, count) in turns.items():
            gc.collect()
            start = time.process_time()
            for _ in range(count):
                await turn("hello there")
            found[name].append((time.process_time() - start) / count)
    return found


async def rate(turn: Turn, *, turns: int, at_once: int) -> float:
    """Count turns a second with this many under way at once."""
    start = time.perf_counter()
    for _ in range(turns // at_once):
        await asyncio.gather(*(turn("hello there") for _ in range(at_once)))
    return turns / (time.perf_counter() - start)


async def measure_sam() -> list[Figure]:
    stub = StubBackend()
    found = await cpu_per_turn(
        {
            "bare": (bare_sam(stub), 400),
            "direct, everything off": (interlock_sam("direct", settings=OFF), 200),
            "direct": (interlock_sam("direct"), 200),
            "direct, everything on": (watched_sam("direct"), 100),
            "by hand": (by_hand_sam(stub), 10),
            "langgraph, everything off": (interlock_sam("langgraph", settings=OFF), 10),
            "langgraph": (interlock_sam("langgraph"), 10),
        }
    )
    figures = [Figure(f"sam, CPU of a turn, {name}", statistics.median(times) * 1e6, "us") for name, times in found.items()]
    off, on = found["direct, everything off"], found["direct, everything on"]
    more = statistics.median(a - b for a, b in zip(on, off, strict=True))
    figures += [
        at_most("direct / bare loop", ratio(found["direct"], found["bare"]), 10),
        at_least("langgraph engine / direct, everything off", ratio(found["langgraph, everything off"], off), 50),
        at_most("langgraph engine / LangGraph by hand", ratio(found["langgraph"], found["by hand"]), 1.1),
        at_most("the gate with everything on: CPU more", more * 1e6, 150, "us"),
    ]

    slow = SlowModel()
    bare, direct = bare_sam(slow), interlock_sam("direct", slow)
    await rate(direct, turns=1000, at_once=1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rates: dict[str, list[float]] = {"bare": [], "direct": []}
    for _ in range(7):
        rates["bare"].append(await rate(bare, turns=2000, at_once=1000))
        rates["direct"].append(await rate(direct, turns=2000, at_once=1000))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return [
        *figures,
        Figure("1,000 at once, 50 ms model: bare loop", statistics.median(rates["bare"]), "turns/s"),
        Figure("1,000 at once, 50 ms model: direct", statistics.median(rates["direct"]), "turns/s"),
        at_least("of the bare loop's rate, direct reaches", ratio(rates["direct"], rates["bare"]), 1 / 3),
        at_most("memory growth over 14,000 such turns", grown, 20, "MB"),
    ]
