"""Capabilities: Protocols of async methods that a node can be granted."""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar, get_origin

__all__ = ["Capability", "Effect", "Marks", "asks", "emits", "instant", "is_capability", "is_stream", "keyed", "marks_of", "methods"]

F = TypeVar("F", bound=Callable[..., Any])

Effect = Literal["asks", "keyed", "once"]
"""What a call does outside: nothing, something that may be repeated with the same key, or something that must not be repeated."""


class Capability(Protocol):
    """Base class of capabilities. Inherit from it and from Protocol; public methods are async, or return an AsyncIterator to stream.

    A node that declares a keyword-only parameter of the Protocol's type is granted the capability. An
    adapter needs only the methods, not the base class.
    """


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What is known of the calls of a method, by its decorators."""

    event: Literal["chat_model", "tool", "custom"] | None = None
    asks_model: bool = False
    instant: bool = False
    effect: Effect = "once"
    """What a call does outside. A method or tool that is not marked may have an effect that must not be repeated."""


def marks_of(method: Callable[..., Any]) -> Marks:
    """Return the marks of a method."""
    return method.__dict__.get("interlock_marks", Marks())


def _mark(method: F, **marks: Any) -> F:
    method.__dict__["interlock_marks"] = replace(marks_of(method), **marks)
    return method


def emits(kind: Literal["chat_model", "tool", "custom"], *, asks_model: bool = True) -> Callable[[F], F]:
    """Mark a method whose calls appear in the event stream, as `on_chat_model_*`, `on_tool_*` or `on_custom_event`.

    A custom event has the name and the data that the method is called with. A call that appears as a call of a model is charged to the
    limit of model calls, unless `asks_model` is false.
    """
    return lambda method: _mark(method, event=kind, asks_model=kind == "chat_model" and asks_model)


def instant(method: F) -> F:
    """Mark a method whose calls take no time, such as reading the clock. They are allowed even after the time limit of a turn."""
    return _mark(method, instant=True)


def asks(method: F) -> F:
    """Mark a method, or the function of a tool, that only asks: its calls change nothing outside, so a resumed turn may make them again."""
    return _mark(method, effect="asks")


def keyed(method: F) -> F:
    """Mark a method, or the function of a tool, with an effect that is applied once for each idempotency key.

    A resumed turn may make the call again.
    """
    return _mark(method, effect="keyed")


def is_capability(candidate: object) -> bool:
    """Return whether this is a Protocol that inherits from Capability."""
    return (
        inspect.isclass(candidate)
        and candidate is not Capability
        and Capability in inspect.getmro(candidate)
        and bool(getattr(candidate, "_is_protocol", False))
    )


def methods(capability: type) -> dict[str, Callable[..., Any]]:
    """Return the public methods of a capability by name."""
    found: dict[str, Callable[..., Any]] = {}
    for base in inspect.getmro(capability):
        if base in (Capability, Protocol, object):
            continue
        for name, value in vars(base).items():
            if not name.startswith("_") and inspect.isfunction(value):
                found.setdefault(name, value)
    return found


def is_stream(method: Callable[..., Any]) -> bool:
    """Return whether a method streams: it is declared to return an AsyncIterator."""
    if inspect.iscoroutinefunction(method):
        return False
    try:
        returned = typing.get_type_hints(method, include_extras=True).get("return")
    except Exception:  # noqa: BLE001 - a hint that does not resolve is reported when the graph is built
        return False
    return get_origin(returned) in (AsyncIterator, AsyncGenerator, AsyncIterable)
