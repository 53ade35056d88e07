"""interlock show."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.table import Table

from interlock.cli.screen import console, is_terminal, print_json, print_line
from interlock.cli.target import find
from interlock.contract import Graph
from interlock.contract.draw import as_data, cells, markdown, mermaid
from interlock.contract.shapes import render

__all__ = ["show"]


def show(
    agent: Annotated[str, typer.Argument(help="An agent, or MODULE:GRAPH.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    as_mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid flowchart.")] = False,
) -> None:
    """Show an agent's contracts: what each node reads, uses, writes, where it leads, and what it may not do."""
    found = find(agent)
    if as_json:
        print_json({"agent": found.name, "graphs": [as_data(graph) for graph in found.graphs]}, indent=2)
        return
    for graph in found.graphs:
        if as_mermaid:
            print_line(mermaid(graph).rstrip())
        elif is_terminal():
            _draw(graph)
        else:
            print_line(f"# {graph.name}\n\n{markdown(graph).rstrip()}")


def _draw(graph: Graph) -> None:
    screen = console()
    takes, gives = ", ".join(graph.state.takes), graph.gives or "the whole state"
    screen.print(f"[bold]{graph.name}[/]  takes {takes}; gives {gives}; at most {graph.steps} steps\n")
    contracts = Table(box=box.SIMPLE_HEAD, show_lines=True, pad_edge=False)
    for column in ("node", "reads", "uses", "writes", "goes"):
        contracts.add_column(column, overflow="fold", style="bold" if column == "node" else "")
    for node in graph.nodes.values():
        contracts.add_row(*("\n".join(cell) or "[dim]-[/]" for cell in cells(graph, node)[:-1]))
    screen.print(contracts)
    screen.print("[bold]may not[/]  (`branch`: it has one way on, whatever it finds)")
    limits = Table.grid(padding=(0, 2))
    for node in graph.nodes.values():
        limits.add_row(f"  {node.name}", f"[dim]{', '.join(graph.may_not(node.name)) or '-'}[/]")
    screen.print(limits)
    screen.print("\n[bold]state[/]")
    fields = Table.grid(padding=(0, 2))
    for name, field in graph.state.fields.items():
        labels = ", ".join(label.name for label in field.labels)
        fields.add_row(f"  {name}", render(field.hint).replace("[", "\\["), f"[dim]{labels}[/]")
    screen.print(fields)
