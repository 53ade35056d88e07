"""One turn: an input goes in, an engine walks the graph, a reply comes out. Read this first.

Turn.run                the turn from the first event to the result
engine.walk           one node after the other, on LangGraph or in a loop
Walk.step           one node: hand it what it reads and is granted, hold what it returns to its contract
gate              everything the node does to the world, another graph that it has walked among it
"""

from __future__ import annotations

import asyncio
import functools
import logging
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from interlock.capabilities.human import Question
from interlock.contract import Graph
from interlock.contract.codec import Write, record_writer, to_json
from interlock.contract.state import Values
from interlock.engine import Compiled
from interlock.errors import ContractViolation, InterlockError, Internal, PersonAwaited, TurnError
from interlock.reply import Fault, Reply, Status
from interlock.runtime.budget import GRACE, Budget, Limits, TimeRanOut
from interlock.runtime.events import Events, Run, Sink, Watcher, hide
from interlock.runtime.gate import Gate
from interlock.runtime.ledger import JournalFailed, Ledger
from interlock.runtime.observe import LOGGER
from interlock.runtime.redaction import Redactor
from interlock.runtime.sessions import KeptSession
from interlock.runtime.walk import Shared, Walk
from interlock.runtime.watch import Wait, Watch

__all__ = ["Order", "Terms", "Turn", "TurnResult"]


RESULT_PARTS = ("agent", "session", "turn", "status", "output", "error", "path", "state", "metadata")
_RESULT_NAMES = frozenset({*RESULT_PARTS, "code", "message", "node"})


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
        data |= {"agent": self.agent, "turn": self.turn, "status": self.status, "path": list(self.path)}
        if self.error is not None:
            data["error"] |= {"code": self.error.code, "node": self.error.node}
        return data

    def __repr__(self) -> str:
        return f"TurnResult(agent={self.agent!r}, turn={self.turn!r}, status={self.status!r}, path={self.path!r})"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On what terms turns are taken: what they may use, what nobody may see, who watches."""

    limits: Limits = field(default_factory=Limits)
    redactor: Redactor = field(default_factory=Redactor)
    watchers: Sequence[Watcher] = ()
    time_ran_out: TimeRanOut | None = None
    """For a turn that is taken again: what was recorded comes at once, and time runs out where it did, if it did."""


@dataclass(kw_only=True, slots=True)
class Order:
    """What a turn is about: an input for a graph of an agent, in a session."""

    agent: str
    graph: Graph
    role: str | None
    session: str
    turn: str
    given: Values
    reply: Callable[[Mapping[str, Any]], Reply]
    in_session: bool = False
    """Whether it has to wait for other turns of its session."""
    pauses: bool = False
    """Whether it may wait for a person."""
    kept: KeptSession | None = None
    """What outlives the turn, for an agent that keeps something."""
    partial: Callable[[Mapping[str, Any], str], Any] | None = None
    """Makes what can be said where the turn does not succeed."""


class Turn:
    """One input to one reply."""

    def __init__(self, order: Order, gate: Gate, *, terms: Terms, sink: Sink | None = None, ledger: Ledger | None = None) -> None:
        self._order = order
        self._graph = graph = order.graph
        loop = asyncio.get_running_loop()
        budget = Budget(terms.limits, now=loop.time, ran_out=terms.time_ran_out)
        self._shared = shared = Shared(
            turn=order.turn,
            budget=budget,
            redactor=terms.redactor.for_turn(_with_result(gate.names)),
            ledger=ledger,
            watch=Watch(loop) if budget.has_time_limit else None,
            spoken=None if order.partial is None else [],
        )
        self._kept: Values = {}
        self.walk = Walk(graph, gate, shared, order.given)
        self._events: Events | None = None
        self._run: Run | None = None
        if sink is not None or terms.watchers:
            self._events = Events(order.turn, sink=sink, watchers=terms.watchers, redactor=shared.redactor)
            self._run = self._events.turn(graph.name, {"agent": order.agent, "session": order.session, "turn": order.turn})
            self.walk.tell(self._run)

    @property
    def redactor(self) -> Redactor:
        """Return the redactor of this turn, with all that it has learnt."""
        return self._shared.redactor

    async def run(self, compiled: Compiled) -> TurnResult:
        """Take the turn. It always ends in a result; only cancellation, and what a listener raised, is raised."""
        given, secret = self._order.given, self._graph.state.secret
        if self._run is not None:
            self._run.start(hide(given, secret), self._graph.state.write)
        try:
            result = await self._walk(compiled, given)
        except asyncio.CancelledError:
            if self._run is not None:
                self._run.cancel()
            raise
        self._log(result)
        if self._run is not None:
            self._run.end_plain(result.readable(self._shared.redactor.to_json(result.shown(), _result_writer(self._graph))))
        if self._events is not None and self._events.broken is not None:
            raise self._events.broken
        return result

    def cancelled(self) -> TurnResult:
        """Make the result of a turn that was cancelled, for its record."""
        node = self._shared.path[-1] if self._shared.path else None
        fault = Fault(code="cancelled", message="The turn was cancelled.", node=node)
        return self._result(Reply(status="cancelled", error=fault), self._reached(self._order.given))

    async def _walk(self, compiled: Compiled, given: Values) -> TurnResult:
        """Let the engine walk, and make a result of however that ends."""
        # Calls and steps end by themselves when the time is up; this is for a node that waits for something else.
        wait = None if self._shared.watch is None else self._shared.watch.begin(self._shared.budget.turn_until(), grace=GRACE)
        self._shared.budget.turn_wait = wait
        try:
            took = self._to_the_end(compiled, given) if self._order.kept is None else self._in_session(compiled, given, wait)
            return self._checked(await took)
        except PersonAwaited as awaited:
            return self._waiting(awaited, given)
        except JournalFailed as failed:
            return self._failed(failed.reason, given)
        except InterlockError as error:
            return self._failed(error, given)
        except asyncio.CancelledError:
            late = self._late(wait)
            if late is None:
                raise
            return self._failed(late, given)
        except Exception as error:  # noqa: BLE001 - nothing untyped reaches a caller
            return self._failed(Internal(f"The engine failed: {type(error).__name__}: {error}"), given)
        finally:
            self.close()

    def _checked(self, result: TurnResult) -> TurnResult:
        """Return the result of a turn that has made every call again that its journal holds."""
        if self._shared.ledger is not None:
            self._shared.ledger.check_end()
        return result

    async def _to_the_end(self, compiled: Compiled, given: Values) -> TurnResult:
        state = self._graph.state.complete(await compiled.walk(given, self.walk.step, self._kept))
        return self._result(self._order.reply(state), state)

    async def _in_session(self, compiled: Compiled, given: Values, wait: Wait | None) -> TurnResult:
        """Begin where the session's last turn ended, and keep how this one ends, before anybody hears that it has."""
        kept, ledger = cast("KeptSession", self._order.kept), self._shared.ledger
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(kept.exclusive(ledger))
                self._kept = await kept.load(ledger)
            except asyncio.CancelledError:
                late = self._late(wait)
                if late is None:
                    raise
                kept.refuse(late, ledger)
                raise late from None
            self.walk.learn(self._kept)
            result = await self._to_the_end(compiled, given)
            if wait is not None:
                cast("Watch", self._shared.watch).end(wait)  # what is being saved is not given up half way
            if result.status != "error":
                await kept.save(result.state, ledger)
            return result

    def _late(self, wait: Wait | None) -> InterlockError | None:
        """Return the error of a turn that was cancelled because its time is up; None where somebody else wants it to end."""
        return self._shared.budget.out_of_time() if wait is not None and wait.was_ended() else None

    def close(self) -> None:
        """Stop the watch."""
        if self._shared.watch is not None:
            self._shared.watch.close()

    def _log(self, result: TurnResult) -> None:
        is_fault = result.error is not None and result.error.code in {"internal", "contract_violation", "node_failed"}
        level = logging.ERROR if is_fault else logging.INFO
        if LOGGER.isEnabledFor(level):
            error = result.error
            session = self._shared.redactor.text(result.session)
            fields = {"agent": result.agent, "session": session, "turn": result.turn, "status": result.status}
            fields |= {"steps": len(result.path), "node": error and error.node, "code": error and error.code}
            fields |= {"error": error and error.message}
            LOGGER.log(level, "turn ended", extra={"fields": fields})

    def _failed(self, error: InterlockError, given: Values) -> TurnResult:
        node = error.node if isinstance(error, TurnError) else None
        fault = Fault(
            code=error.code,
            message=self._shared.redactor.text(error.message),
            node=node or (self._shared.path[-1] if self._shared.path else None),
        )
        state = self._reached(given)
        return self._result(Reply(status="error", error=fault, output=self._partial(state)), state)

    def _waiting(self, awaited: PersonAwaited, given: Values) -> TurnResult:
        """Make the result of a turn that stops until a person has answered."""
        question = cast("Question", awaited.question)
        asked = {"question": question.text, "options": list(question.options), "recommended": question.recommended}
        asked |= {"to": question.to} if question.to else {}
        return self._result(Reply(status="waiting", output=question.text, metadata={"waiting": asked}), self._reached(given))

    def _partial(self, state: Values) -> Any:
        """Make what can be said; where that goes wrong too, nothing: the turn has failed for a reason of its own."""
        if self._order.partial is None:
            return None
        try:
            return self._order.partial(state, "".join(self._shared.spoken or ()))
        except Exception as error:  # noqa: BLE001 - nothing untyped reaches a caller
            LOGGER.error("no partial answer", extra={"fields": {"agent": self._order.agent, "cause": type(error).__name__}})
            return None

    def _reached(self, given: Values) -> Values:
        """Return the state as the last step left it that could be written."""
        state = self._graph.state
        values = state.begin({}, self._kept)
        with suppress(ContractViolation):  # the reducer that ended the turn
            for update in (given, *self.walk.updates):
                state.apply(values, update)
        return state.complete(values)

    def _result(self, reply: Reply, state: Values) -> TurnResult:
        return TurnResult(
            agent=self._order.agent,
            session=self._order.session,
            turn=self._order.turn,
            status=reply.status,
            output=reply.output,
            error=reply.error,
            path=tuple(self._shared.path),
            state=state,
            metadata={**reply.metadata, "models": list(self._shared.models)} if self._shared.models else reply.metadata,
            redactor=self._shared.redactor,
            secret=self._graph.state.secret,
        )


@functools.cache
def _with_result(names: frozenset[str]) -> frozenset[str]:
    return names | _RESULT_NAMES


@functools.cache
def _result_writer(graph: Graph) -> Write:
    """Make what writes the results of a graph's turns, for whoever listens."""
    parts = {**typing.get_type_hints(TurnResult), "output": Any, "metadata": dict[str, Any], "state": graph.state.record}
    return record_writer("Result", {name: parts[name] for name in RESULT_PARTS})
