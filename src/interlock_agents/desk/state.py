"""The states and outcomes of the desk's five graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from interlock.capabilities import Message, ModelReply
from interlock.contract import Control, Outcome, Trusted, Untrusted
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

    request: Annotated[PlannerRequest, Untrusted]
    messages: Annotated[tuple[Message, ...], Untrusted]
    text: Annotated[str, Untrusted]
    response: Annotated[PlannerResponse | None, Untrusted] = None


class Asked(Outcome):
    """The prompt."""

    messages: tuple[Message, ...]


class Said(Outcome):
    """The text of the model."""

    text: str


class Understood(Outcome):
    """A plan."""

    response: PlannerResponse


@dataclass
class StructuredState:
    """specialist.structured_graph."""

    specialist: Annotated[Domain, Control]
    payload: Annotated[str, Untrusted]
    messages: Annotated[tuple[Message, ...], Untrusted]
    text: Annotated[str, Untrusted]
    response: Annotated[SpecialistResponse | None, Untrusted] = None


class Parsed(Outcome):
    """An answer."""

    response: SpecialistResponse


@dataclass
class ToolPlanningState:
    """specialist.tool_planning_graph."""

    specialist: Annotated[Domain, Control]
    payload: Annotated[str, Untrusted]
    messages: Annotated[tuple[Message, ...], Untrusted]
    reply: Annotated[ModelReply | None, Untrusted] = None


class Chosen(Outcome):
    """Tool calls, or an answer without them."""

    reply: ModelReply


@dataclass
class RuntimeState:
    """specialist.runtime_graph."""

    specialist: Annotated[Domain, Control]
    request: Annotated[SpecialistRequest, Untrusted]
    payload: Annotated[str, Untrusted]
    response: Annotated[SpecialistResponse | None, Untrusted] = None


class Free(Outcome):
    """Nothing is missing and no tool has run, so tools may be used."""

    payload: str


class Blocked(Outcome):
    """Something is missing or tools have run, so the specialist must answer."""

    payload: str


class Offered(Outcome):
    """The requested tools."""

    response: SpecialistResponse


class Spoken(Outcome):
    """No tool is requested: the request, with the text of the model."""

    payload: str


class Responded(Outcome):
    """A message and updates."""

    response: SpecialistResponse


@dataclass
class OrchestratorState:
    """orchestrator.handle_message."""

    session_id: Annotated[str, Untrusted]
    text: Annotated[str, Untrusted]
    message: Annotated[str, Untrusted]
    now: Annotated[str, Trusted]
    session: Annotated[SessionState, Untrusted]
    plan: Annotated[PlannerResponse, Untrusted]
    response: Annotated[SpecialistResponse, Untrusted]
    workspace_id: Annotated[str | None, Untrusted] = None
    customer_id: Annotated[str | None, Untrusted] = None
    channel_type: Annotated[str | None, Untrusted] = None
    subject: Annotated[str | None, Untrusted] = None
    memory_summary: Annotated[str | None, Untrusted] = None
    resumed: Annotated[str | None, Untrusted] = None
    reply: Annotated[str | None, Untrusted] = None


class Accepted(Outcome):
    """A valid message."""

    message: str


class Loaded(Outcome):
    """The stored session or a new one, the name of the customer's memory if there is a customer, and the time."""

    session: SessionState
    subject: str | None
    now: str


class Recalled(Outcome):
    """The memories of the customer."""

    memory_summary: str | None


class Planned(Outcome):
    """The goal of the message."""

    plan: PlannerResponse


class PlanApplied(Outcome):
    """The session with that goal on the stack."""

    session: SessionState


class Dispatched(Outcome):
    """The final response of the specialist."""

    response: SpecialistResponse


class UpdatesApplied(Outcome):
    """The session with the specialist's updates, and the open question of a resumed goal."""

    session: SessionState
    resumed: str | None


class Saved(Outcome):
    """The saved session."""

    session: SessionState


class Remembered(Outcome):
    """The memory is written."""


class Replied(Outcome):
    """The reply to the customer."""

    reply: str
