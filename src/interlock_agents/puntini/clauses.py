"""Clauses that create, connect, change and delete: patterns of words, and the tool calls that they become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import JsonValue

from interlock.spelling import closest
from interlock_agents.puntini import inquiries, relations, terms
from interlock_agents.puntini.calls import Call, Clause, add_edge, add_node, delete_edge, set_properties
from interlock_agents.puntini.creating import With, new_nodes, read_pair, with_parts
from interlock_agents.puntini.graph_store import is_same
from interlock_agents.puntini.patterns import Reader, load_patterns, reject
from interlock_agents.puntini.relations import ASSIGNED, CONNECTED, Relation
from interlock_agents.puntini.terms import (
    Context,
    Ref,
    excerpt,
    read_name,
    read_nodes,
    read_property,
    read_value,
    singular,
    upper_snake_case,
)
from interlock_agents.puntini.vocabulary import PEOPLE, PROPERTIES, STATES, VERBS

__all__ = ["clause_reader"]

_QUESTIONS = frozenset(["who", "what", "which", "how", "does", "do", "is", "are", "why", "when", "where", "should", "can", "will"])
_PERSON_LABELS: list[JsonValue] = [label.capitalize() for label in sorted(PEOPLE)]


def clause_reader(context: Context) -> Reader:
    """Return a reader of clauses: `read("clause", words)`."""
    return Reader(_KINDS, context)


def _create(
    context: Context,
    *,
    new: Sequence[Ref],
    having: With | None = None,
    owners: Sequence[Ref] = (),
    lacks: str | None = None,
    relation: Relation | None = None,
    objects: Sequence[Ref] = (),
) -> Clause:
    """Add nodes with their properties, the nodes that belong to them, and the edges from their owners or to other nodes."""
    having = having or With(without=() if lacks is None else (lacks,))
    if len({ref.label for ref in new}) > 1 and (having.pairs or owners):
        reject("which of them is that said of? Say it in two sentences.")
    if len(new) > 1 and (having.children or having.without):
        reject("which of them is it with? Say it in two sentences.")
    for ref in set(objects) & set(new):
        reject(f"{ref.text} cannot be connected to itself.")
    calls: list[Call] = []
    for ref in new:
        calls.append(add_node(ref, dict(having.pairs)))
        # A second value for the same property becomes a call of its own, which is found to contradict the first.
        calls += [set_properties(ref, {name: value}) for name, value in having.pairs if not is_same(dict(having.pairs)[name], value)]
    for child in having.children:
        calls += [add_node(child, {}), _has(new[0], child)]
    calls += [_has(owner, ref) for owner in owners for ref in new]
    if relation is not None:
        calls += _edges(relation)(context, subjects=new, objects=objects).calls
    without = tuple((str(new[0]), label) for label in having.without)
    return Clause(tuple(calls), tuple(new), (*new, *having.children), without)


def _has(owner: Ref, ref: Ref) -> Call:
    return add_edge(owner, ref, f"HAS_{upper_snake_case(ref.label or '')}")


def _edges(default: Relation, *, adds: bool = True) -> Callable[..., Clause]:
    """Return a maker that adds or removes the edges from each subject to each object."""

    def make(
        context: Context,
        *,
        subjects: Sequence[Ref] = (),
        objects: Sequence[Ref] = (),
        both: Sequence[Ref] = (),
        relation: Relation | None = None,
        name: str | None = None,
    ) -> Clause:
        if both:
            if len(both) != 2:  # noqa: PLR2004 - an edge has two ends
                reject("name two nodes, as in 'connect Design to Build as PRECEDES'.")
            subjects, objects = both[:1], both[1:]
        found = relation or (Relation(name) if name is not None else default)
        pairs = [(one, other) for one in subjects for other in objects]
        if adds and found.name == ASSIGNED.name:
            calls = [call for one, other in pairs for call in _assigned(context, one, other)]
        else:
            change = add_edge if adds else delete_edge
            calls = [change(other, one, found.name) if found.is_passive else change(one, other, found.name) for one, other in pairs]
        return Clause(tuple(calls), (*subjects, *objects) if adds else tuple(subjects))

    return make


def _assigned(context: Context, who: Ref, what: Ref) -> list[Call]:
    """Assign a person, and add the person if no node has this name. 'Assign the task Design to Ada' names them in the other order."""
    is_person = what.label is not None and what.label.casefold() in PEOPLE
    if (who.label == "Task" and what.label is None) or (is_person and (who.label or "").casefold() not in PEOPLE):
        who, what = what, who
    edge = add_edge(who, what, ASSIGNED.name)
    if who.label not in {None, "Person"} or who.key in context.created:
        return [edge]
    args: dict[str, JsonValue] = {**add_node(Ref(who.key, "Person"), {}).args, "if_missing": True}
    if what.label is None:
        # 'assign Laundry to Zoe' must not create a person Laundry if Zoe is a person.
        args["beside"] = {"node": what.key, "not_of": _PERSON_LABELS}
    return [Call("add_node", args, f"add {who.text} as a person if it is missing"), edge]


def _set(
    context: Context,
    *,
    nodes: Sequence[Ref] | None = None,
    name: str = "status",
    value: JsonValue = None,
    pair: tuple[str, JsonValue] | None = None,
) -> Clause:
    """Set a property of nodes; without nodes, of those that were mentioned last. Setting the key renames a node."""
    found = context.last if nodes is None else nodes
    if not found:
        reject("whose? Each goal is read by itself: say 'set the status of Design to done'.")
    name, value = pair or (name, value)
    if name == "key" and (len(found) > 1 or not isinstance(value, str)):
        reject("one node gets one name.")
    renamed = [Ref(str(value), ref.label) for ref in found] if name == "key" else found
    return Clause(tuple(set_properties(ref, {name: value}) for ref in found), tuple(renamed))


def _rename(context: Context, *, node: Ref, name: str) -> Clause:
    return _set(context, nodes=[node], name="key", value=name)


def _clear(_: Context, *, nodes: Sequence[Ref], name: str) -> Clause:
    if name == "key":
        reject("a node has to have a name.")
    if singular(name) in {"edge", "relationship", "relation", "connection", "link"}:
        reject("which edges? Say 'remove the DEPENDS_ON edge from Build to Design'.")
    return Clause(tuple(set_properties(ref, {name: None}) for ref in nodes), tuple(nodes))


def _set_edge(_: Context, *, name: str, relation: str, start: Ref, end: Ref, value: JsonValue) -> Clause:
    return Clause((set_properties((start, end, relation), {name: value}),), (start,))


def _delete(*, detach: bool) -> Callable[..., Clause]:
    def make(_: Context, *, nodes: Sequence[Ref]) -> Clause:
        edges = " and its edges" if detach else ""
        calls = [Call("delete_node", {"match": str(ref), "detach": detach}, f"delete {ref.text}{edges}") for ref in nodes]
        return Clause(tuple(calls), tuple(nodes))

    return make


def _refuse(_: Context) -> Clause:
    return reject("I change and delete only nodes that are named: say which ones, as in 'delete the task Build'.")


# The kinds of slots.


def _node(words: list[str], context: Context) -> Ref:
    words = words[1:] if words[0] in {"a", "an", "any", "An"} and len(words) > 1 else words
    return read_nodes(words, context, most=1)[0]


def _subjects(words: list[str], context: Context) -> list[Ref]:
    """Read the subject of a statement. It begins with a name, unlike questions and commands."""
    if words[0].casefold() in _QUESTIONS or words[0] in VERBS:
        reject()
    return read_nodes(words, context)


def _plain_names(words: list[str], context: Context) -> list[Ref]:
    """Read names that are names without doubt, beside a verb that is not in the vocabulary."""
    refs, said = _subjects(words, context), excerpt(words, context)
    if words[0].casefold() in VERBS:
        reject(f"what is to be done by '{said}'?")
    if not all(ref.label is not None or not ref.key[:1].islower() for ref in refs) or any(word.isdigit() for word in words):
        meant = closest(words[0], VERBS)
        reject(f"do you mean '{meant[0]}' by '{words[0]}'?" if meant else f"is '{said}' a name? Put it in quotes if it is.")
    return refs


def _name(words: list[str], context: Context) -> str:
    return read_name(words, context, is_new=True)


def _known_property(words: list[str], context: Context) -> str:
    if words[-1].casefold() not in PROPERTIES | {"date", "id"}:
        reject(f"which property is '{excerpt(words, context)}'?")
    return read_property(words, context)


def _pair(words: list[str], context: Context) -> tuple[str, JsonValue]:
    pair = read_pair(words, context)
    name = words[1] if words[0].casefold() in {"a", "an", "the"} and len(words) > 1 else words[0]
    if pair is None or name.casefold() not in PROPERTIES:
        reject(f"which property and value is '{excerpt(words, context)}'? Say 'set the status of Design to done'.")
    return pair


def _state(words: list[str], context: Context) -> JsonValue:
    if len(words) != 1 or words[0].casefold() not in STATES:
        reject("say 'mark Design as done'.")
    return read_value(words, context)


_READERS: dict[str, Callable[[list[str], Context], object]] = {
    **terms.READERS,
    **relations.READERS,
    **inquiries.READERS,
    "new": new_nodes,
    "having": with_parts,
    "pair": _pair,
    "node": _node,
    "subjects": _subjects,
    "plain_names": _plain_names,
    "name": _name,
    "known_property": _known_property,
    "state": _state,
}
_ACTIONS: dict[str, Callable[..., object]] = {
    **inquiries.ACTIONS,
    "create": _create,
    "connect": _edges(CONNECTED),
    "disconnect": _edges(CONNECTED, adds=False),
    "assign": _edges(ASSIGNED),
    "unassign": _edges(ASSIGNED, adds=False),
    "set": _set,
    "set_edge": _set_edge,
    "clear": _clear,
    "rename": _rename,
    "delete": _delete(detach=False),
    "delete_with_edges": _delete(detach=True),
    "refuse": _refuse,
}
_KINDS = {**_READERS, **load_patterns(Path(__file__).with_name("sentences.grammar").read_text(encoding="utf-8"), _ACTIONS)}
