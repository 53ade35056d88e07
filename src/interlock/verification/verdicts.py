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
from interlock.capabilities import Clock, Ids, Model
from interlock.contract import Graph
from interlock.contract.conformance import differences
from interlock.contract.document import read_document_file
from interlock.contract.node import Node, StepResult, Transition
from interlock.engine import ENGINES, Compiled, EngineName
from interlock.engine.direct import DirectGraph
from interlock.errors import InterlockError
from interlock.invariants import Finding, How, Invariant, Observed
from interlock.runtime.events import Event
from interlock.settings import Settings
from interlock.testing import CountingIds, FixedClock, Scripted, ScriptedModel
from interlock.verification.proofs import GraphProof, prove_agent, prove_graph

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
        """Return the verdict on a guarantee from the finding of its check."""
        return cls(invariant, finding.holds, finding.how, finding.proof)


@dataclass(frozen=True)
class _TurnInput:
    """The input of a turn to run."""

    text: str | Mapping[str, Any]
    replies: Sequence[Scripted]
    session: str | None = None
    role: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


_script: ContextVar[ScriptedModel] = ContextVar("interlock_lab_script")
_ids: ContextVar[CountingIds] = ContextVar("interlock_lab_ids")


class _Model(ScriptedModel):
    """Returns the replies of the turn's script."""

    def next_reply(self) -> Scripted:
        return _script.get().next_reply()


class _Ids:
    """Returns the ids of the turn."""

    async def new(self) -> str:
        return await _ids.get().new()


class EngineLab:
    """Runs turns of one agent on every engine with a scripted model, a fixed clock, counted ids, its own stores and default settings."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self._agent = agent
        self._folder = folder
        self._apps: dict[str, Interlock] = {}
        self._count = 0
        self.turns = 0
        """How many turns were run."""

    async def observe(
        self, text: str | Mapping[str, Any], *replies: Scripted, session: str | None = None, role: str | None = None, **settings: Any
    ) -> Sequence[Observed]:
        """Run the same turn on every engine, each with its own sessions. `settings` replace the default ones."""
        self._count += 1
        turn_input = _TurnInput(text, replies, session, role, settings)
        return [await self._run(engine, f"id{self._count}", turn_input) for engine in ENGINES]

    async def observe_at_once(self, text: str, *replies: Scripted, session: str, times: int) -> Sequence[Observed]:
        """Run the same turn several times concurrently, each in its own application, on one engine after the other."""
        self._count += 1
        observed: list[Observed] = []
        for engine in ENGINES:
            turn_input = _TurnInput(text, replies, session)
            turns = (self._run(engine, f"id{self._count}-{number}", turn_input, application=number) for number in range(times))
            observed += await asyncio.gather(*turns)
        return observed

    async def _run(self, engine: EngineName, ids: str, turn_input: _TurnInput, *, application: int = 0) -> Observed:
        events: list[Event] = []
        named = f"{turn_input.session or ids}-{engine}" if self._agent.has_sessions else turn_input.session
        _script.set(ScriptedModel(*turn_input.replies))
        _ids.set(CountingIds(ids))
        app = self._app(application, engine=engine, **turn_input.settings)
        result = await app.run(self._agent, turn_input.text, session=named, role=turn_input.role, on_event=events.append)
        self.turns += 1
        return Observed(result, events)

    def _app(self, application: int, **settings: Any) -> Interlock:
        """Return the application with this number and these settings. It is cached, because creating it takes longer than its turns."""
        key = f"{application} {settings!r}"
        if key not in self._apps:
            model, made = _Model(), Settings.isolated(data_dir=self._folder, **settings)
            self._apps[key] = Interlock(made, grants={Clock: FixedClock(), Ids: _Ids(), Model: model})
        return self._apps[key]

    async def close(self) -> None:
        """Release the stores."""
        for app in self._apps.values():
            await app.close()


async def verify_agent(agent: Agent, proofs: Mapping[str, GraphProof] | None = None) -> AsyncGenerator[Verdict, None]:
    """Verify an agent, one guarantee after the other. Pass `proofs` where they are known already."""
    proofs = prove_agent(agent) if proofs is None else proofs
    for graph in agent.graphs:
        async for verdict in verify_graph(graph, agent.document, proofs[graph.name]):
            yield verdict
    with tempfile.TemporaryDirectory(prefix="interlock-") as folder:
        lab = EngineLab(agent, Path(folder))
        try:
            for invariant in agent.invariants:
                yield Verdict.of(invariant.statement, await _check(invariant, lab))
        finally:
            await lab.close()


async def _check(invariant: Invariant, lab: EngineLab) -> Finding:
    """Run a check. If it ran turns, the finding is `seen` and gives their number. If it raises, the guarantee does not hold."""
    before = lab.turns
    try:
        finding = await invariant.check(lab)
    except Exception as error:  # noqa: BLE001 - a turn that goes wrong may break the check anywhere
        return Finding(False, f"the check broke off: {type(error).__name__}: {error}")
    turns = lab.turns - before
    return replace(finding, how="seen", proof=f"{turns} turns: {finding.proof}") if turns else finding


async def verify_graph(graph: Graph, document: Path | None, proof: GraphProof | None = None) -> AsyncGenerator[Verdict, None]:
    """Verify the guarantees of every graph, and what is proved of this one."""
    outcomes = sum(len(node.transitions) for node in graph.nodes.values())
    built = f"{len(graph.nodes)} nodes, {outcomes} outcomes, {len(graph.state.fields)} fields; fingerprint {graph.fingerprint[:12]}"
    yield Verdict(f"{graph.name}: signatures, state and rows fit together", True, "agrees", built)
    yield Verdict.of(f"{graph.name}: LangGraph draws the nodes and edges of the rows", compare_compiled(graph))
    yield Verdict.of(f"{graph.name}: every outcome leads where its row says, on both engines", await follow_outcomes(graph))
    for line in (prove_graph(graph, document) if proof is None else proof).lines():
        yield Verdict(line.statement, line.holds, line.tier, line.proof)
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

    engines: dict[EngineName, Compiled] = {"langgraph": LangGraphGraph(graph), "direct": DirectGraph(graph)}
    paths, followed = _paths(graph), 0
    for engine, compiled in engines.items():
        for node in graph.nodes.values():
            for transition in node.transitions:
                went = await _arrive(compiled, [*paths[node.name], transition])
                if went != transition.target:
                    where = f"'{went or 'END'}' instead of '{transition.target or 'END'}'"
                    return Finding(False, f"on {engine}, '{transition.name}' of '{node.name}' leads to {where}", "decided")
                followed += 1
    return Finding(True, f"{followed // len(engines)} outcomes followed on each of {len(engines)} engines", "decided")


class _TargetReached(Exception):
    """Stops a run at the node after the given transitions."""


async def _arrive(compiled: Compiled, path: Sequence[Transition]) -> str | None:
    """Run a graph from its entry along these transitions, without calling a node, and return the next node."""
    left, arrived = list(path), list[str]()

    async def run_node(node: Node, _state: Mapping[str, Any]) -> StepResult:
        if not left:
            arrived.append(node.name)
            raise _TargetReached
        return left.pop(0), {}

    with contextlib.suppress(_TargetReached):
        await compiled.run({}, run_node)
    return arrived[0] if arrived else None


def _paths(graph: Graph) -> dict[str, list[Transition]]:
    """Return the shortest path from the entry to each node, as transitions."""
    paths: dict[str, list[Transition]] = {graph.entry: []}
    reached = [graph.entry]
    for name in reached:
        for transition in graph.nodes[name].transitions:
            if transition.target is not None and transition.target not in paths:
                paths[transition.target] = [*paths[name], transition]
                reached.append(transition.target)
    return paths


def compare_document(graph: Graph, document: Path) -> Finding:
    """Compare the rows with the architecture document."""
    try:
        found = differences(graph, read_document_file(document, graph=graph.name))
    except InterlockError as error:
        return Finding(False, error.message, "agrees")
    return Finding(not found, "; ".join(found) or f"nodes, edges, duties and prohibitions agree with {document.name}", "agrees")
