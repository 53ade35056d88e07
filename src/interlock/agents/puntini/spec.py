"""What a goal is, what a step is, what went wrong: the types that models are asked for and nodes pass on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from interlock.capabilities.graph_store import Changed

__all__ = [
    "ABORT",
    "MORE",
    "OPTIONS",
    "RETRY",
    "RUN",
    "SKIP",
    "ConstraintSpec",
    "Diagnosis",
    "Done",
    "EntitySpec",
    "EscalateContext",
    "Failure",
    "Finished",
    "GoalSpec",
    "ParsedGoal",
    "Pending",
    "StepPlan",
    "TodoItem",
    "ToolResult",
    "ToolSignature",
]

Share = Annotated[float, Field(ge=0, le=1)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class EntitySpec(_Record):
    """Something that a goal names."""

    name: str
    type: Literal["node", "edge", "property", "query", "unknown"]
    label: str | None = None
    properties: dict[str, JsonValue] = {}
    confidence: Share = 1.0


class ConstraintSpec(_Record):
    """Something that a goal demands."""

    type: str
    description: str
    applies_to: str | None = None
    severity: Literal["info", "warning", "error"] = "error"


class TodoItem(_Record):
    """One thing that has to be done for a goal."""

    description: str
    status: Literal["planned", "done"] = "planned"
    step_number: Annotated[int, Field(ge=1)] | None = None
    dependencies: list[int] = []
    tool_name: str | None = None


class GoalSpec(_Record):
    """What is wanted.

    `requires_human_input` is a goal that cannot be worked on before a person says more; the notes say why. Such a goal ends in an answer,
    unless it has a `question` for the person: with `choices`, or about one thing that has to be named. `reply` is what to say at once
    to what is no goal: a greeting, a request that has nothing to do with the graph, words that were not understood. Nobody is asked.
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
        """Whether one call of a tool is all that it takes."""
        small = len(self.entities) <= 2 and len(self.constraints) <= 1 and self.estimated_steps == 1  # noqa: PLR2004 - the document's
        return self.complexity == "simple" and small


class ToolSignature(_Record):
    """A call of a tool that is wanted."""

    tool_name: str
    tool_args: dict[str, JsonValue] = {}
    reasoning: str = ""
    confidence: Share = 1.0
    expected_outcome: str = ""


class ParsedGoal(_Record):
    """What a model makes of a goal; for a simple one with the call that does it.

    For any other goal `tool` is its first call, and `then` are all the calls that follow, where they are known already. Without
    `tool` the calls are planned step by step.
    """

    goal: GoalSpec
    tool: ToolSignature | None = None
    then: list[ToolSignature] = []


class StepPlan(_Record):
    """The next step, and in `then` the calls that follow it, where they are known already. The last of these is the final step."""

    step_number: Annotated[int, Field(ge=1)]
    tool_signature: ToolSignature
    is_final_step: bool
    then: list[ToolSignature] = []
    next_step_hint: str = ""
    overall_progress: Share = 0.0


class ToolResult(_Record):
    """What came of a call."""

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
    """What went wrong, and in which node. The step counts those that have succeeded: failures of one step are compared."""

    node: str
    step: int
    tool: str
    error_type: str
    message: str
    transient: bool = False
    named: str = ""
    """The name that could be one of several nodes, as it stands in the call."""
    candidates: tuple[str, ...] = ()
    """The nodes that it could be, each as 'Label:key'."""
    approval: str = ""
    """The exact text that a person has to approve before it is run."""


class Diagnosis(_Record):
    """Of what kind a failure is, by what it is recognised, and what helps."""

    kind: Literal["identical", "systematic", "random"]
    signature: tuple[str, str, str]
    remedy: Literal["replan", "repeat", "escalate"]


class Done(_Record):
    """A step that succeeded."""

    step: int
    call: ToolSignature
    result: JsonValue = None
    changed: Changed | None = None


RETRY, SKIP, ABORT, MORE = "retry with a different approach", "skip this step and continue", "abort", "provide more context"
RUN = "yes, run it"
OPTIONS = (RETRY, SKIP, ABORT, MORE)
"""What a person can choose."""


class EscalateContext(_Record):
    """What a person is told, what was said, and what became of the steps that were done."""

    reason: str
    error: str
    options: tuple[str, ...] = OPTIONS
    recommended_action: str = RETRY
    was_asked: bool = False
    """Whether there was a question for a person."""
    choice: str | None = None
    """What the person said; None where nobody could be asked, or there was nothing to ask."""
    taken_back: bool = False
    """Whether what the goal had changed was undone."""
    stays: str = ""
    """Why what the goal had changed was not undone, where that was tried."""
    left_out: str = ""
    """The last step, where the person said to leave it out."""
    goes_on: bool = False
    """Whether the goal goes on with the next run."""


class Pending(_Record):
    """A goal that goes on in the next run of the session. It is bound to this goal, and dropped when another one comes."""

    goal: str
    follows: bool
    """Whether the next run begins at once, because a person has answered. Else it begins when the person asks for it."""
    said: str = ""
    """What the person said about this goal; the model is told."""
    meant: str = ""
    """What the person said, as a sentence of the report."""
    spec: GoalSpec | None = None
    """None where the goal has to be understood anew."""
    done: tuple[Done, ...] = ()
    queue: tuple[ToolSignature, ...] = ()
    is_complete: bool = False
    """Whether the goal is done when the queue is."""
    skipped: tuple[str, ...] = ()
    approved: str = ""
    """The exact text that the person has approved."""


class Finished(_Record):
    """The last goal that changed the graph, with its changes in their order: what 'undo' takes back."""

    goal: str
    changes: tuple[Changed, ...]
