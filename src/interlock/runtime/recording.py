"""The record of a turn in a file: its input, its journal and how it ended. With it a turn can be replayed or resumed.

One JSON object a line: the header, then the entries of the journal as they are written, then the footer. A turn that was
interrupted has no footer. The file contains everything that the turn saw, secrets too, and only its owner may read it.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, Self, cast

import regex
from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from interlock.contract.schema import ValidationError, error_summary
from interlock.errors import BudgetExceeded, Fenced, InterlockError, RecordInvalid, StoreFull, StoreUnavailable
from interlock.runtime.events import Event
from interlock.runtime.file_locks import file_lock
from interlock.runtime.forks import Fork
from interlock.runtime.journal import Entry
from interlock.runtime.json_lines import decode_json, encode_json
from interlock.runtime.limits import Limits, TimeRanOut
from interlock.runtime.redaction import Redactor
from interlock.runtime.turn import TurnRequest, TurnResult

__all__ = [
    "Footer",
    "Header",
    "MemoryJournal",
    "Record",
    "RecordFile",
    "StoredJournal",
    "check_path",
    "read_header",
    "read_record",
    "write_header",
]

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Header:
    """The request of a turn, the contracts it ran with, and its limits."""

    agent: str
    graph: str
    fingerprint: str
    role: str | None
    session: str
    turn: str
    given: dict[str, Any]
    limits: Limits
    redact: tuple[str, ...]
    deadline: float | None = None
    """When the turn has to have ended, in seconds since 1970; the time of a turn does not start again when it is resumed."""
    tenant: str = ""
    fork: Fork | None = None
    """For a turn that runs on from a step of another one: that step, and the calls that are not made again."""
    version: Literal[1] = VERSION

    @classmethod
    def of(
        cls, request: TurnRequest, fingerprint: str, limits: Limits, redact: tuple[str, ...], *, deadline: float | None = None
    ) -> Header:
        """Return the header of a turn."""
        return cls(
            agent=request.agent,
            graph=request.graph.name,
            fingerprint=fingerprint,
            role=request.role,
            session=request.session,
            turn=request.turn,
            given={name: request.graph.state.fields[name].codec.encode(value) for name, value in request.given.items()},
            limits=limits,
            redact=redact,
            deadline=deadline,
            tenant=request.tenant,
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
    usage: dict[str, int | None]


@dataclass(frozen=True, kw_only=True)
class Footer:
    """The result of a turn, and its events."""

    result: Result
    events: list[Event]

    @classmethod
    def of(cls, result: TurnResult, events: list[Event]) -> Footer:
        """Return the footer of a turn."""
        return cls(result=cast("Result", result.to_json()), events=events)

    @property
    def time_ran_out(self) -> TimeRanOut | None:
        """When the turn ran out of time, if it did."""
        error = self.result["error"]
        if error is None or error["code"] != BudgetExceeded.code or "max_turn_seconds" not in error["message"]:
            return None
        # Everything that was running then failed too, the innermost first: a graph, where its next step was refused.
        failed = list(takewhile(lambda event: event["event"].endswith("_error"), reversed(self.events[:-1])))
        return TimeRanOut(after_steps=len(self.result["path"]), in_a_step=bool(failed) and "graph" not in failed[-1]["metadata"])


@dataclass(frozen=True, kw_only=True)
class Record:
    """A recorded turn."""

    header: Header
    entries: list[Entry] = field(default_factory=list[Entry])
    footer: Footer | None = None


_HEADER, _ENTRY, _FOOTER = TypeAdapter(Header), TypeAdapter(Entry), TypeAdapter(Footer)


class RecordFile:
    """The journal store of one turn in a file. Used as a context manager, which closes the file."""

    shows_late = False
    is_stale = False

    def __init__(self, path: Path, opened: int) -> None:
        self._path = path
        self._file = opened

    @classmethod
    def create(cls, path: Path, header: Header) -> Self:
        """Create the file of a new turn."""
        record = cls(path, _open(path, os.O_CREAT | os.O_EXCL))
        try:
            record.write_lines({"header": _data(header)})
        except InterlockError:
            os.close(record._file)
            raise
        return record

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Open the file of a turn to be resumed. A last line that was cut off is removed."""
        opened = _open(path, os.O_APPEND)
        kept = path.read_bytes().rpartition(b"\n")[0]
        os.ftruncate(opened, len(kept) + 1)
        return cls(path, opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    async def claim(self, turn: str, epoch: int) -> list[Entry]:  # noqa: ARG002 - the file's lock fences other writers
        """Return the entries of the turn. The file is locked while it is open, so only one process can write to it."""
        return read_record(self._path).entries

    async def append(self, entries: Sequence[Entry]) -> None:
        """Write entries at once."""
        self.write_lines(*({"entry": vars(entry)} for entry in entries))

    async def end(self, footer: Mapping[str, Any]) -> None:
        """Write the footer."""
        self.write_lines({"footer": footer})

    def write_lines(self, *lines: Mapping[str, Any]) -> None:
        """Write lines of JSON."""
        written = b"".join(map(_line, lines))
        try:
            while written:
                written = written[os.write(self._file, written) :]
        except OSError as error:
            raise _typed(error, self._path) from error


@dataclass(kw_only=True)
class StoredJournal:
    """The journal of one turn in memory."""

    epoch: int
    entries: list[Entry] = field(default_factory=list[Entry])
    footer: Mapping[str, Any] | None = None


class MemoryJournal:
    """Keeps journals in memory, for tests. Several workers share one `turns`."""

    shows_late = False
    is_stale = False

    def __init__(self, turns: dict[str, StoredJournal] | None = None) -> None:
        self.turns = {} if turns is None else turns
        self._claimed = ("", -1)

    async def claim(self, turn: str, epoch: int) -> Sequence[Entry]:
        """Take the turn over; return the entries that it has."""
        stored = self.turns.setdefault(turn, StoredJournal(epoch=epoch))
        if stored.epoch > epoch:
            raise _fenced(turn)
        stored.epoch = epoch
        self._claimed = turn, epoch
        return tuple(stored.entries)

    async def append(self, entries: Sequence[Entry]) -> None:
        """Store entries."""
        stored = self._own.entries
        stored.extend([entry for entry in entries if entry not in stored])

    async def end(self, footer: Mapping[str, Any]) -> None:
        """Store how the turn ended."""
        self._own.footer = footer

    @property
    def _own(self) -> StoredJournal:
        turn, epoch = self._claimed
        stored = self.turns.get(turn)
        if stored is None or stored.epoch != epoch:
            raise _fenced(turn)
        return stored


def _fenced(turn: str) -> Fenced:
    return Fenced(f"Turn '{turn}' was taken over by another worker.")


def _line(data: Mapping[str, Any]) -> bytes:
    """Return data as a line of JSON, in ASCII: a line that is cut off is still valid UTF-8."""
    return encode_json(data, is_ascii=True) + b"\n"


def _open(path: Path, how: int) -> int:
    """Open a file and lock it for one writer."""
    lock = file_lock()
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CLOEXEC | how, 0o600)
    except FileExistsError as error:
        raise RecordInvalid(f"'{path}' exists already, and a record is never overwritten. Fix: name a new file.") from error
    except OSError as error:
        raise _typed(error, path) from error
    try:
        lock(opened)
    except OSError as error:
        os.close(opened)
        raise RecordInvalid(f"Another process is writing to '{path}'.") from error
    return opened


def _typed(error: OSError, path: Path) -> InterlockError:
    kind = StoreFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else StoreUnavailable
    return kind(f"The record '{path}' cannot be written: {error.strerror}.")


def write_header(header: Header) -> bytes:
    """Return a header as JSON."""
    return encode_json(_data(header), is_ascii=True)


def _data(header: Header) -> dict[str, Any]:
    """Return a header as plain data. `asdict` would copy the whole input."""
    return {**vars(header), "limits": vars(header.limits)}


def read_header(written: bytes) -> Header:
    """Return the header that was written as JSON. Raises RecordInvalid where it is damaged."""
    try:
        return _HEADER.validate_python(decode_json(written))
    except ValidationError as error:
        raise RecordInvalid(f"A stored turn has a header that cannot be read: {error_summary(error)}.") from error
    except ValueError as error:
        raise RecordInvalid("A stored turn has a header that is not JSON.") from error


def check_path(path: Path) -> None:
    """Raise RecordInvalid for a path that is not a Path."""
    if not isinstance(path, Path):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
        raise RecordInvalid(f"A record is named by a 'Path', not by a '{type(path).__name__}'.")


def check_new_record(path: Path) -> None:
    """Raise RecordInvalid where a record cannot be created under this path, because it exists."""
    if path.exists():
        raise RecordInvalid(f"'{path}' exists already, and a record is never overwritten. Fix: name a new file.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreUnavailable(f"The record '{path}' cannot be written: its folder does not exist or is not writable.")


def write_record(path: Path, record: Record) -> None:
    """Write a whole record to a new file."""
    with RecordFile.create(path, record.header) as file:
        file.write_lines(*({"entry": vars(entry)} for entry in record.entries))
        if record.footer is not None:
            file.write_lines({"footer": vars(record.footer)})


def read_record(path: Path) -> Record:
    """Read a record. A last line that was cut off is ignored; everything else must be valid."""
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
        why = error_summary(error) if isinstance(error, ValidationError) else type(error).__name__
        raise RecordInvalid(f"'{path}' is not a record of a turn: {why}.") from error
    if record is None:
        raise RecordInvalid(f"'{path}' is not a record of a turn: it has no header.")
    try:
        Redactor(record.header.redact)
    except regex.error as error:
        raise RecordInvalid(f"'{path}' is not a record of a turn: it has an invalid redaction pattern.") from error
    return record


def _lines(text: str) -> Iterator[dict[str, Any]]:
    whole, _, _cut_off = text.rpartition("\n")
    for line in whole.splitlines():
        yield json.loads(line)


def _assemble(lines: Iterator[dict[str, Any]]) -> Record | None:
    header: Header | None = None
    entries: list[Entry] = []
    footer: Footer | None = None
    for line in lines:
        ((kind, data),) = line.items()
        if kind == "header" and header is None:
            header = _HEADER.validate_python(data)
        elif kind == "entry" and header is not None and footer is None:
            entries.append(_ENTRY.validate_python(data))
        elif kind == "footer" and header is not None and footer is None:
            footer = _FOOTER.validate_python(data)
        else:
            raise ValueError(kind)
    return None if header is None else Record(header=header, entries=entries, footer=footer)
