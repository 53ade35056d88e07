"""interlock run."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import mimetypes
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.cli.human import ABORTED, SuspendedTurn, answer_commands, is_abort, is_answer, options_of, without_repeated
from interlock.cli.live import Live, error_line, output_of
from interlock.cli.saving import save_result
from interlock.cli.screen import as_path, console, is_terminal, print_error, print_json, print_line, safe
from interlock.cli.target import (
    AgentArgument,
    EngineOption,
    GrantsOption,
    ModelOption,
    RoleOption,
    SessionOption,
    UserOption,
    check_user,
    closed_at_end,
    find,
    given_options,
    open_app,
    target,
)
from interlock.cli.usage import UsageMeter
from interlock.contract import Graph
from interlock.errors import InputEmpty, InputEncoding, InputSchema, InputTooLarge, InterlockError
from interlock.media import sniff
from interlock.runtime.events import Event, Listener
from interlock.runtime.limits import TurnUsage
from interlock.runtime.turn import TurnResult

__all__ = ["each", "read_file", "run", "show_result"]

_UNNAMED = "application/octet-stream"


def run(
    context: typer.Context,
    agent: AgentArgument,
    text: Annotated[str | None, typer.Argument(help="The input; without it, standard input is read.")] = None,
    session: SessionOption = None,
    model: ModelOption = None,
    engine: EngineOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print every event as a line of JSON; the last one has the result.")] = False,
    role: RoleOption = None,
    user: UserOption = None,
    grants: GrantsOption = None,
    file: Annotated[Path | None, typer.Option(help="An audio, image or text file to send; TEXT is the question about it.")] = None,
    answer: Annotated[
        str | None, typer.Option(help="The answer to the question of the session's suspended turn; 'abort' ends that turn.")
    ] = None,
    record: Annotated[Path | None, typer.Option(help="A new file to record the turn to, for 'interlock replay'.")] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", "--csv", help="A new file for the table that the answer is based on: FILE.csv, or FILE.svg for a chart."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print the seconds, model calls, tokens and tool calls of the turn at its end.")
    ] = False,
) -> None:
    """Run one turn. Exits with 0 after success, 1 after a typed error, 2 if the input is refused."""
    if answer is not None and (text is not None or file is not None or session is None or record is not None or user is not None):
        raise typer.BadParameter("'--answer' requires '--session', and excludes TEXT, '--file', '--record' and '--user'.")
    if context.args:
        raise typer.BadParameter(f"The input is one argument, so '{safe(context.args[0])}' is one too many. Fix: put the input in quotes.")
    if as_json and events:
        raise typer.BadParameter("'--json' and '--events' exclude each other: the last event has the result.")
    options = given_options(grants=grants, model=model, engine=engine)
    try:
        # The agent is loaded before the settings are read, because some of them may be its own.
        chosen = target(agent)
        app = open_app(grants, model=model, engine=engine)
        check_user(agent, user)
        request = _Request(
            agent=agent, options=options, text=text, file=file, answer=answer, session=session, role=role, user=user, record=record
        )
        output = _Output(find(agent).speakers, as_json=as_json, events=events, verbose=verbose)
        result = asyncio.run(request.run(app, chosen, output))
        if result is None:
            print_line(ABORTED)
            return
    except InterlockError as error:
        if as_json:
            print_json(_refused(agent, session, error))
            raise typer.Exit(code=2) from error
        raise
    if as_json:
        print_json(result.to_json())
    elif not events:
        show_result(result, output.live, agent=agent, options=options)
    if output.meter is not None:
        output.meter.show(result)
    saved = save is None or save_result(save, find(agent), result)
    raise typer.Exit(code=1 if result.status == "error" or not saved else 0)


class _Output:
    """Where the events of a turn go: to the terminal, to standard output as JSON, to a usage meter."""

    def __init__(self, speaking_nodes: Iterable[str], *, as_json: bool, events: bool, verbose: bool) -> None:
        self.is_quiet = as_json or events
        self.live = Live(console(), speaking_nodes) if is_terminal() and not self.is_quiet else None
        self.meter = UsageMeter() if verbose else None
        self._prints_events = events

    def listener(self, earlier: Sequence[Event] = ()) -> Listener | None:
        """Return the listener of a turn. Only `--events` repeats the earlier events of a resumed turn."""
        new = [part.listen for part in (self.live, self.meter) if part is not None]
        listeners = [without_repeated(earlier, each(new))] if new else []
        if self._prints_events:
            listeners.insert(0, print_json)
        return each(listeners) if listeners else None


@dataclass(frozen=True, kw_only=True)
class _Request:
    """The arguments of the command line that make a turn."""

    agent: str
    options: Sequence[str]
    text: str | None
    file: Path | None
    answer: str | None
    session: str | None
    role: str | None
    user: str | None
    record: Path | None

    async def run(self, app: Interlock, chosen: str | Graph | Agent, output: _Output) -> TurnResult | None:
        """Run the turn. If the session has a suspended turn, its question is shown first, and the text may be the answer to it."""
        async with closed_at_end(app):
            turn = SuspendedTurn(app, chosen, self.session)
            suspended = await turn.find() if self.answer is None else None
            has_input = self.text is not None or self.file is not None or self.answer is not None or not _has_no_input()
            text = self._read(app.settings.max_input_bytes) if has_input or suspended is None else ""
            if suspended is not None:
                if not text.strip():
                    return suspended
                if not output.is_quiet:
                    answers = self._answers(text, suspended)
                    print_error("This session waits for an answer:" if answers else "The input does not answer this question, and ends it:")
                    _show(suspended, list(options_of(suspended)))
            if self.answer is not None or (suspended is not None and self._answers(text, suspended)):
                earlier = [] if is_abort(text) else await turn.events()
                with output.live or contextlib.nullcontext():
                    return await turn.answer(text, output.listener(earlier))
            both = {"text": self.text, "file": text} if self.text is not None and self.file is not None else None
            with output.live or contextlib.nullcontext():
                return await app.run(
                    chosen,
                    both or text,
                    session=self.session,
                    role=self.role,
                    principal=self.user,
                    on_event=output.listener(),
                    record=self.record,
                )

    def _answers(self, text: str, suspended: TurnResult) -> bool:
        return self.file is None and is_answer(text, suspended)

    def _read(self, limit: int) -> str:
        if self.answer is not None:
            return self.answer
        return read_file(self.file, limit) if self.file is not None else _read_text(self.text, limit)


def each(listeners: Sequence[Listener]) -> Listener:
    """Return a listener that calls all of these."""

    def listen(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return listen


def _refused(agent: str, session: str | None, error: InterlockError) -> dict[str, Any]:
    """Describe a refused input in the form of a result."""
    fault = {"code": error.code, "message": error.message, "node": None}
    nothing: dict[str, Any] = {"turn": None, "output": None, "path": [], "state": {}, "metadata": {}, "usage": asdict(TurnUsage())}
    return {"agent": agent, "session": session, "status": "error", "error": fault, **nothing}


def show_result(result: TurnResult, live: Live | None = None, *, agent: str = "", options: Sequence[str] = ()) -> None:
    """Print a result: on a terminal what `live` has not shown yet, with the path; to a pipe the output alone.

    `agent` and `options` are the arguments of the command line, for the command that answers a question.
    """
    if result.metadata.get("ended"):
        print_error(f"The earlier question was not answered: {safe(result.metadata['ended'])}")
    lines = list(options_of(result))
    if result.status == "waiting":
        lines += answer_commands(agent or result.agent, result.session, result.metadata["waiting"], options)
    _show(result, lines, live)


def _show(result: TurnResult, lines: Iterable[str], live: Live | None = None) -> None:
    """Print a result, and these lines below it."""
    if not is_terminal():
        if result.error is not None:
            print_error(error_line(result.error))
        for line in [*([] if result.output is None else [output_of(result)]), *lines]:
            print_line(safe(line))
        return
    screen = console()
    (live or Live(screen)).show(result)
    for line in lines:
        # A command that is wrapped by the terminal, and not by us, can be copied.
        screen.print(Text(safe(line)), soft_wrap=True)
    screen.print(Text(as_path(result.path), style="dim"))


def _has_no_input() -> bool:
    return sys.stdin is None or sys.stdin.closed or sys.stdin.isatty()


def _read_text(text: str | None, limit: int) -> str:
    """Return the text of the command line, or of standard input up to the limit."""
    if text is not None:
        return text
    if _has_no_input():
        raise InputEmpty("There is no input. Fix: pass TEXT, or send it to standard input.")
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
    """Return a file as a data URI. Raises an InputError for a file over the limit, and for a pipe, which may never end."""
    # Base64 makes four characters of three bytes.
    most = limit * 3 // 4
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
    """Open a file without waiting for the writer of a pipe."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))


def _media_type(file: Path, content: bytes) -> str:
    """Return the media type by the name of a file, else by its content."""
    # A new instance does not read /etc/mime.types, which differs between machines.
    named = mimetypes.MimeTypes().guess_type(file.name)[0] or _UNNAMED
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
