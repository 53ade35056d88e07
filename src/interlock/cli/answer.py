"""An answer on the screen: Markdown, rendered block by block while the text arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import dropwhile, groupby

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.text import Text

from interlock.cli.screen import safe
from interlock.cli.tables import is_table, read_table

__all__ = ["Answer", "print_answer"]

_FENCES = ("```", "~~~")
_NARROWEST = 20
"""Columns that a block is laid out in on a screen that has fewer."""
_LONGEST = 20_000
"""Characters of a block that is still parsed as Markdown. A longer one is printed as it is."""


class Answer:
    """Shows text that arrives in chunks. A block is shown when it is complete: at a blank line, or at the end.

    What is on the screen does not depend on how the text is split into chunks.
    """

    def __init__(self, screen: Console, *, indent: int = 0) -> None:
        self._screen = screen
        self._indent = indent
        self._chunks: list[str] = []
        self._block: list[str] = []
        self._line = ""
        self._is_fenced = False
        self._is_first = True

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._chunks)

    @property
    def pending(self) -> str:
        """The part that is not shown yet."""
        return "\n".join([*self._block, self._line])

    def show(self, chunk: str) -> None:
        """Add a chunk, and show the blocks that it completes."""
        self._chunks.append(chunk)
        *lines, rest = safe(chunk).split("\n")
        for line in lines:
            self._add(self._line + line)
            self._line = ""
        self._line += rest

    def end(self) -> None:
        """Show the rest."""
        if self._line:
            self._add(self._line)
            self._line = ""
        self._show_block()

    def _add(self, line: str) -> None:
        if line.strip() or self._is_fenced:
            self._block.append(line)
            self._is_fenced ^= line.lstrip().startswith(_FENCES)
        else:
            self._show_block()

    def _show_block(self) -> None:
        if not self._block:
            return
        if not self._is_first:
            self._screen.print()
        block = "\n".join(self._block)
        self._block, self._is_fenced, self._is_first = [], False, False
        width = max(_NARROWEST, self._screen.width - self._indent)
        for renderable in _rendered(block, self._screen, width):
            lines = self._screen.render_lines(renderable, self._screen.options.update(width=width), pad=False)
            self._screen.print(Segments(self._laid_out(lines)), end="", crop=False)

    def _laid_out(self, lines: Iterable[list[Segment]]) -> Iterator[Segment]:
        """Indent lines and strip the spaces at their ends, and the empty lines around them."""
        shown = [_stripped(line) for line in lines]
        while shown and not shown[-1]:
            shown.pop()
        for line in dropwhile(lambda line: not line, shown):
            yield from ([Segment(" " * self._indent), *line] if line else [])
            yield Segment.line()


def print_answer(screen: Console, text: str, *, indent: int = 0) -> None:
    """Show a whole answer."""
    answer = Answer(screen, indent=indent)
    answer.show(text)
    answer.end()


def _stripped(line: list[Segment]) -> list[Segment]:
    kept = list(line)
    while kept and not kept[-1].text.strip():
        kept.pop()
    return [*kept[:-1], Segment(kept[-1].text.rstrip(), kept[-1].style)] if kept else []


def _rendered(block: str, screen: Console, width: int) -> Iterator[RenderableType]:
    """Render a block: tables in columns, the other lines as Markdown."""
    is_plain = screen.options.ascii_only or len(block) > _LONGEST
    is_code = block.lstrip().startswith(_FENCES)
    for has_bar, group in groupby(block.split("\n"), key=lambda line: line.startswith("|") and not is_code):
        lines = list(group)
        if has_bar and is_table(lines):
            yield read_table(lines, width=width, height=screen.height, ascii_only=screen.options.ascii_only)
        elif is_plain or has_bar:
            yield Text("\n".join(lines))
        else:
            from interlock.cli.markdown import SafeMarkdown  # noqa: PLC0415 - only where there is an answer to show

            yield SafeMarkdown("\n".join(lines), keep_indentation=not is_code)
