"""The command line: one file per verb."""

from __future__ import annotations

import io
import os
import signal
import sys
from asyncio import CancelledError
from pathlib import Path
from typing import NoReturn

import typer

from interlock.cli import agents, chat, doctor, graph, graphs, new, replay, run, show, tour, verify
from interlock.cli.screen import fail, print_error
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
app.command(name="new")(new.new)
app.command(name="show")(show.show)
app.command(name="run")(run.run)
app.command(name="chat")(chat.chat)
app.command(name="graph")(graph.graph)
app.add_typer(graphs.graphs, name="graphs")
app.command(name="replay")(replay.replay)
app.command(name="verify")(verify.verify)
app.command(name="tour")(tour.tour)
app.command(name="doctor")(doctor.doctor)


def main() -> None:
    """Run a command; every error is one typed line, never a traceback."""
    _prepare_streams()
    try:
        app()
    except InterlockError as error:
        fail(error)
        sys.exit(2)
    except CancelledError:
        sys.exit(128 + signal.SIGTERM)
    except OSError as error:
        _leave_output(error)


def _prepare_streams() -> None:
    """Make standard output and error take any text, also where they are closed or know few characters."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - it stays open to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _leave_output(error: OSError) -> NoReturn:
    """End where the output cannot be written: its reader has gone, or the disk is full."""
    # Let the interpreter's last flush go nowhere instead of raising again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        print_error(f"output_failed: The output cannot be written: {error.strerror}.")
    sys.exit(1)
