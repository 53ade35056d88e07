"""Questions: the patterns in which they are asked, and the calls that answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from interlock_agents.puntini.calls import Call, Clause
from interlock_agents.puntini.descriptions import ANYTHING, Condition, Described
from interlock_agents.puntini.patterns import Pattern, patterns
from interlock_agents.puntini.relations import Relation
from interlock_agents.puntini.words import PROPERTIES, Ref, Said, fail, is_plural

__all__ = ["INQUIRIES"]


def _ask(wants: str, says: str, args: Mapping[str, JsonValue], about: Sequence[Ref] = ()) -> Clause:
    return Clause((Call("query_graph", {**args, "wants": wants}, says),), tuple(about))


def _count(_: Said, *, which: Described) -> Clause:
    return _ask("count", f"count {which.said}", which.args())


def _list(_: Said, *, which: Described) -> Clause:
    return _ask("nodes" if which.near is None else "names", f"list {which.said}", which.args())


def _any(_: Said, *, which: Described) -> Clause:
    return _ask("yes_no", f"see whether there are {which.said}", which.args())


def _any_near(said: Said, *, node: Ref, label: str | None) -> Clause:
    return _any(said, which=Described(label, near=node))


def _show(_: Said, *, nodes: Sequence[Ref]) -> Clause:
    for ref in nodes:
        if ref.label is None and ref.key in PROPERTIES:
            fail(f"whose '{ref.key}'? Ask for one property at a time, as in 'what is the {ref.key} of Design'.")
        is_kind = len(nodes) > 1 and is_plural(ref.key)  # 'list tasks and people' is two lists
        if ref.label is None and ref.key.islower() and (is_kind or ref.key.split()[0].endswith("ing")):
            fail("")
    return Clause(tuple(Call("query_graph", {"key": str(ref), "wants": "nodes"}, f"show {ref.said}") for ref in nodes), tuple(nodes))


def _property(said: Said, *, nodes: Sequence[Ref], name: str) -> Clause:
    if name == "key":
        return _show(said, nodes=nodes)
    calls = [Call("query_graph", {"key": str(ref), "wants": "property", "property": name}, f"find {name} of {ref.said}") for ref in nodes]
    return Clause(tuple(calls), tuple(nodes))


def _age(said: Said, *, nodes: Sequence[Ref]) -> Clause:
    return _property(said, nodes=nodes, name="age")


def _is_related(_: Said, *, one: Ref, relation: Relation, other: Ref) -> Clause:
    which = Described(None, near=other, relationship=relation.asked, direction=relation.towards(subject=True))
    return _ask("yes_no", f"see whether {one.said} is connected to {other.said}", {"key": str(one), **which.args()}, [one])


def _are_both(said: Said, *, both: Sequence[Ref], relation: Relation) -> Clause:
    one, other = _two(both)
    return _is_related(said, one=one, relation=relation, other=other)


def _between(_: Said, *, both: Sequence[Ref]) -> Clause:
    one, other = _two(both)
    return _ask("connections", f"find what connects {one.said} and {other.said}", {"key": str(one), "near": {"node": str(other)}})


def _between_two(said: Said, *, one: Ref, other: Ref) -> Clause:
    return _between(said, both=[one, other])


def _two(both: Sequence[Ref]) -> Sequence[Ref]:
    if len(both) != 2:  # noqa: PLR2004 - one and the other
        fail("ask about two nodes at a time.")
    return both


def _edges(_: Said, *, node: Ref) -> Clause:
    return _ask("connections", f"find the edges of {node.said}", {"key": str(node)}, [node])


def _exists(_: Said, *, node: Ref) -> Clause:
    return _ask("yes_no", f"see whether there is {node.said}", {"key": str(node)}, [node])


def _is_so(_: Said, *, node: Ref, where: Condition) -> Clause:
    return _ask("yes_no", f"see whether {node.said} is like that", {"key": str(node), "where": [where.args()]}, [node])


def _is_valued(said: Said, *, node: Ref, name: str, value: JsonValue) -> Clause:
    return _is_so(said, node=node, where=Condition(name, "equal", value))


def _has_property(said: Said, *, node: Ref, name: str) -> Clause:
    return _is_so(said, node=node, where=Condition(name, "present"))


def _is_labelled(_: Said, *, node: Ref, label: str | None) -> Clause:
    return _ask("yes_no", f"see whether {node.said} is a {label}", {"key": str(node), "label": label}, [node])


def _figure(wants: str) -> Callable[..., Clause]:
    def make(_: Said, *, name: str = "age", which: Described = ANYTHING) -> Clause:
        return _ask(wants, f"find the {wants} {name} of {which.said}", {**which.args(), "property": name})

    return make


def _everything(_: Said) -> Clause:
    return _ask("nodes", "list all nodes", {})


def _kinds(_: Said) -> Clause:
    query = "MATCH (n) RETURN DISTINCT labels(n) AS label"
    return Clause((Call("cypher_query", {"query": query, "parameters": {}}, "list the labels"),))


def _count_edges(_: Said) -> Clause:
    query = "MATCH ()-[r]->() RETURN count(r) AS `count`"
    nothing = Call("cypher_query", {"query": "RETURN 0 AS `count`", "parameters": {}}, "say that there are none")
    return Clause((Call("cypher_query", {"query": query, "parameters": {}}, "count the edges", nothing),))


_EDGES = "edges|edge|relationships|relationship|relations|relation|connections|connection|links|link"
_SHOW = "list|show|display|print|find|get|see|show_me|give_me|get_me|find_me|list_me|what_are|who_are|name"
_ALL = "everything|all_nodes|all_the_nodes|the_graph|the_whole_graph|all_things|whole_graph|all|graph|the_nodes|nodes|all_data"
_ABOUT = "describe|about|tell_me_about|tell_me_more_about|what_do_you_know_about|what_do_we_know_about|look_up|who_is|what_is"
_THERE = "in_the_graph|you_have|we_have|i_have|there_is|you_know"

INQUIRIES: tuple[Pattern, ...] = patterns(
    (
        _count_edges,
        f"how_many|count|count_all|number_of|the_number_of the|all? {_EDGES} are_there|exist|do_we_have? in_the_graph?",
    ),
    (_age, "how_old is|are {nodes:nodes}"),
    (_count, "how_many|count|count_all|number_of|the_number_of|what_is_the_number_of the|all|of_the|different? {which:asked}"),
    # yes or no
    (_any, "is|are there any|some? {which:asked}\ndo_we_have|do_you_have|do_i_have|have_we any|some {which:asked}"),
    (
        _exists,
        """
        is_there|do_we_have|do_you_have|do_i_have|have_we a|an|any? {node:node} in_the_graph|already|here?
        does|do {node:node} exist|exist_already|exist_in_the_graph|already_exist
        is {node:node} in_the_graph|there|in_there|known
        """,
    ),
    (_are_both, "is|are {both:nodes} {relation:mutual} to_each_other|with_each_other|directly|together?"),
    (_is_labelled, "is {node:node} a|an {label:label}"),
    (_is_related, "is|are {one:node} {relation:being} {other:node}\ndoes|do {one:node} {relation:doing} {other:node}"),
    (_is_valued, "is the? {name:property} of {node:node} {value:value}\nis {node:node} 's|' {name:property} {value:value}"),
    (_has_property, "does {node:node} have a|an|any|the? {name:known_property} set?"),
    (_any_near, "does {node:node} have a|an|any? {label:label}"),
    (_is_so, "is {node:node} {where:adjective} yet|already?\nhas {node:node} been {where:adjective}"),
    # the most, the least, and in all
    (
        _figure("highest"),
        """
        who|which_person is the? oldest person?
        which|what {which:description} has|have the highest|largest|biggest|most|greatest {name:property}
        who has the highest|largest|biggest|most|greatest {name:property}
        what_is? the? highest|maximum|max|largest {name:property} of|among|for {which:description}
        what_is the highest|maximum|max|largest {name:property}
        """,
    ),
    (
        _figure("lowest"),
        """
        who|which_person is the? youngest person?
        which|what {which:description} has|have the lowest|smallest|least|fewest {name:property}
        who has the lowest|smallest|least {name:property}
        what_is? the? lowest|minimum|min|smallest {name:property} of|among|for {which:description}
        what_is the lowest|minimum|min|smallest {name:property}
        """,
    ),
    (
        _figure("average"),
        "what_is? the? average|mean {name:property} of|among|for {which:description}\nwhat_is the average|mean {name:property}",
    ),
    (
        _figure("sum"),
        "what_is? the? total|sum_of|sum_of_the {name:property} of|among|for {which:description}\nwhat_is the total {name:property}",
    ),
    # connections
    (
        _edges,
        f"""
        what_is|who_is connected|linked|related to {{node:node}}
        {_SHOW} the|all|all_the? {_EDGES}|neighbours|neighbors of|from|for {{node:node}}
        {_SHOW} {{node:node}} 's|' {_EDGES}|neighbours|neighbors
        """,
    ),
    (_between_two, "how is|are {one:node} connected|linked|related to {other:node}"),
    (
        _between,
        f"""
        how is|are {{both:nodes}} connected|linked|related to_each_other?
        what_is|show|what_are|find the|all? {_EDGES} between {{both:nodes}}
        what connects {{both:nodes}}
        """,
    ),
    # properties
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
    # who, which and everything
    (
        _everything,
        f"""
        {_SHOW} me? {_ALL} {_THERE}?
        what is in the|my|this? graph
        what do_we_have|do_you_know|is_there|do_you_have
        """,
    ),
    (
        _kinds,
        "list|show|show_me|what|which the|all? labels|kinds|types|types_of_nodes|types_of_things|kinds_of_things are_there|do_we_have?",
    ),
    (_list, f"which|what|{_SHOW} {{which:asked}}\nwho|what|whom {{which:persons}}\nall|all_the|all_of_the {{which:description}}"),
    (_show, f"{_SHOW}|{_ABOUT} me? {{nodes:nodes}}"),
)
"""Every question that can be asked, in the order in which they are tried."""
