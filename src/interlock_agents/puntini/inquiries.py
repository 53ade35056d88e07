"""Questions, and descriptions of nodes that a question asks for: 'open tasks of Apollo', 'people older than 30'."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from interlock_agents.puntini.calls import Call, Clause
from interlock_agents.puntini.patterns import reject
from interlock_agents.puntini.relations import ASSIGNED, CONNECTED, Relation
from interlock_agents.puntini.terms import Context, Ref, excerpt, is_plural, quoted_text, read_label, read_value, singular
from interlock_agents.puntini.vocabulary import FUNCTION_WORDS, LABELS, NO_VALUE, PHRASES, PROPERTIES, RELATION_VERBS

__all__ = ["ACTIONS", "READERS"]

_ANY_NODE = frozenset({"node", "thing", "entity"})
_ANY_EDGE = frozenset({"edge", "relationship", "relation", "connection", "link"})
_TESTS = ("equal", "not_equal", "less", "more", "at_least", "at_most", "contains", "missing", "present")
_STATES = frozenset({"open", "test", "release", "plan"})
"""Labels that are also the value of a property."""


@dataclass(frozen=True)
class _Condition:
    """A condition on a property; without a name, any property may have the value."""

    property: str | None
    test: str
    value: JsonValue = None

    def args(self) -> dict[str, JsonValue]:
        return {"property": self.property, "test": self.test, "value": self.value}


@dataclass(frozen=True)
class _Description:
    """Nodes with a label that meet conditions and are connected to another node."""

    label: str | None = None
    where: tuple[_Condition, ...] = ()
    near: Ref | None = None
    relationship: str | None = None
    direction: str = "any"

    def args(self) -> dict[str, JsonValue]:
        args: dict[str, JsonValue] = {} if self.label is None else {"label": self.label}
        if self.where:
            args["where"] = [one.args() for one in self.where]
        if self.near is not None:
            near: dict[str, JsonValue] = {"node": str(self.near), "direction": self.direction}
            args["near"] = near if self.relationship is None else {**near, "relationship": self.relationship}
        return args

    @property
    def text(self) -> str:
        """The nodes in words, for the list of steps."""
        near = "" if self.near is None else f" near {self.near.text}"
        return f"the {self.label or ''} nodes{near}{' that fit' if self.where else ''}".replace("  ", " ")


_ANY = _Description()


def _label(words: list[str], context: Context) -> str | None:
    """Read a label: one word, or words that are known to be one label. None is any."""
    last, said = singular(words[-1].casefold()), excerpt(words, context)
    if len(words) == 1 and last in _ANY_NODE:
        return None
    if last in _ANY_EDGE:
        reject(f"I do not list '{said}' by themselves. Say 'show the connections of Ada'.")
    is_word = len(words) > 1 or ((words[0].isalpha() or not words[0].isascii()) and words[0].casefold() not in RELATION_VERBS - LABELS)
    if is_word and FUNCTION_WORDS & {word.casefold() for word in words}:
        reject()
    is_known = quoted_text(words, context) is not None or last in LABELS or (not words[0][:1].isupper() and is_plural(words[-1]))
    if not is_word or not is_known:
        reject(f"which label is '{said}'?")
    return read_label(words, context, plural=True)


def _adjective(words: list[str], context: Context) -> _Condition:
    """Read a word that is the value of some property: 'open', 'done', 'in progress'."""
    low, said = [word.casefold() for word in words], excerpt(words, context)
    if low in (["unassigned"], ["not", "assigned"]):
        return _Condition(None, "unconnected", ASSIGNED.name)
    if low[0] == "not" and len(low) > 1:
        condition = _adjective(words[1:], context)
        return replace(condition, test="not_equal") if condition.test == "equal" else reject("say it without 'not'.")
    is_label = singular(low[-1]) in LABELS and low[-1] not in _STATES
    is_place = len(low) > 1 and low[0] in FUNCTION_WORDS and low[0] not in {"in", "on", "to", "under"}
    if set(low) & NO_VALUE or is_label or is_place or low[-1].endswith("est"):
        reject(f"what does '{said}' mean here?")
    value = read_value(words, context)
    if not isinstance(value, str):
        reject(f"which property is '{said}'?")
    return _Condition(None, "equal", value)


def _phrase(words: list[str], context: Context) -> _Condition:
    """Read several words that are one value: 'in progress' is not a place."""
    if " ".join(words).casefold() not in PHRASES:
        reject(f"what does '{excerpt(words, context)}' mean here?")
    return _adjective(words, context)


def _condition(test: str) -> Callable[..., tuple[_Condition, ...]]:
    def make(_: Context, *, name: str = "age", value: JsonValue = None, age: JsonValue = None) -> tuple[_Condition, ...]:
        if age is not None and (isinstance(age, bool) or not isinstance(age, int | float)):
            reject(f"'{age}' is not a number.")
        return (_Condition(name, test, value if age is None else age),)

    return make


def _both(_: Context, *, one: tuple[_Condition, ...], other: tuple[_Condition, ...]) -> tuple[_Condition, ...]:
    return (*one, *other)


def _described(*, subject: bool = True) -> Callable[..., _Description]:
    """Return a maker of descriptions. `subject` is whether the nodes are the subject of the relation, or else its object."""

    def make(
        _: Context,
        *,
        which: _Description = _ANY,
        label: str | None = None,
        where: tuple[_Condition, ...] | _Condition = (),
        lacks: str | None = None,
        relation: Relation = CONNECTED,
        node: Ref | None = None,
    ) -> _Description:
        conditions = (where,) if isinstance(where, _Condition) else where
        conditions = (*conditions, _Condition(lacks, "missing")) if lacks is not None else conditions
        if which is _ANY and label is None and any(one.test in {"missing", "not_equal"} for one in conditions):
            reject("which of all nodes? Say what they are, as in 'which people have no email'.")
        found = replace(which, label=label or which.label, where=(*which.where, *conditions))
        if node is None:
            return found
        if found.near is not None:
            reject("ask about one connection at a time.")
        return replace(found, near=node, relationship=relation.asked, direction=relation.direction(subject=subject))

    return make


_WANTS = {
    "count": "count", "nodes": "list", "yes_no": "check", "connections": "find the edges of", "highest": "find the highest",
    "lowest": "find the lowest", "average": "find the average", "sum": "find the sum of",
}  # fmt: skip


def _question(wants: str) -> Callable[..., Clause]:
    """Return a maker of one question, about the nodes of a description or about a named node."""

    def make(
        _: Context,
        *,
        which: _Description = _ANY,
        node: Ref | None = None,
        other: Ref | None = None,
        both: Sequence[Ref] = (),
        relation: Relation = CONNECTED,
        where: _Condition | None = None,
        name: str | None = None,
        value: JsonValue = None,
        label: str | None = None,
    ) -> Clause:
        if both:
            if len(both) != 2:  # noqa: PLR2004 - a question about a connection has two nodes
                reject("ask about two nodes at a time.")
            node, other = both
        if other is not None:
            which = _Description(near=other, relationship=relation.asked, direction=relation.direction(subject=True))
        if name is not None and node is not None:
            where = _Condition(name, "present") if value is None else _Condition(name, "equal", value)
        args = which.args() if node is None else {"key": str(node), **which.args()}
        if where is not None:
            args["where"] = [where.args()]
        if label is not None:
            args["label"] = label
        if wants in _FIGURES:
            args["property"] = name or "age"
        wanted = "names" if wants == "nodes" and which.near is not None else wants
        about = which.text if node is None else node.text
        text = f"{_WANTS[wants]} {args['property']} of {about}" if wants in _FIGURES else f"{_WANTS[wants]} {about}"
        return Clause((Call("query_graph", {**args, "wants": wanted}, text),), () if node is None else (node,))

    return make


_FIGURES = frozenset({"highest", "lowest", "average", "sum"})


def _show(_: Context, *, nodes: Sequence[Ref]) -> Clause:
    for ref in nodes:
        if ref.label is None and ref.key in PROPERTIES:
            reject(f"whose '{ref.key}'? Ask for one property at a time, as in 'what is the {ref.key} of Design'.")
        is_label = len(nodes) > 1 and is_plural(ref.key)  # 'list tasks and people' is two lists
        if ref.label is None and ref.key.islower() and (is_label or ref.key.split()[0].endswith("ing")):
            reject()
    return Clause(tuple(Call("query_graph", {"key": str(ref), "wants": "nodes"}, f"show {ref.text}") for ref in nodes), tuple(nodes))


def _property(context: Context, *, nodes: Sequence[Ref], name: str = "age") -> Clause:
    if name == "key":
        return _show(context, nodes=nodes)
    calls = [Call("query_graph", {"key": str(ref), "wants": "property", "property": name}, f"find {name} of {ref.text}") for ref in nodes]
    return Clause(tuple(calls), tuple(nodes))


def _cypher(query: str, text: str, instead: Call | None = None) -> Callable[..., Clause]:
    call = Call("cypher_query", {"query": query, "parameters": {}}, text, instead)

    def make(_: Context) -> Clause:
        return Clause((call,))

    return make


_NO_EDGES = Call("cypher_query", {"query": "RETURN 0 AS `count`", "parameters": {}}, "report that there are no edges")

READERS: dict[str, Callable[[list[str], Context], object]] = {"label": _label, "adjective": _adjective, "phrase": _phrase}
"""The readers of slots in questions."""

ACTIONS: dict[str, Callable[..., object]] = {
    "subject": _described(),
    "object": _described(subject=False),
    "both": _both,
    **{test: _condition(test) for test in _TESTS},
    **{wants: _question(wants) for wants in _WANTS},
    "list": _question("nodes"),
    "property": _property,
    "show": _show,
    "labels": _cypher("MATCH (n) RETURN DISTINCT labels(n) AS label", "list the labels"),
    "count_edges": _cypher("MATCH ()-[r]->() RETURN count(r) AS `count`", "count the edges", _NO_EDGES),
}
"""The actions of the patterns of questions and descriptions."""
