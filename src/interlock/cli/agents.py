"""interlock agents."""

from __future__ import annotations

from rich.table import Table

from interlock.cli.screen import console, is_terminal, print_line
from interlock.cli.target import find_all

__all__ = ["agents"]


def agents() -> None:
    """List the agents, one line each."""
    found = find_all(None)
    if not is_terminal():
        for agent in found:
            print_line(f"{agent.name}\t{agent.summary}")
        return
    table = Table.grid(padding=(0, 3))
    for agent in found:
        nodes = sum(len(graph.nodes) for graph in agent.graphs)
        table.add_row(f"[bold]{agent.name}[/]", agent.summary, f"[dim]{nodes} nodes[/]")
    console().print(table)
