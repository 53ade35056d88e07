"""Find out where an adapter does not have the methods that a capability declares, before anything calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from typing import Any

from interlock.capabilities.capability import is_stream, methods
from interlock.contract.shapes import render
from interlock.errors import Problem

__all__ = ["misfits"]


def misfits(graph: str, capability: type, adapter: object, *, parts: Callable[[Any], Collection[str]] | None = None) -> Iterator[Problem]:
    """Name each method that an adapter lacks, that is not async, or that cannot be called as the capability declares.

    `parts` returns the parameters of a method that the adapter gets from elsewhere.
    """
    called = capability.__name__
    if inspect.isclass(adapter):
        says = f"the class '{render(adapter)}' is granted as '{called}', and not an instance of it."
        yield Problem("bad_grant", says, f"pass {adapter.__name__}(...).", graph)
        return
    for name, declared in methods(capability).items():
        made: Any = getattr(adapter, name, None)
        says, fix = _misfit(name, declared, made, () if parts is None or not callable(made) else parts(made))
        if says:
            yield Problem("bad_grant", f"'{render(type(adapter))}' is granted as '{called}' but {says}", fix, graph)


def _misfit(name: str, declared: Callable[..., Any], made: Any, parts: Collection[str]) -> tuple[str, str]:
    kind, is_right = (
        ("async generator", inspect.isasyncgenfunction) if is_stream(declared) else ("async method", inspect.iscoroutinefunction)
    )
    if not callable(made):
        return f"has no {kind} '{name}'.", "add the method."
    if not is_right(made):
        return f"its '{name}' is no {kind}.", "declare it with 'async def'" + (", and yield." if kind == "async generator" else ".")
    signature = inspect.signature(declared)
    wrong = _wrong_call(signature, made, parts)
    if wrong:
        return f"its '{name}' cannot be called as '{name}{_without_self(signature)}': {wrong}.", "take the same parameters."
    return "", ""


def _wrong_call(declared: inspect.Signature, made: Callable[..., Any], parts: Collection[str]) -> str:
    """Say why a method cannot be called with all that is declared, or with only what is required; nothing where it can."""
    parameters = list(declared.parameters.values())[1:]
    for given in (parameters, [parameter for parameter in parameters if parameter.default is parameter.empty]):
        positional = [None for parameter in given if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
        named = {parameter.name: None for parameter in given if parameter.kind is parameter.KEYWORD_ONLY}
        try:
            inspect.signature(made).bind(*positional, **named, **dict.fromkeys(parts))
        except TypeError as error:
            return str(error)
    return ""


def _without_self(signature: inspect.Signature) -> str:
    parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in list(signature.parameters.values())[1:]]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
