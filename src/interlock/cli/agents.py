"""interlock agents."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from interlock.cli.screen import console, is_terminal, print_line, safe
from interlock.cli.target import agent_names
from interlock.discovery import load_agent
from interlock.errors import InterlockError

__all__ = ["agents"]


def agents() -> None:
    """List the agents, one line each."""
    table = Table.grid(padding=(0, 3))
    for name in agent_names():
        summary, nodes = _described(name)
        if is_terminal():
            table.add_row(f"[bold]{escape(name)}[/]", escape(summary), f"[dim]{nodes}[/]")
        else:
            print_line(f"{safe(name)}\t{summary}")
    if is_terminal():
        console().print(table)


def _described(name: str) -> tuple[str, str]:
    """Return what an agent does and how large it is. One that cannot be loaded does not keep the others from being listed."""
    try:
        agent = load_agent(name)
    except InterlockError as error:
        return safe(error.message), "[red]broken[/]"
    return safe(agent.summary), f"{sum(len(graph.nodes) for graph in agent.graphs)} nodes"
