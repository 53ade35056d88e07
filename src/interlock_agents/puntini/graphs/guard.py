"""Cypher that only reads: a query is taken if it is one that this grammar knows, and nothing else is.

The guard is the only one there is: ladybug's read-only mode still reads and writes files, and a Bolt server may write in a session that
was opened for reading. A path of any length has to say how far it goes ('*1..5'); an unbounded '*' is refused.
"""

from __future__ import annotations

from interlock.errors import QueryDenied
from interlock_agents.puntini.graphs import cypher
from interlock_agents.puntini.graphs.cursor import MAX_DEPTH
from interlock_agents.puntini.graphs.cypher import Dialect, Kind, Token, shown
from interlock_agents.puntini.graphs.expressions import MAX_CASES, MAX_HOPS, MAX_TIMES, Expressions, number_of

__all__ = [
    "MAX_CASES",
    "MAX_CLAUSES",
    "MAX_DEPTH",
    "MAX_HOPS",
    "MAX_MATCHES",
    "MAX_NODES",
    "MAX_SHORTEST",
    "MAX_TIMES",
    "Reader",
    "check_name",
    "check_reading",
]

MAX_CLAUSES = 60
"""How many clauses a query may have, those of its subqueries included."""

MAX_MATCHES = 16
"""How many of these may be MATCH."""

MAX_NODES = 48
"""How many nodes the patterns of a query may have."""

MAX_SHORTEST = 30
"""How many relationships a shortest path may have."""

MAX_VARIABLE = 4
"""How many paths of variable length a query may have."""

_WALKS = frozenset({"ACYCLIC", "TRAIL"})
_FIRST = "A query begins with MATCH, OPTIONAL MATCH, UNWIND, WITH or RETURN"


def check_reading(text: str, *, dialect: Dialect = "neo4j") -> None:
    """Raise QueryDenied, with a sentence for whoever wrote the query, unless the text is one query that only reads."""
    Reader(cypher.tokens(text), dialect).statement()


def check_name(name: str, what: str) -> str:
    """Return the name of a label, relationship or property if it may be written into a query in backticks, or raise QueryDenied."""
    if not cypher.is_name(name) or name.startswith("_"):
        raise QueryDenied(
            f"'{shown(name)}' cannot be the name of a {what}: use letters, digits and '_', "
            f"a letter first, {cypher.MAX_NAME} characters at most."
        )
    return name


class Reader(Expressions):
    """Goes through a query once; each method takes what it is named for, and refuses anything else."""

    def __init__(self, tokens: list[Token], dialect: Dialect) -> None:
        super().__init__(tokens, dialect)
        self._clauses = self._matches = self._nodes = self._paths = 0

    # Clauses

    def statement(self) -> None:
        self._query(ends=False)
        if self._token.kind is not Kind.END:
            raise self._unexpected("the end")

    def _query(self, *, ends: bool) -> None:
        """Take queries joined by UNION; one that `ends` by a brace may go without RETURN."""
        self._single(ends=ends)
        while self._takes("UNION"):
            self._takes("ALL")
            self._single(ends=ends)

    def _single(self, *, ends: bool) -> None:
        begun = self._at
        while True:
            self._clauses += 1
            if self._clauses > MAX_CLAUSES:
                raise QueryDenied(f"The query has more than {MAX_CLAUSES} clauses: ask for less at a time.")
            if self._takes("RETURN"):
                self._projection()
                return
            if self._reads():
                continue
            if self._at == begun:
                raise QueryDenied(f"{_FIRST}, not with '{shown(self._token.text)}'.")
            if ends and self._sees("}"):
                return
            raise self._unexpected("MATCH, UNWIND, WITH or RETURN")

    def _reads(self) -> bool:
        """Take a clause that reads and is not the last, if there is one."""
        if self._sees("MATCH") or self._sees("OPTIONAL", "MATCH"):
            self._match()
        elif self._takes("UNWIND"):
            self._expression()
            self._needs("AS")
            self._variable()
        elif self._takes("WITH"):
            self._projection()
            self._where()
        else:
            return False
        return True

    def _match(self) -> None:
        self._takes("OPTIONAL")
        self._needs("MATCH")
        self._matches += 1
        if self._matches > MAX_MATCHES:
            raise QueryDenied(f"The query has more than {MAX_MATCHES} MATCH: ask for less at a time.")
        self._patterns()
        self._where()

    def _projection(self) -> None:
        self._takes("DISTINCT")
        if not self._takes("*"):
            self._item()
        while self._takes(","):
            self._item()
        if self._takes("ORDER"):
            self._needs("BY")
            self._order()
            while self._takes(","):
                self._order()
        for word in ("SKIP", "LIMIT"):
            if self._takes(word):
                if self._token.kind not in {Kind.INTEGER, Kind.PARAMETER}:
                    raise self._unexpected("a whole number or a parameter")
                self._at += 1

    def _item(self) -> None:
        self._expression()
        if self._takes("AS"):
            self._variable()

    def _order(self) -> None:
        self._expression()
        if self._token.folded in {"ASC", "ASCENDING", "DESC", "DESCENDING"}:
            self._at += 1

    # Patterns

    def _patterns(self) -> None:
        self._pattern()
        while self._takes(","):
            self._pattern()

    def _pattern(self) -> None:
        if self._is_variable() and self._sees("=", ahead=1):
            self._variable()
            self._needs("=")
        if self._dialect == "neo4j" and self._token.folded in {"SHORTESTPATH", "ALLSHORTESTPATHS"}:
            self._shortest()
        else:
            self._path(MAX_HOPS)

    def _shortest(self) -> None:
        self._at += 1
        self._needs("(")
        self._down()
        self._path(MAX_SHORTEST)
        self._depth -= 1
        self._needs(")")

    def _path(self, hops: int) -> None:
        self._node()
        while self._sees("-") or self._sees("<", "-"):
            self._relationship(hops)
            self._node()

    def _node(self) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise QueryDenied(f"The query has more than {MAX_NODES} nodes in its patterns: ask for less at a time.")
        self._needs("(")
        self._down()
        if self._is_variable():
            self._variable()
        if self._takes(":"):
            self._labels()
        self._properties()
        self._depth -= 1
        self._needs(")")

    def _relationship(self, hops: int) -> None:
        self._takes("<")
        self._needs("-")
        if self._takes("["):
            self._down()
            if self._is_variable():
                self._variable()
            if self._takes(":"):
                self._labels()
            if self._takes("*"):
                self._range(hops)
            self._properties()
            self._depth -= 1
            self._needs("]")
        self._needs("-")
        self._takes(">")

    def _labels(self) -> None:
        """Take the labels behind a colon: A, A:B, A|B, A|:B, A&B, !A, (A|B)&C."""
        while True:
            self._takes("!")
            if self._takes("("):
                self._down()
                self._labels()
                self._depth -= 1
                self._needs(")")
            else:
                self._name("a label")
            if self._takes("|"):
                self._takes(":")
            elif not (self._takes("&") or self._takes(":")):
                return

    def _properties(self) -> None:
        """Take what a node or a relationship has to be like: a map, or a condition."""
        if self._sees("{"):
            self._map()
        elif self._dialect == "neo4j" and self._token.kind is Kind.PARAMETER:
            self._at += 1
        if self._dialect == "neo4j":
            self._where()

    def _range(self, hops: int) -> None:
        self._paths += 1
        if self._paths > MAX_VARIABLE:
            raise QueryDenied(f"The query has more than {MAX_VARIABLE} paths of variable length: ask for less at a time.")
        if self._dialect == "ladybug":
            if self._takes("SHORTEST") or self._takes("ALL", "SHORTEST"):
                hops = MAX_SHORTEST
            elif self._token.folded in _WALKS:
                self._at += 1
        lower = self._whole()
        upper = self._whole() if self._takes("..") else lower
        if upper is None or upper > hops or (lower or 0) > upper:
            raise QueryDenied(f"A path of variable length says how far it goes, {hops} at most here: write '*1..{min(hops, 5)}'.")
        if self._dialect == "ladybug" and self._takes("("):
            self._down()
            self._variable()
            self._needs(",")
            self._variable()
            self._needs("|", "WHERE")
            self._expression()
            self._depth -= 1
            self._needs(")")

    def _whole(self) -> int | None:
        if self._token.kind is not Kind.INTEGER:
            return None
        self._at += 1
        return number_of(self._tokens[self._at - 1])

    def _subquery(self) -> None:
        if self._token.folded == "COLLECT" and self._dialect != "neo4j":
            raise QueryDenied("A query may not have 'COLLECT {': call collect(...).")
        self._at += 1
        self._needs("{")
        self._down()
        if self._sees("(") or (self._is_variable() and self._sees("=", ahead=1)):
            self._patterns()
            self._where()
        else:
            self._query(ends=True)
        self._depth -= 1
        self._needs("}")
