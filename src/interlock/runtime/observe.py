"""Log lines of turns. They are made from events, so they are redacted as events are."""

from __future__ import annotations

import logging
from typing import Any

from interlock.runtime.events import Event

__all__ = ["LOGGER", "EventLog"]

LOGGER = logging.getLogger("interlock")
# A library writes no log until its application configures logging.
LOGGER.addHandler(logging.NullHandler())


class EventLog:
    """Logs every node and every capability call at level `debug`."""

    def on_event(self, event: Event) -> None:
        # Only the data of an error event has a known shape: a node's own event may have any keys.
        is_error = event["event"].endswith("_error")
        error: dict[str, Any] = event["data"]["error"] if is_error else {}
        fields: dict[str, Any] = {**event["metadata"], "run_id": event["run_id"], "code": error.get("code"), "error": error.get("message")}
        LOGGER.debug("%s %s", event["event"], event["name"], extra={"fields": fields})
