"""One library in a process of its own: takes turns of sam and makes mistakes, when a line on standard input says so."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from interlock_agents.sam.backends import StubBackend
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest, ModelResponse

Turn = Callable[[str], Awaitable[Any]]
SLICE = 0.1
"""How long a slice of turns takes, in seconds, more or less."""


class SlowModel:
    """A model that takes 50 ms."""

    async def generate(self, request: ModelRequest) -> ModelResponse:
        await asyncio.sleep(0.05)
        return ModelResponse(status="success", output="done", metadata={"backend": "slow", "trace_id": request.trace_id})


def sam_on(subject: str) -> Callable[[ModelBackend], Turn]:
    """Find sam as it is written for a subject. Only that library is imported."""
    match subject:
        case "direct" | "langgraph":
            from interlock import Interlock, Settings  # noqa: PLC0415 - only where it is measured

            def interlock_sam(model: ModelBackend) -> Turn:
                app = Interlock(Settings.model_validate({"engine": subject}), grants={ModelBackend: model})

                async def turn(text: str) -> Any:
                    return await app.run("sam", text)

                return turn

            return interlock_sam
        case "by_hand":
            return importlib.import_module("benchmarks.sam_by_hand").by_hand_sam
        case _:
            return getattr(importlib.import_module(f"benchmarks.compare.on_{subject}"), f"{subject}_sam")


async def take(turn: Turn, count: int) -> dict[str, float]:
    """Take turns one after the other; return the seconds and the CPU seconds of one."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        await turn("hello there")
    return {"wall": (time.perf_counter() - wall) / count, "cpu": (time.process_time() - cpu) / count}


async def take_at_once(turn: Turn, count: int) -> dict[str, float]:
    """Take turns all at once; return how many a second were taken, and the CPU seconds of one."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(turn("hello there") for _ in range(count)))
    return {"rate": count / (time.perf_counter() - wall), "cpu": (time.process_time() - cpu) / count}


def judge(build: Callable[[], Callable[[], Awaitable[object]]]) -> dict[str, str]:
    """Say when a mistake is caught, and by what."""
    try:
        run = build()
    except Exception as error:  # noqa: BLE001 - whatever it is, it was said while building
        return {"caught": "build", "said": said(error)}
    try:
        ended = asyncio.run(_wait(run()))
    except Exception as error:  # noqa: BLE001 - the same, while running
        return {"caught": "run", "said": said(error)}
    return {"caught": "dropped" if ended == "dropped" else "no", "said": ""}


async def _wait(work: Awaitable[object]) -> object:
    return await work


def said(error: Exception) -> str:
    """Write an error in a line that says nothing of this machine."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:160]


def answers(subject: str, mistakes: str) -> Iterator[dict[str, Any]]:
    """Answer the requests one by one. The first answer says how many turns are in a slice."""
    with asyncio.Runner() as runner:
        sam = sam_on(subject)
        instant, slow = sam(StubBackend()), sam(SlowModel())
        ended = runner.run(_wait(instant("hello there")))
        if getattr(ended, "output", None) != "This is a stubbed response.":
            raise RuntimeError(f"'{subject}' does not do what sam does: {ended!r}")
        runner.run(take(instant, 20))
        count = max(1, round(SLICE / runner.run(take(instant, 20))["wall"]))
        yield {"count": count}
        for line in sys.stdin:
            match json.loads(line):
                case "turns":
                    yield runner.run(take(instant, count))
                case ["at once", int(number)]:
                    yield runner.run(take_at_once(slow, number))
                case _:
                    module = importlib.import_module(f"benchmarks.compare.mistakes_{mistakes}")
                    yield {build.__name__: judge(build) for build in module.MISTAKES}


def main() -> None:
    # A library that prints must not be taken for an answer.
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for answer in answers(sys.argv[1], sys.argv[2]):
        told.write(json.dumps(answer) + "\n")
        told.flush()


if __name__ == "__main__":
    main()
