"""The command line: one file per command."""

from __future__ import annotations

import importlib.metadata
import io
import os
import signal
import sys
from asyncio import CancelledError
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from interlock.cli import agents, chat, doctor, graph, keys, new, replay, run, serve, sessions, show, turns, verify, worker
from interlock.cli.groups import ListingGroup
from interlock.cli.plugins import PluginGroup
from interlock.cli.screen import fail, print_error, print_line
from interlock.errors import InterlockError
from interlock.extras import missing_extra

__all__ = ["app", "main"]


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print_line(f"interlock {importlib.metadata.version('interlock')}")
        raise typer.Exit


app = typer.Typer(
    name="interlock",
    cls=PluginGroup,
    help="Run, inspect and verify LLM agents. Each node declares what it may read, write and call.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def interlock(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """Run, inspect and verify LLM agents. Each node declares what it may read, write and call."""


app.command(name="agents")(agents.agents)
app.command(name="new")(new.new)
app.command(name="show")(show.show)
app.command(name="run", context_settings={"allow_extra_args": True})(run.run)
app.command(name="chat")(chat.chat)
app.command(name="serve")(serve.serve)
app.add_typer(keys.keys, name="keys")
app.command(name="worker")(worker.worker)
app.add_typer(turns.turns, name="turns", cls=ListingGroup)
app.add_typer(sessions.sessions, name="sessions", cls=ListingGroup)
app.command(name="graph")(graph.graph)
app.command(name="replay")(replay.replay)
app.command(name="verify")(verify.verify)
app.command(name="doctor")(doctor.doctor)


def main() -> None:
    """Run a command. Every error is one line with its code, never a traceback."""
    try:
        _prepare_streams()
        app()
    except InterlockError as error:
        fail(error)
        sys.exit(2)
    except ModuleNotFoundError as error:
        fail(missing_extra(error))
        sys.exit(2)
    except CancelledError:
        sys.exit(128 + signal.SIGTERM)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except OSError as error:
        _leave_output(error)


def _prepare_streams() -> None:
    """Make standard output and error accept any text, also if they are closed or their encoding has few characters."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - it stays open until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _leave_output(error: OSError) -> NoReturn:
    """End the process if the output cannot be written: its reader has closed it, or the disk is full."""
    # The interpreter flushes standard output at its end; this keeps it from raising again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        print_error(f"output_failed: The output cannot be written: {error.strerror}.")
    sys.exit(1)
