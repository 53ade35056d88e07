"""One run of a graph, node by node. A turn is the run of a graph; a graph that answers a capability call is run inside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from interlock.contract import Graph
from interlock.contract.copying import deep_copy
from interlock.contract.node import Node, StepResult
from interlock.contract.state import Values
from interlock.errors import InterlockError, NodeFailed, TurnError
from interlock.runtime.context import NodeContext, TurnContext
from interlock.runtime.events import Run, hide
from interlock.runtime.layers import is_cancelled, raise_alone
from interlock.runtime.redaction import REDACTED
from interlock.runtime.redaction.exceptions import contains_secret, message_of, redact_error

if TYPE_CHECKING:
    from interlock.runtime.gate import Gate

__all__ = ["GraphRun"]


class GraphRun:
    """Runs the nodes of one graph; `inside` is the node that called it, if any."""

    def __init__(self, graph: Graph, gate: Gate, turn: TurnContext, given: Values, *, inside: str | None = None) -> None:
        self._state = state = graph.state
        self._max_steps = graph.max_steps
        self._gate = gate
        self._turn = turn
        self._run: Run | None = None
        self._parents: list[str] = []
        self._inside = inside
        self._taken = 0
        self.updates: list[Values] = []
        """What the nodes wrote, in order."""
        if state.secret:
            self.add_secrets({name: start() for name in state.secret if (start := state.fields[name].initial) is not None})
            self.add_secrets(given)

    def emit_inside(self, run: Run) -> None:
        """Emit the events of the nodes, as children of this run."""
        self._run = run
        self._parents = [*run.parents, run.run_id]

    async def run_node(self, node: Node, state: Mapping[str, Any]) -> StepResult:
        """Run one node: pass it what it reads and is granted, and validate the outcome against its contract."""
        turn, state_fields, run = self._turn, self._state, None
        where = node.name if self._inside is None else f"{self._inside}/{node.name}"
        exceeded = turn.budget.take_step(len(turn.path), self._taken, self._max_steps)
        if exceeded is not None:
            raise exceeded.at(where, turn=turn.turn)
        self._taken += 1
        turn.path.append(where)
        if turn.streamed:
            turn.streamed.clear()
        if self._run is not None:
            run = Run(self._run.events, "chain", where, self._parents, {"langgraph_node": where, "langgraph_step": len(turn.path)})
        try:
            arguments = node.read(state)
            if state_fields.secret:
                self.add_secrets({read.field.name: value for read, value in zip(node.reads, arguments, strict=True) if not read.presence})
            if run is not None:
                run.start(self._read(node, arguments))
            if node.grants:
                async with NodeContext(where, run=run, turn=turn) as context:
                    outcome = await node.run(*arguments, **self._gate.open(node, context))
            else:
                outcome = await node.run(*arguments)
            step = node.validate_outcome(outcome)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is raised again, typed
            self._fail(error, where, run)
        update, reduced = step[1], state_fields.mutable_reduced
        if state_fields.secret:
            self.add_secrets(update)
        self.updates.append(deep_copy(update) if reduced and not reduced.isdisjoint(update) else update)
        if run is not None:
            run.end(hide(update, state_fields.secret))
        return step

    def _read(self, node: Node, arguments: Sequence[Any]) -> dict[str, Any]:
        """Return what a node reads, as its start event shows it."""
        secret = self._state.secret
        if not secret:
            return dict(zip(node.read_names, arguments, strict=True))
        return {
            name: REDACTED if read.field.name in secret and not read.presence else value
            for name, read, value in zip(node.read_names, node.reads, arguments, strict=True)
        }

    def add_secrets(self, written: Values) -> None:
        """Redact the secret ones among these values from now on."""
        for name in self._state.secret & written.keys():
            if written[name] is not None:
                self._turn.redactor.add_secret(written[name])

    def _fail(self, error: BaseException, where: str, run: Run | None) -> NoReturn:
        """Raise the error that a node run ends with. Its cause is dropped where that contains a secret."""
        failure = _typed(error, where, self._turn.turn)
        if failure is None:
            if run is not None:
                run.cancel()
            raise error
        has_secret = contains_secret(self._turn.redactor, error)
        if has_secret:
            failure = redact_error(self._turn.redactor, failure)
        if run is not None:
            run.error(failure.code, failure.message)
        if failure is error:
            raise error
        if has_secret:
            raise_alone(failure)
        raise failure from error


def _typed(error: BaseException, where: str, turn: str) -> InterlockError | None:
    """Return the typed error for an exception, with the node and the turn; None where the turn is being cancelled."""
    if isinstance(error, TurnError):
        return error.at(where, turn=turn)
    if isinstance(error, InterlockError):
        return error
    if isinstance(error, asyncio.CancelledError) and is_cancelled():
        return None
    return NodeFailed(f"The node raised {type(error).__name__}: {message_of(error)}").at(where, turn=turn)
