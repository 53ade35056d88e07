"""Output of the commands: to a terminal, to a pipe, or as JSON."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from interlock.errors import InterlockError
from interlock.logs import printable as safe

__all__ = ["as_path", "console", "fail", "folded", "is_terminal", "print_error", "print_json", "print_line", "program", "safe"]


def console() -> Console:
    """Return a console on standard output, with colours on a terminal only."""
    return Console(highlight=False)


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def program() -> str:
    """Return how to call this program from here: by its name if that is on the PATH, else by its file."""
    called, found = Path(sys.argv[0]), shutil.which("interlock")
    if called.name != "interlock" or not called.is_file() or (found is not None and called.samefile(found)):
        return "interlock"
    relative = os.path.relpath(called)
    return shlex.quote(str(called.absolute()) if relative.startswith("..") else relative)


def print_line(line: str) -> None:
    """Print a line of plain text."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_error(line: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(f"{line}\n")


def as_path(path: Sequence[str]) -> str:
    """Write the path of a turn in a line. The nodes of a subgraph follow their node in parentheses."""
    text, depth = "", 0
    for name in path:
        inside = name.count("/")
        step = name.rpartition("/")[2]
        if not text:
            text = step
        elif inside > depth:
            text += f" ({step}"
        else:
            text += f"{')' * (depth - inside)} > {step}"
        depth = inside
    return text + ")" * depth


def folded(path: Sequence[str]) -> list[str]:
    """Shorten a path: a part that is repeated several times becomes `[a`, `b] x 7`. A path with subgraphs stays as it is."""
    steps: list[str] = []
    at = 0
    while at < len(path):
        size, times = (1, 1) if any("/" in step for step in path) else _run(path, at)
        part = [*path[at : at + size]]
        if times > 1:
            part[0] = f"[{part[0]}"
            part[-1] += f"] x {times}"
        steps += part
        at += size * times
    return steps


def _run(path: Sequence[str], at: int) -> tuple[int, int]:
    """Return the length of the shortest part that is repeated from here, and how often; (1, 1) where none is."""
    for size in range(1, (len(path) - at) // 2 + 1):
        part, times = path[at : at + size], 1
        while path[at + size * times : at + size * (times + 1)] == part:
            times += 1
        if times > 1:
            return size, times
    return 1, 1


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON, in ASCII unless the output is UTF-8."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print_line(json.dumps(value, ensure_ascii=not unicode, indent=indent))


def fail(error: InterlockError) -> None:
    """Print an error with its code to standard error."""
    if sys.stderr.isatty():
        Console(stderr=True, highlight=False).print(Text.assemble((f"{error.code}: ", "bold red"), safe(error.message)))
    else:
        print_error(f"{error.code}: {safe(error.message)}")
