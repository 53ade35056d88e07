"""A capability that is made of others: whoever stands behind it is handed them, and what it does with them passes the gate too."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from interlock.capabilities.capability import is_capability, is_stream, methods
from interlock.contract.shapes import hints, peel, render
from interlock.errors import Problem
from interlock.runtime.method import Method
from interlock.runtime.misfits import misfits
from interlock.runtime.scope import Scope

if TYPE_CHECKING:
    from interlock.runtime.ledger import Ledger

__all__ = ["Composed", "ComposedMethod", "composed_problems", "part_problems", "wanted"]


class Composed:
    """An adapter to be granted with what it is made of: `Interlock(grants={Worker: Composed(worker, parts={Model: model})})`.

    As in a node, the signature is the contract: a keyword-only parameter of an adapter's method whose type is a capability
    is handed the part for it, for as long as the node that called runs.
    """

    def __init__(self, adapter: object, *, parts: Mapping[type, object]) -> None:
        self.adapter = adapter
        self.parts = dict(parts)


def wanted(made: Callable[..., Any]) -> dict[str, type]:
    """Find the parts that a method of an adapter declares."""
    declared = hints(made).resolved
    found = {
        parameter.name: peel(declared.get(parameter.name))[0]
        for parameter in inspect.signature(made).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    return {name: hint for name, hint in found.items() if is_capability(hint)}


def composed_problems(graph: str, capability: type, composed: Composed) -> Iterator[Problem]:
    """Find out where an adapter cannot stand behind a capability with the parts that there are."""
    for name, declared in methods(capability).items():
        if is_stream(declared):
            says = f"'{capability.__name__}' has the async generator '{name}', which no adapter with parts can have."
            yield Problem("bad_grant", says, "grant an adapter without parts.", graph)
            return
    yield from misfits(graph, capability, composed.adapter, parts=wanted)
    kind = render(type(composed.adapter))
    for name in methods(capability):
        made = getattr(composed.adapter, name, None)
        for part in wanted(made).values() if inspect.iscoroutinefunction(made) else ():
            if part not in composed.parts:
                says = f"'{kind}.{name}' wants '{part.__name__}', which is none of its parts."
                yield Problem("not_granted", says, f"pass parts={{{part.__name__}: ...}}.", graph)


def part_problems(graph: str, composed: Composed) -> Iterator[Problem]:
    """Find out which parts of an adapter do not have the methods of their capabilities."""
    for part, adapter in composed.parts.items():
        if not isinstance(adapter, Composed):
            yield from misfits(graph, part, adapter)


class ComposedMethod(Method):
    """One method of such a capability.

    A call of it is not an entry in the ledger: those that it makes are. Nor has it a deadline of its own, only that of the turn.
    """

    def __init__(self, capability: type, name: str, made: Callable[..., Any], handles: Mapping[str, Callable[[Scope], object]]) -> None:
        super().__init__(capability, name, made)
        self._handles = handles

    async def _make(self, scope: Scope, args: tuple[Any, ...], kwargs: dict[str, Any], tell: Callable[[str], None] | None) -> Any:  # noqa: ARG002 - what is told is told by the parts
        parts = {parameter: handle(scope) for parameter, handle in self._handles.items()}
        return self.validator(args, kwargs)(await self.made(*args, **kwargs, **parts))

    async def _make_once(
        self,
        scope: Scope,
        ledger: Ledger,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tell: Callable[[str], None] | None,
    ) -> Any:
        result = await self._make(scope, args, kwargs, tell)
        ledger.check()  # the parts write to it, and an adapter may have caught what they raised
        return result
