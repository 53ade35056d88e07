"""Log lines: one for every turn, more on request; JSON where no person is looking. Redacted like everything else."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from interlock.runtime.events import Event
from interlock.runtime.plain import harmless
from interlock.runtime.redaction import Redactor

__all__ = ["LOGGER", "LogLines", "Steps", "configure"]

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
        return harmless(self._redactor.text(f"{record.levelname.lower()}: {said} {shown}".rstrip())).replace("\n", "\\n")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's signature
        """Write the time in UTC."""
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', self.converter(record.created))}.{int(record.msecs):03}Z"


def configure(level: str, redactor: Redactor) -> None:
    """Send the log of this process to standard error, unless it is off: what the command line does, and a server would."""
    if level == "off":
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines(as_json=not sys.stderr.isatty(), redactor=redactor))
    LOGGER.setLevel(level.upper())
    # What others have to tell in detail may name anything, such as paths of this machine.
    logging.basicConfig(level=max(logging.WARNING, LOGGER.level), handlers=[handler], force=True)
