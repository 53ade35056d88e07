"""Checksums of a ladybug file, which tell a damaged file from a good one.

ladybug opens an empty or damaged file as an empty database, without an error, and writes to it. Therefore `NAME.lbug.sum` records the
checksum of `NAME.lbug` when it was last written, and how much of its log was committed.

The file itself changes only while ladybug merges the log into it, which happens on request: before a merge the record says `merging`,
and after it the record has the new checksum. A commit appends to the log, and then the record is updated. So a process that is killed
at any moment leaves a record that is true of its file: the log may be longer than recorded, never shorter. Only an interrupted merge
cannot be checked by a checksum; ladybug finishes it when it opens the file, and then there must be as many tables as before.

A process also locks the file by its record. The record is written in place, into one of two slots in turn, so that the other slot is
intact if the machine loses power during a write. The child process imports this module: it imports nothing of Interlock.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

__all__ = ["Checksums", "DamagedFile", "OpenElsewhere"]

_SLOT = 512
_PAGE = 4096
_MAGIC = b"LBUG"
_EMPTY = hashlib.sha256().hexdigest()


class DamagedFile(Exception):
    """The file differs from what was last written."""


class OpenElsewhere(Exception):
    """Another process has the file open."""


@dataclass(frozen=True)
class _Record:
    """The state of the file. `number` counts the records; `log` and `log_sum` are the size and checksum of the committed log."""

    number: int = 0
    state: Literal["new", "whole", "merging"] = "new"
    size: int = 0
    sum: str = ""
    log: int = 0
    log_sum: str = _EMPTY
    tables: int = 0


class Checksums:
    """The record of one ladybug file. All methods but `log_size` need the lock."""

    def __init__(self, path: Path) -> None:
        self.file = path.with_name(f"{path.name}.sum")
        self._path = path
        self._log = path.with_name(f"{path.name}.wal")
        self._merged_log = path.with_name(f"{path.name}.wal.checkpoint")
        self._opened: int | None = None
        self._record: _Record | None = None
        self._log_hash = hashlib.sha256()

    def lock(self) -> None:
        """Lock the file until `unlock` or the end of the process. Raises OpenElsewhere if another process has locked it."""
        try:
            import fcntl  # noqa: PLC0415 - Windows does not have it
        except ImportError as error:
            raise OSError(errno.ENOTSUP, "Cannot open file: files cannot be locked on this system") from error
        while self._opened is None:
            opened = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self.file.exists() and os.path.samestat(os.fstat(opened), self.file.stat()):
                    self._opened, opened = opened, -1
            except BlockingIOError:
                raise OpenElsewhere from None
            finally:
                if opened >= 0:
                    os.close(opened)

    def is_locked(self) -> bool:
        """Return whether another process has the file open."""
        try:
            self.lock()
        except OpenElsewhere:
            return True
        self.unlock()
        return False

    def unlock(self) -> None:
        """Release the lock."""
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None

    def check(self) -> None:
        """Compare the file with its record before it is opened. Raises DamagedFile, and changes nothing then."""
        self._record = record = self._read()
        if record is None or record.state == "new":
            self._check_unknown(record)
        elif record.state == "whole":
            self._check_sum(record)
            self._check_log(record, self._log)
        else:
            self._check_merging(record)

    def drop_tail(self) -> bool:
        """Cut an incomplete entry off the log, which a killed writer has left. Return whether there was one."""
        record = self._record
        if record is None or record.state == "new" or self.log_size() <= record.log:
            return False
        os.truncate(self._log, record.log)
        return True

    def opened(self, tables: int) -> None:
        """Record that ladybug has opened the file, with this number of tables. Raises DamagedFile if there were more before."""
        record = self._record
        if record is not None and record.state == "whole":
            return
        if record is not None and tables < record.tables:
            raise DamagedFile("it has fewer tables than before")
        self._write_whole(tables)

    def committed(self) -> None:
        """Record that the content of the log is committed."""
        record = self._known
        with self._log.open("rb") as log:
            log.seek(record.log)
            added = log.read()
        self._log_hash.update(added)
        self._write(replace(record, log=record.log + len(added), log_sum=self._log_hash.hexdigest()))

    def merging(self, tables: int) -> None:
        """Record that the file is about to change."""
        self._write(replace(self._known, state="merging", tables=tables), to_disk=True)

    def merged(self) -> None:
        """Record that the file has changed, and that its log was merged."""
        self._write_whole(self._known.tables)

    def log_size(self) -> int:
        """Return the size of the log in bytes."""
        return _size(self._log)

    def cut(self, size: int) -> None:
        """Truncate the log to a size, after the process that appended to it has died.

        Does nothing if another process has opened the file since, or if a merge had begun.
        """
        try:
            self.lock()
        except OpenElsewhere:
            return
        try:
            record = self._read()
            if record is not None and record.state == "whole" and self.log_size() > size:
                if record.log > size:
                    self._write(replace(record, log=size, log_sum=_sum(self._log, size)))
                os.truncate(self._log, size)
        finally:
            self.unlock()

    @property
    def _known(self) -> _Record:
        assert self._record is not None  # noqa: S101 - the caller has opened the file
        return self._record

    def _check_unknown(self, record: _Record | None) -> None:
        """Check a file without a record: a new one, which may be empty, or one of an earlier version."""
        size = _size(self._path)
        if size:
            self._check_header()
        elif self.log_size():
            raise DamagedFile("it is missing or empty, and its log is not")
        elif record is None and self._path.exists():
            raise DamagedFile("it is empty")
        if record is None and not size:
            self._write(_Record(), to_disk=True)

    def _check_merging(self, record: _Record) -> None:
        """Check a file with an interrupted merge: its log is unchanged, or was merged."""
        log = self._log if self._log.exists() else self._merged_log
        if _size(log):
            self._check_log(record, log)
        elif record.log and _size(self._path) == record.size and _sum(self._path) == record.sum:
            raise DamagedFile("its log is missing")
        self._check_header()

    def _check_sum(self, record: _Record) -> None:
        if _size(self._path) != record.size or _sum(self._path) != record.sum:
            raise DamagedFile("it is not what was last written")

    def _check_log(self, record: _Record, log: Path) -> None:
        if _size(log) < record.log or _sum(log, record.log) != record.log_sum:
            raise DamagedFile("its log is not what was last written")
        self._log_hash = _hash(log, record.log)

    def _check_header(self) -> None:
        size = _size(self._path)
        with self._path.open("rb") as file:
            if not size or size % _PAGE or file.read(len(_MAGIC)) != _MAGIC:
                raise DamagedFile("it is not a graph, or only a part of one")

    def _write_whole(self, tables: int) -> None:
        size = self.log_size()
        self._log_hash = _hash(self._log, size)
        record = _Record(
            number=self._known.number if self._record else 0,
            state="whole",
            size=_size(self._path),
            sum=_sum(self._path),
            log=size,
            log_sum=self._log_hash.hexdigest(),
            tables=tables,
        )
        self._write(record, to_disk=True)

    def _write(self, record: _Record, *, to_disk: bool = False) -> None:
        assert self._opened is not None  # noqa: S101 - the caller has locked it
        record = replace(record, number=record.number + 1)
        text = json.dumps(asdict(record)).encode()
        slot = b"%08x %s" % (zlib.crc32(text), text)
        os.pwrite(self._opened, slot.ljust(_SLOT - 1) + b"\n", record.number % 2 * _SLOT)
        if to_disk:
            os.fsync(self._opened)
        self._record = record

    def _read(self) -> _Record | None:
        """Return the newest record, if there is one."""
        assert self._opened is not None  # noqa: S101 - the caller has locked it
        content = os.pread(self._opened, 2 * _SLOT, 0)
        found = [record for record in map(_record, (content[:_SLOT], content[_SLOT:])) if record is not None]
        if not found and content:
            raise DamagedFile("its checksums cannot be read")
        return max(found, key=lambda record: record.number, default=None)


def _record(slot: bytes) -> _Record | None:
    crc, _, text = slot.strip(b" \n\0").partition(b" ")
    try:
        if int(crc, 16) != zlib.crc32(text):
            return None
        fields: dict[str, Any] = json.loads(text)
        return _Record(**fields)
    except (ValueError, TypeError):
        return None


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _sum(file: Path, size: int | None = None) -> str:
    return _hash(file, _size(file) if size is None else size).hexdigest()


def _hash(file: Path, size: int) -> Any:
    made = hashlib.sha256()
    if size:
        with file.open("rb") as opened:
            while size > 0 and (chunk := opened.read(min(size, 1 << 20))):
                made.update(chunk)
                size -= len(chunk)
    return made
