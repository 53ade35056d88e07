"""interlock worker: run the turns that are submitted, or that a process left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.screen import print_error, safe
from interlock.cli.target import EngineOption, GrantsOption, ModelOption, closing, find, open_app
from interlock.discovery import AGENTS
from interlock.settings import DispatcherName

__all__ = ["worker"]


def worker(
    agents: Annotated[
        list[str] | None, typer.Argument(help="The agents whose turns to run, by name or as MODULE:NAME; all by default.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="How many turns to run at a time.")] = 4,
    ready_file: Annotated[Path | None, typer.Option(help="A file to create when the worker is ready; it is removed at its end.")] = None,
    dispatcher: Annotated[
        DispatcherName | None, typer.Option(help="Who hands out the turns: 'embedded', the turn store itself, or 'temporal'.")
    ] = None,
    model: ModelOption = None,
    engine: EngineOption = None,
    grants: GrantsOption = None,
) -> None:
    """Run stored turns until it is stopped. On SIGTERM, turns under way are given back to other workers."""
    app = open_app(grants, model=model, engine=engine, dispatcher=dispatcher)
    chosen = [find(name) for name in (agents or AGENTS)]

    def ready() -> None:
        if ready_file is not None:
            ready_file.touch()
        print_error(f"Worker '{app.turns.worker.name}' runs turns of {safe(', '.join(agent.name for agent in chosen))}.")

    try:
        asyncio.run(closing(app, app.work(chosen, concurrency=concurrency, on_ready=ready)))
    except (asyncio.CancelledError, KeyboardInterrupt):
        print_error("The worker has stopped.")
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
