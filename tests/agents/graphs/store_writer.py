"""Add nodes to a graph until somebody kills the process: `store_writer.py FOLDER GRAPH FIRST`. Tells each number that was acknowledged."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from interlock_agents.puntini.graph_store import AddNode, Node
from interlock_agents.puntini.graphs import process
from interlock_agents.puntini.graphs.ladybug import open_ladybug


async def main(folder: str, graph: str, first: str) -> None:
    process.__dict__["_LOG_BYTES"] = 4000  # so that logs are merged all the time
    graphs = open_ladybug(Path(folder), timeout_s=30, max_rows=100_000, max_bytes=10_000_000)
    await graphs.nodes(graph)
    tell(f"open {graphs._open[graph].file.pid}")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    for number in itertools.count(int(first)):
        await graphs.apply(graph, (AddNode(node=Node(label=f"Label{number % 7}", key=str(number), properties={"text": "x" * 50})),))
        tell(str(number))
        if number % 50 == 49:  # a file that is closed is merged too
            await graphs.aclose()
            await graphs.nodes(graph)
            tell(f"open {graphs._open[graph].file.pid}")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


asyncio.run(main(*sys.argv[1:]))
