"""The composition root: settings become adapters, adapters become grants, graphs become agents that run.

The only module that knows everyone. What is heavy (LangGraph, LangChain) is imported when it is first needed.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import logging
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import WeakValueDictionary

from interlock.adapters.system import SystemIds
from interlock.agent import Agent
from interlock.capabilities import Ids
from interlock.capabilities.graph_store import GraphStore
from interlock.capabilities.human import Question
from interlock.contract import Graph
from interlock.engine.direct import DirectGraph
from interlock.errors import (
    AgentUnknown,
    ContractError,
    InputSchema,
    InterlockError,
    NothingWaits,
    Problem,
    RecordInvalid,
    RoleUnknown,
    SettingsInvalid,
    StateIncompatible,
    StoreUnavailable,
    TurnCancelled,
)
from interlock.input import check_characters, check_session, check_sink, check_size, check_text
from interlock.installed import AGENTS, load_installed
from interlock.providers.resolver import Providers
from interlock.reply import Reply
from interlock.runtime.events import EventQueue
from interlock.runtime.gate import Gate
from interlock.runtime.grant_checks import subgraph_problems
from interlock.runtime.journal import Entry, Journal
from interlock.runtime.limits import Limits
from interlock.runtime.observe import LOGGER, Steps, tracing
from interlock.runtime.recording import Footer, Header, Record, RecordFile, Replay, check_path, differences, read_record
from interlock.runtime.redaction import Redactor
from interlock.runtime.redaction.exceptions import redact_error
from interlock.runtime.redaction.values import ValueRedactor
from interlock.runtime.sessions import SessionState
from interlock.runtime.standalone import Standalone
from interlock.runtime.targets import ReadySubgraph
from interlock.runtime.turn import Turn, TurnOptions, TurnRequest, TurnResult
from interlock.runtime.waiting import WaitingTurns
from interlock.settings import LIMITS, Settings, read_settings

if TYPE_CHECKING:
    from interlock.capabilities.graph_store import Edge as GraphEdge
    from interlock.capabilities.graph_store import KeptGraph
    from interlock.capabilities.graph_store import Node as GraphNode
    from interlock.engine import Compiled
    from interlock.engine.langgraph import AnyCheckpointer, AnyCompiledGraph, AnyStore, LangGraphGraph
    from interlock.engine.messages import NativeField
    from interlock.runtime.events import Event, Sink

__all__ = ["AGENTS", "Interlock", "agent_of", "entry_of", "load_agent"]

MAX_EDGES = 100_000
"""How many edges of a property graph are returned at most."""

_FOLLOWING = 10  # turns that may follow one another without a new input


@functools.cache
def load_agent(name: str) -> Agent:
    """Load one of the agents that are installed."""
    found = load_installed(name)
    if not isinstance(found, Agent) or found.name != name:
        is_one = f"an Agent named '{found.name}'" if isinstance(found, Agent) else f"a '{type(found).__name__}'"
        raise AgentUnknown(f"What is installed as agent '{name}' is {is_one}. It has to be an Agent of the same name.")
    return found


def agent_of(graph: Graph) -> Agent:
    """Make an agent of a bare graph: text goes into the one field it takes, the reply is the field it gives."""

    def reply(state: Mapping[str, Any]) -> Reply:
        return Reply(output=state if graph.gives is None else state.get(graph.gives))

    return Agent(name=graph.name, summary="", graphs=(graph,), entries={None: graph}, reply=reply)


@dataclass(frozen=True)
class _Ready:
    """A graph with its capabilities, compiled."""

    gate: Gate
    compiled: Compiled


class Interlock:
    """Agents, ready to run.

    Settings come from the environment and `interlock.toml` where they are not given. `grants` puts adapters of your own
    in the place of the configured ones: `Interlock(grants={Clock: FixedClock()})`. As a context (`async with Interlock()
    as app`) it releases at the end what it opened, such as connections to a model.
    """

    def __init__(self, settings: Settings | None = None, *, grants: Mapping[type, object] | None = None) -> None:
        if settings is not None and not isinstance(settings, Settings):  # pyright: ignore[reportUnnecessaryIsInstance] - see `_chosen`
            raise SettingsInvalid(f"Settings are given as 'Settings', not as a '{type(settings).__name__}'.")
        self.settings = settings or read_settings()
        self._providers = Providers(self.settings, grants or {})
        problems = self._providers.problems()
        if problems:
            raise ContractError(problems)
        self._ids = cast("Ids", (grants or {}).get(Ids, SystemIds()))
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._bare: dict[int, Agent] = {}
        self._ready: dict[tuple[int, int], tuple[Agent, Graph, _Ready]] = {}
        self._waiting = WaitingTurns(self.settings.folder / "turns")
        self.redactor = Redactor(self.settings.redact, literals=self.settings.secrets)
        """Knows every secret of the settings, and of the agents that have been used: also for the log of a program."""
        self._options = TurnOptions(
            limits=Limits(**{name: getattr(self.settings, name) for name in LIMITS}),
            redactor=self.redactor,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release what was opened: connections, a model in memory."""
        await self._providers.close()

    async def run(
        self,
        agent: str | Graph | Agent,
        given: str | Mapping[str, Any],
        *,
        session: str | None = None,
        role: str | None = None,
        on_event: Sink | None = None,
        record: Path | None = None,
    ) -> TurnResult:
        """Take one turn: text, or the input fields of the graph. `on_event` is called with every event as it happens.

        `agent` is the name of one that comes with Interlock, or an agent or a graph of your own.
        A turn for which no session is named begins one, which has the turn's own id. `record` names a new file, to which
        the turn is written for `replay` and `resume`.
        """
        if record is not None:
            check_path(record)
        check_sink(on_event)
        admitted = self._admit(agent, given, session=session, role=role, turn=await self._ids.new())
        if isinstance(admitted, InterlockError):
            raise admitted  # here, where what it comes from is not dragged along: that may quote what came in
        request, ready = admitted
        if not request.in_session:
            return await self._take(request, ready, record, on_event)
        ended = await self._end_waiting(agent, request)
        async with self._turn_of(request):
            result = await self._take(request, ready, record, on_event)
        result = await self._followed(agent, result, role, on_event, record=record)
        return result if ended is None else replace(result, metadata={**result.metadata, "ended": ended})

    async def answer(self, agent: str | Graph | Agent, text: str, *, session: str, on_event: Sink | None = None) -> TurnResult:
        """Go on with the turn of a session that waits for a person, with what the person says. Nothing is done twice.

        The turn is told from its beginning: what had happened before it stopped comes again as it was. Where the agent goes on with
        another turn after the answer, that turn is taken too, and its result is returned.
        """
        check_sink(on_event)
        path = self._waiting.find(self._chosen(agent).name, check_session(session))
        check_text(text, max_bytes=self.settings.max_input_bytes)
        role = read_record(path).header.role
        result = await self._go_on(path, graph=None if isinstance(agent, str) else agent, on_event=on_event, answer=text)
        return await self._followed(agent, result, role, on_event)

    async def waiting(self, agent: str | Graph | Agent, *, session: str) -> TurnResult | None:
        """Return the turn of a session that waits for a person, with its question, or None where none waits. Nothing is done twice."""
        path = self._waiting.path(self._chosen(agent).name, check_session(session))
        return None if path is None else await self._go_on(path, graph=None if isinstance(agent, str) else agent, on_event=None)

    async def abort(self, agent: str | Graph | Agent, *, session: str) -> TurnResult | None:
        """Give up the turn of a session that waits for a person.

        An agent that has a word for that is told it, and the result of its turn is returned. Otherwise the turn ends where it is, as it
        does where it cannot go on because its record is damaged or of other contracts; then the result is None.
        """
        chosen = self._chosen(agent)
        path = self._waiting.find(chosen.name, check_session(session))
        if chosen.abort is not None:
            try:
                result = await self._go_on(path, graph=None if isinstance(agent, str) else agent, on_event=None, answer=chosen.abort)
            except (RecordInvalid, StateIncompatible) as error:
                LOGGER.warning("a turn that waited is given up", extra={"fields": {"agent": chosen.name, "cause": error.code}})
            else:
                if result.status == "error":  # one that its journal cannot vouch for would wait still
                    self._waiting.drop(chosen.name, session)
                return result
        self._waiting.drop(chosen.name, session)
        return None

    async def _end_waiting(self, agent: str | Graph | Agent, request: TurnRequest) -> str | None:
        """Give up a turn that waits, for an agent that has a word for that; return what it said at its end."""
        if self._chosen(agent).abort is None or self._waiting.path(request.agent, request.session) is None:
            return None
        result = await self.abort(agent, session=request.session)
        if result is not None and result.status == "success":
            return str(result.output)
        return "The question that was open is given up. What had been done before it was asked stays as it is."

    async def _followed(
        self, agent: str | Graph | Agent, result: TurnResult, role: str | None, sink: Sink | None, *, record: Path | None = None
    ) -> TurnResult:
        """Take the turns that an agent lets follow at once; where there would be too many, the session's next turn goes on."""
        follow = self._chosen(agent).follow
        for number in range(2, _FOLLOWING + 2):
            given = follow(result.state) if follow is not None and result.status == "success" else None
            if given is None:
                break
            admitted = self._admit(agent, given, session=result.session, role=role, turn=await self._ids.new())
            if isinstance(admitted, InterlockError):
                raise admitted
            request, ready = admitted
            beside = None if record is None else record.with_name(f"{record.stem}.{number}{record.suffix}")
            async with self._turn_of(request):
                result = await self._take(request, ready, beside, sink)
        return result

    async def _take(self, request: TurnRequest, ready: _Ready, record: Path | None, sink: Sink | None) -> TurnResult:
        if request.pauses:
            begun = self._waiting.begin(request.agent, request.session)
            path, waits = record or begun, False
            try:
                result = await self._write_down(request, ready, path, sink, to_the_end=record is not None)
                waits = result.status == "waiting"
                return result
            finally:
                self._waiting.settle(path, request.agent, request.session, waits=waits)
        if record is None:
            return await Turn(request, ready.gate, options=self._observed_options(), sink=sink).run(ready.compiled)
        return await self._write_down(request, ready, record, sink)

    async def _write_down(
        self, request: TurnRequest, ready: _Ready, path: Path, sink: Sink | None, *, to_the_end: bool = True
    ) -> TurnResult:
        with RecordFile.create(path, Header.of(request, ready.gate.fingerprint, self._options.limits, self.settings.redact)) as recorder:
            return await self._record(request, ready, recorder, Journal(request.turn, store=recorder), sink=sink, to_the_end=to_the_end)

    def _turn_of(self, request: TurnRequest) -> asyncio.Lock:
        """Let the turns of a session follow one another. Other processes are held off by the session's store."""
        key = (request.agent, request.session)
        lock = self._turns.get(key)
        if lock is None:
            lock = self._turns[key] = asyncio.Lock()
        return lock

    async def replay(self, path: Path, *, graph: Graph | Agent | None = None, on_event: Sink | None = None) -> Replay:
        """Take a recorded turn again with what was recorded: nothing is asked, told or looked up anew.

        An agent that comes with Interlock is found by its name; an agent or a graph of your own has to be passed.
        """
        check_sink(on_event)
        record = read_record(path)
        if record.footer is None:
            raise RecordInvalid(f"The turn in '{path}' stopped half way. Fix: go on with it, by '--resume' or 'Interlock.resume'.")
        _check_not_cancelled(path, record.footer)
        chosen, request = self._recorded_request(record, graph)
        gate = self._gate(chosen, request.graph, lets_out=False)
        request.session_state = self._kept(chosen, request, gate, is_open=False)
        options = TurnOptions(
            limits=record.header.limits,
            redactor=Redactor(record.header.redact, literals=self.settings.secrets),
            time_ran_out=record.footer.time_ran_out,
        )
        events: list[Event] = []
        journal = Journal(request.turn, entries=record.entries, complete=True)
        result = await Turn(request, gate, options=options, sink=_both(events, on_event), journal=journal).run(
            self._compiled(request.graph, gate)
        )
        found = differences(record, gate.fingerprint, Footer.of(result, events), journal.unused)
        return Replay(record=record, result=result, differences=tuple(found))

    async def resume(self, path: Path, *, graph: Graph | Agent | None = None, on_event: Sink | None = None) -> TurnResult:
        """Go on with a recorded turn that stopped half way: what it had done is taken from the record, never done again."""
        return await self._go_on(path, graph=graph, on_event=on_event)

    async def _go_on(self, path: Path, *, graph: Graph | Agent | None, on_event: Sink | None, answer: str | None = None) -> TurnResult:
        check_sink(on_event)
        record = read_record(path)
        if record.footer is not None:
            _check_not_cancelled(path, record.footer)
            raise RecordInvalid(f"The turn in '{path}' has ended. Fix: take it again, by 'replay'.")
        chosen, request = self._recorded_request(record, graph)
        ready = self._prepare(chosen, request.graph)
        if record.header.fingerprint != ready.gate.fingerprint:
            raise StateIncompatible(f"The contracts of '{request.graph.name}' have changed since the turn in '{path}' began.")
        request.session_state = self._kept(chosen, request, ready.gate)
        async with self._turn_of(request) if request.in_session else nullcontext():
            if not path.exists():  # noqa: ASYNC240 - one look at a file
                raise NothingWaits(f"Somebody else has answered in session '{request.session}'.")
            with RecordFile.reopen(path) as recorder:
                if read_record(path) != record:
                    raise RecordInvalid(f"Somebody else has gone on with the turn in '{path}'.")
                entries = record.entries if answer is None else await _write_answer(recorder, record, answer)
                journal = Journal(request.turn, entries=entries, store=recorder)
                is_kept = not self._waiting.is_own(path)
                result = await self._record(request, ready, recorder, journal, sink=on_event, to_the_end=is_kept)
                if request.pauses and journal.failure is None:  # before anybody else may write to it
                    self._waiting.settle(path, request.agent, request.session, waits=result.status == "waiting")
            return result

    async def stream(
        self,
        agent: str | Graph | Agent,
        given: str | Mapping[str, Any],
        *,
        session: str | None = None,
        role: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Take one turn and yield its events; the last one carries the result. Stopping early ends the turn."""
        heard = EventQueue()
        task = asyncio.create_task(self.run(agent, given, session=session, role=role, on_event=heard.append))
        task.add_done_callback(lambda _: heard.end())
        try:
            while await heard.wait():
                while heard.events:
                    yield heard.events.popleft()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def property_graph(self, session: str, *, limit: int = 100) -> tuple[tuple[GraphNode, ...], tuple[GraphEdge, ...]]:
        """Return the nodes and the edges of the property graph that a session works on, so many nodes of it at most."""
        store, name = self._providers.adapter(GraphStore), check_session(session)
        nodes = await store.nodes(name, limit=limit)
        return nodes, await store.edges(name, limit=MAX_EDGES)

    async def property_graphs(self) -> tuple[KeptGraph, ...]:
        """List the property graphs that are kept, by the names of their sessions."""
        return await self._kept_graphs().graphs()

    async def delete_property_graph(self, session: str) -> None:
        """Delete the property graph of a session with all that it has. Raises NotInGraph where there is none."""
        await self._kept_graphs().delete(session)

    def _kept_graphs(self) -> Any:
        store = self._providers.adapter(GraphStore)
        if not hasattr(store, "graphs") or not hasattr(store, "delete"):
            raise StoreUnavailable(f"'{type(store).__name__}' cannot list or delete its graphs.")
        return store

    def graph(self, name: str) -> Graph:
        """Return a graph by its name."""
        return self._find(name)[1]

    def langgraph(
        self,
        agent: str | Graph | Agent,
        *,
        checkpointer: AnyCheckpointer | None = None,
        store: AnyStore | None = None,
    ) -> AnyCompiledGraph:
        """Hand out a graph as a compiled LangGraph graph, for everything that LangGraph's world does with one."""
        chosen, graph = self._find(agent) if isinstance(agent, str) else self._entered(agent)
        # A bare graph cannot say what it keeps, so all of it stays on a thread, as in any graph of LangGraph's.
        outlive = graph.state.names if isinstance(agent, Graph) else {*chosen.keeps, *graph.state.takes} & graph.state.names
        gate = self._gate(chosen, graph)
        return self._compile(graph, gate, checkpointer=checkpointer, store=store, outlive=sorted(outlive), native=chosen.native).compiled

    def _chosen(self, agent: str | Graph | Agent) -> Agent:
        """Find the agent that is meant: one that comes with Interlock, one of your own, or a graph of your own as one."""
        if isinstance(agent, str):
            return load_agent(agent)
        if isinstance(agent, Agent):
            return agent
        if not isinstance(agent, Graph):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
            raise AgentUnknown(f"The agent is a '{type(agent).__name__}': pass the name of an agent, an Agent or a Graph.")
        if id(agent) not in self._bare:
            self._bare[id(agent)] = agent_of(agent)
        return self._bare[id(agent)]

    def _entered(self, agent: Graph | Agent) -> tuple[Agent, Graph]:
        chosen = self._chosen(agent)
        return chosen, entry_of(chosen, None)

    def _find(self, name: str) -> tuple[Agent, Graph]:
        if name in AGENTS:
            agent = load_agent(name)
            return agent, entry_of(agent, None)
        found: dict[str, tuple[Agent, Graph]] = {}
        for installed in AGENTS:
            with suppress(InterlockError):  # an agent that cannot be loaded has no graphs
                agent = load_agent(installed)
                found |= {graph.name: (agent, graph) for graph in agent.graphs}
        if name in found:
            return found[name]
        known = ", ".join(found)
        raise AgentUnknown(f"There is no graph '{name}'. There are: {known}.")

    def _prepare(self, agent: Agent, graph: Graph, *, inside: tuple[Graph, ...] = ()) -> _Ready:
        """Compile a graph for the configured engine, and those inside it, once for each agent: each has rules of its own."""
        key = (id(agent), id(graph))
        known = self._ready.get(key)
        if known is not None:
            return known[-1]
        gate = self._gate(agent, graph, inside=inside)
        ready = _Ready(gate, self._compiled(graph, gate))
        self._ready[key] = (agent, graph, ready)
        return ready

    def _compiled(self, graph: Graph, gate: Gate) -> Compiled:
        return DirectGraph(graph) if self.settings.engine == "direct" else self._compile(graph, gate)

    def _compile(
        self,
        graph: Graph,
        gate: Gate,
        *,
        checkpointer: AnyCheckpointer | None = None,
        store: AnyStore | None = None,
        outlive: Collection[str] | None = None,
        native: Mapping[str, NativeField] | None = None,
    ) -> LangGraphGraph:
        from interlock.engine.exported import current_redaction  # noqa: PLC0415 - takes most of a second
        from interlock.engine.langgraph import LangGraphGraph  # noqa: PLC0415 - likewise

        def redact() -> ValueRedactor:
            return ValueRedactor(self._options.redactor.for_turn(gate.names), secret=graph.state.secret, keys=gate.names)

        def options() -> TurnOptions:
            """Return the options of a step where LangGraph alone drives: what is secret is known to the whole run."""
            run = cast("ValueRedactor | None", current_redaction.get()) or redact()
            return replace(self._observed_options(), redactor=run.redactor)

        standalone = Standalone(graph, gate, options, max_answer_bytes=self.settings.max_input_bytes)
        return LangGraphGraph(
            graph,
            standalone=standalone.run_node,
            redact=redact,
            checkpointer=checkpointer,
            store=store,
            fingerprint=gate.fingerprint,
            outlive=outlive,
            native={name: one for name, one in (native or {}).items() if name in graph.state.fields},
        )

    def _read_settings(self, agent: Agent) -> None:
        """Read the settings of an agent before anything uses them, so that no secret among them is ever shown."""
        if agent.settings is not None:
            self.settings.of(agent.settings)
            self.redactor.add_secret(list(self.settings.secrets))

    def _gate(self, agent: Agent, graph: Graph, *, lets_out: bool = True, inside: tuple[Graph, ...] = ()) -> Gate:
        """Make the gate of a graph, and everything of the graphs that stand behind its capabilities."""
        self._read_settings(agent)
        behind = self._providers.subgraphs(agent, graph.capabilities)
        inside = (*inside, graph)
        problems = [problem for capability, subgraph in behind.items() for problem in subgraph_problems(graph, capability, subgraph)]
        if any(subgraph.graph in inside for subgraph in behind.values()):
            ring = " > ".join(one.name for one in inside)
            problems.append(Problem("ring", f"it is granted to itself: {ring}.", "grant something else.", graph.name))
        if problems:
            raise ContractError(problems)
        ready: dict[type, ReadySubgraph] = {}
        for capability, subgraph in behind.items():
            inner = subgraph.graph
            if lets_out:
                prepared = self._prepare(agent, inner, inside=inside)
            else:
                shut = self._gate(agent, inner, lets_out=False, inside=inside)
                prepared = _Ready(shut, self._compiled(inner, shut))
            ready[capability] = ReadySubgraph(subgraph, prepared.gate, prepared.compiled)
        composed = self._providers.composed(agent, graph.capabilities, replaying=not lets_out)
        plain = tuple(one for one in graph.capabilities if one not in behind and one not in composed)
        return Gate(graph, self._providers.adapters(agent, plain) if lets_out else None, subgraphs=ready, composed=composed)

    def _admit(
        self, agent: str | Graph | Agent, given: str | Mapping[str, Any], *, session: str | None, role: str | None, turn: str
    ) -> tuple[TurnRequest, _Ready] | InterlockError:
        """Find out what a turn is about; return why it cannot be taken."""
        try:
            chosen = self._chosen(agent)
            graph = entry_of(chosen, role)
            session = turn if session is None else check_session(session)
            given = self._checked(given, may_be_empty=chosen.answers_empty)
            values = graph.state.parse_input(chosen.admit(given, session) if chosen.admit is not None else _named(graph, given))
            missing = next((name for name in graph.needs if name not in values and name not in chosen.keeps), None)
            if missing is not None:
                raise InputSchema(f"Field '{missing}' is missing. Fix: pass it; graph '{graph.name}' cannot begin without it.")
            request = TurnRequest(
                agent=chosen.name,
                graph=graph,
                role=role,
                session=session,
                turn=turn,
                given=values,
                reply=chosen.reply,
                in_session=chosen.has_sessions,
                pauses=chosen.pauses,
                partial=chosen.partial,
            )
            _check_steps(chosen, self.settings.max_steps)
            ready = self._prepare(chosen, graph)
            request.session_state = self._kept(chosen, request, ready.gate)
        except ContractError:
            raise  # about code, which its author has to see whole
        except InterlockError as error:
            return redact_error(self._options.redactor.for_turn(), error)
        return request, ready

    def _kept(self, agent: Agent, request: TurnRequest, gate: Gate, *, is_open: bool = True) -> SessionState | None:
        """Find what outlives a turn, for an agent that keeps something."""
        if not agent.keeps:
            return None
        store = self._providers.session_state(request.graph, gate.fingerprint) if is_open else None
        return SessionState(request.graph, agent.keeps, store, session=request.session, turn=request.turn)

    def _checked(self, given: str | Mapping[str, Any], *, may_be_empty: bool) -> str | Mapping[str, Any]:
        """Refuse input that no agent could take."""
        limit = self.settings.max_input_bytes
        if isinstance(given, str):
            return given if may_be_empty and not given.strip() else check_text(given, max_bytes=limit)
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
            raise InputSchema(f"The input is a '{type(given).__name__}': pass text, or a mapping of the fields that the graph takes.")
        for value in given.values():
            if isinstance(value, str):
                check_characters(value, max_bytes=limit)
        check_size(given, max_bytes=limit)
        return given

    def _observed_options(self) -> TurnOptions:
        """Return the options with whoever watches now: OpenTelemetry and logging can be set up at any time."""
        spans = tracing()
        watchers = () if spans is None else (spans,)
        if LOGGER.isEnabledFor(logging.DEBUG):
            watchers = (*watchers, Steps())
        return replace(self._options, watchers=watchers) if watchers else self._options

    async def _record(
        self,
        request: TurnRequest,
        ready: _Ready,
        recorder: RecordFile,
        journal: Journal,
        *,
        sink: Sink | None,
        to_the_end: bool,
    ) -> TurnResult:
        """Run a turn with recording. Unless `to_the_end`, record only what is needed to resume it.

        A turn whose journal failed has no footer: what is recorded of it holds, and it can be resumed.
        """
        events: list[Event] = []
        heard = _both(events, sink) if to_the_end else sink
        turn = Turn(request, ready.gate, options=self._observed_options(), sink=heard, journal=journal)
        try:
            result = await turn.run(ready.compiled)
        except asyncio.CancelledError:
            if to_the_end and journal.failure is None:
                with suppress(InterlockError):  # it ends all the same
                    await recorder.end(vars(Footer.of(turn.cancelled(), events)))
            raise
        if to_the_end and journal.failure is None and result.status != "waiting":  # else it has not ended
            await recorder.end(vars(Footer.of(result, events)))
        return result

    def _recorded_request(self, record: Record, graph: Graph | Agent | None) -> tuple[Agent, TurnRequest]:
        """Find out what a recorded turn was about."""
        header = record.header
        if graph is None and header.agent not in AGENTS:
            raise RecordInvalid(f"The record is of '{header.agent}', one of your own. Fix: name it, by '--graph MODULE:NAME'.")
        chosen = self._chosen(header.agent if graph is None else graph)
        return chosen, header.request(chosen, entry_of(chosen, header.role))


async def _write_answer(file: RecordFile, record: Record, text: str) -> list[Entry]:
    """Write a person's answer as the result of the call that waits for it; return the journal with it.

    The same answer may come again, where the turn could not go on after the first time.
    """
    asked = [entry for entry in record.entries if entry.question is not None]
    if not asked or asked[-1].question is None:
        raise NothingWaits(f"No call of turn '{record.header.turn}' waits for an answer.")
    entry = asked[-1].answered(Question(text="", options=tuple(asked[-1].question["options"])).resolve(text))
    known = next((one for one in record.entries if one.question is None and one.sequence == entry.sequence), None)
    if known is None:
        await file.append(entry)
        return [*record.entries, entry]
    if known.result != entry.result:
        raise NothingWaits(
            "The question has been answered before, in other words. Fix: give that answer again, or give up the turn by 'abort'."
        )
    return record.entries


def _check_not_cancelled(path: Path, footer: Footer) -> None:
    if footer.result["status"] == "cancelled":
        raise TurnCancelled(f"The turn in '{path}' was cancelled, so it has no end to come to. Fix: run it again, with a new record.")


def _both(events: list[Event], sink: Sink | None) -> Sink:
    """Keep events for the record, and pass them on."""

    def hear(event: Event) -> None:
        events.append(event)
        if sink is not None:
            sink(copy.deepcopy(event))

    return hear


def _check_steps(agent: Agent, most: int | None) -> None:
    """Refuse a limit of steps by which a turn could not end as the agent's document says."""
    if most is not None and most < agent.least_steps:
        raise SettingsInvalid(
            f"A turn of '{agent.name}' may need {agent.least_steps} steps to end, and may take {most} (max_steps)."
            f" Fix: set max_steps to {agent.least_steps} or more."
        )


def _named(graph: Graph, given: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Put text into the one field that a graph takes."""
    if not isinstance(given, str):
        return given
    if len(graph.state.takes) != 1:
        raise InputSchema(f"Graph '{graph.name}' takes {len(graph.state.takes)} fields, so pass a mapping instead of text.")
    return {graph.state.takes[0]: given}


def entry_of(agent: Agent, role: str | None) -> Graph:
    """Return the graph that a role enters. Raises RoleUnknown for one that enters none."""
    if role is not None and not isinstance(role, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
        raise RoleUnknown(f"The role is a '{type(role).__name__}': pass text.")
    if role not in agent.entries:
        roles = ", ".join(f"'{known}'" for known in agent.entries if known is not None) or "no roles"
        if role is None:
            raise RoleUnknown(f"Agent '{agent.name}' is entered by a role: {roles}. Fix: name it, by '--as ROLE' or 'role='.")
        raise RoleUnknown(f"Agent '{agent.name}' has no entry for role '{role}'. It has {roles}.")
    return agent.entries[role]
