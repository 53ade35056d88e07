"""The session of the desk: its goals, the active one, and the rules of a valid session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

__all__ = [
    "DOMAINS",
    "MAX_CONVERSATION",
    "MAX_CONVERSATION_BYTES",
    "MAX_SAID",
    "Data",
    "Domain",
    "Goal",
    "GoalId",
    "GoalStatus",
    "GoalType",
    "Said",
    "SessionState",
    "Slots",
    "domain_of",
    "faults",
    "with_exchange",
]

MAX_CONVERSATION = 20
"""How many messages of the conversation a session keeps: the last ones, of the customer and of the desk."""

MAX_CONVERSATION_BYTES = 16 * 1024
"""How many bytes of text those messages have together at most."""

MAX_SAID = 2_000
"""How many characters are kept of one message. A longer one is cut and ends in an ellipsis."""

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


class Said(BaseModel):
    """One message of the conversation."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    who: Literal["customer", "desk"]
    text: str


class SessionState(BaseModel):
    """The stored session. The stack has every unfinished goal, with the active one last.

    Without a `customer_id` no memories are kept between sessions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    session_id: str
    workspace_id: str
    customer_id: str | None = None
    channel_type: str
    active_goal_id: GoalId | None = None
    goal_stack: list[GoalId] = []
    goals: dict[GoalId, Goal] = {}
    conversation: list[Said] = []
    version: Annotated[int, Field(ge=0)] = 0
    updated_at: str

    @property
    def active_goal(self) -> Goal | None:
        """The active goal."""
        return self.goals.get(self.active_goal_id or "")


def domain_of(goal_type: str) -> Domain | None:
    """Return the specialist of a goal."""
    return next((domain for domain in DOMAINS if goal_type.startswith(f"{domain}.")), None)


def with_exchange(session: SessionState, message: str, reply: str) -> SessionState:
    """Add a message and its reply to the conversation. The oldest messages are dropped when it gets too long."""
    said = [*session.conversation, Said(who="customer", text=_cut(message))]
    if reply.strip():
        said.append(Said(who="desk", text=_cut(reply.strip())))
    said = said[-MAX_CONVERSATION:]
    while sum(len(one.text.encode()) for one in said) > MAX_CONVERSATION_BYTES:
        said.pop(0)
    return session.model_copy(update={"conversation": said})


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SAID else f"{text[: MAX_SAID - 1]}…"


def faults(session: SessionState) -> Iterator[str]:
    """Return everything that makes a session invalid."""
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
