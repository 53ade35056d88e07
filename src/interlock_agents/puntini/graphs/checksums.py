"""What is known of a ladybug file apart from the file: checksums that tell a damaged one from a good one.

ladybug opens an empty or damaged file as an empty database, without an error, and writes to it. So beside `NAME.lbug` there is
`NAME.lbug.sum`. Its record says what the file was when it was last written, and how much of the log beside it was committed.

The file itself changes only while ladybug merges the log into it, which happens when we say so: before that the record says `merging`,
after that it has the new checksum. A commit appends to the log, and then the record is brought up to date. So a process that is killed
at any moment leaves a record that is true of its file: the log may be longer than the record says, never shorter. Only a merge that was
killed cannot be checked by a checksum; ladybug finishes it when it opens the file, and then there must be as many tables as before.

The record is also where a process locks the file. It is written in place, in one of two slots by turns, so that a machine that loses
power in the middle of a write still has the other one. Imported by the child: nothing of Interlock is imported here.
"""

from __future__ import annotations

import fcntl
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
    """The file is not what was last written."""


class OpenElsewhere(Exception):
    """Another process has the file open."""


@dataclass(frozen=True)
class _Record:
    """What was last written. `number` counts the records; `log` and `log_sum` are the size and the checksum of what was committed."""

    number: int = 0
    state: Literal["new", "whole", "merging"] = "new"
    size: int = 0
    sum: str = ""
    log: int = 0
    log_sum: str = _EMPTY
    tables: int = 0


class Checksums:
    """The record of one ladybug file. Whoever calls something else than `log_size` has locked it."""

    def __init__(self, path: Path) -> None:
        self.file = path.with_name(f"{path.name}.sum")
        self._path = path
        self._log = path.with_name(f"{path.name}.wal")
        self._merged_log = path.with_name(f"{path.name}.wal.checkpoint")
        self._opened: int | None = None
        self._record: _Record | None = None
        self._log_hash = hashlib.sha256()

    def lock(self) -> None:
        """Keep other processes out for as long as this one lives, or raise OpenElsewhere."""
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
        """Tell whether another process has the file open."""
        try:
            self.lock()
        except OpenElsewhere:
            return True
        self.unlock()
        return False

    def unlock(self) -> None:
        """Let other processes in."""
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None

    def check(self) -> None:
        """Compare the file with its record, before it is opened. Raises DamagedFile; nothing is changed then."""
        self._record = record = self._read()
        if record is None or record.state == "new":
            self._check_unknown(record)
        elif record.state == "whole":
            self._check_sum(record)
            self._check_log(record, self._log)
        else:
            self._check_merging(record)

    def drop_tail(self) -> bool:
        """Cut off what was being appended to the log when its writer was killed; return False where there is no such thing."""
        record = self._record
        if record is None or record.state == "new" or self.log_size() <= record.log:
            return False
        os.truncate(self._log, record.log)
        return True

    def opened(self, tables: int) -> None:
        """Note that ladybug has opened the file and found so many tables. Raises DamagedFile where there were more."""
        record = self._record
        if record is not None and record.state == "whole":
            return
        if record is not None and tables < record.tables:
            raise DamagedFile("it has fewer tables than before")
        self._write_whole(tables)

    def committed(self) -> None:
        """Note that what is in the log is committed."""
        record = self._known
        with self._log.open("rb") as log:
            log.seek(record.log)
            added = log.read()
        self._log_hash.update(added)
        self._write(replace(record, log=record.log + len(added), log_sum=self._log_hash.hexdigest()))

    def merging(self, tables: int) -> None:
        """Note that the file is about to be changed."""
        self._write(replace(self._known, state="merging", tables=tables), to_disk=True)

    def merged(self) -> None:
        """Note that the file has been changed, and that its log is gone."""
        self._write_whole(self._known.tables)

    def log_size(self) -> int:
        """Return how many bytes the log has."""
        return _size(self._log)

    def cut(self, size: int) -> None:
        """Take back what was appended to the log by a process that has died since the log had this size.

        Where another process has the file by now, or a merge had begun, it is left as it is.
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
        assert self._record is not None  # noqa: S101 - whoever calls has opened the file
        return self._record

    def _check_unknown(self, record: _Record | None) -> None:
        """Check a file that has no record: it is to be made, or an earlier version has made it. One that is being made may be empty."""
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
        """Check a file whose log was being merged into it: its log is as it was, or has been merged."""
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
                raise DamagedFile("it is not a graph, or a part of one")

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
        assert self._opened is not None  # noqa: S101 - whoever calls has locked it
        record = replace(record, number=record.number + 1)
        text = json.dumps(asdict(record)).encode()
        slot = b"%08x %s" % (zlib.crc32(text), text)
        os.pwrite(self._opened, slot.ljust(_SLOT - 1) + b"\n", record.number % 2 * _SLOT)
        if to_disk:
            os.fsync(self._opened)
        self._record = record

    def _read(self) -> _Record | None:
        """Return the newest record; None where there is none yet."""
        assert self._opened is not None  # noqa: S101 - likewise
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
            while size > 0 and (piece := opened.read(min(size, 1 << 20))):
                made.update(piece)
                size -= len(piece)
    return made
