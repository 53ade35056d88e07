"""interlock chat."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from interlock.app import Interlock
from interlock.capabilities import Question
from interlock.cli.human import (
    ABORT,
    ABORTED,
    SuspendedTurn,
    answer_commands,
    is_abort,
    is_answer,
    options_of,
    without_repeated,
)
from interlock.cli.live import Live, error_line, output_of
from interlock.cli.run import each, read_file
from interlock.cli.saving import save_conversation, save_result
from interlock.cli.screen import as_path, console, is_terminal, print_error, print_line, safe
from interlock.cli.target import (
    AgentArgument,
    EngineOption,
    GrantsOption,
    ModelOption,
    RoleOption,
    UserOption,
    check_user,
    closing,
    find,
    given_options,
    open_app,
    target,
)
from interlock.contract.schema import to_json
from interlock.discovery import entry_of, load_agent
from interlock.errors import InputTooLarge, InterlockError, StoreUnavailable
from interlock.runtime.events import Event, Listener
from interlock.runtime.turn import TurnResult

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import AnyFormattedText

__all__ = ["chat"]

HELP = {
    "/state": "the fields of the state after the last turn",
    "/state FIELD": "the whole value of one field",
    "/path": "the nodes of the last turn",
    "/events": "the events of the last turn",
    "/file PATH": "send a file with your next message, or with this one: /file PATH MESSAGE",
    "/save FILE": "save the table that the last answer is based on (FILE.csv, or FILE.svg for a chart), or the conversation (FILE.md)",
    "/help": "this list",
    "/quit": "leave (or Ctrl-D)",
}

_FILE = re.compile(r"""/file\s+(?:"(?P<quoted>[^"]+)"|(?P<plain>\S+))(?:\s+(?P<question>.+))?""", re.DOTALL)


def chat(
    agent: AgentArgument,
    session: Annotated[str | None, typer.Option(help="The session to continue; a new one by default.")] = None,
    model: ModelOption = None,
    engine: EngineOption = None,
    role: RoleOption = None,
    user: UserOption = None,
    grants: GrantsOption = None,
) -> None:
    """Talk to an agent. Each line is a turn; the answer appears as it arrives. Ctrl-C ends a turn, Ctrl-D the chat."""
    # The agent is loaded before the settings are read, because some of them may be its own.
    target(agent)
    app = open_app(grants, model=model, engine=engine)
    if ":" not in agent:
        entry_of(load_agent(agent), role)
    check_user(agent, user)
    options = given_options(grants=grants, model=model, engine=engine)
    asyncio.run(closing(app, Chat(app, agent, session=session, role=role, user=user, options=options).talk()))


class Chat:
    """A conversation, on a terminal or on a pipe. On a pipe, each line of input gives one answer."""

    def __init__(
        self, app: Interlock, agent: str, *, session: str | None, role: str | None, user: str | None = None, options: Sequence[str] = ()
    ) -> None:
        self._app = app
        self._name = agent
        self._target = target(agent)
        self._session = session
        self._role = role
        self._user = user
        self._options = options
        self._last: TurnResult | None = None
        self._file: str | None = None
        self._events: list[Event] = []
        self._spoken: list[tuple[str, str]] = []
        self._screen = console()
        self._commands: dict[str, Callable[[], None]] = {
            "/path": self._show_path,
            "/events": self._show_events,
            "/help": self._show_help,
        }

    async def talk(self) -> None:
        """Run a turn for every line of the input."""
        if is_terminal():
            settings = self._app.settings
            self._screen.print(f"[bold]{self._name}[/] [dim]model {settings.model}, engine {settings.engine}; /help lists the commands[/]")
        suspended = await SuspendedTurn(self._app, self._target, self._session).find()
        if suspended is not None:
            print_error("This session waits for an answer:")
            self._show(suspended, Live(self._screen, speaker=self._name))
        is_person = is_terminal() and sys.stdin.isatty()
        lines = _typed(self._app, self._name, self._prompt) if is_person else _piped(self._app.settings.max_input_bytes)
        async for line in lines:
            text = line.strip()
            if text == "/quit":
                break
            if text.startswith("/"):
                await self._command(text)
            elif text or self._file is not None:
                await self._run(line.rstrip("\r\n"))

    def _prompt(self) -> AnyFormattedText:
        """Return the prompt: it says whether the next line is a message or an answer to a question."""
        asks = self._last is not None and self._last.status == "waiting" and not self._last.metadata["waiting"].get("to")
        return [("ansiyellow bold", "answer") if asks else ("ansicyan bold", "you"), ("", "> ")]

    async def _command(self, text: str) -> None:
        """Run a command. Several words after a slash that are not a command are a message to the agent."""
        name, _, rest = text.partition(" ")
        if text in self._commands:
            self._commands[text]()
        elif name == "/state":
            self._show_state(rest.strip())
        elif name == "/file":
            question = self._attach(text)
            if question:
                await self._run(question)
        elif name == "/save":
            self._save(rest.strip().strip('"'))
        elif " " not in text:
            print_error(f"There is no command '{safe(text)}'; /help lists them.")
        else:
            await self._run(text)

    def _attach(self, text: str) -> str | None:
        """Read the file of a command, to send it with the next message. Return the message that follows in the same line."""
        found = _FILE.fullmatch(text)
        if found is None:
            print_error("Name a file: /file PATH, or /file PATH MESSAGE. A path with spaces goes into double quotes.")
            return None
        path = Path(found["quoted"] or found["plain"]).expanduser()
        try:
            self._file = read_file(path, self._app.settings.max_input_bytes)
        except InterlockError as error:
            print_error(f"{error.code}: {safe(error.message)}")
            return None
        if not found["question"]:
            print_error(f"{safe(path.name)} is sent with your next message. An empty line sends it alone.")
        return found["question"]

    def _save(self, name: str) -> None:
        path = Path(name).expanduser()
        if not name:
            print_error("Name a new file: /save FILE.csv for a table, FILE.svg for a chart, FILE.md for the conversation.")
        elif self._last is None:
            print_error("There is nothing to save before the first turn.")
        elif path.suffix.lower() == ".md":
            save_conversation(path, self._spoken)
        else:
            save_result(path, find(self._name), self._last)

    async def _run(self, text: str) -> None:
        live = Live(self._screen, find(self._name).speakers, speaker=self._name) if is_terminal() else None
        self._events = []
        turn = asyncio.ensure_future(self._turn(text, [self._events.append, *([] if live is None else [live.listen])]))
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
            print_line(ABORTED)
        else:
            self._show(result, live)

    async def _turn(self, text: str, listeners: Sequence[Listener]) -> TurnResult | None:
        """Run a turn, or resume the suspended one if the text is an answer to its question."""
        last = self._last
        if last is not None and last.status == "waiting" and is_answer(text, last):
            turn = SuspendedTurn(self._app, self._target, last.session)
            self._mark_answer(text, last.metadata["waiting"])
            earlier = [] if is_abort(text) else await turn.events()
            return await turn.answer(text, without_repeated(earlier, each(listeners)))
        self._spoken.append(("you", text))
        file, self._file = self._file, None
        given = text if file is None else {"text": text, "file": file} if text.strip() else file
        return await self._app.run(
            self._target, given, session=self._session, role=self._role, principal=self._user, on_event=each(listeners)
        )

    def _mark_answer(self, text: str, asked: Mapping[str, Any]) -> None:
        """Show that a text is taken as the answer to the question, and as which option."""
        chosen = Question(text="", options=(*asked["options"], ABORT)).resolve(text)
        self._spoken.append(("your answer", chosen))
        if is_terminal():
            self._screen.print(Text.assemble(("answer: ", "yellow"), safe(chosen)))

    def _show(self, result: TurnResult, live: Live | None = None) -> None:
        """Show the result of a turn, the question that it has ended, and the options of its own question."""
        self._last, self._session = result, result.session
        self._spoken.append((self._name, output_of(result) if result.error is None else error_line(result.error)))
        if result.metadata.get("ended"):
            print_error(f"The earlier question was not answered: {safe(result.metadata['ended'])}")
        if is_terminal():
            (live or Live(self._screen)).show(result)
        else:
            if result.error is not None:
                print_error(error_line(result.error))
            print_line(safe(output_of(result)))
        lines = list(options_of(result))
        if result.status == "waiting" and result.metadata["waiting"].get("to"):
            lines += answer_commands(self._name, result.session, result.metadata["waiting"], self._options)
        for line in lines:
            if is_terminal():
                self._screen.print(Text(safe(line)), soft_wrap=True)
            else:
                print_line(safe(line))

    def _show_state(self, field: str) -> None:
        state: dict[str, Any] = {} if self._last is None else self._last.to_json()["state"]
        if not field:
            self._table(state, "field", "value")
        elif field not in state:
            print_error(f"There is no field '{safe(field)}'. The fields with a value are: {', '.join(state) or 'none yet'}.")
        else:
            value = state[field]
            print_line(safe(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)))

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
            data = _short(found[0]["data"]) if len(found) == 1 else f"{len(found)} events"
            table.add_row(str(number), kind, name, Text(safe(data).replace("\n", " "), "dim", overflow="ellipsis"))
            number += len(found)
        self._screen.print(table)

    def _show_help(self) -> None:
        self._table(HELP, "command", "purpose")

    def _table(self, rows: Mapping[str, Any], *columns: str) -> None:
        table = Table(*columns, box=None, header_style="dim")
        for name, value in rows.items():
            table.add_row(name, Text(safe(value if isinstance(value, str) and rows is HELP else _short(value))))
        self._screen.print(table)


def _short(value: Any, limit: int = 60) -> str:
    text = str(to_json(value))
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


@contextlib.contextmanager
def _interrupting(turn: asyncio.Future[Any]) -> Any:
    """Make Ctrl-C cancel the turn instead of the chat."""
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


async def _typed(app: Interlock, agent: str, message: Callable[[], AnyFormattedText]) -> AsyncGenerator[str, None]:
    """Read lines from a terminal, with editing and history."""
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
            yield await prompt.prompt_async(message)
        except KeyboardInterrupt:
            print_error("/quit or Ctrl-D leaves.")
        except EOFError:
            return


async def _piped(limit: int) -> AsyncGenerator[str, None]:
    """Read lines from standard input, each up to the limit."""
    if sys.stdin is None or sys.stdin.closed:
        return
    while raw := await asyncio.to_thread(sys.stdin.buffer.readline, limit + 2):
        if len(raw) > limit + 1:
            raise InputTooLarge(f"A line of the input is over {limit:,} bytes.")
        yield raw.decode("utf-8", "surrogateescape")
