"""Markdown tables as text in columns, for a screen of a given width."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Literal, TypeAlias

from rich.cells import cell_len, chop_cells

__all__ = ["drawn", "is_table"]

Side: TypeAlias = Literal["left", "center", "right"]

_CELLS = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r":?-+:?")
_NUMBER = re.compile(r"[-+\u2212]?[€$£]?(?:\d[\d,]*(?:\.\d+)?|\.\d+) ?(?:%|[€$£]|[A-Z]{3})?")
_LEAST = 2
"""Lines of a table: the header and the rule below it."""
_BETWEEN = "   "
_NARROWEST = 12
"""The smallest width of a column whose texts are folded."""


def is_table(lines: Sequence[str]) -> bool:
    """Return whether lines that begin with a bar are a table: the second line is the rule below the header."""
    return len(lines) >= _LEAST and all(_RULE.fullmatch(cell) for cell in _cells(lines[1]))


def drawn(lines: Sequence[str], *, width: int, height: int, rule: str = "─") -> list[str]:
    """Lay out a table. One that is too wide becomes a list of its rows; one that is longer than the screen repeats its header."""
    found = [_cells(line) for line in lines]
    count = max(map(len, found))
    head, marks, *rows = ([*cells, *[""] * (count - len(cells))] for cells in found)
    columns = list(zip(head, *rows, strict=True))
    are_numbers = [any(cells) and all(_NUMBER.fullmatch(cell) for cell in cells if cell) for _, *cells in columns]
    room = width - len(_BETWEEN) * (count - 1)
    widths = _widths(columns, are_numbers, room)
    if widths is None:
        return list(_records(head, rows, width))
    sides: list[Side] = [_side(mark, is_number=is_number) for mark, is_number in zip(marks, are_numbers, strict=True)]
    top = [*_row(head, widths, sides), rule * (sum(widths) + width - room)]
    made = [*top, *(line for row in rows for line in _row(row, widths, sides))]
    return [*made, top[-1], *top[:-1]] if len(made) > height else made


def _cells(line: str) -> list[str]:
    """Split a line of a table into its cells. The line begins with a bar and may end with one."""
    cells = _CELLS.split(line.strip())[1:]
    if len(cells) > 1 and not cells[-1]:
        cells.pop()
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _widths(columns: Sequence[Sequence[str]], are_numbers: Sequence[bool], room: int) -> list[int] | None:
    """Return the widths of the columns, narrowing the widest ones until all fit, or None if they cannot fit."""
    needed = [max(1, *map(cell_len, column)) for column in columns]
    least = [min(need, _NARROWEST) for need in needed]
    for index, (_, *cells) in enumerate(columns):
        # Numbers are not folded.
        if are_numbers[index]:
            least[index] = max(least[index], *map(cell_len, cells))
    if sum(least) > room:
        return None
    widths = [min(need, max(room, few)) for need, few in zip(needed, least, strict=True)]
    while sum(widths) > room:
        widest = max((index for index, have in enumerate(widths) if have > least[index]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _side(mark: str, *, is_number: bool) -> Side:
    """Return the alignment of a column: by the colons of the rule, else right for numbers."""
    match mark[:1] == ":", mark[-1:] == ":":
        case True, True:
            return "center"
        case True, False:
            return "left"
        case False, True:
            return "right"
        case _:
            return "right" if is_number else "left"


def _row(cells: Sequence[str], widths: Sequence[int], sides: Sequence[Side]) -> Iterator[str]:
    """Yield the lines of a row, as many as its longest cell has."""
    for parts in zip_longest(*map(_folded, cells, widths), fillvalue=""):
        yield _BETWEEN.join(map(_placed, parts, widths, sides)).rstrip()


def _placed(text: str, width: int, side: Side) -> str:
    spare = width - cell_len(text)
    before = {"left": 0, "center": spare // 2, "right": spare}[side]
    return " " * before + text + " " * (spare - before)


def _folded(text: str, width: int) -> list[str]:
    """Wrap a text between words, and inside a word that is too long."""
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        if len(lines) > 1 and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
            continue
        lines += chop_cells(word, width)
    return lines[1:]


def _records(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield rows as a list: each cell on a line with the name of its column. A name is folded before a number is."""
    numbers = max((cell_len(cell) for row in rows for cell in row if _NUMBER.fullmatch(cell)), default=0)
    names = min(max(map(cell_len, head)), width // 2, max(width - numbers - len(_BETWEEN), width // 4))
    widths = [max(1, names), max(1, width - names - len(_BETWEEN))]
    sides: list[Side] = ["left", "left"]
    if not rows:
        yield from _folded(", ".join(head), max(1, width))
    for number, row in enumerate(rows):
        if number:
            yield ""
        for name, cell in zip(head, row, strict=True):
            if name or cell:
                yield from _row((name, cell), widths, sides)
