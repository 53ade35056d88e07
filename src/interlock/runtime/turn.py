"""One turn: an input goes in, an engine walks the graph, a reply comes out. Read this first.

Turn.run                the turn from the first event to the result
engine.walk           one node after the other, on LangGraph or in a loop
Turn.step           one node: hand it what it reads and is granted, hold what it returns to its contract
gate              everything the node does to the world
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from interlock.contract import Graph
from interlock.contract.node import Node, Step
from interlock.contract.state import Values
from interlock.contract.values import detached
from interlock.engine import Compiled
from interlock.errors import BudgetExceeded, ContractViolation, InterlockError, Internal, NodeFailed, TurnError
from interlock.runtime.events import Events, Run, Sink, plain
from interlock.runtime.gate import Gate, Scope
from interlock.runtime.reply import Fault, Reply, Status

__all__ = ["Turn", "TurnResult"]


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

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON data."""
        return plain(self)


class Turn:
    """One input to one reply."""

    def __init__(
        self,
        graph: Graph,
        gate: Gate,
        *,
        agent: str,
        session: str,
        turn: str,
        reply: Callable[[Mapping[str, Any]], Reply],
        sink: Sink | None = None,
    ) -> None:
        self._graph = graph
        self._gate = gate
        self._agent = agent
        self._session = session
        self._turn = turn
        self._reply = reply
        self._events = None if sink is None else Events(turn, sink)
        self._run: Run | None = None
        if self._events is not None:
            self._run = self._events.turn(graph.name, {"agent": agent, "session": session, "turn": turn})
        self._path: list[str] = []
        self._updates: list[Values] = []

    async def run(self, compiled: Compiled, given: Values) -> TurnResult:
        """Take the turn. It always ends in a result; only cancellation, and what a listener raised, is raised."""
        if self._run is not None:
            self._run.start(given)
        try:
            state = self._graph.state.complete(await compiled.walk(given, self.step))
            result = self._result(self._reply(state), state)
        except InterlockError as error:
            result = self._failed(error, given)
        except Exception as error:  # noqa: BLE001 - nothing untyped reaches a caller
            result = self._failed(Internal(f"The engine failed: {type(error).__name__}: {error}"), given)
        if self._run is not None:
            self._run.end(result)
        if self._events is not None and self._events.broken is not None:
            raise self._events.broken
        return result

    async def step(self, node: Node, state: Mapping[str, Any]) -> Step:
        """Run one node."""
        if len(self._path) >= self._graph.steps:
            raise BudgetExceeded(f"The turn took all of its {self._graph.steps} steps without ending.").at(node.name, turn=self._turn)
        self._path.append(node.name)
        run = None
        if self._run is not None:
            run = self._run.child("chain", node.name, {"langgraph_node": node.name, "langgraph_step": len(self._path)})
        scope = Scope(node.name, run) if node.grants else None
        try:
            arguments = node.read(state)
            if run is not None:
                run.start({str(read): value for read, value in zip(node.reads, arguments, strict=True)})
            outcome = await (node.run(*arguments) if scope is None else node.run(*arguments, **self._gate.open(node, scope)))
            step = node.settle(outcome)
        except (Exception, asyncio.CancelledError) as error:
            failure = _typed(error, node, self._turn)
            if run is not None and isinstance(failure, InterlockError):
                run.error(failure.code, failure.message)
            if failure is error:
                raise
            raise failure from error
        finally:
            if scope is not None:
                scope.is_open = False
        update = step[1]
        self._updates.append(detached(update) if self._graph.state.reduced else update)
        if run is not None:
            run.end(update)
        return step

    def _failed(self, error: InterlockError, given: Values) -> TurnResult:
        node = error.node if isinstance(error, TurnError) else None
        fault = Fault(code=error.code, message=error.message, node=node or (self._path[-1] if self._path else None))
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
            agent=self._agent,
            session=self._session,
            turn=self._turn,
            status=reply.status,
            output=reply.output,
            error=reply.error,
            path=tuple(self._path),
            state=state,
            metadata=reply.metadata,
        )


def _is_cancelled() -> bool:
    """Tell whether it is the turn that was cancelled, and not something that a node waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _typed(error: BaseException, node: Node, turn: str) -> BaseException:
    """Say where a typed error happened, or make one of an exception that the node should not have raised."""
    if isinstance(error, TurnError):
        return error.at(node.name, turn=turn)
    if isinstance(error, InterlockError) or (isinstance(error, asyncio.CancelledError) and _is_cancelled()):
        return error
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an exception that cannot even say what it is
        said = "it cannot be told"
    return NodeFailed(f"The node raised {type(error).__name__}: {said}").at(node.name, turn=turn)
