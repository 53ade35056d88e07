"""Markdown of an answer, rendered by rich without loss: what is not markup stays as it is written."""

from __future__ import annotations

import re
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, ListItem, Markdown, MarkdownElement
from rich.segment import Segment

from interlock.cli.screen import safe

__all__ = ["SafeMarkdown"]

_MARKED = re.compile(r"^\s*(?:[-+*>]|\d+[.)])\s", re.MULTILINE)
_INDENTED = re.compile(r"^ +", re.MULTILINE)
_SPACE = "\ue000"
"""A private character in place of a space that the parser would drop."""


def _keep_operators(state: StateInline, silent: bool) -> bool:
    """Parse asterisks between two letters or digits as text: `2*3*4` is a product, not emphasis."""
    start = end = state.pos
    while end < state.posMax and state.src[end] == "*":
        end += 1
    if not 0 < start < end < state.posMax or not (state.src[start - 1].isalnum() and state.src[end].isalnum()):
        return False
    if not silent:
        state.pending += state.src[start:end]
    state.pos = end
    return True


# HTML and entities stay as they are written: rich would drop the first, and the second can spell control characters.
_OFF = ["entity", "code", "lheading", "reference", "image", "autolink"]
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough"]).disable(_OFF)
_PARSER.inline.ruler.before("emphasis", "operators", _keep_operators)


class _LeftHeading(Heading):
    """A heading in bold, where rich centres it or draws a box around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _NumberedItem(ListItem):
    """An item with the number that the text gives it, where rich counts."""

    number = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _NumberedItem:  # noqa: ARG003 - as rich calls it
        item = cls()
        item.number = token.info
        return item

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        mark = f"{self.number or number}. ".rjust(len(str(last_number)) + 2)
        lines = console.render_lines(self.elements, options.update(width=options.max_width - len(mark)), style=self.style)
        for index, line in enumerate(lines):
            yield Segment(" " * len(mark) if index else mark)
            yield from line
            yield Segment.line()


class SafeMarkdown(Markdown):
    """Markdown whose line breaks stay where they are, and which cannot control the screen."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "list_item_open": _NumberedItem,
    }

    def __init__(self, text: str, *, keep_indentation: bool) -> None:
        super().__init__("", hyperlinks=False, code_theme="ansi_dark")
        # Outside of lists and code, indentation has no meaning in Markdown, and would be dropped.
        if keep_indentation and not _MARKED.search(text):
            text = _INDENTED.sub(lambda found: _SPACE * len(found[0]), text)
        self.parsed = [_cleaned(token) for token in _PARSER.parse(text)]


def _cleaned(token: Token) -> Token:
    token.content = safe(token.content.replace(_SPACE, " "))
    token.type = "hardbreak" if token.type == "softbreak" else token.type
    token.children = None if token.children is None else [_cleaned(child) for child in token.children]
    return token
