"""One walk through a graph: the steps that an engine takes. A turn is a walk, and a graph inside a graph is one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from interlock.contract import Graph, Outcome
from interlock.contract.node import Node, Step
from interlock.contract.state import Values
from interlock.contract.values import detached
from interlock.errors import InterlockError, NodeFailed, TurnError
from interlock.runtime.budget import Budget
from interlock.runtime.events import Run, hide
from interlock.runtime.ledger import Ledger
from interlock.runtime.redaction import REDACTED, Redactor
from interlock.runtime.redaction.exceptions import contains_secret, message_of, redact_error
from interlock.runtime.scope import Scope
from interlock.runtime.watch import Watch

if TYPE_CHECKING:
    from interlock.runtime.gate import Gate

__all__ = ["Shared", "Walk"]


@dataclass(kw_only=True, slots=True)
class Shared:
    """What all walks of one turn have in common."""

    turn: str
    budget: Budget
    redactor: Redactor
    ledger: Ledger | None
    watch: Watch | None
    path: list[str] = field(default_factory=list[str])
    """The nodes in the order in which they began, each with the nodes that it is inside: `plan_goal/prompt`."""
    models: dict[str, None] = field(default_factory=dict[str, None])
    """Who answered, of the models that say it."""
    spoken: list[str] | None = None
    """What the model has streamed in the node that runs, where that is wanted."""


class Walk:
    """Takes the steps of one graph; `inside` is the node that it is walked in, if any."""

    def __init__(self, graph: Graph, gate: Gate, shared: Shared, given: Values, *, inside: str | None = None) -> None:
        self._graph = graph
        self._gate = gate
        self._shared = shared
        self._run: Run | None = None
        self._parents: list[str] = []
        self._inside = inside
        self._taken = 0
        self.updates: list[Values] = []
        """What was written, in order."""
        if graph.state.secret:
            self.learn({name: start() for name in graph.state.secret if (start := graph.state.fields[name].start) is not None})
            self.learn(given)

    def tell(self, run: Run) -> None:
        """Tell of the nodes inside this run."""
        self._run = run
        self._parents = [*run.parents, run.run_id]

    async def step(self, node: Node, state: Mapping[str, Any]) -> Step:
        """Run one node: hand it what it reads and is granted, hold what it returns to its contract."""
        shared, name = self._shared, node.name
        where = name if self._inside is None else f"{self._inside}/{name}"
        exceeded = shared.budget.take_step(len(shared.path), self._taken, self._graph.steps)
        if exceeded is not None:
            raise exceeded.at(where, turn=shared.turn)
        self._taken += 1
        shared.path.append(where)
        if shared.spoken:
            shared.spoken.clear()
        run = None
        if self._run is not None:
            metadata = {"langgraph_node": where, "langgraph_step": len(shared.path)}
            run = Run(self._run.events, "chain", where, self._parents, metadata)
        try:
            arguments = node.read(state)
            if self._graph.state.secret:
                self.learn({read.field.name: value for read, value in zip(node.reads, arguments, strict=True) if not read.presence})
            if run is not None:
                run.start(self._read(node, arguments), node.write_reads)
            step = node.settle(await (self._use(node, where, arguments, run) if node.grants else node.run(*arguments)))
        except (Exception, asyncio.CancelledError) as error:
            failure = self._failure(error, where, run)
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
            self.learn(update)
        self.updates.append(detached(update) if fields.mixed and not fields.mixed.isdisjoint(update) else update)
        if run is not None:
            run.end(hide(update, fields.secret), step[0].write)
        return step

    async def _use(self, node: Node, where: str, arguments: Sequence[Any], run: Run | None) -> Outcome:
        """Run a node with what it is granted, for as long as it runs."""
        scope = Scope(where, run=run, shared=self._shared)
        try:
            return await node.run(*arguments, **self._gate.open(node, scope))
        except asyncio.CancelledError:
            scope.is_cancelled = True
            raise
        finally:
            scope.is_open = False
            if scope.has_open_ends:
                await scope.close()
            failure = None if scope.ledger is None else scope.ledger.failure
            if failure is not None and not (scope.is_cancelled and _is_cancelled()):
                raise failure from None  # whatever the node returned or raised

    def _read(self, node: Node, arguments: Sequence[Any]) -> dict[str, Any]:
        """Return what a node is handed, for whoever listens."""
        secret = self._graph.state.secret
        if not secret:
            return dict(zip(node.read_names, arguments, strict=True))
        return {
            str(read): REDACTED if read.field.name in secret and not read.presence else value
            for read, value in zip(node.reads, arguments, strict=True)
        }

    def learn(self, written: Values) -> None:
        """Look out for the secrets among these values from now on."""
        for name in self._graph.state.secret & written.keys():
            if written[name] is not None:
                self._shared.redactor.add_secret(written[name])

    def _failure(self, error: BaseException, where: str, run: Run | None) -> BaseException:
        """Return what a step raises. Where anything that it comes from would tell a secret, it comes from nothing."""
        failure = _typed(error, where, self._shared.turn)
        if failure is None:
            if run is not None:
                run.cancel()
            return error
        if contains_secret(self._shared.redactor, error):
            failure = redact_error(self._shared.redactor, failure)
        elif failure is not error:
            failure.__cause__ = error
        if run is not None:
            run.error(failure.code, failure.message)
        return failure


def _is_cancelled() -> bool:
    """Tell whether it is the turn that was cancelled, and not something that a node waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _typed(error: BaseException, where: str, turn: str) -> InterlockError | None:
    """Say where a typed error happened, or make one of an exception that the node should not have raised.

    None is the turn's own cancellation, which is nobody's error.
    """
    if isinstance(error, TurnError):
        return error.at(where, turn=turn)
    if isinstance(error, InterlockError):
        return error
    if isinstance(error, asyncio.CancelledError) and _is_cancelled():
        return None
    return NodeFailed(f"The node raised {type(error).__name__}: {message_of(error)}").at(where, turn=turn)
