"""Goes through the tokens of a query, one after the other."""

from __future__ import annotations

from typing import Final

from interlock.errors import QueryDenied
from interlock_agents.puntini.graphs import cypher
from interlock_agents.puntini.graphs.cypher import Kind, Token, shown

__all__ = ["MAX_DEPTH", "Cursor"]

MAX_DEPTH = 16
"""How deep brackets, cases and subqueries may be nested."""

_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_NAMES = frozenset({Kind.WORD, Kind.QUOTED})


class Cursor:
    """A place among the tokens of a query, for a grammar: what is not taken is refused with what was expected there."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._closing = _closing(tokens)
        self._at: int = 0
        self._depth: int = 0

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _sees(self, *expected: str, ahead: int = 0) -> bool:
        """Say whether the next tokens are these words or signs."""
        place = self._at + ahead
        return all(token.folded == text for token, text in zip(self._tokens[place : place + len(expected)], expected, strict=False)) and (
            place + len(expected) < len(self._tokens)
        )

    def _takes(self, *expected: str) -> bool:
        if not self._sees(*expected):
            return False
        self._at += len(expected)
        return True

    def _needs(self, *expected: str) -> None:
        for text in expected:
            if not self._takes(text):
                raise self._unexpected(f"'{text}'")

    def _unexpected(self, wanted: str) -> QueryDenied:
        if self._sees("!", "="):
            return QueryDenied("A query may not have '!=': write '<>'.")
        token = self._token
        found = "its end" if token.kind is Kind.END else f"'{shown(token.text)}'"
        return QueryDenied(f"The query cannot be read at {found}: {wanted} is expected. One query that only reads is taken.")

    def _name(self, wanted: str) -> str:
        """Take the name of a label, relationship or property."""
        token = self._token
        if not self._is_name():
            raise self._unexpected(wanted)
        if token.kind is Kind.WORD and len(token.text) > cypher.MAX_NAME:
            raise QueryDenied(f"'{shown(token.text)}' is too long: a name has {cypher.MAX_NAME} characters at most.")
        self._at += 1
        return token.folded

    def _variable(self) -> None:
        if self._token.folded in cypher.RESERVED:
            raise self._unexpected("a variable")
        self._name("a variable")

    def _is_name(self, *, ahead: int = 0) -> bool:
        return self._tokens[self._at + ahead].kind in _NAMES

    def _is_variable(self) -> bool:
        return self._is_name() and self._token.folded not in cypher.RESERVED

    def _down(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise QueryDenied(f"The query is nested too deep: {MAX_DEPTH} levels are taken.")


def _closing(tokens: list[Token]) -> dict[int, int]:
    """Find where each bracket closes."""
    found: dict[int, int] = {}
    waiting: list[int] = []
    for place, token in enumerate(tokens):
        if token.kind is not Kind.SIGN:
            continue
        if token.text in _OPENING:
            waiting.append(place)
        elif token.text in _OPENING.values():
            if not waiting or _OPENING[tokens[waiting[-1]].text] != token.text:
                raise QueryDenied(f"The query cannot be read: '{token.text}' closes nothing.")
            found[waiting.pop()] = place
    if waiting:
        raise QueryDenied(f"The query cannot be read: '{tokens[waiting[-1]].text}' is not closed.")
    return found
