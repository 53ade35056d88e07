"""interlock agents."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from interlock.cli.screen import console, is_terminal, print_json, print_line, safe
from interlock.discovery import AGENTS, load_agent
from interlock.errors import InterlockError
from interlock.installed import how_to_install

__all__ = ["agents"]


def agents(as_json: Annotated[bool, typer.Option("--json", help="Print the agents as one JSON array.")] = False) -> None:
    """List the agents, installed or not."""
    if as_json:
        found = [(name, *_description(name)) for name in AGENTS]
        print_json([{"name": name, "summary": summary, "state": Text.from_markup(nodes).plain} for name, summary, nodes in found], indent=2)
        return
    table = Table.grid(padding=(0, 3))
    for name in AGENTS:
        summary, nodes = _description(name)
        if is_terminal():
            table.add_row(f"[bold]{escape(name)}[/]", escape(summary), f"[dim]{nodes}[/]")
        else:
            print_line(f"{safe(name)}\t{summary}")
    if is_terminal():
        console().print(table)


def _description(name: str) -> tuple[str, str]:
    """Return the summary of an agent and its number of nodes. An agent that cannot be loaded is listed with the reason."""
    install = how_to_install(name)
    if install is not None:
        return f"not installed: {install}", "[yellow]missing[/]"
    try:
        agent = load_agent(name)
    except InterlockError as error:
        return safe(error.message), "[red]broken[/]"
    return safe(agent.summary), f"{sum(len(graph.nodes) for graph in agent.graphs)} nodes"
