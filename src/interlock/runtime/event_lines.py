"""Events as lines of a turn store: numbered from 0 without gaps, without what follows from the lines before.

A run's id follows from the turn's id and the number of the run, its parents from the run that it is inside, and its metadata is
written with its first event. `decode` gives back the events of any prefix of the lines, equal to those that were emitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from pydantic_core import PydanticSerializationError, from_json, to_json

from interlock.runtime.events import Event, run_prefix

__all__ = ["RETOLD", "EventDecoder", "EventEncoder", "decode_events", "retold_line"]

RETOLD = "retold"
"""The name of the event after which a resumed turn emits other events than before, from the number in its data on."""


class _Line(TypedDict, total=False):
    """One event. `n`, `p` and `m` are there where they differ from what the run is known by."""

    e: str
    r: str
    n: str
    p: str | None
    m: Mapping[str, Any]
    d: Mapping[str, Any]


@dataclass(slots=True)
class _Known:
    """What is known about a run from its earlier events."""

    name: str
    parents: list[str]
    metadata: Mapping[str, Any]


class EventEncoder:
    """Encodes the events of one attempt at a turn, in the order in which they are emitted."""

    def __init__(self, turn: str) -> None:
        self._prefix = len(run_prefix(turn))
        self._known: dict[str, _Known] = {}

    def encode(self, event: Event) -> bytes:
        """Return the line of an event."""
        number = event["run_id"]
        metadata = {name: value for name, value in event["metadata"].items() if name != "sequence"}
        known = self._known.get(number)
        line: _Line = {"e": event["event"], "r": number[self._prefix :].lstrip("0")}
        if known is None:
            parents = event["parent_ids"]
            self._known[number] = _Known(event["name"], parents, metadata)
            line["n"] = event["name"]
            line["p"] = parents[-1][self._prefix :].lstrip("0") if parents else None
            line["m"] = metadata
        else:
            if known.name != event["name"]:
                line["n"] = event["name"]
            if known.metadata != metadata:
                line["m"] = metadata
        line["d"] = event["data"]
        return _json(line)


class EventDecoder:
    """Decodes the lines of a turn, in order."""

    def __init__(self, turn: str) -> None:
        self._prefix = run_prefix(turn)
        self._known: dict[str, _Known] = {}
        self.count = 0
        """How many lines were decoded."""

    def decode(self, written: bytes) -> Event:
        """Return the event of the next line. Its sequence number is one more than the number of the line."""
        line = cast("_Line", from_json(written))
        number = self._id(line.get("r", "")) if line.get("r") else ""
        if "p" in line:
            parent = line["p"]
            above = None if parent is None else self._known.get(self._id(parent))
            parents = [] if parent is None else [*(above.parents if above is not None else ()), self._id(parent)]
            self._known[number] = _Known(line.get("n", ""), parents, line.get("m", {}))
        known = self._known.get(number) or _Known("", [], {})
        self.count += 1
        return {
            "event": line.get("e", ""),
            "name": line.get("n", known.name),
            "run_id": number,
            "parent_ids": [*known.parents],
            "tags": [],
            "metadata": {**line.get("m", known.metadata), "sequence": self.count},
            "data": dict(line.get("d", {})),
        }

    def _id(self, number: str) -> str:
        return f"{self._prefix}{number:0>12}"


def decode_events(turn: str, lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of a turn's first lines."""
    decoder = EventDecoder(turn)
    for line in lines:
        yield decoder.decode(line)


def retold_line(number: int) -> bytes:
    """Return the line that says that the events from this number on are emitted again, because some of them differ."""
    return _json({"e": "on_custom_event", "n": RETOLD, "p": None, "m": {}, "d": {"from": number}})


def _json(line: Mapping[str, Any]) -> bytes:
    try:
        return to_json(line)
    except PydanticSerializationError:  # A lone surrogate, which json.dumps() escapes.
        return json.dumps(line).encode()
