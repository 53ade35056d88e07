"""interlock tour."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.target import open_app

__all__ = ["tour"]


def tour(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Show every turn as it goes, and every guarantee.")] = False,
) -> None:
    """Run telling turns on each agent, without a key, and check what it guarantees."""
    from interlock.cli.guide import Tour  # noqa: PLC0415 - no other command plays scenes

    with tempfile.TemporaryDirectory(prefix="interlock-tour-") as folder:  # a visitor leaves nothing behind
        settings = open_app().settings.model_copy(update={"data_dir": Path(folder)})
        code = asyncio.run(Tour(settings, everything=everything).guide())
    raise typer.Exit(code=code)
