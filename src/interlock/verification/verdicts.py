"""Check an agent: its contracts, both engines, its document, its invariants."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.capabilities import Clock, Ids, Model, ModelBackend
from interlock.contract import Graph
from interlock.contract.conformance import differences
from interlock.contract.document import read_document_file
from interlock.contract.node import Node, StepResult, Transition
from interlock.engine import ENGINES, Compiled, EngineName
from interlock.engine.direct import DirectGraph
from interlock.errors import InterlockError
from interlock.runtime.events import Event
from interlock.settings import Settings
from interlock.testing import CountingIds, FixedClock, Scripted, ScriptedModel
from interlock.verification.invariants import Finding, How, Invariant, Observed

__all__ = ["Verdict", "verify_agent", "verify_graph"]


@dataclass(frozen=True)
class Verdict:
    """A guarantee: whether it holds, how that is known (see `Finding`), and what was looked at."""

    invariant: str
    holds: bool
    how: How
    proof: str

    @classmethod
    def of(cls, invariant: str, finding: Finding) -> Verdict:
        """Make the verdict on a guarantee from what its check found."""
        return cls(invariant, finding.holds, finding.how, finding.proof)


@dataclass(frozen=True)
class _Asked:
    """A turn to be taken."""

    text: str | Mapping[str, Any]
    replies: Sequence[Scripted]
    session: str | None = None
    role: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


_script: ContextVar[ScriptedModel] = ContextVar("interlock_lab_script")
_ids: ContextVar[CountingIds] = ContextVar("interlock_lab_ids")


class _Model(ScriptedModel):
    """Says what the script of the turn has."""

    def _next(self) -> Scripted:
        return _script.get()._next()  # noqa: SLF001 - one of its own kind


class _Ids:
    """Makes the ids of the turn."""

    async def new(self) -> str:
        return await _ids.get().new()


class EngineLab:
    """Takes turns of one agent on every engine: a scripted model, a fixed clock, counted ids, stores of its own, default settings."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self._agent = agent
        self._folder = folder
        self._apps: dict[str, Interlock] = {}
        self._taken = 0
        self.turns = 0
        """How many turns were run."""

    async def observe(
        self, text: str | Mapping[str, Any], *replies: Scripted, session: str | None = None, role: str | None = None, **settings: Any
    ) -> Sequence[Observed]:
        """Take the same turn on every engine; each has sessions of its own. `settings` are other than the default ones."""
        self._taken += 1
        asked = _Asked(text, replies, session, role, settings)
        return [await self._take(engine, f"id{self._taken}", asked) for engine in ENGINES]

    async def observe_at_once(self, text: str, *replies: Scripted, session: str, times: int) -> Sequence[Observed]:
        """Run the same turn many times at once, each in an application of its own; on every engine one after the other."""
        self._taken += 1
        observed: list[Observed] = []
        for engine in ENGINES:
            asked = _Asked(text, replies, session)
            turns = (self._take(engine, f"id{self._taken}-{number}", asked, application=number) for number in range(times))
            observed += await asyncio.gather(*turns)
        return observed

    async def _take(self, engine: EngineName, ids: str, asked: _Asked, *, application: int = 0) -> Observed:
        events: list[Event] = []
        named = f"{asked.session or ids}-{engine}" if self._agent.has_sessions else asked.session
        _script.set(ScriptedModel(*asked.replies))
        _ids.set(CountingIds(ids))
        app = self._app(application, engine=engine, **asked.settings)
        result = await app.run(self._agent, asked.text, session=named, role=asked.role, on_event=events.append)
        self.turns += 1
        return Observed(result, events)

    def _app(self, application: int, **settings: Any) -> Interlock:
        """Return the application of this number with these settings; it is made once, which takes longer than its turns."""
        key = f"{application} {settings!r}"
        if key not in self._apps:
            model, made = _Model(), Settings.isolated(data_dir=self._folder, **settings)
            self._apps[key] = Interlock(made, grants={Clock: FixedClock(), Ids: _Ids(), Model: model, ModelBackend: model})
        return self._apps[key]

    async def close(self) -> None:
        """Release the stores."""
        for app in self._apps.values():
            await app.close()


async def verify_agent(agent: Agent) -> AsyncGenerator[Verdict, None]:
    """Verify an agent, one guarantee after the other."""
    for graph in agent.graphs:
        async for verdict in verify_graph(graph, agent.document):
            yield verdict
    with tempfile.TemporaryDirectory(prefix="interlock-") as folder:
        lab = EngineLab(agent, Path(folder))
        try:
            for invariant in agent.invariants:
                yield Verdict.of(invariant.statement, await _check(invariant, lab))
        finally:
            await lab.close()


async def _check(invariant: Invariant, lab: EngineLab) -> Finding:
    """Run a check. What it saw in turns is `seen` and says in how many; a check that breaks off has found nothing."""
    before = lab.turns
    try:
        finding = await invariant.check(lab)
    except Exception as error:  # noqa: BLE001 - a turn that goes wrong may break the check anywhere
        return Finding(False, f"the check broke off: {type(error).__name__}: {error}")
    turns = lab.turns - before
    return replace(finding, how="seen", proof=f"{turns} turns: {finding.proof}") if turns else finding


async def verify_graph(graph: Graph, document: Path | None) -> AsyncGenerator[Verdict, None]:
    """Verify what holds for every graph."""
    outcomes = sum(len(node.transitions) for node in graph.nodes.values())
    built = f"{len(graph.nodes)} nodes, {outcomes} outcomes, {len(graph.state.fields)} fields; fingerprint {graph.fingerprint[:12]}"
    yield Verdict(f"{graph.name}: signatures, state and rows fit together", True, "agrees", built)
    yield Verdict.of(f"{graph.name}: LangGraph draws the nodes and edges of the rows", compare_compiled(graph))
    yield Verdict.of(f"{graph.name}: every outcome leads where its row says, on both engines", await follow_outcomes(graph))
    if document is not None:
        yield Verdict.of(f"{graph.name}: the rows are the document's", compare_document(graph, document))


def compare_compiled(graph: Graph) -> Finding:
    """Compare the nodes and edges of the compiled LangGraph graph with the rows."""
    from interlock.engine.langgraph import drawn  # noqa: PLC0415 - takes most of a second

    nodes, edges = drawn(graph)
    rows = {(source, target or "__end__") for source, _, target in graph.edges} | {("__start__", graph.entry)}
    wrong = sorted({str(item) for item in (nodes ^ set(graph.nodes)) | (edges ^ rows)})
    if wrong:
        return Finding(False, f"they differ in {', '.join(wrong)}", "agrees")
    return Finding(True, f"{len(nodes)} nodes and {len(edges)} edges in both", "agrees")


async def follow_outcomes(graph: Graph) -> Finding:
    """Run the compiled graphs of both engines along every row, and compare where each outcome leads."""
    from interlock.engine.langgraph import LangGraphGraph  # noqa: PLC0415 - takes most of a second

    engines: dict[EngineName, Compiled] = {"langgraph": LangGraphGraph(graph, standalone=_not_run), "direct": DirectGraph(graph)}
    ways, followed = _ways(graph), 0
    for engine, compiled in engines.items():
        for node in graph.nodes.values():
            for ending in node.transitions:
                went = await _arrive(compiled, [*ways[node.name], ending])
                if went != ending.target:
                    where = f"'{went or 'END'}' instead of '{ending.target or 'END'}'"
                    return Finding(False, f"on {engine}, '{ending.name}' of '{node.name}' leads to {where}", "decided")
                followed += 1
    return Finding(True, f"{followed // len(engines)} outcomes followed on each of {len(engines)} engines", "decided")


class _Arrived(Exception):
    """Ends a run when it has come where it was to be followed to."""


async def _arrive(compiled: Compiled, way: Sequence[Transition]) -> str | None:
    """Run a graph from its entry with these endings, without calling a node, and return the node that comes next."""
    left, arrived = list(way), list[str]()

    async def run_node(node: Node, _state: Mapping[str, Any]) -> StepResult:
        if not left:
            arrived.append(node.name)
            raise _Arrived
        return left.pop(0), {}

    with contextlib.suppress(_Arrived):
        await compiled.run({}, run_node)
    return arrived[0] if arrived else None


def _ways(graph: Graph) -> dict[str, list[Transition]]:
    """Find the shortest way from the entry to each node, as the endings along it."""
    ways: dict[str, list[Transition]] = {graph.entry: []}
    reached = [graph.entry]
    for name in reached:
        for ending in graph.nodes[name].transitions:
            if ending.target is not None and ending.target not in ways:
                ways[ending.target] = [*ways[name], ending]
                reached.append(ending.target)
    return ways


async def _not_run(*_: Any) -> StepResult:
    raise AssertionError  # pragma: no cover - a graph that is followed by the runtime's side takes no step of its own


def compare_document(graph: Graph, document: Path) -> Finding:
    """Compare the rows with the architecture document."""
    try:
        found = differences(graph, read_document_file(document, graph=graph.name))
    except InterlockError as error:
        return Finding(False, error.message, "agrees")
    return Finding(not found, "; ".join(found) or f"nodes, edges, duties and prohibitions agree with {document.name}", "agrees")
