"""The main module of a child process that answers queries from a DuckDB file.

DuckDB's own limits leave gaps: one function call can allocate gigabytes that it does not count, and cannot be interrupted. A child
process has a hard memory limit, can be killed, cannot write files, has an empty environment, and does not crash its parent.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import sys
import threading
import time
import types
from collections.abc import Generator, Sequence
from typing import Any

from interlock.processes.child_main import bound_files, bound_memory, json_value

__all__ = ["Page", "begin", "connect", "json_value"]

_MIB = 1024 * 1024
# Rows that are fetched from DuckDB at once.
_BATCH = 128
# Repeat the interruption: DuckDB ignores one that arrives between two steps.
_AGAIN_S = 0.02
_FORMAT = "SELECT version FROM main.interlock_format"
_FAILED = {
    "InterruptException": "timeout",
    "OutOfMemoryException": "memory",
    "PermissionException": "denied",
    "FatalException": "broken",
    "InternalException": "broken",
    "IOException": "broken",
    "Error": "broken",  # DuckDB raises it for a block with a wrong checksum
}
_COLUMNS = """
SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns()
WHERE NOT internal AND database_name = current_database() ORDER BY schema_name, table_name, column_index"""


class Page:
    """The first rows of a result as JSON data, within limits of rows and bytes."""

    def __init__(self, columns: Sequence[str], *, max_rows: int, max_bytes: int) -> None:
        self._columns = list(columns)
        self._rows: list[list[Any]] = []
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._bytes = len(json.dumps(self._columns, ensure_ascii=False).encode())
        self._cut = ""

    def add(self, row: Sequence[object]) -> bool:
        """Add a row. Return False if it exceeds a limit."""
        if len(self._rows) >= self._max_rows:
            self._cut = f"There are more rows; these are the first {self._max_rows:,}."
            return False
        values = [json_value(value) for value in row]
        size = len(json.dumps(values, ensure_ascii=False).encode()) + 2
        if self._bytes + size > self._max_bytes:
            self._cut = f"There are more rows; these are the first {len(self._rows):,}, in {self._max_bytes:,} bytes."
            return False
        self._bytes += size
        self._rows.append(values)
        return True

    def shown(self) -> dict[str, Any]:
        """Return the page. It has `cut` if there are more rows."""
        page: dict[str, Any] = {"columns": self._columns, "rows": self._rows, "row_count": len(self._rows)}
        return {**page, "cut": self._cut} if self._cut else page


def connect(path: str, *, memory_mib: int) -> Any:
    """Open a file read-only, without access to other files or extensions, and lock the configuration."""
    import duckdb  # noqa: PLC0415 - most of what it takes to start

    config: dict[str, Any] = {
        "temp_directory": "",
        "max_temp_directory_size": "0KB",
        "memory_limit": f"{memory_mib}MiB",
        "threads": 2,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_unsigned_extensions": False,
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,
        "python_scan_all_frames": False,
    }
    connection = duckdb.connect(path, read_only=True, config=config)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET GLOBAL enable_external_access = false")
    connection.execute("SET GLOBAL disabled_filesystems = 'LocalFileSystem'")
    connection.execute("SET GLOBAL lock_configuration = true")
    return connection


def begin(file: str, given: dict[str, Any]) -> _Queries:
    """Set the memory limit, forbid writing files, and open the database."""
    bound_memory(given["process_mib"] * _MIB)
    bound_files(0)
    sys.modules["pytz"] = _pytz()
    return _Queries(connect(file, memory_mib=given["memory_mib"]), given)


class _Queries:
    """Answers one query after another, each with its first rows."""

    def __init__(self, connection: Any, limits: dict[str, Any]) -> None:
        self._connection, self._limits = connection, limits
        self.hello = _contents(connection)

    def answer(self, request: str) -> dict[str, Any]:
        try:
            return _run(self._connection, request, self._limits)
        except MemoryError:
            return {"failed": "memory"}
        except Exception as error:  # noqa: BLE001 - DuckDB raises Python's own errors too
            return {"failed": _FAILED.get(type(error).__name__, "invalid"), "reason": str(error)}

    def close(self) -> None:
        self._connection.close()


def _run(connection: Any, sql: str, limits: dict[str, Any]) -> dict[str, Any]:
    until = time.monotonic() + limits["timeout_s"]
    statements = connection.extract_statements(sql)
    if [statement.type.name for statement in statements] != ["SELECT"]:
        return {"failed": "denied"}
    with connection.cursor() as cursor, _interrupting(cursor, until):
        cursor.execute(statements[0])
        page = Page([column[0] for column in cursor.description], max_rows=limits["max_rows"], max_bytes=limits["max_bytes"])
        while rows := cursor.fetchmany(_BATCH):
            if not all(page.add(row) for row in rows):
                break
            if time.monotonic() > until:
                return {"failed": "timeout"}
    return {"page": page.shown()}


def _contents(connection: Any) -> dict[str, Any]:
    """Return the columns of all tables, and the format version of a demo file."""
    rows = connection.execute(_COLUMNS).fetchall()
    is_ours = any(row[:2] == ("main", "interlock_format") for row in rows)
    return {"format": connection.execute(_FORMAT).fetchone()[0] if is_ours else None, "columns": rows}


@contextlib.contextmanager
def _interrupting(cursor: Any, until: float) -> Generator[None, None, None]:
    """Interrupt a query at its deadline, repeatedly until it ends."""
    done = threading.Event()

    def wait() -> None:
        pause = max(0.0, until - time.monotonic())
        while not done.wait(pause):
            cursor.interrupt()
            pause = _AGAIN_S

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _Utc(dt.tzinfo):
    """UTC with the interface of pytz, which DuckDB uses for times with a zone."""

    def utcoffset(self, _: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta()

    def dst(self, _: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta()

    def localize(self, moment: dt.datetime) -> dt.datetime:
        return moment.replace(tzinfo=dt.UTC)


def _pytz() -> types.ModuleType:
    """Return a replacement for pytz, so that it need not be installed. Every zone is UTC."""
    pytz, utc = types.ModuleType("pytz"), _Utc()
    pytz.__dict__.update(utc=utc, UTC=utc, timezone=lambda _: utc)  # pyright: ignore[reportUnknownLambdaType] - any name
    return pytz
