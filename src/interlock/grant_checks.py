"""Build-time checks of what is granted: an adapter, a composed adapter or a graph must fit the capability that it is granted as."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from interlock.capabilities.capability import is_stream, methods
from interlock.contract import Graph
from interlock.contract.labels import is_secret
from interlock.contract.type_hints import format_type, resolve_hints, unwrap_annotated
from interlock.errors import InputError, Problem
from interlock.runtime.targets import CALL_EXTRAS, Composed, Subgraph, parts_of

__all__ = ["adapter_problems", "gate_problems", "part_problems", "subgraph_problems"]


async def _bare() -> None: ...


async def _described() -> None:
    """Do nothing."""


_EMPTY = frozenset({_bare.__code__.co_code, _described.__code__.co_code})
"""The bytecode of methods that are declared in a Protocol and not defined."""


def gate_problems(
    graph: Graph, composed: Mapping[type, Composed], grants: Mapping[type, object], needed: Iterable[type]
) -> Iterator[Problem]:
    """Yield where a graph's capabilities are granted by something that does not fit, and which of the needed ones are not granted."""
    for capability, one in composed.items():
        yield from _composed_problems(graph.name, capability, one)
    for capability in needed:
        if capability in grants:
            yield from adapter_problems(graph.name, capability, grants[capability])
            continue
        users = ", ".join(f"'{n.name}'" for n in graph.nodes.values() if any(g.capability is capability for g in n.grants))
        says = f"no adapter is granted for capability '{capability.__name__}', which {users} needs."
        fix = f"pass Interlock(grants={{{capability.__name__}: ...}}), or --grants MODULE:NAME on the command line."
        yield Problem("not_granted", says, fix, graph.name)


def adapter_problems(
    graph: str, capability: type, adapter: object, *, parts: Callable[[Any], Collection[str]] | None = None
) -> Iterator[Problem]:
    """Yield a problem for each method that is missing, not async, or that cannot be called as the capability declares it.

    `parts` returns the parameters of a method that the runtime passes in addition to those of the capability.
    """
    called = capability.__name__
    if inspect.isclass(adapter):
        says = f"the class '{format_type(adapter)}' is granted as '{called}', and not an instance of it."
        yield Problem("bad_grant", says, f"pass {adapter.__name__}(...).", graph)
        return
    for name, declared in methods(capability).items():
        made: Any = getattr(adapter, name, None)
        extras = () if parts is None or not callable(made) else parts(made)
        says, fix = _mismatch(name, declared, made, extras)
        if says:
            yield Problem("bad_grant", f"'{format_type(type(adapter))}' is granted as '{called}' but {says}", fix, graph)


def _mismatch(name: str, declared: Callable[..., Any], made: Any, parts: Collection[str]) -> tuple[str, str]:
    kind, is_right = (
        ("async generator", inspect.isasyncgenfunction) if is_stream(declared) else ("async method", inspect.iscoroutinefunction)
    )
    if not callable(made):
        return f"has no {kind} '{name}'.", "add the method."
    if getattr(made, "__func__", None) is declared and declared.__code__.co_code in _EMPTY:
        return f"has no {kind} '{name}' of its own: the capability's, which it inherits, does nothing.", "add the method."
    if not is_right(made):
        return f"its '{name}' is no {kind}.", "declare it with 'async def'" + (", and yield." if kind == "async generator" else ".")
    signature = inspect.signature(declared)
    wrong = _wrong_call(signature, made, parts)
    if wrong:
        return f"its '{name}' cannot be called as '{name}{_without_self(signature)}': {wrong}.", "take the same parameters."
    return "", ""


def _wrong_call(declared: inspect.Signature, made: Callable[..., Any], parts: Collection[str]) -> str:
    """Return why a method cannot be called with all declared parameters, or with the required ones only; empty where it can."""
    parameters = list(declared.parameters.values())[1:]
    for given in (parameters, [parameter for parameter in parameters if parameter.default is parameter.empty]):
        positional = [None for parameter in given if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
        named = {parameter.name: None for parameter in given if parameter.kind is parameter.KEYWORD_ONLY}
        try:
            accepted = inspect.signature(made)
            extras = parts or [extra for extra in CALL_EXTRAS if extra in accepted.parameters]
            accepted.bind(*positional, **named, **dict.fromkeys(extras))
        except TypeError as error:
            return str(error)
    return ""


def _without_self(signature: inspect.Signature) -> str:
    parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in list(signature.parameters.values())[1:]]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def _composed_problems(graph: str, capability: type, composed: Composed) -> Iterator[Problem]:
    """Yield where an adapter and its parts do not fit a capability."""
    for name, declared in methods(capability).items():
        if is_stream(declared):
            says = f"'{capability.__name__}' has the async generator '{name}', which no adapter with parts can have."
            yield Problem("bad_grant", says, "grant an adapter without parts.", graph)
            return
    yield from adapter_problems(graph, capability, composed.adapter, parts=parts_of)
    kind = format_type(type(composed.adapter))
    for name in methods(capability):
        made = getattr(composed.adapter, name, None)
        for part in parts_of(made).values() if inspect.iscoroutinefunction(made) else ():
            if part not in composed.parts:
                says = f"'{kind}.{name}' wants '{part.__name__}', which is not among its parts."
                yield Problem("not_granted", says, f"pass parts={{{part.__name__}: ...}}.", graph)


def part_problems(graph: str, composed: Composed) -> Iterator[Problem]:
    """Yield where the parts of an adapter do not fit their capabilities."""
    for part, adapter in composed.parts.items():
        if not isinstance(adapter, Composed):
            yield from adapter_problems(graph, part, adapter)


def subgraph_problems(graph: Graph, capability: type, subgraph: Subgraph) -> Iterator[Problem]:
    """Yield where a graph does not fit the capability that it is granted as."""
    for says, fix in _subgraph_mismatches(capability, subgraph):
        told = f"graph '{subgraph.graph.name}' is granted as '{capability.__name__}', {says}"
        yield Problem("bad_subgraph", told, fix, graph.name)


def _subgraph_mismatches(capability: type, subgraph: Subgraph) -> Iterator[tuple[str, str]]:
    inner, found = subgraph.graph, methods(capability)
    if len(found) != 1:
        yield f"which has {len(found)} methods.", "declare a capability with one method for it."
        return
    ((name, method),) = found.items()
    if is_stream(method):
        yield f"but '{name}' streams its result in chunks, and a graph returns one.", "declare it as 'async def'."
        return
    declared = dict(resolve_hints(method).resolved)
    result = declared.pop("return", None)
    returned = unwrap_annotated(result)[0]
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
        says = f"but gives '{format_type(inner.state.fields[inner.gives].hint)}' where '{name}' returns '{format_type(returned)}'."
        yield says, "declare the same type."


def _wrong_input(name: str, given: dict[str, Any], subgraph: Subgraph) -> Iterator[tuple[str, str]]:
    state = subgraph.graph.state
    open_to_us = (*state.takes, *state.takes_from_parent)
    takes = {field: state.fields[field].hint for field in open_to_us if field not in subgraph.fixed}
    for field in subgraph.fixed:
        if field not in open_to_us:
            yield f"with '{field}' fixed, which it does not take.", "leave it out."
    try:
        state.parse_input({field: value for field, value in subgraph.fixed.items() if field in open_to_us}, inside=True)
    except InputError as error:
        yield f"with something else fixed. {error.message}", "pass a value of the field's type."
    required = {field for field in takes if state.fields[field].initial is None}
    if not given.keys() <= takes.keys() or not required <= given.keys():
        wants, has = ", ".join(takes) or "nothing", ", ".join(given) or "nothing"
        yield f"but takes {wants} where '{name}' has {has}.", "name the parameters for the fields."
    for parameter, hint in given.items():
        if parameter in takes and unwrap_annotated(hint)[0] != takes[parameter]:
            says = f"but its '{parameter}' is '{format_type(takes[parameter])}' where '{name}' has '{format_type(hint)}'."
            yield says, "declare the same type."
        elif parameter in takes and is_secret(hint) and parameter not in state.secret:
            yield f"but its '{parameter}' is not labelled Secret, as it is in '{name}'.", "label the field."
