"""Expressions of Cypher: values, operators, lists, maps, cases and calls of the functions that are allowed."""

from __future__ import annotations

from abc import abstractmethod

from interlock.errors import QueryDenied
from interlock_agents.puntini.graphs import cypher
from interlock_agents.puntini.graphs.cursor import MAX_DEPTH, Cursor
from interlock_agents.puntini.graphs.cypher import Dialect, Kind, Token, shown

__all__ = ["MAX_CASES", "MAX_HOPS", "MAX_TIMES", "Expressions", "number_of"]

MAX_CASES = 8
"""How deep cases may be nested: ladybug's parser takes twice as long for each."""

MAX_HOPS = 10
"""How many relationships a path of variable length may have."""

MAX_TIMES = 10_000
"""How many values a query may make out of nothing by one function."""

_INFIX = frozenset({"=", "<>", "<", "<=", ">", ">=", "=~", "+", "-", "*", "/", "%", "^", "||"})
_INFIX_WORDS = frozenset({"AND", "CONTAINS", "IN", "OR", "XOR"})
_VALUES = frozenset({Kind.STRING, Kind.REAL, Kind.INTEGER, Kind.PARAMETER})


class Expressions(Cursor):
    """Takes expressions. What may stand in one and is no expression itself (a path, a subquery) is left to the grammar of queries."""

    def __init__(self, tokens: list[Token], dialect: Dialect) -> None:
        super().__init__(tokens)
        self._dialect = dialect
        self._functions = cypher.FUNCTIONS[dialect]
        self._cases = 0

    @abstractmethod
    def _path(self, hops: int) -> None: ...

    @abstractmethod
    def _shortest(self) -> None: ...

    @abstractmethod
    def _subquery(self) -> None: ...

    def _where(self) -> None:
        if self._takes("WHERE"):
            self._expression()

    # The databases know which operator goes first; here it only matters that nothing else is between them

    def _expression(self) -> None:
        self._down()
        self._operand()
        while self._operator():
            self._operand()
        self._depth -= 1

    def _operator(self) -> bool:
        while self._takes("IS"):
            self._takes("NOT")
            self._needs("NULL")
        if self._takes("STARTS") or self._takes("ENDS"):
            self._needs("WITH")
            return True
        if self._token.folded in _INFIX or self._token.folded in _INFIX_WORDS:
            self._at += 1
            return True
        return False

    def _operand(self) -> None:
        begun = self._at
        while self._takes("NOT") or self._takes("-") or self._takes("+"):
            if self._at - begun > MAX_DEPTH:
                raise QueryDenied(f"The query has more than {MAX_DEPTH} signs in a row: leave them out.")
        self._atom()
        while self._behind():
            pass

    def _behind(self) -> bool:
        """Take a property or a part of a list behind a value."""
        if self._takes("."):
            self._name("a property")
            if self._sees("("):
                raise self._denied_function(self._tokens[self._at - 1].text)
            return True
        if self._takes("["):
            self._slice()
            return True
        return False

    def _slice(self) -> None:
        between = ("..", ":") if self._dialect == "ladybug" else ("..",)
        if not any(self._sees(sign) for sign in between):
            self._expression()
        if any(self._takes(sign) for sign in between) and not self._sees("]"):
            self._expression()
        self._needs("]")

    def _atom(self) -> None:
        token = self._token
        if token.kind in _VALUES or token.folded in {"TRUE", "FALSE", "NULL"}:
            self._at += 1
        elif token.folded == "(":
            self._parenthesis()
        elif token.folded == "[":
            self._list()
        elif token.folded == "{":
            self._map()
        elif token.folded == "CASE":
            self._case()
        elif token.folded in {"EXISTS", "COUNT", "COLLECT"} and self._sees("{", ahead=1):
            self._subquery()
        elif self._is_call():
            self._call()
        elif self._is_variable():
            self._variable()
            self._variable_behind()
        else:
            raise self._unexpected("a value")

    def _variable_behind(self) -> None:
        """Take what only Neo4j has behind a variable: labels that it must have, or the properties to take of it."""
        if self._dialect != "neo4j":
            return
        if self._takes(":"):
            self._name("a label")
            while self._takes(":") or self._takes("&"):
                self._name("a label")
        elif self._takes("{"):
            self._down()
            while not self._takes("}"):
                if self._takes("."):
                    if not self._takes("*"):
                        self._name("a property")
                else:
                    self._name("a property")
                    if self._takes(":"):
                        self._expression()
                if not self._sees("}"):
                    self._needs(",")
            self._depth -= 1

    def _parenthesis(self) -> None:
        if self._is_pattern():
            self._path(MAX_HOPS)
            return
        self._needs("(")
        self._expression()
        self._needs(")")

    def _is_pattern(self) -> bool:
        """Say whether a bracket is a node: a relationship follows where it closes."""
        after = self._closing[self._at] + 1 - self._at
        if self._sees("<", "-", ahead=after):
            after += 1
        if self._sees("-", "[", ahead=after):
            return True
        first, second = self._tokens[self._at + after : self._at + after + 2] if self._sees("-", "-", ahead=after) else (None, None)
        return first is not None and second is not None and first.start + 1 == second.start

    def _list(self) -> None:
        self._needs("[")
        if self._takes("]"):
            return
        if self._is_variable() and self._sees("IN", ahead=1):
            self._down()
            self._variable()
            self._needs("IN")
            self._expression()
            self._where()
            if self._takes("|"):
                self._expression()
            self._depth -= 1
        elif self._is_variable() and self._sees("=", "(", ahead=1) and self._closes_as_pattern(2):
            self._variable()
            self._needs("=")
            self._comprehension()
        elif self._sees("(") and self._is_pattern():
            self._comprehension()
        else:
            self._arguments()
        self._needs("]")

    def _closes_as_pattern(self, ahead: int) -> bool:
        self._at += ahead
        found = self._is_pattern()
        self._at -= ahead
        return found

    def _comprehension(self) -> None:
        """Take a pattern and what is made of each match; a list may also begin with a pattern."""
        self._down()
        self._path(MAX_HOPS)
        self._where()
        if self._takes("|"):
            self._expression()
        else:
            while self._operator():
                self._operand()
            if self._takes(","):
                self._arguments()
        self._depth -= 1

    def _arguments(self) -> None:
        self._expression()
        while self._takes(","):
            self._expression()

    def _map(self) -> None:
        self._needs("{")
        if self._takes("}"):
            return
        while True:
            self._name("a name")
            self._needs(":")
            self._expression()
            if not self._takes(","):
                break
        self._needs("}")

    def _case(self) -> None:
        self._cases += 1
        if self._cases > MAX_CASES:
            raise QueryDenied(f"Cases are nested too deep: {MAX_CASES} levels are taken.")
        self._needs("CASE")
        if not self._sees("WHEN"):
            self._expression()
        self._needs("WHEN")
        while True:
            self._arguments()
            self._needs("THEN")
            self._expression()
            if not self._takes("WHEN"):
                break
        if self._takes("ELSE"):
            self._expression()
        self._needs("END")
        self._cases -= 1

    # Functions

    def _is_call(self) -> bool:
        """Say whether a word, or words with dots between them, are called."""
        if not self._is_name():
            return False
        ahead = 1
        while self._sees(".", ahead=ahead) and self._is_name(ahead=ahead + 1):
            ahead += 2
        return self._sees("(", ahead=ahead)

    def _call(self) -> None:
        parts: list[Token] = []
        while not self._takes("("):
            parts.append(self._token)
            self._at += 1
        written = "".join(part.text for part in parts)
        name = "".join(part.folded or part.text for part in parts)
        if name not in self._functions:
            raise self._denied_function(written)
        if name in {"SHORTESTPATH", "ALLSHORTESTPATHS"}:
            self._at -= 2
            self._shortest()
            return
        if name in cypher.QUANTIFIERS:
            self._quantified()
        elif name == "REDUCE":
            self._reduction()
        elif name == "CAST":
            self._cast()
        elif name in cypher.LAMBDAS:
            self._expression()
            self._needs(",")
            self._lambda()
        elif name in cypher.BOUNDED:
            self._bounded(name)
        elif not (name == "COUNT" and self._takes("*")) and not self._sees(")"):
            self._takes("DISTINCT")
            self._arguments()
        self._needs(")")

    def _denied_function(self, name: str) -> QueryDenied:
        return QueryDenied(
            f"A query may not call '{shown(name)}': only functions for values, texts, numbers, lists, times and paths are taken."
        )

    def _quantified(self) -> None:
        self._variable()
        self._needs("IN")
        self._expression()
        self._where()

    def _reduction(self) -> None:
        self._variable()
        self._needs("=")
        self._expression()
        self._needs(",")
        self._variable()
        self._needs("IN")
        self._expression()
        self._needs("|")
        self._expression()

    def _cast(self) -> None:
        self._expression()
        if self._takes(","):
            self._expression()
            return
        self._needs("AS")
        if self._token.folded not in cypher.CAST_TYPES:
            raise self._unexpected("a type")
        self._at += 1
        while self._takes("["):
            self._needs("]")

    def _lambda(self) -> None:
        self._variable()
        self._needs("-", ">")
        self._expression()

    def _bounded(self, name: str) -> None:
        """Take arguments of which those that say how much are numbers that are written out, or the size of a list."""
        place = 0
        while True:
            begun = self._at
            self._expression()
            if place >= cypher.BOUNDED[name] and not (name != "RANGE" and place > 1) and not self._is_bound(begun, self._at):
                raise QueryDenied(
                    f"'{name.lower()}' takes whole numbers that are written out, {MAX_TIMES:,} at most, or the size(...) of a list: "
                    "nothing else says how much it makes."
                )
            place += 1
            if not self._takes(","):
                return

    def _is_bound(self, begun: int, end: int) -> bool:
        part = self._tokens[begun:end]
        if part[0].folded in {"SIZE", "LENGTH"} and len(part) > 2 and part[1].folded == "(":  # noqa: PLR2004 - a name and two brackets
            rest = self._tokens[self._closing[begun + 1] + 1 : end]
            return not rest or (len(rest) == 2 and rest[0].folded in {"+", "-"} and _is_small(rest[1]))  # noqa: PLR2004 - a sign and a number
        if part[0].folded == "-":
            part = part[1:]
        return len(part) == 1 and _is_small(part[0])


def number_of(token: Token) -> int:
    """Return what an integer says, or a number that is too large where it is longer than any that is taken."""
    return int(token.text) if len(token.text) <= 9 else 10**9  # noqa: PLR2004 - digits


def _is_small(token: Token) -> bool:
    return token.kind is Kind.INTEGER and number_of(token) <= MAX_TIMES
