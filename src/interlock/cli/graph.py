"""interlock graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from interlock.cli.screen import print_error, print_line
from interlock.cli.target import AgentArgument, find
from interlock.contract.render import mermaid
from interlock.errors import StoreUnavailable

__all__ = ["graph"]


def graph(
    agent: AgentArgument,
    form: Annotated[Literal["mermaid", "svg"], typer.Option("--format", help="Mermaid text, or an SVG picture.")] = "mermaid",
    output: Annotated[Path | None, typer.Option(help="A file to write to, instead of standard output.")] = None,
) -> None:
    """Draw the graphs of an agent."""
    found = find(agent)
    if form == "svg":
        from interlock.drawing import draw  # noqa: PLC0415 - an extra

        drawn = draw(found.graphs, behind=found.subgraphs)
    else:
        drawn = "\n".join(mermaid(one) for one in found.graphs)
    if output is None:
        print_line(drawn.rstrip())
        return
    try:
        output.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(f"'{output}' cannot be written: {error.strerror}.") from error
    print_error(f"Written to {output}.")
