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
    "Called",
    "Complete",
    "ComplexGoal",
    "Escalated",
    "Exhausted",
    "GiveUp",
    "NotCalled",
    "NotPlanned",
    "PuntiniState",
    "Refused",
    "Reported",
    "Resumed",
    "Retry",
    "Routed",
    "SimpleGoal",
    "StepDone",
    "StepFailed",
    "StepPlanned",
    "Unclear",
]

Remedy = Literal["none", "replan", "repeat", "escalate"]


@dataclass
class PuntiniState:
    """puntini."""

    goal: Annotated[str, Untrusted]
    session_id: Annotated[str, Untrusted]
    pending: Annotated[Pending | None, Untrusted] = None
    """The goal of an earlier turn that is not done yet."""
    last: Annotated[Finished | None, Untrusted] = None
    """The last goal that changed the graph, for 'undo'."""
    person: Annotated[str, Untrusted] = ""
    """What a person said about this goal."""
    meant: Annotated[str, Untrusted] = ""
    """The same as a sentence of the report."""
    approved: Annotated[str, Untrusted] = ""
    """The exact text that a person has approved; only `escalate` writes it, by `pending`."""
    goal_spec: Annotated[GoalSpec | None, Untrusted] = None
    step_plan: Annotated[StepPlan | None, Untrusted] = None
    tool_signature: Annotated[ToolSignature | None, Untrusted] = None
    queue: Annotated[tuple[ToolSignature, ...], Untrusted] = ()
    """The calls that are planned to follow."""
    skipped: Annotated[tuple[str, ...], Untrusted] = ()
    """The steps that a person said to leave out."""
    tool_result: Annotated[ToolResult | None, Untrusted] = None
    done: Annotated[tuple[Done, ...], Untrusted, operator.add] = ()
    steps: Annotated[int, Trusted] = 0
    """How many of them there are: most nodes need no more, and what they read is copied."""
    begun: Annotated[int, Trusted] = 0
    """How many there were when this turn began."""
    told: Annotated[tuple[str, ...], Untrusted, operator.add] = ()
    """What a model is told of them: texts, which are not copied for every step that is planned."""
    failures: Annotated[tuple[Failure, ...], Untrusted, operator.add] = ()
    retry_count: Annotated[int, Trusted] = 0
    diagnosis: Annotated[Diagnosis | None, Untrusted] = None
    remedy: Annotated[Remedy, Control] = "none"
    escalation: Annotated[EscalateContext | None, Untrusted] = None
    final_answer: Annotated[str, Untrusted] = ""


class SimpleGoal(Outcome):
    """A goal that one call does."""

    goal: str
    goal_spec: GoalSpec
    tool_signature: ToolSignature
    person: str
    meant: str
    pending: None = None


class ComplexGoal(Outcome):
    """A goal that takes several calls: those of the queue, or planned step by step."""

    goal: str
    goal_spec: GoalSpec
    queue: tuple[ToolSignature, ...]
    person: str
    meant: str
    pending: None = None


class Resumed(Outcome):
    """The goal of an earlier turn goes on where it stopped."""

    goal: str
    goal_spec: GoalSpec | None
    step_plan: StepPlan | None
    queue: tuple[ToolSignature, ...]
    skipped: tuple[str, ...]
    done: tuple[Done, ...]
    steps: int
    begun: int
    told: tuple[str, ...]
    person: str
    meant: str
    approved: str
    pending: None = None


class Unclear(Outcome):
    """A goal that was not understood, or that cannot be worked on as it is."""

    goal_spec: GoalSpec | None
    failures: tuple[Failure, ...]
    retry_count: int
    person: str
    pending: None = None


class StepPlanned(Outcome):
    """The next step is known."""

    step_plan: StepPlan
    tool_signature: ToolSignature
    queue: tuple[ToolSignature, ...]
    remedy: Literal["none"] = "none"


class NotPlanned(Outcome):
    """There is no usable plan for the next step."""

    failures: tuple[Failure, ...]
    retry_count: int


class Routed(Outcome):
    """The call can be made."""


class Refused(Outcome):
    """There is no such tool, or it does not take such arguments."""

    failures: tuple[Failure, ...]
    retry_count: int


class Called(Outcome):
    """The tool has answered, also with an error of its own."""

    tool_result: ToolResult
    done: tuple[Done, ...]
    steps: int
    told: tuple[str, ...]


class NotCalled(Outcome):
    """The tool could not do anything now."""

    tool_result: ToolResult
    failures: tuple[Failure, ...]
    retry_count: int


class StepDone(Outcome):
    """The step succeeded, and there is more to do."""

    retry_count: Literal[0] = 0


class Complete(Outcome):
    """Everything is done."""


class StepFailed(Outcome):
    """The tool reported an error, and it may be tried another way."""

    failures: tuple[Failure, ...]
    retry_count: int


class Exhausted(Outcome):
    """The tool reported an error and nothing is left to try, or the turn has made as many calls as it may."""

    failures: tuple[Failure, ...]
    retry_count: int


class Retry(Outcome):
    """It is worth another try: by another plan, or by the same call."""

    diagnosis: Diagnosis
    remedy: Literal["replan", "repeat"]


class GiveUp(Outcome):
    """Another try would not help."""

    diagnosis: Diagnosis
    remedy: Literal["escalate"] = "escalate"


class Escalated(Outcome):
    """A person was asked, if there was one."""

    escalation: EscalateContext
    pending: Pending | None


class Reported(Outcome):
    """What was asked, done, changed, what failed and what is left."""

    final_answer: str
    last: Finished | None
