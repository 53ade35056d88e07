"""interlock verify."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from interlock.agent import Agent
from interlock.cli.screen import console, is_terminal, print_json, print_line
from interlock.cli.target import find_all, starting_with
from interlock.discovery import AGENTS
from interlock.verification.invariants import How
from interlock.verification.verdicts import Verdict, verify_agent, verify_graph

__all__ = ["COLOURS", "verify"]

COLOURS: Mapping[How, str] = {"agrees": "green", "decided": "green", "seen": "yellow"}


def verify(
    agent: Annotated[
        str | None,
        typer.Argument(help="An agent, or MODULE:NAME; all agents where it is left out.", autocompletion=starting_with(*AGENTS)),
    ] = None,
    document: Annotated[Path | None, typer.Option(help="The architecture document to hold MODULE:NAME to.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Build everything, check it against its contracts and its document, and print each guarantee with how it is known.

    'agrees': two descriptions were compared. 'decided': every case was looked at. 'seen': some turns were run; no proof.
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
        checks = verify_agent(agent) if document is None else verify_graph(agent.graphs[0], document)
        async for verdict in checks:
            verdicts.append(verdict)
            if not quiet:
                show_verdict(verdict)
    return found


def show_heading(name: str) -> None:
    """Print the name of what is verified."""
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
