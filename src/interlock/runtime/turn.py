"""One turn: an input goes in, an engine runs the graph, a reply comes out. Read this first.

Turn.run               the turn, from the first event to the result
engine                 runs one node after the other, on LangGraph or in a loop
GraphRun.run_node      one node: passes it what it reads and is granted, validates its outcome
Call                   everything the node does to the outside world, through the layers of the call pipeline
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, fields
from typing import Any, cast

from interlock.capabilities.human import FormQuestion, Question
from interlock.contract import Graph
from interlock.contract.schema import to_json
from interlock.contract.state import Values
from interlock.engine import Compiled
from interlock.errors import ContractViolation, InterlockError, Internal, JournalFailed, PersonAwaited, TurnError
from interlock.reply import Fault, Reply, Status
from interlock.runtime.context import TurnContext, TurnFeatures
from interlock.runtime.events import EventEmitter, Listener, Observer, Run, hide
from interlock.runtime.gate import Gate
from interlock.runtime.journal import Journal
from interlock.runtime.limits import GRACE, Budget, Deadline, Limits, TimeRanOut, TurnUsage
from interlock.runtime.node_run import GraphRun
from interlock.runtime.observe import LOGGER
from interlock.runtime.origins import Origins
from interlock.runtime.rate_limits import RateLimits
from interlock.runtime.redaction import Redactor
from interlock.runtime.sessions import SessionState

__all__ = ["Turn", "TurnOptions", "TurnRequest", "TurnResult"]


RESULT_PARTS = ("agent", "session", "turn", "status", "output", "error", "path", "state", "metadata", "usage")
_RESULT_NAMES = frozenset({*RESULT_PARTS, "code", "message", "node", *(field.name for field in fields(TurnUsage))})


@dataclass(kw_only=True)
class TurnResult:
    """How a turn ended."""

    agent: str
    session: str
    turn: str
    status: Status
    output: Any
    error: Fault | None
    path: tuple[str, ...]
    state: Values
    metadata: Mapping[str, Any]
    usage: TurnUsage = field(default_factory=TurnUsage)
    redactor: Redactor = field(default_factory=Redactor, repr=False, compare=False)
    secret: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON data, without the fields that are secret."""
        return self.readable(self.redactor.redact_literals(to_json(self.shown())))

    def shown(self) -> dict[str, Any]:
        """Return the parts of the result that others get to see."""
        shown = {name: getattr(self, name) for name in RESULT_PARTS} | {"state": hide(self.state, self.secret)}
        if isinstance(self.output, Mapping) and self.secret:  # of a graph that gives its whole state
            shown["output"] = hide(cast("Mapping[str, Any]", self.output), self.secret)
        return shown

    def readable(self, data: dict[str, Any]) -> dict[str, Any]:
        """Put back what is the result's own: a secret that is an ordinary word must not hide how a turn ended."""
        data |= {"agent": self.agent, "turn": self.turn, "status": self.status, "path": list(self.path), "usage": {**vars(self.usage)}}
        if self.error is not None:
            data["error"] |= {"code": self.error.code, "node": self.error.node}
        return data

    def __repr__(self) -> str:
        return f"TurnResult(agent={self.agent!r}, turn={self.turn!r}, status={self.status!r}, path={self.path!r})"

    def _repr_markdown_(self) -> str:
        """Show the result in a notebook, without its secrets and what the settings redact: a notebook is saved and shared."""
        data = self.to_json()
        output, fault = data["output"], data["error"]
        texts = [] if output is None else [output if isinstance(output, str) else json.dumps(output, indent=2, ensure_ascii=False)]
        if fault is not None:
            texts.append(f"{fault['code']}{f' ({name})' if (name := fault['node']) else ''}: {fault['message']}")
        usage = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in data["usage"].items() if value is not None)
        path = " > ".join(f"`{name}`" for name in data["path"])
        return "\n\n".join(
            [
                f"**{data['agent']}: {data['status']}**",
                *(_as_code(self.redactor.text(text)) for text in texts),
                f"Path: {path or 'no node ran'}",
                usage,
            ]
        )


def _as_code(text: str) -> str:
    """Return a block of code with a text. As Markdown, a text of a model could load pictures from other servers."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=2))
    return f"{fence}text\n{text}\n{fence}"


@dataclass(frozen=True, kw_only=True)
class TurnOptions:
    """How turns are run: their limits, what is redacted, who observes them."""

    limits: Limits = field(default_factory=Limits)
    redactor: Redactor = field(default_factory=Redactor)
    observers: Sequence[Observer] = ()
    rate_limits: RateLimits | None = None
    seconds_left: float | None = None
    """For a resumed turn: what is left of its time, where that is less than `max_turn_seconds`."""
    time_ran_out: TimeRanOut | None = None
    """For a replay, in which recorded results come at once: when the recorded turn ran out of time, if it did."""


@dataclass(kw_only=True, slots=True)
class TurnRequest:
    """An input for a graph of an agent, in a session."""

    agent: str
    graph: Graph
    role: str | None
    session: str
    turn: str
    given: Values
    reply: Callable[[Mapping[str, Any]], Reply]
    principal: str | None = None
    tenant: str = ""
    """Whose turn it is: sessions of one name that belong to different tenants share nothing."""
    in_session: bool = False
    """Whether turns of the same session run one after the other."""
    pauses: bool = False
    """Whether it may be suspended to wait for a person."""
    session_state: SessionState | None = None
    """For an agent that persists fields."""
    is_whole: bool = True
    """Whether the turn runs the graph from its start. What a single node reads may come from outside."""
    partial: Callable[[Mapping[str, Any], str], Any] | None = None
    """Returns the partial answer of a turn that fails."""


class Turn:
    """One input to one reply."""

    def __init__(
        self, request: TurnRequest, gate: Gate, *, options: TurnOptions, listener: Listener | None = None, journal: Journal | None = None
    ) -> None:
        self._request = request
        self._graph = graph = request.graph
        loop = asyncio.get_running_loop()
        budget = Budget(options.limits, now=loop.time, ran_out=options.time_ran_out, seconds_left=options.seconds_left)
        has_events = listener is not None or bool(options.observers)
        self._context = context = TurnContext(
            turn=request.turn,
            features=TurnFeatures(
                has_events, journal is not None, budget.has_time_limit, options.rate_limits is not None, gate.tracks_origins
            ),
            budget=budget,
            redactor=options.redactor.for_turn(_with_result(gate.names)),
            journal=journal,
            rate_limits=options.rate_limits,
            origins=Origins(request.given, is_clean=request.is_whole) if gate.tracks_origins else None,
            streamed=None if request.partial is None else [],
        )
        self._loaded: Values = {}
        self.is_saving = False
        """Whether the session state is being saved, or was. From then on an interruption waits: the result has to say what was saved."""
        self.graph_run = GraphRun(graph, gate, context, request.given)
        self._events: EventEmitter | None = None
        self._run: Run | None = None
        if has_events:
            self._events = EventEmitter(request.turn, listener=listener, observers=options.observers, redactor=context.redactor)
            self._run = self._events.turn(graph.name, {"agent": request.agent, "session": request.session, "turn": request.turn})
            self.graph_run.emit_inside(self._run)

    @property
    def redactor(self) -> Redactor:
        """The redactor of this turn, with all secrets that were added to it."""
        return self._context.redactor

    async def run(self, compiled: Compiled) -> TurnResult:
        """Run the turn. It always ends in a result; only cancellation, and what a listener raised, is raised."""
        given, secret = self._request.given, self._graph.state.secret
        if self._run is not None:
            self._run.start(hide(given, secret))
        try:
            result = await self._run_graph(compiled, given)
            if self._context.journal is not None:
                result = await self._committed(result, self._context.journal)
        except asyncio.CancelledError:
            if self._run is not None:
                self._run.cancel()
            raise
        self._log(result)
        is_left_open = self._context.journal is not None and self._context.journal.is_left_open
        if self._run is not None and not is_left_open:
            self._run.end_redacted(result.readable(self._context.redactor.to_json(result.shown())))
        if self._events is not None and self._events.listener_error is not None:
            raise self._events.listener_error
        return result

    def cancelled(self) -> TurnResult:
        """Return the result of a turn that was cancelled, for its record."""
        node = self._context.path[-1] if self._context.path else None
        fault = Fault(code="cancelled", message="The turn was cancelled.", node=node)
        return self._result(Reply(status="cancelled", error=fault), self._reached(self._request.given))

    async def _run_graph(self, compiled: Compiled, given: Values) -> TurnResult:
        """Let the engine run the graph; return the result, however that ends."""
        # Calls and nodes end by themselves when the time is up; this deadline is for a node that waits for something else.
        budget = self._context.budget
        budget.turn_deadline = deadline = Deadline(budget.until, grace=GRACE)
        try:
            if self._request.session_state is None:
                result = self._ended(await compiled.run(given, self.graph_run.run_node, {}))
            else:
                result = await self._in_session(compiled, given, deadline)
            if self._context.journal is not None:
                self._context.journal.check_end()
            return result  # noqa: TRY300 - the check belongs to the turn, as everything else in this block
        except PersonAwaited as awaited:
            return self._waiting(awaited, given)
        except JournalFailed as failed:
            return self._failed(failed.reason, given)
        except InterlockError as error:
            return self._failed(error, given)
        except asyncio.CancelledError:
            late = self._late(deadline)
            if late is None:
                raise
            return self._failed(late, given)
        except Exception as error:  # noqa: BLE001 - nothing untyped reaches a caller
            return self._failed(Internal(f"The engine failed: {type(error).__name__}: {error}"), given)
        finally:
            deadline.end()

    async def _committed(self, result: TurnResult, journal: Journal) -> TurnResult:
        """Store the journal before the result is shown; return the result, or that of a turn whose journal cannot be stored."""
        if journal.failure is None and not journal.shows_late:
            try:
                await journal.commit()
            except JournalFailed as failed:
                return self._failed(failed.reason, self._request.given)
        return result

    def _ended(self, final: Values) -> TurnResult:
        state = self._graph.state.with_defaults(final)
        return self._result(self._request.reply(state), state)

    async def _in_session(self, compiled: Compiled, given: Values, deadline: Deadline) -> TurnResult:
        """Start from the session state, and save the new state before the result is returned."""
        session, context = cast("SessionState", self._request.session_state), self._context
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(session.exclusive(context))
                self._loaded = await session.load(context)
            except asyncio.CancelledError:
                late = self._late(deadline)
                if late is None:
                    raise
                await session.record_refusal(late, context)
                raise late from None
            self.graph_run.add_secrets(self._loaded)
            result = self._ended(await compiled.run(given, self.graph_run.run_node, self._loaded))
            deadline.end()
            if result.status != "error":
                self.is_saving = True
                await session.save(result.state, context)
            return result

    def _late(self, deadline: Deadline) -> InterlockError | None:
        """Return the error of a turn that was cancelled because its time is up; None where its caller cancelled it."""
        return self._context.budget.out_of_time() if deadline.caused_cancellation() else None

    def _log(self, result: TurnResult) -> None:
        is_fault = result.error is not None and result.error.code in {"internal", "contract_violation", "node_failed"}
        level = logging.ERROR if is_fault else logging.INFO
        if LOGGER.isEnabledFor(level):
            error = result.error
            session = self._context.redactor.text(result.session)
            fields = {"agent": result.agent, "session": session, "turn": result.turn, "status": result.status}
            fields |= {"steps": len(result.path), "node": error and error.node, "code": error and error.code}
            fields |= {"error": error and error.message}
            LOGGER.log(level, "turn ended", extra={"fields": fields})

    def _failed(self, error: InterlockError, given: Values) -> TurnResult:
        node = error.node if isinstance(error, TurnError) else None
        fault = Fault(
            code=error.code,
            message=self._context.redactor.text(error.message),
            node=node or (self._context.path[-1] if self._context.path else None),
        )
        state = self._reached(given)
        return self._result(Reply(status="error", error=fault, output=self._partial(state)), state)

    def _waiting(self, awaited: PersonAwaited, given: Values) -> TurnResult:
        """Return the result of a turn that is suspended until a person answers."""
        question = cast("Question", awaited.question)
        asked = {"question": question.text, "options": list(question.options), "recommended": question.recommended}
        asked |= {"to": question.to} if question.to else {}
        asked |= {"schema": question.schema} if isinstance(question, FormQuestion) else {}
        return self._result(Reply(status="waiting", output=question.text, metadata={"waiting": asked}), self._reached(given))

    def _partial(self, state: Values) -> Any:
        """Return the partial answer; None where making it fails too, because the turn has an error already."""
        if self._request.partial is None:
            return None
        try:
            return self._request.partial(state, "".join(self._context.streamed or ()))
        except Exception as error:  # noqa: BLE001 - nothing untyped reaches a caller
            LOGGER.error("no partial answer", extra={"fields": {"agent": self._request.agent, "cause": type(error).__name__}})
            return None

    def _reached(self, given: Values) -> Values:
        """Return the state as the last node left it."""
        state = self._graph.state
        values = state.initial({}, self._loaded)
        with suppress(ContractViolation):  # A reducer may be what ended the turn.
            for update in (given, *self.graph_run.updates):
                state.apply(values, update)
        return state.with_defaults(values)

    def _result(self, reply: Reply, state: Values) -> TurnResult:
        return TurnResult(
            agent=self._request.agent,
            session=self._request.session,
            turn=self._request.turn,
            status=reply.status,
            output=reply.output,
            error=reply.error,
            path=tuple(self._context.path),
            state=state,
            metadata={**reply.metadata, "models": list(self._context.models)} if self._context.models else reply.metadata,
            usage=self._context.budget.usage(),
            redactor=self._context.redactor,
            secret=self._graph.state.secret,
        )


@functools.cache
def _with_result(names: frozenset[str]) -> frozenset[str]:
    return names | _RESULT_NAMES
