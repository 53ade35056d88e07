"""A session of the desk: its goals, which of them is worked on, and what makes it valid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

__all__ = ["DOMAINS", "Data", "Domain", "Goal", "GoalId", "GoalStatus", "GoalType", "SessionState", "Slots", "domain_of", "faults"]

Domain = Literal["sales", "support"]
DOMAINS: tuple[Domain, ...] = ("sales", "support")
GoalStatus = Literal["active", "blocked", "suspended", "done"]
GoalType = Annotated[str, Field(pattern=r"^(sales|support)\.[a-z0-9_.-]{1,64}$")]
GoalId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


def _finite(value: JsonValue) -> JsonValue:
    """Refuse the numbers that JSON does not have: NaN and infinity."""
    json.dumps(value, allow_nan=False)
    return value


Data: TypeAlias = Annotated[JsonValue, AfterValidator(_finite)]
Slots: TypeAlias = dict[str, Data]


class Goal(BaseModel):
    """Something that the customer wants."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: GoalId
    type: GoalType
    status: GoalStatus
    priority: Annotated[int, Field(gt=0)]
    slots: Slots = {}
    missing: list[str] = []
    next_question: str | None = None
    updated_at: str


class SessionState(BaseModel):
    """What is kept of a session. The stack has every goal that is not done, the one that is worked on last."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    session_id: str
    workspace_id: str
    customer_id: str
    channel_type: str
    active_goal_id: GoalId | None = None
    goal_stack: list[GoalId] = []
    goals: dict[GoalId, Goal] = {}
    version: Annotated[int, Field(ge=0)] = 0
    updated_at: str

    @property
    def active_goal(self) -> Goal | None:
        """The goal that is worked on."""
        return self.goals.get(self.active_goal_id or "")


def domain_of(goal_type: str) -> Domain | None:
    """Tell which specialist a goal is for."""
    return next((domain for domain in DOMAINS if goal_type.startswith(f"{domain}.")), None)


def faults(session: SessionState) -> Iterator[str]:
    """Find everything that makes a session invalid."""
    active = session.active_goal
    if session.active_goal_id is not None and active is None:
        yield f"the active goal '{session.active_goal_id}' does not exist"
    for name in session.goal_stack:
        if name not in session.goals:
            yield f"goal '{name}' of the stack does not exist"
    if len(set(session.goal_stack)) != len(session.goal_stack):
        yield "a goal is on the stack twice"
    if session.active_goal_id != (session.goal_stack[-1] if session.goal_stack else None):
        yield "the active goal is not the last one of the stack"
    for name, goal in session.goals.items():
        yield from _goal_faults(session, name, goal)


def _goal_faults(session: SessionState, name: str, goal: Goal) -> Iterator[str]:
    if goal.id != name:
        yield f"goal '{name}' says that it is '{goal.id}'"
    if goal.status == "blocked" and not (goal.missing and goal.next_question and goal.next_question.strip()):
        yield f"goal '{name}' is blocked with nothing missing or nothing to ask"
    if (goal.status == "done") == (name in session.goal_stack):
        yield f"goal '{name}' is {goal.status} and {'on' if name in session.goal_stack else 'not on'} the stack"
    if goal.status != "done" and (goal.status == "suspended") == (name == session.active_goal_id):
        yield f"goal '{name}' is {goal.status} and {'the' if name == session.active_goal_id else 'not the'} active one"
