"""Searches files by name, and lines by their text."""

from __future__ import annotations

import io
import posixpath
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from interlock.errors import InputTooLarge, InterlockError
from interlock_agents.gateway.errors import PathDenied
from interlock_agents.gateway.files.paths import parts
from interlock_agents.gateway.files.patterns import NamePattern
from interlock_agents.gateway.files.scope import Entry, Scope

__all__ = ["FoundFiles", "FoundLines", "Line", "find_files", "find_lines"]

_SECONDS = 5.0  # less than deepagents waits
_FILES_READ = 20  # files of the maximum size that one search may read
_LINES = 10_000
_LINES_BETWEEN_CHECKS = 1024


@dataclass(frozen=True)
class Line:
    """A matching line. Numbers start at 1."""

    path: str
    number: int
    text: str


@dataclass
class FoundFiles:
    """Matching files, sorted by path. `is_all` is False if the search was cut short."""

    entries: list[Entry] = field(default_factory=list[Entry])
    is_all: bool = True


@dataclass
class FoundLines:
    """Matching lines by file. `is_all` is False if the search was cut short; `half_read` lists files that could be read only in part."""

    lines: list[Line] = field(default_factory=list[Line])
    is_all: bool = True
    half_read: list[str] = field(default_factory=list[str])


class _Stop(Exception):
    """The search has reached one of its limits."""


def find_files(scope: Scope, pattern: str, path: str) -> FoundFiles:
    """Find the files below a folder whose names or paths match a pattern. A path that is not a folder has no files."""
    until = time.monotonic() + _SECONDS
    wanted = NamePattern(pattern, until=until)
    found = FoundFiles()
    try:
        for entry in _files(scope, path, wanted, until):
            found.entries.append(entry)
    except (FileNotFoundError, NotADirectoryError):
        return found
    except (_Stop, InputTooLarge):
        found.is_all = False
    found.entries.sort(key=lambda entry: entry.path)
    return found


def find_lines(scope: Scope, text: str, path: str, pattern: str | None, most: int | None) -> FoundLines:
    """Find the lines that contain a literal text, in a file or in the files below a folder whose names match a pattern."""
    search = _LineSearch(scope, text, _LINES if most is None else min(most, _LINES))
    wanted = None if pattern is None else NamePattern(pattern, until=search.until)
    try:
        start = scope.stat(path)
        data = b"" if start.is_folder else scope.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return search.found
    try:
        if start.is_folder:
            for entry in _files(scope, path, wanted, search.until):
                search.search_file(entry)
        elif wanted is None or wanted.matches(posixpath.basename(start.path)):
            search.search_text(start.path, data)
    except (FileNotFoundError, NotADirectoryError):
        return search.found
    except (_Stop, InputTooLarge):
        search.found.is_all = False
    return search.found


def _files(scope: Scope, path: str, wanted: NamePattern | None, until: float) -> Iterator[Entry]:
    start = "/" + "/".join(parts(path))
    skipped = len(start) if start == "/" else len(start) + 1
    for entry in scope.walk(path):
        if time.monotonic() > until:
            raise _Stop
        if not entry.is_folder and (wanted is None or wanted.matches(entry.path[skipped:])):
            yield entry


class _LineSearch:
    """One search, with the limits that are left."""

    def __init__(self, scope: Scope, text: str, most: int) -> None:
        self.until = time.monotonic() + _SECONDS
        self.found = FoundLines()
        self._scope = scope
        self._text = text
        self._most = most
        self._bytes_left = _FILES_READ * scope.max_bytes
        self._characters_left = scope.max_bytes

    def search_file(self, file: Entry) -> None:
        """Search one of many files. Files that are too large, were deleted, cannot be opened or are not text are skipped."""
        if file.size > self._scope.max_bytes:
            return
        if file.size > self._bytes_left:
            raise _Stop
        self._bytes_left -= file.size
        try:
            data = self._scope.read(file.path)
        except (PathDenied, InputTooLarge, FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return
        except InterlockError as error:
            self.found.half_read.append(f"{file.path}: {error.code}")
            return
        self.search_text(file.path, data)

    def search_text(self, path: str, data: bytes) -> None:
        """Search the content of a file."""
        number = 0
        try:
            for number, line in enumerate(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"), 1):
                if self._text in line:
                    self._keep(Line(path, number, line.rstrip("\n")))
                if number % _LINES_BETWEEN_CHECKS == 0 and time.monotonic() > self.until:
                    raise _Stop
        except UnicodeDecodeError:
            if number:
                self.found.half_read.append(f"{path}: is text only up to line {number}")

    def _keep(self, line: Line) -> None:
        self._characters_left -= len(line.text)
        if len(self.found.lines) >= self._most or self._characters_left < 0:
            raise _Stop
        self.found.lines.append(line)
