"""A graph as a capability of another: a node calls it as it calls anything else, and its nodes are part of the turn."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.capabilities.capability import is_stream, methods
from interlock.contract import Graph
from interlock.contract.labels import is_secret
from interlock.contract.shapes import hints, peel, render
from interlock.contract.state import Values
from interlock.contract.values import ValidationError, reasons, value_validator
from interlock.engine import Compiled
from interlock.errors import CapabilityResultInvalid, ContractViolation, InputError, InterlockError, Internal, Problem
from interlock.runtime.events import hide
from interlock.runtime.ledger import JournalFailed
from interlock.runtime.scope import Scope
from interlock.runtime.walk import Walk

if TYPE_CHECKING:
    from interlock.runtime.gate import Gate

__all__ = ["GraphMethod", "ReadySubgraph", "Subgraph", "subgraph_problems"]


class Subgraph:
    """A graph to be granted: `Interlock(grants={Planner: Subgraph(planner)})`.

    The capability has one method. Its parameters are the fields that the graph takes, its result is the field that the
    graph gives. `fixed` are fields that every call has the same, and that the method leaves out.
    """

    def __init__(self, graph: Graph, **fixed: Any) -> None:
        self.graph = graph
        self.fixed: Values = fixed

    def __repr__(self) -> str:
        fixed = ", ".join(f"{name}={value!r}" for name, value in self.fixed.items())
        return f"{self.graph.name}({fixed})" if fixed else self.graph.name


@dataclass(frozen=True)
class ReadySubgraph:
    """A subgraph with its own grants, compiled."""

    subgraph: Subgraph
    gate: Gate
    compiled: Compiled


def subgraph_problems(graph: Graph, capability: type, subgraph: Subgraph) -> Iterator[Problem]:
    """Find out where a graph cannot stand behind a capability."""
    for says, fix in _misfits(capability, subgraph):
        told = f"graph '{subgraph.graph.name}' is granted as '{capability.__name__}', {says}"
        yield Problem("bad_subgraph", told, fix, graph.name)


def _misfits(capability: type, subgraph: Subgraph) -> Iterator[tuple[str, str]]:
    inner, found = subgraph.graph, methods(capability)
    if len(found) != 1:
        yield f"which has {len(found)} methods.", "declare a capability with one method for it."
        return
    ((name, method),) = found.items()
    if is_stream(method):
        yield f"but '{name}' gives its result in pieces, and a graph gives one.", "declare it as 'async def'."
        return
    declared = dict(hints(method).resolved)
    result = declared.pop("return", None)
    returned = peel(result)[0]
    parameters = list(inspect.signature(method).parameters.values())[1:]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield f"but '{name}' takes any number of '{parameter.name}'.", "name each parameter."
    yield from _wrong_input(name, {parameter.name: declared.get(parameter.name) for parameter in parameters}, subgraph)
    if inner.gives is None:
        yield "but does not say what it gives.", "pass 'gives' to the Graph."
    elif is_secret(result) and inner.gives not in inner.state.secret:
        yield f"but its '{inner.gives}' is not labelled Secret, as what '{name}' returns is.", "label the field."
    elif inner.state.fields[inner.gives].hint not in (returned, returned | None):
        says = f"but gives '{render(inner.state.fields[inner.gives].hint)}' where '{name}' returns '{render(returned)}'."
        yield says, "declare the same type."


def _wrong_input(name: str, given: dict[str, Any], subgraph: Subgraph) -> Iterator[tuple[str, str]]:
    state = subgraph.graph.state
    open_to_us = (*state.takes, *state.takes_inside)
    takes = {field: state.fields[field].hint for field in open_to_us if field not in subgraph.fixed}
    for field in subgraph.fixed:
        if field not in open_to_us:
            yield f"with '{field}' fixed, which it does not take.", "leave it out."
    try:
        state.admit({field: value for field, value in subgraph.fixed.items() if field in open_to_us}, inside=True)
    except InputError as error:
        yield f"with something else fixed. {error.message}", "pass a value of the field's type."
    required = {field for field in takes if state.fields[field].start is None}
    if not given.keys() <= takes.keys() or not required <= given.keys():
        wants, has = ", ".join(takes) or "nothing", ", ".join(given) or "nothing"
        yield f"but takes {wants} where '{name}' has {has}.", "name the parameters for the fields."
    for parameter, hint in given.items():
        if parameter in takes and peel(hint)[0] != takes[parameter]:
            says = f"but its '{parameter}' is '{render(takes[parameter])}' where '{name}' has '{render(hint)}'."
            yield says, "declare the same type."
        elif parameter in takes and is_secret(hint) and parameter not in state.secret:
            yield f"but its '{parameter}' is not labelled Secret, as it is in '{name}'.", "label the field."


class GraphMethod:
    """The method of a capability behind which a graph stands.

    A call of it is not an entry in the ledger: those that its nodes make are. Nor has it a deadline of its own, only that
    of the turn.
    """

    def __init__(self, capability: type, name: str, ready: ReadySubgraph) -> None:
        declared = getattr(capability, name)
        self.called = f"{capability.__name__}.{name}"
        self._graph = graph = ready.subgraph.graph
        self._ready = ready
        self._signature = inspect.signature(declared)
        self._parameters = tuple(self._signature.parameters)[1:]
        self._validate = value_validator(peel(hints(declared).resolved["return"])[0])
        self._metadata = {"graph": graph.name, "capability": self.called}

    async def call(self, scope: Scope, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Walk the graph inside the node that calls."""
        scope.check_open(self.called)
        given = self._given(args, kwargs)
        walk = Walk(self._graph, self._ready.gate, scope.shared, given, inside=scope.node)
        state, run = self._graph.state, None
        if scope.run is not None:
            run = scope.run.inner(self._graph.name, self._metadata).start(hide(given, state.secret), state.write)
            walk.tell(run)
        task = scope.enter(asyncio.current_task())
        try:
            result = self._result(await self._ready.compiled.walk(given, walk.step))
        except asyncio.CancelledError:
            if run is not None:
                run.cancel()
            raise
        except Exception as error:
            failure = error if isinstance(error, InterlockError) else Internal(f"The engine failed: {type(error).__name__}: {error}")
            if run is not None:
                run.error(failure.code, failure.message)
            if scope.ledger is not None and failure is scope.ledger.failure:
                raise JournalFailed(failure) from None
            if failure is error:
                raise
            raise failure from error
        finally:
            scope.leave(task)
        if run is not None:
            run.end(hide({self._graph.gives or "": result}, state.secret), state.write)
        return result

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Values:
        """Make the graph's input of the arguments."""
        try:
            if len(args) == len(self._parameters) and not kwargs:
                arguments = dict(zip(self._parameters, args, strict=True))
            else:
                bound = self._signature.bind(None, *args, **kwargs)
                bound.apply_defaults()
                arguments = dict(list(bound.arguments.items())[1:])
            return self._graph.state.admit({**self._ready.subgraph.fixed, **arguments}, inside=True)
        except InputError as error:
            wrong = error.message
        except TypeError as error:
            wrong = f"It does not fit: {error}."
        raise ContractViolation(f"'{self.called}' was called with something else. {wrong}")  # here: the value is not dragged along

    def _result(self, final: Values) -> Any:
        """Take the result out of the final state; None, and what a field begins with, have yet to be held to the method's type."""
        gives = self._graph.gives or ""
        result = final.get(gives)
        if result is not None:
            return result  # it was held to the field's type, which says the same except that it may allow None
        try:
            return self._validate(self._graph.state.complete(final).get(gives))
        except ValidationError as error:
            why = "" if self._graph.gives in self._graph.state.secret else f": {reasons(error)}"
        raise CapabilityResultInvalid(f"'{self.called}' returned something else{why}.")
