"""interlock sessions: the sessions with persisted fields on this machine."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any

import typer

from interlock.agent import Agent
from interlock.cli.screen import print_error, print_json, print_line, safe
from interlock.cli.stored import StoredSession, delete_checkpoints, list_checkpoint_sessions, unlisted_checkpoints
from interlock.cli.target import AgentArgument, YesOption, closing, confirm, find, open_app
from interlock.contract.schema import to_json
from interlock.discovery import AGENTS, load_agent
from interlock.errors import InputSchema, InterlockError
from interlock.runtime.events import hide
from interlock.settings import Settings

__all__ = ["sessions"]

sessions = typer.Typer(help="List, show and delete the sessions whose fields are persisted.", rich_markup_mode=None, add_completion=False)

SessionArgument = Annotated[str, typer.Argument(help="The session.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@sessions.callback(invoke_without_command=True)
def list_sessions(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the sessions: graph, session, number of turns, and when the last turn stored its fields.

    Sessions can be listed if they are in a SQLite file, which is the default. For other stores the command says which are not listed.
    """
    if context.invoked_subcommand is not None:
        return
    app = open_app()
    found, missing = list_checkpoint_sessions(app.settings), _not_listed(app.settings)
    if as_json:
        print_json({"sessions": [asdict(session) for session in found], "not_listed": missing}, indent=2)
        return
    for session in found:
        turns = f"{session.turns} turn{'' if session.turns == 1 else 's'}"
        print_line("\t".join((safe(session.graph), safe(session.session), turns, session.changed or "")))
    if not found:
        print_error("There are no sessions to list.")
    for reason in missing:
        print_error(f"Not listed: {safe(reason)}")


@sessions.command(name="show")
def show_session(agent: AgentArgument, session: SessionArgument, as_json: JsonOption = False) -> None:
    """Show the persisted fields of a session."""
    chosen = _persisting(agent)
    app = open_app()
    state = asyncio.run(closing(app, app.session_state(chosen, session=session, role=next(iter(chosen.entries)))))
    if state is None:
        raise InputSchema(f"Session '{session}' of '{chosen.name}' has no persisted fields.")
    secret = next(iter(chosen.entries.values())).state.secret
    fields: dict[str, Any] = app.redactor.redact_literals(to_json(hide(state, secret)))
    if as_json:
        print_json({"agent": chosen.name, "session": session, "fields": fields}, indent=2)
        return
    for name, value in fields.items():
        print_line(f"{name}\t{safe(value if isinstance(value, str) else str(value))}")


@sessions.command(name="delete")
def delete_session(agent: AgentArgument, session: SessionArgument, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Delete the persisted fields of a session. This cannot be undone."""
    chosen = _persisting(agent)
    settings = open_app().settings
    graphs = {graph.name for graph in chosen.entries.values()}
    found = [one for one in list_checkpoint_sessions(settings) if one.session == session and one.graph in graphs]
    if unlisted_checkpoints(settings) is not None:
        found = [StoredSession(graph=graph, session=session, turns=0, changed=None) for graph in sorted(graphs)]
    if not found:
        raise InputSchema(f"Session '{session}' of '{chosen.name}' has no persisted fields.")
    confirm(f"Delete the persisted fields of session '{session}' of {chosen.name}?", yes=yes)
    for one in found:
        asyncio.run(delete_checkpoints(settings, one))
    if as_json:
        print_json({"deleted": {"agent": chosen.name, "session": session}})
    else:
        print_line(f"The persisted fields of session '{safe(session)}' of {safe(chosen.name)} are deleted.")


def _persisting(agent: str) -> Agent:
    """Return an agent that persists fields. The sessions of any other agent are not in the checkpoints."""
    chosen = find(agent)
    if not chosen.persists:
        where = "keeps its sessions in a store of its own" if chosen.has_sessions else "has no sessions"
        raise InputSchema(f"Agent '{chosen.name}' {where}, so there is nothing to show or delete here.")
    return chosen


def _not_listed(settings: Settings) -> list[str]:
    """Return the sessions that exist elsewhere, in sentences."""
    reasons: list[str] = []
    place = unlisted_checkpoints(settings)
    if place is not None:
        reasons.append(f"the sessions in '{place}'. Only the sessions of a SQLite file can be listed.")
    others: list[str] = []
    for name in AGENTS:
        # An agent that cannot be loaded has no sessions.
        with suppress(InterlockError):
            agent = load_agent(name)
            others += [name] if agent.has_sessions and not agent.persists else []
    if others:
        reasons.append(f"the sessions of {', '.join(others)}, which are in a store of the agent's own (INTERLOCK_SESSION_URL).")
    return reasons
