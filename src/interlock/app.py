"""The application: `Interlock` runs agents. What a caller sees, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from interlock.agent import Agent
from interlock.capabilities import Ids
from interlock.compiler import Compiler
from interlock.contract import Graph
from interlock.discovery import AGENTS, agent_of, entry_of, find_graph, load_agent
from interlock.errors import AgentUnknown, ContractError, RecordInvalid, SettingsInvalid, StateIncompatible
from interlock.input import check_id, check_listener, check_session, check_text
from interlock.providers.resolver import Providers
from interlock.replay import Replay
from interlock.runner import Runner
from interlock.runtime.limits import Limits
from interlock.runtime.observe import LOGGER, EventLog
from interlock.runtime.rate_limits import RateLimits
from interlock.runtime.recording import check_path, read_record
from interlock.runtime.redaction import Redactor
from interlock.runtime.turn import TurnOptions, TurnResult
from interlock.settings import LIMITS, Settings, read_settings
from interlock.spans import span_observer
from interlock.system import SystemIds

if TYPE_CHECKING:
    from interlock.engine.langgraph import AnyCheckpointer, AnyCompiledGraph, AnyStore
    from interlock.runtime.events import Event, Listener

__all__ = ["Interlock"]

A = TypeVar("A")

_FOLLOWING = 10
"""How many turns may follow one another without a new input."""


class Interlock:
    """Runs agents.

    Settings come from the environment and `interlock.toml` where they are not given. `grants` replaces configured adapters:
    `Interlock(grants={Clock: FixedClock()})`. Use it as a context manager (`async with Interlock() as app`), or call `close`, to
    release what it opened. An agent is passed by its name, or as an Agent or a Graph.
    """

    def __init__(self, settings: Settings | None = None, *, grants: Mapping[type, object] | None = None) -> None:
        if settings is not None and not isinstance(settings, Settings):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
            raise SettingsInvalid(f"Settings are given as 'Settings', not as a '{type(settings).__name__}'.")
        self.settings = settings or read_settings()
        self._providers = Providers(self.settings, grants or {})
        problems = self._providers.problems()
        if problems:
            raise ContractError(problems)
        self._ids = cast("Ids", (grants or {}).get(Ids, SystemIds()))
        self.redactor = Redactor(self.settings.redact, literals=self.settings.secrets)
        """Knows every secret among the settings, and among those of the agents in use: also for a program's own log."""
        self._options = TurnOptions(
            limits=Limits(**{name: getattr(self.settings, name) for name in LIMITS}),
            redactor=self.redactor,
            rate_limits=RateLimits(self.settings.rate_limits) if self.settings.rate_limits else None,
        )
        self._compiler = Compiler(self.settings, self._providers, self._turn_options)
        self._runner = Runner(self.settings, self._providers, self._compiler, self._turn_options)
        self._bare: dict[int, Agent] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, agents: Iterable[str | Graph | Agent] | None = None) -> None:
        """Compile agents and open their adapters now, so that no first turn has to. Without `agents`, all that are installed."""
        for agent in AGENTS if agents is None else agents:
            chosen = self._chosen(agent)
            for graph in dict.fromkeys(chosen.entries.values()):
                self._compiler.compile(chosen, graph)
                # Compiling is work for the processor; other tasks of the event loop get to run in between.
                await asyncio.sleep(0)

    async def close(self) -> None:
        """Release what was opened: connections, processes, a model in memory."""
        await self._providers.close()

    async def run(
        self,
        agent: str | Graph | Agent,
        given: str | Mapping[str, Any],
        *,
        session: str | None = None,
        role: str | None = None,
        principal: str | None = None,
        turn: str | None = None,
        on_event: Listener | None = None,
        record: Path | None = None,
    ) -> TurnResult:
        """Run one turn with text, or with the input fields of the graph. `on_event` is called with every event.

        Without `session` the turn starts a session that has the turn's id. `principal` is who calls: it fills the agent's identity
        field, which the input then cannot name otherwise. `turn` is the id of the turn, where the caller has one. `record` names a
        new file to which the turn is recorded, for `replay` and `resume`.
        """
        if record is not None:
            check_path(record)
        check_listener(on_event)
        chosen = self._chosen(agent)
        id_ = await self._ids.new() if turn is None else check_id(turn, "turn")
        who = None if principal is None else check_id(principal, "principal")
        request = self._runner.request(chosen, given, turn=id_, session=session, role=role, principal=who)
        ended = await self._end_suspended(chosen, request.session) if request.in_session else None
        result = await self._runner.run(chosen, request, record=record, listener=on_event)
        if not request.in_session:
            return result
        result = await self._follow(chosen, result, role=role, principal=who, listener=on_event, record=record)
        return result if ended is None else replace(result, metadata={**result.metadata, "ended": ended})

    async def stream(
        self,
        agent: str | Graph | Agent,
        given: str | Mapping[str, Any],
        *,
        session: str | None = None,
        role: str | None = None,
        principal: str | None = None,
        turn: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run one turn and yield its events; the last one has the result. Closing the generator cancels the turn."""
        events: deque[Event] = deque()
        changed = asyncio.Event()

        def listener(event: Event) -> None:
            events.append(event)
            changed.set()

        running = self.run(agent, given, session=session, role=role, principal=principal, turn=turn, on_event=listener)
        task = asyncio.create_task(running)
        task.add_done_callback(lambda _: changed.set())
        try:
            while events or not task.done():
                await changed.wait()
                changed.clear()
                while events:
                    yield events.popleft()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def answer(self, agent: str | Graph | Agent, text: str, *, session: str, on_event: Listener | None = None) -> TurnResult:
        """Resume the suspended turn of a session with a person's answer. Recorded calls are not made again.

        Its events start from the beginning of the turn. Where the agent runs another turn after it, the result is that turn's.
        """
        check_listener(on_event)
        chosen = self._chosen(agent)
        path = self._runner.suspended.find(chosen.name, check_session(session))
        check_text(text, max_bytes=self.settings.max_input_bytes)
        role = read_record(path).header.role
        result = await self._runner.resume(chosen, path, listener=on_event, answer=text)
        return await self._follow(chosen, result, role=role, principal=None, listener=on_event)

    async def waiting(self, agent: str | Graph | Agent, *, session: str) -> TurnResult | None:
        """Return the suspended turn of a session, with its question, or None where no turn is suspended. No call is made."""
        chosen = self._chosen(agent)
        path = self._runner.suspended.path(chosen.name, check_session(session))
        return None if path is None else await self._runner.resume(chosen, path, listener=None)

    async def abort(self, agent: str | Graph | Agent, *, session: str) -> TurnResult | None:
        """End the suspended turn of a session.

        It is resumed with the agent's word for that, and its result is returned. An agent without such a word, or a turn that cannot be
        resumed because its record is damaged or its contracts have changed, ends where it is; the result is None then.
        """
        chosen = self._chosen(agent)
        path = self._runner.suspended.find(chosen.name, check_session(session))
        if chosen.abort is not None:
            try:
                result = await self._runner.resume(chosen, path, listener=None, answer=chosen.abort)
            except (RecordInvalid, StateIncompatible) as error:
                LOGGER.warning("a suspended turn is given up", extra={"fields": {"agent": chosen.name, "cause": error.code}})
            else:
                if result.status == "error":
                    self._runner.suspended.drop(chosen.name, session)
                return result
        self._runner.suspended.drop(chosen.name, session)
        return None

    async def resume(self, path: Path, *, graph: Graph | Agent | None = None, on_event: Listener | None = None) -> TurnResult:
        """Resume a recorded turn that was interrupted. Recorded calls are not made again."""
        check_listener(on_event)
        return await self._runner.resume(self._recorded(path, graph), path, listener=on_event)

    async def replay(self, path: Path, *, graph: Graph | Agent | None = None, on_event: Listener | None = None) -> Replay:
        """Replay a recorded turn without calling any adapter, and compare it with the record.

        An agent of your own, or a graph, has to be passed; an installed agent is found by its name.
        """
        check_listener(on_event)
        return await self._runner.replay(self._recorded(path, graph), path, listener=on_event)

    def graph(self, name: str) -> Graph:
        """Return a graph by its name."""
        return find_graph(name)[1]

    def langgraph(
        self, agent: str | Graph | Agent, *, checkpointer: AnyCheckpointer | None = None, store: AnyStore | None = None
    ) -> AnyCompiledGraph:
        """Return a graph as a compiled LangGraph graph, to be used with everything that LangGraph has."""
        if isinstance(agent, str):
            chosen, graph = find_graph(agent)
        else:
            chosen = self._chosen(agent)
            graph = entry_of(chosen, None)
        # A bare graph does not declare persisted fields, so all of its state stays on a thread, as with any LangGraph graph.
        persisted = graph.state.names if isinstance(agent, Graph) else {*chosen.persists, *graph.state.takes} & graph.state.names
        return self._compiler.export(chosen, graph, checkpointer=checkpointer, store=store, persisted=persisted)

    def adapter(self, agent: str | Graph | Agent, capability: type[A]) -> A:
        """Return the adapter that an agent's nodes are granted, for programs that work on an agent's own stores."""
        found = self._providers.adapter(capability, self._chosen(agent))
        if found is None:
            raise SettingsInvalid(f"Nothing provides '{capability.__name__}' for this agent. Pass it in Interlock(grants=...).")
        return cast("A", found)

    def _chosen(self, agent: str | Graph | Agent) -> Agent:
        """Return the agent that a caller means: an installed one by its name, an Agent, or a Graph as an agent."""
        if isinstance(agent, str):
            return load_agent(agent)
        if isinstance(agent, Agent):
            return agent
        if not isinstance(agent, Graph):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
            raise AgentUnknown(f"The agent is a '{type(agent).__name__}': pass the name of an agent, an Agent or a Graph.")
        if id(agent) not in self._bare:
            self._bare[id(agent)] = agent_of(agent)
        return self._bare[id(agent)]

    def _recorded(self, path: Path, graph: Graph | Agent | None) -> Agent:
        """Return the agent of a recorded turn."""
        name = read_record(path).header.agent
        if graph is None and name not in AGENTS:
            raise RecordInvalid(f"The record is of '{name}', one of your own. Fix: name it, by '--graph MODULE:NAME'.")
        return self._chosen(name if graph is None else graph)

    async def _end_suspended(self, agent: Agent, session: str) -> str | None:
        """End a suspended turn before a new one, for an agent that has a word for that; return what it said at its end."""
        if agent.abort is None or self._runner.suspended.path(agent.name, session) is None:
            return None
        result = await self.abort(agent, session=session)
        if result is not None and result.status == "success":
            return str(result.output)
        return "The question that was open is given up. What had been done before it was asked stays as it is."

    async def _follow(
        self,
        agent: Agent,
        result: TurnResult,
        *,
        role: str | None,
        principal: str | None,
        listener: Listener | None,
        record: Path | None = None,
    ) -> TurnResult:
        """Run the turns that an agent starts after a successful one. The session's next turn continues where there are too many."""
        for number in range(2, _FOLLOWING + 2):
            given = agent.follow(result.state) if agent.follow is not None and result.status == "success" else None
            if given is None:
                break
            request = self._runner.request(agent, given, turn=await self._ids.new(), session=result.session, role=role, principal=principal)
            beside = None if record is None else record.with_name(f"{record.stem}.{number}{record.suffix}")
            result = await self._runner.run(agent, request, record=beside, listener=listener)
        return result

    def _turn_options(self) -> TurnOptions:
        """Return the options of a new turn, with its observers: OpenTelemetry and logging can be set up at any time."""
        spans = span_observer(content=self.settings.trace_content)
        observers = () if spans is None else (spans,)
        if LOGGER.isEnabledFor(logging.DEBUG):
            observers = (*observers, EventLog())
        return replace(self._options, observers=observers) if observers else self._options

    async def waiting_events(self, agent: str | Graph | Agent, *, session: str) -> list[Event]:
        """Return the events that the suspended turn of a session has emitted so far. No call is made.

        A listener of `answer` receives them again, before the new ones.
        """
        chosen = self._chosen(agent)
        events: list[Event] = []
        path = self._runner.suspended.path(chosen.name, check_session(session))
        if path is not None:
            await self._runner.resume(chosen, path, listener=events.append)
        return events

    async def session_state(self, agent: str | Graph | Agent, *, session: str, role: str | None = None) -> Mapping[str, Any] | None:
        """Return the persisted fields of a session, or None where it has none. No adapter is opened."""
        chosen = self._chosen(agent)
        graph = entry_of(chosen, role)
        if not chosen.persists:
            return None
        fingerprint = self._compiler.compile_for_replay(chosen, graph).gate.fingerprint
        stored = await self._providers.session_state(graph, fingerprint).load(check_session(session))
        if stored.version is None:
            return None
        return {name: value for name, value in stored.values.items() if name in chosen.persists}
