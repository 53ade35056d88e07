"""Matches a question against the grammar of the offline rules. Known words in an unknown order are not answered.

Every word of a question has a class, such as COUNT for "how many" or GOODS for "chairs". A shape is a pattern over these classes. Without
it "how many chairs did German customers buy" and "how many German customers did buy chairs" would be the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

__all__ = ["Shape", "class_of", "shape_of"]

Shape = Literal["whole", "fragment"]

_CLASSES: Mapping[tuple[str, str], str] = {
    ("measure", "orders"): "ORDERS",
    ("measure", "customers"): "CUSTOMERS",
    ("measure", "buyers"): "BUYERS",
    ("measure", "idle"): "BUYERS",
    ("measure", "signups"): "BUYERS",
    ("measure", "products"): "PRODUCTS",
    ("measure", "units"): "UNITS",
    ("measure", "variety"): "PRODUCTS",
    ("measure", "price"): "PRICE",
    ("group", "order"): "ORDERS",
    ("group", "customer"): "CUSTOMERS",
    ("group", "product"): "PRODUCTS",
}
_KINDS: Mapping[str, str] = {
    "measure": "FIGURE",
    "group": "GROUP",
    "country": "VALUE",
    "city": "VALUE",
    "channel": "VALUE",
    "segment": "VALUE",
    "coupon": "VALUE",
    "weekday": "VALUE",
    "limit": "LIMIT",
    "category": "GOODS",
    "status": "STATUS",
    "stated": "STATED",
    "period": "TIME",
    "every": "EVERY",
    "top": "TOP",
    "top of units": "TOPUNITS",
    "top of price": "TOPPRICE",
}

_GRAMMAR = Path(__file__).with_name("questions.grammar")


def class_of(kind: str, value: str) -> str:
    """Return the class of a phrase, '' for one that may stand anywhere."""
    if kind in {"word", "neutral"}:
        return value.upper()
    return _CLASSES.get((kind, value)) or _KINDS[kind]


class _Node:
    """A node of a parsed pattern."""

    def __init__(self, kind: str, parts: Sequence[_Node] = (), name: str = "") -> None:
        self.kind, self.parts, self.name = kind, tuple(parts), name


def _parsed(pattern: str) -> _Node:
    """Read a pattern: alternatives by '|', groups in brackets, and '?', '*', '+' behind what may be left out or repeated."""
    tokens = re.findall(r"\w+|[|()?*+]", pattern)

    def alternatives() -> _Node:
        found = [sequence()]
        while tokens[:1] == ["|"]:
            tokens.pop(0)
            found.append(sequence())
        return found[0] if len(found) == 1 else _Node("any", found)

    def sequence() -> _Node:
        found: list[_Node] = []
        while tokens and tokens[0] not in {"|", ")"}:
            taken = tokens.pop(0)
            if taken == "(":
                one = alternatives()
                tokens.pop(0)
            else:
                one = _Node("word" if taken.isupper() else "rule", name=taken)
            while tokens and tokens[0] in {"?", "*", "+"}:
                one = _Node(tokens.pop(0), [one])
            found.append(one)
        return _Node("all", found)

    return alternatives()


# Longer questions are never about one figure.
_MAX_WORDS = 60


@cache
def _rules() -> tuple[Mapping[str, _Node], tuple[str, ...]]:
    """Read the grammar: its patterns by name, and the names of those that are whole questions."""
    lines = [line for line in _GRAMMAR.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    rules = re.sub(r"\n\s+", " ", "\n".join(lines)).splitlines()
    named = [tuple(part.strip() for part in rule.split("=")) for rule in rules]
    return {name.rstrip("!"): _parsed(pattern) for name, pattern in named}, tuple(name[:-1] for name, _ in named if name.endswith("!"))


class _Match:
    """Memoised end positions of every pattern for one question. The time is at most quadratic in its length."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._rules, self.whole = _rules()
        self._known: dict[tuple[str, int], frozenset[int]] = {}

    def ends(self, name: str, start: int) -> frozenset[int]:
        if (name, start) not in self._known:
            self._known[name, start] = self._ends(self._rules[name], start)
        return self._known[name, start]

    def _ends(self, node: _Node, start: int) -> frozenset[int]:
        match node.kind:
            case "word":
                return frozenset({start + 1} if start < len(self._words) and self._words[start] == node.name else ())
            case "rule":
                return self.ends(node.name, start)
            case "any":
                return frozenset[int]().union(*(self._ends(one, start) for one in node.parts))
            case "all":
                reached = frozenset({start})
                for one in node.parts:
                    reached = frozenset[int]().union(*(self._ends(one, at) for at in reached))
                return reached
            case "?":
                return self._ends(node.parts[0], start) | {start}
            case _:
                return self._repeated(node, start)

    def _repeated(self, node: _Node, start: int) -> frozenset[int]:
        reached: set[int] = set()
        new = {start}
        while new:
            found = set[int]().union(*(self._ends(node.parts[0], at) for at in new))
            new = found - reached
            reached |= new
        return frozenset(reached | ({start} if node.kind == "*" else set()))


def shape_of(classes: Iterable[str]) -> Shape | None:
    """Return whether the words of a question stand in an order that the rules can read, and whether it is a whole question."""
    words = [one for one in classes if one]
    if len(words) > _MAX_WORDS:
        return None
    match = _Match(words)
    start = next((at for at, one in enumerate(words) if one not in {"AND", "FOLLOW"}), 0)
    if any(len(words) in match.ends(name, start) for name in match.whole):
        return "whole"
    return "fragment" if len(words) in match.ends("fragment", 0) else None
