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
from interlock.errors import ContractError, Problem, ReplayDiverged
from interlock.runtime.call import Call, Stream, Target
from interlock.runtime.context import NodeContext
from interlock.runtime.grant_checks import adapter_problems, composed_problems
from interlock.runtime.targets import AdapterTarget, Composed, ComposedTarget, GraphTarget, ReadySubgraph, parts_of

__all__ = ["Gate"]


class _Proxy:
    """Stands for an adapter in a node. Exposes the capability's methods and stops working when the node ends."""

    __slots__ = ("_node",)

    def __init__(self, node: NodeContext) -> None:
        self._node = node


def _proxy_class(capability: type, adapter: object | None, *, is_open: bool) -> type[_Proxy]:
    """Return the class of the proxies of one adapter. The adapter itself cannot be reached through them."""
    body = {name: _proxy_method(_target(capability, name, adapter, is_open=is_open)) for name in methods(capability)}
    return type(capability.__name__, (_Proxy,), {"__slots__": (), **body})


def _target(capability: type, name: str, adapter: object | None, *, is_open: bool) -> Target:
    if isinstance(adapter, ReadySubgraph):
        return GraphTarget(capability, name, adapter)
    if isinstance(adapter, Composed):
        function = getattr(adapter.adapter, name)
        parts = {parameter: (part, adapter.parts[part] if is_open else None) for parameter, part in parts_of(function).items()}
        proxies = {parameter: _proxy_class(*part, is_open=is_open) for parameter, part in parts.items()}
        return ComposedTarget(capability, name, function, proxies)
    return AdapterTarget(capability, name, _refuse if adapter is None else getattr(adapter, name))


def _proxy_method(target: Target) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return Call(target, self._node, args, kwargs).result()

    def stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        opened = Stream(Call(target, self._node, args, kwargs))
        self._node.add_stream(opened)
        return opened

    return stream if target.method.is_stream else call


def _refuse(*_args: Any, **_kwargs: Any) -> Any:
    raise ReplayDiverged("A turn that is replayed makes no calls.")


class Gate:
    """The capabilities of a graph, each granted exactly once. Gives nodes proxies that work while the node runs.

    A gate without grants refuses all calls: it is for turns whose journal has every call. `subgraphs` are the graphs behind
    capabilities; the calls of their nodes pass gates of their own. `composed` are adapters that are given other capabilities;
    the calls of those pass this gate.
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
        proxies = {capability: _proxy_class(capability, adapters.get(capability), is_open=is_open) for capability in graph.capabilities}
        self._proxies = {
            node.name: tuple((grant.parameter, proxies[grant.capability]) for grant in node.grants) for node in graph.nodes.values()
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
        opened: dict[str, Any] = {}
        for parameter, proxy in self._proxies[node.name]:
            opened[parameter] = proxy(context)
        return opened


def _asks(capability: type, inner: Mapping[type, ReadySubgraph], composed: Mapping[type, Composed]) -> bool:
    """Return whether a call of a capability may ask a person, itself or through a graph or composed adapter behind it."""
    if capability in inner:
        return bool(inner[capability].gate.asking)
    return capability is Human or (capability in composed and Human in composed[capability].parts)


def _problems(graph: Graph, capability: type, grants: Mapping[type, object]) -> list[Problem]:
    users = ", ".join(f"'{n.name}'" for n in graph.nodes.values() if any(g.capability is capability for g in n.grants))
    if capability not in grants:
        says = f"nobody grants capability '{capability.__name__}', which {users} needs."
        fix = f"pass Interlock(grants={{{capability.__name__}: ...}}), or --grants MODULE:NAME on the command line."
        return [Problem("not_granted", says, fix, graph.name)]
    return list(adapter_problems(graph.name, capability, grants[capability]))
