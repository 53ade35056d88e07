"""What the desk's five graphs know, and what can have happened in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from interlock.capabilities import Message, ModelReply
from interlock.contract import Outcome, Untrusted
from interlock_agents.desk.roles import PlannerRequest, PlannerResponse, SpecialistRequest, SpecialistResponse
from interlock_agents.desk.session import Domain, SessionState

__all__ = [
    "Accepted",
    "Asked",
    "Blocked",
    "Chosen",
    "Dispatched",
    "Free",
    "Loaded",
    "Offered",
    "OrchestratorState",
    "Parsed",
    "PlanApplied",
    "Planned",
    "PlannerState",
    "Recalled",
    "Remembered",
    "Replied",
    "Responded",
    "RuntimeState",
    "Said",
    "Saved",
    "Spoken",
    "StructuredState",
    "ToolPlanningState",
    "Understood",
    "UpdatesApplied",
]


@dataclass
class PlannerState:
    """planner.model_graph."""

    request: PlannerRequest
    messages: tuple[Message, ...]
    text: Annotated[str, Untrusted]
    response: Annotated[PlannerResponse | None, Untrusted] = None


class Asked(Outcome):
    """What is put to the model."""

    messages: tuple[Message, ...]


class Said(Outcome):
    """What the model said, as it said it."""

    text: str


class Understood(Outcome):
    """A plan."""

    response: PlannerResponse


@dataclass
class StructuredState:
    """specialist.structured_graph."""

    specialist: Domain
    payload: Annotated[str, Untrusted]
    messages: tuple[Message, ...]
    text: Annotated[str, Untrusted]
    response: Annotated[SpecialistResponse | None, Untrusted] = None


class Parsed(Outcome):
    """An answer."""

    response: SpecialistResponse


@dataclass
class ToolPlanningState:
    """specialist.tool_planning_graph."""

    specialist: Domain
    payload: Annotated[str, Untrusted]
    messages: tuple[Message, ...]
    reply: Annotated[ModelReply | None, Untrusted] = None


class Chosen(Outcome):
    """Calls of tools, or an answer without."""

    reply: ModelReply


@dataclass
class RuntimeState:
    """specialist.runtime_graph."""

    specialist: Domain
    request: SpecialistRequest
    payload: Annotated[str, Untrusted]
    response: Annotated[SpecialistResponse | None, Untrusted] = None


class Free(Outcome):
    """Nothing is missing, and no tool has run: tools may."""

    payload: str


class Blocked(Outcome):
    """Something is missing, or tools have run: it is time to say something."""

    payload: str


class Offered(Outcome):
    """Tools that are wanted."""

    response: SpecialistResponse


class Spoken(Outcome):
    """No tool is wanted: the request, with what the model said instead."""

    payload: str


class Responded(Outcome):
    """A message, and what changes."""

    response: SpecialistResponse


@dataclass
class OrchestratorState:
    """orchestrator.handle_message."""

    session_id: str
    text: Annotated[str, Untrusted]
    message: Annotated[str, Untrusted]
    now: str
    session: SessionState
    plan: Annotated[PlannerResponse, Untrusted]
    response: Annotated[SpecialistResponse, Untrusted]
    workspace_id: str | None = None
    customer_id: str | None = None
    channel_type: str | None = None
    subject: str | None = None
    memory_summary: Annotated[str | None, Untrusted] = None
    resumed: Annotated[str | None, Untrusted] = None
    reply: Annotated[str | None, Untrusted] = None


class Accepted(Outcome):
    """A message that can be worked on."""

    message: str


class Loaded(Outcome):
    """The session as it was kept, or a new one; whose memory goes with it, if there is a customer; and the time."""

    session: SessionState
    subject: str | None
    now: str


class Recalled(Outcome):
    """What is remembered of the customer."""

    memory_summary: str | None


class Planned(Outcome):
    """Which goal the message is about."""

    plan: PlannerResponse


class PlanApplied(Outcome):
    """The session with that goal in its place."""

    session: SessionState


class Dispatched(Outcome):
    """What the specialist of the active goal says in the end."""

    response: SpecialistResponse


class UpdatesApplied(Outcome):
    """The session with what the specialist changed, and the open question of a goal that is resumed."""

    session: SessionState
    resumed: str | None


class Saved(Outcome):
    """The session as it is kept now."""

    session: SessionState


class Remembered(Outcome):
    """The memory is as it should be."""


class Replied(Outcome):
    """What the customer gets to read."""

    reply: str
