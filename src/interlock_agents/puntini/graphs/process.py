"""The process that has a ladybug file open, and what its failures mean."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from interlock_agents.puntini.graphs.checksums import DamagedFile, OpenElsewhere

__all__ = ["Asked", "LadybugProcess", "Result", "Statement", "open_elsewhere"]

_GRACE_S = 0.5  # for a statement that is interrupted to end; after that its process is killed
_UNDO_S = 60.0
_BUFFER_MIB = 256
_BESIDES_MIB = 512  # for what ladybug does not keep in its buffer pool
_FILE_MIB = 64 * 1024  # addresses that are set aside for the file, not room on a disk
_LOG_BYTES = 16 * 2**20  # from which on a log is merged into its file
_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(16 * 2**20), "MALLOC_MMAP_THRESHOLD_": str(4 * 2**20)}
"""How glibc keeps what a statement has freed for the next: as it is, it gives it back to the system and asks for it again each time."""
_MAX_REASON = 400
_PATH = re.compile(r"(?:/[^\s/'\"]+){2,}/?")
_FULL = ("No space left", "Disk quota", "File too large", "Cannot write to file")
_LOCKED = ("Could not set lock",)
_CLOSED = ("Cannot open file", "ermission denied", "Read-only file system", "cannot be a directory", "open files")
_NO_TABLE = re.compile(r"Binder exception: Table (?P<name>.*) does not exist")
_NO_PROPERTY = re.compile(r"Binder exception: Cannot find property (?P<name>.*) for ")
_INTERNAL = re.compile(r"^(?:\w+ exception|\w*Error): |: expected rule \w+|\s*\(line: \d+, offset: \d+\).*$")
"""What of an error is about ladybug: the kind of its exception, the rule of its grammar, and the query again."""


@dataclass(frozen=True)
class Result:
    """The rows of a statement, as JSON data."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    more: bool


Asked = tuple[str, Mapping[str, Any]]
"""A statement and its parameters."""

Statement = Asked | tuple[str, Mapping[str, Any], int | None, int]
"""The same, and how many rows and bytes are wanted of what it finds: all of them, where it does not say."""


class LadybugProcess:
    """One file, opened by a process that runs some statements after the other. Whoever uses it takes turns."""

    def __init__(self, path: Path, *, name: str, timeout_s: float, max_bytes: int) -> None:
        self._name, self._timeout_s = name, timeout_s
        options = {
            "buffer_mib": _BUFFER_MIB,
            "besides_mib": _BESIDES_MIB + 8 * max_bytes // 2**20,
            "file_mib": _FILE_MIB,
            "log_bytes": _LOG_BYTES,
        }
        self._child = Child("interlock_agents.puntini.graphs.process_main", path.resolve(), options, needs="ladybug", sets=_MEMORY)
        self.pid = self._child.pid
        if "failed" in self._child.hello:
            raise self._unopened(self._child.hello)

    def is_ours(self) -> bool:
        """Tell whether it can be asked: it lives, and it is not that of the process that this one was forked from."""
        return self._child.is_ours()

    async def run(self, statements: Sequence[Statement], *, within: float, first: int = 0, commits: bool = False) -> list[Result]:
        """Run statements in their order, up to one that fails; the last one may be what commits the others, or itself.

        Where one of the `first` finds something, the others are not run. Where they do not end in time the process is killed, and what
        was not committed is undone.
        """
        # Where ladybug watches the time itself, it hands every statement to another thread and takes up to half as long again. That is for
        # what reads, which then does not cost the process; where a commit is late, the process is killed either way.
        timeout_ms = 0 if commits else max(1, int(within * 1000))
        wanted = {"statements": statements, "first": first, "timeout_ms": timeout_ms, "commits": commits}
        answer = await self._child.asked(wanted, within=within + _GRACE_S)
        if "failed" in answer:
            raise self._typed(answer)
        return [Result(columns=tuple(columns), rows=rows, more=more) for columns, rows, more in answer["results"]]

    async def undo(self) -> None:
        """Undo a transaction that failed."""
        if self.is_ours():
            try:
                await self.run([("ROLLBACK", {})], within=_UNDO_S)
            except ToolInputInvalid:
                pass  # ladybug undoes a transaction by itself when a statement fails
            except InterlockError:
                self.kill()

    def close(self) -> None:
        """Let the process close the file and end; one that does not is killed."""
        self._child.close()

    def kill(self) -> None:
        """End the process now."""
        self._child.kill()

    def _unopened(self, answer: Mapping[str, Any]) -> StoreError:
        said = str(answer.get("reason", ""))
        if answer["failed"] == DamagedFile.__name__:
            return StoreCorrupt(
                f"The file of graph '{self._name:.100}' is damaged, and is left as it is: {said}."
                " Restore the graphs folder from a copy, or delete the file and what stands beside it to begin with an empty graph."
            )
        if answer["failed"] == OpenElsewhere.__name__ or any(word in said for word in _LOCKED):
            return open_elsewhere(self._name)
        if any(word in said for word in _FULL):
            return StoreFull(f"There is no room to open graph '{self._name:.100}'.")
        if answer["failed"] == "late" or any(word in said for word in _CLOSED):
            return StoreUnavailable(f"Graph '{self._name:.100}' cannot be opened: {_reason(answer)}")
        return StoreCorrupt(f"The file of graph '{self._name:.100}' cannot be read, and is left as it is: {_reason(answer)}")

    def _typed(self, answer: Mapping[str, Any]) -> CapabilityError:
        failed, said = answer["failed"], str(answer.get("reason", ""))
        if failed == "late" or said.startswith("Interrupted"):
            return QueryTimeout(f"The query took longer than {self._timeout_s:g} seconds: ask for less.")
        if failed == "gone" and self._child.returncode == -signal.SIGSEGV:
            return StoreUnavailable(f"The process that has graph '{self._name:.100}' open has failed, and is started again.")
        if failed in {"gone", "MemoryError"} or "Buffer manager exception" in said or "bad_alloc" in said:
            return QueryTimeout("The query needs more memory than it may use: ask for less.")
        if any(word in said for word in _FULL):
            return StoreFull(f"There is no room for more in graph '{self._name:.100}'.")
        if said.startswith("IO exception"):
            return StoreUnavailable(f"Graph '{self._name:.100}' cannot be read or written: {_reason(answer)}")
        if table := _NO_TABLE.match(said):
            return NotInGraph(f"The graph has no label or relationship '{table['name']:.64}'.")
        if column := _NO_PROPERTY.match(said):
            return NotInGraph(f"What is asked for has no property '{column['name']:.64}' in this graph.")
        return ToolInputInvalid(f"The query cannot be run: {_reason(answer)}")


def open_elsewhere(name: str) -> SessionBusy:
    """Say that another process has a graph open."""
    return SessionBusy(
        f"Graph '{name:.100}' is open in another process, which did not close it in time. Try again when that one has ended."
    )


def _reason(answer: Mapping[str, Any]) -> str:
    """Take from the database's error what a model can use: one line, without a place on the machine."""
    line = _INTERNAL.sub("", _PATH.sub("...", " ".join(str(answer.get("reason", "")).split())))[:_MAX_REASON]
    return re.sub(r"(?<![.?!])$", ".", line) if line else "the database does not say why."
