"""Finding nodes by their names: a name that the graph does not have is an error that says which names could be meant."""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlock.errors import QueryDenied
from interlock.spelling import closest
from interlock_agents.puntini.errors import MatchAmbiguous, NotInGraph
from interlock_agents.puntini.graph_store import GraphStore, Node
from interlock_agents.puntini.graphs.conditions import is_equal
from interlock_agents.puntini.graphs.guard import check_name

__all__ = ["MAX_NODES", "did_you_mean", "find_node", "find_nodes", "missing"]

MAX_NODES = 1000
"""How many nodes are looked at one by one; a question about more is for Cypher."""

_REF = re.compile(r"(?P<label>[^\W\d_]\w{0,63}):(?P<key>.+)", re.DOTALL)
_SHOWN = 100


async def find_node(store: GraphStore, graph: str, text: str) -> Node:
    """Find the node that is meant: by label and key, or by a key that only one node has; case counts only where it has to.

    Raises NotInGraph, with the names that could be meant, or MatchAmbiguous.
    """
    found = await find_nodes(store, graph, text)
    if len(found) > 1:
        which = ", ".join(f"'{node.label}:{node.key}'" for node in found[:5])
        message = f"'{text[:_SHOWN]}' could be {which}. Say which, with its label."
        raise MatchAmbiguous(message, named=text, candidates=(f"{node.label}:{node.key}" for node in found[:5]))
    return found[0]


async def find_nodes(store: GraphStore, graph: str, text: str) -> Sequence[Node]:
    """Find every node that could be meant: those of exactly this name, else those of the same but for case. Raises NotInGraph."""
    said = _REF.fullmatch(text)
    label = said["label"] if said is not None and _is_label(said["label"]) else None
    key = said["key"] if said is not None and label is not None else text
    exact = (label is not None and await store.nodes(graph, label=label, key=key, limit=1)) or await store.nodes(graph, key=text, limit=6)
    if exact:
        return exact
    known = await store.nodes(graph, limit=MAX_NODES)
    # 'The Beatles' may have lost its article on the way.
    names = {key.casefold(), f"the {key}".casefold()}
    alike = [node for node in known if node.key.casefold() in names and (label is None or node.label.casefold() == label.casefold())]
    if not alike and label is None:
        # 'shelf s2' is the shelf S2, if there is one.
        first, _, rest = key.casefold().partition(" ")
        alike = [node for node in known if (node.label.casefold(), node.key.casefold()) == (first, rest)]
    if not alike:
        raise NotInGraph(missing(key, label, known))
    return alike


def missing(key: str, label: str | None, known: Sequence[Node]) -> str:
    """Say that there is no such node, and which could be meant."""
    of_label = [node for node in known if label is None or node.label == label]
    elsewhere = [node for node in known if node.key.casefold() == key.casefold()]
    names = closest(key, (node.key for node in of_label)) or [node.key for node in elsewhere[:3]]
    near = [node for node in (elsewhere or of_label) if node.key in names]
    what = f"There is no {label} '{key[:_SHOWN]}'" if label else f"There is no node '{key[:_SHOWN]}'"
    values = [f"{name} of {node.label} {node.key}" for node in known for name, value in node.properties.items() if is_equal(value, key)]
    having = f" '{key[:_SHOWN]}' is the {', the '.join(values[:3])}." if values and not near else ""
    return f"{what} in the graph.{did_you_mean([f'{node.label} {node.key}' for node in near[:3]])}{having}"


def did_you_mean(names: Sequence[str]) -> str:
    """Ask back with the names that could be meant."""
    return f" Did you mean {' or '.join(f'{name!r}' for name in names)}?" if names else ""


def _is_label(text: str) -> bool:
    try:
        check_name(text, "label")
    except QueryDenied:
        return False
    return True
