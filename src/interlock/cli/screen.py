"""What a person, a pipe or a program sees."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from interlock.errors import InterlockError
from interlock.runtime.observe import printable as safe

__all__ = ["as_path", "console", "fail", "folded", "is_terminal", "print_error", "print_json", "print_line", "safe"]


def console() -> Console:
    """Make a console on standard output: colours on a terminal, none in a pipe."""
    return Console(highlight=False)


def is_terminal() -> bool:
    """Tell whether a person is looking."""
    return sys.stdout.isatty()


def print_line(line: str) -> None:
    """Print a line of plain text."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_error(line: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(f"{line}\n")


def as_path(path: Sequence[str]) -> str:
    """Write the nodes of a turn in a line, those of a graph inside a node in parentheses behind it."""
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
    """Write once what a turn went through several times in a row: `[a`, `b] x 7`. Paths into other graphs stay as they are."""
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
    """Find the shortest part of a path that repeats itself at once, and how often; a step by itself where none does."""
    for size in range(1, (len(path) - at) // 2 + 1):
        part, times = path[at : at + size], 1
        while path[at + size * times : at + size * (times + 1)] == part:
            times += 1
        if times > 1:
            return size, times
    return 1, 1


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON, in ASCII where the locale has no more."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print_line(json.dumps(value, ensure_ascii=not unicode, indent=indent))


def fail(error: InterlockError) -> None:
    """Print an error to standard error: what went wrong, and its code."""
    if sys.stderr.isatty():
        Console(stderr=True, highlight=False).print(Text.assemble((f"{error.code}: ", "bold red"), safe(error.message)))
    else:
        print_error(f"{error.code}: {safe(error.message)}")
