"""interlock replay."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from interlock.cli.run import show_result
from interlock.cli.screen import console, is_terminal, print_json, print_line, safe
from interlock.cli.target import EngineOption, GrantsOption, ModelOption, closing, given_options, open_app, own
from interlock.replay import Replay
from interlock.runtime.turn import TurnResult

__all__ = ["replay"]


def replay(
    file: Annotated[Path, typer.Argument(help="A file that 'interlock run --record' wrote.")],
    engine: EngineOption = None,
    graph: Annotated[str | None, typer.Option(help="For the record of an agent of your own: MODULE:NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a turn that was interrupted, and complete its record.")] = False,
    model: ModelOption = None,
    grants: GrantsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Replay a recorded turn.

    Neither the model nor any other adapter is called. Exits with 1 if the result differs.
    """
    # The agent is loaded before the settings are read, because some of them may be its own.
    found = None if graph is None else own(graph)
    app = open_app(grants, engine=engine, model=model)
    if resume:
        result = asyncio.run(closing(app, app.resume(file, graph=found)))
        _show_resumed(
            result, as_json=as_json, agent=graph or result.agent, options=given_options(grants=grants, model=model, engine=engine)
        )
        raise typer.Exit(code=1 if result.status == "error" else 0)
    replayed = asyncio.run(closing(app, app.replay(file, graph=found)))
    if as_json:
        print_json({"same": not replayed.differences, "differences": replayed.differences, "result": replayed.result.to_json()})
    else:
        _show(replayed)
    raise typer.Exit(code=1 if replayed.differences else 0)


def _show_resumed(result: TurnResult, *, as_json: bool, agent: str, options: Sequence[str]) -> None:
    if as_json:
        print_json(result.to_json())
    else:
        show_result(result, agent=agent, options=options)


def _show(replayed: Replay) -> None:
    header, result = replayed.record.header, replayed.result
    calls = len(replayed.record.entries)
    figures = f"{len(result.path)} step{'s'[: len(result.path) != 1]}, {calls} recorded call{'s'[: calls != 1]}"
    summary = f"{header.agent}, turn {header.turn}: {figures}, no call made"
    verdict = "different" if replayed.differences else "the same"
    if not is_terminal():
        print_line(f"{verdict}\t{summary}")
        for difference in replayed.differences:
            print_line(safe(difference))
        return
    screen = console()
    mark = "[bold red]different[/]" if replayed.differences else "[green]the same[/]"
    screen.print(f"{mark}  [dim]{escape(summary)}[/]")
    for difference in replayed.differences:
        where, _, what = difference.partition(": ")
        screen.print(f"  [bold]{escape(where)}[/]  {escape(safe(what))}")
