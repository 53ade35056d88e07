"""Questions, and descriptions of nodes that a question asks for: 'open tasks of Apollo', 'people older than 30'."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from interlock_agents.puntini.calls import Call, Clause
from interlock_agents.puntini.patterns import Pattern, patterns, reject
from interlock_agents.puntini.relations import ASSIGNED, CONNECTED, Relation
from interlock_agents.puntini.terms import Context, Ref, excerpt, is_plural, quoted_text, read_label, read_value, singular
from interlock_agents.puntini.vocabulary import FUNCTION_WORDS, LABELS, NO_VALUE, PHRASES, PROPERTIES, RELATION_VERBS

__all__ = ["INQUIRIES", "KINDS"]

_ANY_NODE = frozenset({"node", "thing", "entity"})
_ANY_EDGE = frozenset({"edge", "relationship", "relation", "connection", "link"})
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
        return replace(_adjective(words[1:], context), test="not_equal")
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


def _condition(test: str, of: str | None = None) -> Callable[..., tuple[_Condition, ...]]:
    def make(_: Context, *, name: str | None = None, value: JsonValue = None) -> tuple[_Condition, ...]:
        if of is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            reject(f"'{value}' is not a number.")
        return (_Condition(name or of, test, value),)

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


_SUBJECT, _OBJECT = _described(), _described(subject=False)
_WHO = "that_are|who_are|which_are|that_is|who_is|which_is"
_HAVING = "with|where|whose|having|have|has|that_have|who_have|which_have|that_has|who_has|which_has"
_LACKING = "without|with_no|that_have_no|who_have_no|that_has_no|who_has_no"
_THERE = "there|exist|exists|are_there|is_there|do_we_have|do_i_have|do_you_have|have_we|do_you_know|do_we_know|are_in_the_graph|are_known"

KINDS: dict[str, Callable[[list[str], Context], object] | Sequence[Pattern]] = {
    "label": _label,
    "adjective": _adjective,
    "phrase": _phrase,
    "age": patterns(
        (_condition("more", "age"), "older_than|over|above {value:value} years_old|years?"),
        (_condition("less", "age"), "younger_than|under|below {value:value} years_old|years?"),
    ),
    "conditions": patterns(
        (_condition("equal"), "a|an|the|any? {name:property} is|are|of|=|:|==|equal_to|is_equal_to|equals|set_to|is_set_to? {value:value}"),
        (_condition("not_equal"), "a|an|the? {name:property} is_not|other_than|is_other_than|!=|not {value:value}"),
        (_condition("less"), "a|an|the? {name:property} is|of? less_than|lower_than|smaller_than|under|below|before|< {value:value}"),
        (
            _condition("more"),
            "a|an|the? {name:property} is|of? more_than|greater_than|higher_than|larger_than|over|above|after|> {value:value}",
        ),
        (_condition("at_least"), "a|an|the? {name:property} is|of? at_least|>= {value:value}"),
        (_condition("at_most"), "a|an|the? {name:property} is|of? at_most|up_to|<= {value:value}"),
        (_condition("contains"), "a|an|the? {name:property} contains|containing {value:value}"),
        (_condition("missing"), "no {name:property}"),
        (_condition("present"), "a|an|any {name:property}"),
        (_both, "{one:conditions} and|,|,_and {other:conditions}"),
    ),
    "description": patterns(
        (
            _SUBJECT,
            f"""
            all|any|every|each|of|the|our|my|existing {{which:description}}
            {{label:label}}
            {{where:adjective}} {{label:label}}
            {{which:description}} {_HAVING} {{where:conditions}}
            {{which:description}} {_LACKING} a|an|any? {{lacks:property}}
            {{which:description}} {_WHO} {{where:adjective}}
            {{which:description}} marked as? {{where:adjective}}
            {{which:description}} in_the_graph|in_this_graph|in_my_graph|in_total|in_all|overall|altogether
            {{which:description}} {_WHO}? {{where:age}}
            {{which:description}} of|in|for|from|under|belonging_to|near|next_to {{node:node}}
            {{which:description}} {_WHO} {{relation:after_is}} {{node:node}}
            {{which:description}} {{relation:after_is}} {{node:node}}
            {{which:description}} that|which|who {{relation:after_subject}} {{node:node}}
            """,
        ),
        (_OBJECT, "{which:description} that|which|who? {node:node} is|are {relation:after_is}"),
        (_SUBJECT, "{node:node} 's|' {label:label}"),
    ),
    # After 'how many' and 'which'.
    "asked": patterns(
        (_SUBJECT, f"{{which:description}} {_THERE}? in_the_graph|in_total|in_all|overall|here?"),
        (_OBJECT, "{which:description} has|have|did {node:node} {relation:past_verb}"),
        (
            _SUBJECT,
            """
            {which:description} is|are {where:phrase}
            {which:description} does|do {node:node} have
            {which:description} has {node:node}
            {which:description} are|are_there|is|belong in|of|under|for|to|part_of {node:node}
            {which:description} is|are {relation:after_is} {node:node}
            {which:description} {relation:after_subject} {node:node}
            """,
        ),
        (
            _OBJECT,
            """
            {which:description} is|are {node:node} {relation:after_is}
            {which:description} does|do {node:node} {relation:plain_verb}
            """,
        ),
        (
            _SUBJECT,
            """
            {which:description} is|are {where:age}
            {which:description} is|are {where:adjective} yet?
            {which:description} has|have {where:conditions}
            """,
        ),
    ),
    # After 'who' and 'what'.
    "persons": patterns(
        (
            _SUBJECT,
            """
            is|are {where:age}
            is|are {relation:after_is} {node:node}
            {relation:after_subject} {node:node}
            {relation:past_verb} {node:node}
            {relation:unknown_verb} {node:node}
            is|are {node:node} 's|' {relation:kinship}
            """,
        ),
        (_OBJECT, "is|are {node:node} {relation:after_is}\ndoes|do {node:node} {relation:plain_verb}"),
        (_SUBJECT, "has|have {where:conditions}"),
    ),
    "owned": patterns((_SUBJECT, "{node:node} have a|an|any? {label:label}")),
}

_WANTS = {
    "count": "count", "nodes": "list", "names": "list", "yes_no": "check", "connections": "find the edges of", "highest": "find the highest",
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
    return lambda _: Clause((call,))


_NO_EDGES = Call("cypher_query", {"query": "RETURN 0 AS `count`", "parameters": {}}, "report that there are no edges")
_EDGES = "edges|edge|relationships|relationship|relations|relation|connections|connection|links|link"
_SHOW = "list|show|display|print|find|get|see|show_me|give_me|get_me|find_me|list_me|what_are|who_are|name"
_ALL = "everything|all_nodes|all_the_nodes|the_graph|the_whole_graph|all_things|whole_graph|all|graph|the_nodes|nodes|all_data"
_ABOUT = "describe|about|tell_me_about|tell_me_more_about|what_do_you_know_about|what_do_we_know_about|look_up|who_is|what_is"
_IN_GRAPH = "in_the_graph|you_have|we_have|i_have|there_is|you_know"
_HIGH, _LOW = "highest|largest|biggest|most|greatest|maximum|max", "lowest|smallest|least|fewest|minimum|min"


def _extreme(words: str, person: str) -> str:
    return f"""
        who|which_person is the? {person} person?
        which|what {{which:description}} has|have the {words} {{name:property}}
        who has the {words} {{name:property}}
        what_is? the? {words} {{name:property}} of|among|for {{which:description}}
        what_is the {words} {{name:property}}
        """


INQUIRIES: tuple[Pattern, ...] = patterns(
    (
        _cypher("MATCH ()-[r]->() RETURN count(r) AS `count`", "count the edges", _NO_EDGES),
        f"how_many|count|count_all|number_of|the_number_of the|all? {_EDGES} are_there|exist|do_we_have? in_the_graph?",
    ),
    (_property, "how_old is|are {nodes:nodes}"),
    (_question("count"), "how_many|count|count_all|number_of|the_number_of|what_is_the_number_of the|all|of_the|different? {which:asked}"),
    (
        _question("yes_no"),
        """
        is|are there any|some? {which:asked}
        do_we_have|do_you_have|do_i_have|have_we any|some {which:asked}
        is_there|do_we_have|do_you_have|do_i_have|have_we a|an|any? {node:node} in_the_graph|already|here?
        does|do {node:node} exist|exist_already|exist_in_the_graph|already_exist
        is {node:node} in_the_graph|there|in_there|known
        is|are {both:nodes} {relation:mutual} to_each_other|with_each_other|directly|together?
        is {node:node} a|an {label:label}
        is|are {node:node} {relation:after_is} {other:node}
        does|do {node:node} {relation:plain_verb} {other:node}
        is the? {name:property} of {node:node} {value:value}
        is {node:node} 's|' {name:property} {value:value}
        does {node:node} have a|an|any|the? {name:known_property} set?
        does {which:owned}
        is {node:node} {where:adjective} yet|already?
        has {node:node} been {where:adjective}
        """,
    ),
    (_question("highest"), _extreme(_HIGH, "oldest")),
    (_question("lowest"), _extreme(_LOW, "youngest")),
    (
        _question("average"),
        "what_is? the? average|mean {name:property} of|among|for {which:description}\nwhat_is the average|mean {name:property}",
    ),
    (
        _question("sum"),
        "what_is? the? total|sum_of|sum_of_the {name:property} of|among|for {which:description}\nwhat_is the total {name:property}",
    ),
    (
        _question("connections"),
        f"""
        what_is|who_is connected|linked|related to {{node:node}}
        {_SHOW} the|all|all_the? {_EDGES}|neighbours|neighbors of|from|for {{node:node}}
        {_SHOW} {{node:node}} 's|' {_EDGES}|neighbours|neighbors
        how is|are {{node:node}} connected|linked|related to {{other:node}}
        how is|are {{both:nodes}} connected|linked|related to_each_other?
        what_is|show|what_are|find the|all? {_EDGES} between {{both:nodes}}
        what connects {{both:nodes}}
        """,
    ),
    (
        _property,
        """
        what_is|show|show_me|give_me|get|find|name the? {name:property} of|for {nodes:nodes}
        what_is|what_are|show|show_me|give_me|get|find {nodes:nodes} 's|' {name:property}
        {nodes:nodes} 's|' {name:known_property}
        the? {name:known_property} of {nodes:nodes}
        what the {name:property} of {nodes:nodes} is
        what|which {name:property} does|do {nodes:nodes} have
        what|which {name:property} has {nodes:nodes}
        """,
    ),
    (
        _question("nodes"),
        f"""
        {_SHOW} me? {_ALL} {_IN_GRAPH}?
        what is in the|my|this? graph
        what do_we_have|do_you_know|is_there|do_you_have
        """,
    ),
    (
        _cypher("MATCH (n) RETURN DISTINCT labels(n) AS label", "list the labels"),
        "list|show|show_me|what|which the|all? labels|kinds|types|types_of_nodes|types_of_things|kinds_of_things are_there|do_we_have?",
    ),
    (
        _question("nodes"),
        f"which|what|{_SHOW} {{which:asked}}\nwho|what|whom {{which:persons}}\nall|all_the|all_of_the {{which:description}}",
    ),
    (_show, f"{_SHOW}|{_ABOUT} me? {{nodes:nodes}}"),
)
"""Every question that can be asked, in the order in which they are tried."""
