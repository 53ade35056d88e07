"""The gate: everything a node does to the world is a call on a granted capability, and every call passes here."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from interlock.capabilities.capability import event_kind, methods
from interlock.contract import Graph
from interlock.contract.node import Node
from interlock.contract.shapes import hints, render
from interlock.contract.values import ValidationError, reasons, value_validator
from interlock.errors import CapabilityError, CapabilityResultInvalid, ContractError, ContractViolation, InterlockError, Problem
from interlock.runtime.events import Run

__all__ = ["Gate", "Scope"]


class Scope:
    """One run of one node: while it is open, the node may use what it was granted."""

    __slots__ = ("is_open", "node", "run")

    def __init__(self, node: str, run: Run | None) -> None:
        self.node = node
        self.run = run
        self.is_open = True


def _method(capability: type, name: str, made: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Make a handle's method: the way of every call through the gate, until it is `made`."""
    called = f"{capability.__name__}.{name}"
    event = event_kind(capability, name)
    validate = value_validator(hints(getattr(capability, name)).resolved["return"])

    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        scope: Scope = self._scope
        if not scope.is_open:
            raise ContractViolation(f"'{called}' was called after node '{scope.node}' had ended.")
        run: Run | None = None
        if event is not None and scope.run is not None:
            run = scope.run.child(event, called).start([*args, *kwargs.values()])
        try:
            result = validate(await made(*args, **kwargs))
        except Exception as error:
            failure = _typed(error, called)
            if run is not None:
                run.error(failure.code, failure.message)
            if failure is error:
                raise
            raise failure from error
        if run is not None:
            run.end(result)
        return result

    return call


def _typed(error: Exception, called: str) -> InterlockError:
    """Make a typed error of whatever an adapter raised or returned."""
    if isinstance(error, InterlockError):
        return error
    if isinstance(error, ValidationError):
        return CapabilityResultInvalid(f"'{called}' returned something else: {reasons(error)}.")
    return CapabilityError(f"'{called}' failed: {type(error).__name__}.")


class _Handle:
    """What stands in a node for whoever grants a capability: its methods, for as long as the node runs."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope


def _handle_class(capability: type, adapter: object) -> type[_Handle]:
    """Make the class of the handles on one adapter. The adapter itself cannot be reached through them."""
    body: dict[str, Any] = {name: _method(capability, name, getattr(adapter, name)) for name in methods(capability)}
    return type(capability.__name__, (_Handle,), {"__slots__": (), **body})


class Gate:
    """A graph's capabilities, each granted exactly once, handed to nodes for as long as they run."""

    def __init__(self, graph: Graph, grants: Mapping[type, object]) -> None:
        problems = [problem for capability in graph.capabilities for problem in _problems(graph, capability, grants)]
        if problems:
            raise ContractError(problems)
        handles = {capability: _handle_class(capability, grants[capability]) for capability in graph.capabilities}
        self._handles = {node.name: {grant.parameter: handles[grant.capability] for grant in node.grants} for node in graph.nodes.values()}

    def open(self, node: Node, scope: Scope) -> dict[str, Any]:
        """Return the keyword arguments that a node is granted."""
        return {parameter: handle(scope) for parameter, handle in self._handles[node.name].items()}


def _problems(graph: Graph, capability: type, grants: Mapping[type, object]) -> list[Problem]:
    users = ", ".join(f"'{n.name}'" for n in graph.nodes.values() if any(g.capability is capability for g in n.grants))
    if capability not in grants:
        says = f"nobody grants capability '{capability.__name__}', which {users} needs."
        fix = f"pass Interlock(grants={{{capability.__name__}: ...}}), or --grants MODULE:NAME on the command line."
        return [Problem("not_granted", says, fix, graph.name)]
    adapter = grants[capability]
    missing = [name for name in methods(capability) if not inspect.iscoroutinefunction(getattr(adapter, name, None))]
    return [
        Problem(
            "bad_grant",
            f"'{render(type(adapter))}' is granted as '{capability.__name__}' but has no async method '{name}'.",
            "add the method.",
            graph.name,
        )
        for name in missing
    ]
