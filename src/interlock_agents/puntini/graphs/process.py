"""The child process that has a ladybug file open, and the errors for its failures."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from interlock.errors import (
    CapabilityError,
    InterlockError,
    QueryTimeout,
    SessionBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
    ToolInputInvalid,
)
from interlock.processes.child import Child
from interlock_agents.puntini.errors import NotInGraph
from interlock_agents.puntini.graphs.checksums import Checksums, DamagedFile, OpenElsewhere

__all__ = ["LadybugProcess", "Result", "Statement", "open_elsewhere"]

_GRACE_S = 0.5  # for an interrupted statement to end before its process is killed
_WRITE_S = 60.0  # for one statement that writes
_BUFFER_MIB = 256
_EXTRA_MIB = 512  # for memory that ladybug does not take from its buffer pool
_FILE_MIB = 64 * 1024  # of address space for the file, not of disk space
_LOG_BYTES = 16 * 2**20  # the size at which a log is merged into its file
_MAX_ROWS = 5_000  # rows and statements in one request that writes: both sides hold all of them in memory
# Without these, glibc returns freed memory to the system after every statement and requests it again for the next.
_MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(16 * 2**20), "MALLOC_MMAP_THRESHOLD_": str(4 * 2**20)}
_MAX_REASON = 400
_PATH = re.compile(r"(?:/[^\s/'\"]+){2,}/?")
_FULL = ("No space left", "Disk quota", "File too large", "Cannot write to file")
_LOCKED = ("Could not set lock",)
_CLOSED = ("Cannot open file", "ermission denied", "Read-only file system", "cannot be a directory", "open files")
_NO_TABLE = re.compile(r"Binder exception: Table (?P<name>.*) does not exist")
_NO_PROPERTY = re.compile(r"Binder exception: Cannot find property (?P<name>.*) for ")
_INTERNAL = re.compile(r"^(?:\w+ exception|\w*Error): |: expected rule \w+|\s*\(line: \d+, offset: \d+\).*$")
"""The parts of an error that are about ladybug: the kind of exception, the rule of its grammar, and the query."""


@dataclass(frozen=True)
class Result:
    """The rows of a statement, as JSON data. `more` is set if a limit cut them off."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    more: bool


Statement = tuple[str, Mapping[str, Any]] | tuple[str, Mapping[str, Any], int | None, int]
"""A statement and its parameters, and the most rows and bytes of its result, if they are limited."""


class LadybugProcess:
    """A process that has one file open and runs statements. Callers take turns."""

    def __init__(self, path: Path, *, name: str, timeout_s: float, max_bytes: int) -> None:
        self._name, self._timeout_s = name, timeout_s
        options = {
            "buffer_mib": _BUFFER_MIB,
            "extra_mib": _EXTRA_MIB + 8 * max_bytes // 2**20,
            "file_mib": _FILE_MIB,
            "log_bytes": _LOG_BYTES,
        }
        self._child = Child("interlock_agents.puntini.graphs.process_main", path.resolve(), options, needs="ladybug", sets=_MALLOC)
        self.pid = self._child.pid
        if "failed" in self._child.hello:
            raise self._opening_error(self._child.hello)

    def is_ours(self) -> bool:
        """Return whether it can run statements: it is running, and this process started it and is not a fork of that one."""
        return self._child.is_ours()

    def run(self, statements: Sequence[Statement], *, within: float, commits: bool = False) -> list[Result]:
        """Run statements in order, up to the first that fails. If they take too long, the process is killed."""
        # With a time limit ladybug runs every statement in another thread, which takes up to half as long again. It is set for statements
        # that read, so that one that takes too long does not end the process; after a late commit the process is killed anyway.
        timeout_ms = 0 if commits else max(1, int(within * 1000))
        answer = self._child.ask({"statements": statements, "timeout_ms": timeout_ms, "commits": commits}, within=within + _GRACE_S)
        if "failed" in answer:
            raise self._error(answer)
        return [Result(columns=tuple(columns), rows=rows, more=more) for columns, rows, more in answer["results"]]

    def read(self, statements: Sequence[Statement]) -> list[list[list[Any]]]:
        """Return the rows of the statements that a change needs."""
        return [result.rows for result in self._run_change(statements)] if statements else []

    def commit(self, statements: list[Statement], checksums: Checksums) -> None:
        """Run statements in one transaction. If that fails, the process is killed and what it wrote is cut off the log."""
        if len(statements) > 1:  # one statement is a transaction by itself
            statements = [("BEGIN TRANSACTION", {}), *statements, ("COMMIT", {})]
        before = checksums.log_size()
        first = weight = 0
        try:
            for number, statement in enumerate(statements, 1):
                weight += 1 + sum(len(cast("list[Any]", value)) for value in statement[1].values() if isinstance(value, list))
                if number == len(statements) or weight > _MAX_ROWS:
                    self._run_change(statements[first:number], commits=number == len(statements))
                    first, weight = number, 0
        except BaseException:
            self.kill()
            checksums.cut(before)
            raise

    def _run_change(self, statements: Sequence[Statement], *, commits: bool = False) -> list[Result]:
        try:
            return self.run(statements, within=_WRITE_S * len(statements), commits=commits)
        except QueryTimeout as error:
            raise StoreUnavailable(f"Graph '{self._name:.100}' could not be changed in time, or with the available memory.") from error

    def roll_back(self) -> None:
        """End a transaction in which a statement failed."""
        if self.is_ours():
            try:
                self.run([("ROLLBACK", {})], within=_WRITE_S)
            except ToolInputInvalid:
                pass  # ladybug has rolled it back already
            except InterlockError:
                self.kill()

    def close(self) -> None:
        """Let the process close the file and exit. It is killed if it does not exit in time."""
        self._child.close()

    def kill(self) -> None:
        """Kill the process now."""
        self._child.kill()

    def _opening_error(self, answer: Mapping[str, Any]) -> StoreError:
        reason = str(answer.get("reason", ""))
        if answer["failed"] == DamagedFile.__name__:
            return StoreCorrupt(
                f"The file of graph '{self._name:.100}' is damaged, and is left as it is: {reason}."
                " Restore the graphs folder from a copy, or delete the file and its companions to start with an empty graph."
            )
        if answer["failed"] == OpenElsewhere.__name__ or any(word in reason for word in _LOCKED):
            return open_elsewhere(self._name)
        if any(word in reason for word in _FULL):
            return StoreFull(f"There is no disk space to open graph '{self._name:.100}'.")
        if answer["failed"] == "late" or any(word in reason for word in _CLOSED):
            return StoreUnavailable(f"Graph '{self._name:.100}' cannot be opened: {_reason(answer)}")
        return StoreCorrupt(f"The file of graph '{self._name:.100}' cannot be read, and is left as it is: {_reason(answer)}")

    def _error(self, answer: Mapping[str, Any]) -> CapabilityError:
        failed, reason = answer["failed"], str(answer.get("reason", ""))
        if failed == "late" or reason.startswith("Interrupted"):
            return QueryTimeout(f"The query took longer than {self._timeout_s:g} seconds: ask for less.")
        if failed == "gone" and self._child.returncode == -signal.SIGSEGV:
            return StoreUnavailable(f"The process that has graph '{self._name:.100}' open crashed. It is started again.")
        if failed in {"gone", "MemoryError"} or "Buffer manager exception" in reason or "bad_alloc" in reason:
            return QueryTimeout("The query needs more memory than it may use: ask for less.")
        if any(word in reason for word in _FULL):
            return StoreFull(f"There is no disk space for more in graph '{self._name:.100}'.")
        if reason.startswith("IO exception"):
            return StoreUnavailable(f"Graph '{self._name:.100}' cannot be read or written: {_reason(answer)}")
        if table := _NO_TABLE.match(reason):
            return NotInGraph(f"The graph has no label or relationship '{table['name']:.64}'.")
        if column := _NO_PROPERTY.match(reason):
            return NotInGraph(f"No element of the query has a property '{column['name']:.64}' in this graph.")
        return ToolInputInvalid(f"The query cannot be run: {_reason(answer)}")


def open_elsewhere(name: str) -> SessionBusy:
    """Return the error for a graph that another process has open."""
    return SessionBusy(f"Graph '{name:.100}' is open in another process, which did not close it in time. Try again when it has exited.")


def _reason(answer: Mapping[str, Any]) -> str:
    """Return the database's error in one line, without file paths and names of exceptions."""
    line = _INTERNAL.sub("", _PATH.sub("...", " ".join(str(answer.get("reason", "")).split())))[:_MAX_REASON]
    return re.sub(r"(?<![.?!])$", ".", line) if line else "the database gives no reason."
