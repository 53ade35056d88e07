"""interlock doctor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from interlock.agent import Agent
from interlock.cli.screen import console, is_terminal, print_json, print_line, safe
from interlock.cli.target import ModelOption, find
from interlock.discovery import AGENTS
from interlock.doctor import Check, examine
from interlock.settings import Settings, read_settings

__all__ = ["doctor"]

COLOURS = {"ok": "green", "off": "yellow", "broken": "bold red"}


def doctor(
    agent: Annotated[
        str | None, typer.Argument(help="An agent of your own that is not installed, as MODULE:NAME, to check as well.")
    ] = None,
    model: ModelOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check the installation and the settings.

    Prints what is configured, what can be reached, what is missing and how to get it. Exits with 1 if something is broken.
    """
    # The agent is loaded before the settings are read, because some of them may be its own.
    own = [] if agent is None or agent in AGENTS else [find(agent)]
    checks = asyncio.run(_examine(read_settings(model=model), [*AGENTS, *own], quiet=as_json))
    ok = all(check.state != "broken" for check in checks)
    if as_json:
        print_json({"ok": ok, "checks": [asdict(check) for check in checks]}, indent=2)
    raise typer.Exit(code=0 if ok else 1)


async def _examine(settings: Settings, agents: Sequence[str | Agent], *, quiet: bool) -> list[Check]:
    checks: list[Check] = []
    async for check in examine(settings, agents):
        checks.append(check)
        if not quiet:
            _show(check)
    return checks


def _show(check: Check) -> None:
    if not is_terminal():
        print_line("\t".join(safe(part) for part in (check.state, check.what, check.found, check.fix) if part))
        return
    line = Table.grid(padding=(0, 2))
    line.add_column(min_width=6)
    line.add_column(min_width=14)
    fix = f"\nfix: {check.fix}" if check.fix else ""
    line.add_row(Text(check.state, COLOURS[check.state]), check.what, Text.assemble(safe(check.found), (safe(fix), "dim")))
    console().print(line)
