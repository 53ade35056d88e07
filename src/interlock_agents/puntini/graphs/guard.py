"""Cypher that only reads: a query is accepted if the grammar has it and it stays within these limits, and no other query is.

There is no second barrier: ladybug's read-only mode still reads and writes files, and a Bolt server may write in a session that was
opened for reading. A path of variable length has to state its longest length ('*1..5'); an unbounded '*' is refused.
"""

from __future__ import annotations

from typing import Final

from interlock.errors import QueryDenied
from interlock_agents.puntini.graphs import cypher
from interlock_agents.puntini.graphs.cypher import Dialect, Kind, Token, shown
from interlock_agents.puntini.graphs.grammar import MAX_DEPTH, Tree, parse

__all__ = [
    "MAX_CASES",
    "MAX_DEPTH",
    "MAX_HOPS",
    "MAX_SHORTEST",
    "MAX_TIMES",
    "check_limits",
    "check_name",
    "check_reading",
    "function_name",
]

MAX_CASES = 8
"""How deep CASE may be nested: ladybug's parser takes twice as long for each level."""

MAX_HOPS = 10
"""How many relationships a path of variable length may have."""

MAX_SHORTEST = 30
"""How many relationships a shortest path may have."""

MAX_TIMES = 10_000
"""How many values one function may create out of nothing."""

_MOST: Final = {"match": ("MATCH clauses", 16), "node": ("nodes in its patterns", 48), "range": ("paths of variable length", 4)}
_MAX_CLAUSES = 60
_MAX_SIGNS = 16  # in a row
_MAX_DIGITS = 9


def check_reading(text: str, *, dialect: Dialect = "neo4j") -> None:
    """Raise QueryDenied, with the reason and what to write instead, unless the text is one query that only reads."""
    tokens = cypher.tokens(text)
    check_limits(parse(tokens, "reading_query"), tokens, cypher.FUNCTIONS[dialect])


def check_name(name: str, what: str) -> str:
    """Return the name of a label, relationship or property if it may be written into a query in backticks, or raise QueryDenied."""
    if not cypher.is_name(name) or name.startswith("_"):
        raise QueryDenied(
            f"'{shown(name)}' cannot be the name of a {what}: use letters, digits and '_', "
            f"a letter first, at most {cypher.MAX_NAME} characters."
        )
    return name


def check_limits(tree: Tree, tokens: list[Token], functions: frozenset[str]) -> None:
    """Raise QueryDenied for a query that calls other functions than these, or that could produce too much."""
    for rule, (what, most) in _MOST.items():
        if sum(1 for _ in tree.all(rule)) > most:
            raise QueryDenied(f"The query has more than {most} {what}: ask for less at a time.")
    if sum(1 for _ in tree.all("match", "unwind", "with", "return")) > _MAX_CLAUSES:
        raise QueryDenied(f"The query has more than {_MAX_CLAUSES} clauses: ask for less at a time.")
    if any(len(operand.of("sign")) > _MAX_SIGNS for operand in tree.all("operand")):
        raise QueryDenied(f"The query has more than {_MAX_SIGNS} signs in a row: leave them out.")
    if _nesting(tree, "case") > MAX_CASES:
        raise QueryDenied(f"CASE is nested too deep: {MAX_CASES} levels are allowed.")
    for call in tree.all("call"):
        _check_call(call, tokens, functions)
    in_shortest = {found for shortest in tree.all("shortest") for found in shortest.all("range")}
    for found in tree.all("range"):
        _check_range(found, tokens, shortest=found in in_shortest)


def function_name(call: Tree, tokens: list[Token]) -> str:
    """Return the name that a call has, in capitals; a name in backticks is never the name of a function."""
    (function,) = call.of("function")
    return "".join(token.folded or token.text for token in tokens[function.begin : function.end])


def _nesting(tree: Tree, rule: str) -> int:
    return max((_nesting(child, rule) for child in tree.children), default=0) + (tree.rule == rule)


def _check_call(call: Tree, tokens: list[Token], functions: frozenset[str]) -> None:
    name, (function,) = function_name(call, tokens), call.of("function")
    if name not in functions:
        written = "".join(token.text for token in tokens[function.begin : function.end])
        raise QueryDenied(
            f"A query may not call '{shown(written)}': it may call functions for values, texts, numbers, lists, times and paths."
        )
    if tokens[function.end + 1].folded == "*" and name != "COUNT":
        raise QueryDenied(f"'{name.lower()}' does not take '*'.")
    for cast in call.of("cast"):
        if name != "CAST" or not any(token.folded in cypher.CAST_TYPES for token in tokens[cast.begin : cast.end]):
            raise QueryDenied(f"'{name.lower()}' cannot be called with AS there: write cast(value AS STRING).")
    arguments = [argument for part in call.of("arguments") for argument in part.of("argument")]
    first = cypher.BOUNDED.get(name, len(arguments))
    for place, argument in enumerate(arguments):
        if first <= place and (name == "RANGE" or place == 1) and not _is_bound(argument, tokens):
            raise QueryDenied(
                f"'{name.lower()}' takes whole numbers that are written out, at most {MAX_TIMES:,}, or the size(...) of a list: "
                "nothing else limits how much it creates."
            )


def _is_bound(argument: Tree, tokens: list[Token]) -> bool:
    """Return whether an argument is a small number, or the size of a list, to which a small number may be added."""
    first, *others = (operand for expression in argument.of("expression") for operand in expression.of("operand"))
    calls = [call for atom in first.of("atom") for call in atom.of("call")]
    if calls and not first.of("sign", "behind") and function_name(calls[0], tokens) in {"SIZE", "LENGTH"}:
        added = tokens[first.end : argument.end]
        return not others or (len(added) == 2 and added[0].folded in {"+", "-"} and _is_small(added[1]))  # noqa: PLR2004 - sign and number
    number = tokens[first.begin : argument.end]
    return len(number) == 1 + (number[0].folded == "-") and _is_small(number[-1])


def _is_small(token: Token) -> bool:
    return token.kind is Kind.INTEGER and _number(token) <= MAX_TIMES


def _number(token: Token) -> int:
    """Return the value of an integer, or a large number in place of one with many digits."""
    return int(token.text) if len(token.text) <= _MAX_DIGITS else 10**_MAX_DIGITS


def _check_range(found: Tree, tokens: list[Token], *, shortest: bool) -> None:
    walk = [token.folded for part in found.of("walk") for token in tokens[part.begin : part.end]]
    most = MAX_SHORTEST if shortest or "SHORTEST" in walk else MAX_HOPS
    begin = found.begin + 1 + len(walk)
    bounds = [token for token in tokens[begin : begin + 3] if token.folded == ".." or token.kind is Kind.INTEGER]
    lower = _number(bounds[0]) if bounds and bounds[0].kind is Kind.INTEGER else 0
    upper = _number(bounds[-1]) if bounds and bounds[-1].kind is Kind.INTEGER else None
    if upper is None or upper > most or lower > upper:
        raise QueryDenied(f"A path of variable length states how long it may be, at most {most} here: write '*1..{min(most, 5)}'.")
