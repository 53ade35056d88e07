"""The state of puntini and the outcomes of its nodes."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Literal

from interlock.contract import Control, Outcome, Trusted, Untrusted
from interlock_agents.puntini.spec import (
    Diagnosis,
    Done,
    EscalateContext,
    Failure,
    Finished,
    GoalSpec,
    Pending,
    StepPlan,
    ToolResult,
    ToolSignature,
)

__all__ = [
    "Called", "Complete", "ComplexGoal", "Escalated", "Exhausted", "GiveUp", "NotCalled", "NotPlanned", "PuntiniState", "Refused", "Remedy",
    "Reported", "Resumed", "Retry", "Routed", "SimpleGoal", "StepDone", "StepFailed", "StepPlanned", "Unclear",
]  # fmt: skip

Remedy = Literal["none", "replan", "repeat", "escalate"]


@dataclass
class PuntiniState:
    """The state of puntini."""

    goal: Annotated[str, Untrusted]
    session_id: Annotated[str, Untrusted]
    pending: Annotated[Pending | None, Untrusted] = None
    """The goal of an earlier turn that is not done yet."""
    last: Annotated[Finished | None, Untrusted] = None
    """The last goal that changed the graph, for 'undo'."""
    person: Annotated[str, Untrusted] = ""
    """The person's answer about this goal."""
    meant: Annotated[str, Untrusted] = ""
    """The person's answer, as a sentence of the report."""
    approved: Annotated[str, Untrusted] = ""
    """The exact text that a person has approved. Only `escalate` writes it, through `pending`."""
    goal_spec: Annotated[GoalSpec | None, Untrusted] = None
    step_plan: Annotated[StepPlan | None, Untrusted] = None
    tool_signature: Annotated[ToolSignature | None, Untrusted] = None
    queue: Annotated[tuple[ToolSignature, ...], Untrusted] = ()
    """The calls that are planned next."""
    skipped: Annotated[tuple[str, ...], Untrusted] = ()
    """The actions that a person said to skip."""
    tool_result: Annotated[ToolResult | None, Untrusted] = None
    done: Annotated[tuple[Done, ...], Untrusted, operator.add] = ()
    steps: Annotated[int, Untrusted] = 0
    """The number of completed actions. Most nodes read only this, because fields are copied for each node that reads them."""
    begun: Annotated[int, Untrusted] = 0
    """The number of completed actions when this turn began."""
    failures: Annotated[tuple[Failure, ...], Untrusted, operator.add] = ()
    retry_count: Annotated[int, Trusted] = 0
    diagnosis: Annotated[Diagnosis | None, Untrusted] = None
    remedy: Annotated[Remedy, Control] = "none"
    escalation: Annotated[EscalateContext | None, Untrusted] = None
    final_answer: Annotated[str, Untrusted] = ""


class _Failed(Outcome):
    failures: tuple[Failure, ...]
    retry_count: int


class SimpleGoal(Outcome):
    """The goal needs one call."""

    goal: str
    goal_spec: GoalSpec
    tool_signature: ToolSignature
    person: str
    meant: str
    pending: None = None


class ComplexGoal(Outcome):
    """The goal needs several calls: those of the queue, or calls that are planned one by one."""

    goal: str
    goal_spec: GoalSpec
    queue: tuple[ToolSignature, ...]
    person: str
    meant: str
    pending: None = None


class Resumed(Outcome):
    """The goal of an earlier turn resumes where it stopped."""

    goal: str
    goal_spec: GoalSpec | None
    step_plan: StepPlan | None
    queue: tuple[ToolSignature, ...]
    skipped: tuple[str, ...]
    done: tuple[Done, ...]
    steps: int
    begun: int
    person: str
    meant: str
    approved: str
    pending: None = None


class Unclear(Outcome):
    """The goal was not understood, or cannot be pursued as it is."""

    goal_spec: GoalSpec | None
    failures: tuple[Failure, ...]
    retry_count: int
    person: str
    pending: None = None


class StepPlanned(Outcome):
    """The next call is planned."""

    step_plan: StepPlan
    tool_signature: ToolSignature
    queue: tuple[ToolSignature, ...]
    remedy: Literal["none"] = "none"


class NotPlanned(_Failed):
    """The model returned no usable plan."""


class Routed(Outcome):
    """The call is valid."""


class Refused(_Failed):
    """The tool does not exist, or the arguments do not match its schema."""


class Called(Outcome):
    """The tool returned a result or an error."""

    tool_result: ToolResult
    done: tuple[Done, ...]
    steps: int


class NotCalled(_Failed):
    """The tool failed for a reason that may pass."""

    tool_result: ToolResult


class StepDone(Outcome):
    """The action succeeded, and the goal is not complete."""

    retry_count: Literal[0] = 0


class Complete(Outcome):
    """The goal is complete."""


class StepFailed(_Failed):
    """The tool returned an error, and retries are left."""


class Exhausted(_Failed):
    """The tool returned an error and no retries are left, or the turn has reached its limit of actions."""


class Retry(Outcome):
    """Plan again, or repeat the same call."""

    diagnosis: Diagnosis
    remedy: Literal["replan", "repeat"]


class GiveUp(Outcome):
    """A retry would not help."""

    diagnosis: Diagnosis
    remedy: Literal["escalate"] = "escalate"


class Escalated(Outcome):
    """A person was asked, if one could be reached."""

    escalation: EscalateContext
    pending: Pending | None


class Reported(Outcome):
    """The answer is written."""

    final_answer: str
    last: Finished | None
