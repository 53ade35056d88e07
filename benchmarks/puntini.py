"""What a step of puntini costs over the statements of the database that it makes: by the store, and by ladybug in this process."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import ladybug
from figures import Figure, at_most, ratio
from pydantic import BaseModel

from interlock import Interlock, Settings
from interlock.capabilities import Decision, Message, Model
from interlock.models.stub import StubModel
from interlock_agents.puntini.graph_store import AddNode, GraphStore, Node
from interlock_agents.puntini.graphs.ladybug import LadybugGraphs, open_ladybug
from interlock_agents.puntini.graphs.process import LadybugProcess, Result, Statement
from interlock_agents.puntini.spec import ParsedGoal

T = TypeVar("T", bound=BaseModel)
STEPS, ROUNDS = 20, 25
SAMPLE = "sample"


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


def added(key: str) -> tuple[AddNode]:
    return (AddNode(node=Node(label="Task", key=key)),)


async def statements_of_a_step(store: LadybugGraphs) -> list[Statement]:
    """Listen to what the store says to the database when it adds a node to a table that is there."""
    said: list[Statement] = []
    run = LadybugProcess.run

    def heard(self: LadybugProcess, statements: Sequence[Statement], **how: Any) -> list[Result]:
        said.extend(statements)
        return run(self, statements, **how)

    await store.apply("bare", added("first"))
    with mock.patch.object(LadybugProcess, "run", heard):
        await store.apply("bare", added(SAMPLE))
    return said


class Bare:
    """Ladybug in this process, without Interlock, opened as the store opens it."""

    def __init__(self, path: Path, statements: Sequence[Statement]) -> None:
        database: Any = ladybug.Database(str(path), buffer_pool_size=2**28, max_db_size=2**36, max_num_threads=2)
        self._connection: Any = ladybug.Connection(database)
        self._connection.execute("CREATE NODE TABLE Task(key STRING PRIMARY KEY, interlock_kept STRING)")
        self._statements = statements

    def add(self, key: str) -> None:
        """Make the statements that the store makes."""
        for text, values, *_ in self._statements:
            self._run(text, {name: key if value == SAMPLE else value for name, value in values.items()})

    def add_in_a_transaction(self, key: str) -> None:
        """Create them as one would by hand, without knowing that there is no other writer."""
        self._run("BEGIN TRANSACTION", {})
        self.add(key)
        self._run("COMMIT", {})

    def _run(self, text: str, values: dict[str, Any]) -> None:
        with self._connection.execute(text, values) as result:
            result.get_all()


async def measure_puntini() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as path:
        folder = Path(path)
        store = open_ladybug(folder / "graphs", timeout_s=10, max_rows=1000, max_bytes=10**6)
        settings = Settings.model_validate({"engine": "direct", "data_dir": folder, "checkpoint_url": "memory:", "human": "nobody"})
        app = Interlock(settings, grants={Model: InstantModel(), GraphStore: store})
        bare = Bare(folder / "bare.lbug", await statements_of_a_step(store))
        times: dict[str, list[float]] = {"turn": [], "store": [], "bare": [], "transaction": []}
        for number in range(ROUNDS + 1):
            spent = dict.fromkeys(times, 0.0)
            start = time.perf_counter()
            await app.run("puntini", "Add them.", session="turns")
            spent["turn"] = time.perf_counter() - start
            for step in range(STEPS):  # in turns: a slow moment of the disk hits all of them
                start = time.perf_counter()
                await store.apply("bare", added(f"{number}-{step}"))
                stored = time.perf_counter()
                bare.add(f"{number}-{step}")
                alone = time.perf_counter()
                bare.add_in_a_transaction(f"{number}-{step}-too")
                done = time.perf_counter()
                spent["store"] += stored - start
                spent["bare"] += alone - stored
                spent["transaction"] += done - alone
            if number:  # the first opens files
                for name, seconds in spent.items():
                    times[name].append(seconds)
        await app.close()
        await store.aclose()
    per_step = {name: statistics.median(some) / STEPS * 1e3 for name, some in times.items()}
    return [
        Figure("puntini: a step that adds a node, on direct", per_step["turn"], "ms"),
        Figure("the store's own call for it", per_step["store"], "ms"),
        Figure("the same statements by ladybug, in this process", per_step["bare"], "ms"),
        Figure("the same between BEGIN and COMMIT", per_step["transaction"], "ms"),
        at_most("a step / the same statements by ladybug", ratio(times["turn"], times["bare"]), 3),
        Figure("a step / the same between BEGIN and COMMIT", ratio(times["turn"], times["transaction"]), "x"),
        Figure("a step / the store's own call", ratio(times["turn"], times["store"]), "x"),
        Figure("the store's own call / the same statements by ladybug", ratio(times["store"], times["bare"]), "x"),
    ]
