"""Find out whether an agent keeps its word: contracts, both engines, its document, its invariants."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.capabilities import Clock, Ids, ModelBackend, ModelResponse
from interlock.contract import Graph
from interlock.contract.conformance import differences
from interlock.contract.document import read_document_file
from interlock.engine import ENGINES
from interlock.errors import InterlockError
from interlock.runtime.agent import Agent
from interlock.runtime.events import Event
from interlock.runtime.proof import Finding, Observed
from interlock.settings import Settings
from interlock.testing import CountingIds, FixedClock, ScriptedModel
from interlock.wiring import Interlock

__all__ = ["Verdict", "verify_agent", "verify_graph"]


@dataclass(frozen=True)
class Verdict:
    """A promise, whether it holds, and the proof."""

    invariant: str
    holds: bool
    proof: str


class EngineLab:
    """Takes turns of one agent on every engine, with a scripted model, a fixed clock, counted ids and default settings."""

    def __init__(self, agent: str) -> None:
        self._agent = agent

    async def observe(self, text: str, *replies: str | ModelResponse | Exception) -> Sequence[Observed]:
        """Take the same turn on every engine."""
        observed: list[Observed] = []
        for engine in ENGINES:
            grants = {ModelBackend: ScriptedModel(*replies), Clock: FixedClock(), Ids: CountingIds()}
            events: list[Event] = []
            result = await Interlock(Settings.model_construct(engine=engine), grants=grants).run(self._agent, text, on_event=events.append)
            observed.append(Observed(result, events))
        return observed


async def verify_agent(agent: Agent) -> AsyncGenerator[Verdict, None]:
    """Verify an agent, one promise after the other."""
    for graph in agent.graphs:
        async for verdict in verify_graph(graph, agent.document):
            yield verdict
    lab = EngineLab(agent.name)
    for invariant in agent.invariants:
        finding = await invariant.check(lab)
        yield Verdict(invariant.statement, finding.holds, finding.proof)


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
