"""The events of a turn, in the v2 shape of LangChain's `astream_events`, the same on every engine."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypedDict

from pydantic_core import to_jsonable_python

__all__ = ["Event", "Events", "Sink", "plain"]


class Event(TypedDict):
    """One event. `data` is plain JSON, so it shares nothing with the turn."""

    event: str
    name: str
    run_id: str
    parent_ids: list[str]
    tags: list[str]
    metadata: dict[str, Any]
    data: dict[str, Any]


Sink: TypeAlias = Callable[[Event], None]


def plain(value: Any) -> Any:
    """Turn a value into plain JSON data; a number that JSON does not have becomes null."""
    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=repr)


class Run:
    """Something with a beginning and an end: the turn, a node, a capability call."""

    def __init__(self, events: Events, kind: str, name: str, parents: list[str], metadata: Mapping[str, Any]) -> None:
        self._events = events
        self._kind = kind
        self._name = name
        self._metadata = metadata
        self.run_id = events.next_run_id()
        self.parents = parents
        self._started = False

    def start(self, given: Any) -> Run:
        self._started = True
        self._send("start", {"input": plain(given)})
        return self

    def end(self, result: Any) -> None:
        self._send("end", {"output": plain(result)})

    def error(self, code: str, message: str) -> None:
        if not self._started:
            self.start({})
        self._send("error", {"error": {"code": code, "message": message}})

    def child(self, kind: str, name: str, metadata: Mapping[str, Any] | None = None) -> Run:
        """Make a run inside this one."""
        return Run(self._events, kind, name, [*self.parents, self.run_id], metadata or self._metadata)

    def _send(self, moment: str, data: dict[str, Any]) -> None:
        self._events.send(
            Event(
                event=f"on_{self._kind}_{moment}",
                name=self._name,
                run_id=self.run_id,
                parent_ids=list(self.parents),
                tags=[],
                metadata=dict(self._metadata),
                data=data,
            )
        )


class Events:
    """Where the events of one turn go. Their ids follow from the turn's, so that a repeated turn repeats them."""

    def __init__(self, turn: str, sink: Sink) -> None:
        self._namespace = uuid.uuid5(uuid.NAMESPACE_OID, turn)
        self._runs = 0
        self._sink = sink
        self.broken: Exception | None = None

    def turn(self, name: str, metadata: Mapping[str, Any]) -> Run:
        """Make the run that every other run of the turn is inside."""
        return Run(self, "chain", name, [], metadata)

    def next_run_id(self) -> str:
        self._runs += 1
        return str(uuid.uuid5(self._namespace, str(self._runs)))

    def send(self, event: Event) -> None:
        """Pass an event on: the one way out for every event. Whoever listens cannot disturb the turn."""
        if self.broken is not None:
            return
        try:
            self._sink(event)
        except Exception as error:  # noqa: BLE001 - it is the listener's, and is raised to its owner when the turn has ended
            self.broken = error
