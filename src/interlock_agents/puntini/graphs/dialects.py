"""Everyday Cypher for a database that speaks another dialect of it, and the names of the columns as they were written.

What is run is checked by the guard after it was translated: a translation can only make a query fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interlock.errors import QueryDenied
from interlock_agents.puntini.graphs import cypher
from interlock_agents.puntini.graphs.cypher import Dialect, Kind
from interlock_agents.puntini.graphs.guard import MAX_HOPS, MAX_SHORTEST, Reader, check_reading

__all__ = ["Prepared", "prepared"]

_RENAMED: Final = {
    "TYPE": "label",
    "TOSTRING": "string",
    "TOINTEGER": "to_int64",
    "TOFLOAT": "to_double",
    "TOBOOLEAN": "to_bool",
    "SPLIT": "string_split",
    "STARTNODE": "start_node",
    "ENDNODE": "end_node",
}
"""Functions that ladybug has under another name."""

_WRAPPED: Final = {
    "LABELS": ("[label(", ")]"),
    "HEAD": ("list_extract(", ", 1)"),
    "LAST": ("list_extract(", ", -1)"),
    "EXISTS": ("(", " IS NOT NULL)"),
}
"""Functions that are something else in ladybug: what stands before and behind their argument."""


@dataclass(frozen=True)
class Prepared:
    """A query as it is run, and its columns as they were written; None where they are not known."""

    text: str
    columns: tuple[str, ...] | None


def prepared(text: str, *, dialect: Dialect) -> Prepared:
    """Make a query ready to be run: without comments, in the database's dialect, and checked. Raises QueryDenied where it is refused."""
    clean = cypher.cleaned(text)
    translator = _Translator(clean, dialect)
    translator.statement()
    translated = translator.translated()
    check_reading(translated, dialect=dialect)
    return Prepared(translated, translator.columns)


class _Translator(Reader):
    """Reads a query, takes the everyday forms that ladybug does not have, and notes what has to stand in their place."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        super().__init__(cypher.tokens(text), dialect)
        self._text = text
        self._edits: list[tuple[int, int, str]] = []
        self._translates = dialect == "ladybug"
        self._items: list[str] | None = []
        self.columns: tuple[str, ...] | None = None

    def translated(self) -> str:
        text = self._text
        for start, end, instead in sorted(self._edits, reverse=True):
            text = f"{text[:start]}{instead}{text[end:]}"
        return text

    # Columns

    def _single(self, *, ends: bool) -> None:
        super()._single(ends=ends)
        if not ends and self.columns is None and self._items:
            self.columns = tuple(self._items)

    def _projection(self) -> None:
        self._items = None if self._sees("*") or self._sees("DISTINCT", "*") else []
        items = self._items
        super()._projection()
        self._items = items  # those of a subquery are not its own

    def _item(self) -> None:
        begun, items = self._token, self._items
        super()._item()
        last = self._tokens[self._at - 1]
        is_named = self._at >= 2 and self._tokens[self._at - 2].folded == "AS"  # noqa: PLR2004 - AS and the name
        written = last.text.strip("`") if is_named else self._text[begun.start : last.start + len(last.text)]
        if items is not None:
            items.append(" ".join(written.split()))

    # Functions and predicates

    def _call(self) -> None:
        token = self._token
        if token.folded == "EXISTS" and self._sees("(", ahead=1):
            self._wrapped(*_WRAPPED["EXISTS"])
        elif not self._translates or not self._sees("(", ahead=1):
            super()._call()
        elif token.folded in _RENAMED:
            self._edit(token.start, token.start + len(token.text), _RENAMED[token.folded])
            self._take_call()
        elif token.folded in _WRAPPED:
            self._wrapped(*_WRAPPED[token.folded])
        else:
            super()._call()

    def _take_call(self) -> None:
        self._at += 1
        self._needs("(")
        self._arguments()
        self._needs(")")

    def _wrapped(self, before: str, behind: str) -> None:
        token = self._token
        self._at += 1
        opened = self._token
        self._needs("(")
        is_pattern = self._sees("(") and self._is_pattern()
        if is_pattern:
            before, behind = ("(", ")") if self._translates else ("exists(", ")")
            self._path(MAX_HOPS)
        else:
            self._expression()
        closed = self._token
        self._needs(")")
        self._edit(token.start, opened.start + 1, before)
        self._edit(closed.start, closed.start + 1, behind)

    def _variable_behind(self) -> None:
        variable = self._tokens[self._at - 1]
        if not self._translates or not self._takes(":"):
            super()._variable_behind()
            return
        labels = [self._label()]
        while self._takes(":") or self._takes("&"):
            labels.append(self._label())
        last = self._tokens[self._at - 1]
        has = " AND ".join(f"label({variable.text}) = '{label}'" for label in labels)
        self._edit(variable.start, last.start + len(last.text), f"({has})")

    def _label(self) -> str:
        token = self._token
        self._name("a label")
        return token.text.strip("`")

    # Shortest paths

    def _pattern(self) -> None:
        if self._is_variable() and self._sees("=", ahead=1) and self._tokens[self._at + 2].folded in _SHORTEST:
            self._variable()
            self._needs("=")
        if self._translates and self._token.folded in _SHORTEST and self._sees("(", ahead=1):
            self._translate_shortest()
        else:
            super()._pattern()

    def _translate_shortest(self) -> None:
        """Write shortestPath((a)-[:R*..5]-(b)) as (a)-[:R* SHORTEST 1..5]-(b)."""
        token = self._token
        kind = _SHORTEST[token.folded]
        self._at += 1
        opened, closes = self._token, self._closing[self._at]
        for place in range(self._at, closes):
            if self._tokens[place].folded == "*":
                self._bound(place, kind)
        self._edit(token.start, opened.start + 1, "")
        self._edit(self._tokens[closes].start, self._tokens[closes].start + 1, "")
        self._at += 1
        self._path(MAX_SHORTEST)
        self._needs(")")

    def _bound(self, place: int, kind: str) -> None:
        """Say in ladybug's words how far a shortest path may go."""
        star, after, behind = self._tokens[place : place + 3]
        end = star.start + 1
        if after.folded == "..":
            self._edit(end, end, f" {kind} 1")
        elif after.kind is Kind.INTEGER and behind.folded == "..":
            self._edit(end, end, f" {kind} ")
        else:
            raise QueryDenied(f"A shortest path says how far it may go, {MAX_SHORTEST} at most: write '*..{MAX_SHORTEST}'.")

    def _edit(self, start: int, end: int, instead: str) -> None:
        self._edits.append((start, end, instead))


_SHORTEST: Final = {"SHORTESTPATH": "SHORTEST", "ALLSHORTESTPATHS": "ALL SHORTEST"}
