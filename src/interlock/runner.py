"""Runs requests as turns: one at a time in a session, recorded where that is wanted or needed to resume them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from interlock.agent import Agent
from interlock.capabilities.human import Question
from interlock.compiler import CompiledGraph, Compiler
from interlock.contract import Graph
from interlock.discovery import entry_of
from interlock.errors import (
    ContractError,
    InputSchema,
    InterlockError,
    JournalFailed,
    NothingWaits,
    RecordInvalid,
    SettingsInvalid,
    StateIncompatible,
    TurnCancelled,
)
from interlock.input import check_characters, check_session, check_size, check_text
from interlock.providers.resolver import Providers
from interlock.replay import Replay, differences
from interlock.runtime.gate import Gate
from interlock.runtime.journal import Entry, Journal
from interlock.runtime.recording import Footer, Header, Record, RecordFile, read_record
from interlock.runtime.redaction import Redactor
from interlock.runtime.redaction.exceptions import redact_error
from interlock.runtime.sessions import SessionState
from interlock.runtime.turn import Turn, TurnOptions, TurnRequest, TurnResult
from interlock.settings import Settings
from interlock.suspended import SuspendedTurns
from interlock.system import SystemClock

if TYPE_CHECKING:
    from interlock.runtime.events import Event, Listener

__all__ = ["Runner"]


class Runner:
    """Runs turns. `options` returns the options that a turn starts with."""

    def __init__(self, settings: Settings, providers: Providers, compiler: Compiler, options: Callable[[], TurnOptions]) -> None:
        self._settings = settings
        self._providers = providers
        self._compiler = compiler
        self._options = options
        self._clock = SystemClock()
        self._sessions: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self.suspended = SuspendedTurns(settings.folder / "turns")

    def request(
        self,
        agent: Agent,
        given: str | Mapping[str, Any],
        *,
        turn: str,
        session: str | None,
        role: str | None,
        principal: str | None = None,
    ) -> TurnRequest:
        """Validate an input and return the request for its turn. A refusal is raised without the rejected value in its context."""
        try:
            graph = entry_of(agent, role)
            session = turn if session is None else check_session(session)
            given = self._checked(given, may_be_empty=agent.answers_empty)
            fields = agent.parse_input(given, session) if agent.parse_input is not None else _fields(graph, given)
            values = graph.state.parse_input(_identified(agent, fields, given, principal))
            missing = next((name for name in graph.needs if name not in values and name not in agent.persists), None)
            if missing is not None:
                raise InputSchema(f"Field '{missing}' is missing. Fix: pass it; graph '{graph.name}' cannot begin without it.")
            _check_steps(agent, self._settings.max_steps)
            request = _request(agent, graph, values, role=role, session=session, turn=turn)
            request.session_state = self._session_state(agent, request, self._compiler.compile(agent, graph).gate)
        except ContractError:
            raise  # It is about code, and its author has to see all of it.
        except InterlockError as error:
            refusal = redact_error(self._options().redactor.for_turn(), error)
        else:
            return request
        raise refusal

    async def run(self, agent: Agent, request: TurnRequest, *, record: Path | None, listener: Listener | None) -> TurnResult:
        """Run a turn, after the other turns of its session."""
        compiled = self._compiler.compile(agent, request.graph)
        async with self._lock(request):
            if request.pauses or record is not None:
                return await self._run_recorded(request, compiled, record, listener)
            return await Turn(request, compiled.gate, options=self._options(), listener=listener).run(compiled.compiled)

    async def _run_recorded(
        self, request: TurnRequest, compiled: CompiledGraph, record: Path | None, listener: Listener | None
    ) -> TurnResult:
        """Run a turn with a record: the one that the caller wants, or one of its own for a turn that may be suspended."""
        own = self.suspended.begin(request.agent, request.session) if request.pauses else None
        path, waits = cast("Path", record or own), False
        options = self._options()
        seconds = options.limits.max_turn_seconds
        deadline = None if seconds is None else (await self._clock.now()).timestamp() + seconds
        header = Header.of(request, compiled.gate.fingerprint, options.limits, self._settings.redact, deadline=deadline)
        try:
            with RecordFile.create(path, header) as file:
                journal = Journal(request.turn, store=file)
                result = await self._record(request, compiled, file, journal, listener=listener, full=record is not None)
            waits = result.status == "waiting"
            return result
        finally:
            if request.pauses:
                self.suspended.keep_or_delete(path, request.agent, request.session, waits=waits)

    async def _record(
        self,
        request: TurnRequest,
        compiled: CompiledGraph,
        file: RecordFile,
        journal: Journal,
        *,
        listener: Listener | None,
        full: bool,
        seconds_left: float | None = None,
    ) -> TurnResult:
        """Run a turn with recording. Unless `full`, record only what is needed to resume it.

        A turn whose journal failed gets no footer, so it can be resumed.
        """
        events: list[Event] = []
        options, recording = replace(self._options(), seconds_left=seconds_left), _recording(events, listener) if full else listener
        turn = Turn(request, compiled.gate, options=options, listener=recording, journal=journal)
        try:
            result = await turn.run(compiled.compiled)
        except asyncio.CancelledError:
            if full and journal.failure is None:
                with suppress(InterlockError, JournalFailed):
                    await journal.commit()
                    await file.end(vars(Footer.of(turn.cancelled(), events)))
            raise
        if full and journal.failure is None and result.status != "waiting":
            await file.end(vars(Footer.of(result, events)))
        return result

    async def resume(self, agent: Agent, path: Path, *, listener: Listener | None, answer: str | None = None) -> TurnResult:
        """Resume a recorded turn, with a person's answer where it waits for one. Recorded calls are not made again."""
        record = read_record(path)
        if record.footer is not None:
            _check_not_cancelled(path, record.footer)
            raise RecordInvalid(f"The turn in '{path}' has ended. Fix: replay it, by 'replay'.")
        request = _recorded_request(agent, record.header)
        compiled = self._compiler.compile(agent, request.graph)
        if record.header.fingerprint != compiled.gate.fingerprint:
            raise StateIncompatible(f"The contracts of '{request.graph.name}' have changed since the turn in '{path}' began.")
        request.session_state = self._session_state(agent, request, compiled.gate)
        async with self._lock(request):
            if not path.exists():  # noqa: ASYNC240 - one look at a file
                raise NothingWaits(f"Another process has answered the question of session '{request.session}'.")
            with RecordFile.reopen(path) as file:
                if read_record(path) != record:
                    raise RecordInvalid(f"Another process has resumed the turn in '{path}'.")
                entries = record.entries if answer is None else await _write_answer(file, record, answer)
                journal = Journal(request.turn, entries=entries, store=file)
                full, left = not self.suspended.is_own(path), await self._seconds_left(record)
                result = await self._record(request, compiled, file, journal, listener=listener, full=full, seconds_left=left)
                if request.pauses and journal.failure is None:
                    # While the file is still locked, so that no other process resumes the turn.
                    self.suspended.keep_or_delete(path, request.agent, request.session, waits=result.status == "waiting")
            return result

    async def _seconds_left(self, record: Record) -> float | None:
        """Return what is left of the time of an interrupted turn; None for a suspended one: waiting for a person is not its time."""
        if record.header.deadline is None or any(entry.question is not None for entry in record.entries):
            return None
        return max(0.0, record.header.deadline - (await self._clock.now()).timestamp())

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

    def _lock(self, request: TurnRequest) -> asyncio.Lock | nullcontext[None]:
        """Return the lock of the session in this process. The session's store has one for other processes."""
        if not request.in_session:
            return nullcontext()
        key = (request.agent, request.session)
        lock = self._sessions.get(key)
        if lock is None:
            lock = self._sessions[key] = asyncio.Lock()
        return lock

    def _session_state(self, agent: Agent, request: TurnRequest, gate: Gate, *, for_replay: bool = False) -> SessionState | None:
        if not agent.persists:
            return None
        store = None if for_replay else self._providers.session_state(request.graph, gate.fingerprint)
        return SessionState(request.graph, agent.persists, store, session=request.session, turn=request.turn)

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
    return _request(agent, graph, given, role=header.role, session=header.session, turn=header.turn)


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
        await file.append([entry])
        return [*record.entries, entry]
    if known.result != entry.result:
        fix = "give that answer again, or give up the turn by 'abort'"
        raise NothingWaits(f"The question has been answered before, in other words. Fix: {fix}.")
    return record.entries


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
