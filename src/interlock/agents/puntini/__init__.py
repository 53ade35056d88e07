"""puntini: turns a goal into steps that edit a property graph; diagnoses, tries again, asks a person."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.agents.puntini.graph import puntini
from interlock.agents.puntini.invariants import INVARIANTS
from interlock.agents.puntini.offline import PuntiniRules
from interlock.errors import InputSchema
from interlock.runtime.agent import Agent
from interlock.runtime.reply import Reply

__all__ = ["agent"]


def _admit(given: str | Mapping[str, Any], session: str) -> Mapping[str, Any]:
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
        "next": state["goal"] if state["carried"] else None,
    }
    return Reply(output=state["final_answer"], metadata=metadata)


agent = Agent(
    name="puntini",
    summary="a goal becomes steps on a property graph; diagnoses, tries again, asks a person",
    graphs=(puntini,),
    entries={None: puntini},
    admit=_admit,
    reply=_reply,
    offline=PuntiniRules(),
    has_sessions=True,
    pauses=True,
    keeps=("carried",),
    document=Path(__file__).with_name("document.md"),
    invariants=INVARIANTS,
    scenes=Path(__file__).with_name("scenes.toml"),
)
