"""One turn: an input goes in, an engine walks the graph, a reply comes out. Read this first.

Turn.run                the turn from the first event to the result
engine.walk           one node after the other, on LangGraph or in a loop
Turn.step           one node: hand it what it reads and is granted, hold what it returns to its contract
gate              everything the node does to the world
"""

from __future__ import annotations

import asyncio
import functools
import logging
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from interlock.contract import Graph, Outcome
from interlock.contract.codec import Write, record_writer
from interlock.contract.node import Node, Step
from interlock.contract.state import Values
from interlock.contract.values import detached
from interlock.engine import Compiled
from interlock.errors import ContractViolation, InterlockError, Internal, NodeFailed, TurnError
from interlock.runtime.budget import Budget, Limits, TimeRanOut
from interlock.runtime.disclosure import said, tells, without_secrets
from interlock.runtime.events import Events, Run, Sink, Watcher, hide
from interlock.runtime.gate import Gate
from interlock.runtime.ledger import Ledger
from interlock.runtime.logs import LOGGER
from interlock.runtime.plain import plain
from interlock.runtime.redaction import REDACTED, Redactor
from interlock.runtime.reply import Fault, Reply, Status
from interlock.runtime.scope import Scope
from interlock.runtime.watch import Watch

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
        return self.readable(self.redactor.literals_only(plain(self.shown())))

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


class Turn:
    """One input to one reply."""

    def __init__(self, order: Order, gate: Gate, *, terms: Terms, sink: Sink | None = None, ledger: Ledger | None = None) -> None:
        self._order = order
        self._graph = graph = order.graph
        self._turn = turn = order.turn
        self._gate = gate
        self._ledger = ledger
        self._redactor = terms.redactor.for_turn(graph.state.names | _RESULT_NAMES)
        loop = asyncio.get_running_loop()
        self._budget = Budget(terms.limits, steps=graph.steps, now=loop.time, ran_out=terms.time_ran_out)
        self._watch = Watch(loop) if self._budget.has_time_limit else None
        if graph.state.secret:
            self._learn({name: start() for name in graph.state.secret if (start := graph.state.fields[name].start) is not None})
            self._learn(order.given)
        self._events: Events | None = None
        self._run: Run | None = None
        if sink is not None or terms.watchers:
            self._events = Events(turn, sink=sink, watchers=terms.watchers, redactor=self._redactor)
            self._run = self._events.turn(graph.name, {"agent": order.agent, "session": order.session, "turn": turn})
        self._path: list[str] = []
        self._updates: list[Values] = []

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
            self._run.end_plain(result.readable(self._redactor.plain(result.shown(), _result_writer(self._graph))))
        if self._events is not None and self._events.broken is not None:
            raise self._events.broken
        return result

    async def _walk(self, compiled: Compiled, given: Values) -> TurnResult:
        """Let the engine walk, and make a result of however that ends."""
        # Calls and steps end by themselves when the time is up; this is for a node that waits for something else.
        wait = None if self._watch is None else self._watch.begin(self._budget.turn_until())
        try:
            state = self._graph.state.complete(await compiled.walk(given, self.step))
            return self._result(self._order.reply(state), state)
        except InterlockError as error:
            return self._failed(error, given)
        except asyncio.CancelledError:
            late = self._budget.out_of_time() if wait is not None and wait.was_ended() else None
            if late is None:
                raise
            return self._failed(late, given)
        except Exception as error:  # noqa: BLE001 - nothing untyped reaches a caller
            return self._failed(Internal(f"The engine failed: {type(error).__name__}: {error}"), given)
        finally:
            self.close()

    def close(self) -> None:
        """Stop the watch."""
        if self._watch is not None:
            self._watch.close()

    async def step(self, node: Node, state: Mapping[str, Any]) -> Step:
        """Run one node."""
        exceeded = self._budget.take_step(len(self._path))
        if exceeded is not None:
            raise exceeded.at(node.name, turn=self._turn)
        self._path.append(node.name)
        run = None
        if self._run is not None:
            metadata = {"langgraph_node": node.name, "langgraph_step": len(self._path)}
            run = Run(self._run.events, "chain", node.name, [self._run.run_id], metadata)
        try:
            arguments = node.read(state)
            if self._graph.state.secret:
                self._learn({read.field.name: value for read, value in zip(node.reads, arguments, strict=True) if not read.presence})
            if run is not None:
                run.start(self._read(node, arguments), node.write_reads)
            step = node.settle(await (self._use(node, arguments, run) if node.grants else node.run(*arguments)))
        except (Exception, asyncio.CancelledError) as error:
            failure = self._failure(error, node, run)
            if failure is error:
                raise
            if failure.__cause__ is error:
                raise failure from error
        else:
            return self._wrote(step, run)
        raise failure  # here, where the exception that it comes from is not dragged along

    def _wrote(self, step: Step, run: Run | None) -> Step:
        """Take note of what a step wrote."""
        update, fields = step[1], self._graph.state
        if fields.secret:
            self._learn(update)
        self._updates.append(detached(update) if fields.reduced else update)
        if run is not None:
            run.end(hide(update, fields.secret), step[0].write)
        return step

    async def _use(self, node: Node, arguments: Sequence[Any], run: Run | None) -> Outcome:
        """Run a node with what it is granted, for as long as it runs."""
        scope = Scope(node.name, run=run, budget=self._budget, ledger=self._ledger, redactor=self._redactor, watch=self._watch)
        try:
            return await node.run(*arguments, **self._gate.open(node, scope))
        except asyncio.CancelledError:
            scope.is_cancelled = True
            raise
        finally:
            scope.is_open = False
            if scope.has_open_ends:
                await scope.close()

    def _read(self, node: Node, arguments: Sequence[Any]) -> dict[str, Any]:
        """Return what a node is handed, for whoever listens."""
        secret = self._graph.state.secret
        if not secret:
            return dict(zip(node.read_names, arguments, strict=True))
        return {
            str(read): REDACTED if read.field.name in secret and not read.presence else value
            for read, value in zip(node.reads, arguments, strict=True)
        }

    def _learn(self, written: Values) -> None:
        for name in self._graph.state.secret & written.keys():
            if written[name] is not None:
                self._redactor.learn(written[name])

    def _failure(self, error: BaseException, node: Node, run: Run | None) -> BaseException:
        """Return what a step raises. Where anything that it comes from would tell a secret, it comes from nothing."""
        failure = _typed(error, node, self._turn)
        if failure is None:
            if run is not None:
                run.cancel()
            return error
        if tells(self._redactor, error):
            failure = without_secrets(self._redactor, failure)
        elif failure is not error:
            failure.__cause__ = error
        if run is not None:
            run.error(failure.code, failure.message)
        return failure

    def _log(self, result: TurnResult) -> None:
        is_fault = result.error is not None and result.error.code in {"internal", "contract_violation", "node_failed"}
        level = logging.ERROR if is_fault else logging.INFO
        if LOGGER.isEnabledFor(level):
            error = result.error
            session = self._redactor.text(result.session)
            fields = {"agent": result.agent, "session": session, "turn": result.turn, "status": result.status}
            fields |= {"steps": len(result.path), "node": error and error.node, "code": error and error.code}
            fields |= {"error": error and error.message}
            LOGGER.log(level, "turn ended", extra={"fields": fields})

    def _failed(self, error: InterlockError, given: Values) -> TurnResult:
        node = error.node if isinstance(error, TurnError) else None
        fault = Fault(code=error.code, message=self._redactor.text(error.message), node=node or (self._path[-1] if self._path else None))
        return self._result(Reply(status="error", error=fault), self._reached(given))

    def _reached(self, given: Values) -> Values:
        """Return the state as the last step left it that could be written."""
        state = self._graph.state
        values = state.begin({})
        with suppress(ContractViolation):  # the reducer that ended the turn
            for update in (given, *self._updates):
                state.apply(values, update)
        return state.complete(values)

    def _result(self, reply: Reply, state: Values) -> TurnResult:
        return TurnResult(
            agent=self._order.agent,
            session=self._order.session,
            turn=self._turn,
            status=reply.status,
            output=reply.output,
            error=reply.error,
            path=tuple(self._path),
            state=state,
            metadata=reply.metadata,
            redactor=self._redactor,
            secret=self._graph.state.secret,
        )


def _is_cancelled() -> bool:
    """Tell whether it is the turn that was cancelled, and not something that a node waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _typed(error: BaseException, node: Node, turn: str) -> InterlockError | None:
    """Say where a typed error happened, or make one of an exception that the node should not have raised.

    None is the turn's own cancellation, which is nobody's error.
    """
    if isinstance(error, TurnError):
        return error.at(node.name, turn=turn)
    if isinstance(error, InterlockError):
        return error
    if isinstance(error, asyncio.CancelledError) and _is_cancelled():
        return None
    return NodeFailed(f"The node raised {type(error).__name__}: {said(error)}").at(node.name, turn=turn)


@functools.cache
def _result_writer(graph: Graph) -> Write:
    """Make what writes the results of a graph's turns, for whoever listens."""
    parts = {**typing.get_type_hints(TurnResult), "output": Any, "metadata": dict[str, Any], "state": graph.state.record}
    return record_writer("Result", {name: parts[name] for name in RESULT_PARTS})
