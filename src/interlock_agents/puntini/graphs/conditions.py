"""Conditions on the properties of nodes. Numbers are compared as numbers, dates as dates, and texts without case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from interlock_agents.puntini.graph_store import Node

__all__ = ["Arguments", "Condition", "Name", "fits", "in_words", "is_equal", "number_of", "shown", "undecided", "value_of"]

_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?(?:[T ]\d{2}:\d{2}.*)?")
_WORDS = {
    "equal": "is", "not_equal": "is not", "less": "is less than", "at_most": "is at most", "more": "is more than",
    "at_least": "is at least", "contains": "contains", "missing": "is missing", "present": "is there",
}  # fmt: skip
Name = Annotated[str, Field(min_length=1, max_length=64)]
Test = Literal["equal", "not_equal", "less", "at_most", "more", "at_least", "contains", "missing", "present", "unconnected"]


class Arguments(BaseModel):
    """The arguments of a tool, without undeclared ones."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Condition(Arguments):
    """A condition on a property of a node; without `property`, any property may have the value.

    The value of `unconnected` is a relationship: it holds for nodes that have no such edge.
    """

    property: Name | None = None
    test: Test = "equal"
    value: JsonValue = None


def fits(node: Node, where: Sequence[Condition]) -> bool:
    """Return whether a node meets the conditions on its properties; those on its edges are ignored."""
    return all(_holds(node, one) for one in where if one.test != "unconnected")


def _holds(node: Node, one: Condition) -> bool:
    if one.property is None:
        has = any(is_equal(value, one.value) for value in node.properties.values()) or value_of(node, str(one.value)) is True
        return has if one.test == "equal" else not has
    value = value_of(node, one.property)
    match one.test:
        case "missing" | "present":
            return (value is None) == (one.test == "missing")
        case "equal" | "not_equal":
            return is_equal(value, one.value) == (one.test == "equal")
        case "contains":
            return isinstance(value, str) and str(one.value).casefold() in value.casefold()
        case _:
            order = _order(value, one.value)
            return order is not None and {"less": order < 0, "at_most": order <= 0, "more": order > 0, "at_least": order >= 0}[one.test]


def _order(one: JsonValue, other: JsonValue) -> int | None:
    """Compare two numbers or two dates; None if they are neither."""
    numbers = number_of(one), number_of(other)
    if numbers[0] is not None and numbers[1] is not None:
        return (numbers[0] > numbers[1]) - (numbers[0] < numbers[1])
    if isinstance(one, str) and isinstance(other, str) and _DATE.fullmatch(one) and _DATE.fullmatch(other):
        return (one > other) - (one < other)
    return None


def _is_comparable(value: JsonValue, one: Condition) -> bool:
    """Return whether a value can be compared: a number with a unit is neither equal to a number nor different from it."""
    if one.test in {"equal", "not_equal"}:
        has_unit = isinstance(value, str) and number_of(value) is None and re.search(r"\d", value) is not None
        return not has_unit or number_of(one.value) is None
    return one.test in {"contains", "missing", "present"} or _order(value, one.value) is not None


def undecided(nodes: Sequence[Node], where: Sequence[Condition]) -> str:
    """Return why the graph does not decide which nodes meet a condition, or an empty text.

    A value cannot be compared ('5 kg' with 3, 'Friday' with a date), or no node has the property that is said to be missing.
    """
    for one in (one for one in where if one.property is not None):
        values = [(node, value_of(node, one.property or "")) for node in nodes]
        if one.test == "missing" and values and all(value is None for _, value in values):
            return f"None of the nodes has a property '{one.property}', so I cannot tell them apart by it."
        for node, value in values:
            if value is not None and not _is_comparable(value, one):
                return (
                    f"'{one.property}' of {node.label} {node.key} is '{shown(value)}', which cannot be compared with '{shown(one.value)}': "
                    "only numbers and dates as 2030-01-31 can."
                )
    return ""


def value_of(node: Node, name: str) -> JsonValue:
    """Return the value of a property, ignoring the case of its name; None if there is no such property."""
    return next((value for known, value in node.properties.items() if known.casefold() == name.casefold()), None)


def number_of(value: JsonValue) -> float | None:
    """Return a value as a number, if it is one."""
    if isinstance(value, str):
        return float(value) if re.fullmatch(r"-?\d{1,15}(?:\.\d{1,15})?", value) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_equal(one: JsonValue, other: JsonValue) -> bool:
    """Return whether a person would call two values the same: '3' and 3.0 are, true and 1 are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    numbers = number_of(one), number_of(other)
    if None not in numbers:
        return numbers[0] == numbers[1]
    return str(one).casefold() == str(other).casefold() if one is not None and other is not None else False


def shown(value: JsonValue) -> str:
    """Return a value as text for a person."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def in_words(where: Sequence[Condition]) -> str:
    """Return conditions in words."""
    return " and ".join(map(_in_words, where)) or "is like that"


def _in_words(one: Condition) -> str:
    if one.test == "unconnected":
        return f"has no edge {one.value}"
    if one.property is None:
        return f"has {'a' if one.test == 'equal' else 'no'} property that is '{shown(one.value)}'"
    value = "" if one.test in {"missing", "present"} else f" {shown(one.value)}"
    return f"is like that: {one.property} {_WORDS[one.test]}{value}"
