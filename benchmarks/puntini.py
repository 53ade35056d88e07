"""What a step of puntini costs over the calls of the database that it makes: by the store alone, and by ladybug itself."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import ladybug
from figures import Figure, at_most, ratio
from pydantic import BaseModel

from interlock import Interlock, Settings
from interlock.adapters.graphs.ladybug import open_ladybug
from interlock.adapters.models.stub import StubModel
from interlock.agents.puntini.spec import ParsedGoal
from interlock.capabilities import Decision, Message, Model
from interlock.capabilities.graph_store import AddNode, GraphStore, Node

T = TypeVar("T", bound=BaseModel)
STEPS, ROUNDS = 20, 12


class InstantModel(StubModel):
    """Plans one node after the other."""

    def __init__(self) -> None:
        self._planned = 0

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        del messages
        if schema is ParsedGoal:
            goal = {"original_goal": "g", "intent": "i", "complexity": "complex", "estimated_steps": STEPS}
            return Decision(value=schema.model_validate({"goal": goal}))
        self._planned += 1
        call = {"tool_name": "add_node", "tool_args": {"label": "Task", "key": f"planned-{self._planned}"}}
        is_last = self._planned % STEPS == 0
        return Decision(value=schema.model_validate({"step_number": 1, "tool_signature": call, "is_final_step": is_last}))


async def measure_puntini() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as name:
        folder = Path(name)
        store = open_ladybug(folder / "graphs", timeout_s=10, max_rows=1000, max_bytes=10**6)
        settings = Settings.model_validate({"engine": "direct", "data_dir": folder, "checkpoint_url": "memory:", "human": "nobody"})
        app = Interlock(settings, grants={Model: InstantModel(), GraphStore: store})
        database: Any = ladybug.Database(str(folder / "bare.lbug"))
        connection: Any = ladybug.Connection(database)
        connection.execute("CREATE NODE TABLE Task(key STRING PRIMARY KEY)")
        times: dict[str, list[float]] = {"turn": [], "store": [], "ladybug": []}
        for number in range(ROUNDS + 1):
            start = time.perf_counter()
            await app.run("puntini", "Add them.", session="turns")
            turn = time.perf_counter()
            for step in range(STEPS):
                await store.apply("bare", (AddNode(node=Node(label="Task", key=f"{number}-{step}")),))
            stored = time.perf_counter()
            for step in range(STEPS):
                connection.execute("MERGE (n:Task {key: $key})", {"key": f"{number}-{step}"})
            done = time.perf_counter()
            if number:  # the first opens files
                times["turn"].append(turn - start)
                times["store"].append(stored - turn)
                times["ladybug"].append(done - stored)
        await app.close()
        await store.aclose()
    return [
        Figure("puntini: a step that adds a node, on direct", statistics.median(times["turn"]) / STEPS * 1e3, "ms"),
        at_most("a step / the store's own call", ratio(times["turn"], times["store"]), 3),
        Figure("a step / ladybug's own statement, in this process", ratio(times["turn"], times["ladybug"]), "x"),
    ]
