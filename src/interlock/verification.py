"""Find out whether an agent keeps its word: contracts, both engines, its document, its invariants."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.capabilities import Clock, Ids, Model, ModelBackend
from interlock.contract import Graph
from interlock.contract.conformance import differences
from interlock.contract.document import read_document_file
from interlock.engine import ENGINES, EngineName
from interlock.errors import InterlockError
from interlock.runtime.agent import Agent
from interlock.runtime.events import Event
from interlock.runtime.proof import Finding, Invariant, Observed
from interlock.settings import Settings
from interlock.testing import CountingIds, FixedClock, Scripted, ScriptedModel
from interlock.wiring import Interlock

__all__ = ["Verdict", "verify_agent", "verify_graph"]


@dataclass(frozen=True)
class Verdict:
    """A promise, whether it holds, and the proof."""

    invariant: str
    holds: bool
    proof: str


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

    async def observe(
        self, text: str | Mapping[str, Any], *replies: Scripted, session: str | None = None, role: str | None = None, **settings: Any
    ) -> Sequence[Observed]:
        """Take the same turn on every engine; each has sessions of its own. `settings` are other than the default ones."""
        self._taken += 1
        asked = _Asked(text, replies, session, role, settings)
        return [await self._take(engine, f"id{self._taken}", asked) for engine in ENGINES]

    async def observe_at_once(self, text: str, *replies: Scripted, session: str, times: int) -> Sequence[Observed]:
        """Take the same turn many times at once, on every engine one after the other."""
        self._taken += 1
        observed: list[Observed] = []
        for engine in ENGINES:
            asked = _Asked(text, replies, session)
            turns = (self._take(engine, f"id{self._taken}-{number}", asked) for number in range(times))
            observed += await asyncio.gather(*turns)
        return observed

    async def _take(self, engine: EngineName, ids: str, asked: _Asked) -> Observed:
        events: list[Event] = []
        named = f"{asked.session or ids}-{engine}" if self._agent.has_sessions else asked.session
        _script.set(ScriptedModel(*asked.replies))
        _ids.set(CountingIds(ids))
        app = self._app(engine=engine, **asked.settings)
        result = await app.run(self._agent, asked.text, session=named, role=asked.role, on_event=events.append)
        return Observed(result, events)

    def _app(self, **settings: Any) -> Interlock:
        """Make the application that has these settings, once: to make one takes longer than its turns."""
        if repr(settings) not in self._apps:
            model, made = _Model(), Settings.model_construct(data_dir=self._folder, **settings)
            self._apps[repr(settings)] = Interlock(made, grants={Clock: FixedClock(), Ids: _Ids(), Model: model, ModelBackend: model})
        return self._apps[repr(settings)]

    async def close(self) -> None:
        """Release the stores."""
        for app in self._apps.values():
            await app.close()


async def verify_agent(agent: Agent) -> AsyncGenerator[Verdict, None]:
    """Verify an agent, one promise after the other."""
    for graph in agent.graphs:
        async for verdict in verify_graph(graph, agent.document):
            yield verdict
    with tempfile.TemporaryDirectory(prefix="interlock-") as folder:
        lab = EngineLab(agent, Path(folder))
        try:
            for invariant in agent.invariants:
                finding = await _tried(invariant, lab)
                yield Verdict(invariant.statement, finding.holds, finding.proof)
        finally:
            await lab.close()


async def _tried(invariant: Invariant, lab: EngineLab) -> Finding:
    """Look for the proof; one that cannot be had is none."""
    try:
        return await invariant.check(lab)
    except Exception as error:  # noqa: BLE001 - a turn that goes wrong may break the proof anywhere
        return Finding(False, f"the proof broke off: {type(error).__name__}: {error}")


async def verify_graph(graph: Graph, document: Path | None) -> AsyncGenerator[Verdict, None]:
    """Verify what holds for every graph. That it was built at all shows that its contracts hold."""
    outcomes = sum(len(node.endings) for node in graph.nodes.values())
    built = f"{len(graph.nodes)} nodes, {outcomes} outcomes, {len(graph.state.fields)} fields; fingerprint {graph.fingerprint[:12]}"
    yield Verdict(f"{graph.name}: every contract holds", True, built)
    compiled = compare_compiled(graph)
    yield Verdict(f"{graph.name}: the LangGraph graph is the rows", compiled.holds, compiled.proof)
    if document is not None:
        agreed = compare_document(graph, document)
        yield Verdict(f"{graph.name}: the rows are the document's", agreed.holds, agreed.proof)


def compare_compiled(graph: Graph) -> Finding:
    """Compare the nodes and edges of the compiled LangGraph graph with the rows."""
    from interlock.engine.langgraph import drawn  # noqa: PLC0415 - takes most of a second

    nodes, edges = drawn(graph)
    rows = {(source, target or "__end__") for source, _, target in graph.edges} | {("__start__", graph.entry)}
    wrong = sorted({str(item) for item in (nodes ^ set(graph.nodes)) | (edges ^ rows)})
    if wrong:
        return Finding(False, f"they differ in {', '.join(wrong)}")
    return Finding(True, f"{len(nodes)} nodes and {len(edges)} edges in both")


def compare_document(graph: Graph, document: Path) -> Finding:
    """Compare the rows with the architecture document."""
    try:
        found = differences(graph, read_document_file(document, graph=graph.name))
    except InterlockError as error:
        return Finding(False, error.message)
    return Finding(not found, "; ".join(found) or f"nodes, edges, duties and prohibitions agree with {document.name}")
