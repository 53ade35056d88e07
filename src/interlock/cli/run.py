"""interlock run."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.markup import escape
from rich.text import Text

from interlock.cli.screen import console, is_terminal, print_error, print_json, print_line, safe
from interlock.cli.target import find, load
from interlock.contract import Graph
from interlock.errors import InputEmpty, InputEncoding, InputSchema, InputTooLarge, InterlockError
from interlock.runtime.events import Event, plain
from interlock.runtime.media import sniff
from interlock.runtime.turn import TurnResult
from interlock.settings import read_settings
from interlock.wiring import Interlock

__all__ = ["run"]


def run(  # noqa: PLR0917 - the command line's options
    agent: Annotated[str, typer.Argument(help="An agent, or MODULE:GRAPH.")],
    text: Annotated[str | None, typer.Argument(help="What to say; standard input where it is left out.")] = None,
    session: Annotated[str | None, typer.Option(help="The session this turn belongs to.")] = None,
    model: Annotated[str | None, typer.Option(help="Who answers: offline or stub.")] = None,
    engine: Annotated[str | None, typer.Option(help="Who walks the rows: langgraph or direct.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print every event as a line of JSON; the last one has the result.")] = False,
    role: Annotated[str | None, typer.Option("--as", help="The role to enter as, where an agent has several.")] = None,
    grants: Annotated[str | None, typer.Option(help="For MODULE:GRAPH: a mapping of capabilities to adapters, as MODULE:NAME.")] = None,
    file: Annotated[Path | None, typer.Option(help="An audio or image file to send instead of text.")] = None,
) -> None:
    """Take one turn. Exits with 0 after success, 1 after a typed error, 2 where the input was refused."""
    if text is not None and file is not None:
        raise typer.BadParameter("Pass TEXT or '--file', not both.")
    if as_json and events:
        raise typer.BadParameter("'--json' and '--events' exclude each other: the last event has the result.")
    try:
        settings = read_settings(model=model, engine=engine)
        found = find(agent)
        given = _read_file(file, settings.max_input_bytes) if file is not None else _read_text(text, settings.max_input_bytes)
        target: str | Graph = agent if ":" not in agent else found.graphs[0]
        granted = cast("Mapping[type, object]", load(grants, dict)) if grants is not None else None
        take = Interlock(settings, grants=granted).run(target, given, session=session, role=role, on_event=_print_event if events else None)
        result = asyncio.run(take)
    except InterlockError as error:
        if as_json:
            print_json(_refused(agent, session, error))
            raise typer.Exit(code=2) from error
        raise
    if as_json:
        print_json(result.to_json())
    elif not events:
        show_result(result)
    raise typer.Exit(code=1 if result.status == "error" else 0)


def _print_event(event: Event) -> None:
    print_json(event)


def _refused(agent: str, session: str | None, error: InterlockError) -> dict[str, Any]:
    """Describe a turn that was not taken, in the shape of one that was."""
    fault = {"code": error.code, "message": error.message, "node": None}
    nothing: dict[str, Any] = {"turn": None, "output": None, "path": [], "state": {}, "metadata": {}}
    return {"agent": agent, "session": session, "status": "error", "error": fault, **nothing}


def show_result(result: TurnResult) -> None:
    """Show a result to a person, or only its output to a pipe."""
    output = _as_text(result.output)
    if not is_terminal():
        if result.error is not None:
            print_error(f"{result.error.code}: {safe(result.error.message)}")
        print_line(safe(output))
        return
    screen = console()
    screen.print(Text(" > ".join(result.path), style="dim"))
    if result.error is None:
        screen.print(Text(safe(output)))
    else:
        where = f" [dim]({result.error.node})[/]" if result.error.node else ""
        screen.print(f"[bold red]{result.error.code}[/]{where} {escape(safe(result.error.message))}")


def _as_text(output: Any) -> str:
    if output is None:
        return ""
    return output if isinstance(output, str) else str(plain(output))


def _read_text(text: str | None, limit: int) -> str:
    """Take the text from the command line, or from standard input, never more of it than may come in."""
    if text is not None:
        return text
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        raise InputEmpty("Say something: pass TEXT, or send it to standard input.")
    try:
        raw = sys.stdin.buffer.read(limit + 1)
    except OSError as error:
        raise InputEmpty(f"Standard input cannot be read: {error}.") from error
    if len(raw) > limit:
        raise InputTooLarge(f"The input is over {limit:,} bytes.")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputEncoding(f"The input is not valid UTF-8 at byte {error.start}.") from error


def _read_file(file: Path, limit: int) -> str:
    """Make a data URI of a file."""
    try:
        with file.open("rb") as opened:
            content = opened.read(limit * 3 // 4 + 1)
    except OSError as error:
        raise InputSchema(f"File '{file}' cannot be read: {error.strerror}.") from error
    if not content:
        raise InputEmpty(f"File '{file}' is empty.")
    media_type = mimetypes.guess_type(file.name)[0] or sniff(content) or "application/octet-stream"
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
