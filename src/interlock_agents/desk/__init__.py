"""desk: sales and support; goals that interrupt and resume; the session in Redis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.agent import Agent
from interlock.errors import InputSchema
from interlock.reply import Reply
from interlock_agents.desk.copying import copy_session
from interlock_agents.desk.graph import GRAPHS, SUBGRAPHS, handle_message
from interlock_agents.desk.invariants import INVARIANTS
from interlock_agents.desk.offline import DeskRules
from interlock_agents.desk.providers import PROVIDERS
from interlock_agents.desk.roles import GIVEN_UP
from interlock_agents.desk.session import SessionState
from interlock_agents.desk.settings import DeskSettings

__all__ = ["agent"]


def _admit(given: str | Mapping[str, Any], session: str) -> Mapping[str, Any]:
    fields = {"text": given} if isinstance(given, str) else given
    if "text" not in fields:
        raise InputSchema("The input has no 'text', which is what the customer says.")
    if fields.get("session_id", session) != session:
        raise InputSchema("The session is named beside the input, by 'session', not in it.")
    return {**fields, "session_id": session}


def _reply(state: Mapping[str, Any]) -> Reply:
    session: SessionState = state["session"]
    goal = session.active_goal
    active = {"goal": goal.type, "status": goal.status} if goal is not None else None
    opened = [session.goals[name].model_dump(include={"id", "type", "status", "next_question"}) for name in reversed(session.goal_stack)]
    return Reply(output=state["reply"], metadata={"active_goal": active, "open_goals": opened, "version": session.version})


agent = Agent(
    name="desk",
    summary="sales and support; goals that interrupt and resume; the session in Redis",
    graphs=GRAPHS,
    entries={None: handle_message},
    parse_input=_admit,
    identity="customer_id",
    reply=_reply,
    speaks="finalize_reply",
    offline=DeskRules(),
    subgraphs=SUBGRAPHS,
    has_sessions=True,
    pauses=True,
    abort=GIVEN_UP,
    providers=PROVIDERS,
    settings=DeskSettings,
    copy_session=copy_session,
    document=Path(__file__).with_name("document.md"),
    invariants=INVARIANTS,
    scenes=Path(__file__).with_name("scenes.toml"),
)
