"""The events of a turn, in the v2 shape of LangChain's `astream_events`. Both engines emit the same events.

The events that a listener receives are numbered: `metadata["sequence"]` is 1 for the first event of a turn and has no gaps.
Run ids follow from the turn's id, so a turn that is replayed or resumed emits the same events with the same ids and numbers.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from typing_extensions import TypedDict

from interlock.capabilities.model import Chunk, join_chunks
from interlock.runtime.redaction import REDACTED, Redactor, StreamRedactor

__all__ = ["Event", "EventEmitter", "Listener", "Observer", "Run", "hide", "run_prefix"]


class Event(TypedDict):
    """One event. `data` is JSON data and shares no objects with the turn."""

    event: str
    name: str
    run_id: str
    parent_ids: list[str]
    tags: list[str]
    metadata: dict[str, Any]
    data: dict[str, Any]


Listener: TypeAlias = Callable[[Event], None]


class Observer(Protocol):
    """An observer inside the runtime, such as tracing. It also gets the events of capability calls that a listener does not get."""

    def on_event(self, event: Event) -> None: ...


def hide(values: Mapping[str, Any], secret: frozenset[str]) -> Mapping[str, Any]:
    """Replace the values of secret fields by `REDACTED`."""
    return {name: REDACTED if name in secret else value for name, value in values.items()} if secret else values


class Run:
    """Something that starts and ends: the turn, a graph, a node or a capability call."""

    has_ended = False
    _started = False
    _text: StreamRedactor | None = None
    _hid = False

    def __init__(
        self, events: EventEmitter, kind: str, name: str, parents: list[str], metadata: Mapping[str, Any], *, public: bool = True
    ) -> None:
        self.events = events
        self._redactor = events.redactor
        self._kind = kind
        self._name = name
        self._metadata = metadata
        self._public = public
        self.parents = parents
        self.run_id = events.next_run_id(public=public)

    def start(self, given: Any, *, tool: str | None = None) -> Run:
        """Emit the start event with the input. The run of a tool is named for the tool instead of the capability."""
        self._started = True
        data = {"input": self._redactor.to_json(given)}
        if tool is not None:
            self._name = self._redactor.text(tool)
            data = {"tool": self._name, **data}
        self._emit("start", data)
        return self

    def custom(self, name: str, data: Any) -> None:
        """Emit an event that a node has defined itself."""
        self._emit("", self._redactor.to_json(data), custom=self._redactor.text(name))

    def stream(self, chunk: Any) -> None:
        """Emit a chunk. Text that could be the start of a secret is held back until the next chunk."""
        self._text = stream = self._text or StreamRedactor(self._redactor)
        if isinstance(chunk, str):
            chunk = Chunk(text=chunk)
        if not isinstance(chunk, Chunk):
            self._hid |= stream.hides(chunk)
            self._emit("stream", {"chunk": self._redactor.to_json(REDACTED if self._hid else chunk)})
            return
        shown = stream.feed(chunk.text)
        if chunk.calls or chunk.usage:
            self._emit("stream", {"chunk": self._redactor.to_json(dataclasses.replace(chunk, text=shown))})
        elif shown:
            self._emit_text(shown, chunk.model and self._redactor.text(chunk.model))

    def end_stream(self, chunks: Sequence[Any]) -> None:
        """Emit the end event with the chunks put together."""
        if chunks and all(isinstance(chunk, Chunk) for chunk in chunks):
            self.end(join_chunks(chunks))
        elif chunks and all(isinstance(chunk, str) for chunk in chunks):
            self.end("".join(chunks))
        else:
            self.end(REDACTED if self._hid else chunks)

    def end(self, result: Any) -> None:
        self._flush()
        self.end_redacted(self._redactor.to_json(result))

    def end_redacted(self, result: Any) -> None:
        """Emit the end event with a result that is JSON data and has been redacted."""
        self.has_ended = True
        self._emit("end", {"output": result})

    def error(self, code: str, message: str) -> None:
        if not self._started:
            self.start({})
        self._flush()
        self.has_ended = True
        self._emit("error", {"error": {"code": code, "message": self._redactor.text(message)}})

    def cancel(self) -> None:
        """Emit the error event of a run that was cancelled."""
        self.error("cancelled", "The turn was cancelled.")

    def call(self, kind: str | None, name: str) -> Run | None:
        """Create the run of a capability call. Without a kind only observers get its events; without them there is no run."""
        if kind is None and not self.events.observers:
            return None
        return Run(self.events, kind or "capability", name, [*self.parents, self.run_id], self._metadata, public=kind is not None)

    def inner(self, name: str, metadata: Mapping[str, Any]) -> Run:
        """Create the run of a graph that runs inside this run."""
        return Run(self.events, "chain", name, [*self.parents, self.run_id], metadata)

    def _flush(self) -> None:
        """Emit the text that was held back."""
        rest = self._text.flush() if self._text is not None and not self._hid else ""
        if rest:
            self._emit_text(rest, "")

    def _emit_text(self, text: str, model: str) -> None:
        """Emit a chunk that is only text, as nearly every chunk of a model is."""
        self._emit("stream", {"chunk": {"text": text, "calls": [], "model": model, "usage": None}})

    def _emit(self, moment: str, data: dict[str, Any], *, custom: str | None = None) -> None:
        event: Event = {
            "event": f"on_{self._kind}_{moment}" if custom is None else "on_custom_event",
            "name": self._name if custom is None else custom,
            "run_id": self.run_id,
            "parent_ids": [*self.parents],
            "tags": [],
            "metadata": {**self._metadata},
            "data": data,
        }
        self.events.emit(event, public=self._public)


def run_prefix(turn: str) -> str:
    """Return what the ids of a turn's runs start with."""
    digits = hashlib.sha256(turn.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-"


class EventEmitter:
    """Emits the events of one turn to its listener and to the observers of the runtime. Neither can disturb the turn."""

    def __init__(self, turn: str, *, listener: Listener | None, observers: Sequence[Observer] = (), redactor: Redactor) -> None:
        self._prefix = run_prefix(turn)
        self._runs = self._hidden_runs = self._sequence = 0
        self._listener = listener
        self.observers = observers
        self.redactor = redactor
        self.listener_error: Exception | None = None
        """What the listener raised. It gets no more events after that."""

    def turn(self, name: str, metadata: Mapping[str, Any]) -> Run:
        """Create the run of the turn, which every other run is inside."""
        return Run(self, "chain", name, [], self.redactor.data(dict(metadata)))

    def next_run_id(self, *, public: bool) -> str:
        """Return a new run id. Runs that only observers see are counted apart, so that the other ids do not depend on them."""
        if public:
            self._runs += 1
            return f"{self._prefix}{self._runs:012x}"
        self._hidden_runs += 1
        return f"{self._prefix}f{self._hidden_runs:011x}"

    def emit(self, event: Event, *, public: bool) -> None:
        """Pass an event on. A public event gets the next sequence number; other events go to the observers only, unnumbered."""
        if public:
            self._sequence += 1
            event["metadata"]["sequence"] = self._sequence
        for observer in self.observers:
            # A trace or a log line that cannot be written must not end the turn.
            with suppress(Exception):
                observer.on_event(event)
        if self._listener is None or not public or self.listener_error is not None:
            return
        try:
            self._listener(event)
        except Exception as error:  # noqa: BLE001 - it is raised to the listener's owner when the turn has ended
            self.listener_error = error
