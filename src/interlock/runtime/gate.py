"""The gate: a node reaches the outside world only through the capabilities that it is granted."""

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
from interlock.contract.type_hints import stable_repr
from interlock.errors import ReplayDiverged
from interlock.runtime.call import Call, Stream, Target
from interlock.runtime.context import NodeContext
from interlock.runtime.targets import AdapterTarget, Composed, GraphTarget, ReadySubgraph, parts_of

__all__ = ["Gate"]


class _Proxy:
    """Proxy for an adapter. Exposes the capability's methods and stops working when the node ends."""

    __slots__ = ("_node",)

    def __init__(self, node: NodeContext) -> None:
        self._node = node


def _proxy_class(capability: type, adapter: object | None) -> type[_Proxy]:
    """Return the class of the proxies of one adapter. The adapter itself cannot be reached through them."""
    body = {name: _proxy_method(_target(capability, name, adapter)) for name in methods(capability)}
    return type(capability.__name__, (_Proxy,), {"__slots__": (), **body})


def _target(capability: type, name: str, adapter: object | None) -> Target:
    if isinstance(adapter, ReadySubgraph):
        return GraphTarget(capability, name, adapter)
    if isinstance(adapter, Composed):
        function = getattr(adapter.adapter, name)
        proxies = {parameter: _proxy_class(part, adapter.parts[part]) for parameter, part in parts_of(function).items()}
        return AdapterTarget(capability, name, function, proxies)
    return AdapterTarget(capability, name, _refuse if adapter is None else getattr(adapter, name))


def _proxy_method(target: Target) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return Call(target, self._node, args, kwargs).result()

    def stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        opened = Stream(Call(target, self._node, args, kwargs))
        self._node.streams.append(opened)
        return opened

    return stream if target.method.is_stream else call


def _refuse(*_args: Any, **_kwargs: Any) -> Any:
    raise ReplayDiverged("A turn that is replayed makes no calls.")


class Gate:
    """The capabilities of a graph. Gives nodes proxies that work while the node runs.

    `adapters` has what answers the calls of each capability: an adapter, a composed adapter, whose own calls pass this gate, or a graph,
    whose nodes have a gate of their own. Calls of a capability without one are refused, because a replay makes none.
    """

    def __init__(self, graph: Graph, adapters: Mapping[type, object]) -> None:
        proxies = {capability: _proxy_class(capability, adapters.get(capability)) for capability in graph.capabilities}
        self._proxies = {
            node.name: tuple((grant.parameter, proxies[grant.capability]) for grant in node.grants) for node in graph.nodes.values()
        }
        self._graph = graph
        self._inner = {one: ready for one in graph.capabilities if isinstance(ready := adapters.get(one), ReadySubgraph)}
        self.names: frozenset[str] = graph.state.names.union(*(ready.gate.names for ready in self._inner.values()))
        """The names of all fields, those of inner graphs too."""
        self.tracks_origins: bool = any(_tracks_origins(adapters.get(capability)) for capability in graph.capabilities)
        """Whether an adapter has a policy for which it must be known where values come from."""
        asking = {capability for capability in graph.capabilities if _may_ask(capability, adapters.get(capability))}
        self.asking = frozenset(n.name for n in graph.nodes.values() if any(grant.capability in asking for grant in n.grants))
        """The names of the nodes that may ask a person."""

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the contracts of the graph and of the graphs inside it, with their fixed fields."""
        inner = [
            [capability.__name__, ready.gate.fingerprint, {name: stable_repr(value) for name, value in ready.subgraph.fixed.items()}]
            for capability, ready in self._inner.items()
        ]
        if not inner:
            return self._graph.fingerprint
        return hashlib.sha256(json.dumps([self._graph.fingerprint, inner], sort_keys=True).encode()).hexdigest()

    def open(self, node: Node, context: NodeContext) -> dict[str, Any]:
        """Return the capabilities that a node is granted, by parameter."""
        return {parameter: proxy(context) for parameter, proxy in self._proxies[node.name]}


def _tracks_origins(adapter: object | None) -> bool:
    if isinstance(adapter, ReadySubgraph):
        return adapter.gate.tracks_origins
    if isinstance(adapter, Composed):
        return any(map(_tracks_origins, adapter.parts.values()))
    return bool(getattr(adapter, "tracks_origins", False))


def _may_ask(capability: type, adapter: object | None) -> bool:
    """Return whether a call of a capability may ask a person, itself or through what answers it."""
    if isinstance(adapter, ReadySubgraph):
        return bool(adapter.gate.asking)
    return capability is Human or (isinstance(adapter, Composed) and Human in adapter.parts)
