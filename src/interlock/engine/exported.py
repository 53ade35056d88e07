"""A graph that is exported to a caller: LangGraph runs it without a turn of ours, and callback handlers see no secrets.

What the caller gets as the result is not redacted.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import aclosing, closing
from contextvars import ContextVar
from dataclasses import replace
from typing import Annotated, Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from typing_extensions import override

from interlock.contract import Graph
from interlock.contract.node import Node, StepResult
from interlock.contract.state import Field
from interlock.engine.ambient import alone
from interlock.engine.callback_redaction import Redact, Redaction, current_redaction, redact_values, redacting
from interlock.engine.checkpointer import SealedCheckpointer
from interlock.engine.interrupts import Interrupts
from interlock.engine.langchain_callbacks import Callbacks, StandaloneRun
from interlock.engine.langgraph import AnyCheckpointer, AnyCompiledGraph, AnyStore, NodeFunction, build_state_graph, to_command
from interlock.engine.messages import NativeField, Shown, records_of
from interlock.engine.serializer import ClosedSerializer
from interlock.engine.threads import begin_turns, channel_of
from interlock.errors import PersonAwaited

__all__ = ["ExportedGraph", "current_redaction", "export_graph"]

_events_of: ContextVar[tuple[object, Redaction] | None] = ContextVar("interlock_events_of", default=None)
"""The graph whose run `astream_events` reports, and the redaction that these events and the run share."""

_END: Any = object()


def export_graph(
    graph: Graph,
    *,
    standalone: StandaloneRun,
    redact: Redact,
    persisted: Collection[str] = (),
    native: Mapping[str, NativeField] | None = None,
    checkpointer: AnyCheckpointer | None = None,
    store: AnyStore | None = None,
    fingerprint: str | None = None,
) -> AnyCompiledGraph:
    """Compile a graph for a caller. LangGraph runs each node by `standalone`; callback handlers see what `redact` leaves.

    `persisted` are the fields that the next run of a thread starts with. `native` fields are shown to callers as messages.
    """
    native = native or {}

    def annotate(field: Field) -> Any:
        return Annotated[field.hint, channel_of(field, native.get(field.name))]

    def function_of(node: Node) -> NodeFunction:
        return _run_standalone(graph, node, standalone, native)

    builder = build_state_graph(graph, function_of, annotate, takes=graph.state.takes)
    if checkpointer is not None:
        checkpointer = _closed(checkpointer, graph, fingerprint or graph.fingerprint)
    compiled = builder.compile(name=graph.name, checkpointer=checkpointer, store=store)
    begin_turns(compiled, graph.state.fields, persisted)
    exported = ExportedGraph(redact=redact, native=native, **vars(compiled))
    return exported.with_config(recursion_limit=graph.max_steps + 1)


def _closed(checkpointer: AnyCheckpointer, graph: Graph, fingerprint: str) -> AnyCheckpointer:
    """Return the checkpointer restricted to this graph: it creates no other classes and reads no other graph's checkpoints.

    LangGraph's own serializer creates any class that a checkpoint names; a serializer of the caller's own is kept.
    """
    if isinstance(checkpointer.serde, JsonPlusSerializer):
        checkpointer = copy.copy(checkpointer)
        checkpointer.serde = ClosedSerializer(graph.state.classes, seal=fingerprint)
    return SealedCheckpointer(checkpointer, graph=graph.name, fingerprint=fingerprint)


def _run_standalone(graph: Graph, node: Node, standalone: StandaloneRun, native: Mapping[str, NativeField]) -> NodeFunction:
    """Return the function that LangGraph calls for a node."""

    async def run(state: Mapping[str, Any], config: RunnableConfig) -> Command[str]:
        callbacks, interrupts = Callbacks.of(config), Interrupts(config)
        try:
            with alone():
                # A checkpointer may return lists for tuples and dicts for records.
                read = graph.state.restore({name: records_of(value) for name, value in state.items()})
                if callbacks is None:
                    step = await standalone(node, read, None, interrupts)
                else:
                    async with callbacks:
                        step = await standalone(node, read, callbacks.queue, interrupts)
                return to_command(_shown(step, native, callbacks))
        except PersonAwaited:
            # An adapter may wait for a person by means of its own.
            if interrupts.raised is None:
                raise
        raise interrupts.raised

    return run


def _shown(step: StepResult, native: Mapping[str, NativeField], callbacks: Callbacks | None) -> StepResult:
    """Return the update as callers see it. A message that was streamed has the id that its chunks had."""
    transition, update = step[0], dict(step[1])
    for name in native.keys() & update.keys():
        field, streamed = native[name], None if callbacks is None else callbacks.streamed
        records = update[name] if streamed is None or field.sign is None else field.sign(update[name], *streamed)
        update[name] = Shown(field, records)
    return transition, update


class ExportedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose runs show no secrets to callback handlers."""

    def __init__(self, *, redact: Redact, native: Mapping[str, NativeField], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.redact = redact
        self.native = native

    @override
    def astream_events(self, input: Any, config: Any = None, *, version: Any = "v2", **options: Any) -> Any:
        make = cast("Callable[..., Any]", super().astream_events)
        events = make(input, config, version=version, **options)
        # Version 3 yields the state itself, for the caller.
        return events if version == "v3" else self._redacted_events(events)

    async def _redacted_events(self, events: AsyncGenerator[Any, None]) -> AsyncIterator[Any]:
        """Redact the events of the whole run too: LangChain makes them from what `astream` yields."""
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
                yield {**event, "data": redact_values(data, redaction.redact)}

    @override
    async def astream(self, input: Any, config: Any = None, **options: Any) -> AsyncIterator[Any]:
        graph, known = _events_of.get() or (None, None)
        redaction = known if graph is self and known is not None else self.redact()
        # Parsed before LangGraph stores any of it.
        given = parse_messages(input, self.native)
        async with aclosing(cast("Any", super().astream(given, config, **options))) as chunks:
            while True:
                # Not around the `yield`: a context variable that a generator sets is set for its consumer.
                with redacting(redaction):
                    chunk = await anext(chunks, _END)
                if chunk is _END:
                    return
                yield chunk

    @override
    def stream(self, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        redaction = self.redact()
        given = parse_messages(input, self.native)
        with closing(cast("Any", super().stream(given, config, **options))) as chunks:
            while True:
                with redacting(redaction):
                    chunk = next(chunks, _END)
                if chunk is _END:
                    return
                yield chunk

    @override
    async def abulk_update_state(self, config: Any, supersteps: Any) -> Any:
        with redacting(self.redact()):
            return await super().abulk_update_state(config, self._parsed_updates(supersteps))

    @override
    def bulk_update_state(self, config: Any, supersteps: Any) -> Any:
        with redacting(self.redact()):
            return super().bulk_update_state(config, self._parsed_updates(supersteps))

    def _parsed_updates(self, supersteps: Any) -> Any:
        return [[update._replace(values=parse_messages(update.values, self.native)) for update in step] for step in supersteps]


def parse_messages(given: Any, native: Mapping[str, NativeField]) -> Any:
    """Parse the fields that a caller passes as messages. Raises InputSchema for a message that callers may not pass."""
    if isinstance(given, Command):
        command = cast("Command[Any]", given)
        return replace(command, update=parse_messages(command.update, native)) if isinstance(command.update, Mapping) else command
    if not isinstance(given, Mapping):
        return given
    values = dict(cast("Mapping[str, Any]", given))
    for name in native.keys() & values.keys():
        if (admit := native[name].admit) is not None:
            values[name] = admit(values[name])
    return values
