"""The JSON of Interlock's own REST API. OpenAPI is generated from these classes, and tests compare real responses with them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from interlock.runtime.turns import Policy, TurnStatus

__all__ = [
    "Agent",
    "AgentList",
    "Answer",
    "AnswerBody",
    "Call",
    "Edge",
    "EventPage",
    "Example",
    "ForkedFrom",
    "GraphShape",
    "Guarantee",
    "GuaranteeList",
    "Layout",
    "LayoutNode",
    "LeaseShape",
    "Me",
    "NodeShape",
    "PathStep",
    "Question",
    "ReplayResult",
    "SessionList",
    "SessionShape",
    "SessionSummary",
    "StateField",
    "Step",
    "StepList",
    "SubmitBody",
    "Tokens",
    "TurnFault",
    "TurnList",
    "TurnShape",
    "WorkerList",
    "WorkerShape",
]


class Me(BaseModel):
    """Who calls. A local caller has every role."""

    name: str
    tenant: str
    roles: list[str]
    is_local: bool


class StateField(BaseModel):
    """A field of a graph's state."""

    type: str
    labels: list[str]


class NodeShape(BaseModel):
    """The contract of a node. `goes` has the next node, or `END`, by outcome; `graphs` the graph behind a capability that it uses."""

    name: str
    summary: str
    reads: list[str]
    uses: list[str]
    writes: list[str]
    goes: dict[str, str]
    may_not: list[str]
    graphs: dict[str, str]


class LayoutNode(BaseModel):
    """Where to draw a node: a level from the top, and a column from the left."""

    name: str
    level: int
    column: int


class Edge(BaseModel):
    """An edge with its outcomes. `target` is null at the end of the graph; one that leads back is drawn beside the others."""

    source: str
    target: str | None
    outcomes: list[str]
    is_back: bool


class Layout(BaseModel):
    """A graph as data for drawing, top down."""

    levels: int
    columns: int
    nodes: list[LayoutNode]
    edges: list[Edge]


class GraphShape(BaseModel):
    """A graph with its contracts."""

    name: str
    entry: str
    takes: list[str]
    gives: str | None
    max_steps: int
    state: dict[str, StateField]
    nodes: list[NodeShape]
    layout: Layout


class Example(BaseModel):
    """Something to say to an agent, what it shows, and the role by which the agent is entered then."""

    text: str
    shows: str
    role: str | None


class Agent(BaseModel):
    """An agent. `roles` are those by which the caller may enter it; an agent without roles has none."""

    agent: str
    summary: str
    roles: list[str]
    has_sessions: bool
    pauses: bool
    speaks: list[str]
    graphs: list[GraphShape] = []
    """Empty in a list of agents."""
    examples: list[Example] = []
    """Empty in a list of agents."""


class AgentList(BaseModel):
    """The agents that the caller may use."""

    agents: list[Agent]


class SubmitBody(BaseModel):
    """A turn to be run. `input` is text, or the input fields of the graph."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    agent: str
    input: str | dict[str, Any]
    session: str | None = None
    role: str | None = None
    policy: Policy = "enqueue"
    due: float | None = Field(None, ge=0, le=1e11, allow_inf_nan=False)


class AnswerBody(BaseModel):
    """A person's answer to the question of a turn."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    text: str


class TurnFault(BaseModel):
    """The error that a turn ended with."""

    code: str
    message: str
    node: str | None = None


class Question(BaseModel):
    """What a suspended turn asks a person. An answer to a question with a schema is JSON that fits it."""

    model_config = ConfigDict(serialize_by_alias=True)

    question: str
    options: list[str]
    recommended: str | None
    to: str | None = None
    answer_schema: dict[str, Any] | None = Field(None, alias="schema")


class Answer(BaseModel):
    """The last answer of a person."""

    text: str
    by: str | None


class ForkedFrom(BaseModel):
    """The step of another turn from which a turn was run again."""

    turn: str
    step: int


class TurnShape(BaseModel):
    """A turn. Times are in UTC. `state`, `input` and `forked_from` are null in lists."""

    turn: str
    agent: str
    graph: str
    role: str | None
    session: str
    position: int
    status: TurnStatus
    principal: str | None
    key: str | None
    attempts: int
    created: str
    started: str | None
    ended: str | None
    output: Any = None
    error: TurnFault | None = None
    waiting: Question | None = None
    answer: Answer | None = None
    path: list[str] = []
    usage: dict[str, int | None] = {}
    metadata: dict[str, Any] = {}
    input: dict[str, Any] | None = None
    state: dict[str, Any] | None = None
    forked_from: ForkedFrom | None = None


class TurnList(BaseModel):
    """Turns, newest first. `next` is the `before` of the next page."""

    turns: list[TurnShape]
    next: str | None = None


class SessionSummary(BaseModel):
    """A session, by its last turn. `said` is how its first input begins, or a later one where the first is long ago."""

    agent: str
    session: str
    turns: int
    status: TurnStatus
    last_turn: str
    said: str
    changed: str


class SessionList(BaseModel):
    """Sessions, the one with the newest turn first."""

    sessions: list[SessionSummary]


class SessionShape(SessionSummary):
    """A session with the state that its last turn left, without secret fields."""

    state: dict[str, Any] | None


class EventPage(BaseModel):
    """Events of a turn in the v2 shape of LangChain's `astream_events`. `next` is the `after` of the next request."""

    turn: str
    status: TurnStatus
    events: list[dict[str, Any]]
    next: int


class Call(BaseModel):
    """A model or tool call of a step. `ms` is how long it took."""

    kind: Literal["model", "tool"]
    name: str
    input: Any = None
    output: Any = None
    error: dict[str, Any] | None = None
    ms: int | None = None


class Tokens(BaseModel):
    """The tokens of a step's model calls, as far as their providers counted them."""

    input_tokens: int | None
    output_tokens: int | None


class Step(BaseModel):
    """One run of one node: what it read, wrote and called. `depth` is 0 for a node of the entry graph.

    `started_ms` counts from the start of the turn, `ms` is how long the step took. `tokens` is null where no model counted any.
    """

    number: int
    node: str
    depth: int
    status: Literal["running", "success", "error"]
    reads: dict[str, Any]
    writes: dict[str, Any]
    calls: list[Call]
    error: dict[str, Any] | None = None
    started_ms: int
    ms: int | None = None
    tokens: Tokens | None = None
    first_event: int
    last_event: int | None


class StepList(BaseModel):
    """The steps of a turn."""

    turn: str
    status: TurnStatus
    steps: list[Step]


class ReplayResult(BaseModel):
    """How a turn that was replayed differs from its record."""

    turn: str
    is_same: bool
    differences: list[str]


class PathStep(BaseModel):
    """A node of a path through a graph, and the outcome that it returns there. `node` is null at the end of the graph."""

    node: str | None
    outcome: str | None


class Guarantee(BaseModel):
    """A guarantee of an agent: whether it holds, how that is known, and what was looked at.

    `graph` is null if it is about the whole agent. One that the prover found broken has the code of the fault, the node where it is, and,
    if it is a claim about paths, the shortest path that breaks it.
    """

    guarantee: str
    holds: bool
    how: Literal["proved", "agrees", "decided", "seen", "trusted"]
    proof: str
    graph: str | None = None
    code: str | None = None
    node: str | None = None
    path: list[PathStep] = []


class GuaranteeList(BaseModel):
    """The guarantees of an agent. `holds` if all of them hold."""

    agent: str
    holds: bool
    guarantees: list[Guarantee]


class LeaseShape(BaseModel):
    """A worker's right to run a turn. `seconds` are left until it is over; a worker that lives renews it before."""

    turn: str
    agent: str
    session: str
    position: int
    attempts: int
    seconds: float


class WorkerShape(BaseModel):
    """A process that runs turns at the moment, with its leases."""

    worker: str
    turns: list[str]
    leases: list[LeaseShape]
    is_this: bool


class WorkerList(BaseModel):
    """The workers."""

    workers: list[WorkerShape]
