"""Translation of everyday Cypher to the dialect of ladybug, and the names of the columns as they were written.

The guard checks the translated query: a wrong translation can only make a query fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from interlock.errors import QueryDenied
from interlock_agents.puntini.graphs import cypher
from interlock_agents.puntini.graphs.cypher import Dialect, Kind, Token
from interlock_agents.puntini.graphs.grammar import Tree, parse
from interlock_agents.puntini.graphs.guard import MAX_SHORTEST, check_limits, check_reading, function_name

__all__ = ["Prepared", "prepare"]

_RENAMED: Final = {
    "TYPE": "label", "TOSTRING": "string", "TOINTEGER": "to_int64", "TOFLOAT": "to_double", "TOBOOLEAN": "to_bool",
    "SPLIT": "string_split", "STARTNODE": "start_node", "ENDNODE": "end_node",
}  # fmt: skip
"""Functions that have another name in ladybug."""

_WRAPPED: Final = {
    "LABELS": ("[label(", ")]"), "HEAD": ("list_extract(", ", 1)"), "LAST": ("list_extract(", ", -1)"), "EXISTS": ("(", " IS NOT NULL)"),
}  # fmt: skip
"""Functions that are an expression in ladybug: the text before and after the argument."""

_SHORTEST: Final = {"SHORTESTPATH": "SHORTEST", "ALLSHORTESTPATHS": "ALL SHORTEST"}
_TRANSLATED = frozenset({*_RENAMED, *_WRAPPED})
_Edit = tuple[int, int, str]
"""The characters of the query from one place to another, and what replaces them."""


@dataclass(frozen=True)
class Prepared:
    """A query that can be run, and its columns as they were written; None if they are not known."""

    text: str
    columns: tuple[str, ...] | None


def prepare(text: str, *, dialect: Dialect) -> Prepared:
    """Remove comments, translate the query to the dialect, and check it. Raises QueryDenied if it is refused."""
    clean = cypher.cleaned(text)
    tokens = cypher.tokens(clean)
    tree = parse(tokens, "reading_query")
    check_limits(tree, tokens, cypher.FUNCTIONS[dialect] | _TRANSLATED)
    translated = clean
    for start, end, instead in sorted(_edits(tree, tokens, dialect), reverse=True):
        translated = f"{translated[:start]}{instead}{translated[end:]}"
    check_reading(translated, dialect=dialect)
    return Prepared(translated, _columns(tree, tokens, clean))


def _columns(tree: Tree, tokens: list[Token], text: str) -> tuple[str, ...] | None:
    """Return the names of the columns of the first RETURN that is not in a subquery; None for RETURN *."""
    query = tree.of("query")[0].of("single")[0]
    projection = query.of("return")[0].of("projection")[0]
    first = projection.begin + (tokens[projection.begin].folded == "DISTINCT")
    if tokens[first].folded == "*":
        return None
    return tuple(_column(item, tokens, text) for item in projection.of("item"))


def _column(item: Tree, tokens: list[Token], text: str) -> str:
    (expression,), last = item.of("expression"), tokens[item.end - 1]
    return last.text.strip("`") if expression.end < item.end else " ".join(text[tokens[item.begin].start : last.end].split())


def _edits(tree: Tree, tokens: list[Token], dialect: Dialect) -> Iterator[_Edit]:
    for call in tree.all("call"):
        name = function_name(call, tokens)
        opening, closing = tokens[call.begin + 1], tokens[call.end - 1]
        if name == "EXISTS" and next(call.all("atom")).of("joined"):
            if dialect == "ladybug":
                yield tokens[call.begin].start, tokens[call.begin].end, ""
        elif name in _WRAPPED and (dialect == "ladybug" or name == "EXISTS"):
            before, after = _WRAPPED[name]
            yield tokens[call.begin].start, opening.end, before
            yield closing.start, closing.end, after
        elif name in _RENAMED and dialect == "ladybug":
            yield tokens[call.begin].start, tokens[call.begin].end, _RENAMED[name]
    if dialect == "ladybug":
        for test in tree.all("label_test"):
            variable, *labels = tokens[test.begin : test.end : 2]
            has = " AND ".join(f"label({variable.text}) = '{label.text.strip('`')}'" for label in labels)
            yield variable.start, labels[-1].end, f"({has})"
        for shortest in tree.all("shortest"):
            yield from _shortest(shortest, tokens)


def _shortest(shortest: Tree, tokens: list[Token]) -> Iterator[_Edit]:
    """Write shortestPath((a)-[:R*..5]-(b)) as (a)-[:R* SHORTEST 1..5]-(b)."""
    name, opening, closing = tokens[shortest.begin], tokens[shortest.begin + 1], tokens[shortest.end - 1]
    yield name.start, opening.end, ""
    yield closing.start, closing.end, ""
    for found in shortest.all("range"):
        star, first, second = tokens[found.begin : found.begin + 3]
        if first.folded != ".." and not (first.kind is Kind.INTEGER and second.folded == ".."):
            raise QueryDenied(f"A shortest path states how long it may be, at most {MAX_SHORTEST}: write '*..{MAX_SHORTEST}'.")
        yield star.end, star.end, f" {_SHORTEST[name.folded]} {'1' if first.folded == '..' else ''}"
