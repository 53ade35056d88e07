"""Capabilities: Protocols of async methods that a node can be granted."""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from typing import Any, Literal, Protocol, TypeVar, get_origin

__all__ = [
    "Capability",
    "Effect",
    "EventKind",
    "asks",
    "asks_model",
    "effect_of",
    "emits",
    "event_kind",
    "instant",
    "is_capability",
    "is_stream",
    "keyed",
    "methods",
    "takes_no_time",
]

EventKind = Literal["chat_model", "tool", "custom"]
Effect = Literal["asks", "keyed", "once"]
F = TypeVar("F", bound=Callable[..., Any])


class Capability(Protocol):
    """Base class of capabilities. Inherit from it and from Protocol; public methods are async, or return an AsyncIterator to stream.

    A node that declares a keyword-only parameter of the Protocol's type is granted the capability. An
    adapter needs only the methods, not the base class.
    """


def emits(kind: EventKind, *, asks_model: bool = True) -> Callable[[F], F]:
    """Mark a method whose calls appear in the event stream, as `on_chat_model_*`, `on_tool_*` or `on_custom_event`.

    A custom event has the name and the data that the method is called with. A call that appears as a call of a model is charged to the
    limit of model calls, unless `asks_model` is false.
    """

    def mark(method: F) -> F:
        method.__dict__["interlock_event"] = kind
        method.__dict__["interlock_asks_model"] = kind == "chat_model" and asks_model
        return method

    return mark


def instant(method: F) -> F:
    """Mark a method whose calls take no time, such as reading the clock. They are allowed even after the time limit of a turn."""
    method.__dict__["interlock_instant"] = True
    return method


def asks(method: F) -> F:
    """Mark a method that only asks: its calls change nothing outside, so a resumed turn may make them again."""
    method.__dict__["interlock_effect"] = "asks"
    return method


def keyed(method: F) -> F:
    """Mark a method with an effect that the far side applies once for each idempotency key, so a resumed turn may make it again."""
    method.__dict__["interlock_effect"] = "keyed"
    return method


def effect_of(capability: type, method: str) -> Effect:
    """Return what a call of a method does outside. A method that is not marked may have an effect that must not be repeated."""
    return getattr(capability, method).__dict__.get("interlock_effect", "once")


def takes_no_time(capability: type, method: str) -> bool:
    """Return whether a method is marked as one whose calls take no time."""
    return getattr(capability, method).__dict__.get("interlock_instant", False)


def event_kind(capability: type, method: str) -> EventKind | None:
    """Return the kind of event that calls of a method emit, or None."""
    return getattr(capability, method).__dict__.get("interlock_event")


def asks_model(capability: type, method: str) -> bool:
    """Return whether a method calls a model."""
    return getattr(capability, method).__dict__.get("interlock_asks_model", False)


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
