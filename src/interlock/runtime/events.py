"""The events of a turn, in the v2 shape of LangChain's `astream_events`, the same on every engine."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeAlias

from typing_extensions import TypedDict

from interlock.capabilities.model import Piece, joined
from interlock.capabilities.tools import ToolRequest
from interlock.contract.codec import Write, writer
from interlock.runtime.redaction import REDACTED, Redactor, StreamRedactor

__all__ = ["Event", "EventQueue", "Events", "Run", "Sink", "Watcher", "hide"]


class Event(TypedDict):
    """One event. `data` is plain JSON, so it shares nothing with the turn."""

    event: str
    name: str
    run_id: str
    parent_ids: list[str]
    tags: list[str]
    metadata: dict[str, Any]
    data: dict[str, Any]


_WRITE_PIECE = writer(Piece)

Sink: TypeAlias = Callable[[Event], None]


class Watcher(Protocol):
    """Somebody of the runtime's own who follows the events, those of every capability call too: traces, logs."""

    def see(self, event: Event) -> None:
        """Take notice of an event."""
        ...


class Told(NamedTuple):
    """What the events are called that tell of one kind of run."""

    start: str
    stream: str
    end: str
    error: str


@functools.cache
def told_of(kind: str) -> Told:
    """Name the events of a kind of run."""
    return Told(*(f"on_{kind}_{moment}" for moment in Told._fields))


def hide(values: Mapping[str, Any], secret: frozenset[str]) -> Mapping[str, Any]:
    """Put a mark in the place of secret fields."""
    return {name: REDACTED if name in secret else value for name, value in values.items()} if secret else values


class Run:
    """Something with a beginning and an end: the turn, a node, a capability call."""

    has_ended = False
    _started = False
    _text: StreamRedactor | None = None
    _hid = False

    def __init__(
        self, events: Events, kind: str, name: str, parents: list[str], metadata: Mapping[str, Any], *, public: bool = True
    ) -> None:
        self.events = events
        self._told = told_of(kind)
        self._name = name
        self._metadata = metadata
        self._public = public
        self.parents = parents
        if public:
            events.runs += 1
            self.run_id = f"{events.prefix}{events.runs:012x}"
        else:  # what only watchers see does not disturb the ids of the rest
            events.hidden += 1
            self.run_id = f"{events.prefix}f{events.hidden:011x}"

    def start(self, given: Any, write: Write | None = None) -> Run:
        """Tell that it begins, with what."""
        self._started = True
        self._pass_on(self._told.start, self._name, {"input": self.events.redactor.to_json(given, write)})
        return self

    def start_tool(self, request: ToolRequest) -> Run:
        """Tell that a tool begins: its own name is the name of what runs."""
        self._started = True
        self._name = self.events.redactor.text(request.tool)
        self._pass_on(self._told.start, self._name, {"tool": self._name, "input": self.events.redactor.to_json(request.args)})
        return self

    def custom(self, name: str, data: Any) -> None:
        """Tell something of a node's own choice."""
        redactor = self.events.redactor
        self._pass_on("on_custom_event", redactor.text(name), redactor.to_json(data))

    def stream(self, piece: Any) -> None:
        """Tell of a piece of what comes in pieces; text that may be part of a secret waits for the next piece."""
        if isinstance(piece, str):
            self.stream_text(piece)
            return
        if not isinstance(piece, Piece):
            self._hid |= self._pieces.hides(piece)
            self._send_chunk(REDACTED if self._hid else piece)
            return
        shown = self._pieces.feed(piece.text)
        if shown or piece.calls or piece.usage:
            self._send_chunk(dataclasses.replace(piece, text=shown), _WRITE_PIECE)

    def stream_text(self, text: str, model: str = "") -> None:
        """Tell of a piece that is nothing but text, as nearly every one is."""
        shown = self._pieces.feed(text)
        if shown:
            told = model and self.events.redactor.text(model)
            self._pass_on(self._told.stream, self._name, {"chunk": {"text": shown, "calls": [], "model": told, "usage": None}})

    @functools.cached_property
    def _pieces(self) -> StreamRedactor:
        self._text = StreamRedactor(self.events.redactor)
        return self._text

    def end_stream(self, pieces: Sequence[Any]) -> None:
        """Tell that everything has come."""
        if pieces and all(isinstance(piece, Piece) for piece in pieces):
            self.end(joined(pieces))
        elif pieces and all(isinstance(piece, str) for piece in pieces):
            self.end("".join(pieces))
        else:
            self.end(REDACTED if self._hid else pieces)

    def end(self, result: Any, write: Write | None = None) -> None:
        """Tell that it has ended, with what."""
        if self._text is not None:
            self._flush()
        self.has_ended = True
        self._pass_on(self._told.end, self._name, {"output": self.events.redactor.to_json(result, write)})

    def error(self, code: str, message: str) -> None:
        if not self._started:
            self.start({})
        self._flush()
        self.has_ended = True
        self._pass_on(self._told.error, self._name, {"error": {"code": code, "message": self.events.redactor.text(message)}})

    def cancel(self) -> None:
        self.error("cancelled", "The turn was cancelled.")

    def call(self, kind: str | None, name: str) -> Run | None:
        """Make the run of a capability call: one that the capability does not show is for watchers only."""
        if kind is None and not self.events.watchers:
            return None
        return Run(self.events, kind or "capability", name, [*self.parents, self.run_id], self._metadata, public=kind is not None)

    def inner(self, name: str, metadata: Mapping[str, Any]) -> Run:
        """Make the run of a graph that is walked inside this one."""
        return Run(self.events, "chain", name, [*self.parents, self.run_id], metadata)

    def _flush(self) -> None:
        rest = self._text.flush() if self._text is not None and not self._hid else ""
        if rest:
            self._send_chunk(Piece(text=rest), _WRITE_PIECE)

    def end_plain(self, result: Any) -> None:
        """Tell that it has ended, with what is JSON data and has no secrets."""
        self.has_ended = True
        self._pass_on(self._told.end, self._name, {"output": result})

    def _send_chunk(self, chunk: Any, write: Write | None = None) -> None:
        self._pass_on(self._told.stream, self._name, {"chunk": self.events.redactor.to_json(chunk, write)})

    def _pass_on(self, kind: str, name: str, data: dict[str, Any]) -> None:
        """Pass an event on: the one way out for every event. Whoever listens cannot disturb the turn."""
        events = self.events
        event: Event = {
            "event": kind,
            "name": name,
            "run_id": self.run_id,
            "parent_ids": [*self.parents],
            "tags": [],
            "metadata": {**self._metadata},
            "data": data,
        }
        for watcher in events.watchers:
            with suppress(Exception):  # a trace that cannot be written is no reason to end a turn
                watcher.see(event)
        if events.sink is None or not self._public or events.broken is not None:
            return
        try:
            events.sink(event)
        except Exception as error:  # noqa: BLE001 - it is the listener's, and is raised to its owner when the turn has ended
            events.broken = error


class Events:
    """Where the events of one turn go. Their ids follow from the turn's, so that a repeated turn repeats them."""

    def __init__(self, turn: str, *, sink: Sink | None, watchers: Sequence[Watcher] = (), redactor: Redactor) -> None:
        digits = hashlib.sha256(turn.encode("utf-8", "surrogatepass")).hexdigest()
        self.prefix = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-"
        self.runs = self.hidden = 0
        self.sink = sink
        self.watchers = watchers
        self.redactor = redactor
        self.broken: Exception | None = None

    def turn(self, name: str, metadata: Mapping[str, Any]) -> Run:
        """Make the run that every other run of the turn is inside."""
        return Run(self, "chain", name, [], self.redactor.data(dict(metadata)))


class EventQueue:
    """Keeps events until they are read. One writes, one reads, in one event loop: cheaper than a queue for anybody."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self._has_ended = False
        self._waiting: asyncio.Future[None] | None = None

    def append(self, event: Event) -> None:
        """Keep an event."""
        self.events.append(event)
        if self._waiting is not None:
            self._wake()

    def end(self) -> None:
        """Say that no more come."""
        self._has_ended = True
        self._wake()

    async def wait(self) -> bool:
        """Wait for events; False where there are none and no more come."""
        while not self.events and not self._has_ended:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return bool(self.events)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
