"""Have a graph open in another process: `store_rival.py FOLDER GRAPH`, until the input ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from interlock_agents.puntini.graph_store import AddNode, Node
from interlock_agents.puntini.graphs.ladybug import open_ladybug


async def main(folder: str, graph: str) -> None:
    graphs = open_ladybug(Path(folder), timeout_s=5, max_rows=100, max_bytes=100_000)
    await graphs.apply(graph, (AddNode(node=Node(label="Task", key="theirs")),))
    sys.stdout.write("open\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await graphs.aclose()


asyncio.run(main(*sys.argv[1:]))
