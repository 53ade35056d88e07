"""A compiled graph as it is handed out: LangGraph drives it, and what callback handlers see of it has no secrets.

Handlers are the caller's own, LangSmith's tracer, the console in debug mode, and what `astream_events` is made of. LangGraph
hands them the state, what each node reads and writes, and errors. What the caller gets for an answer is not changed.
"""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Protocol, cast

from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from typing_extensions import override

from interlock.engine.ambient import treating
from interlock.engine.messages import NativeField

__all__ = ["ExportedGraph", "Redact", "Redaction", "current_redaction"]


class Redaction(Protocol):
    """What is known to be secret in one run of a graph."""

    def redact(self, value: Any) -> Any:
        """Return a value without secrets. It is of the same kind, and the same object where nothing was in it."""
        ...


Redact = Callable[[], Redaction]
"""Makes the redaction of a run."""

current_redaction: ContextVar[Redaction | None] = ContextVar("interlock_redaction", default=None)
"""The redaction of the run that a node is part of."""

_events_of: ContextVar[tuple[object, Redaction] | None] = ContextVar("interlock_events_of", default=None)
"""The graph whose run is told as events, and the redaction that these events and the run have in common."""

_END: Any = object()


class ExportedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose runs show callback handlers no secrets."""

    def __init__(self, *, redact: Redact, native: Mapping[str, NativeField], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.redact = redact
        self.native = native

    @override
    def astream_events(self, input: Any, config: Any = None, *, version: Any = "v2", **options: Any) -> Any:
        make = cast("Callable[..., Any]", super().astream_events)
        events = make(input, config, version=version, **options)
        return events if version == "v3" else self._redacted_events(events)  # the first is the state itself, for the caller

    async def _redacted_events(self, events: AsyncGenerator[Any, None]) -> AsyncIterator[Any]:
        """Take secrets out of the events of the whole run too: those LangChain makes of what `astream` gives."""
        redaction = self.redact()
        async with aclosing(events):
            while True:
                token = _events_of.set((self, redaction))
                try:
                    event = await anext(events, _END)
                finally:
                    _events_of.reset(token)
                if event is _END:
                    return
                data = {"tool": event["name"], **event["data"]} if event["event"] == "on_tool_start" else event["data"]
                yield {**event, "data": _each(data, redaction.redact)}

    @override
    async def astream(self, input: Any, config: Any = None, **options: Any) -> AsyncIterator[Any]:
        graph, known = _events_of.get() or (None, None)
        redaction = known if graph is self and known is not None else self.redact()
        given = admitted(input, self.native)  # before LangGraph keeps anything of it
        async with aclosing(cast("Any", super().astream(given, config, **options))) as chunks:
            while True:
                with _redacting(redaction):  # not for longer: what is set in a generator is set for whoever reads it
                    chunk = await anext(chunks, _END)
                if chunk is _END:
                    return
                yield chunk

    @override
    def stream(self, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        redaction = self.redact()
        given = admitted(input, self.native)
        with closing(cast("Any", super().stream(given, config, **options))) as chunks:
            while True:
                with _redacting(redaction):
                    chunk = next(chunks, _END)
                if chunk is _END:
                    return
                yield chunk

    @override
    async def abulk_update_state(self, config: Any, supersteps: Any) -> Any:
        with _redacting(self.redact()):
            return await super().abulk_update_state(config, _admitted_updates(supersteps, self.native))

    @override
    def bulk_update_state(self, config: Any, supersteps: Any) -> Any:
        with _redacting(self.redact()):
            return super().bulk_update_state(config, _admitted_updates(supersteps, self.native))


def admitted(given: Any, native: Mapping[str, NativeField]) -> Any:
    """Read what a caller passes for a field that looks like messages; what a caller may not pass is refused."""
    if isinstance(given, Command):
        command = cast("Command[Any]", given)
        return replace(command, update=admitted(command.update, native)) if isinstance(command.update, Mapping) else command
    if not isinstance(given, Mapping):
        return given
    values = cast("Mapping[str, Any]", given)
    doors = {name: field.admit for name, field in native.items() if field.admit is not None and name in values}
    return {**values, **{name: admit(values[name]) for name, admit in doors.items()}} if doors else values


def _admitted_updates(supersteps: Any, native: Mapping[str, NativeField]) -> Any:
    return [[update._replace(values=admitted(update.values, native)) for update in step] for step in supersteps]


@contextmanager
def _redacting(redaction: Redaction) -> Generator[None]:
    """Let no callback handler that is found or made from here on see a secret."""
    token = current_redaction.set(redaction)
    try:
        with treating(functools.partial(_redact_manager, redaction)):
            yield
    finally:
        current_redaction.reset(token)


def _redact_manager(redaction: Redaction, manager: Any) -> None:
    made: dict[int, Any] = {}
    for name in ("handlers", "inheritable_handlers"):
        handlers: list[Any] = getattr(manager, name)
        setattr(manager, name, [made.setdefault(id(handler), _redacted(handler, redaction)) for handler in handlers])


def _redacted(handler: Any, redaction: Redaction) -> Any:
    """Return a handler that is the same in all but what it gets to see.

    LangGraph looks for handlers by their class, so the class is one that inherits from the handler's own; what the handler
    remembers is shared with it. LangGraph's own handlers stay: they feed the stream that the caller reads.
    """
    kind = cast("type[Any]", type(handler))
    known: tuple[Redaction, ...] = getattr(kind, "interlock_redactions", ())
    if kind.__module__.startswith("langgraph.") or redaction in known:
        return handler
    if known:  # of a graph that this one is inside
        kind = kind.__bases__[1]
    redacting = type(kind.__name__, (_RedactingHandler, kind), {"interlock_redactions": (*known, redaction), "__module__": kind.__module__})
    made = object.__new__(redacting)
    made.__dict__ = handler.__dict__
    return made


class _RedactingHandler:
    """Comes before a handler's own class, and takes secrets out of what its events are called with."""

    interlock_redactions: tuple[Redaction, ...] = ()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("on_"):
            return _redacted_event(found, self._shown)
        return functools.partial(_tap, found, self._shown) if name == "tap_output_aiter" else found

    def _shown(self, value: Any) -> Any:
        for redaction in self.interlock_redactions:
            value = redaction.redact(value)
        return value


def _redacted_event(event: Callable[..., Any], shown: Callable[[Any], Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(event):

        async def hear_later(*args: Any, **kwargs: Any) -> Any:
            return await event(*shown(args), **_each(kwargs, shown))

        return hear_later

    def hear(*args: Any, **kwargs: Any) -> Any:
        return event(*shown(args), **_each(kwargs, shown))

    return hear


def _each(named: Mapping[str, Any], shown: Callable[[Any], Any]) -> dict[str, Any]:
    """Take secrets out of each value; the names are LangChain's own, and say nothing of the state's fields."""
    return {name: shown(value) for name, value in named.items()}


async def _tap(
    tap: Callable[..., AsyncIterator[Any]], shown: Callable[[Any], Any], run_id: Any, output: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """Let a handler listen to what a node gives, and pass that on as it is."""
    passing: deque[Any] = deque()

    async def listened() -> AsyncIterator[Any]:
        async for chunk in output:
            passing.append(chunk)
            yield shown(chunk)

    async for _ in tap(run_id, listened()):
        yield passing.popleft()
