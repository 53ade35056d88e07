"""OpenTelemetry spans of a turn, its nodes and its capability calls, made from the events and so as redacted as they are."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from interlock.runtime.events import Event, Watcher

if TYPE_CHECKING:
    from opentelemetry.trace import Span

__all__ = ["Spans", "tracing"]


def tracing() -> Watcher | None:
    """Return who makes spans; None where nobody has set up OpenTelemetry, and then it is not even imported."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Spans()


class Spans:
    """Makes a span for everything that has a beginning and an end, each inside the one that it happened in."""

    def __init__(self) -> None:
        from opentelemetry import context, trace  # noqa: PLC0415 - only where it is set up

        self._context = context
        self._trace = trace
        self._tracer = trace.get_tracer("interlock")
        self._open: dict[str, tuple[Span, Any, Any]] = {}

    def see(self, event: Event) -> None:
        """Begin or end a span."""
        kind, _, moment = event["event"].removeprefix("on_").rpartition("_")
        if moment == "start":
            self._begin(event, kind)
        elif moment in {"end", "error"} and event["run_id"] in self._open:
            self._end(event)

    def _begin(self, event: Event, kind: str) -> None:
        parent = self._open.get(event["parent_ids"][-1]) if event["parent_ids"] else None
        inside = None if parent is None else self._trace.set_span_in_context(parent[0])
        word = _word(event) if kind == "chain" else "call"
        span = self._tracer.start_span(f"{word} {event['name']}", context=inside, attributes=_attributes(event))
        # What an adapter traces by itself (an HTTP call, say) comes to stand inside.
        token = self._context.attach(self._trace.set_span_in_context(span))
        self._open[event["run_id"]] = span, token, asyncio.current_task()

    def _end(self, event: Event) -> None:
        span, token, task = self._open.pop(event["run_id"])
        if task is asyncio.current_task():  # another task has a context of its own, in which nothing was attached
            self._context.detach(token)
        error = event["data"].get("error") or _fault(event)
        if error:
            span.set_attribute("interlock.error", error["code"])
            span.set_status(self._trace.StatusCode.ERROR, f"{error['code']}: {error['message']}")
        span.end()


def _word(event: Event) -> str:
    if "langgraph_node" in event["metadata"]:
        return "node"
    return "graph" if event["parent_ids"] else "turn"


def _attributes(event: Event) -> dict[str, Any]:
    found = {f"interlock.{name}": value for name, value in event["metadata"].items() if isinstance(value, str | int)}
    return {**found, "interlock.run_id": event["run_id"]}


def _fault(event: Event) -> dict[str, Any] | None:
    """Return why a turn did not succeed, from the result in its last event."""
    output: Any = event["data"].get("output")
    return None if event["parent_ids"] or not output else output["error"]
