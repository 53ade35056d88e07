"""What each clause asks for: patterns of words, and the calls of tools that they become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import JsonValue

from interlock_agents.puntini.calls import Call, Clause, add_edge, add_node, delete_edge, is_same, set_edge, set_properties
from interlock_agents.puntini.creating import With, new_nodes, read_pair, with_parts
from interlock_agents.puntini.descriptions import ASKED, CONDITIONS, DESCRIPTIONS, LACKING, PERSONS, adjective, phrase, plain_label
from interlock_agents.puntini.inquiries import INQUIRIES
from interlock_agents.puntini.patterns import Pattern, Reader, patterns
from interlock_agents.puntini.relations import ASSIGNED, CONNECTED, Relation, after_be, after_do, after_name, any_verb, kin, past_verb
from interlock_agents.puntini.words import (
    PEOPLE,
    PROPERTIES,
    VERBS,
    Ref,
    Said,
    fail,
    named,
    property_of,
    refs_of,
    relationship_of,
    snake,
    value_of,
)  # fmt: skip

__all__ = ["clause_reader"]

_NOTHING = With()
_MUTUALLY = {"friends": "with", "married": "to", "engaged": "to", "connected": "to", "linked": "to", "related": "to"}
_QUESTIONS = frozenset(["who", "what", "which", "how", "does", "do", "is", "are", "why", "when", "where", "should", "can", "will"])
_PERSONS: list[JsonValue] = [label.capitalize() for label in sorted(PEOPLE)]
_STATES = frozenset(["done", "finished", "complete", "completed", "open", "closed", "urgent", "blocked", "cancelled"])


def clause_reader(said: Said) -> Reader:
    """Make a reader of clauses: `read("clause", words)`."""
    return Reader(_KINDS, said)


# What creates.


def _create(_: Said, *, new: Sequence[Ref], having: With = _NOTHING, owners: Sequence[Ref] = ()) -> Clause:
    if len({ref.label for ref in new}) > 1 and (having.pairs or owners):
        fail("which of them is that said of? Say it in two sentences.")
    if len(new) > 1 and (having.children or having.without):
        fail("which of them is it with? Say it in two sentences.")
    calls: list[Call] = []
    for ref in new:
        calls.append(add_node(ref, dict(having.pairs)))
        calls += [set_properties(ref, {name: value}) for name, value in having.pairs if not is_same(dict(having.pairs)[name], value)]
    for child in having.children:
        calls += [add_node(child, {}), _has(new[0], child)]
    calls += [_has(owner, ref) for owner in owners for ref in new]
    without = tuple((str(new[0]), label) for label in having.without)
    return Clause(tuple(calls), tuple(new), (*new, *having.children), without)


def _has(owner: Ref, ref: Ref) -> Call:
    return add_edge(owner, ref, f"HAS_{snake(ref.label or '')}")


def _create_without(said: Said, *, new: Sequence[Ref], label: str | None) -> Clause:
    return _create(said, new=new, having=With(without=(label or "node",)))


def _create_related(said: Said, *, new: Sequence[Ref], relation: Relation, nodes: Sequence[Ref], having: With = _NOTHING) -> Clause:
    made = _create(said, new=new, having=having)
    for ref in nodes:
        if ref in new:
            fail(f"{ref.said} cannot be connected to itself.")
    more = _relate(said, subjects=new, relation=relation, objects=nodes)
    return Clause((*made.calls, *more.calls), made.about, made.made, made.without)


# What connects.


def _assign(said: Said, *, who: Sequence[Ref], what: Sequence[Ref]) -> Clause:
    calls: list[Call] = []
    for one in who:
        for other in what:
            calls += _assigned(said, one, other)
    return Clause(tuple(calls), (*who, *what))


def _assigned(said: Said, who: Ref, what: Ref) -> list[Call]:
    """Assign a person, who is added where nothing has this name yet; 'assign the task Design to Ada' names them the other way round."""
    is_person = what.label is not None and what.label.casefold() in PEOPLE
    if (who.label == "Task" and what.label is None) or (is_person and (who.label or "").casefold() not in PEOPLE):
        who, what = what, who
    if who.label in {None, "Person"} and who.key not in said.made:
        person = add_node(Ref(who.key, "Person"), {}).args
        # 'assign Laundry to Zoe' makes no person of Laundry where Zoe is one.
        unless: dict[str, JsonValue] = {} if what.label is not None else {"beside": {"node": what.key, "not_of": _PERSONS}}
        return [
            Call("add_node", {**person, "if_missing": True, **unless}, f"add {who.said} as a person if it is missing"),
            _edge(who, what, ASSIGNED),
        ]
    return [_edge(who, what, ASSIGNED)]


def _relate(said: Said, *, subjects: Sequence[Ref], relation: Relation, objects: Sequence[Ref]) -> Clause:
    if relation.name == ASSIGNED.name:
        return _assign(said, who=subjects, what=objects)
    calls = [_edge(one, other, relation) for one in subjects for other in objects]
    return Clause(tuple(calls), (*subjects, *objects))


def _relate_both(said: Said, *, both: Sequence[Ref], relation: Relation) -> Clause:
    if len(both) != 2:  # noqa: PLR2004 - one and the other
        fail("say it of two at a time.")
    return _relate(said, subjects=both[:1], relation=relation, objects=both[1:])


def _edge(one: Ref, other: Ref, relation: Relation) -> Call:
    start, end = (other, one) if relation.is_passive else (one, other)
    return add_edge(start, end, relation.name)


def _unrelate(_: Said, *, subjects: Sequence[Ref], relation: Relation, objects: Sequence[Ref]) -> Clause:
    ends = [(other, one) if relation.is_passive else (one, other) for one in subjects for other in objects]
    return Clause(tuple(delete_edge(one, other, relation.name) for one, other in ends), tuple(subjects))


def _unassign(said: Said, *, subjects: Sequence[Ref], objects: Sequence[Ref]) -> Clause:
    return _unrelate(said, subjects=subjects, relation=ASSIGNED, objects=objects)


def _connect(said: Said, *, one: Sequence[Ref], other: Sequence[Ref], name: str = CONNECTED.name) -> Clause:
    return _relate(said, subjects=one, relation=Relation(name), objects=other)


def _connect_both(said: Said, *, both: Sequence[Ref], name: str = CONNECTED.name) -> Clause:
    if len(both) != 2:  # noqa: PLR2004 - from and to
        fail("what to what? Say 'connect Design to Build as PRECEDES'.")
    return _connect(said, one=both[:1], other=both[1:], name=name)


def _disconnect(said: Said, *, one: Sequence[Ref], other: Sequence[Ref], name: str = CONNECTED.name) -> Clause:
    return _unrelate(said, subjects=one, relation=Relation(name), objects=other)


# What changes and removes.


def _set(said: Said, *, nodes: Sequence[Ref], name: str, value: JsonValue) -> Clause:
    if name == "key":
        if len(nodes) > 1 or not isinstance(value, str):
            fail("one node gets one name.")
        return _rename(said, node=nodes[0], name=value)
    return Clause(tuple(set_properties(ref, {name: value}) for ref in nodes), tuple(nodes))


def _set_last(said: Said, *, name: str, value: JsonValue) -> Clause:
    return _set(said, nodes=_last(said), name=name, value=value)


def _last(said: Said) -> Sequence[Ref]:
    if not said.last:
        fail("whose? Each goal is read by itself: say 'set the status of Design to done'.")
    return said.last


def _set_pair(said: Said, *, nodes: Sequence[Ref], pair: tuple[str, JsonValue]) -> Clause:
    return _set(said, nodes=nodes, name=pair[0], value=pair[1])


def _mark(said: Said, *, nodes: Sequence[Ref], value: JsonValue) -> Clause:
    return _set(said, nodes=nodes, name="status", value=value)


def _clear(_: Said, *, nodes: Sequence[Ref], name: str) -> Clause:
    if name == "key":
        fail("a node has to have a name.")
    if name in _EDGES.split("|"):
        fail("which edges? Say 'remove the DEPENDS_ON edge from Build to Design'.")
    return Clause(tuple(set_properties(ref, {name: None}) for ref in nodes), tuple(nodes))


def _set_edge(_: Said, *, name: str, relation: str, start: Ref, end: Ref, value: JsonValue) -> Clause:
    return Clause((set_edge(start, end, relation, {name: value}),), (start,))


def _rename(_: Said, *, node: Ref, name: str) -> Clause:
    call = set_properties(node, {"key": name})
    return Clause((Call(call.tool, call.args, f"rename {node.said} to '{name}'"),), (Ref(name, node.label),))


def _remove(*, detach: bool) -> Callable[..., Clause]:
    def make(_: Said, *, nodes: Sequence[Ref]) -> Clause:
        more = " and its edges" if detach else ""
        calls = [Call("delete_node", {"match": str(ref), "detach": detach}, f"delete {ref.said}{more}") for ref in nodes]
        return Clause(tuple(calls), tuple(nodes))

    return make


def _refuse(_: Said) -> Clause:
    return fail("I change and delete only nodes that are named: say which ones, as in 'delete the task Build'.")


# What can be said.

_EDGE = "edge|relationship|relation|link|connection"
_EDGES = "edges|edge|relationships|relationship|relations|connections|links"
_MAKE = "create|add|make|insert|register|define|new"
_JOIN = "connect|link|relate|attach|join|tie"
_DROP = "delete|remove|drop|erase"
_AS = "as|by|via|with_relationship|through|using"

_COMMANDS: tuple[Pattern, ...] = patterns(
    (
        _connect,
        f"""
        {_MAKE} a|an|the|another|new? {_EDGE} from|between {{one:nodes}} to|and {{other:nodes}}
        {_MAKE} a|an|the|another|new? {_EDGE} from|between {{one:nodes}} to|and {{other:nodes}} called|named|as {{name:relationship}}
        {_MAKE} a|an|the|another|new? {{name:relationship}} {_EDGE} from|between {{one:nodes}} to|and {{other:nodes}}
        """,
    ),
    (
        _create,
        f"""
        {_MAKE} {{new:new}}
        {_MAKE} {{new:new}} ,? with|having|whose|which_has|that_has|who_has {{having:having}}
        {_MAKE} {{new:new}} to|in|into|under {{owners:nodes}}
        {_MAKE} {{new:new}} with|having {{having:having}} to|in|into|under {{owners:nodes}}
        {_MAKE} {{new:new}} to|in|into|under {{owners:nodes}} with|having {{having:having}}
        """,
    ),
    (_create_without, f"{_MAKE} {{new:new}} without|with_no {{label:label}}"),
    (
        _create_related,
        f"""
        {_MAKE} {{new:new}} ,? that|which|who? {{relation:saying}} {{nodes:nodes}}
        {_MAKE} {{new:new}} with|having {{having:having}} that|which|who|and? {{relation:saying}} {{nodes:nodes}}
        {_MAKE} {{new:new}} {{relation:being}} {{nodes:nodes}}
        """,
    ),
    (_set_pair, "add|give {pair:pair} to {nodes:nodes}\ngive {nodes:nodes} a|an|the? {pair:pair}"),
    (_assign, "assign {who:nodes} to {what:nodes}"),
    (
        _connect,
        f"""
        {_JOIN} {{one:nodes}} to|with {{other:nodes}}
        {_JOIN} {{one:nodes}} to|with {{other:nodes}} {_AS} {{name:relationship}}
        """,
    ),
    (_connect_both, f"{_JOIN} {{both:nodes}} together?\n{_JOIN} {{both:nodes}} {_AS} {{name:relationship}}"),
    (_relate, "make {subjects:nodes} {relation:doing} {objects:nodes}\nmake {subjects:nodes} {relation:being} {objects:nodes}"),
    (
        _set_edge,
        f"set the? {{name:property}} of the? {{relation:relationship}} {_EDGE} from {{start:node}} to {{end:node}} to {{value:value}}",
    ),
    (
        _set,
        """
        set|change|update|put|make the? {name:property} of|for {nodes:nodes} to|=|as|be|at|: {value:value}
        set|change|update|make {nodes:nodes} 's|' {name:property} to|=|as|be|at|: {value:value}
        set|change|update {nodes:nodes} {name:known_property} to|=|as|: {value:value}
        set|change|update the? {name:property} to|=|as {value:value} for|of|on|in {nodes:nodes}
        the {name:property} of {nodes:nodes} to|=|as {value:value}
        """,
    ),
    (
        _set_last,
        "set|change|update its|the|their {name:property} to|=|as {value:value}\nthe|its|their {name:property} to|=|as {value:value}",
    ),
    (_mark, "mark|flag {nodes:nodes} as {value:value}\nmark {nodes:nodes} {value:state}"),
    (_rename, "rename {node:node} to|as|into {name:name}"),
    (_refuse, f"{_DROP} all|every|everything|the_graph|the_whole_graph|it_all|all_of_it"),
    (
        _disconnect,
        f"""
        {_DROP}|cut|break the|a? {{name:relationship}} {_EDGE} from|between {{one:nodes}} to|and {{other:nodes}}
        {_DROP}|cut|break the|a? {_EDGE} from|between {{one:nodes}} to|and {{other:nodes}}
        disconnect|unlink|detach {{one:nodes}} from|and {{other:nodes}}
        disconnect|unlink|detach {{one:nodes}} from|and {{other:nodes}} as|by {{name:relationship}}
        """,
    ),
    (
        _clear,
        f"""
        {_DROP}|clear|unset the? {{name:property}} of {{nodes:nodes}}
        {_DROP}|clear|unset the {{name:property}} from {{nodes:nodes}}
        {_DROP}|clear|unset {{name:known_property}} from {{nodes:nodes}}
        {_DROP}|clear|unset {{nodes:nodes}} 's|' {{name:property}}
        """,
    ),
    (
        _remove(detach=True),
        f"""
        {_DROP} {{nodes:nodes}} ,? and|with|including|together_with all|all_of? the|its|their? {_EDGES}
        {_DROP} {{nodes:nodes}} ,? and|with|including everything attached|connected|linked to_it|to_them?
        detach delete {{nodes:nodes}}
        """,
    ),
    (_remove(detach=False), f"{_DROP} {{nodes:nodes}} from_the_graph?\nget_rid_of {{nodes:nodes}}"),
    (_disconnect, f"{_DROP}|take {{one:nodes}} from {{other:nodes}}"),
    (_unassign, "unassign {subjects:nodes} from {objects:nodes}"),
)
_STATEMENTS: tuple[Pattern, ...] = patterns(
    (
        _unrelate,
        """
        {subjects:subjects} no_longer {relation:saying} {objects:nodes}
        {subjects:shown_names} no_longer {relation:verb} {objects:shown_names}
        {subjects:subjects} is|are no_longer|not_any_more|not_anymore {relation:being} {objects:nodes}
        {subjects:subjects} is_not|are_not|isn't|aren't {relation:being} {objects:nodes} anymore|any_more|any_longer
        """,
    ),
    (
        _set,
        """
        {nodes:subjects} 's|' {name:known_property} is|are|: {value:value}
        the {name:known_property} of {nodes:nodes} is|are {value:value}
        """,
    ),
    (
        _relate,
        """
        {subjects:subjects} {relation:saying} {objects:nodes}
        {subjects:shown_names} {relation:verb} {objects:shown_names}
        {subjects:shown_names} is|are {objects:shown_names} 's|' {relation:kin}
        {objects:shown_names} 's|' {relation:kin} is|are {subjects:shown_names}
        """,
    ),
    (_relate_both, "{both:shown_names} are {relation:mutual}"),
)


# What the slots of the patterns are.


def _node(words: list[str], said: Said) -> Ref:
    words = words[1:] if words[0] in {"a", "an", "any", "An"} and len(words) > 1 else words
    return refs_of(words, said, most=1)[0]


def _subjects(words: list[str], said: Said) -> list[Ref]:
    """Read what a statement is about. It begins with a name: questions and commands are no statements."""
    if words[0].casefold() in _QUESTIONS or words[0] in VERBS:
        fail("")
    return refs_of(words, said)


def _shown_names(words: list[str], said: Said) -> list[Ref]:
    """Read names that are seen to be names, as a verb that is not known needs them."""
    refs = _subjects(words, said)
    if words[0].casefold() in VERBS:
        fail(f"what is to be done by '{' '.join(words)}'?")
    if not all(ref.label is not None or not ref.key[:1].islower() for ref in refs) or any(word.isdigit() for word in words):
        fail(f"is '{' '.join(words)}' a name? Put it in quotes if it is.")
    return refs


def _mutual(words: list[str], said: Said) -> Relation:
    """Read what two are to each other: 'friends', 'married', 'connected'."""
    preposition = _MUTUALLY.get(words[0].casefold())
    return after_be([words[0], preposition], said) if len(words) == 1 and preposition else fail("")


def _name(words: list[str], said: Said) -> str:
    return named(words, said, is_new=True)


def _known_property(words: list[str], said: Said) -> str:
    if words[-1].casefold() not in PROPERTIES | {"date", "id"}:
        fail(f"which property is '{' '.join(words)}'?")
    return property_of(words, said)


def _pair(words: list[str], said: Said) -> tuple[str, JsonValue]:
    pair = read_pair(words, said)
    named = words[1] if words[0].casefold() in {"a", "an", "the"} and len(words) > 1 else words[0]
    if pair is None or named.casefold() not in PROPERTIES:
        fail(f"which property and value is '{' '.join(words)}'? Say 'set the status of Design to done'.")
    return pair


def _state_word(words: list[str], said: Said) -> JsonValue:
    if len(words) != 1 or words[0].casefold() not in _STATES:
        fail("say 'mark Design as done'.")
    return value_of(words, said)


_KINDS: dict[str, Callable[[list[str], Any], Any] | Sequence[Pattern]] = {
    "clause": (*_COMMANDS, *INQUIRIES, *_STATEMENTS),
    "description": DESCRIPTIONS,
    "asked": ASKED,
    "persons": PERSONS,
    "conditions": CONDITIONS,
    "lacking": LACKING,
    "adjective": adjective,
    "phrase": phrase,
    "label": plain_label,
    "new": new_nodes,
    "having": with_parts,
    "pair": _pair,
    "node": _node,
    "nodes": refs_of,
    "subjects": _subjects,
    "name": _name,
    "property": property_of,
    "known_property": _known_property,
    "value": value_of,
    "state": _state_word,
    "relationship": relationship_of,
    "shown_names": _shown_names,
    "saying": after_name,
    "verb": any_verb,
    "past": past_verb,
    "kin": kin,
    "mutual": _mutual,
    "doing": after_do,
    "being": after_be,
}
