"""The program of the child process that has a ladybug file open and runs statements on it.

Ladybug's own limits have gaps: one call of `range` can run for minutes, take gigabytes outside of the buffer pool, and ignore interrupts.
A process can have hard limits and can be killed. Committed transactions are in the file.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from interlock.processes.child_main import FINISHING, bound_memory, failed, json_value, used_memory
from interlock_agents.puntini.graphs.checksums import Checksums

__all__ = ["begin"]

_MIB = 1024 * 1024
_TABLES = "CALL show_tables() RETURN *"
_MAX_PLANS = 256  # plans of statements that a connection caches


def begin(file: str, given: dict[str, Any]) -> _File:
    """Open the file unless it is damaged, and limit the memory to what ladybug has reserved and `extra_mib`."""
    checksums = Checksums(Path(file))
    checksums.lock()
    checksums.check()
    database = _database(file, given, checksums)
    connection = _connected(database)
    with connection.execute(_TABLES) as tables:
        checksums.opened(tables.get_num_tuples())
    bound_memory(used_memory() + given["extra_mib"] * _MIB)
    return _File(database, connection, checksums, log_bytes=given["log_bytes"])


def _database(file: str, given: dict[str, Any], checksums: Checksums) -> Any:
    import ladybug  # noqa: PLC0415 - most of what it takes to start

    size = {"buffer_pool_size": given["buffer_mib"] * _MIB, "max_db_size": given["file_mib"] * _MIB}
    options: dict[str, Any] = {**size, "max_num_threads": 2, "auto_checkpoint": False}
    try:
        return ladybug.Database(file, **options)
    except (RuntimeError, ValueError, MemoryError) as error:
        # ladybug refuses a log with an incomplete last entry, which a process that is killed during a commit leaves. It may also read
        # lengths from it that make no sense. What is cut off was never acknowledged.
        reason = str(error).lower()
        is_about_log = not isinstance(error, RuntimeError) or "wal" in reason or "assertion failed" in reason
        if not is_about_log or "could not set lock" in reason or not checksums.drop_tail():
            raise
    return ladybug.Database(file, **options)


def _connected(database: Any) -> Any:
    import ladybug  # noqa: PLC0415 - see above

    connection: Any = ladybug.Connection(database)
    connection.execute("CALL force_checkpoint_on_close=false").close()
    return connection


class _File:
    """An open file. It runs the statements of a request in order, up to the first that fails."""

    def __init__(self, database: Any, connection: Any, checksums: Checksums, *, log_bytes: int) -> None:
        self.hello: dict[str, Any] = {}
        self._database, self._connection, self._checksums = database, connection, checksums
        self._log_bytes, self._timeout_ms = log_bytes, 0
        self._is_writing = False  # whether a transaction continues in the next request

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run statements. If the request commits, its last statement is not interrupted when the parent process ends."""
        *statements, last = request["statements"]
        try:
            self._limit(request["timeout_ms"])
            if not self._is_writing and self._checksums.log_size() > self._log_bytes:
                self._merge()
            is_writing = self._is_writing or any(text == "BEGIN TRANSACTION" for text, *_ in statements)
            self._is_writing = is_writing and not request["commits"]
            results = [self._run(*statement) for statement in statements]
            with FINISHING if request["commits"] else contextlib.nullcontext():
                results.append(self._run(*last))
                if request["commits"]:
                    self._checksums.committed()
        except Exception as error:  # noqa: BLE001 - ladybug raises Python's own errors
            self._forget_plans(0)
            return failed(error)
        self._forget_plans(_MAX_PLANS)
        return {"results": results}

    def close(self) -> None:
        """Merge the log into the file, and close it."""
        if self._checksums.log_size():
            self._merge()
        self._connection.close()
        self._database.close()

    def _merge(self) -> None:
        with FINISHING:
            with self._connection.execute(_TABLES) as tables:
                self._checksums.merging(tables.get_num_tuples())
            self._connection.execute("CHECKPOINT").close()
            self._checksums.merged()

    def _limit(self, timeout_ms: int) -> None:
        if timeout_ms != self._timeout_ms:
            self._connection.set_query_timeout(timeout_ms)
            self._timeout_ms = timeout_ms

    def _run(self, text: str, values: dict[str, Any], most_rows: int | None = None, most_bytes: int | None = None) -> list[Any]:
        """Run a statement. Return its columns, its rows up to the limits, and whether there are more."""
        with self._connection.execute(text, values) as result:
            rows: list[Any] = []
            size = 0
            while result.has_next():
                row = json_value(result.get_next())
                if most_bytes is not None:
                    size += len(json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")) + 2
                    if size > most_bytes:
                        return [result.get_column_names(), rows, True]
                if most_rows is not None and len(rows) >= most_rows:
                    return [result.get_column_names(), rows, True]
                rows.append(row)
            return [result.get_column_names(), rows, False]

    def _forget_plans(self, most: int) -> None:
        """Clear the cache of plans if it has more than this many.

        A connection caches the plan of every query without a limit. A failed plan would fail again when the graph has what it lacked.
        """
        plans = getattr(self._connection, "_pybind_implicit_prepared_cache", None)
        if plans and len(plans) > most:
            plans.clear()
