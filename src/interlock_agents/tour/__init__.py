"""interlock tour."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import typer

from interlock.cli.target import open_app

__all__ = ["tour"]


def tour() -> None:
    """Run example turns of each agent, without a key.

    Checks also what each agent guarantees. Exits with 1 if something is not as expected.
    """
    from interlock_agents.tour.guide import Tour  # noqa: PLC0415 - no other command runs scenarios

    # Everything that the tour stores is deleted at its end.
    with tempfile.TemporaryDirectory(prefix="interlock-tour-") as folder:
        settings = open_app().settings.model_copy(update={"data_dir": Path(folder)})
        code = asyncio.run(Tour(settings).run())
    raise typer.Exit(code=code)
