"""The process that has a ladybug file open, and what its failures mean."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from interlock.adapters.graphs import lodger
from interlock.errors import (
    CapabilityError,
    NotInGraph,
    QueryTimeout,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
    ToolInputInvalid,
)

__all__ = ["Lodging", "Result"]

_START_S = 30.0  # how long a process may take to begin, on a machine that is busy
_GRACE_S = 0.5  # for a statement that is interrupted to end; after that its process is killed
_CLOSE_S = 10.0
_BUFFER_MIB = 256
_BESIDES_MIB = 512  # for what ladybug does not keep in its buffer pool
_FILE_MIB = 64 * 1024  # addresses that are set aside for the file, not room on a disk
_ALL_ROWS = 2**31
_MAX_REASON = 400
_PATH = re.compile(r"(?:/[^\s/'\"]+){2,}/?")
_FULL = ("No space left", "Disk quota", "File too large", "Cannot write to file")
_LOCKED = ("Could not set lock",)
_CLOSED = ("Cannot open file", "ermission denied", "Read-only file system", "cannot be a directory", "open files")
_MISSING = re.compile(r"Binder exception: (?:Table .* does not exist|Cannot find property)")


@dataclass(frozen=True)
class Result:
    """The rows of a statement, as JSON data."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    more: bool


class Lodging:
    """One file, opened by a process that runs one statement after another. Whoever uses it takes turns."""

    def __init__(self, path: Path, *, name: str, timeout_s: float, max_bytes: int) -> None:
        self._name, self._timeout_s = name, timeout_s
        self._owner = os.getpid()
        self._line, theirs = socket.socketpair()
        found = importlib.util.find_spec("ladybug")
        options = {
            "path": [str(Path(found.origin).parent.parent)] if found is not None and found.origin else [],
            "buffer_mib": _BUFFER_MIB,
            "besides_mib": _BESIDES_MIB + 8 * max_bytes // 2**20,
            "file_mib": _FILE_MIB,
        }
        environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - a program of ours
                [sys.executable, "-I", lodger.__file__, str(path.resolve()), json.dumps(options)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        weakref.finalize(self, _end, self._process, self._line, self._owner)
        answer = self._hear(_START_S)
        if "failed" in answer:
            self.kill()
            raise self._unopened(answer)

    def is_ours(self) -> bool:
        """Tell whether it can be asked: it lives, and it is not that of the process that this one was forked from."""
        return self._owner == os.getpid() and self._line.fileno() >= 0 and self._process.poll() is None

    def run(
        self,
        statement: str,
        parameters: Mapping[str, JsonValue] | None = None,
        *,
        within: float,
        rows: int = _ALL_ROWS,
        most: int = _ALL_ROWS,
    ) -> Result:
        """Run one statement. One that does not end in time has its process killed, and what was not committed is undone."""
        wanted = {
            "statement": statement,
            "parameters": parameters or {},
            "rows": rows,
            "bytes": most,
            "timeout_ms": max(1, int(within * 1000)),
        }
        try:
            self._line.settimeout(within + _GRACE_S)
            self._line.sendall(json.dumps(wanted).encode() + b"\n")
        except OSError:
            answer: dict[str, Any] = {"failed": "gone"}
        else:
            answer = self._hear(within + _GRACE_S)
        if "failed" in answer:
            if answer["failed"] == "gone":
                self._ended()
            if answer["failed"] in {"gone", "late"}:
                self.kill()
            raise self._typed(answer)
        return Result(columns=tuple(answer["columns"]), rows=answer["rows"], more=answer["more"])

    def close(self) -> None:
        """Let the process close the file and end; one that does not is killed."""
        if not self.is_ours():
            self.kill()
            return
        try:
            self._line.settimeout(_CLOSE_S)
            self._line.sendall(b"null\n")
            self._process.wait(_CLOSE_S)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.kill()

    def kill(self) -> None:
        """End the process now."""
        _end(self._process, self._line, self._owner)

    def _ended(self) -> None:
        """Learn how it came to its end, if that was by itself."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)

    def _hear(self, within: float) -> dict[str, Any]:
        until = time.monotonic() + within
        heard = bytearray()
        while not heard.endswith(b"\n"):
            try:
                self._line.settimeout(max(0.001, until - time.monotonic()))
                piece = self._line.recv(1 << 20)
            except TimeoutError:
                return {"failed": "late"}
            except OSError:
                piece = b""
            if not piece:
                return {"failed": "gone"}
            heard += piece
        return json.loads(heard)

    def _unopened(self, answer: Mapping[str, Any]) -> StoreError:
        said = str(answer.get("reason", ""))
        if any(word in said for word in _LOCKED):
            return StoreUnavailable(f"Graph '{self._name:.100}' is open in another process: try again when that one has ended.")
        if any(word in said for word in _FULL):
            return StoreFull(f"There is no room to open graph '{self._name:.100}'.")
        if answer["failed"] == "late" or any(word in said for word in _CLOSED):
            return StoreUnavailable(f"Graph '{self._name:.100}' cannot be opened: {_reason(answer)}")
        return StoreCorrupt(f"The file of graph '{self._name:.100}' cannot be read, and is left as it is: {_reason(answer)}")

    def _typed(self, answer: Mapping[str, Any]) -> CapabilityError:
        failed, said = answer["failed"], str(answer.get("reason", ""))
        if failed == "late" or said.startswith("Interrupted"):
            return QueryTimeout(f"The query took longer than {self._timeout_s:g} seconds: ask for less.")
        if failed == "gone" and self._process.returncode == -signal.SIGSEGV:
            return StoreUnavailable(f"The process that has graph '{self._name:.100}' open has failed, and is started again.")
        if failed in {"gone", "MemoryError"} or "Buffer manager exception" in said or "bad_alloc" in said:
            return QueryTimeout("The query needs more memory than it may use: ask for less.")
        if any(word in said for word in _FULL):
            return StoreFull(f"There is no room for more in graph '{self._name:.100}'.")
        if said.startswith("IO exception"):
            return StoreUnavailable(f"Graph '{self._name:.100}' cannot be read or written: {_reason(answer)}")
        if _MISSING.match(said):
            return NotInGraph(f"The graph has no such thing: {_reason(answer)}")
        return ToolInputInvalid(f"The query cannot be run: {_reason(answer)}")


def _end(process: subprocess.Popen[bytes], line: socket.socket, owner: int) -> None:
    line.close()
    if owner == os.getpid():
        process.kill()
        process.wait()


def _reason(answer: Mapping[str, Any]) -> str:
    """Take from the database's error what a model can use: one line, without a place on the machine."""
    line = _PATH.sub("...", " ".join(str(answer.get("reason", "")).split()))[:_MAX_REASON]
    return re.sub(r"(?<![.?!])$", ".", line) if line else "the database does not say why."
