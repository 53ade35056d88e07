"""Access to the files below a folder, and to nothing else."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.errors import InputTooLarge
from interlock_agents.gateway.errors import PathDenied
from interlock_agents.gateway.files.failures import translated_errors
from interlock_agents.gateway.files.paths import can_be_asked_for, parts, shown
from interlock_agents.gateway.files.resolvers import ENTER, LIST, ResolverName, resolver_named
from interlock_agents.gateway.files.root import Root

__all__ = ["Entry", "Scope"]

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_CHUNK = 1 << 20
_DEPTH = 128  # the deepest nesting of folders that is walked; as many descriptors are open


@dataclass(frozen=True)
class Entry:
    """A regular file or a folder, with its path in the scope."""

    path: str
    is_folder: bool
    size: int
    modified: float


class Scope:
    """Reads and writes regular files below a folder. Paths start with `/`, which is the folder.

    Every file is opened relative to the folder's descriptor and without following links, so a path cannot lead out of it, not
    even while another process replaces folders by links. Links, devices, FIFOs, sockets and files with a second hard link
    are not listed, and any other access raises PathDenied. A missing file raises FileNotFoundError, and so on. No message has
    the path of the folder itself.
    """

    def __init__(
        self, root: Path, *, writable: bool, max_bytes: int = 10_000_000, max_entries: int = 10_000, resolver: ResolverName | None = None
    ) -> None:
        self.writable = writable
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self._root = Root(root)
        with self._root.lent() as descriptor:
            self._resolver = resolver_named(resolver, descriptor)

    def close(self) -> None:
        """Close the folder. Running operations finish; new ones are refused."""
        self._root.close()

    def stat(self, path: str) -> Entry:
        """Return the entry at a path."""
        names = parts(path)
        with translated_errors(path):
            if not names:
                with self._folder((), ENTER) as folder:
                    return _entry("/", os.fstat(folder))
            with self._folder(names[:-1], ENTER) as folder:
                return _entry(_joined(names), _looked_at(folder, names[-1], path))

    def entries(self, path: str) -> list[Entry]:
        """List a folder, by name."""
        names = parts(path)
        with translated_errors(path), self._folder(names, LIST) as folder:
            found, seen = self._listed(folder, _joined(names), self.max_entries)
        if seen > self.max_entries:
            raise InputTooLarge(f"The folder {shown(path)} has more than {self.max_entries:,} entries.")
        return found

    def walk(self, path: str) -> Iterator[Entry]:
        """Yield everything below a folder: its entries, sorted by name, then those of its folders.

        Raises InputTooLarge after `max_entries`. A folder that was deleted or cannot be opened is skipped.
        """
        names = parts(path)
        with translated_errors(path), self._folder(names, LIST) as folder:
            yield from self._walked(folder, _joined(names))

    def read(self, path: str) -> bytes:
        """Read a file."""
        names = _of_a_file(path)
        with translated_errors(path), self._folder(names[:-1], ENTER) as folder:
            _plain(_looked_at(folder, names[-1], path), path)
            descriptor = self._resolver.leaf(folder, names[-1], _READ)
            try:
                self._fits(_plain(os.fstat(descriptor), path).st_size, path)
                return self._bytes(descriptor, path)
            finally:
                os.close(descriptor)

    def create(self, path: str, data: bytes) -> None:
        """Create a file and its folders. Raises FileExistsError if the file exists."""
        names = self._to_write(path, len(data))
        with translated_errors(path), self._made(names[:-1]) as folder:
            descriptor = os.open(names[-1], _CREATE, _FILE_MODE, dir_fd=folder)
            with _undone(folder, names[-1]):
                _fill(descriptor, data, _FILE_MODE)

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file atomically. Creates its folders."""
        names = self._to_write(path, len(data))
        with translated_errors(path), self._made(names[:-1]) as folder:
            mode = _FILE_MODE
            with suppress(FileNotFoundError):
                mode = stat.S_IMODE(_plain(_looked_at(folder, names[-1], path), path).st_mode) & 0o777
            beside = f".{secrets.token_hex(12)}.tmp"
            descriptor = os.open(beside, _CREATE, _FILE_MODE, dir_fd=folder)
            with _undone(folder, beside):
                _fill(descriptor, data, mode)
                os.rename(beside, names[-1], src_dir_fd=folder, dst_dir_fd=folder)

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with its contents. A folder that contains something else than regular files is not changed."""
        names = parts(path)
        self._may_write(path)
        if not names:
            raise PathDenied("The root of the scope cannot be deleted.")
        with translated_errors(path), self._folder(names[:-1], ENTER) as folder:
            if stat.S_ISDIR(_looked_at(folder, names[-1], path).st_mode):
                with self._below(folder, names[-1]) as doomed:
                    self._check(doomed, path, self.max_entries)
                # Opens every folder by its descriptor and follows no link, also if another process adds one meanwhile.
                shutil.rmtree(names[-1], dir_fd=folder)
            else:
                _plain(_looked_at(folder, names[-1], path), path)
                os.unlink(names[-1], dir_fd=folder)

    @contextmanager
    def _folder(self, names: Sequence[str], flags: int) -> Generator[int]:
        with self._root.lent() as root:
            descriptor = self._resolver.folder(root, names, flags)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def _below(self, folder: int, name: str) -> Generator[int]:
        descriptor = self._resolver.folder(folder, (name,), LIST)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _made(self, names: Sequence[str]) -> Generator[int]:
        with self._root.lent() as root:
            try:
                descriptor = self._resolver.folder(root, names, ENTER)
            except FileNotFoundError:
                descriptor = self._make(root, names)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    def _make(self, root: int, names: Sequence[str]) -> int:
        at = self._resolver.folder(root, (), ENTER)
        for name in names:
            try:
                is_new = False
                with suppress(FileExistsError):
                    os.mkdir(name, _FOLDER_MODE, dir_fd=at)
                    is_new = True
                below = self._resolver.folder(at, (name,), LIST if is_new else ENTER)
                if is_new:
                    os.fchmod(below, _FOLDER_MODE)
            finally:
                os.close(at)
            at = below
        return at

    def _listed(self, folder: int, path: str, most: int) -> tuple[list[Entry], int]:
        """Return the regular files and folders in a folder, sorted by name, and the number of entries, up to `most` + 1."""
        prefix = path if path.endswith("/") else f"{path}/"
        found: list[Entry] = []
        seen = 0
        with os.scandir(folder) as entries:
            for entry in entries:
                seen += 1
                if seen > most:
                    break
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if can_be_asked_for(prefix + entry.name) and _is_plain(status):
                        found.append(_entry(prefix + entry.name, status))
        found.sort(key=lambda entry: entry.path)
        return found, seen

    def _walked(self, start: int, path: str) -> Iterator[Entry]:
        left = self.max_entries
        stack: list[tuple[int, Iterator[Entry]]] = []
        opened: list[int] = []
        try:
            folder, at = start, path
            while True:
                found, seen = self._listed(folder, at, left)
                yield from found
                left -= seen
                if left < 0:
                    raise InputTooLarge(f"There are more than {self.max_entries:,} entries in {shown(path)}.")
                stack.append((folder, iter([entry for entry in found if entry.is_folder])))
                entered = self._next(stack, opened)
                if entered is None:
                    return
                folder, at = entered
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _next(self, stack: list[tuple[int, Iterator[Entry]]], opened: list[int]) -> tuple[int, str] | None:
        """Open the next folder of a walk, and close those that are finished."""
        while stack:
            folder, below = stack[-1]
            for entry in below:
                if len(stack) > _DEPTH:
                    break
                try:
                    descriptor = self._resolver.folder(folder, (entry.path.rpartition("/")[2],), LIST)
                except OSError:
                    continue
                opened.append(descriptor)
                return descriptor, entry.path
            stack.pop()
            if stack:
                os.close(opened.pop())
        return None

    def _bytes(self, descriptor: int, path: str) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while chunk := os.read(descriptor, min(_CHUNK, self.max_bytes + 1 - size)):
            chunks.append(chunk)
            size += len(chunk)
            self._fits(size, path)
        return b"".join(chunks)

    def _fits(self, size: int, path: str) -> None:
        if size > self.max_bytes:
            raise InputTooLarge(f"The file {shown(path)} is larger than {self.max_bytes:,} bytes.")

    def _may_write(self, path: str) -> None:
        if not self.writable:
            raise PathDenied(f"The path {shown(path)} is read-only.")

    def _to_write(self, path: str, size: int) -> tuple[str, ...]:
        names = _of_a_file(path)
        self._may_write(path)
        self._fits(size, path)
        return names

    def _check(self, folder: int, path: str, left: int, depth: int = 0) -> int:
        """Raise PathDenied if a folder contains something that must not be deleted. Returns how many more entries are allowed."""
        below: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                left -= 1
                status = entry.stat(follow_symlinks=False)
                if left < 0 or depth > _DEPTH:
                    raise InputTooLarge(f"There is too much in {shown(path)} to delete it at once.")
                if not _is_plain(status):
                    raise PathDenied(f"In the folder {shown(path)} there is a link, or something that is no plain file.")
                if stat.S_ISDIR(status.st_mode):
                    below.append(entry.name)
        for name in below:
            with self._below(folder, name) as inner:
                left = self._check(inner, path, left, depth + 1)
        return left


def _joined(names: Sequence[str]) -> str:
    return "/" + "/".join(names)


def _of_a_file(path: str) -> tuple[str, ...]:
    names = parts(path)
    if not names:
        with translated_errors(path):
            raise IsADirectoryError(errno.EISDIR, "")
    return names


def _entry(path: str, status: os.stat_result) -> Entry:
    is_folder = stat.S_ISDIR(status.st_mode)
    return Entry(path, is_folder, 0 if is_folder else status.st_size, status.st_mtime)


def _is_plain(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink <= 1)


def _looked_at(folder: int, name: str, path: str) -> os.stat_result:
    """Return the status of a name in a folder. Raises PathDenied unless it is a regular file or a folder."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise PathDenied(f"The path {shown(path)} leads through a link.")
    if not _is_plain(status):
        raise PathDenied(f"The path {shown(path)} is no plain file, or the file has another name elsewhere.")
    return status


def _plain(status: os.stat_result, path: str) -> os.stat_result:
    """Raise IsADirectoryError for a folder, and PathDenied for anything else that is not a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "")
    if not _is_plain(status):
        raise PathDenied(f"The path {shown(path)} is no plain file, or the file has another name elsewhere.")
    return status


@contextmanager
def _undone(folder: int, name: str) -> Generator[None]:
    """Delete a new file if the block fails."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


def _fill(descriptor: int, data: bytes, mode: int) -> None:
    try:
        os.fchmod(descriptor, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)
