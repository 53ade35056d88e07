"""interlock graph."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from interlock.adapters.graphs.picture import as_mermaid, as_svg
from interlock.app import MAX_EDGES
from interlock.capabilities.registry import ToolRegistry
from interlock.cli.screen import print_error, print_json, print_line, safe
from interlock.cli.target import closing, open_app
from interlock.discovery import load_agent
from interlock.errors import InputSchema, StoreUnavailable

__all__ = ["graph"]

_READABLE = 100


def graph(
    agent: Annotated[str, typer.Argument(help="The agent whose property graph it is: puntini.")],
    session: Annotated[str, typer.Option(help="The session whose graph is drawn.")],
    form: Annotated[Literal["mermaid", "svg", "json"], typer.Option("--format", help="Mermaid text, an SVG picture, or JSON.")] = "mermaid",
    output: Annotated[Path | None, typer.Option(help="A file to write to, instead of standard output.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many nodes are drawn at most.")] = _READABLE,
) -> None:
    """Draw the property graph of a session."""
    app = open_app()
    if not any(ToolRegistry in graph.capabilities for graph in load_agent(agent).graphs):
        raise InputSchema(f"Agent '{agent}' has no property graph. 'puntini' has.")
    found, all_edges = asyncio.run(closing(app, app.property_graph(session, limit=limit + 1)))
    nodes, shown = found[:limit], {(node.label, node.key) for node in found[:limit]}
    edges = [edge for edge in all_edges if {(edge.start.label, edge.start.key), (edge.end.label, edge.end.key)} <= shown]
    if len(found) > limit:
        print_error(f"There are more nodes: only the first {limit} are drawn. Fix: '--limit'.")
    if len(all_edges) >= MAX_EDGES:
        print_error(f"There are more edges: only the first {MAX_EDGES:,} are looked at.")
    data = {"nodes": [asdict(node) for node in nodes], "edges": [asdict(edge) for edge in edges]}
    if output is None and form == "json":
        print_json(data, indent=2)
        return
    drawn = json.dumps(data, indent=2) + "\n" if form == "json" else as_svg(nodes, edges) if form == "svg" else as_mermaid(nodes, edges)
    if output is None:
        print_line(safe(drawn.rstrip()) if form == "mermaid" else drawn.rstrip())
        return
    try:
        output.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(f"'{output}' cannot be written: {error.strerror}.") from error
    print_error(f"{len(nodes)} nodes and {len(edges)} edges in {output}")
