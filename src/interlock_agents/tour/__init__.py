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
    everything: Annotated[bool, typer.Option("--all", help="Show the steps of every turn, and every guarantee.")] = False,
) -> None:
    """Run example turns of each agent, without a key.

    Checks also what each agent guarantees. Exits with 1 if something is not as expected.
    """
    from interlock_agents.tour.guide import Tour  # noqa: PLC0415 - no other command runs scenarios

    # Everything that the tour stores is deleted at its end.
    with tempfile.TemporaryDirectory(prefix="interlock-tour-") as folder:
        settings = open_app().settings.model_copy(update={"data_dir": Path(folder)})
        code = asyncio.run(Tour(settings, everything=everything).run())
    raise typer.Exit(code=code)
