"""One run of a graph, node by node. A turn is the run of a graph; a graph that answers a capability call is run inside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlock.contract import Graph, Outcome
from interlock.contract.copying import deep_copy
from interlock.contract.node import Node, StepResult
from interlock.contract.state import Values
from interlock.errors import InterlockError, NodeFailed, TurnError
from interlock.runtime.context import NodeContext, TurnContext
from interlock.runtime.events import Run, hide
from interlock.runtime.layers import raise_alone
from interlock.runtime.redaction import REDACTED
from interlock.runtime.redaction.exceptions import contains_secret, message_of, redact_error

if TYPE_CHECKING:
    from interlock.runtime.gate import Gate

__all__ = ["GraphRun"]


class GraphRun:
    """Runs the nodes of one graph; `inside` is the node that called it, if any."""

    def __init__(self, graph: Graph, gate: Gate, turn: TurnContext, given: Values, *, inside: str | None = None) -> None:
        self._graph = graph
        self._gate = gate
        self._turn = turn
        self._run: Run | None = None
        self._parents: list[str] = []
        self._inside = inside
        self._taken = 0
        self.updates: list[Values] = []
        """What the nodes wrote, in order."""
        if graph.state.secret:
            self.add_secrets({name: start() for name in graph.state.secret if (start := graph.state.fields[name].initial) is not None})
            self.add_secrets(given)

    def emit_inside(self, run: Run) -> None:
        """Emit the events of the nodes, as children of this run."""
        self._run = run
        self._parents = [*run.parents, run.run_id]

    async def run_node(self, node: Node, state: Mapping[str, Any]) -> StepResult:
        """Run one node: pass it what it reads and is granted, and validate the outcome against its contract."""
        turn, name = self._turn, node.name
        where = name if self._inside is None else f"{self._inside}/{name}"
        exceeded = turn.budget.take_step(len(turn.path), self._taken, self._graph.max_steps)
        if exceeded is not None:
            raise exceeded.at(where, turn=turn.turn)
        self._taken += 1
        turn.path.append(where)
        if turn.streamed:
            turn.streamed.clear()
        run = None
        if self._run is not None:
            metadata = {"langgraph_node": where, "langgraph_step": len(turn.path)}
            run = Run(self._run.events, "chain", where, self._parents, metadata)
        try:
            arguments = node.read(state)
            if self._graph.state.secret:
                self.add_secrets({read.field.name: value for read, value in zip(node.reads, arguments, strict=True) if not read.presence})
            if run is not None:
                run.start(self._read(node, arguments), node.write_reads)
            step = node.validate_outcome(await (self._run_granted(node, where, arguments, run) if node.grants else node.run(*arguments)))
        except (Exception, asyncio.CancelledError) as error:
            failure = self._failure(error, where, run)
            if failure is error:
                raise
            if failure.__cause__ is error:
                raise failure from error
            raise_alone(failure)
        return self._wrote(step, run)

    def _wrote(self, step: StepResult, run: Run | None) -> StepResult:
        """Note what a node wrote, and emit its end event."""
        update, fields = step[1], self._graph.state
        if fields.secret:
            self.add_secrets(update)
        self.updates.append(deep_copy(update) if fields.mutable_reduced and not fields.mutable_reduced.isdisjoint(update) else update)
        if run is not None:
            run.end(hide(update, fields.secret), step[0].write)
        return step

    async def _run_granted(self, node: Node, where: str, arguments: Sequence[Any], run: Run | None) -> Outcome:
        """Run a node with the capabilities that it is granted, which stop working when it ends."""
        context = NodeContext(where, run=run, turn=self._turn)
        try:
            return await node.run(*arguments, **self._gate.open(node, context))
        except asyncio.CancelledError:
            context.is_cancelled = True
            raise
        finally:
            context.is_open = False
            if context.has_open_calls:
                await context.close()
            journal = self._turn.journal
            if journal is not None and journal.failure is not None and not (context.is_cancelled and _is_cancelled()):
                # Whatever the node returned or raised.
                raise journal.failure from None

    def _read(self, node: Node, arguments: Sequence[Any]) -> dict[str, Any]:
        """Return what a node reads, as its start event shows it."""
        secret = self._graph.state.secret
        if not secret:
            return dict(zip(node.read_names, arguments, strict=True))
        return {
            str(read): REDACTED if read.field.name in secret and not read.presence else value
            for read, value in zip(node.reads, arguments, strict=True)
        }

    def add_secrets(self, written: Values) -> None:
        """Redact the secret ones among these values from now on."""
        for name in self._graph.state.secret & written.keys():
            if written[name] is not None:
                self._turn.redactor.add_secret(written[name])

    def _failure(self, error: BaseException, where: str, run: Run | None) -> BaseException:
        """Return the error that a node run ends with. Its cause is dropped where that contains a secret."""
        failure = _typed(error, where, self._turn.turn)
        if failure is None:
            if run is not None:
                run.cancel()
            return error
        if contains_secret(self._turn.redactor, error):
            failure = redact_error(self._turn.redactor, failure)
        elif failure is not error:
            failure.__cause__ = error
        if run is not None:
            run.error(failure.code, failure.message)
        return failure


def _is_cancelled() -> bool:
    """Return whether the turn itself is being cancelled, and not something that a node waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _typed(error: BaseException, where: str, turn: str) -> InterlockError | None:
    """Return the typed error for an exception, with the node and the turn; None where the turn is being cancelled."""
    if isinstance(error, TurnError):
        return error.at(where, turn=turn)
    if isinstance(error, InterlockError):
        return error
    if isinstance(error, asyncio.CancelledError) and _is_cancelled():
        return None
    return NodeFailed(f"The node raised {type(error).__name__}: {message_of(error)}").at(where, turn=turn)
