"""What scenarios can expect in puntini's stores: the property graph of the session."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import JsonValue

from interlock_agents.puntini.graph_store import GraphStore

__all__ = ["STORED"]


async def _graph(find: Callable[[type], Any], session: str) -> dict[str, JsonValue]:
    """Return nodes as `Label key {properties}` and edges as `start -[RELATIONSHIP]-> end`."""
    store: GraphStore = find(GraphStore)
    nodes, edges = await store.nodes(session, limit=1000), await store.edges(session, limit=1000)
    return {
        "nodes": [*sorted(f"{one.label} {one.key}" + (f" {json.dumps(one.properties)}" if one.properties else "") for one in nodes)],
        "edges": [*sorted(f"{one.start.key} -[{one.relationship}]-> {one.end.key}" for one in edges)],
    }


STORED = {"graph": _graph}
