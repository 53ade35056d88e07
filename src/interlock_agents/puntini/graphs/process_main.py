"""Run statements on a ladybug file: the program of the process that has it open.

Ladybug's own limits leave gaps: one call of `range` runs for minutes, takes gigabytes that are not in the buffer pool, and cannot be
interrupted. A process can be given a hard limit, can be killed, and takes nothing down with it; what was committed is in the file.
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
_PLANS = 256  # statements that a connection keeps the plans of


def begin(file: str, given: dict[str, Any]) -> _File:
    """Open the file unless it is damaged, and give up the right to more memory than ladybug has set aside, and a little besides."""
    checksums = Checksums(Path(file))
    checksums.lock()
    checksums.check()
    database = _database(file, given, checksums)
    connection = _connected(database)
    with connection.execute(_TABLES) as tables:
        checksums.opened(tables.get_num_tuples())
    bound_memory(used_memory() + given["besides_mib"] * _MIB)
    return _File(database, connection, checksums, log_bytes=given["log_bytes"])


def _database(file: str, given: dict[str, Any], checksums: Checksums) -> Any:
    import ladybug  # noqa: PLC0415 - most of what it takes to start

    size = {"buffer_pool_size": given["buffer_mib"] * _MIB, "max_db_size": given["file_mib"] * _MIB}
    options: dict[str, Any] = {**size, "max_num_threads": 2, "auto_checkpoint": False}
    try:
        return ladybug.Database(file, **options)
    except RuntimeError as error:
        # ladybug refuses a log whose last entry is torn, as a process leaves it that is killed in the middle of a commit.
        if "wal" not in str(error).lower() or "Could not set lock" in str(error) or not checksums.drop_tail():
            raise
    return ladybug.Database(file, **options)


def _connected(database: Any) -> Any:
    import ladybug  # noqa: PLC0415 - likewise

    connection: Any = ladybug.Connection(database)
    connection.execute("CALL force_checkpoint_on_close=false").close()
    return connection


class _File:
    """Runs statements, as many as come in one request, up to the first that fails."""

    def __init__(self, database: Any, connection: Any, checksums: Checksums, *, log_bytes: int) -> None:
        self.hello: dict[str, Any] = {}
        self._database, self._connection, self._checksums = database, connection, checksums
        self._log_bytes, self._timeout_ms = log_bytes, 0
        self._is_changing = False  # whether a transaction has begun that goes on in the next request

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run statements in their order, and no further than the `first` where one of those finds something.

        The last of them commits, where the request says so, and is then seen through.
        """
        first, rest = request["statements"][: request["first"]], request["statements"][request["first"] :]
        try:
            self._limit(request["timeout_ms"])
            if not self._is_changing and self._checksums.log_size() > self._log_bytes:
                self._merge()
            self._is_changing = not request["commits"] and any(statement[0] == "BEGIN TRANSACTION" for statement in rest)
            results = [self._run(*statement) for statement in first]
            if rest and not any(rows for _, rows, _ in results):
                results += [self._run(*statement) for statement in rest[:-1]]
                with FINISHING if request["commits"] else contextlib.nullcontext():
                    results.append(self._run(*rest[-1]))
                    if request["commits"]:
                        self._checksums.committed()
        except Exception as error:  # noqa: BLE001 - ladybug raises Python's own errors
            self._replan(0)
            return failed(error)
        self._replan(_PLANS)
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
        """Run a statement and take as many rows as are wanted and fit; the last part says that there are others."""
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

    def _replan(self, most: int) -> None:
        """Forget the plans of earlier statements when there are more, or when one failed.

        A connection keeps them all, and every query is one more; one that failed would fail again when the graph has what it lacked.
        """
        plans = getattr(self._connection, "_pybind_implicit_prepared_cache", None)
        if plans and len(plans) > most:
            plans.clear()
