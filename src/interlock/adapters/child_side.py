"""The inside of a child: open a file, and answer one request after another: `child_side.py PROGRAM FILE`.

Run by its path, spoken to over its standard input, a socket: a line of JSON comes in, the first with what it needs to know, and a line
of JSON goes out. A program is a module of ours that has a function `begin`. What Interlock itself imports is left out, or every child
would need half a second more to begin.
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
"""Held by a program while it does what must not be left half done when the parent is gone."""

_FINISH_S = 30
_MIB = 1024 * 1024
_INT64 = 2**63


class Served(Protocol):
    """What a program has opened."""

    hello: dict[str, Any]
    """The first answer, which nobody asks for."""

    def answer(self, request: Any) -> dict[str, Any]:
        """Answer a request. One that fails is an answer too: `failed` says how."""
        ...

    def close(self) -> None:
        """Let go of everything, when whoever asks has said goodbye."""
        ...


class Program(Protocol):
    """A module whose `begin` opens a file. What it raises is told to the parent."""

    def begin(self, file: str, given: dict[str, Any]) -> Served: ...


def main(program: str, file: str) -> None:
    """Open a file, and answer until whoever asks says goodbye, or is gone.

    What is open is closed only after a goodbye. Whoever hangs up without one may have been told of a failure, after which nothing more
    may be written to the file: a log that a full disk has torn must not be merged.
    """
    os.umask(0o077)
    os.chdir(Path("/"))
    line = socket.socket(fileno=os.dup(0))
    threading.Thread(target=_leave_with, args=(line.fileno(),), daemon=True).start()
    with line, line.makefile("rb") as asked:
        given = json.loads(asked.readline())
        sys.path += [folder for folder in given["folders"] if folder not in sys.path]
        try:
            served = cast("Program", _loaded(program)).begin(file, given)
        except BaseException as error:  # noqa: BLE001 - all of it is the parent's to judge
            _say(line, failed(error))
            return
        _say(line, served.hello)
        for request in asked:
            wanted = json.loads(request)
            if wanted is None:
                served.close()
                return
            _say(line, served.answer(wanted))


def failed(error: BaseException) -> dict[str, Any]:
    """Make the answer of an exception."""
    return {"failed": type(error).__name__, "reason": str(error)}


def used_memory() -> int:
    """Return the bytes of memory that the process may write to, as far as the system says."""
    with contextlib.suppress(OSError, StopIteration), Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmData:")) * 1024
    return 0


def bound_memory(most: int) -> None:
    """Take the right to more bytes of memory, and to a dump of what is in it."""
    _limit("RLIMIT_DATA", most)
    _limit("RLIMIT_CORE", 0)


def bound_files(most: int) -> None:
    """Take the right to write larger files."""
    _limit("RLIMIT_FSIZE", most)


def _limit(name: str, most: int) -> None:
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - not everywhere

    with contextlib.suppress(ValueError, OSError):  # lower already
        resource.setrlimit(getattr(resource, name), (most, most))


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


def _loaded(program: str) -> types.ModuleType:
    """Import a module of ours without what the package itself imports."""
    package = types.ModuleType("interlock")
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["interlock"] = package
    sys.modules["interlock.adapters.child_side"] = sys.modules[__name__]
    return importlib.import_module(program)


def _leave_with(parent: int) -> None:
    """End when the other side of the socket is gone, whatever is going on; only what is being finished is finished.

    Linux could be asked for a signal at the parent's death, but means by that the death of the thread which started the child.
    """
    poll = select.poll()
    poll.register(parent, getattr(select, "POLLRDHUP", select.POLLHUP))
    while not poll.poll():
        pass
    FINISHING.acquire(timeout=_FINISH_S)
    os._exit(0)


def _say(line: socket.socket, answer: dict[str, Any]) -> None:
    line.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
