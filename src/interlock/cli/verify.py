"""interlock verify."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from interlock.agent import Agent
from interlock.cli.screen import console, is_terminal, print_json, print_line
from interlock.cli.target import find_all, starting_with
from interlock.contract import Graph
from interlock.contract.document import read_document
from interlock.discovery import AGENTS
from interlock.errors import DocumentInvalid
from interlock.verification.invariants import How
from interlock.verification.verdicts import Verdict, verify_agent, verify_graph

__all__ = ["COLOURS", "verify"]

COLOURS: Mapping[How, str] = {"agrees": "green", "decided": "green", "seen": "yellow"}


def verify(
    agent: Annotated[
        str | None,
        typer.Argument(help="An agent, or MODULE:NAME; all installed agents by default.", autocompletion=starting_with(*AGENTS)),
    ] = None,
    document: Annotated[Path | None, typer.Option(help="The architecture document to compare the graph with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check an agent against its contracts and document.

    Prints each guarantee with how it is known.

    'agrees': two descriptions were compared. 'decided': every case was checked. 'seen': some turns were run, which is no proof.
    """
    found = asyncio.run(_verify(find_all(agent), document, quiet=as_json))
    ok = all(verdict.holds for verdicts in found.values() for verdict in verdicts)
    if as_json:
        agents = {name: [asdict(verdict) for verdict in verdicts] for name, verdicts in found.items()}
        print_json({"ok": ok, "agents": agents}, indent=2)
    raise typer.Exit(code=0 if ok else 1)


async def _verify(agents: list[Agent], document: Path | None, *, quiet: bool) -> dict[str, list[Verdict]]:
    found: dict[str, list[Verdict]] = {}
    for agent in agents:
        verdicts = found.setdefault(agent.name, [])
        if not quiet:
            show_heading(agent.name)
        checks = verify_agent(agent) if document is None else _verify_document(agent.graphs[0], document)
        async for verdict in checks:
            verdicts.append(verdict)
            if not quiet:
                show_verdict(verdict)
    return found


async def _verify_document(graph: Graph, path: Path) -> AsyncGenerator[Verdict, None]:
    """Verify a graph with a document. For a document of other graphs, one sentence replaces the differences."""
    reason = other_graph(path, graph)
    async for verdict in verify_graph(graph, path if reason is None else None):
        yield verdict
    if reason is not None:
        yield Verdict(f"{graph.name}: the rows are the document's", False, "agrees", reason)


def other_graph(path: Path, graph: Graph) -> str | None:
    """Return in a sentence that a document describes other graphs than this one, or None. One that cannot be read has no answer."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    try:
        document = read_document(text, graph=graph.name)
    except DocumentInvalid:
        named = dict.fromkeys(re.findall(r"^#+ .*`([^`\n]+)`", text, re.MULTILINE))
        if not named or graph.name in named:
            return None
        parts = ", ".join(f"'{name}'" for name in named)
        return f"'{path.name}' has no part for graph '{graph.name}'; it has parts for {parts}"
    if document.nodes and document.nodes.isdisjoint(graph.nodes):
        return f"'{path.name}' describes another graph: none of its {len(document.nodes)} nodes is a node of '{graph.name}'"
    return None


def show_heading(name: str) -> None:
    """Print the name of an agent."""
    if is_terminal():
        console().print(f"[bold]{name}[/]")
    else:
        print_line(name)


def show_verdict(verdict: Verdict) -> None:
    """Print a guarantee with how it is known."""
    if is_terminal():
        mark = f"[{COLOURS[verdict.how]}]{verdict.how:7}[/]" if verdict.holds else "[bold red]BROKEN [/]"
        line = Table.grid(padding=(0, 2))
        line.add_row(f"  {mark}", f"{escape(verdict.invariant)}\n[dim]{escape(verdict.proof)}[/]")
        console().print(line)
    else:
        print_line(f"{verdict.how if verdict.holds else 'BROKEN'}\t{verdict.invariant}\t{verdict.proof}")
