"""Run statements on a ladybug file, in a process of its own: `lodger.py FILE OPTIONS`, spoken to over its standard input, a socket.

Run by its path, so it imports nothing of Interlock. Ladybug's own limits leave gaps: one call of `range` runs for minutes, takes
gigabytes that are not in the buffer pool, and cannot be interrupted. A process can be given a hard limit, can be killed, and takes
nothing down with it; what was committed is in the file.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
import math
import os
import select
import socket
import sys
import threading
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

__all__ = ["json_value", "main"]

_INT64 = 2**63
_MIB = 1024 * 1024
_BATCH = 256  # rows that are taken from ladybug at once
_COMMIT_S = 30
_PLANS = 256  # statements that a connection keeps the plans of


def json_value(value: object) -> Any:
    """Make JSON data of a value: a number if JSON has exactly this number, else a text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in cast("dict[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in cast("Sequence[object]", value)]
    return str(value)


def _decimal(value: Decimal) -> int | float | str | None:
    if not value.is_finite():
        return None
    if value == value.to_integral_value() and abs(value) < _INT64:
        return int(value)
    number = float(value)
    return number if math.isfinite(number) and Decimal(repr(number)) == value else format(value, "f")


def main(path: str, options: str) -> None:
    """Open the file, and run one statement after another until whoever asks says goodbye, or is gone."""
    given = json.loads(options)
    os.umask(0o077)
    line = socket.socket(fileno=os.dup(0))
    committing = threading.Lock()
    threading.Thread(target=_leave_with, args=(line.fileno(), committing), daemon=True).start()
    for folder in given["path"]:  # where the parent has ladybug from, should that be a place of its own
        if folder not in sys.path:
            sys.path.append(folder)
    with line, line.makefile("rb") as asked:
        try:
            database, connection = _opened(path, given)
        except BaseException as error:  # noqa: BLE001 - all of it is the parent's to judge
            _say(line, _failed(error))
            return
        _bound(given["besides_mib"])
        _say(line, {"rows": []})
        for request in asked:
            wanted = json.loads(request)
            if wanted is None:
                break
            with committing if wanted["statement"] == "COMMIT" else contextlib.nullcontext():
                answer = _answer(connection, wanted)
            _say(line, answer)
            _replan(connection, failed="failed" in answer)
        connection.close()
        database.close()


def _opened(path: str, given: dict[str, Any]) -> tuple[Any, Any]:
    import ladybug  # noqa: PLC0415 - most of what it takes to start

    database = ladybug.Database(path, buffer_pool_size=given["buffer_mib"] * _MIB, max_db_size=given["file_mib"] * _MIB, max_num_threads=2)
    return database, ladybug.Connection(database)


def _answer(connection: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """Run a statement and take as many rows as are wanted and fit; `more` says that there are others."""
    try:
        connection.set_query_timeout(wanted["timeout_ms"])
        with connection.execute(wanted["statement"], wanted["parameters"]) as result:
            rows: list[Any] = []
            size, more = 0, False
            while result.has_next() and not more:
                for row in result.get_n(min(_BATCH, wanted["rows"] + 1 - len(rows))):
                    values = json_value(row)
                    size += len(json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass")) + 2
                    more = len(rows) >= wanted["rows"] or size > wanted["bytes"]
                    if more:
                        break
                    rows.append(values)
            return {"columns": result.get_column_names(), "rows": rows, "more": more}
    except Exception as error:  # noqa: BLE001 - ladybug raises Python's own errors
        return _failed(error)


def _replan(connection: Any, *, failed: bool) -> None:
    """Forget the plans of earlier statements when there are many, or when one failed.

    A connection keeps them all, and every query is one more; one that failed would fail again when the graph has what it lacked.
    """
    plans = getattr(connection, "_pybind_implicit_prepared_cache", None)
    if plans and (failed or len(plans) > _PLANS):
        plans.clear()


def _failed(error: BaseException) -> dict[str, Any]:
    return {"failed": type(error).__name__, "reason": str(error)}


def _bound(besides_mib: int) -> None:
    """Take the right to more memory than there is now, with what ladybug has set aside, and a little besides."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - not everywhere

    with contextlib.suppress(ValueError, OSError, StopIteration):
        with Path("/proc/self/status").open() as status:
            now = next(int(line.split()[1]) for line in status if line.startswith("VmData:"))
        most = now * 1024 + besides_mib * _MIB
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _leave_with(parent: int, committing: threading.Lock) -> None:
    """End when the other side of the socket is gone, whatever is going on; only what is being committed is written whole."""
    poll = select.poll()
    poll.register(parent, getattr(select, "POLLRDHUP", select.POLLHUP))
    while not poll.poll():
        pass
    committing.acquire(timeout=_COMMIT_S)
    os._exit(0)


def _say(line: socket.socket, answer: dict[str, Any]) -> None:
    line.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    os.chdir(Path("/"))
    main(*sys.argv[1:])
