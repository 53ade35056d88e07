"""The gate: everything a node does to the world is a call on a granted capability, and every call passes here."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.capabilities.capability import EventKind, event_kind, methods
from interlock.contract import Graph
from interlock.contract.node import Node
from interlock.contract.shapes import hints, render
from interlock.contract.values import ValidationError, Validator, reasons, validator
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


@dataclass(frozen=True)
class _Call:
    """A method of a capability, as the gate sees it."""

    capability: str
    method: str
    event: EventKind | None
    validate: Validator

    async def make(self, scope: Scope, call: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Let one call through."""
        if not scope.is_open:
            raise ContractViolation(f"'{self.capability}.{self.method}' was called after node '{scope.node}' had ended.")
        if scope.run is None or self.event is None:
            return await self._checked(call, args, kwargs)
        run = scope.run.child(self.event, f"{self.capability}.{self.method}").start(kwargs if not args else [*args, *kwargs.values()])
        try:
            result = await self._checked(call, args, kwargs)
        except InterlockError as error:
            run.error(error.code, error.message)
            raise
        run.end(result)
        return result

    async def _checked(self, call: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            result = await call(*args, **kwargs)
        except InterlockError:
            raise
        except Exception as error:
            raise CapabilityError(f"'{self.capability}.{self.method}' failed: {type(error).__name__}.") from error
        try:
            return self.validate({"result": result})["result"]
        except ValidationError as error:
            raise CapabilityResultInvalid(f"'{self.capability}.{self.method}' returned something else: {reasons(error)}.") from error


def _handle_class(capability: type) -> type[Any]:
    """Make the class of the handles that stand in a node for whoever grants the capability."""

    def method(call: _Call) -> Callable[..., Awaitable[Any]]:
        name = call.method

        async def through_the_gate(self: Any, *args: Any, **kwargs: Any) -> Any:
            adapter, scope = self._Handle__granted
            return await call.make(scope, getattr(adapter, name), args, kwargs)

        return through_the_gate

    def __init__(self: Any, adapter: object, scope: Scope) -> None:  # noqa: N807 - it becomes the class's own
        self._Handle__granted = (adapter, scope)

    calls = [
        _Call(capability.__name__, name, event_kind(capability, name), validator("Result", {"result": hints(declared).resolved["return"]}))
        for name, declared in methods(capability).items()
    ]
    body: dict[str, Any] = {call.method: method(call) for call in calls}
    return type(capability.__name__, (), {"__slots__": ("_Handle__granted",), "__init__": __init__, **body})


class Gate:
    """A graph's capabilities, each granted exactly once, handed to nodes for as long as they run."""

    def __init__(self, graph: Graph, grants: Mapping[type, object]) -> None:
        problems = [problem for capability in graph.capabilities for problem in _problems(graph, capability, grants)]
        if problems:
            raise ContractError(problems)
        handles = {capability: _handle_class(capability) for capability in graph.capabilities}
        self._handles = {
            node.name: tuple((g.parameter, handles[g.capability], grants[g.capability]) for g in node.grants)
            for node in graph.nodes.values()
        }

    def open(self, node: Node, scope: Scope) -> dict[str, Any]:
        """Return the keyword arguments that a node is granted."""
        return {parameter: handle(adapter, scope) for parameter, handle, adapter in self._handles[node.name]}


def _problems(graph: Graph, capability: type, grants: Mapping[type, object]) -> list[Problem]:
    users = ", ".join(f"'{n.name}'" for n in graph.nodes.values() if any(g.capability is capability for g in n.grants))
    if capability not in grants:
        says = f"nobody grants capability '{capability.__name__}', which {users} needs."
        fix = f"pass grants={{{capability.__name__}: ...}}, or configure it in the settings."
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
