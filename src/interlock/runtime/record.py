"""The record of a turn in a file: its input, its ledger, how it ended. Enough to take it again, or to go on with it.

One JSON object a line. The first is the heading, then the ledger's entries as they are made, the last one the ending; a
turn that stopped half way has none. The file holds everything that the turn saw, secrets too, and only its owner may read it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, Self, cast

import regex
from pydantic import ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import TypedDict

from interlock.agent import Agent
from interlock.contract import Graph
from interlock.contract.values import ValidationError, reasons
from interlock.errors import BudgetExceeded, InterlockError, RecordInvalid, StoreFull, StoreUnavailable
from interlock.runtime.budget import Limits, TimeRanOut
from interlock.runtime.events import Event
from interlock.runtime.ledger import Entry
from interlock.runtime.redaction import Redactor
from interlock.runtime.turn import Order, TurnResult

__all__ = ["Ending", "Heading", "Record", "Recorder", "Replay", "check_path", "differences", "read_record"]

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Heading:
    """What was asked, of whom, on what terms."""

    agent: str
    graph: str
    fingerprint: str
    role: str | None
    session: str
    turn: str
    given: dict[str, Any]
    limits: Limits
    redact: tuple[str, ...]
    version: Literal[1] = VERSION

    @classmethod
    def of(cls, order: Order, fingerprint: str, limits: Limits, redact: tuple[str, ...]) -> Heading:
        """Write down what a turn is about."""
        return cls(
            agent=order.agent,
            graph=order.graph.name,
            fingerprint=fingerprint,
            role=order.role,
            session=order.session,
            turn=order.turn,
            given={name: order.graph.state.fields[name].codec.encode(value) for name, value in order.given.items()},
            limits=limits,
            redact=redact,
        )

    def order(self, agent: Agent, graph: Graph) -> Order:
        """Return what the turn was about, for this graph."""
        if graph.name != self.graph or not self.given.keys() <= set(graph.state.takes):
            raise RecordInvalid(f"The record is of graph '{self.graph}', which '{graph.name}' is not.")
        given = {name: graph.state.fields[name].codec.decode(value) for name, value in self.given.items()}
        return Order(
            agent=self.agent,
            graph=graph,
            role=self.role,
            session=self.session,
            turn=self.turn,
            given=given,
            reply=agent.reply,
            in_session=agent.has_sessions,
            pauses=agent.pauses,
            partial=agent.partial,
        )


class ResultError(TypedDict):
    """The error of a result as JSON data, of which these parts are looked at."""

    __pydantic_config__ = ConfigDict(extra="allow")  # pyright: ignore[reportGeneralTypeIssues] - pydantic reads it from here

    code: str
    message: str


class Result(TypedDict):
    """A result as JSON data."""

    agent: str
    session: str
    turn: str
    status: str
    output: Any
    error: ResultError | None
    path: list[str]
    state: dict[str, Any]
    metadata: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How the turn ended, and what was told of it on the way."""

    result: Result
    events: list[Event]

    @classmethod
    def of(cls, result: TurnResult, events: list[Event]) -> Ending:
        """Write down how a turn ended."""
        return cls(result=cast("Result", result.to_json()), events=events)

    @property
    def time_ran_out(self) -> TimeRanOut | None:
        """Where the turn's time ran out, if it did."""
        error = self.result["error"]
        if error is None or error["code"] != BudgetExceeded.code or "max_turn_seconds" not in error["message"]:
            return None
        # What was open then failed with it, the innermost first: a graph, where its next step was refused.
        failed = list(takewhile(lambda event: event["event"].endswith("_error"), reversed(self.events[:-1])))
        return TimeRanOut(after_steps=len(self.result["path"]), in_a_step=bool(failed) and "graph" not in failed[-1]["metadata"])


@dataclass(frozen=True, kw_only=True)
class Record:
    """A turn as it was."""

    heading: Heading
    entries: list[Entry] = field(default_factory=list[Entry])
    ending: Ending | None = None


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A recorded turn that was taken again: how it ended now, and in what that differs from the record."""

    record: Record
    result: TurnResult
    differences: tuple[str, ...]


_HEADING, _ENTRY, _ENDING = TypeAdapter(Heading), TypeAdapter(Entry), TypeAdapter(Ending)


class Recorder:
    """Writes a turn to a file while it happens. Used as a context: the file is closed whatever happens."""

    def __init__(self, path: Path, opened: int) -> None:
        self._path = path
        self._file = opened

    @classmethod
    def begin(cls, path: Path, heading: Heading) -> Self:
        """Begin a new file."""
        recorder = cls(path, _open(path, os.O_CREAT | os.O_EXCL))
        try:
            recorder._write("heading", asdict(heading))
        except InterlockError:
            os.close(recorder._file)
            raise
        return recorder

    @classmethod
    def go_on(cls, path: Path) -> Self:
        """Go on with a file that stops half way; what was cut off there is not part of the record."""
        opened = _open(path, os.O_APPEND)
        kept = path.read_bytes().rpartition(b"\n")[0]
        os.ftruncate(opened, len(kept) + 1)
        return cls(path, opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def keep(self, entry: Entry) -> None:
        """Write an entry, before anybody acts on its result."""
        self._write("entry", vars(entry))

    def end(self, ending: Ending) -> None:
        """Write how the turn ended."""
        self._write("ending", vars(ending))

    def _write(self, kind: str, data: Mapping[str, Any]) -> None:
        line = _line({kind: data})
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            raise _typed(error, self._path) from error


def _line(data: Mapping[str, Any]) -> bytes:
    """Write data as a line of JSON, in ASCII: no line is cut off in the middle of a letter, or ends in one."""
    try:
        return to_json(data, ensure_ascii=True, inf_nan_mode="constants") + b"\n"
    except PydanticSerializationError:  # half a letter, which json writes as it is
        return json.dumps(data).encode() + b"\n"


def _open(path: Path, how: int) -> int:
    """Open a file for one writer at a time."""
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CLOEXEC | how, 0o600)
    except FileExistsError as error:
        raise RecordInvalid(f"'{path}' is there already, and a record is never written over. Fix: name a new file.") from error
    except OSError as error:
        raise _typed(error, path) from error
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(opened)
        raise RecordInvalid(f"Somebody is writing to '{path}' already.") from error
    return opened


def _typed(error: OSError, path: Path) -> InterlockError:
    kind = StoreFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else StoreUnavailable
    return kind(f"The record '{path}' cannot be written: {error.strerror}.")


def check_path(path: Path) -> None:
    """Refuse a name of a record that is not a path."""
    if not isinstance(path, Path):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
        raise RecordInvalid(f"A record is named by a 'Path', not by a '{type(path).__name__}'.")


def read_record(path: Path) -> Record:
    """Read a record. A last line that was cut off is as if it had not been written; everything else must fit."""
    check_path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RecordInvalid(f"The record '{path}' cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise RecordInvalid(f"The record '{path}' is not text.") from error
    try:
        record = _assemble(_lines(text))
    except (ValidationError, ValueError, TypeError, AttributeError, RecursionError) as error:
        why = reasons(error) if isinstance(error, ValidationError) else type(error).__name__
        raise RecordInvalid(f"'{path}' is not a record of a turn: {why}.") from error
    if record is None:
        raise RecordInvalid(f"'{path}' is not a record of a turn: it has no heading.")
    try:
        Redactor(record.heading.redact)
    except regex.error as error:
        raise RecordInvalid(f"'{path}' is not a record of a turn: it has a pattern that is none.") from error
    return record


def _lines(text: str) -> Iterator[dict[str, Any]]:
    whole, _, _cut_off = text.rpartition("\n")
    for line in whole.splitlines():
        yield json.loads(line)


def _assemble(lines: Iterator[dict[str, Any]]) -> Record | None:
    heading: Heading | None = None
    entries: list[Entry] = []
    ending: Ending | None = None
    for line in lines:
        ((kind, data),) = line.items()
        if kind == "heading" and heading is None:
            heading = _HEADING.validate_python(data)
        elif kind == "entry" and heading is not None and ending is None:
            entries.append(_ENTRY.validate_python(data))
        elif kind == "ending" and heading is not None and ending is None:
            ending = _ENDING.validate_python(data)
        else:
            raise ValueError(kind)
    return None if heading is None else Record(heading=heading, entries=entries, ending=ending)


def differences(record: Record, fingerprint: str, after: Ending, unused: Iterable[Entry]) -> Iterator[str]:
    """Tell in what a turn that was taken again differs: each part of the result, the first event, calls not made any more."""
    before = cast("Ending", record.ending)
    if record.heading.fingerprint != fingerprint:
        yield f"graph: the contracts of '{record.heading.graph}' have changed"
    for part in ("status", "output", "error", "path", "metadata"):
        if before.result[part] != after.result[part]:
            yield f"{part}: was {_short(before.result[part])}, is {_short(after.result[part])}"
    was, now = before.result["state"], after.result["state"]
    for name in dict.fromkeys([*was, *now]):
        if was.get(name) != now.get(name):
            yield f"state.{name}: was {_short(was.get(name))}, is {_short(now.get(name))}"
    yield from _event_differences(before.events, after.events)
    for entry in unused:
        yield f"call {entry.sequence}: '{entry.capability}.{entry.method}' in '{entry.node}' is not made any more"


def _event_differences(before: list[Event], after: list[Event]) -> Iterator[str]:
    for number, (old, new) in enumerate(zip(before, after, strict=False), start=1):
        if old != new:
            yield f"event {number}: was {_short(old)}, is {_short(new)}"
            return
    if len(before) != len(after):
        yield f"events: there were {len(before)}, now there are {len(after)}"


def _short(value: Any, limit: int = 200) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
