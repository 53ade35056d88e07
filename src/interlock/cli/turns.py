"""interlock turns: the suspended turns on this machine."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from interlock.app import Interlock
from interlock.cli.human import answer_commands
from interlock.cli.screen import print_error, print_json, print_line, safe
from interlock.cli.stored import StoredTurn, delete_suspended_turn, list_suspended_turns
from interlock.cli.target import YesOption, confirm, find, open_app
from interlock.discovery import AGENTS
from interlock.errors import InputSchema, NothingWaits

__all__ = ["turns"]

turns = typer.Typer(help="List, show and delete the suspended turns on this machine.", rich_markup_mode=None, add_completion=False)

SessionArgument = Annotated[str, typer.Argument(help="The session of the suspended turn.")]
AgentOption = Annotated[str | None, typer.Option(help="The agent of the turn: its name, or MODULE:NAME for an agent of your own.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@turns.callback(invoke_without_command=True)
def list_turns(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the suspended turns: agent, session, when the turn was suspended, and the question to a person."""
    if context.invoked_subcommand is not None:
        return
    found = _turns(open_app())
    if as_json:
        print_json([asdict(turn) for turn in found], indent=2)
        return
    for turn in found:
        print_line("\t".join((safe(turn.agent), safe(turn.session), turn.suspended, _in_a_line(turn))))
    if not found:
        print_error("There are no suspended turns.")


@turns.command(name="show")
def show_turn(session: SessionArgument, agent: AgentOption = None, as_json: JsonOption = False) -> None:
    """Show the question of a suspended turn, its options, and the command that answers it."""
    turn = _find(open_app(), session, agent)
    named = agent if agent is not None and ":" in agent else turn.agent if turn.agent in AGENTS else None
    data: dict[str, Any] = asdict(turn)
    commands = [] if turn.error is not None else list(answer_commands(named or "MODULE:NAME", turn.session, data))
    if as_json:
        print_json({**data, "commands": [command.partition(": ")[2] for command in commands]}, indent=2)
        return
    print_line(f"{safe(turn.agent)}, session {safe(turn.session)}, suspended {turn.suspended}")
    if turn.error is not None:
        print_line(f"{turn.error}: The record of the turn cannot be read. Fix: delete the turn.")
        return
    print_line(f"\n{safe(turn.question or '')}")
    for number, option in enumerate(turn.options, start=1):
        print_line(safe(f"  {number}  {option}{'  (recommended)' if option == turn.recommended else ''}"))
    print_line("")
    for command in commands:
        print_line(safe(command))
    if named is None:
        print_error(f"'{safe(turn.agent)}' is not an installed agent. Fix: pass it as '--agent MODULE:NAME' to get the whole command.")


@turns.command(name="delete")
def delete_turn(session: SessionArgument, agent: AgentOption = None, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Delete a suspended turn without an answer. This cannot be undone."""
    app = open_app()
    turn = _find(app, session, agent)
    confirm(f"Delete the suspended turn of {turn.agent} in session '{turn.session}'?", yes=yes)
    delete_suspended_turn(app.settings, turn)
    if as_json:
        print_json({"deleted": asdict(turn)}, indent=2)
    else:
        print_line(f"The suspended turn of {safe(turn.agent)} in session '{safe(turn.session)}' is deleted.")


def _turns(app: Interlock) -> list[StoredTurn]:
    redact = app.redactor.text
    return [
        replace(turn, question=turn.question and redact(turn.question), options=tuple(map(redact, turn.options)))
        for turn in list_suspended_turns(app.settings)
    ]


def _find(app: Interlock, session: str, agent: str | None) -> StoredTurn:
    name = find(agent).name if agent is not None and ":" in agent else agent
    found = [turn for turn in _turns(app) if turn.session == session and name in {None, turn.agent}]
    if not found:
        raise NothingWaits(f"There is no suspended turn in session '{session}'{f' of {name}' if name else ''}.")
    if len(found) > 1:
        agents = ", ".join(turn.agent for turn in found)
        raise InputSchema(f"Several agents have a suspended turn in session '{session}': {agents}. Fix: name one by '--agent'.")
    return found[0]


def _in_a_line(turn: StoredTurn) -> str:
    if turn.error is not None:
        return f"cannot be read ({turn.error})"
    options = f" [{' | '.join(turn.options)}]" if turn.options else ""
    return " ".join(safe(f"{turn.question}{options}").split())
