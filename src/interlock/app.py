"""The application: `Interlock` runs agents. What a caller sees, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from interlock.agent import Agent
from interlock.capabilities import Ids
from interlock.compiler import Compiler
from interlock.contract import Graph
from interlock.discovery import AGENTS, agent_of, entry_of, find_graph, load_agent
from interlock.dispatch.dispatchers import open_dispatcher
from interlock.dispatch.embedded import EmbeddedDispatcher
from interlock.dispatch.forks import check_fork
from interlock.dispatch.results import result_of
from interlock.errors import AgentUnknown, ContractError, NothingWaits, RecordInvalid, SettingsInvalid, StateIncompatible, TurnUnknown
from interlock.input import MAX_PRINCIPAL, check_id, check_listener, check_session, check_text
from interlock.providers.machines import check_machines
from interlock.providers.resolver import Providers
from interlock.replay import Replay
from interlock.runner import Runner, next_turn
from interlock.runtime.limits import Limits
from interlock.runtime.observe import LOGGER, EventLog
from interlock.runtime.rate_limits import RateLimits
from interlock.runtime.recording import check_new_record, check_path, read_record
from interlock.runtime.redaction import Redactor
from interlock.runtime.turn import TurnOptions, TurnRequest, TurnResult
from interlock.runtime.turns import Policy, StoredTurn
from interlock.settings import LIMITS, Settings, read_settings
from interlock.spans import span_observer
from interlock.stores.turns import open_turns
from interlock.system import SystemIds, worker_name

if TYPE_CHECKING:
    from interlock.engine.langgraph import AnyCheckpointer, AnyCompiledGraph, AnyStore
    from interlock.runtime.events import Event, Listener

__all__ = ["Interlock"]

A = TypeVar("A")


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
        self._submitted: dict[str, Agent] = {}
        """The agents that were passed as such, by their names: `result` gets only the id of a turn."""
        self._turns: EmbeddedDispatcher | None = None

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
        if self._turns is not None:
            await self._turns.aclose()
            self._turns = None
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
        policy: Policy = "enqueue",
        on_event: Listener | None = None,
        record: Path | None = None,
    ) -> TurnResult:
        """Run one turn with text, or with the input fields of the graph. `on_event` is called with every event.

        Without `session` the turn starts a session that has the turn's id. `principal` is who calls: it fills the agent's identity
        field, which the input then cannot name otherwise. `turn` is the caller's own id for the turn: a call with the same id and
        input does not run it again, but returns its result. `policy` says what happens where the session has an open turn. `record`
        names a new file to which the turn is recorded, for `replay` and `resume`.
        """
        if record is not None:
            check_path(record)
        check_listener(on_event)
        chosen, request = await self._request(agent, given, session=session, role=role, principal=principal, turn=turn)
        ended = await self._end_suspended(chosen, request) if request.in_session else None
        if not (request.in_session or request.pauses or turn is not None):
            # Neither a session nor its caller can come back to this turn, so it is not stored.
            return await self._runner.run(chosen, request, record=record, listener=on_event)
        if record is not None:
            check_new_record(record)
        result = await self.turns.run(chosen, request, key=turn, policy=policy, listener=on_event)
        if record is not None:
            await self.turns.export(result.turn, record)
        result = await self._follow(chosen, result, listener=on_event, record=record)
        return result if ended is None else replace(result, metadata={**result.metadata, "ended": ended})

    async def submit(
        self,
        agent: str | Graph | Agent,
        given: str | Mapping[str, Any],
        *,
        session: str | None = None,
        role: str | None = None,
        principal: str | None = None,
        turn: str | None = None,
        tenant: str = "",
        key: str | None = None,
        policy: Policy = "enqueue",
        due: float | None = None,
        is_exclusive: bool = False,
    ) -> str:
        """Accept a turn for a worker to run, and return its id. When this returns, the turn is stored and will be finished.

        The arguments are those of `run`. Sessions of different tenants share nothing. `key` is an idempotency key that is the tenant's
        own, while ids of turns are unique in the store. A turn that is `due` later, in seconds since 1970, starts no earlier. With
        `is_exclusive` the turns of a session run one after the other also where the agent does not need that. `result` waits for the
        turn, `events` follows it, and `work` runs what was submitted.
        """
        chosen, request = await self._request(agent, given, session=session, role=role, principal=principal, turn=turn, tenant=tenant)
        if not isinstance(agent, str):
            self._submitted[chosen.name] = chosen
        request.in_session |= is_exclusive
        own_key = turn if key is None else check_id(key, "key")
        return (await self.turns.submit(chosen, request, key=own_key, policy=policy, due=due)).turn

    async def result(self, turn: str, *, on_event: Listener | None = None) -> TurnResult:
        """Wait until a stored turn has ended or waits for a person; return its result. Where no worker runs it, it is run here."""
        check_listener(on_event)
        stored = await self.turns.store.get(check_id(turn, "turn"))
        if stored is None:
            raise TurnUnknown(f"There is no turn '{turn}'.")
        agent = self._submitted.get(stored.agent) or self._chosen(stored.agent)
        return await self.turns.result(agent, turn, listener=on_event)

    async def cancel(self, turn: str) -> None:
        """Cancel a stored turn, wherever it runs."""
        await self.turns.cancel(check_id(turn, "turn"))

    async def work(
        self,
        agents: Iterable[str | Graph | Agent] | None = None,
        *,
        concurrency: int = 4,
        on_ready: Callable[[], object] | None = None,
    ) -> None:
        """Run the turns that are submitted, or that a process left behind, until cancelled. Turns under way are then given back.

        Without `agents`, those of all agents that are installed. Raises SettingsInvalid where other machines may run turns of the same
        sessions, but an agent keeps data on this one only.
        """
        chosen = self.check_worker(agents)
        await self.turns.work(chosen, concurrency=concurrency, on_ready=on_ready)

    def check_worker(self, agents: Iterable[str | Graph | Agent] | None = None) -> list[Agent]:
        """Return the agents that `work` would run turns of. Raises SettingsInvalid where it would refuse."""
        chosen = [self._chosen(agent) for agent in (AGENTS if agents is None else agents)]
        check_machines(self.settings, self._providers, chosen)
        return chosen

    def parked(self, turn: StoredTurn) -> str | None:
        """Return why a turn that is ready to run cannot be run by this version of its agent, or None where it can, or has to wait."""
        if turn.status != "ready" or turn.agent not in AGENTS:
            return None
        try:
            self._runner.check_contracts(self._chosen(turn.agent), turn)
        except StateIncompatible as error:
            build = f" with build {turn.build}" if turn.build else ""
            return f"{error.message} Fix: start a worker{build}, or cancel the turn and retry it."
        return None

    @property
    def turns(self) -> EmbeddedDispatcher:
        """The dispatcher, with the store of all turns. It is opened when it is first used."""
        if self._turns is None:
            url = self.settings.turn_url
            store = open_turns(None if url is None else url.get_secret_value(), self.settings.folder)
            self._turns = open_dispatcher(self.settings, store, self._runner, name=worker_name(), build=version("interlock"))
        return self._turns

    async def stream(
        self,
        agent: str | Graph | Agent,
        given: str | Mapping[str, Any],
        *,
        session: str | None = None,
        role: str | None = None,
        principal: str | None = None,
        turn: str | None = None,
        policy: Policy = "enqueue",
    ) -> AsyncGenerator[Event, None]:
        """Run one turn and yield its events; the last one has the result. Closing the generator cancels the turn."""
        events: deque[Event] = deque()
        changed = asyncio.Event()

        def listener(event: Event) -> None:
            events.append(event)
            changed.set()

        running = self.run(agent, given, session=session, role=role, principal=principal, turn=turn, policy=policy, on_event=listener)
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

    async def answer(
        self, agent: str | Graph | Agent, text: str, *, session: str, by: str | None = None, on_event: Listener | None = None
    ) -> TurnResult:
        """Resume the suspended turn of a session with a person's answer; `by` is who answered. Recorded calls are not made again.

        Its events start from the beginning of the turn. Where the agent runs another turn after it, the result is that turn's.
        """
        check_listener(on_event)
        chosen = self._chosen(agent)
        check_text(text, max_bytes=self.settings.max_input_bytes)
        waiting = await self._waiting(chosen, session)
        self._runner.check_contracts(chosen, waiting)
        result = await self.turns.answer(chosen, waiting, text, by=by, listener=on_event)
        return await self._follow(chosen, result, listener=on_event)

    async def waiting(self, agent: str | Graph | Agent, *, session: str) -> TurnResult | None:
        """Return the suspended turn of a session, with its question, or None where no turn is suspended. No call is made."""
        chosen = self._chosen(agent)
        found = await self._find_waiting(chosen, session)
        if found is None or found.status != "waiting":
            return None
        self._runner.check_contracts(chosen, found)
        return result_of(found)

    async def abort(self, agent: str | Graph | Agent, *, session: str) -> TurnResult | None:
        """End the suspended turn of a session.

        It is resumed with the agent's word for that, and its result is returned. An agent without such a word, or a turn that cannot be
        resumed because its contracts have changed, ends where it is; the result is None then.
        """
        chosen = self._chosen(agent)
        waiting = await self._waiting(chosen, session)
        if chosen.abort is not None:
            try:
                self._runner.check_contracts(chosen, waiting)
                return await self.turns.answer(chosen, waiting, chosen.abort)
            except (RecordInvalid, StateIncompatible, NothingWaits) as error:
                LOGGER.warning("a suspended turn is given up", extra={"fields": {"agent": chosen.name, "cause": error.code}})
        await self.turns.cancel(waiting.turn)
        return None

    async def fork(
        self, agent: str | Graph | Agent, turn: str, *, step: int, session: str | None = None, principal: str | None = None
    ) -> str:
        """Run a turn that has ended, or that waits, again from one of its steps, as a new turn of another session; return its id.

        Calls before that step are not made again. What the agent keeps by session is copied to `session`, by default the new turn's id.
        """
        chosen, record = self._chosen(agent), await self.turns.record(check_id(turn, "turn"))
        new = await self._ids.new()
        to = new if session is None else check_session(session)
        stored = await check_fork(self.turns.store, turn, session=to)
        header = await self._runner.fork(chosen, record, turn=new, session=to, step=step)
        return (await self.turns.accept_again(stored, header, principal=principal)).turn

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

    async def _request(
        self,
        agent: str | Graph | Agent,
        given: str | Mapping[str, Any],
        *,
        session: str | None,
        role: str | None,
        principal: str | None,
        turn: str | None,
        tenant: str = "",
    ) -> tuple[Agent, TurnRequest]:
        """Return the agent that a caller means and the request for a turn, validated."""
        chosen = self._chosen(agent)
        id_ = await self._ids.new() if turn is None else check_id(turn, "turn")
        who = None if principal is None else check_id(principal, "principal", most=MAX_PRINCIPAL)
        return chosen, self._runner.request(chosen, given, turn=id_, session=session, role=role, principal=who, tenant=tenant)

    async def _find_waiting(self, agent: Agent, session: str) -> StoredTurn | None:
        """Return the suspended turn of a session, if it has one. A store that does not exist yet is not created."""
        check_session(session)
        is_new = self.settings.turn_url is None and not (self.settings.folder / "turns.db").exists()
        return None if is_new or not agent.pauses else await self.turns.waiting(agent, session)

    async def _waiting(self, agent: Agent, session: str) -> StoredTurn:
        """Return the suspended turn of a session. Raises NothingWaits where no turn is suspended."""
        found = await self._find_waiting(agent, session)
        if found is None:
            raise NothingWaits(f"No turn of session '{session}' waits for an answer.")
        return found

    async def _end_suspended(self, agent: Agent, request: TurnRequest) -> str | None:
        """End a suspended turn before a new one, for an agent that has a word for that; return what it said at its end."""
        if agent.abort is None:
            return None
        waiting = await self._find_waiting(agent, request.session)
        if waiting is None or waiting.status != "waiting" or waiting.turn == request.turn:
            return None
        result = await self.abort(agent, session=request.session)
        if result is not None and result.status == "success":
            return str(result.output)
        return "The question that was open is given up. What had been done before it was asked stays as it is."

    async def _follow(self, agent: Agent, result: TurnResult, *, listener: Listener | None, record: Path | None = None) -> TurnResult:
        """Wait for the turns that an agent has started after a turn, and return the result of the last one."""
        for number in count(2):
            turn = next_turn(result.turn)
            if agent.follow is None or result.status != "success" or await self.turns.store.get(turn) is None:
                break
            result = await self.turns.result(agent, turn, listener=listener)
            if record is not None:
                await self.turns.export(turn, record.with_name(f"{record.stem}.{number}{record.suffix}"))
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
        found = await self._find_waiting(chosen, session)
        return [] if found is None else await self.turns.standing_events(found.turn)

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
