"""The log of a process: lines of JSON or text, without secrets."""

from __future__ import annotations

import json
import logging
import sys
import time
import unicodedata
from typing import Any

from interlock.runtime.observe import LOGGER
from interlock.runtime.redaction import Redactor

__all__ = ["LogFormatter", "configure_logging", "printable"]


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
