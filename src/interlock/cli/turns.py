"""interlock turns: the stored turns, what runs and what waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args

import typer
from pydantic_core import from_json

from interlock.app import Interlock
from interlock.cli.human import answer_commands
from interlock.cli.screen import print_error, print_json, print_line, safe
from interlock.cli.target import GrantsOption, YesOption, closing, confirm, find, open_app, starting_with
from interlock.discovery import AGENTS
from interlock.dispatch.results import result_of
from interlock.errors import InputSchema, TurnUnknown
from interlock.input import check_id
from interlock.runtime.turns import BEGUN, ENDED, OPEN, Page, StoredTurn, TurnFilter, TurnStatus

__all__ = ["turns"]

T = TypeVar("T")
_STATUSES: tuple[str, ...] = get_args(TurnStatus)

turns = typer.Typer(help="List, show, follow, answer, cancel, delete and export turns.", rich_markup_mode=None, add_completion=False)

TurnArgument = Annotated[str, typer.Argument(help="The id of a turn, or a session that has an open turn.")]
AgentOption = Annotated[str | None, typer.Option(help="Turns of this agent: its name, or MODULE:NAME for an agent of your own.")]
SessionOption = Annotated[str | None, typer.Option(help="Turns of this session.")]
StatusOption = Annotated[
    str | None,
    typer.Option(help=f"Turns with this status: {', '.join(_STATUSES)}, or 'open'.", autocompletion=starting_with("open", *_STATUSES)),
]
LimitOption = Annotated[int, typer.Option(min=1, help="How many turns to list, the newest first.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@turns.callback(invoke_without_command=True)
def list_turns(
    context: typer.Context,
    agent: AgentOption = None,
    session: SessionOption = None,
    status: StatusOption = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List stored turns, the newest first: id, agent, session, status, when it was accepted, and its question or error."""
    if context.invoked_subcommand is not None:
        return
    chosen = TurnFilter(agent=agent and _name(agent), session=session, statuses=_statuses(status))
    app = open_app()
    found = _run(app, lambda: app.turns.store.find(chosen, Page(limit=limit)))
    if as_json:
        print_json([_data(app, turn) for turn in found], indent=2)
        return
    for turn in found:
        print_line("\t".join(map(safe, (turn.turn, turn.agent, turn.session, turn.status, _time(turn.created) or "", _remark(app, turn)))))
    if not found:
        print_error("There are no such turns.")


@turns.command(name="show")
def show_turn(turn: TurnArgument, agent: AgentOption = None, as_json: JsonOption = False) -> None:
    """Show a turn: its status, its reply or error, and, where it waits for a person, the command that answers it."""
    app = open_app()
    found = _run(app, lambda: _find(app, turn, agent))
    data = _data(app, found)
    named = agent if agent is not None and ":" in agent else found.agent if found.agent in AGENTS else None
    asked = data["waiting"]
    commands = list(answer_commands(named or "MODULE:NAME", found.session, asked)) if asked is not None else []
    if as_json:
        print_json({**data, "commands": [command.partition(": ")[2] for command in commands]}, indent=2)
        return
    for name in ("turn", "agent", "session", "status", "position", "attempts", "owner", "created", "started", "ended", "parked"):
        if data[name] is not None:
            print_line(f"{name:10}{safe(str(data[name]))}")
    if data["error"] is not None:
        print_line(f"{'error':10}{safe(data['error']['code'])}: {safe(data['error']['message'])}")
    if asked is None:
        if data["output"] is not None:
            print_line(f"\n{safe(str(data['output']))}")
        return
    print_line(f"\n{safe(asked['question'])}")
    for number, option in enumerate(asked["options"], start=1):
        print_line(safe(f"  {number}  {option}{'  (recommended)' if option == asked['recommended'] else ''}"))
    print_line("")
    for command in commands:
        print_line(safe(command))
    if named is None:
        print_error(f"'{safe(found.agent)}' is not an installed agent. Fix: pass it as '--agent MODULE:NAME' to get the whole command.")


@turns.command(name="follow")
def follow_turn(
    turn: TurnArgument,
    agent: AgentOption = None,
    after: Annotated[int, typer.Option(min=0, help="Print the events after this number.")] = 0,
) -> None:
    """Print the events of a turn as lines of JSON, as they are stored, until it ends or waits for a person."""
    app = open_app()

    async def follow() -> None:
        found = await _find(app, turn, agent)
        async for event in app.turns.events(found.turn, after=after):
            print_json(event)

    _run(app, follow)


@turns.command(name="answer")
def answer_turn(
    turn: TurnArgument,
    text: Annotated[str, typer.Argument(help="The answer.")],
    agent: AgentOption = None,
    by: Annotated[str | None, typer.Option(help="Who answers; it is stored with the answer.")] = None,
    grants: GrantsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer the question of a suspended turn, and run the turn to its end."""
    app = open_app(grants)

    async def answer() -> dict[str, Any]:
        found = await _find(app, turn, agent)
        result = await app.answer(find(agent or found.agent), text, session=found.session, by=by)
        return result.to_json()

    data = _run(app, answer)
    if as_json:
        print_json(data, indent=2)
    else:
        print_line(safe(str(data["output"] if data["error"] is None else f"{data['error']['code']}: {data['error']['message']}")))


@turns.command(name="cancel")
def cancel_turn(turn: TurnArgument, agent: AgentOption = None, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Cancel a turn, wherever it runs. What it has done stays done."""
    app = open_app()
    found = _run(app, lambda: _find(app, turn, agent))
    if found.status in ENDED:
        raise InputSchema(f"Turn '{found.turn}' has ended: {found.status}.")
    confirm(f"Cancel turn '{found.turn}' of {found.agent} in session '{found.session}'?", yes=yes)
    after = _run(app, lambda: app.turns.cancel(found.turn))
    if as_json:
        print_json(_data(app, after), indent=2)
    else:
        print_line(f"Turn '{safe(after.turn)}' is {'cancelled' if after.status == 'cancelled' else 'being cancelled by its worker'}.")


@turns.command(name="delete")
def delete_turn(turn: TurnArgument, agent: AgentOption = None, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Delete a turn that has ended, with its journal and events. This cannot be undone. The state of its session stays."""
    app = open_app()
    found = _run(app, lambda: _find(app, turn, agent))
    if found.status not in ENDED:
        raise InputSchema(f"Turn '{found.turn}' has not ended: {found.status}. Fix: cancel it first, by 'interlock turns cancel'.")
    confirm(f"Delete turn '{found.turn}' of {found.agent} in session '{found.session}'?", yes=yes)
    if not _run(app, lambda: app.turns.store.delete(found.turn)):
        raise TurnUnknown(f"There is no turn '{found.turn}' any more.")
    if as_json:
        print_json({"deleted": {"turn": found.turn, "agent": found.agent, "session": found.session}})
    else:
        print_line(f"Turn '{safe(found.turn)}' is deleted.")


@turns.command(name="retry")
def retry_turn(turn: TurnArgument, agent: AgentOption = None) -> None:
    """Accept the input of a turn that has ended as a new turn of the same session; print the id of the new one."""
    app = open_app()

    async def retry() -> str:
        return (await app.turns.retry(await _find(app, turn, agent))).turn

    print_line(safe(_run(app, retry)))


@turns.command(name="export")
def export_turn(turn: TurnArgument, file: Annotated[Path, typer.Argument(help="The file to create.")], agent: AgentOption = None) -> None:
    """Write the record of a turn to a file, for 'interlock replay'. It contains everything that the turn saw, secrets too."""
    app = open_app()

    async def export() -> None:
        await app.turns.export((await _find(app, turn, agent)).turn, file)

    _run(app, export)
    print_line(f"'{safe(str(file))}' is written.")


def _run(app: Interlock, work: Callable[[], Awaitable[T]]) -> T:
    return asyncio.run(closing(app, work()))


def _name(agent: str) -> str:
    return find(agent).name if ":" in agent else agent


def _statuses(status: str | None) -> tuple[TurnStatus, ...]:
    if status is None or status == "open":
        return () if status is None else OPEN
    if status not in _STATUSES:
        raise typer.BadParameter(f"'{status}' is no status of a turn. Fix: use one of {', '.join(_STATUSES)}, or 'open'.")
    return (cast("TurnStatus", status),)


async def _find(app: Interlock, turn: str, agent: str | None) -> StoredTurn:
    """Return a turn by its id, or the open turn of a session."""
    found = await app.turns.store.get(check_id(turn, "turn"))
    if found is not None:
        return found
    chosen = TurnFilter(agent=agent and _name(agent), session=turn, statuses=BEGUN)
    open_turns = await app.turns.store.find(chosen)
    if not open_turns:
        raise TurnUnknown(f"There is no turn '{turn}', and no session of that name with an open turn.")
    agents = sorted({one.agent for one in open_turns})
    if len(agents) > 1:
        raise InputSchema(f"Several agents have an open turn in session '{turn}': {', '.join(agents)}. Fix: name one by '--agent'.")
    return open_turns[-1]


def _data(app: Interlock, turn: StoredTurn) -> dict[str, Any]:
    """Return what is shown of a turn. Its result is stored without secrets; what was added since is redacted here."""
    has_result = turn.status in ENDED or turn.status == "waiting"
    result: dict[str, Any] = result_of(turn).to_json() if has_result else {"output": None, "error": None, "metadata": {}}
    data: dict[str, Any] = {
        name: getattr(turn, name) for name in ("turn", "agent", "role", "session", "status", "position", "key", "attempts", "owner")
    }
    data |= {name: _time(getattr(turn, name)) for name in ("created", "started", "ended")}
    data["parked"] = app.parked(turn)
    shown = {"output": result["output"], "error": result["error"], "waiting": result["metadata"].get("waiting")}
    answer = None if turn.answer is None else from_json(turn.answer)
    if answer is not None:
        answer["at"] = _time(answer.get("at"))
    return data | app.redactor.data({**shown, "answer": answer})


def _remark(app: Interlock, turn: StoredTurn) -> str:
    data = _data(app, turn)
    if data["error"] is not None:
        return str(data["error"]["code"])
    if data["parked"] is not None:
        return f"parked: {data['parked']}"
    if data["waiting"] is None:
        return ""
    options = f" [{' | '.join(data['waiting']['options'])}]" if data["waiting"]["options"] else ""
    return " ".join(f"{data['waiting']['question']}{options}".split())


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
