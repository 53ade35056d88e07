"""An answer on the screen as it comes: words as soon as they are whole, a table when it is."""

from __future__ import annotations

import re
from typing import cast

from rich.cells import cell_len
from rich.console import Console

from interlock.cli.screen import safe
from interlock.cli.tables import drawn, is_table

__all__ = ["Answer", "print_answer"]

_PART = re.compile(r"\n|[^\S\n]+|\S+")
_TAB = " " * 4


class Answer:
    """Shows text in pieces. Lines break between words; those of a Markdown table are held back until the table ends.

    What is on the screen does not depend on where one piece ends and the next begins.
    """

    def __init__(self, screen: Console, *, indent: int = 0) -> None:
        self._screen = screen
        self._indent = indent
        self._width = 0
        self._pieces: list[str] = []
        self._ready: list[str] = []
        self._gap, self._word = "", ""
        self._column = 0
        self._is_inside = False  # of a word of which a part is shown already
        self._row: list[str] | None = None
        self._rows: list[str] = []

    @property
    def text(self) -> str:
        """What has come so far."""
        return "".join(self._pieces)

    @property
    def held(self) -> int:
        """How many lines are held back."""
        return len(self._rows) + (self._row is not None)

    @property
    def is_in_line(self) -> bool:
        """Whether a line has begun and not ended, be it with a word that is not shown yet."""
        return bool(self._column or self._word)

    def show(self, piece: str) -> None:
        """Show a piece."""
        self._measure()
        self._pieces.append(piece)
        text, position = safe(piece), 0
        while position < len(text):
            position = self._take(text, position)
        self._flush()

    def end(self) -> None:
        """Show what was held back, and end the line. What comes after that is on another one."""
        self._measure()
        if self._row is not None:
            self._end_row()
        self._end_table()
        self._end_word()
        if self._column:
            self._end_line()
        self._gap = ""
        self._flush()

    def _measure(self) -> None:
        self._width = max(1, self._screen.width - self._indent)

    def _take(self, text: str, start: int) -> int:
        """Take the next part of a text, and return where it ends."""
        if self._row is not None:
            end = text.find("\n", start)
            self._row.append(text[start:] if end < 0 else text[start:end])
            if end < 0:
                return len(text)
            self._end_row()
            return end + 1
        if text[start] == "|" and not self._column and not self._word:
            self._row, self._gap = [], ""
            return start
        part = cast("re.Match[str]", _PART.match(text, start))[0]
        if part == "\n" or not part.isspace():  # a space at the beginning of a line does not tell what it is
            self._end_table()
        self._say(part)
        return start + len(part)

    def _say(self, part: str) -> None:
        """Say a word or a part of one, the space between two, or the end of a line."""
        if part == "\n":
            self._end_word()
            self._end_line()
        elif part.isspace():
            self._end_word()
            self._gap = (self._gap + "".join(_TAB if letter == "\t" else " " for letter in part[: self._width]))[: self._width]
        elif part.isascii() and self._word.isascii():
            self._add(part)
        else:
            for letter in part:
                self._add(letter)

    def _add(self, letters: str) -> None:
        """Add to a word. Scripts that put no space between words, and words that do not end, are not waited for."""
        self._word += letters
        if not self._word.isascii():
            is_wide = cell_len(letters) > 1
            if is_wide or cell_len(self._word) >= self._width:
                self._end_word()
                self._is_inside = not is_wide
            return
        while len(self._word) >= self._width:
            whole, rest = self._word[: self._width], self._word[self._width :]
            self._word = whole
            self._end_word()
            self._word, self._is_inside = rest, True

    def _end_word(self) -> None:
        word, width = self._word, self._width
        if not word:
            self._is_inside = False
            return
        needed = cell_len(word)
        if self._column and not self._is_inside and self._column + len(self._gap) + needed > width:
            self._end_line()
        if not self._column:
            self._ready.append(" " * self._indent)
        gap = self._gap[: max(0, width - needed)]
        self._ready += (gap, word)
        self._column = (self._column + len(gap) + needed - 1) % width + 1
        self._gap, self._word, self._is_inside = "", "", False

    def _end_line(self) -> None:
        self._ready.append("\n")
        self._gap, self._column, self._is_inside = "", 0, False

    def _end_row(self) -> None:
        self._rows.append("".join(self._row or ()))
        self._row = None

    def _end_table(self) -> None:
        if not self._rows:
            return
        lines, self._rows = self._rows, []
        gap, self._gap = self._gap, ""
        if is_table(lines):
            rule = "-" if self._screen.options.ascii_only else "─"
            table = drawn(lines, width=self._width, height=self._screen.height, rule=rule)
            self._ready += (f"{' ' * self._indent if line else ''}{line}\n" for line in table)
        else:
            for part in _PART.findall("".join(f"{line}\n" for line in lines)):
                self._say(part)
        self._gap = gap

    def _flush(self) -> None:
        ready = "".join(self._ready)
        self._ready.clear()
        if ready:
            self._screen.out(ready, end="", highlight=False)


def print_answer(screen: Console, text: str, *, indent: int = 0) -> None:
    """Show a whole answer."""
    answer = Answer(screen, indent=indent)
    answer.show(text)
    answer.end()
