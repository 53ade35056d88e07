"""The capabilities of the desk's planner and specialists, with their requests and responses. A graph implements each."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_validator

from interlock.capabilities import Capability, ModelReply, ToolResult
from interlock_agents.desk.session import Data, Domain, Goal, GoalId, GoalType, Said, SessionState, Slots, domain_of

__all__ = [
    "AT_ONCE",
    "GIVEN_UP",
    "PERSON",
    "PRIORITIES",
    "SMALL_TALK",
    "PersonAsked",
    "PlannedGoal",
    "Planner",
    "PlannerRequest",
    "PlannerResponse",
    "SalesSpecialist",
    "SpecialistRequest",
    "SpecialistResponse",
    "StateUpdates",
    "StructuredSpecialist",
    "SupportSpecialist",
    "ToolPlanner",
    "WantedTool",
]

PRIORITIES: dict[Domain, int] = {"support": 100, "sales": 50}
"""How urgent a goal is where the planner does not say."""

SMALL_TALK = "support.small_talk"
"""A greeting, thanks or a goodbye: it is answered, and done."""

PERSON = "support.person"
"""The customer wants to talk to a person: one is asked, and the answer is reported."""

GIVEN_UP = "(given up before anybody answered)"
"""Replaces the answer of a person if the customer has sent another message before it came."""

AT_ONCE = (SMALL_TALK, PERSON)
"""Goals that come before everything else and end with the turn, whatever the specialist says."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PlannerRequest(_Record):
    """The input of the planner."""

    user_message: str
    memory_summary: str | None
    session: SessionState
    now: str


class PlannedGoal(_Record):
    """The goal of the customer's message: an existing one, by its id, or a new one."""

    goal_id: GoalId | None = None
    goal_type: GoalType
    priority: Annotated[int, Field(gt=0)] | None = None
    slots_patch: Slots | None = None
    missing: list[str] | None = None
    next_question: str | None = None

    @model_validator(mode="after")
    def _ask_for_what_is_missing(self) -> PlannedGoal:
        if self.missing and not (self.next_question and self.next_question.strip()):
            raise ValueError("something is missing and there is no question")
        return self

    @property
    def urgency(self) -> int:
        """The priority, or the default of the goal's domain."""
        domain = domain_of(self.goal_type)
        return self.priority or PRIORITIES[domain or "sales"]


class PlannerResponse(_Record):
    """The output of the planner."""

    goal: PlannedGoal


class WantedTool(_Record):
    """A tool call that a specialist requests."""

    tool: str
    args: dict[str, Data] = {}


class StateUpdates(_Record):
    """Changes that a specialist requests: of the goal, and of the customer's memories."""

    slots_patch: Slots = {}
    set_status: Literal["active", "blocked", "done"] | None = None
    missing: list[str] | None = None
    next_question: str | None = None
    memory_update: str | None = None
    mark_done: bool = False


class PersonAsked(_Record):
    """The answer of a person; None if no person can be asked or answered in time.

    It is `given_up` if the customer sent another message before the answer.
    """

    answer: str | None
    given_up: bool = False


class SpecialistRequest(_Record):
    """The input of a specialist, with tool results in the second call.

    `conversation` has the messages before this one. `said` is the specialist's reply when it was offered tools and
    chose none. `person` has a value if the customer asked for a person.
    """

    user_message: str
    memory_summary: str | None
    conversation: list[Said] = []
    active_goal: Goal
    person: PersonAsked | None = None
    said: str | None = None
    tool_results: list[ToolResult] | None = None


class SpecialistResponse(_Record):
    """What a specialist says: a message, or tools that it wants run before it says anything."""

    message: str = ""
    tool_requests: list[WantedTool] | None = None
    state_updates: StateUpdates | None = None


class Planner(Capability, Protocol):
    """Finds the goal of a message."""

    async def plan(self, request: PlannerRequest) -> PlannerResponse:
        """Return the goal of a message."""
        ...


class SalesSpecialist(Capability, Protocol):
    """Works on `sales.*` goals."""

    async def respond(self, request: SpecialistRequest) -> SpecialistResponse:
        """Reply to the customer, or request tools."""
        ...


class SupportSpecialist(Capability, Protocol):
    """Works on `support.*` goals."""

    async def respond(self, request: SpecialistRequest) -> SpecialistResponse:
        """Reply to the customer, or request tools."""
        ...


class StructuredSpecialist(Capability, Protocol):
    """A specialist's model that answers in JSON."""

    async def answer(self, specialist: Domain, payload: str) -> SpecialistResponse:
        """Ask for missing fields, or finish the goal."""
        ...


class ToolPlanner(Capability, Protocol):
    """A specialist's model that chooses tools."""

    async def choose(self, specialist: Domain, payload: str) -> ModelReply:
        """Choose tools, or answer without them."""
        ...
