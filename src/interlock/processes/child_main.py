"""The main module of a child process, which opens a file and answers requests: `child_main.py PROGRAM FILE`.

It is run by its path. Standard input is a socket: each request is a line of JSON, the first one with the settings, and so is
each answer. A program is a module with a function `begin`. Interlock's own packages are not imported, because that would add
half a second to the start of every child.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import select
import socket
import sys
import threading
import types
from base64 import b64encode
from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol, cast

__all__ = ["FINISHING", "Program", "Served", "bound_files", "bound_memory", "failed", "json_value", "main", "used_memory"]

FINISHING = threading.Lock()
"""A program holds this lock during work that must not be interrupted when the parent process ends."""

_FINISH_S = 30
_MIB = 1024 * 1024
_INT64 = 2**63


class Served(Protocol):
    """An opened file that answers requests."""

    hello: dict[str, Any]
    """The first answer, which is sent without a request."""

    def answer(self, request: Any) -> dict[str, Any]:
        """Answer a request. A failure is an answer with the key `failed`."""
        ...

    def close(self) -> None:
        """Close everything. Called when the parent requests it."""
        ...


class Program(Protocol):
    """A module whose `begin` opens a file. An exception is sent to the parent."""

    def begin(self, file: str, given: dict[str, Any]) -> Served: ...


def main(program: str, file: str) -> None:
    """Open a file, and answer requests until the parent sends null or closes the socket.

    The file is closed properly only after null. A parent that closes the socket may have received a failure, after which nothing
    more may be written to the file: a log that a full disk has truncated must not be merged.
    """
    os.umask(0o077)
    os.chdir(Path("/"))
    line = socket.socket(fileno=os.dup(0))
    threading.Thread(target=_exit_with_parent, args=(line.fileno(),), daemon=True).start()
    with line, line.makefile("rb") as requests:
        given = json.loads(requests.readline())
        sys.path += [folder for folder in given["folders"] if folder not in sys.path]
        try:
            served = cast("Program", _loaded(program, given["root"])).begin(file, given)
        except BaseException as error:  # noqa: BLE001 - the parent handles it
            _send(line, failed(error))
            return
        _send(line, served.hello)
        for request in requests:
            wanted = json.loads(request)
            if wanted is None:
                served.close()
                return
            _send(line, served.answer(wanted))


def failed(error: BaseException) -> dict[str, Any]:
    """Return the answer for an exception."""
    return {"failed": type(error).__name__, "reason": str(error)}


def used_memory() -> int:
    """Return the bytes of writable memory of the process (VmData), or 0 if the system does not report them."""
    with contextlib.suppress(OSError, StopIteration), Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmData:")) * 1024
    return 0


def bound_memory(most: int) -> None:
    """Set RLIMIT_DATA and disable core dumps."""
    _limit("RLIMIT_DATA", most)
    _limit("RLIMIT_CORE", 0)


def bound_files(most: int) -> None:
    """Set RLIMIT_FSIZE."""
    _limit("RLIMIT_FSIZE", most)


def _limit(name: str, most: int) -> None:
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - not on Windows

    with contextlib.suppress(ValueError, OSError):  # the limit is lower already
        resource.setrlimit(getattr(resource, name), (most, most))


def json_value(value: object) -> Any:
    """Convert a value to JSON data: a number if JSON can represent it exactly, otherwise a string."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"P{value.days}DT{value.seconds}{f'.{value.microseconds:06}' if value.microseconds else ''}S"
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode()
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


def _loaded(program: str, root: str) -> types.ModuleType:
    """Import a module without running the `__init__` of its packages. `root` contains its outermost package."""
    for name, folder in (("interlock", str(Path(__file__).parents[2])), (program.rpartition(".")[0], root)):
        parts = name.split(".") if name else []
        for depth in range(1, len(parts) + 1):
            package = types.ModuleType(".".join(parts[:depth]))
            package.__path__ = [str(Path(folder, *parts[:depth]))]
            sys.modules.setdefault(package.__name__, package)
    sys.modules["interlock.processes.child_main"] = sys.modules[__name__]
    return importlib.import_module(program)


def _exit_with_parent(parent: int) -> None:
    """Exit when the parent closes the socket, as soon as FINISHING is free.

    PR_SET_PDEATHSIG is not used: Linux would send the signal when the thread that started the child ends, not the process.
    """
    poll = select.poll()
    poll.register(parent, getattr(select, "POLLRDHUP", select.POLLHUP))
    while not poll.poll():
        pass
    FINISHING.acquire(timeout=_FINISH_S)
    os._exit(0)


def _send(line: socket.socket, answer: dict[str, Any]) -> None:
    line.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
