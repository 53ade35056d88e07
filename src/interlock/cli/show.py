"""interlock show."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from interlock.agent import Agent
from interlock.cli.screen import console, is_terminal, print_json, print_line
from interlock.cli.target import AgentArgument, find
from interlock.contract import Graph
from interlock.contract.render import COLUMNS, as_data, cells, markdown
from interlock.contract.type_hints import format_type

__all__ = ["show"]


def show(
    agent: AgentArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    flow: Annotated[
        bool,
        typer.Option("--flow", help="Print a Mermaid flowchart: nodes that decide are thick, dotted arrows come from what steers them."),
    ] = False,
    decisions: Annotated[bool, typer.Option("--decisions", help="Print what the document lists: decisions, guards and effects.")] = False,
) -> None:
    """Show the contracts of an agent.

    For each node: what it reads, uses and writes, which node follows on which outcome, and what it must not do. `interlock graph` draws it.
    """
    found = find(agent)
    if decisions:
        _show_decisions(found)
        return
    if flow:
        _show_flow(found)
        return
    if as_json:
        print_json({"agent": found.name, "speaks": list(found.speakers), "graphs": [as_data(graph) for graph in found.graphs]}, indent=2)
        return
    for number, graph in enumerate(found.graphs):
        if number:
            print_line("")
        if is_terminal():
            _draw(graph)
        else:
            print_line(f"# {graph.name}\n\n{markdown(graph).rstrip()}")
    if found.subgraphs:
        _show_subgraphs(found)
    if found.speakers:
        print_line(f"\n{'' if is_terminal() else '# '}speaks to the user: {', '.join(found.speakers)}")


def _show_decisions(agent: Agent) -> None:
    """Print the parts of a document that follow from the bodies of the nodes, as Markdown."""
    from interlock.verification.proofs import prove_agent  # noqa: PLC0415 - reads every body

    for number, (name, proof) in enumerate(prove_agent(agent).items()):
        print_line(f"{chr(10) if number else ''}# {name}\n\n| node | decides on |\n|---|---|")
        for node, flow in proof.flow.nodes.items():
            print_line(f"| `{node}` | {', '.join(f'`{source}`' for source in flow.decisions) or 'nothing'} |")
        if proof.flow.guards:
            print_line("\n| guard | says |\n|---|---|")
            for guard, function in proof.flow.guards.items():
                print_line(f"| `{guard}` | {(function.__doc__ or '').strip().partition(chr(10))[0]} |")
        if proof.flow.effects:
            print_line("\n| effect | node | argument | comes from |\n|---|---|---|---|")
            for row in proof.flow.effects:
                sources = ", ".join(f"`{one}`" for one in row.sources) or "the code alone"
                print_line(f"| `{row.effect}` | `{row.node}` | `{row.argument}` | {sources} |")


def _show_flow(agent: Agent) -> None:
    """Print each graph with what can steer it."""
    from interlock.verification.overview import flowchart  # noqa: PLC0415 - reads every body
    from interlock.verification.proofs import prove_agent  # noqa: PLC0415 - reads every body

    for number, (name, proof) in enumerate(prove_agent(agent).items()):
        print_line(f"{chr(10) if number else ''}# {name}\n\n```mermaid\n{flowchart(proof.flow)}\n```")


def _show_subgraphs(agent: Agent) -> None:
    """List the capabilities that are provided by graphs."""
    lines = [(capability.__name__, repr(subgraph)) for capability, subgraph in agent.subgraphs.items()]
    if not is_terminal():
        print_line("\n# capabilities provided by graphs\n")
        print_line("\n".join(f"- `{capability}`: {behind}" for capability, behind in lines))
        return
    console().print("\n[bold]capabilities provided by graphs[/]")
    behind = _grid()
    for line in lines:
        behind.add_row(f"  {line[0]}", escape(line[1]))
    console().print(behind)


def _draw(graph: Graph) -> None:
    screen = console()
    takes, gives = ", ".join(graph.state.takes) or "nothing", graph.gives or "the whole state"
    screen.print(f"[bold]{graph.name}[/]  takes {takes}; gives {gives}; at most {graph.max_steps} steps")
    for node in graph.nodes.values():
        screen.print(f"\n[bold cyan]{node.name}[/]  [dim]{escape(node.summary)}[/]")
        contract = _grid()
        for column, cell in list(zip(COLUMNS, cells(graph, node), strict=True))[1:]:
            shown = ("\n" if column == "goes" else ", ").join(cell)
            contract.add_row(f"  {column}", escape(shown) or "[dim]-[/]", style="dim" if column == "may not" else "")
        screen.print(contract)
    screen.print("\n[bold]state[/]")
    fields = _grid()
    for name, field in graph.state.fields.items():
        fields.add_row(f"  {name}", escape(format_type(field.hint)), f"[dim]{', '.join(label.name for label in field.labels)}[/]")
    screen.print(fields)
    screen.print("\n[dim]field?: the node reads only whether the field has a value. branch: all outcomes lead to the same node.[/]")


def _grid() -> Table:
    return Table.grid(padding=(0, 2))
