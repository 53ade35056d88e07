"""interlock replay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from interlock.cli.run import show_result
from interlock.cli.screen import console, is_terminal, print_json, print_line, safe
from interlock.cli.target import EngineOption, GrantsOption, ModelOption, closing, open_app, own
from interlock.runtime.recording import Replay
from interlock.runtime.turn import TurnResult

__all__ = ["replay"]


def replay(  # noqa: PLR0917 - the command line's options
    file: Annotated[Path, typer.Argument(help="A file that 'interlock run --record' wrote.")],
    engine: EngineOption = None,
    graph: Annotated[str | None, typer.Option(help="For a record of one of your own: MODULE:NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a turn that stopped half way, and write the rest.")] = False,
    model: ModelOption = None,
    grants: GrantsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Take a recorded turn again without model, clock or ids. Exits with 1 where anything comes out differently."""
    found = None if graph is None else own(graph)  # before the settings are read: some of them may be its own
    app = open_app(grants, engine=engine, model=model)
    if resume:
        result = asyncio.run(closing(app, app.resume(file, graph=found)))
        _show_resumed(result, as_json=as_json)
        raise typer.Exit(code=1 if result.status == "error" else 0)
    replayed = asyncio.run(closing(app, app.replay(file, graph=found)))
    if as_json:
        print_json({"same": not replayed.differences, "differences": replayed.differences, "result": replayed.result.to_json()})
    else:
        _show(replayed)
    raise typer.Exit(code=1 if replayed.differences else 0)


def _show_resumed(result: TurnResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result.to_json())
    else:
        show_result(result)


def _show(replayed: Replay) -> None:
    heading, result = replayed.record.header, replayed.result
    calls = len(replayed.record.entries)
    figures = f"{len(result.path)} step{'s'[: len(result.path) != 1]}, {calls} recorded call{'s'[: calls != 1]}"
    told = f"{heading.agent}, turn {heading.turn}: {figures}, none made again"
    verdict = "different" if replayed.differences else "the same"
    if not is_terminal():
        print_line(f"{verdict}\t{told}")
        for difference in replayed.differences:
            print_line(safe(difference))
        return
    screen = console()
    mark = "[bold red]different[/]" if replayed.differences else "[green]the same[/]"
    screen.print(f"{mark}  [dim]{escape(told)}[/]")
    for difference in replayed.differences:
        where, _, what = difference.partition(": ")
        screen.print(f"  [bold]{escape(where)}[/]  {escape(safe(what))}")
