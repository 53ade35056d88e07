"""The composition root: settings become adapters, adapters become grants, graphs become agents that run.

The only module that knows everyone. What is heavy (LangGraph, LangChain) is imported when it is first needed.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from interlock.adapters.media import NoImages, NoTranscriber
from interlock.adapters.models.guarded import GuardedModelBackend
from interlock.adapters.models.offline import OfflineModelBackend
from interlock.adapters.models.stub import StubModelBackend
from interlock.adapters.system import SystemClock, SystemIds
from interlock.capabilities import Clock, Ids, Images, ModelBackend, Transcriber
from interlock.contract import Graph
from interlock.engine.direct import DirectGraph
from interlock.errors import AgentUnknown, InputSchema, RoleUnknown, SettingsInvalid
from interlock.runtime.admission import check_characters, check_session, check_text
from interlock.runtime.agent import Agent
from interlock.runtime.gate import Gate
from interlock.runtime.reply import Reply
from interlock.runtime.turn import Turn, TurnResult
from interlock.settings import Settings, read_settings

if TYPE_CHECKING:
    from interlock.contract.node import Node, Step
    from interlock.engine import Compiled
    from interlock.engine.langgraph import AnyCheckpointer, AnyCompiledGraph, AnyStore, LangGraphGraph
    from interlock.runtime.events import Event, Sink

__all__ = ["AGENTS", "Interlock", "agent_of", "load_agent"]

AGENTS = ("sam",)
"""The agents that come with Interlock, each a package in interlock.agents."""


@functools.cache
def load_agent(name: str) -> Agent:
    """Load one of the agents that come with Interlock."""
    if name not in AGENTS:
        raise AgentUnknown(f"There is no agent '{name}'. There are: {', '.join(AGENTS)}.")
    return importlib.import_module(f"interlock.agents.{name}").agent


def agent_of(graph: Graph) -> Agent:
    """Make an agent of a bare graph: text goes into the one field it takes, the reply is the field it gives."""

    def admit(text: str, _session: str) -> dict[str, Any]:
        if len(graph.state.takes) != 1:
            raise InputSchema(f"Graph '{graph.name}' takes {len(graph.state.takes)} fields, so pass a mapping instead of text.")
        return {graph.state.takes[0]: text}

    def reply(state: Mapping[str, Any]) -> Reply:
        return Reply(output=state if graph.gives is None else state.get(graph.gives))

    return Agent(name=graph.name, summary="", graphs=(graph,), entries={None: graph}, admit=admit, reply=reply)


@dataclass(frozen=True)
class _Ready:
    """A graph with its capabilities, compiled."""

    gate: Gate
    compiled: Compiled


class Interlock:
    """Agents, ready to run.

    Settings come from the environment and `interlock.toml` where they are not given. `grants` puts adapters of your own
    in the place of the configured ones: `Interlock(grants={Clock: FixedClock()})`.
    """

    def __init__(self, settings: Settings | None = None, *, grants: Mapping[type, object] | None = None) -> None:
        self.settings = settings or read_settings()
        self._grants = dict(grants or {})
        self._ids = cast("Ids", self._grants.get(Ids, SystemIds()))
        self._ready: dict[int, tuple[Graph, _Ready]] = {}

    async def run(
        self,
        agent: str | Graph,
        given: str | Mapping[str, Any],
        *,
        session: str | None = None,
        role: str | None = None,
        on_event: Sink | None = None,
    ) -> TurnResult:
        """Take one turn: text, or the input fields of the graph. `on_event` is called with every event as it happens.

        A turn for which no session is named begins one, which has the turn's own id.
        """
        chosen = load_agent(agent) if isinstance(agent, str) else agent_of(agent)
        graph = _entry(chosen, role)
        turn = await self._ids.new()
        session = turn if session is None else check_session(session)
        limit = self.settings.max_input_bytes
        if isinstance(given, str):
            given = chosen.admit(check_text(given, max_bytes=limit), session)
        elif isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
            for value in given.values():
                if isinstance(value, str):
                    check_characters(value, max_bytes=limit)
        else:
            raise InputSchema(f"The input is a '{type(given).__name__}': pass text, or a mapping of the fields that the graph takes.")
        values = graph.state.admit(given)
        ready = self._prepare(chosen, graph)
        taken = Turn(
            graph,
            ready.gate,
            agent=chosen.name,
            session=session,
            turn=turn,
            reply=chosen.reply,
            sink=on_event,
        )
        return await taken.run(ready.compiled, values)

    async def stream(
        self,
        agent: str | Graph,
        given: str | Mapping[str, Any],
        *,
        session: str | None = None,
        role: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Take one turn and yield its events; the last one carries the result. Stopping early ends the turn."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        task = asyncio.create_task(self.run(agent, given, session=session, role=role, on_event=queue.put_nowait))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def graph(self, name: str) -> Graph:
        """Return a graph by its name."""
        return self._find(name)[1]

    def langgraph(
        self,
        agent: str | Graph,
        *,
        checkpointer: AnyCheckpointer | None = None,
        store: AnyStore | None = None,
    ) -> AnyCompiledGraph:
        """Hand out a graph as a compiled LangGraph graph, for everything that LangGraph's world does with one."""
        chosen, graph = self._find(agent) if isinstance(agent, str) else (agent_of(agent), agent)
        return self._compile(graph, self._gate(chosen, graph), checkpointer=checkpointer, store=store).compiled

    def _find(self, name: str) -> tuple[Agent, Graph]:
        agent = load_agent(name.partition(".")[0])
        for graph in agent.graphs:
            if graph.name == name:
                return agent, graph
        raise AgentUnknown(f"There is no graph '{name}'. Agent '{agent.name}' has: {', '.join(g.name for g in agent.graphs)}.")

    def _prepare(self, agent: Agent, graph: Graph) -> _Ready:
        """Compile a graph for the configured engine, once."""
        known = self._ready.get(id(graph))
        if known is not None:
            return known[1]
        gate = self._gate(agent, graph)
        compiled = DirectGraph(graph) if self.settings.engine == "direct" else self._compile(graph, gate)
        ready = _Ready(gate, compiled)
        self._ready[id(graph)] = (graph, ready)
        return ready

    def _compile(
        self,
        graph: Graph,
        gate: Gate,
        *,
        checkpointer: AnyCheckpointer | None = None,
        store: AnyStore | None = None,
    ) -> LangGraphGraph:
        from interlock.engine.langgraph import LangGraphGraph  # noqa: PLC0415 - takes most of a second

        async def loose(node: Node, state: Mapping[str, Any]) -> Step:
            """Take a step where LangGraph alone drives: a turn around each node."""
            return await Turn(graph, gate, agent=graph.name, session="langgraph", turn="langgraph", reply=lambda _: Reply()).step(
                node, state
            )

        return LangGraphGraph(graph, loose=loose, checkpointer=checkpointer, store=store)

    def _gate(self, agent: Agent, graph: Graph) -> Gate:
        """Put an adapter behind every capability that the graph's nodes are granted."""
        configured: dict[type, object] = {
            Clock: SystemClock(),
            Ids: self._ids,
            Transcriber: NoTranscriber(),
            Images: NoImages(),
        }
        granted = self._grants.get(ModelBackend)
        model = self._model(agent) if granted is None else GuardedModelBackend(cast("ModelBackend", granted))
        return Gate(graph, configured | self._grants | {ModelBackend: model})

    def _model(self, agent: Agent) -> ModelBackend:
        """Choose who answers. These two can neither hang nor raise, so they need no guard."""
        match self.settings.model:
            case "offline":
                return OfflineModelBackend(agent.offline)
            case "stub":
                return StubModelBackend()
            case other:
                raise SettingsInvalid(f"Model '{other}' is unknown. Use 'offline' or 'stub'.")


def _entry(agent: Agent, role: str | None) -> Graph:
    if role not in agent.entries:
        roles = ", ".join(f"'{known}'" for known in agent.entries if known is not None) or "no roles"
        raise RoleUnknown(f"Agent '{agent.name}' has no entry for role '{role}'. It has {roles}.")
    return agent.entries[role]
