"""The gate: everything a node does to the world is a call on a granted capability, and every call passes here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from interlock.capabilities.capability import methods
from interlock.capabilities.human import Human
from interlock.contract import Graph
from interlock.contract.node import Node
from interlock.contract.shapes import note
from interlock.errors import ContractError, Problem, ReplayDiverged
from interlock.runtime.composed import Composed, ComposedMethod, composed_problems, wanted
from interlock.runtime.method import Method
from interlock.runtime.misfits import misfits
from interlock.runtime.scope import Scope
from interlock.runtime.streaming import Stream
from interlock.runtime.subgraph import GraphMethod, ReadySubgraph

__all__ = ["Gate"]


class _Handle:
    """What stands in a node for whoever grants a capability: its methods, for as long as the node runs."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope


def _handle_class(capability: type, adapter: object | None, *, is_open: bool) -> type[_Handle]:
    """Make the class of the handles on one adapter. The adapter itself cannot be reached through them."""
    body = {name: _way(_method(capability, name, adapter, is_open=is_open)) for name in methods(capability)}
    return type(capability.__name__, (_Handle,), {"__slots__": (), **body})


def _method(capability: type, name: str, adapter: object | None, *, is_open: bool) -> Method | GraphMethod:
    if isinstance(adapter, ReadySubgraph):
        return GraphMethod(capability, name, adapter)
    if isinstance(adapter, Composed):
        made = getattr(adapter.adapter, name)
        parts = {parameter: (part, adapter.parts[part] if is_open else None) for parameter, part in wanted(made).items()}
        handles = {parameter: _handle_class(*part, is_open=is_open) for parameter, part in parts.items()}
        return ComposedMethod(capability, name, made, handles)
    return Method(capability, name, _nobody if adapter is None else getattr(adapter, name))


def _way(method: Method | GraphMethod) -> Callable[..., Any]:
    """Make a handle's method."""
    if isinstance(method, GraphMethod):
        return _calling(method)
    return _streaming(method) if method.is_stream else _calling(method)


def _calling(method: Method | GraphMethod) -> Callable[..., Any]:

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method.call(self._scope, args, kwargs)

    return call


def _streaming(method: Method) -> Callable[..., Any]:
    def stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        opened = Stream(method, self._scope, args, kwargs)
        self._scope.leave_open(opened)
        return opened

    return stream


def _nobody(*_args: Any, **_kwargs: Any) -> Any:
    raise ReplayDiverged("A turn that is replayed makes no calls.")


class Gate:
    """A graph's capabilities, each granted exactly once, handed to nodes for as long as they run.

    A gate without grants lets nothing out: it is for turns whose ledger has every call. `subgraphs` are the graphs that
    stand behind a capability; what they do to the world passes gates of their own. `composed` are the capabilities that
    are made of others; what they do with those passes this gate.
    """

    def __init__(
        self,
        graph: Graph,
        grants: Mapping[type, object] | None,
        *,
        subgraphs: Mapping[type, ReadySubgraph] | None = None,
        composed: Mapping[type, Composed] | None = None,
    ) -> None:
        inner = {capability: ready for capability, ready in (subgraphs or {}).items() if capability in graph.capabilities}
        made_of = {capability: one for capability, one in (composed or {}).items() if capability in graph.capabilities}
        problems = [problem for capability, one in made_of.items() for problem in composed_problems(graph.name, capability, one)]
        if grants is not None:
            plain = [capability for capability in graph.capabilities if capability not in inner and capability not in made_of]
            problems += [problem for capability in plain for problem in _problems(graph, capability, grants)]
        if problems:
            raise ContractError(problems)
        adapters: dict[type, object] = {**(grants or {}), **inner, **made_of}
        is_open = grants is not None
        handles = {capability: _handle_class(capability, adapters.get(capability), is_open=is_open) for capability in graph.capabilities}
        self._handles = {
            node.name: tuple((grant.parameter, handles[grant.capability]) for grant in node.grants) for node in graph.nodes.values()
        }
        self.names: frozenset[str] = graph.state.names.union(*(ready.gate.names for ready in inner.values()))
        """The names of all fields, those of inner graphs too."""
        self.asking: frozenset[str] = frozenset(
            node.name for node in graph.nodes.values() if any(_asks(grant.capability, inner, made_of) for grant in node.grants)
        )
        """The names of the nodes that may ask a person."""
        self._graph = graph
        self._inner = inner

    @cached_property
    def fingerprint(self) -> str:
        """Identify the contracts, those of inner graphs too, with what they have fixed."""
        inner = [
            [capability.__name__, ready.gate.fingerprint, {name: note(value) for name, value in ready.subgraph.fixed.items()}]
            for capability, ready in self._inner.items()
        ]
        if not inner:
            return self._graph.fingerprint
        return hashlib.sha256(json.dumps([self._graph.fingerprint, inner], sort_keys=True).encode()).hexdigest()

    def open(self, node: Node, scope: Scope) -> dict[str, Any]:
        """Return the keyword arguments that a node is granted."""
        opened: dict[str, Any] = {}
        for parameter, handle in self._handles[node.name]:  # a comprehension takes longer than what it would do here
            opened[parameter] = handle(scope)
        return opened


def _asks(capability: type, inner: Mapping[type, ReadySubgraph], composed: Mapping[type, Composed]) -> bool:
    """Tell whether a call of a capability may ask a person: it is one, or a graph or an adapter behind it has one."""
    if capability in inner:
        return bool(inner[capability].gate.asking)
    return capability is Human or (capability in composed and Human in composed[capability].parts)


def _problems(graph: Graph, capability: type, grants: Mapping[type, object]) -> list[Problem]:
    users = ", ".join(f"'{n.name}'" for n in graph.nodes.values() if any(g.capability is capability for g in n.grants))
    if capability not in grants:
        says = f"nobody grants capability '{capability.__name__}', which {users} needs."
        fix = f"pass Interlock(grants={{{capability.__name__}: ...}}), or --grants MODULE:NAME on the command line."
        return [Problem("not_granted", says, fix, graph.name)]
    return list(misfits(graph.name, capability, grants[capability]))
