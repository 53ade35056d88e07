"""Run statements on a ladybug file: the program of the process that has it open.

Ladybug's own limits leave gaps: one call of `range` runs for minutes, takes gigabytes that are not in the buffer pool, and cannot be
interrupted. A process can be given a hard limit, can be killed, and takes nothing down with it; what was committed is in the file.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from interlock.adapters.child_side import FINISHING, bound_memory, failed, json_value, used_memory

__all__ = ["begin"]

_MIB = 1024 * 1024
_PLANS = 256  # statements that a connection keeps the plans of


def begin(file: str, given: dict[str, Any]) -> _File:
    """Open the file, and take the right to more memory than there is now, with what ladybug has set aside, and a little besides."""
    import ladybug  # noqa: PLC0415 - most of what it takes to start

    size = {"buffer_pool_size": given["buffer_mib"] * _MIB, "max_db_size": given["file_mib"] * _MIB}
    database = ladybug.Database(file, **size, max_num_threads=2)
    connection = ladybug.Connection(database)
    bound_memory(used_memory() + given["besides_mib"] * _MIB)
    return _File(database, connection)


class _File:
    """Runs statements, as many as come in one request, up to the first that fails."""

    def __init__(self, database: Any, connection: Any) -> None:
        self.hello: dict[str, Any] = {}
        self._database, self._connection = database, connection
        self._timeout_ms = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run statements in their order, and no further than the `first` where one of those finds something.

        The last of them commits, where the request says so, and is then seen through.
        """
        first, rest = request["statements"][: request["first"]], request["statements"][request["first"] :]
        try:
            self._limit(request["timeout_ms"])
            results = [self._run(*statement) for statement in first]
            if rest and not any(rows for _, rows, _ in results):
                results += [self._run(*statement) for statement in rest[:-1]]
                with FINISHING if request["commits"] else contextlib.nullcontext():
                    results.append(self._run(*rest[-1]))
        except Exception as error:  # noqa: BLE001 - ladybug raises Python's own errors
            self._replan(0)
            return failed(error)
        self._replan(_PLANS)
        return {"results": results}

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        self._database.close()

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
