"""A packrat parser for the Cypher that is accepted, as `cypher.grammar` defines it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.errors import QueryDenied
from interlock_agents.puntini.graphs.cypher import MAX_NAME, RESERVED, Kind, Token, shown

__all__ = ["MAX_DEPTH", "Tree", "parse"]

MAX_DEPTH = 16
"""How deep expressions may be nested."""

_NESTING = {"expression": MAX_DEPTH, "labels": MAX_DEPTH}
_GRAMMAR = Path(__file__).with_name("cypher.grammar").read_text(encoding="utf-8")
_NOTATION = re.compile(r'"[^"]+"|\w+|[()|?*+]')
_EXPECTED = {
    "RETURN": "MATCH, UNWIND, WITH or RETURN", "DELETE": "CREATE, MERGE, SET, REMOVE or DELETE", "STRING": "a value", "END": "the end",
    "XOR": "an operator",
}  # fmt: skip
"""A token that is expected, and what a message says for it and all the tokens that are expected with it."""
_Expression = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Tree:
    """The tokens from `begin` to `end` that a rule matched, and the rules that matched inside of it."""

    rule: str
    begin: int
    end: int
    children: tuple[Tree, ...]

    def all(self, *rules: str) -> Iterator[Tree]:
        """Yield every tree of these rules in it, outer ones first."""
        for child in self.children:
            if child.rule in rules:
                yield child
            yield from child.all(*rules)

    def of(self, *rules: str) -> list[Tree]:
        """Return its own parts of these rules."""
        return [child for child in self.children if child.rule in rules]


def parse(tokens: list[Token], rule: str) -> Tree:
    """Parse all tokens by a rule. Raises QueryDenied with what was expected at the first token that does not fit."""
    parser = _Parser(tokens)
    found = parser.rule(rule, 0)
    if found is None:
        raise parser.error()
    return found


def _rules() -> dict[str, _Expression]:
    rules: dict[str, _Expression] = {}
    for definition in re.split(r"\n(?=\w)", re.sub(r"(?m)^#.*$", "", _GRAMMAR).strip()):
        name, _, body = definition.partition("=")
        rules[name.strip()] = _alternatives(_NOTATION.findall(body))
    return rules


def _alternatives(words: list[str]) -> _Expression:
    """Read alternatives up to the end or a closing bracket, and take their words from the list."""
    found: list[list[_Expression]] = [[]]
    while words and words[0] != ")":
        word = words.pop(0)
        if word == "|":
            found.append([])
            continue
        if word == "(":
            item = _alternatives(words)
            words.pop(0)
        else:
            item = ("text", word[1:-1]) if word[0] == '"' else ("kind" if word.isupper() else "rule", word)
        if words and words[0] in "?*+":
            item = (words.pop(0), item)
        found[-1].append(item)
    return "any", [("all", items) for items in found]


class _Parser:
    """Parses one list of tokens. Every rule is tried once at every place."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._known: dict[tuple[str, int], Tree | None] = {}
        self._depth = dict.fromkeys(_NESTING, 0)
        self._furthest = 0
        self._expected: set[str] = set()

    def rule(self, name: str, at: int) -> Tree | None:
        place = (name, at)
        if place not in self._known:
            if name in _NESTING:
                self._depth[name] += 1
                if self._depth[name] > _NESTING[name]:
                    raise QueryDenied(f"The query is nested too deep: {_NESTING[name]} levels are allowed.")
            children: list[Tree] = []
            end = self._match(_RULES[name], at, children)
            self._known[place] = None if end is None else Tree(name, at, end, tuple(children))
            if name in _NESTING:
                self._depth[name] -= 1
        return self._known[place]

    def _match(self, expression: _Expression, at: int, children: list[Tree]) -> int | None:
        """Return where the match ends, and append the trees of its rules; None if it does not match."""
        kind, what = expression
        match kind:
            case "text" | "kind":
                token = self._tokens[at]
                if token.folded == what if kind == "text" else self._is_kind(token, what):
                    return at + 1
                self._note(at, what)
                return None
            case "rule":
                tree = self.rule(what, at)
                if tree is None:
                    return None
                children.append(tree)
                return tree.end
            case "any":
                return next((end for option in what if (end := self._match(option, at, children)) is not None), None)
            case "all":
                count = len(children)
                for item in what:
                    end = self._match(item, at, children)
                    if end is None:
                        del children[count:]
                        return None
                    at = end
                return at
            case _:
                return self._repeated(kind, what, at, children)

    def _repeated(self, sign: str, item: _Expression, at: int, children: list[Tree]) -> int | None:
        first = at
        while (end := self._match(item, at, children)) is not None and end > at:
            at = end
            if sign == "?":
                break
        return None if sign == "+" and at == first else at

    def _is_kind(self, token: Token, kind: str) -> bool:
        if kind not in {"NAME", "VARIABLE"}:
            return token.kind.name == kind
        if token.kind is Kind.WORD and len(token.text) > MAX_NAME:
            raise QueryDenied(f"'{shown(token.text)}' is too long: a name has at most {MAX_NAME} characters.")
        return token.kind in {Kind.WORD, Kind.QUOTED} and (kind == "NAME" or token.folded not in RESERVED)

    def _note(self, at: int, expected: str) -> None:
        if at > self._furthest:
            self._furthest, self._expected = at, set()
        if at == self._furthest:
            self._expected.add(expected)

    def error(self) -> QueryDenied:
        """Return why the tokens do not match, at the furthest place that was reached."""
        token = self._tokens[self._furthest]
        found = "its end" if token.kind is Kind.END else f"'{shown(token.text)}'"
        if self._furthest == 0:
            return QueryDenied(f"A query begins with MATCH, OPTIONAL MATCH, UNWIND, WITH or RETURN, not with {found}.")
        if token.folded == "!" and self._tokens[self._furthest + 1].folded == "=":
            return QueryDenied("A query may not contain '!=': write '<>'.")
        names = (text for word, text in _EXPECTED.items() if word in self._expected)
        wanted = next(names, " or ".join(sorted(self._expected)[:4]))
        return QueryDenied(f"The query cannot be parsed at {found}: {wanted} is expected. Only one query that reads is accepted.")


_RULES = _rules()
