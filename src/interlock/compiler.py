"""Compiles the graphs of agents: an agent and its providers become gates and compiled graphs, once for each application."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from interlock.agent import Agent
from interlock.contract import Graph
from interlock.engine.direct import DirectGraph
from interlock.errors import ContractError, Problem
from interlock.extras import require
from interlock.grant_checks import gate_problems, subgraph_problems
from interlock.providers.resolver import Providers
from interlock.runtime.gate import Gate
from interlock.runtime.redaction.values import ValueRedactor
from interlock.runtime.targets import ReadySubgraph
from interlock.runtime.turn import TurnOptions
from interlock.settings import Settings
from interlock.standalone import Standalone

if TYPE_CHECKING:
    from interlock.engine import Compiled
    from interlock.engine.langgraph import AnyCheckpointer, AnyCompiledGraph, AnyStore

__all__ = ["CompiledGraph", "Compiler"]


@dataclass(frozen=True)
class CompiledGraph:
    """A graph with its gate, compiled for an engine."""

    gate: Gate
    compiled: Compiled


class Compiler:
    """Compiles graphs for the configured engine. `options` returns the options of a new turn."""

    def __init__(self, settings: Settings, providers: Providers, options: Callable[[], TurnOptions]) -> None:
        self._settings = settings
        self._providers = providers
        self._options = options
        self._compiled: dict[tuple[int, int], tuple[Agent, Graph, CompiledGraph]] = {}

    def compile(self, agent: Agent, graph: Graph, *, inside: tuple[Graph, ...] = ()) -> CompiledGraph:
        """Compile a graph and the graphs behind its capabilities, once for each agent: agents have different providers."""
        key = (id(agent), id(graph))
        known = self._compiled.get(key)
        if known is not None:
            return known[-1]
        gate = self._gate(agent, graph, inside=inside)
        compiled = CompiledGraph(gate, self._for_engine(graph))
        # The agent and the graph are kept with it, so that no other object gets their id.
        self._compiled[key] = (agent, graph, compiled)
        return compiled

    def compile_for_replay(self, agent: Agent, graph: Graph, *, inside: tuple[Graph, ...] = ()) -> CompiledGraph:
        """Compile a graph with a gate that refuses every call: a replay finds all of them in its journal."""
        gate = self._gate(agent, graph, inside=inside, for_replay=True)
        return CompiledGraph(gate, self._for_engine(graph))

    def export(
        self, agent: Agent, graph: Graph, *, checkpointer: AnyCheckpointer | None, store: AnyStore | None, persisted: Collection[str]
    ) -> AnyCompiledGraph:
        """Compile a graph as a LangGraph graph for a caller. `persisted` are the fields with which a thread's next run starts."""
        require("langgraph", extra="langgraph", what="LangGraph")
        from interlock.engine.exported import current_redaction, export_graph  # noqa: PLC0415 - importing LangGraph takes most of a second

        gate = self._gate(agent, graph)

        def redact() -> ValueRedactor:
            return ValueRedactor(self._options().redactor.for_turn(gate.names), secret=graph.state.secret, keys=gate.names)

        def options() -> TurnOptions:
            """Return the options of a node run that LangGraph drives: secrets are known to the whole run of the graph."""
            run = cast("ValueRedactor | None", current_redaction.get()) or redact()
            return replace(self._options(), redactor=run.redactor)

        standalone = Standalone(graph, gate, options, max_answer_bytes=self._settings.max_input_bytes)
        return export_graph(
            graph,
            standalone=standalone.run_node,
            redact=redact,
            persisted=sorted(persisted),
            native={name: one for name, one in agent.native.items() if name in graph.state.fields},
            checkpointer=checkpointer,
            store=store,
            fingerprint=gate.fingerprint,
        )

    def _for_engine(self, graph: Graph) -> Compiled:
        if self._settings.engine == "direct":
            return DirectGraph(graph)
        require("langgraph", extra="langgraph", what="LangGraph")
        from interlock.engine.langgraph import LangGraphGraph  # noqa: PLC0415 - as above

        return LangGraphGraph(graph)

    def _read_settings(self, agent: Agent) -> None:
        """Read the settings of an agent before anything uses them, so that every secret among them is redacted."""
        if agent.settings is not None:
            self._settings.of(agent.settings)
            self._options().redactor.add_secret(list(self._settings.secrets))

    def _gate(self, agent: Agent, graph: Graph, *, inside: tuple[Graph, ...] = (), for_replay: bool = False) -> Gate:
        """Build the gate of a graph, and compile the graphs behind its capabilities."""
        self._read_settings(agent)
        subgraphs = self._providers.subgraphs(agent, graph.capabilities)
        inside = (*inside, graph)
        problems = [problem for capability, subgraph in subgraphs.items() for problem in subgraph_problems(graph, capability, subgraph)]
        if any(subgraph.graph in inside for subgraph in subgraphs.values()):
            ring = " > ".join(one.name for one in inside)
            problems.append(Problem("ring", f"it is granted to itself: {ring}.", "grant something else.", graph.name))
        if problems:
            raise ContractError(problems)
        compile_inner = self.compile_for_replay if for_replay else self.compile
        adapters: dict[type, object] = {}
        for capability, subgraph in subgraphs.items():
            inner = compile_inner(agent, subgraph.graph, inside=inside)
            adapters[capability] = ReadySubgraph(subgraph, inner.gate, inner.compiled)
        composed = self._providers.composed(agent, graph.capabilities, replaying=for_replay)
        plain = tuple(one for one in graph.capabilities if one not in subgraphs and one not in composed)
        grants = {} if for_replay else self._providers.adapters(agent, plain)
        problems += gate_problems(graph, composed, grants, () if for_replay else plain)
        if problems:
            raise ContractError(problems)
        return Gate(graph, {**adapters, **composed, **grants})
