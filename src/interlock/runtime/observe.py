"""Log lines: one for every turn, more on request; JSON where no person is looking. Redacted like everything else."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import unicodedata
from typing import TYPE_CHECKING, Any

from interlock.runtime.events import Event, Watcher
from interlock.runtime.redaction import Redactor

if TYPE_CHECKING:
    from opentelemetry.trace import Span

__all__ = ["LOGGER", "LogLines", "Spans", "Steps", "configure", "printable", "tracing"]

LOGGER = logging.getLogger("interlock")
LOGGER.addHandler(logging.NullHandler())  # a library is silent until somebody sets up logging


class Steps:
    """Logs every node and every capability call, at level `debug`."""

    def see(self, event: Event) -> None:
        """Log an event."""
        is_error = event["event"].endswith("_error")  # the data of a node's own event may have any keys
        error: dict[str, Any] = event["data"]["error"] if is_error else {}
        fields: dict[str, Any] = {**event["metadata"], "run_id": event["run_id"], "code": error.get("code"), "error": error.get("message")}
        LOGGER.debug("%s %s", event["event"], event["name"], extra={"fields": fields})


class LogLines(logging.Formatter):
    """Writes a log record as a line of JSON, or for a person as a line of text."""

    converter = time.gmtime

    def __init__(self, *, as_json: bool, redactor: Redactor) -> None:
        super().__init__()
        self._as_json = as_json
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        fields: dict[str, Any] = dict(getattr(record, "fields", {}))
        said = record.getMessage()
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if self._as_json:
            own = {"time": self.formatTime(record), "level": record.levelname.lower(), "logger": record.name, "message": said}
            line = {**own, **{name: value for name, value in fields.items() if value is not None}, **own}
            return json.dumps(self._redactor.data(json.loads(json.dumps(line, default=str))))
        shown = " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
        return printable(self._redactor.text(f"{record.levelname.lower()}: {said} {shown}".rstrip())).replace("\n", "\\n")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's signature
        """Write the time in UTC."""
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', self.converter(record.created))}.{int(record.msecs):03}Z"


def printable(text: str) -> str:
    """Replace what could control a terminal: control characters except line breaks and tabs, and direction overrides."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf"} else "\N{REPLACEMENT CHARACTER}" for c in text)


def configure(level: str, redactor: Redactor) -> None:
    """Send the log of this process to standard error, unless it is off: what the command line does, and a server would."""
    if level == "off":
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines(as_json=not sys.stderr.isatty(), redactor=redactor))
    LOGGER.setLevel(level.upper())
    # What others have to tell in detail may name anything, such as paths of this machine.
    logging.basicConfig(level=max(logging.WARNING, LOGGER.level), handlers=[handler], force=True)


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
