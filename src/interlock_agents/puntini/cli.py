"""interlock graphs: the property graphs that puntini has stored."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from interlock.app import Interlock
from interlock.cli.groups import ListingGroup
from interlock.cli.screen import is_terminal, print_error, print_json, print_line, safe
from interlock.cli.target import closing, open_app
from interlock.errors import StoreUnavailable
from interlock.input import check_session
from interlock_agents.puntini import agent
from interlock_agents.puntini.graph_store import GraphStore

__all__ = ["graphs"]

_READABLE = 100
_MAX_EDGES = 100_000

graphs = typer.Typer(
    cls=ListingGroup, help="List, draw and delete the property graphs of puntini.", rich_markup_mode=None, add_completion=False
)


def _store(app: Interlock) -> Any:
    """Return the store of property graphs. Only some stores can list and delete their graphs."""
    store = app.adapter(agent, GraphStore)
    if not hasattr(store, "graphs") or not hasattr(store, "delete"):
        raise StoreUnavailable(f"'{type(store).__name__}' cannot list or delete its graphs.")
    return store


@graphs.callback(invoke_without_command=True)
def list_graphs(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print the graphs as one JSON array.")] = False
) -> None:
    """List the property graphs that are stored: the session, the size of its file and when it was last changed."""
    if context.invoked_subcommand is not None:
        return
    app = open_app()
    found = asyncio.run(closing(app, _store(app).graphs()))
    if as_json:
        print_json([asdict(one) for one in found], indent=2)
        return
    for one in found:
        print_line(f"{safe(one.name)}\t{one.size:,} bytes\t{one.changed}")
    if not found:
        print_error("There are no graphs.")


@graphs.command(name="draw")
def draw_graph(
    session: Annotated[str, typer.Argument(help="The session whose graph is drawn.")],
    form: Annotated[Literal["mermaid", "svg", "json"], typer.Option("--format", help="Mermaid text, an SVG picture, or JSON.")] = "mermaid",
    output: Annotated[Path | None, typer.Option(help="A file to write to, instead of standard output.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many nodes are drawn at most.")] = _READABLE,
) -> None:
    """Draw the property graph of a session."""
    app = open_app()
    found, all_edges = asyncio.run(closing(app, _read(app, check_session(session), limit + 1)))
    nodes, shown = found[:limit], {(node.label, node.key) for node in found[:limit]}
    edges = [edge for edge in all_edges if {(edge.start.label, edge.start.key), (edge.end.label, edge.end.key)} <= shown]
    if len(found) > limit:
        print_error(f"There are more nodes: only the first {limit} are drawn. Fix: '--limit'.")
    if len(all_edges) >= _MAX_EDGES:
        print_error(f"There are more edges: only the first {_MAX_EDGES:,} are looked at.")
    data = {"nodes": [asdict(node) for node in nodes], "edges": [asdict(edge) for edge in edges]}
    if output is None and form == "json":
        print_json(data, indent=2)
        return
    from interlock_agents.puntini.graphs.picture import as_mermaid, as_svg  # noqa: PLC0415 - no other command draws

    drawn = json.dumps(data, indent=2) + "\n" if form == "json" else as_svg(nodes, edges) if form == "svg" else as_mermaid(nodes, edges)
    if output is None:
        print_line(safe(drawn.rstrip()) if form == "mermaid" else drawn.rstrip())
        return
    try:
        output.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(f"'{output}' cannot be written: {error.strerror}.") from error
    print_error(f"{len(nodes)} nodes and {len(edges)} edges in {output}")


async def _read(app: Interlock, session: str, limit: int) -> tuple[Any, Any]:
    store = app.adapter(agent, GraphStore)
    return await store.nodes(session, limit=limit), await store.edges(session, limit=_MAX_EDGES)


@graphs.command(name="delete")
def delete_graph(
    session: Annotated[str, typer.Argument(help="The session whose graph is deleted.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was deleted as one JSON object.")] = False,
) -> None:
    """Delete the property graph of a session with all its nodes and edges. This cannot be undone."""
    app = open_app()
    if not yes:
        if not is_terminal():
            raise typer.BadParameter("Deleting a graph cannot be undone: say '--yes'.")
        typer.confirm(f"Delete the graph of session '{safe(session)}' with all its nodes and edges?", abort=True)
    asyncio.run(closing(app, _store(app).delete(session)))
    if as_json:
        print_json({"deleted": session})
    else:
        print_line(f"The graph of session '{safe(session)}' is deleted.")
