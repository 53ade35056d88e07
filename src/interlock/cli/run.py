"""interlock run."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import mimetypes
import os
import stat
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.cli.live import Live, output_of
from interlock.cli.people import GIVEN_UP, Waiting, is_answer, options_of
from interlock.cli.saving import save_result
from interlock.cli.screen import as_path, console, is_terminal, print_error, print_json, print_line, safe
from interlock.cli.target import AgentArgument, EngineOption, GrantsOption, ModelOption, closing, open_app, target
from interlock.contract import Graph
from interlock.errors import InputEmpty, InputEncoding, InputSchema, InputTooLarge, InterlockError
from interlock.media import sniff
from interlock.runtime.events import Event, Listener
from interlock.runtime.limits import TurnUsage
from interlock.runtime.turn import TurnResult

__all__ = ["read_file", "run", "show_result"]

_UNNAMED = "application/octet-stream"


def run(  # noqa: PLR0917 - the command line's options
    agent: AgentArgument,
    text: Annotated[str | None, typer.Argument(help="What to say; standard input where it is left out.")] = None,
    session: Annotated[str | None, typer.Option(help="The session this turn belongs to.")] = None,
    model: ModelOption = None,
    engine: EngineOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print every event as a line of JSON; the last one has the result.")] = False,
    role: Annotated[str | None, typer.Option("--as", help="The role to enter as, where an agent has several.")] = None,
    grants: GrantsOption = None,
    file: Annotated[Path | None, typer.Option(help="An audio, image or text file to send; TEXT is the question about it.")] = None,
    answer: Annotated[
        str | None, typer.Option(help="What a person says to a turn of the session that waits for it; 'abort' gives the turn up.")
    ] = None,
    record: Annotated[Path | None, typer.Option(help="A new file to write the turn to, for 'interlock replay'.")] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", "--csv", help="A new file for the table that the answer came from: FILE.csv, or FILE.svg for a chart."),
    ] = None,
) -> None:
    """Take one turn. Exits with 0 after success, 1 after a typed error, 2 where the input was refused."""
    if answer is not None and (text is not None or file is not None or session is None or record is not None):
        raise typer.BadParameter("'--answer' goes with '--session', and with neither TEXT, '--file' nor '--record'.")
    if as_json and events:
        raise typer.BadParameter("'--json' and '--events' exclude each other: the last event has the result.")
    try:
        chosen = target(agent)  # before the settings are read: some of them may be its own
        app = open_app(grants, model=model, engine=engine)
        limit = app.settings.max_input_bytes
        live = Live(console()) if is_terminal() and not as_json and not events else None
        told = _print_event if events else live.hear if live is not None else None
        given = _Given(text=text, file=file, answer=answer, session=session, role=role, record=record, limit=limit)
        result = asyncio.run(closing(app, given.taken(app, chosen, told, live, is_quiet=as_json or events)))
        if result is None:
            print_line(GIVEN_UP)
            return
    except InterlockError as error:
        if as_json:
            print_json(_refused(agent, session, error))
            raise typer.Exit(code=2) from error
        raise
    if as_json:
        print_json(result.to_json())
    elif not events:
        show_result(result, live)
    saved = save is None or save_result(save, result)
    raise typer.Exit(code=1 if result.status == "error" or not saved else 0)


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What the command line gives a turn."""

    text: str | None
    file: Path | None
    answer: str | None
    session: str | None
    role: str | None
    record: Path | None
    limit: int

    async def taken(
        self, app: Interlock, agent: str | Graph | Agent, told: Listener | None, live: Live | None, *, is_quiet: bool
    ) -> TurnResult | None:
        """Take the turn. Where the session waits for a person, its question is shown first, and a text may be the answer to it."""
        waits = Waiting(app, agent, self.session)
        waiting = await waits.find() if self.answer is None else None
        is_given = self.text is not None or self.file is not None or self.answer is not None or not _has_no_input()
        said = self._said() if is_given or waiting is None else ""
        if waiting is not None:
            if not said.strip():
                return waiting
            if not is_quiet:
                print_error("This session waits for an answer:")
                show_result(waiting)
        with live or contextlib.nullcontext():
            if self.answer is not None or (waiting is not None and self.file is None and is_answer(said, waiting)):
                return await waits.answer(said, told)
            both = {"text": self.text, "file": said} if self.text is not None and self.file is not None else None
            return await app.run(agent, both or said, session=self.session, role=self.role, on_event=told, record=self.record)

    def _said(self) -> str:
        if self.answer is not None:
            return self.answer
        return read_file(self.file, self.limit) if self.file is not None else _read_text(self.text, self.limit)


def _print_event(event: Event) -> None:
    print_json(event)


def _refused(agent: str, session: str | None, error: InterlockError) -> dict[str, Any]:
    """Describe a turn that was not taken, in the shape of one that was."""
    fault = {"code": error.code, "message": error.message, "node": None}
    nothing: dict[str, Any] = {"turn": None, "output": None, "path": [], "state": {}, "metadata": {}, "usage": asdict(TurnUsage())}
    return {"agent": agent, "session": session, "status": "error", "error": fault, **nothing}


def show_result(result: TurnResult, live: Live | None = None) -> None:
    """Show a result to a person who has seen the turn `live`, or only its output to a pipe. What it has ended is shown first."""
    if result.metadata.get("ended"):
        print_error(f"The open question is given up: {safe(result.metadata['ended'])}")
    if not is_terminal():
        if result.error is not None:
            print_error(f"{result.error.code}: {safe(result.error.message)}")
        print_line(safe(output_of(result)))
        for line in options_of(result):
            print_line(safe(line))
        return
    screen = console()
    (live or Live(screen)).show(result)
    for line in options_of(result):
        screen.print(Text(safe(line)))
    screen.print(Text(as_path(result.path), style="dim"))


def _has_no_input() -> bool:
    return sys.stdin is None or sys.stdin.closed or sys.stdin.isatty()


def _read_text(text: str | None, limit: int) -> str:
    """Take the text from the command line, or from standard input, never more of it than may come in."""
    if text is not None:
        return text
    if _has_no_input():
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


def read_file(file: Path, limit: int) -> str:
    """Make a data URI of a file, never of more than may come in, and never of what is no file: reading a pipe may not end."""
    most = limit * 3 // 4  # base64 makes four characters of three bytes
    try:
        with open(file, "rb", opener=_without_waiting) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise InputSchema(f"'{file}' is not a file.")
            content = opened.read(most + 1)
    except OSError as error:
        raise InputSchema(f"File '{file}' cannot be read: {error.strerror}.") from error
    if not content:
        raise InputEmpty(f"File '{file}' is empty.")
    if len(content) > most:
        raise InputTooLarge(f"File '{file}' is over {most:,} bytes.")
    return f"data:{_media_type(file, content)};base64,{base64.b64encode(content).decode()}"


def _without_waiting(file: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to is opened too instead of waited for."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))


def _media_type(file: Path, content: bytes) -> str:
    """Go by the name where it says something, or by the bytes."""
    named = mimetypes.MimeTypes().guess_type(file.name)[0] or _UNNAMED  # not by what this machine has in /etc/mime.types
    if named.startswith(("image/", "audio/", "text/")):
        return named
    seen = sniff(content)
    if seen is None and named == _UNNAMED:
        try:
            content.decode()
        except UnicodeDecodeError:
            return _UNNAMED
        return "text/plain"
    return seen or named
