"""What a person, a pipe or a program sees."""

from __future__ import annotations

import json
import sys
import unicodedata
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from interlock.errors import InterlockError

__all__ = ["console", "fail", "is_terminal", "print_json", "print_line", "safe"]


def console() -> Console:
    """Make a console on standard output: colours on a terminal, none in a pipe."""
    return Console(highlight=False)


def is_terminal() -> bool:
    """Tell whether a person is looking."""
    return sys.stdout.isatty()


def safe(text: str) -> str:
    """Make text harmless for a terminal: no control characters but line breaks and tabs, no direction overrides."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf"} else "\N{REPLACEMENT CHARACTER}" for c in text)


def print_line(line: str) -> None:
    """Print a line of plain text, whatever characters the locale has."""
    _write(sys.stdout, line)


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    _write(sys.stdout, json.dumps(value, ensure_ascii=not unicode, indent=indent))


def fail(error: InterlockError) -> None:
    """Print an error to standard error: what went wrong, and its code."""
    if sys.stderr.isatty():
        Console(stderr=True, highlight=False).print(Text.assemble((f"{error.code}: ", "bold red"), safe(error.message)))
    else:
        _write(sys.stderr, f"{error.code}: {safe(error.message)}")


def _write(stream: TextIO, line: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(line.encode(encoding, errors="backslashreplace").decode(encoding) + "\n")
    stream.flush()
