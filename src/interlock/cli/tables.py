"""Markdown tables as rich tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.box import Box
from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

__all__ = ["is_table", "read_table"]

_CELLS = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r":?-+:?")
_NUMBER = re.compile(r"[-+\u2212]?[€$£]?(?:\d[\d,]*(?:\.\d+)?|\.\d+) ?(?:%|[€$£]|[A-Z]{3})?")
_LEAST = 2
"""Lines of a table: the header and the rule below it."""
_BETWEEN = 3
_NARROWEST = 12
"""The smallest width of a column whose texts are folded."""
_LINES = "    \n    \n ── \n    \n    \n ── \n    \n    \n"
_HEAD_RULE, _ASCII_HEAD_RULE = Box(_LINES), Box(_LINES.replace("─", "-"), ascii=True)


def is_table(lines: Sequence[str]) -> bool:
    """Return whether lines that begin with a bar are a table: the second line is the rule below the header."""
    return len(lines) >= _LEAST and all(_RULE.fullmatch(cell) for cell in _cells(lines[1]))


def read_table(lines: Sequence[str], *, width: int, height: int, ascii_only: bool) -> Table:
    """Parse a table. One that is too wide for the screen becomes a list of its rows.

    Numbers are aligned right and not folded. A table that is longer than the screen repeats its header at its end.
    """
    found = [_cells(line) for line in lines]
    count = max(map(len, found))
    head, marks, *rows = ([*cells, *[""] * (count - len(cells))] for cells in found)
    box = _ASCII_HEAD_RULE if ascii_only else _HEAD_RULE
    table = Table(box=box, show_edge=False, pad_edge=False, header_style="", footer_style="", show_footer=len(rows) > height)
    columns = list(zip(head, *rows, strict=True))
    gaps = _BETWEEN * (count - 1)
    is_folded = gaps + sum(max(map(cell_len, column)) for column in columns) > width
    least = 0
    for mark, (name, *cells) in zip(marks, columns, strict=True):
        is_number = any(cells) and all(_NUMBER.fullmatch(cell) for cell in cells if cell)
        narrowest = max(1, min(_NARROWEST, max(map(cell_len, [name, *cells]))), *(map(cell_len, cells) if is_number else ()))
        least += narrowest
        folded = Text(name, no_wrap=False)
        table.add_column(
            folded,
            folded,
            justify=_side(mark, is_number=is_number),
            overflow="fold",
            no_wrap=is_number,
            min_width=narrowest,
            max_width=narrowest if is_number and is_folded else None,
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table if least + gaps <= width else _records(head, rows, width)


def _records(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Table:
    """Return a table with each cell on a line of its own, after the name of its column. A name is folded before a number is."""
    numbers = max((cell_len(cell) for row in rows for cell in row if _NUMBER.fullmatch(cell)), default=0)
    names = min(max(map(cell_len, head)), width // 2, max(width - numbers - _BETWEEN, width // 4))
    table = Table.grid(padding=(0, _BETWEEN, 0, 0), pad_edge=False)
    table.add_column(width=max(1, names), overflow="fold")
    table.add_column(overflow="fold")
    for number, row in enumerate(rows or [[""] * len(head)]):
        if number:
            table.add_row()
        for name, cell in zip(head, row, strict=True):
            if name or cell:
                table.add_row(Text(name), Text(cell))
    return table


def _cells(line: str) -> list[str]:
    """Split a line of a table into its cells. The line begins with a bar and may end with one."""
    cells = _CELLS.split(line.strip())[1:]
    if len(cells) > 1 and not cells[-1]:
        cells.pop()
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _side(mark: str, *, is_number: bool) -> JustifyMethod:
    """Return the alignment of a column: by the colons of the rule, else right for numbers."""
    if mark[-1:] == ":":
        return "center" if mark[:1] == ":" else "right"
    return "right" if is_number and mark[:1] != ":" else "left"
