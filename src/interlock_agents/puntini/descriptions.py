"""Nodes that are described, not named: 'open tasks of Apollo', 'people older than 30', 'tasks that depend on Build'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pydantic import JsonValue

from interlock_agents.puntini.patterns import Pattern, patterns
from interlock_agents.puntini.relations import ASSIGNED, CONNECTED, Relation
from interlock_agents.puntini.words import (
    FUNCTION_WORDS,
    LABELS,
    PHRASES,
    RELATION_VERBS,
    Ref,
    Said,
    fail,
    is_plural,
    label_of,
    mark_of,
    shown,
    singular,
    value_of,
)

__all__ = [
    "ANYTHING", "ASKED", "CONDITIONS", "DESCRIPTIONS", "LACKING", "PERSONS", "Condition", "Described", "adjective", "phrase", "plain_label",
]  # fmt: skip

_ANY = frozenset({"node", "thing", "entity"})
_EDGES = frozenset({"edge", "relationship", "relation", "connection", "link"})
_STATES = frozenset({"open", "test", "release", "plan"})
_NO_VALUE = frozenset(
    [
        "bad",
        "best",
        "better",
        "big",
        "bigger",
        "biggest",
        "cheap",
        "cheaper",
        "cheapest",
        "different",
        "easy",
        "expensive",
        "first",
        "good",
        "hard",
        "important",
        "interesting",
        "large",
        "larger",
        "largest",
        "last",
        "late",
        "latest",
        "left",
        "remaining",
        "long",
        "longer",
        "main",
        "missing",
        "new",
        "newer",
        "newest",
        "next",
        "old",
        "older",
        "oldest",
        "other",
        "overdue",
        "past",
        "previous",
        "recent",
        "same",
        "second",
        "short",
        "shorter",
        "similar",
        "single",
        "small",
        "smaller",
        "smallest",
        "third",
        "total",
        "unfinished",
        "unique",
        "unlinked",
        "upcoming",
        "urgent-looking",
        "worst",
        "young",
        "younger",
        "youngest",
    ]
)


@dataclass(frozen=True)
class Condition:
    """A condition on a property; on any where it has no name."""

    property: str | None
    test: str
    value: JsonValue = None

    def args(self) -> dict[str, JsonValue]:
        """Return it as the tool takes it."""
        return {"property": self.property, "test": self.test, "value": self.value}


@dataclass(frozen=True)
class Described:
    """Nodes of a label with conditions, near another node."""

    label: str | None
    where: tuple[Condition, ...] = ()
    near: Ref | None = None
    relationship: str | None = None
    direction: str = "any"

    def args(self) -> dict[str, JsonValue]:
        """Return it as the tool takes it."""
        args: dict[str, JsonValue] = {} if self.label is None else {"label": self.label}
        if self.where:
            args["where"] = [one.args() for one in self.where]
        if self.near is not None:
            near: dict[str, JsonValue] = {"node": str(self.near), "direction": self.direction}
            args["near"] = near if self.relationship is None else {**near, "relationship": self.relationship}
        return args

    @property
    def said(self) -> str:
        """The nodes in words, for the list of steps."""
        near = "" if self.near is None else f" near {self.near.said}"
        return f"the {self.label or ''} nodes{near}{' that fit' if self.where else ''}".replace("  ", " ")


ANYTHING = Described(None)


def plain_label(words: list[str], said: Said) -> str | None:
    """Read what nodes are called: one word, or words that are known to be one label; None is any."""
    if len(words) == 1 and singular(words[0].casefold()) in _ANY:
        return None
    if singular(words[-1].casefold()) in _EDGES:
        fail(f"I do not list '{shown(words, said)}' by themselves. Say 'show the connections of Ada'.")
    if len(words) == 1 and ((not words[0].isalpha() and words[0].isascii()) or words[0].casefold() in RELATION_VERBS - LABELS):
        fail(f"which label is '{shown(words, said)}'?")
    if FUNCTION_WORDS & {word.casefold() for word in words}:
        fail("")
    if (
        mark_of(words, said) is None
        and singular(words[-1].casefold()) not in LABELS
        and (words[0][:1].isupper() or not is_plural(words[-1]))
    ):
        fail(f"which label is '{shown(words, said)}'?")
    return label_of(words, said, plural=True)


def adjective(words: list[str], said: Said) -> Condition:
    """Read a word that is the value of some property: 'open', 'done', 'in progress'."""
    low = [word.casefold() for word in words]
    if low in (["unassigned"], ["not", "assigned"]):
        return Condition(None, "unconnected", ASSIGNED.name)
    if low[0] == "not" and len(low) > 1:
        return replace(adjective(words[1:], said), test="not_equal")
    if (
        set(low) & _NO_VALUE
        or (singular(low[-1]) in LABELS and low[-1] not in _STATES)
        or low[-1].endswith("est")
        or (len(low) > 1 and low[0] in FUNCTION_WORDS and low[0] not in {"in", "on", "to", "under"})
    ):
        fail(f"what does '{shown(words, said)}' mean here?")
    value = value_of(words, said)
    if not isinstance(value, str):
        fail(f"which property is '{shown(words, said)}'?")
    return Condition(None, "equal", value)


def phrase(words: list[str], said: Said) -> Condition:
    """Read several words that are one value: 'in progress' is no place."""
    if " ".join(words).casefold() not in PHRASES:
        fail(f"what does '{shown(words, said)}' mean here?")
    return adjective(words, said)


def _base(_: Said, *, label: str | None) -> Described:
    return Described(label)


def _same(_: Said, *, which: Described) -> Described:
    return which


def _with_adjective(_: Said, *, adjective: Condition, label: str | None) -> Described:
    return Described(label, (adjective,))


def _with_conditions(_: Said, *, which: Described = ANYTHING, where: tuple[Condition, ...]) -> Described:
    if which is ANYTHING and any(one.test in {"missing", "not_equal"} for one in where):
        fail("which of all nodes? Say what they are, as in 'which people have no email'.")
    return replace(which, where=(*which.where, *where))


def _being(_: Said, *, which: Described, adjective: Condition) -> Described:
    return replace(which, where=(*which.where, adjective))


def _not_being(_: Said, *, which: Described, adjective: Condition) -> Described:
    if adjective.test != "equal":
        fail("say it without 'not'.")
    return replace(which, where=(*which.where, replace(adjective, test="not_equal")))


def _near(said: Said, *, which: Described, node: Ref) -> Described:
    return _related(said, which=which, relation=CONNECTED, node=node)


def _related(_: Said, *, which: Described = ANYTHING, relation: Relation, node: Ref) -> Described:
    if which.near is not None:
        fail("ask about one connection at a time.")
    return replace(which, near=node, relationship=relation.asked, direction=relation.towards(subject=True))


def _reached(_: Said, *, which: Described = ANYTHING, relation: Relation, node: Ref) -> Described:
    if which.near is not None:
        fail("ask about one connection at a time.")
    return replace(which, near=node, relationship=relation.asked, direction=relation.towards(subject=False))


def _aged(test: str) -> Callable[..., Described]:
    def make(_: Said, *, which: Described = ANYTHING, value: JsonValue) -> Described:
        if isinstance(value, bool) or not isinstance(value, int | float):
            fail(f"'{value}' is no age.")
        return replace(which, where=(*which.where, Condition("age", test, value)))

    return make


def _of_owner(said: Said, *, node: Ref, label: str | None) -> Described:
    return _near(said, which=Described(label), node=node)


def _of_last(said: Said, *, label: str | None) -> Described:
    if len(said.last) != 1:
        fail("I do not know what 'its' means, as each goal is read by itself: say the name.")
    return _near(said, which=Described(label), node=said.last[0])


DESCRIPTIONS: tuple[Pattern, ...] = patterns(
    (_same, "all|any|every|each|of|the|our|my|existing {which:description}"),
    (_base, "{label:label}"),
    (_with_adjective, "{adjective:adjective} {label:label}"),
    (
        _with_conditions,
        """
        {which:description} with|where|whose|having|have|has|that_have|who_have|which_have|that_has|who_has|which_has {where:conditions}
        {which:description} without|with_no|that_have_no|who_have_no|that_has_no|who_has_no a|an|any? {where:lacking}
        """,
    ),
    (
        _being,
        """
        {which:description} that_are|which_are|who_are|that_is|who_is|which_is {adjective:adjective}
        {which:description} marked as? {adjective:adjective}
        """,
    ),
    (_same, "{which:description} in_the_graph|in_this_graph|in_my_graph|in_total|in_all|overall|altogether"),
    (_aged("more"), "{which:description} that_are|who_are|which_are? older_than|over|above {value:value} years_old|years?"),
    (_aged("less"), "{which:description} that_are|who_are|which_are? younger_than|under|below {value:value} years_old|years?"),
    (_near, "{which:description} of|in|for|from|under|belonging_to|near|next_to {node:node}"),
    (
        _related,
        """
        {which:description} that_are|who_are|which_are|that_is|who_is|which_is {relation:being} {node:node}
        {which:description} {relation:being} {node:node}
        {which:description} that|which|who {relation:saying} {node:node}
        """,
    ),
    (_reached, "{which:description} that|which|who? {node:node} is|are {relation:being}"),
    (_of_owner, "{node:node} 's|' {label:label}"),
    (_of_last, "its {label:label}"),
)
"""What can be said for nodes that are described."""

_THERE = "there|exist|exists|are_there|is_there|do_we_have|do_i_have|do_you_have|have_we|do_you_know|do_we_know|are_in_the_graph|are_known"
ASKED: tuple[Pattern, ...] = patterns(
    (_same, f"{{which:description}} {_THERE}? in_the_graph|in_total|in_all|overall|here?"),
    (_reached, "{which:description} has|have|did {node:node} {relation:past}"),
    (_being, "{which:description} is|are {adjective:phrase}"),
    (
        _near,
        """
        {which:description} does|do {node:node} have
        {which:description} has {node:node}
        {which:description} are|are_there|is|belong in|of|under|for|to|part_of {node:node}
        """,
    ),
    (
        _related,
        """
        {which:description} is|are {relation:being} {node:node}
        {which:description} {relation:saying} {node:node}
        """,
    ),
    (
        _reached,
        """
        {which:description} is|are {node:node} {relation:being}
        {which:description} does|do {node:node} {relation:doing}
        """,
    ),
    (_aged("more"), "{which:description} is|are older_than|over|above {value:value} years_old|years?"),
    (_aged("less"), "{which:description} is|are younger_than|under|below {value:value} years_old|years?"),
    (_being, "{which:description} is|are {adjective:adjective}"),
    (_not_being, "{which:description} is|are not {adjective:adjective} yet?"),
    (_with_conditions, "{which:description} has|have {where:conditions}"),
)
"""How nodes are described behind 'how many' and 'which'."""

PERSONS: tuple[Pattern, ...] = patterns(
    (_aged("more"), "is|are older_than|over|above {value:value} years_old|years?"),
    (_aged("less"), "is|are younger_than|under|below {value:value} years_old|years?"),
    (
        _related,
        """
        is|are {relation:being} {node:node}
        {relation:saying} {node:node}
        {relation:past} {node:node}
        {relation:verb} {node:node}
        is|are {node:node} 's|' {relation:kin}
        """,
    ),
    (_reached, "is|are {node:node} {relation:being}\ndoes|do {node:node} {relation:doing}"),
    (_with_conditions, "has|have {where:conditions}"),
)
"""How nodes are described behind 'who' and 'what'."""


def _one(test: str) -> Callable[..., tuple[Condition, ...]]:
    def make(_: Said, *, name: str, value: JsonValue = None) -> tuple[Condition, ...]:
        return (Condition(name, test, value),)

    return make


def _several(_: Said, *, one: tuple[Condition, ...], other: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return (*one, *other)


CONDITIONS: tuple[Pattern, ...] = patterns(
    (_one("equal"), "a|an|the|any? {name:property} is|are|of|=|:|==|equal_to|is_equal_to|equals|set_to|is_set_to? {value:value}"),
    (_one("not_equal"), "a|an|the? {name:property} is_not|other_than|is_other_than|!=|not {value:value}"),
    (_one("less"), "a|an|the? {name:property} is|of? less_than|lower_than|smaller_than|under|below|before|earlier_than|< {value:value}"),
    (
        _one("more"),
        "a|an|the? {name:property} is|of? more_than|greater_than|higher_than|larger_than|over|above|after|later_than|> {value:value}",
    ),
    (_one("at_least"), "a|an|the? {name:property} is|of? at_least|>= {value:value}"),
    (_one("at_most"), "a|an|the? {name:property} is|of? at_most|up_to|<= {value:value}"),
    (_one("contains"), "a|an|the? {name:property} contains|containing {value:value}"),
    (_one("missing"), "no {name:property}"),
    (_one("present"), "a|an|any {name:property}"),
    (_several, "{one:conditions} and|,|,_and {other:conditions}"),
)
"""What can be said of properties."""

LACKING: tuple[Pattern, ...] = patterns((_one("missing"), "{name:property}"))
"""What is not there."""
