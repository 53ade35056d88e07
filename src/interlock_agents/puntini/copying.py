"""Continues a session under another name: its property graph as it is now."""

from __future__ import annotations

from interlock.agent import SessionCopy
from interlock.errors import InputTooLarge
from interlock_agents.puntini.graph_store import AddEdge, AddNode, GraphStore

__all__ = ["copy_session"]

_MOST = 1000


async def copy_session(copy: SessionCopy) -> None:
    """Copy the nodes and edges to the graph of the other session, in one transaction."""
    store: GraphStore = copy.find(GraphStore)
    nodes, edges = await store.nodes(copy.session, limit=_MOST), await store.edges(copy.session, limit=_MOST)
    if max(len(nodes), len(edges)) >= _MOST:
        raise InputTooLarge(f"The graph has {_MOST:,} nodes or edges or more, and is not copied to another session.")
    if nodes:
        await store.apply(copy.to, (*(AddNode(node=node) for node in nodes), *(AddEdge(edge=edge) for edge in edges)))
