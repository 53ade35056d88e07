"""Events as lines of a turn store: numbered from 0 without gaps, without what follows from the lines before.

A run's id follows from the turn's id and the number of the run, its parents from the run that it is inside, and its metadata is
written with its first event. `decode` gives back the events of any prefix of the lines, equal to those that were emitted. Behind the
event a stored line has its time, in milliseconds since the turn was first claimed: the event itself is the same in every attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, cast

from interlock.runtime.event_values import KnownValues, Names
from interlock.runtime.events import Event, run_prefix
from interlock.runtime.json_lines import decode_json, encode_json

__all__ = ["RETOLD", "EventDecoder", "EventEncoder", "decode_events", "event_of", "is_retold", "retold_line", "standing_lines", "timed"]

RETOLD = "retold"
"""The name of the event after which a resumed turn emits other events than before, from the number in its data on."""


class _Line(TypedDict, total=False):
    """One event. `n`, `p` and `m` are there where they differ from what the run is known by.

    `k` has the names of mappings in the data of which known values are left out. A chunk that is only text is `t`, with `v` as its model.
    """

    e: str
    r: str
    n: str
    p: str | None
    m: Mapping[str, Any]
    k: Names
    d: Mapping[str, Any]
    t: str
    v: str


class _Encoded(NamedTuple):
    """What the first line of a run has said."""

    short: str
    name: str
    metadata: Mapping[str, Any]


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
        self._known: dict[str, _Encoded] = {}
        self._values = KnownValues()

    def encode(self, event: Event) -> bytes:
        """Return the line of an event."""
        number, name, metadata = event["run_id"], event["name"], event["metadata"]
        known = self._known.get(number)
        if known is None:
            short, parents = number[self._prefix :].lstrip("0"), event["parent_ids"]
            written = _without_number(metadata)
            self._known[number] = _Encoded(short, name, written)
            parent = parents[-1][self._prefix :].lstrip("0") if parents else None
            first: _Line = {"e": event["event"], "r": short, "n": name, "p": parent, "m": written}
            return self._with_data(first, event["data"])
        line: _Line = {"e": event["event"], "r": known.short}
        if known.name != name:
            line["n"] = name
        if len(known.metadata) + ("sequence" in metadata) != len(metadata) or not known.metadata.items() <= metadata.items():
            line["m"] = _without_number(metadata)
        data = event["data"]
        if event["event"] == _STREAM and len(line) == _BARE and (text := _text_of(data)) is not None:
            model: _Line = {"v": text[1]} if text[1] else {}
            return encode_json({"r": known.short, "t": text[0], **model})
        return self._with_data(line, data)

    def _with_data(self, line: _Line, data: Mapping[str, Any]) -> bytes:
        line["d"] = data
        written = encode_json(line)
        if len(written) < _LONG:
            self._values.note(data)
            return written
        line["d"], names = self._values.shorten(data)
        if not names:
            return written
        line["k"] = names
        return encode_json(line)


def _without_number(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in metadata.items() if name != "sequence"}


_LONG = 384
"""How long a line is at least of which known values are left out: in shorter ones it would cost more than it saves."""
_BARE = 2
"""How many keys a line has whose event says nothing new about its run."""
_STREAM = "on_chat_model_stream"
_CHUNK = ("text", "calls", "model", "usage")


def _text_of(data: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the text and the model of a chunk that has nothing else."""
    chunk: Any = data.get("chunk")
    if len(data) != 1 or type(chunk) is not dict or tuple(cast("Any", chunk)) != _CHUNK:
        return None
    text, calls, model, usage = cast("dict[str, Any]", chunk).values()
    return (text, model) if type(text) is str and calls == [] and type(model) is str and usage is None else None


class EventDecoder:
    """Decodes the lines of a turn, in order."""

    def __init__(self, turn: str) -> None:
        self._prefix = run_prefix(turn)
        self._known: dict[str, _Known] = {}
        self._values = KnownValues()
        self.count = 0
        """How many lines were decoded."""
        self.ms = 0
        """When the last one was emitted, in milliseconds since the turn was first claimed."""

    def skip_to(self, number: int) -> None:
        """Continue with the line of this number: those between were replaced by others."""
        self.count = number

    def decode(self, written: bytes) -> Event:
        """Return the event of the next line. Its sequence number is one more than the number of the line."""
        event, _, ms = written.rpartition(_TIME)
        self.ms = int(ms)
        line = cast("_Line", decode_json(event))
        number = self._id(line.get("r", "")) if line.get("r") else ""
        if "p" in line:
            parent = line["p"]
            above = None if parent is None else self._known.get(self._id(parent))
            parents = [] if parent is None else [*(above.parents if above is not None else ()), self._id(parent)]
            self._known[number] = _Known(line.get("n", ""), parents, line.get("m", {}))
        known = self._known.get(number) or _Known("", [], {})
        data = self._data(line)
        self.count += 1
        return {
            "event": line.get("e", _STREAM),
            "name": line.get("n", known.name),
            "run_id": number,
            "parent_ids": [*known.parents],
            "tags": [],
            "metadata": {**line.get("m", known.metadata), "sequence": self.count},
            "data": data,
        }

    def _data(self, line: _Line) -> dict[str, Any]:
        if "t" in line:
            return {"chunk": {"text": line["t"], "calls": [], "model": line.get("v", ""), "usage": None}}
        data = dict(line.get("d", {}))
        if not line.get("r") and line.get("n") == RETOLD:
            self._values.go_back(data["from"])
        return self._values.restore(data, line.get("k", {}), self.count)

    def _id(self, number: str) -> str:
        return f"{self._prefix}{number:0>12}"


_TIME = b" "


def timed(line: bytes, ms: int) -> bytes:
    """Return the line of an event with its time."""
    return b"%b%b%d" % (line, _TIME, ms)


def event_of(line: bytes) -> bytes:
    """Return a line without its time."""
    return line.rpartition(_TIME)[0]


def decode_events(turn: str, lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of a turn's first lines."""
    decoder = EventDecoder(turn)
    for line in lines:
        yield decoder.decode(line)


def retold_line(number: int) -> bytes:
    """Return the line that replaces events: those from this number on, counted from 0, are emitted again, and some differ."""
    return encode_json({"e": "on_custom_event", "n": RETOLD, "p": None, "m": {}, "d": {"from": number}})


_RETOLD_START = retold_line(0)[: -len(b"0}}")]
"""No other line starts like this: the first or second key of an event's line is its run."""


def is_retold(line: bytes) -> bool:
    """Return whether a line replaces events, as `retold_line` writes it."""
    return line.startswith(_RETOLD_START)


def standing_lines(lines: Sequence[bytes]) -> list[int]:
    """Return the numbers of the lines that stand: those that were not replaced, without the lines that replaced them."""
    standing: list[int] = []
    for number, line in enumerate(lines):
        if is_retold(line):
            first = decode_json(event_of(line))["d"]["from"]
            standing = [one for one in standing if one < first]
        else:
            standing.append(number)
    return standing
