"""The rules for the methods of a capability: each is async and returns plain data of a declared type."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args

from pydantic import PydanticSchemaGenerationError, PydanticUserError

from interlock.capabilities.capability import is_stream
from interlock.contract.schema import strict_validator
from interlock.contract.type_hints import class_parameter, format_type, is_generic, resolve_hints

__all__ = ["method_problem"]


def method_problem(run: Callable[..., Any]) -> tuple[str, str] | None:
    """Return what is wrong with a method of a capability, and the fix; None if it is valid."""
    streams = is_stream(run)
    if not streams and not inspect.iscoroutinefunction(run):
        return "is not a coroutine function.", "write 'async def', or return an AsyncIterator."
    found = resolve_hints(run)
    if "return" not in found.resolved:
        reason = "".join(f": {reason}" for reason in found.failed.values())
        return f"has no return annotation that resolves{reason}.", "annotate it with a type that resolves: the gate validates every result."
    returned = found.resolved["return"]
    if is_generic(returned) and class_parameter(found.resolved) is None:
        return f"returns '{format_type(returned)}', whose type variable no parameter determines.", "take the class: 'schema: type[T]'."
    try:
        strict_validator(get_args(returned)[0] if streams else returned)
    except (PydanticSchemaGenerationError, PydanticUserError):
        return f"returns '{format_type(returned)}', which is not plain data.", "return plain data; keep clients in the adapter."
    return None
