"""The command line: one file per verb."""

from __future__ import annotations

import os
import sys

import typer

from interlock.cli import agents, run, show, tour, verify
from interlock.cli.screen import fail
from interlock.errors import InterlockError

__all__ = ["app", "main"]

app = typer.Typer(
    name="interlock",
    help="Agents whose graphs keep their contracts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(name="agents")(agents.agents)
app.command(name="show")(show.show)
app.command(name="run")(run.run)
app.command(name="verify")(verify.verify)
app.command(name="tour")(tour.tour)

INTERRUPTED = 130


def main() -> None:
    """Run a command; every error is one typed line, never a traceback."""
    try:
        app()
    except InterlockError as error:
        fail(error)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone; let the interpreter's last flush go nowhere instead of raising again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
