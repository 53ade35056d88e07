"""Clauses that create, connect, change and delete: patterns of words, and the tool calls that they become."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import JsonValue

from interlock_agents.puntini.calls import Call, Clause, add_edge, add_node, delete_edge, set_properties
from interlock_agents.puntini.creating import With, new_nodes, read_pair, with_parts
from interlock_agents.puntini.graph_store import is_same
from interlock_agents.puntini.inquiries import INQUIRIES, KINDS
from interlock_agents.puntini.patterns import Pattern, Reader, patterns, reject
from interlock_agents.puntini.relations import (
    ASSIGNED,
    CONNECTED,
    Relation,
    after_is,
    after_subject,
    kinship,
    mutual,
    past_verb,
    plain_verb,
    unknown_verb,
)
from interlock_agents.puntini.terms import (
    Context,
    Ref,
    excerpt,
    read_name,
    read_nodes,
    read_property,
    read_relationship,
    read_value,
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
    if name in _EDGE_WORDS.split("|"):
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


_EDGE = "edge|relationship|relation|link|connection"
_EDGE_WORDS = "edges|edge|relationships|relationship|relations|connections|links"
_MAKE = "create|add|make|insert|register|define|new"
_JOIN = "connect|link|relate|attach|join|tie"
_DROP = "delete|remove|drop|erase"
_AS = "as|by|via|with_relationship|through|using"
_CONNECT, _DISCONNECT = _edges(CONNECTED), _edges(CONNECTED, adds=False)

_COMMANDS: tuple[Pattern, ...] = patterns(
    (
        _CONNECT,
        f"""
        {_MAKE} a|an|the|another|new? {_EDGE} from|between {{subjects:nodes}} to|and {{objects:nodes}}
        {_MAKE} a|an|the|another|new? {_EDGE} from|between {{subjects:nodes}} to|and {{objects:nodes}} called|named|as {{name:relationship}}
        {_MAKE} a|an|the|another|new? {{name:relationship}} {_EDGE} from|between {{subjects:nodes}} to|and {{objects:nodes}}
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
        {_MAKE} {{new:new}} without|with_no {{lacks:label}}
        {_MAKE} {{new:new}} ,? that|which|who? {{relation:after_subject}} {{objects:nodes}}
        {_MAKE} {{new:new}} with|having {{having:having}} that|which|who|and? {{relation:after_subject}} {{objects:nodes}}
        {_MAKE} {{new:new}} {{relation:after_is}} {{objects:nodes}}
        """,
    ),
    (_set, "add|give {pair:pair} to {nodes:nodes}\ngive {nodes:nodes} a|an|the? {pair:pair}"),
    (_edges(ASSIGNED), "assign {subjects:nodes} to {objects:nodes}"),
    (
        _CONNECT,
        f"""
        {_JOIN} {{subjects:nodes}} to|with {{objects:nodes}}
        {_JOIN} {{subjects:nodes}} to|with {{objects:nodes}} {_AS} {{name:relationship}}
        {_JOIN} {{both:nodes}} together?
        {_JOIN} {{both:nodes}} {_AS} {{name:relationship}}
        make {{subjects:nodes}} {{relation:plain_verb}} {{objects:nodes}}
        make {{subjects:nodes}} {{relation:after_is}} {{objects:nodes}}
        """,
    ),
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
        set|change|update its|the|their {name:property} to|=|as {value:value}
        the|its|their {name:property} to|=|as {value:value}
        mark|flag {nodes:nodes} as {value:value}
        mark {nodes:nodes} {value:state}
        """,
    ),
    (_rename, "rename {node:node} to|as|into {name:name}"),
    (_refuse, f"{_DROP} all|every|everything|the_graph|the_whole_graph|it_all|all_of_it"),
    (
        _DISCONNECT,
        f"""
        {_DROP}|cut|break the|a? {{name:relationship}} {_EDGE} from|between {{subjects:nodes}} to|and {{objects:nodes}}
        {_DROP}|cut|break the|a? {_EDGE} from|between {{subjects:nodes}} to|and {{objects:nodes}}
        disconnect|unlink|detach {{subjects:nodes}} from|and {{objects:nodes}}
        disconnect|unlink|detach {{subjects:nodes}} from|and {{objects:nodes}} as|by {{name:relationship}}
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
        _delete(detach=True),
        f"""
        {_DROP} {{nodes:nodes}} ,? and|with|including|together_with all|all_of? the|its|their? {_EDGE_WORDS}
        {_DROP} {{nodes:nodes}} ,? and|with|including everything attached|connected|linked to_it|to_them?
        detach delete {{nodes:nodes}}
        """,
    ),
    (_delete(detach=False), f"{_DROP} {{nodes:nodes}} from_the_graph?\nget_rid_of {{nodes:nodes}}"),
    (_DISCONNECT, f"{_DROP}|take {{subjects:nodes}} from {{objects:nodes}}"),
    (_edges(ASSIGNED, adds=False), "unassign {subjects:nodes} from {objects:nodes}"),
)
_STATEMENTS: tuple[Pattern, ...] = patterns(
    (
        _DISCONNECT,
        """
        {subjects:subjects} no_longer {relation:after_subject} {objects:nodes}
        {subjects:plain_names} no_longer {relation:unknown_verb} {objects:plain_names}
        {subjects:subjects} is|are no_longer|not_any_more|not_anymore {relation:after_is} {objects:nodes}
        {subjects:subjects} is_not|are_not|isn't|aren't {relation:after_is} {objects:nodes} anymore|any_more|any_longer
        """,
    ),
    (
        _set,
        "{nodes:subjects} 's|' {name:known_property} is|are|: {value:value}\nthe {name:known_property} of {nodes:nodes} is|are {value:value}",
    ),
    (
        _CONNECT,
        """
        {subjects:subjects} {relation:after_subject} {objects:nodes}
        {subjects:plain_names} {relation:unknown_verb} {objects:plain_names}
        {subjects:plain_names} is|are {objects:plain_names} 's|' {relation:kinship}
        {objects:plain_names} 's|' {relation:kinship} is|are {subjects:plain_names}
        {both:plain_names} are {relation:mutual}
        """,
    ),
)


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
        reject(f"is '{said}' a name? Put it in quotes if it is.")
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


_KINDS: dict[str, Callable[[list[str], Context], object] | Sequence[Pattern]] = {
    **KINDS,
    "clause": (*_COMMANDS, *INQUIRIES, *_STATEMENTS),
    "new": new_nodes,
    "having": with_parts,
    "pair": _pair,
    "node": _node,
    "nodes": read_nodes,
    "subjects": _subjects,
    "plain_names": _plain_names,
    "name": _name,
    "property": read_property,
    "known_property": _known_property,
    "value": read_value,
    "state": _state,
    "relationship": read_relationship,
    "after_subject": after_subject,
    "after_is": after_is,
    "plain_verb": plain_verb,
    "past_verb": past_verb,
    "unknown_verb": unknown_verb,
    "kinship": kinship,
    "mutual": mutual,
}
