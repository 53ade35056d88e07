"""puntini: turns a goal into steps that edit a property graph; diagnoses, tries again, asks a person."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.agent import Agent
from interlock.errors import InputSchema
from interlock.reply import Reply
from interlock_agents.puntini.copying import copy_session
from interlock_agents.puntini.graph import puntini
from interlock_agents.puntini.invariants import INVARIANTS
from interlock_agents.puntini.offline import PuntiniRules
from interlock_agents.puntini.providers import PROVIDERS
from interlock_agents.puntini.report import report
from interlock_agents.puntini.settings import PuntiniSettings
from interlock_agents.puntini.spec import ABORT
from interlock_agents.puntini.stored import STORED

__all__ = ["agent"]


def _parse_input(given: str | Mapping[str, Any], session: str) -> Mapping[str, Any]:
    fields = {"goal": given} if isinstance(given, str) else given
    if not isinstance(fields.get("goal"), str) or not fields["goal"].strip():
        raise InputSchema("The input has no 'goal', which is what is wanted.")
    if fields.get("session_id", session) != session:
        raise InputSchema("The session is named beside the input, by 'session', not in it.")
    return {**fields, "session_id": session}


def _reply(state: Mapping[str, Any]) -> Reply:
    escalation = state["escalation"]
    metadata = {
        "steps": len(state["done"]),
        "failures": len(state["failures"]),
        "escalated": escalation is not None,
        "next": None if state["pending"] is None else state["pending"].goal,
    }
    return Reply(output=state["final_answer"], metadata=metadata)


def _follow(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Go on at once with a goal that a person has answered a question about."""
    pending = state["pending"]
    return {"goal": pending.goal} if pending is not None and pending.follows else None


def _partial(state: Mapping[str, Any], _streamed: str) -> str | None:
    """Report what was done in a turn that was cut short."""
    done = state["done"]
    if not done:
        return None
    text = report(state["goal"], state["goal_spec"], meant="", skipped=(), done=done, failures=(), escalation=None)
    return f"{text}\n\nThe turn ended before the goal was done. Say the goal again: what is done already is not done twice."


agent = Agent(
    name="puntini",
    summary="a goal becomes steps on a property graph; diagnoses, tries again, asks a person",
    graphs=(puntini,),
    entries={None: puntini},
    parse_input=_parse_input,
    reply=_reply,
    speaks="answer",
    offline=PuntiniRules(),
    has_sessions=True,
    pauses=True,
    persists=("pending", "last"),
    follow=_follow,
    abort=ABORT,
    partial=_partial,
    providers=PROVIDERS,
    settings=PuntiniSettings,
    stored=STORED,
    copy_session=copy_session,
    document=Path(__file__).with_name("document.md"),
    invariants=INVARIANTS,
    scenes=Path(__file__).with_name("scenes.toml"),
)
