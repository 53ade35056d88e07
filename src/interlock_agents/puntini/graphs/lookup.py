"""Finding nodes by name. A name that the graph does not have is an error with the names that could be meant."""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlock.spelling import closest
from interlock_agents.puntini.errors import MatchAmbiguous, NotInGraph
from interlock_agents.puntini.graph_store import GraphStore, Node
from interlock_agents.puntini.graphs import cypher
from interlock_agents.puntini.graphs.conditions import is_equal

__all__ = ["MAX_NODES", "did_you_mean", "find_node", "find_nodes", "missing"]

MAX_NODES = 1000
"""How many nodes or edges are read for a question; a question about more needs Cypher."""

_REF = re.compile(r"(?P<label>[^\W\d_]\w{0,63}):(?P<key>.+)", re.DOTALL)
_SHOWN, _MAX_CANDIDATES = 100, 5


async def find_node(store: GraphStore, graph: str, text: str) -> Node:
    """Find a node by label and key, or by a key that only one node has. Case is ignored unless it makes a difference.

    Raises NotInGraph, with the names that could be meant, or MatchAmbiguous.
    """
    found = await find_nodes(store, graph, text)
    if len(found) > 1:
        refs = [f"{node.label}:{node.key}" for node in found[:_MAX_CANDIDATES]]
        which = ", ".join(f"'{ref}'" for ref in refs)
        raise MatchAmbiguous(f"'{text[:_SHOWN]}' could be {which}. Say which, with its label.", named=text, candidates=refs)
    return found[0]


async def find_nodes(store: GraphStore, graph: str, text: str) -> Sequence[Node]:
    """Find all nodes with exactly this name, or else those whose name differs only in case. Raises NotInGraph."""
    reference = _REF.fullmatch(text)
    label = reference["label"] if reference is not None and cypher.is_name(reference["label"]) else None
    key = reference["key"] if reference is not None and label is not None else text
    exact = (label is not None and await store.nodes(graph, label=label, key=key, limit=1)) or await store.nodes(graph, key=text, limit=6)
    if exact:
        return exact
    known = await store.nodes(graph, limit=MAX_NODES)
    # The grammar drops the article of 'The Beatles'.
    names = {key.casefold(), f"the {key}".casefold()}
    alike = [node for node in known if node.key.casefold() in names and (label is None or node.label.casefold() == label.casefold())]
    if not alike and label is None:
        # 'shelf s2' is the Shelf S2, if it exists.
        first, _, rest = key.casefold().partition(" ")
        alike = [node for node in known if (node.label.casefold(), node.key.casefold()) == (first, rest)]
    if not alike:
        raise NotInGraph(missing(key, label, known))
    return alike


def missing(key: str, label: str | None, known: Sequence[Node]) -> str:
    """Return a message that there is no such node, with the nodes that could be meant."""
    of_label = [node for node in known if label is None or node.label == label]
    elsewhere = [node for node in known if node.key.casefold() == key.casefold()]
    names = closest(key, (node.key for node in of_label)) or [node.key for node in elsewhere[:3]]
    near = [node for node in (elsewhere or of_label) if node.key in names]
    values = [f"{name} of {node.label} {node.key}" for node in known for name, value in node.properties.items() if is_equal(value, key)]
    having = f" '{key[:_SHOWN]}' is the {', the '.join(values[:3])}." if values and not near else ""
    question = did_you_mean([f"{node.label} {node.key}" for node in near[:3]])
    return f"There is no {label or 'node'} '{key[:_SHOWN]}' in the graph.{question}{having}"


def did_you_mean(names: Sequence[str]) -> str:
    """Return the names that could be meant as a question."""
    return f" Did you mean {' or '.join(f'{name!r}' for name in names)}?" if names else ""
