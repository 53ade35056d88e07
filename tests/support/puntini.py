"""What the tests of puntini share: an application on a graph of its own, scripts for its model, stores that fail or count."""

from __future__ import annotations

import itertools
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import JsonValue

from interlock import Interlock, Settings, TurnResult
from interlock.capabilities import Clock, Ids, Model, Timer
from interlock.engine import EngineName
from interlock.errors import StoreUnavailable
from interlock.testing import CountingIds, FixedClock, Scripted, ScriptedModel
from interlock_agents.puntini.graph_store import Change, Changed, Edge, GraphStore, Node, NodeRef, Rows
from interlock_agents.puntini.graphs.bolt import open_bolt
from interlock_agents.puntini.graphs.ladybug import open_ladybug
from tests.support.arcadedb import shared_server

NUMBERS = itertools.count(1)
STORES = ("ladybug", "bolt")
LIMITS: dict[str, Any] = {"timeout_s": 10.0, "max_rows": 1000, "max_bytes": 500_000}

ESCALATED = ("escalate", "answer")
STEP = ("plan_step", "route_tool", "call_tool", "evaluate")


class Closing(GraphStore, Protocol):
    async def aclose(self) -> None: ...


def tool(name: str, **args: Any) -> dict[str, Any]:
    return {"tool_name": name, "tool_args": args}


def simple(name: str, **args: Any) -> dict[str, Any]:
    """What a model makes of a goal that one call does."""
    return {"goal": {"original_goal": "g", "intent": "i", "complexity": "simple"}, "tool": tool(name, **args)}


def many(*todo: str, **more: Any) -> dict[str, Any]:
    """What a model makes of a goal that has to be planned."""
    items = [{"description": one} for one in todo]
    goal = {"original_goal": "g", "intent": "i", "complexity": "complex", "estimated_steps": max(len(todo), 2), "todo_list": items}
    return {"goal": goal | more}


def unclear(*notes: str) -> dict[str, Any]:
    """What a model makes of a goal that it does not understand."""
    return many(requires_human_input=True, parsing_notes=list(notes))


def step(name: str, *, number: int = 1, last: bool = False, **args: Any) -> dict[str, Any]:
    return {"step_number": number, "tool_signature": tool(name, **args), "is_final_step": last}


def final(name: str, **args: Any) -> dict[str, Any]:
    return step(name, last=True, **args)


class Waited:
    """Lets no time pass, and keeps how much should have."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


@dataclass
class Watched:
    """A store that counts what is asked of it, and fails when it is told to: the calls of `apply` by their number, or all."""

    store: Closing
    fails: dict[int, Exception] = field(default_factory=dict[int, Exception])
    always: Exception | None = None
    reads_fail: Exception | None = None
    applied: list[tuple[Change, ...]] = field(default_factory=list[tuple[Change, ...]])
    read: int = 0

    async def apply(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        self.applied.append(changes)
        failure = self.always or self.fails.get(len(self.applied))
        if failure is not None:
            raise failure
        return await self.store.apply(graph, changes)

    async def preview(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        self._reading()
        return await self.store.preview(graph, changes)

    async def nodes(
        self,
        graph: str,
        *,
        label: str | None = None,
        key: str | None = None,
        properties: dict[str, JsonValue] | None = None,
        limit: int = 100,
    ) -> tuple[Node, ...]:
        self._reading()
        return await self.store.nodes(graph, label=label, key=key, properties=properties, limit=limit)

    async def edges(
        self, graph: str, *, start: NodeRef | None = None, end: NodeRef | None = None, relationship: str | None = None, limit: int = 100
    ) -> tuple[Edge, ...]:
        self._reading()
        return await self.store.edges(graph, start=start, end=end, relationship=relationship, limit=limit)

    async def query(self, graph: str, text: str, parameters: dict[str, JsonValue], *, limit: int = 100) -> Rows:
        self._reading()
        return await self.store.query(graph, text, parameters, limit=limit)

    async def aclose(self) -> None:
        await self.store.aclose()

    @contextmanager
    def unreadable(self) -> Generator[None]:
        """Let nothing be read for a while: an edge cannot be added then, as its ends cannot be found, and a node can."""
        self.reads_fail = StoreUnavailable("The disk is away.")
        try:
            yield
        finally:
            self.reads_fail = None

    def _reading(self) -> None:
        self.read += 1
        if self.reads_fail is not None:
            raise self.reads_fail


def opened(kind: str, folder: Path) -> Closing:
    if kind == "ladybug":
        return open_ladybug(folder, **LIMITS)
    served = shared_server()
    return open_bolt(served.url, user=served.user, password=served.password, **LIMITS)


def fresh(kind: str) -> str:
    """Name a session whose graph nobody has used; on a server there has to be a database for it."""
    name = f"puntini{next(NUMBERS)}"
    if kind == "bolt":
        shared_server().make(name)
    return name


@dataclass
class Desk:
    """Where turns of one session are taken, by applications of their own each, on one store that outlives them."""

    engine: EngineName
    folder: Path
    store: Watched
    session: str
    waited: Waited = field(default_factory=Waited)
    model: ScriptedModel | None = None

    def app(self, *replies: Scripted, grants: Mapping[type, object] | None = None, **settings: Any) -> Interlock:
        """Make an application; with replies it has a scripted model, else the offline rules."""
        given: dict[type, object] = {
            Clock: FixedClock(),
            Ids: CountingIds(f"turn-{next(NUMBERS)}"),
            GraphStore: self.store,
            Timer: self.waited,
            **(grants or {}),
        }
        if replies:
            given[Model] = self.model = ScriptedModel(*replies)
        return Interlock(Settings(engine=self.engine, data_dir=self.folder, **settings), grants=given)

    async def take(self, goal: str, *replies: Scripted, **more: Any) -> TurnResult:
        """Take a turn with nobody to ask, unless the settings say otherwise."""
        on_event, record = more.pop("on_event", None), more.pop("record", None)
        more.setdefault("human", "nobody")
        async with self.app(*replies, **more) as running:
            return await running.run("puntini", goal, session=self.session, on_event=on_event, record=record)

    async def answer(self, text: str, *replies: Scripted, **more: Any) -> TurnResult:
        """Answer the turn that waits, from another application."""
        on_event = more.pop("on_event", None)
        async with self.app(*replies, **more) as running:
            return await running.answer("puntini", text, session=self.session, on_event=on_event)

    async def nodes(self) -> list[tuple[str, str, dict[str, JsonValue]]]:
        """What is in the graph, by the store itself."""
        return [(node.label, node.key, node.properties) for node in await self.store.store.nodes(self.session, limit=1000)]

    async def edges(self) -> list[tuple[str, str, str]]:
        found = await self.store.store.edges(self.session, limit=1000)
        return [(edge.start.key, edge.relationship, edge.end.key) for edge in found]

    async def whole(self) -> tuple[object, object]:
        """All nodes and edges with everything that they have."""
        store = self.store.store
        return [*await store.nodes(self.session, limit=1000)], [*await store.edges(self.session, limit=1000)]

    async def all(self) -> tuple[object, object]:
        return await self.nodes(), await self.edges()


def codes(result: TurnResult) -> list[str]:
    """By what errors steps failed."""
    return [failure.error_type for failure in result.state["failures"]]


def told(model: ScriptedModel) -> list[dict[str, Any]]:
    """What the model was told, each time, as data."""
    return [json.loads(messages[1].text) for messages in model.messages]


def count(path: Sequence[str], name: str) -> int:
    return list(path).count(name)
