"""The types that models return and nodes pass on: goals, actions, failures, escalations."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from interlock.contract import guard
from interlock_agents.puntini.graph_store import Changed

__all__ = [
    "ABORT", "MORE", "OPTIONS", "RETRY", "RUN", "SKIP", "ConstraintSpec", "Diagnosis", "Done", "EntitySpec", "EscalateContext", "Failure",
    "Finished", "GoalSpec", "ParsedGoal", "Pending", "StepPlan", "TodoItem", "ToolResult", "ToolSignature", "is_simple",
]  # fmt: skip

Share = Annotated[float, Field(ge=0, le=1)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class EntitySpec(_Record):
    """An entity that a goal names."""

    name: str
    type: Literal["node", "edge", "property", "query", "unknown"]
    label: str | None = None
    properties: dict[str, JsonValue] = {}
    confidence: Share = 1.0


class ConstraintSpec(_Record):
    """A constraint that a goal states."""

    type: str
    description: str
    applies_to: str | None = None
    severity: Literal["info", "warning", "error"] = "error"


class TodoItem(_Record):
    """One item of a goal's plan."""

    description: str
    status: Literal["planned", "done"] = "planned"
    step_number: Annotated[int, Field(ge=1)] | None = None
    dependencies: list[int] = []
    tool_name: str | None = None


class GoalSpec(_Record):
    """A goal as the model understood it.

    `requires_human_input` marks a goal that needs more from a person; `parsing_notes` say why. Such a goal ends in an answer, unless it has
    a `question`: with `choices`, or about one name that is missing. `reply` answers at once a text that is not a goal (a greeting,
    a request that has nothing to do with the graph, or words that were not understood); then no person is asked.
    """

    original_goal: str
    intent: str
    complexity: Literal["simple", "medium", "complex"]
    entities: list[EntitySpec] = []
    constraints: list[ConstraintSpec] = []
    domain_hints: list[str] = []
    todo_list: list[TodoItem] = []
    estimated_steps: Annotated[int, Field(ge=1)] = 1
    requires_human_input: bool = False
    priority: Literal["low", "normal", "high"] = "normal"
    confidence: Share = 1.0
    parsing_notes: list[str] = []
    reply: str = ""
    question: str = ""
    choices: list[str] = []

    @property
    def is_simple(self) -> bool:
        """Whether one tool call is enough."""
        return is_simple(self)


@guard
def is_simple(goal: GoalSpec) -> bool:
    """Return whether one tool call is enough for a goal."""
    small = len(goal.entities) <= 2 and len(goal.constraints) <= 1 and goal.estimated_steps == 1  # noqa: PLR2004 - the document's
    return goal.complexity == "simple" and small


class ToolSignature(_Record):
    """A tool call to make."""

    tool_name: str
    tool_args: dict[str, JsonValue] = {}
    reasoning: str = ""
    confidence: Share = 1.0
    expected_outcome: str = ""


class ParsedGoal(_Record):
    """A model's answer to a goal.

    For a simple goal `tool` is the only call. For any other goal `tool` is the first call and `then` has all the others, if they are known
    already; without `tool` the calls are planned one by one.
    """

    goal: GoalSpec
    tool: ToolSignature | None = None
    then: list[ToolSignature] = []


class StepPlan(_Record):
    """The next call, and in `then` the calls that follow it, if they are known already. The last of these completes the goal."""

    step_number: Annotated[int, Field(ge=1)]
    tool_signature: ToolSignature
    is_final_step: bool
    then: list[ToolSignature] = []
    next_step_hint: str = ""
    overall_progress: Share = 0.0


class ToolResult(_Record):
    """The result of a tool call."""

    tool_name: str
    status: Literal["success", "error"]
    result: JsonValue = None
    error: str | None = None
    error_type: str | None = None
    execution_time: float = 0.0
    named: str = ""
    candidates: tuple[str, ...] = ()
    approval: str = ""


class Failure(_Record):
    """A failure and the node in which it happened. `step` counts completed actions: failures with the same count are compared."""

    node: str
    step: int
    tool: str
    error_type: str
    message: str
    transient: bool = False
    named: str = ""
    """The ambiguous name, as written in the call."""
    candidates: tuple[str, ...] = ()
    """The nodes that it can refer to, each as 'Label:key'."""
    approval: str = ""
    """The exact text that a person has to approve before it is run."""


class Diagnosis(_Record):
    """The kind of a failure, the signature that identifies it, and the remedy."""

    kind: Literal["identical", "systematic", "random"]
    signature: tuple[str, str, str]
    remedy: Literal["replan", "repeat", "escalate"]


class Done(_Record):
    """A completed action."""

    step: int
    call: ToolSignature
    result: JsonValue = None
    changed: Changed | None = None


RETRY, SKIP, ABORT, MORE = "retry with a different approach", "skip this step and continue", "abort", "provide more context"
RUN = "yes, run it"
OPTIONS = (RETRY, SKIP, ABORT, MORE)
"""The options that a person can choose from."""


class EscalateContext(_Record):
    """The question to a person, the answer, and what happened to the actions that were done."""

    reason: str
    error: str
    options: tuple[str, ...] = OPTIONS
    recommended_action: str = RETRY
    was_asked: bool = False
    """Whether there was a question for the person."""
    choice: str | None = None
    """The person's answer; None if no person could be reached or there was nothing to ask."""
    taken_back: bool = False
    """Whether the goal's changes were undone."""
    stays: str = ""
    """Why the goal's changes could not be undone."""
    left_out: str = ""
    """The last action, if the person said to skip it."""
    goes_on: bool = False
    """Whether the goal resumes in the next run."""


class Pending(_Record):
    """A goal that resumes in the next run of the session. It is dropped when the person states another goal."""

    goal: str
    follows: bool
    """Whether the next run starts at once, because a person has answered. Otherwise it starts when the person asks for it."""
    said: str = ""
    """The person's answer about this goal; it is part of the model's payload."""
    meant: str = ""
    """The person's answer, as a sentence of the report."""
    spec: GoalSpec | None = None
    """None if the goal has to be parsed again."""
    done: tuple[Done, ...] = ()
    queue: tuple[ToolSignature, ...] = ()
    is_complete: bool = False
    """Whether the goal is complete once the queue is empty."""
    skipped: tuple[str, ...] = ()
    approved: str = ""
    """The exact text that the person approved."""


class Finished(_Record):
    """The last goal that changed the graph, with its changes in order, for 'undo'."""

    goal: str
    changes: tuple[Changed, ...]
