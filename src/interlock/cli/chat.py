"""interlock chat."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from interlock.app import Interlock
from interlock.cli.live import Live, output_of
from interlock.cli.people import GIVEN_UP, Waiting, is_answer, options_of
from interlock.cli.run import read_file
from interlock.cli.saving import save_result
from interlock.cli.screen import as_path, console, is_terminal, print_error, print_line, safe
from interlock.cli.target import AgentArgument, EngineOption, GrantsOption, ModelOption, closing, open_app, target
from interlock.contract.schema import to_json
from interlock.discovery import entry_of, load_agent
from interlock.errors import InputTooLarge, InterlockError, StoreUnavailable
from interlock.runtime.events import Event, Listener
from interlock.runtime.turn import TurnResult

__all__ = ["chat"]

HELP = {
    "/state": "what the agent knows after the last turn",
    "/path": "the nodes that the last turn went through",
    "/events": "what happened in the last turn",
    "/file PATH": "send a file with what you say next, or with what stands behind it: /file PATH QUESTION",
    "/save FILE": "save the table that the last answer came from: FILE.csv, or FILE.svg for a chart of it",
    "/help": "this",
    "/quit": "leave (or Ctrl-D)",
}


_FILE = re.compile(r"""/file\s+(?:"(?P<quoted>[^"]+)"|(?P<plain>\S+))(?:\s+(?P<question>.+))?""", re.DOTALL)


def chat(  # noqa: PLR0917 - the command line's options
    agent: AgentArgument,
    session: Annotated[str | None, typer.Option(help="The session to go on with; a new one where it is left out.")] = None,
    model: ModelOption = None,
    engine: EngineOption = None,
    role: Annotated[str | None, typer.Option("--as", help="The role to enter as, where an agent has several.")] = None,
    grants: GrantsOption = None,
) -> None:
    """Talk to an agent, line by line: its answer as it comes, and the node that it is in. Ctrl-C ends a turn, Ctrl-D the chat."""
    target(agent)  # before the settings are read: some of them may be its own
    app = open_app(grants, model=model, engine=engine)
    if ":" not in agent:
        entry_of(load_agent(agent), role)
    asyncio.run(closing(app, Chat(app, agent, session=session, role=role).talk()))


class Chat:
    """A conversation on the terminal, or with a pipe: then one line in is one answer out."""

    def __init__(self, app: Interlock, agent: str, *, session: str | None, role: str | None) -> None:
        self._app = app
        self._name = agent
        self._target = target(agent)
        self._session = session
        self._role = role
        self._last: TurnResult | None = None
        self._file: str | None = None
        self._events: list[Event] = []
        self._screen = console()
        self._commands: dict[str, Callable[[], None]] = {
            "/state": self._show_state,
            "/path": self._show_path,
            "/events": self._show_events,
            "/help": self._show_help,
        }

    async def talk(self) -> None:
        """Take a turn for every line until there are no more."""
        if is_terminal():
            settings = self._app.settings
            self._screen.print(f"[bold]{self._name}[/] [dim]model {settings.model}, engine {settings.engine}; /help for more[/]")
        waiting = await Waiting(self._app, self._target, self._session).find()
        if waiting is not None:
            print_error("This session waits for an answer:")
            self._show(waiting)
        lines = _typed(self._app, self._name) if is_terminal() and sys.stdin.isatty() else _piped(self._app.settings.max_input_bytes)
        async for line in lines:
            said = line.strip()
            if said == "/quit":
                break
            if said.startswith("/"):
                await self._command(said)
            elif said or self._file is not None:
                await self._take(line.rstrip("\r\n"))

    async def _command(self, said: str) -> None:
        """Do what a line that begins with a slash says. One that is no command and has several words is said to the agent."""
        name, _, rest = said.partition(" ")
        if said in self._commands:
            self._commands[said]()
        elif name == "/file":
            question = self._attach(said)
            if question:
                await self._take(question)
        elif name == "/save":
            self._save(rest.strip().strip('"'))
        elif " " not in said:
            print_error(f"There is no command '{safe(said)}'; /help lists them.")
        else:
            await self._take(said)

    def _attach(self, said: str) -> str | None:
        """Read the file that is named, to be sent with what is said next; return what is said about it at once."""
        found = _FILE.fullmatch(said)
        if found is None:
            print_error("Name a file: /file PATH, or /file PATH QUESTION. A path with spaces goes into double quotes.")
            return None
        path = Path(found["quoted"] or found["plain"]).expanduser()
        try:
            self._file = read_file(path, self._app.settings.max_input_bytes)
        except InterlockError as error:
            print_error(f"{error.code}: {safe(error.message)}")
            return None
        if not found["question"]:
            print_error(f"{safe(path.name)} goes with what you say next. An empty line sends it alone.")
        return found["question"]

    def _save(self, name: str) -> None:
        if not name:
            print_error("Name a new file: /save FILE.csv, or /save FILE.svg for a chart.")
        elif self._last is None:
            print_error("There is nothing to save yet: ask something first.")
        else:
            save_result(Path(name).expanduser(), self._last)

    async def _take(self, text: str) -> None:
        live = Live(self._screen) if is_terminal() else None
        self._events = []

        def hear(event: Event) -> None:
            self._events.append(event)
            if live is not None:
                live.hear(event)

        turn = asyncio.ensure_future(self._taken(text, hear))
        try:
            with _interrupting(turn), live or contextlib.nullcontext():
                result = await turn
        except InterlockError as error:
            print_error(f"{error.code}: {safe(error.message)}")
            return
        except asyncio.CancelledError:
            if not turn.cancelled():
                raise
            print_error("cancelled: The turn was ended.")
            return
        if result is None:
            self._last = None
            print_line(GIVEN_UP)
        else:
            self._show(result, live)

    async def _taken(self, text: str, hear: Listener) -> TurnResult | None:
        """Take a turn, or go on with the one that waits where this is an answer to it."""
        last = self._last
        if last is not None and last.status == "waiting" and is_answer(text, last):
            return await Waiting(self._app, self._target, last.session).answer(text, hear)
        file, self._file = self._file, None
        given = text if file is None else {"text": text, "file": file} if text.strip() else file
        return await self._app.run(self._target, given, session=self._session, role=self._role, on_event=hear)

    def _show(self, result: TurnResult, live: Live | None = None) -> None:
        """Show how a turn ended, what it ended, and what can be answered where it waits."""
        self._last, self._session = result, result.session
        if result.metadata.get("ended"):
            print_error(f"The open question is given up: {safe(result.metadata['ended'])}")
        if is_terminal():
            (live or Live(self._screen)).show(result)
        else:
            _print(result)
        self._show_options(result)

    def _show_options(self, result: TurnResult) -> None:
        is_for_others = result.status == "waiting" and result.metadata["waiting"].get("to")
        for line in list(options_of(result))[: None if is_for_others else -1]:
            if is_terminal():
                self._screen.print(Text(safe(line)))
            else:
                print_line(safe(line))

    def _show_state(self) -> None:
        if self._last is not None:
            self._table(self._last.to_json()["state"], "field", "value")

    def _show_path(self) -> None:
        path = as_path(self._last.path) if self._last is not None else "No turn yet."
        if is_terminal():
            self._screen.print(Text(path))
        else:
            print_line(path)

    def _show_events(self) -> None:
        columns = [Column(name, no_wrap=True, ratio=1 if name == "data" else None) for name in ("", "event", "name", "data")]
        table = Table(*columns, box=None, header_style="dim", expand=True)
        number = 1
        for (kind, name), alike in itertools.groupby(self._events, key=lambda event: (event["event"], event["name"])):
            found = list(alike)
            data = _short(found[0]["data"]) if len(found) == 1 else f"{len(found)} of them"
            table.add_row(str(number), kind, name, Text(safe(data).replace("\n", " "), "dim", overflow="ellipsis"))
            number += len(found)
        self._screen.print(table)

    def _show_help(self) -> None:
        self._table(HELP, "command", "what it shows")

    def _table(self, rows: dict[str, Any], *columns: str) -> None:
        table = Table(*columns, box=None, header_style="dim")
        for name, value in rows.items():
            table.add_row(name, Text(safe(value if isinstance(value, str) else _short(value))))
        self._screen.print(table)


def _print(result: TurnResult) -> None:
    if result.error is not None:
        print_error(f"{result.error.code}: {safe(result.error.message)}")
    print_line(safe(output_of(result)))


def _short(value: Any, limit: int = 60) -> str:
    text = str(to_json(value))
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


@contextlib.contextmanager
def _interrupting(turn: asyncio.Future[Any]) -> Any:
    """Let Ctrl-C end the turn instead of the chat."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, turn.cancel)
    except (NotImplementedError, RuntimeError, ValueError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _typed(app: Interlock, agent: str) -> AsyncGenerator[str, None]:
    """Read what a person types, with editing and history."""
    from prompt_toolkit import PromptSession  # noqa: PLC0415 - only for this command
    from prompt_toolkit.completion import WordCompleter  # noqa: PLC0415
    from prompt_toolkit.history import FileHistory  # noqa: PLC0415

    folder = app.settings.data_dir.expanduser() / "history"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / agent.replace(":", "-")
        file.touch(mode=0o600)
    except OSError as error:
        raise StoreUnavailable(f"'{folder}' cannot be written: {error.strerror}. Fix: set INTERLOCK_DATA_DIR.") from error
    prompt: PromptSession[str] = PromptSession(history=FileHistory(file), completer=WordCompleter(list(HELP), sentence=True))
    while True:
        try:
            yield await prompt.prompt_async("> ")
        except KeyboardInterrupt:
            print_error("/quit or Ctrl-D leaves.")
        except EOFError:
            return


async def _piped(limit: int) -> AsyncGenerator[str, None]:
    """Read lines from standard input, never more of one than may come in."""
    if sys.stdin is None or sys.stdin.closed:
        return
    while raw := await asyncio.to_thread(sys.stdin.buffer.readline, limit + 2):
        if len(raw) > limit + 1:
            raise InputTooLarge(f"A line of the input is over {limit:,} bytes.")
        yield raw.decode("utf-8", "surrogateescape")
