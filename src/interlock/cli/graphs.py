"""interlock graphs."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from interlock.cli.screen import is_terminal, print_error, print_json, print_line, safe
from interlock.cli.target import closing, open_app

__all__ = ["graphs"]

graphs = typer.Typer(help="List and delete property graphs.", rich_markup_mode=None)


@graphs.callback(invoke_without_command=True)
def list_graphs(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print the graphs as one JSON array.")] = False
) -> None:
    """List the property graphs that are kept: the session, the size of its file and when it was changed last."""
    if context.invoked_subcommand is not None:
        return
    app = open_app()
    found = asyncio.run(closing(app, app.property_graphs()))
    if as_json:
        print_json([asdict(one) for one in found], indent=2)
        return
    for one in found:
        print_line(f"{safe(one.name)}\t{one.size:,} bytes\t{one.changed}")
    if not found:
        print_error("There are no graphs.")


@graphs.command(name="delete")
def delete_graph(
    session: Annotated[str, typer.Argument(help="The session whose graph is deleted.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether it shall really be deleted.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was deleted as one JSON object.")] = False,
) -> None:
    """Delete the property graph of a session with all its nodes and edges. That cannot be undone."""
    app = open_app()
    if not yes:
        if not is_terminal():
            raise typer.BadParameter("Deleting a graph cannot be undone: say '--yes'.")
        typer.confirm(f"Delete the graph of session '{safe(session)}' with all its nodes and edges?", abort=True)
    asyncio.run(closing(app, app.delete_property_graph(session)))
    if as_json:
        print_json({"deleted": session})
    else:
        print_line(f"The graph of session '{safe(session)}' is deleted.")
