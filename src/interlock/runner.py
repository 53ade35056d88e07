"""Runs requests as turns: one at a time in a session, recorded where that is wanted or needed to resume them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.agent import Agent
from interlock.attempts import run_attempt, seconds_left
from interlock.compiler import CompiledGraph, Compiler
from interlock.contract import Graph
from interlock.discovery import entry_of
from interlock.errors import (
    ContractError,
    InputSchema,
    InterlockError,
    JournalFailed,
    RecordInvalid,
    ReplayDiverged,
    SettingsInvalid,
    StateIncompatible,
    TurnCancelled,
)
from interlock.forks import session_copy, session_fields
from interlock.input import check_characters, check_session, check_size, check_text
from interlock.providers.resolver import Providers
from interlock.replay import Replay, differences
from interlock.runtime.forks import Fork, ForkJournal
from interlock.runtime.gate import Gate
from interlock.runtime.journal import Entry, Journal
from interlock.runtime.recording import Footer, Header, Record, RecordFile, read_header, read_record
from interlock.runtime.redaction import Redactor
from interlock.runtime.redaction.exceptions import redact_error
from interlock.runtime.sessions import SessionState, stored_session
from interlock.runtime.turn import Turn, TurnOptions, TurnRequest, TurnResult
from interlock.runtime.turns import StoredTurn
from interlock.runtime.worker import Lease
from interlock.settings import Settings
from interlock.system import SystemClock

if TYPE_CHECKING:
    from interlock.runtime.events import Event, Listener

__all__ = ["Runner", "first_turn", "next_turn"]


class Runner:
    """Runs turns. `options` returns the options that a turn starts with."""

    def __init__(self, settings: Settings, providers: Providers, compiler: Compiler, options: Callable[[], TurnOptions]) -> None:
        self._settings = settings
        self._providers = providers
        self._compiler = compiler
        self._options = options
        self._clock = SystemClock()

    def request(
        self,
        agent: Agent,
        given: str | Mapping[str, Any],
        *,
        turn: str,
        session: str | None,
        role: str | None,
        principal: str | None = None,
        tenant: str = "",
    ) -> TurnRequest:
        """Validate an input and return the request for its turn. A refusal is raised without the rejected value in its context."""
        try:
            graph = entry_of(agent, role)
            session = turn if session is None else check_session(session)
            given = self._checked(given, may_be_empty=agent.answers_empty)
            fields = agent.parse_input(given, stored_session(tenant, session)) if agent.parse_input is not None else _fields(graph, given)
            values = graph.state.parse_input(_identified(agent, fields, given, principal))
            missing = next((name for name in graph.needs if name not in values and name not in agent.persists), None)
            if missing is not None:
                raise InputSchema(f"Field '{missing}' is missing. Fix: pass it; graph '{graph.name}' cannot begin without it.")
            _check_steps(agent, self._settings.max_steps)
            request = _request(agent, graph, values, role=role, session=session, turn=turn)
            request.principal = principal
            request.tenant = tenant
            request.session_state = self._session_state(agent, request, self._compiler.compile(agent, graph).gate)
        except ContractError:
            raise  # It is about code, and its author has to see all of it.
        except InterlockError as error:
            refusal = redact_error(self._options().redactor.for_turn(), error)
        else:
            return request
        raise refusal

    def following(self, agent: Agent, turn: StoredTurn, result: TurnResult) -> TurnRequest | None:
        """Return the request of the turn that an agent starts after a successful one, if it starts one."""
        if agent.follow is None or result.status != "success" or _number(turn.turn)[1] > _MAX_FOLLOWING:
            return None
        given = agent.follow(result.state)
        if given is None:
            return None
        next_id, session, role = next_turn(turn.turn), turn.session, turn.role
        return self.request(agent, given, turn=next_id, session=session, role=role, principal=turn.principal, tenant=turn.tenant)

    async def run(self, agent: Agent, request: TurnRequest, *, record: Path | None, listener: Listener | None) -> TurnResult:
        """Run a turn in memory, or with a record in a file. It is not stored: when this process dies, the turn does."""
        compiled = self._compiler.compile(agent, request.graph)
        if record is not None:
            return await self._run_recorded(
                request, compiled, self.header(agent, request, deadline=await self._deadline()), record, listener
            )
        return await Turn(request, compiled.gate, options=self._options(), listener=listener).run(compiled.compiled)

    async def _run_recorded(
        self, request: TurnRequest, compiled: CompiledGraph, header: Header, record: Path, listener: Listener | None
    ) -> TurnResult:
        """Run a turn with a record in a file."""
        with RecordFile.create(record, header) as file:
            return await self._record(request, compiled, file, Journal(request.turn, store=file), listener=listener)

    async def _record(
        self,
        request: TurnRequest,
        compiled: CompiledGraph,
        file: RecordFile,
        journal: Journal,
        *,
        listener: Listener | None,
        seconds_left: float | None = None,
    ) -> TurnResult:
        """Run a turn with recording. A turn whose journal failed gets no footer, so it can be resumed."""
        events: list[Event] = []
        options = replace(self._options(), seconds_left=seconds_left)
        turn = Turn(request, compiled.gate, options=options, listener=_recording(events, listener), journal=journal)
        try:
            result = await turn.run(compiled.compiled)
        except asyncio.CancelledError:
            if journal.failure is None:
                with suppress(InterlockError, JournalFailed):
                    await journal.commit()
                    await file.end(vars(Footer.of(turn.cancelled(), events)))
            raise
        if journal.failure is None and result.status != "waiting":
            await file.end(vars(Footer.of(result, events)))
        return result

    def header(self, agent: Agent, request: TurnRequest, *, deadline: float | None = None) -> Header:
        """Return what is stored of a request, so that any process can run its turn."""
        fingerprint, limits = self.fingerprint(agent, request.graph), self._options().limits
        return Header.of(request, fingerprint, limits, self._settings.redact, deadline=deadline)

    async def _deadline(self) -> float | None:
        """Return when a turn that starts now has to have ended, in seconds since 1970."""
        seconds = self._options().limits.max_turn_seconds
        return None if seconds is None else (await self._clock.now()).timestamp() + seconds

    def fingerprint(self, agent: Agent, graph: Graph) -> str:
        """Return the fingerprint of a graph's contracts."""
        return self._compiler.compile(agent, graph).gate.fingerprint

    def check_contracts(self, agent: Agent, turn: StoredTurn) -> None:
        """Raise StateIncompatible where the contracts of a stored turn's graph have changed since it was accepted."""
        graph = entry_of(agent, turn.role)
        if turn.fingerprint != self.fingerprint(agent, graph):
            raise StateIncompatible(f"The contracts of '{graph.name}' have changed since turn '{turn.turn}' began.")

    async def execute(
        self,
        agent: Agent,
        lease: Lease,
        *,
        gives_back: bool = False,
        before_end: Callable[[TurnResult], Awaitable[None]] | None = None,
    ) -> TurnResult:
        """Run a claimed turn, or resume it where an earlier attempt ended. Recorded calls are not made again.

        Raises Fenced where another worker takes the turn over, or may do so because the store of its session could not be reached.
        A turn that is cancelled ends as such, or is given back to others. `before_end` is called before it is stored how the turn ended.
        """
        header = read_header(lease.turn.header)
        request = _recorded_request(agent, header)
        compiled = self._compiler.compile(agent, request.graph)
        request.session_state = self._session_state(agent, request, compiled.gate, epoch=lease.turn.epoch)
        reused = () if header.fork is None else header.fork.entries
        journal = Journal(request.turn, entries=(*reused, *lease.entries), store=lease)
        options = replace(self._options(), seconds_left=seconds_left(header, lease))
        turn = Turn(request, compiled.gate, options=options, listener=lease.on_event, journal=journal)
        return await run_attempt(lease, journal, turn, compiled.compiled, gives_back=gives_back, before_end=before_end)

    async def resume(self, agent: Agent, path: Path, *, listener: Listener | None) -> TurnResult:
        """Resume a turn whose record stopped half way. Recorded calls are not made again."""
        record = read_record(path)
        if record.footer is not None:
            _check_not_cancelled(path, record.footer)
            raise RecordInvalid(f"The turn in '{path}' has ended. Fix: replay it, by 'replay'.")
        request = _recorded_request(agent, record.header)
        compiled = self._compiler.compile(agent, request.graph)
        if record.header.fingerprint != compiled.gate.fingerprint:
            raise StateIncompatible(f"The contracts of '{request.graph.name}' have changed since the turn in '{path}' began.")
        request.session_state = self._session_state(agent, request, compiled.gate)
        with RecordFile.reopen(path) as file:
            if read_record(path) != record:
                raise RecordInvalid(f"Another process has resumed the turn in '{path}'.")
            journal = Journal(request.turn, entries=record.entries, store=file)
            left = await self._seconds_left(record.header, record.entries)
            return await self._record(request, compiled, file, journal, listener=listener, seconds_left=left)

    async def _seconds_left(self, header: Header, entries: Sequence[Entry]) -> float | None:
        """Return what is left of the time of an interrupted turn; None for a suspended one: waiting for a person is not its time."""
        if header.deadline is None or any(entry.question is not None for entry in entries):
            return None
        return max(0.0, header.deadline - (await self._clock.now()).timestamp())

    async def replay(self, agent: Agent, path: Path, *, listener: Listener | None) -> Replay:
        """Run a recorded turn again with its journal: no adapter is called. Return how the result differs."""
        record = read_record(path)
        if record.footer is None:
            raise RecordInvalid(f"The turn in '{path}' stopped half way. Fix: resume it, by '--resume' or 'Interlock.resume'.")
        _check_not_cancelled(path, record.footer)
        request = _recorded_request(agent, record.header)
        compiled = self._compiler.compile_for_replay(agent, request.graph)
        request.session_state = self._session_state(agent, request, compiled.gate, for_replay=True)
        options = TurnOptions(
            limits=record.header.limits,
            redactor=Redactor(record.header.redact, literals=self._settings.secrets),
            time_ran_out=record.footer.time_ran_out,
        )
        events: list[Event] = []
        journal = Journal(request.turn, entries=record.entries, complete=True)
        turn = Turn(request, compiled.gate, options=options, listener=_recording(events, listener), journal=journal)
        result = await turn.run(compiled.compiled)
        found = differences(record, compiled.gate.fingerprint, Footer.of(result, events), journal.unused)
        return Replay(record=record, result=result, differences=tuple(found))

    async def fork(self, agent: Agent, record: Record, *, turn: str, session: str, step: int) -> Header:
        """Return the header of a turn that runs on from a step of a recorded one, in another session; copy what the agent keeps by session.

        Raises StateIncompatible where the contracts have changed, and ReplayDiverged where today's code does not reach the step.
        """
        then = record.header
        old, new = stored_session(then.tenant, then.session), stored_session(then.tenant, session)
        given = {**then.given, **dict.fromkeys(session_fields(agent, old, new) & then.given.keys(), new)}
        header = replace(then, turn=turn, session=session, given=given, deadline=None, fork=None)
        request = _recorded_request(agent, header)
        compiled = self._compiler.compile_for_replay(agent, request.graph)
        if then.fingerprint != compiled.gate.fingerprint:
            raise StateIncompatible(f"The contracts of '{then.graph}' have changed since turn '{then.turn}' ran.")
        request.session_state = self._session_state(agent, request, compiled.gate, for_replay=True)
        journal = ForkJournal(turn, entries=record.entries, step=step, session=old, to=new)
        options = TurnOptions(limits=then.limits, redactor=Redactor(then.redact, literals=self._settings.secrets))
        result = await Turn(request, compiled.gate, options=options, listener=journal.on_event, journal=journal).run(compiled.compiled)
        if not journal.is_reached:
            if isinstance(journal.failure, ReplayDiverged):
                raise journal.failure
            raise InputSchema(f"Turn '{then.turn}' has no step {step}: it has {len(result.path)}.")
        limits = self._options().limits
        if agent.copy_session is not None:
            await agent.copy_session(session_copy(record, session, partial(self._providers.adapter, agent=agent)))
        fork = Fork(turn=then.turn, step=step, entries=journal.reused)
        return replace(header, limits=limits, redact=self._settings.redact, fork=fork)

    def _session_state(
        self, agent: Agent, request: TurnRequest, gate: Gate, *, for_replay: bool = False, epoch: int | None = None
    ) -> SessionState | None:
        if not agent.persists:
            return None
        store = None if for_replay else self._providers.session_state(request.graph, gate.fingerprint)
        session = stored_session(request.tenant, request.session)
        return SessionState(request.graph, agent.persists, store, session=session, turn=request.turn, epoch=epoch)

    def _checked(self, given: str | Mapping[str, Any], *, may_be_empty: bool) -> str | Mapping[str, Any]:
        """Return an input within the size limit, of valid characters."""
        limit = self._settings.max_input_bytes
        if isinstance(given, str):
            return given if may_be_empty and not given.strip() else check_text(given, max_bytes=limit)
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
            raise InputSchema(f"The input is a '{type(given).__name__}': pass text, or a mapping of the fields that the graph takes.")
        for value in given.values():
            if isinstance(value, str):
                check_characters(value, max_bytes=limit)
        check_size(given, max_bytes=limit)
        return given


_MAX_FOLLOWING = 10
"""How many turns may follow one another without a new input."""


def next_turn(turn: str) -> str:
    """Return the id of the turn that follows a turn without a new input: it is always the same, so that turn is started once."""
    first, number = _number(turn)
    return f"{first}+{number + 1}"


def first_turn(turn: str) -> str:
    """Return the id of the first of the turns that followed one another without a new input."""
    return _number(turn)[0]


def _number(turn: str) -> tuple[str, int]:
    """Return the id of the first of the turns that followed one another, and the number of this one, from 1."""
    first, plus, number = turn.rpartition("+")
    return (first, int(number)) if plus and number.isdecimal() else (turn, 1)


def _identified(agent: Agent, fields: Mapping[str, Any], given: str | Mapping[str, Any], principal: str | None) -> Mapping[str, Any]:
    """Return the input fields with the principal in the agent's identity field. An input that names another one is refused."""
    if principal is None or agent.identity is None:
        return fields
    if isinstance(given, Mapping) and given.get(agent.identity, principal) != principal:
        raise InputSchema(f"Field '{agent.identity}' is not who calls. Fix: leave it out; it is filled with the principal.")
    return {**fields, agent.identity: principal}


def _fields(graph: Graph, given: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the input fields; text becomes the one field that a graph takes."""
    if not isinstance(given, str):
        return given
    if len(graph.state.takes) != 1:
        raise InputSchema(f"Graph '{graph.name}' takes {len(graph.state.takes)} fields, so pass a mapping instead of text.")
    return {graph.state.takes[0]: given}


def _check_steps(agent: Agent, most: int | None) -> None:
    """Refuse a step limit with which a turn could not end as the agent's document says."""
    if most is not None and most < agent.least_steps:
        raise SettingsInvalid(
            f"A turn of '{agent.name}' may need {agent.least_steps} steps to end, and may take {most} (max_steps)."
            f" Fix: set max_steps to {agent.least_steps} or more."
        )


def _recorded_request(agent: Agent, header: Header) -> TurnRequest:
    """Return the request of a recorded turn."""
    graph = entry_of(agent, header.role)
    if graph.name != header.graph or not header.given.keys() <= set(graph.state.takes):
        raise RecordInvalid(f"The record is of graph '{header.graph}', which '{graph.name}' is not.")
    given = {name: graph.state.fields[name].codec.decode(value) for name, value in header.given.items()}
    request = _request(agent, graph, given, role=header.role, session=header.session, turn=header.turn)
    request.tenant = header.tenant
    return request


def _request(agent: Agent, graph: Graph, given: Mapping[str, Any], *, role: str | None, session: str, turn: str) -> TurnRequest:
    return TurnRequest(
        agent=agent.name,
        graph=graph,
        role=role,
        session=session,
        turn=turn,
        given=dict(given),
        reply=agent.reply,
        in_session=agent.has_sessions,
        pauses=agent.pauses,
        partial=agent.partial,
    )


def _check_not_cancelled(path: Path, footer: Footer) -> None:
    if footer.result["status"] == "cancelled":
        raise TurnCancelled(f"The turn in '{path}' was cancelled, so it has no end to come to. Fix: run it again, with a new record.")


def _recording(events: list[Event], listener: Listener | None) -> Listener:
    """Return a listener that keeps events for the record and passes them on."""

    def record(event: Event) -> None:
        events.append(event)
        if listener is not None:
            listener(copy.deepcopy(event))

    return record
