"""Redaction of what LangChain's callback handlers see while LangGraph runs an exported graph.

Handlers are the caller's own, LangSmith's tracer, the console in debug mode, and those that `astream_events` is made of. LangGraph
passes them the state, what each node reads and writes, and errors.
"""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, cast

from interlock.engine.ambient import manager_hook

__all__ = ["Redact", "Redaction", "current_redaction", "redact_manager", "redact_values", "redacting"]


class Redaction(Protocol):
    """The secrets that are known in one run of a graph."""

    def redact(self, value: Any) -> Any:
        """Return a value of the same type without secrets; the same object where it contains none."""
        ...


Redact = Callable[[], Redaction]
"""Create the redaction of a run."""

current_redaction: ContextVar[Redaction | None] = ContextVar("interlock_redaction", default=None)
"""The redaction of the run that a node is part of."""


@contextmanager
def redacting(redaction: Redaction) -> Generator[None]:
    """Redact what callback handlers see that are found or created inside of this block."""
    token = current_redaction.set(redaction)
    try:
        with manager_hook(functools.partial(redact_manager, redaction)):
            yield
    finally:
        current_redaction.reset(token)


def redact_values(named: Mapping[str, Any], redact: Callable[[Any], Any]) -> dict[str, Any]:
    """Redact each value. The names are LangChain's own, not those of the state's fields."""
    return {name: redact(value) for name, value in named.items()}


def redact_manager(redaction: Redaction, callback_manager: Any) -> None:
    """Replace the handlers of a callback manager with handlers that see redacted values."""
    made: dict[int, Any] = {}
    for name in ("handlers", "inheritable_handlers"):
        handlers: list[Any] = getattr(callback_manager, name)
        setattr(callback_manager, name, [made.setdefault(id(handler), _redacting_handler(handler, redaction)) for handler in handlers])


def _redacting_handler(handler: Any, redaction: Redaction) -> Any:
    """Return a handler that differs from the given one only in what it sees.

    LangGraph looks for handlers by their class, so the new class inherits from the handler's own, and both handlers share their
    attributes. LangGraph's own handlers are returned unchanged: they feed the stream that the caller reads.
    """
    kind = cast("type[Any]", type(handler))
    known: tuple[Redaction, ...] = getattr(kind, "interlock_redactions", ())
    if kind.__module__.startswith("langgraph.") or redaction in known:
        return handler
    if known:
        # A graph that this one is inside of has replaced the handler before.
        kind = kind.__bases__[1]
    attributes = {"interlock_redactions": (*known, redaction), "__module__": kind.__module__}
    made = object.__new__(type(kind.__name__, (_RedactingHandler, kind), attributes))
    made.__dict__ = handler.__dict__
    return made


class _RedactingHandler:
    """Precedes a handler's own class and redacts the arguments of its events."""

    interlock_redactions: tuple[Redaction, ...] = ()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("on_"):
            return _with_redacted_arguments(found, self._redact)
        return functools.partial(_tap, found, self._redact) if name == "tap_output_aiter" else found

    def _redact(self, value: Any) -> Any:
        for redaction in self.interlock_redactions:
            value = redaction.redact(value)
        return value


def _with_redacted_arguments(event: Callable[..., Any], redact: Callable[[Any], Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(event):

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await event(*redact(args), **redact_values(kwargs, redact))

        return call_async

    def call(*args: Any, **kwargs: Any) -> Any:
        return event(*redact(args), **redact_values(kwargs, redact))

    return call


async def _tap(
    tap: Callable[..., AsyncIterator[Any]], redact: Callable[[Any], Any], run_id: Any, output: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """Show a handler the redacted output of a node, and pass on the output as it is."""
    passing: deque[Any] = deque()

    async def redacted_output() -> AsyncIterator[Any]:
        async for chunk in output:
            passing.append(chunk)
            yield redact(chunk)

    async for _ in tap(run_id, redacted_output()):
        yield passing.popleft()
