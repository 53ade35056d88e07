"""Log lines and OpenTelemetry spans of turns. Both are made from events, so they are redacted as events are."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import unicodedata
from typing import TYPE_CHECKING, Any

from interlock.runtime.events import Event, Observer
from interlock.runtime.redaction import Redactor

if TYPE_CHECKING:
    from opentelemetry.trace import Span

__all__ = ["LOGGER", "EventLog", "LogFormatter", "Spans", "configure_logging", "printable", "span_observer"]

LOGGER = logging.getLogger("interlock")
# A library writes no log until its application configures logging.
LOGGER.addHandler(logging.NullHandler())


class EventLog:
    """Logs every node and every capability call at level `debug`."""

    def on_event(self, event: Event) -> None:
        """Log an event."""
        # Only the data of an error event has a known shape: a node's own event may have any keys.
        is_error = event["event"].endswith("_error")
        error: dict[str, Any] = event["data"]["error"] if is_error else {}
        fields: dict[str, Any] = {**event["metadata"], "run_id": event["run_id"], "code": error.get("code"), "error": error.get("message")}
        LOGGER.debug("%s %s", event["event"], event["name"], extra={"fields": fields})


class LogFormatter(logging.Formatter):
    """Formats a log record as a line of JSON, or as a line of text for a terminal, without secrets."""

    converter = time.gmtime

    def __init__(self, *, as_json: bool, redactor: Redactor) -> None:
        super().__init__()
        self._as_json = as_json
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        fields: dict[str, Any] = {name: value for name, value in getattr(record, "fields", {}).items() if value is not None}
        message = record.getMessage()
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if self._as_json:
            own = {"time": self.formatTime(record), "level": record.levelname.lower(), "logger": record.name, "message": message}
            # The first occurrence of a key decides its place in the line, the last one its value.
            line = {**own, **fields, **own}
            return json.dumps(self._redactor.data(json.loads(json.dumps(line, default=str))))
        shown = " ".join(f"{name}={value}" for name, value in fields.items())
        return printable(self._redactor.text(f"{record.levelname.lower()}: {message} {shown}".rstrip())).replace("\n", "\\n")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's signature
        """Return the time in UTC with milliseconds."""
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', self.converter(record.created))}.{int(record.msecs):03}Z"


def printable(text: str) -> str:
    """Replace what could control a terminal: control characters except line breaks and tabs, and direction overrides."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf"} else "\N{REPLACEMENT CHARACTER}" for c in text)


def configure_logging(level: str, redactor: Redactor) -> None:
    """Write the log of this process to standard error: as JSON, or as text where that is a terminal. `off` changes nothing."""
    if level == "off":
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(as_json=not sys.stderr.isatty(), redactor=redactor))
    LOGGER.setLevel(level.upper())
    # Other libraries log at level `warning` at least: their details may name paths of this machine.
    logging.basicConfig(level=max(logging.WARNING, LOGGER.level), handlers=[handler], force=True)


def span_observer() -> Observer | None:
    """Return an observer that makes spans, or None where OpenTelemetry is not configured. It is not imported then."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Spans()


class Spans:
    """Makes a span of every run: the turn, its nodes, the graphs inside them and their capability calls."""

    def __init__(self) -> None:
        from opentelemetry import context, trace  # noqa: PLC0415 - only where it is configured

        self._context = context
        self._trace = trace
        self._tracer = trace.get_tracer("interlock")
        self._open: dict[str, tuple[Span, Any, Any]] = {}

    def on_event(self, event: Event) -> None:
        """Start or end a span."""
        kind, _, moment = event["event"].removeprefix("on_").rpartition("_")
        if moment == "start":
            self._start(event, kind)
        elif moment in {"end", "error"} and event["run_id"] in self._open:
            self._end(event)

    def _start(self, event: Event, kind: str) -> None:
        parent = self._open.get(event["parent_ids"][-1]) if event["parent_ids"] else None
        inside = None if parent is None else self._trace.set_span_in_context(parent[0])
        noun = _noun(event) if kind == "chain" else "call"
        span = self._tracer.start_span(f"{noun} {event['name']}", context=inside, attributes=_attributes(event))
        # Spans that an adapter makes itself, such as those of an HTTP client, become children of this one.
        token = self._context.attach(self._trace.set_span_in_context(span))
        self._open[event["run_id"]] = span, token, asyncio.current_task()

    def _end(self, event: Event) -> None:
        span, token, task = self._open.pop(event["run_id"])
        # A token can be detached only in the context of the task that attached it.
        if task is asyncio.current_task():
            self._context.detach(token)
        error = event["data"].get("error") or _turn_error(event)
        if error:
            span.set_attribute("interlock.error", error["code"])
            span.set_status(self._trace.StatusCode.ERROR, f"{error['code']}: {error['message']}")
        span.end()


def _noun(event: Event) -> str:
    if "langgraph_node" in event["metadata"]:
        return "node"
    return "graph" if event["parent_ids"] else "turn"


def _attributes(event: Event) -> dict[str, Any]:
    found = {f"interlock.{name}": value for name, value in event["metadata"].items() if isinstance(value, str | int)}
    return {**found, "interlock.run_id": event["run_id"]}


def _turn_error(event: Event) -> dict[str, Any] | None:
    """Return the error of a turn that did not succeed, from the result in its last event."""
    output: Any = event["data"].get("output")
    return None if event["parent_ids"] or not output else output["error"]
