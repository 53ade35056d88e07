"""Somebody at a terminal."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time

__all__ = ["Person"]

CODE = re.compile(r"(\n|\r|\x1b\[[0-9;?]*[A-Za-z])|([^\n\r\x1b]+)")  # what moves on the screen, and what is written on it


class Person:
    """Somebody at a terminal: what they type, and what they see."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self._terminal = terminal
        self.process = process
        self._raw = ""
        self._read = 0

    @property
    def lines(self) -> list[str]:
        """What is on the screen in the end, without colours and without what was taken away again."""
        rows, row, column = [""], 0, 0
        for code, text in CODE.findall(self._raw):
            match code:
                case "\n":
                    row, column = row + 1, 0
                    rows += [""] * (row - len(rows) + 1)
                case "\r":
                    column = 0
                case "\x1b[2K":
                    rows[row] = ""
                case "\x1b[1A":
                    row -= 1
                case _:
                    rows[row] = rows[row][:column] + text + rows[row][column + len(text) :]
                    column += len(text)
        return "\n".join(line.rstrip() for line in rows).rstrip().split("\n")

    @property
    def seen(self) -> str:
        """Everything that came, colours and all."""
        return self._raw

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str, *, seconds: float = 60) -> None:
        """Read the screen until a text appears after what was read before."""
        end = time.monotonic() + seconds
        while (found := self._raw.find(text, self._read)) < 0:
            assert time.monotonic() < end, f"{text!r} did not appear in {self._raw[self._read :]!r}"
            assert self._look(), f"{text!r} did not appear before the end: {self._raw[self._read :]!r}"
        self._read = found + len(text)

    def leave(self, *, seconds: float = 60) -> int:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._look():
            pass
        return self.process.wait(timeout=20)

    def _look(self) -> bool:
        if select.select([self._terminal], [], [], 0.2)[0]:
            try:
                more = os.read(self._terminal, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                return False
            self._raw += more
            return bool(more)
        return True
