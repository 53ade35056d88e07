"""The ten nodes of orchestrator.handle_message, in the order of the rows."""

from __future__ import annotations

import asyncio
import json
import re

from pydantic import ValidationError

from interlock.capabilities import (
    Clock,
    Human,
    Ids,
    MemoryReader,
    MemoryWriter,
    Question,
    SessionReader,
    SessionWriter,
    ToolGateway,
    ToolRequest,
    ToolResult,
)
from interlock.contract.schema import error_summary, strict_validator, try_validate
from interlock.errors import InputEmpty, InputSchema, InputTooLarge, ModelOutputInvalid, StoreCorrupt
from interlock_agents.desk.errors import StateInvalid
from interlock_agents.desk.goals import merged, with_plan, with_updates
from interlock_agents.desk.roles import (
    AT_ONCE,
    GIVEN_UP,
    PERSON,
    PersonAsked,
    Planner,
    PlannerRequest,
    PlannerResponse,
    SalesSpecialist,
    SpecialistRequest,
    SpecialistResponse,
    StateUpdates,
    SupportSpecialist,
    WantedTool,
)
from interlock_agents.desk.session import Domain, Said, SessionState, domain_of, faults, with_exchange
from interlock_agents.desk.state import (
    Accepted,
    Dispatched,
    Loaded,
    PlanApplied,
    Planned,
    Recalled,
    Remembered,
    Replied,
    Saved,
    UpdatesApplied,
)

__all__ = [
    "MAX_MEMORY",
    "MAX_TEXT",
    "apply_plan",
    "apply_state_updates",
    "dispatch_specialist",
    "finalize_reply",
    "load_or_create_state",
    "plan_goal",
    "read_memory",
    "validate_and_save_state",
    "validate_request",
    "write_memory",
]

MAX_TEXT = 32_000
"""How many characters a message may have."""

MAX_MEMORY = 4_000
"""How many characters are remembered of a customer; the oldest lines go first."""

MAX_TOOLS = 8
"""How many tools a specialist may want at once."""

_CHECK = strict_validator(SessionState)
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")


async def validate_request(session_id: str, text: str) -> Accepted:
    """Refuse an invalid session name, and an empty or too long message."""
    if not _SESSION.fullmatch(session_id):
        raise InputSchema("A session id is 1 to 64 letters, digits, '_' and '-'.")
    message = text.strip()
    if not message:
        raise InputEmpty("The message is empty.")
    if len(message) > MAX_TEXT:
        raise InputTooLarge(f"The message is over {MAX_TEXT:,} characters.")
    return Accepted(message=message)


async def load_or_create_state(
    session_id: str,
    workspace_id: str | None,
    customer_id: str | None,
    channel_type: str | None,
    *,
    sessions: SessionReader,
    clock: Clock,
) -> Loaded:
    """Load and validate the session, or create one."""
    now = (await clock.now()).isoformat()
    document = await sessions.load(session_id)
    if document is None:
        begun = SessionState(
            session_id=session_id,
            workspace_id=workspace_id or "default",
            customer_id=customer_id or None,
            channel_type=channel_type or "chat",
            updated_at=now,
        )
        return Loaded(session=begun, subject=_subject(begun), now=now)
    session = _valid(session_id, document)
    given = {"workspace_id": workspace_id, "customer_id": customer_id, "channel_type": channel_type}
    for name, value in given.items():
        if value and value != getattr(session, name):
            raise InputSchema(f"Session '{session_id}' is of another '{name}'.")
    return Loaded(session=session, subject=_subject(session), now=now)


def _subject(session: SessionState) -> str | None:
    """Return a unique name for the memory of a customer in a workspace."""
    return None if session.customer_id is None else json.dumps([session.workspace_id, session.customer_id])


def _valid(session_id: str, document: str) -> SessionState:
    """Validate a stored session."""
    try:
        session = SessionState.model_validate_json(document)
    except ValidationError as error:
        wrong = error_summary(error)
    else:
        wrong = "; ".join([*faults(session), *([] if session.session_id == session_id else ["it is of another session"])])
        if not wrong:
            return session
    raise StoreCorrupt(f"What is kept of session '{session_id}' is not valid: {wrong}.")


async def read_memory(subject: str | None, *, memory: MemoryReader) -> Recalled:
    """Read the memories of the customer, if the customer is known."""
    return Recalled(memory_summary=None if subject is None else await memory.recall(subject))


async def plan_goal(message: str, memory_summary: str | None, session: SessionState, now: str, *, planner: Planner) -> Planned:
    """Call the planner to find the goal of the message."""
    request = PlannerRequest(user_message=message, memory_summary=memory_summary, session=session, now=now)
    return Planned(plan=await planner.plan(request))


async def apply_plan(session: SessionState, plan: PlannerResponse, now: str, *, ids: Ids) -> PlanApplied:
    """Put the goal on the stack: it interrupts a less urgent one, or waits below the active one."""
    new_id = await ids.new() if plan.goal.goal_id is None else ""
    return PlanApplied(session=with_plan(session, plan.goal, new_id=new_id, now=now))


async def dispatch_specialist(
    message: str,
    memory_summary: str | None,
    session: SessionState,
    *,
    sales: SalesSpecialist,
    support: SupportSpecialist,
    tools: ToolGateway,
    human: Human,
) -> Dispatched:
    """Call the specialist of the active goal. If it requests tools, run them and call it once more.

    If the customer wants a person, one is asked first, with the conversation.
    """
    goal = session.active_goal
    domain = None if goal is None else domain_of(goal.type)
    if goal is None or domain is None:
        raise StateInvalid("There is no active 'sales.*' or 'support.*' goal.")
    specialist = sales if domain == "sales" else support
    person = await _asked_person(message, session, human) if goal.type == PERSON else None
    request = SpecialistRequest(
        user_message=message, memory_summary=memory_summary, conversation=session.conversation, active_goal=goal, person=person
    )
    first = await specialist.respond(request)
    if not first.tool_requests:
        return Dispatched(response=first)
    results = await _run(domain, first.tool_requests, tools)
    second = await specialist.respond(request.model_copy(update={"tool_results": results}))
    if second.tool_requests:
        raise ModelOutputInvalid("The specialist wants tools again after they have run.")
    updates = merged(first.state_updates, second.state_updates)
    return Dispatched(response=SpecialistResponse(message=second.message, state_updates=updates))


async def _asked_person(message: str, session: SessionState, human: Human) -> PersonAsked:
    """Show the conversation to a person, who writes the reply to the customer."""
    said = [*session.conversation, Said(who="customer", text=message)]
    lines = "\n".join(f"{one.who}: {one.text}" for one in said)
    asked = f"A customer asks for a person. The conversation so far:\n\n{lines}\n\nWhat is the answer to the customer?"
    answer = await human.ask(Question(text=asked, to="a colleague"))
    if answer == GIVEN_UP:
        return PersonAsked(answer=None, given_up=True)
    return PersonAsked(answer=answer if answer and answer.strip() else None)


async def _run(domain: Domain, wanted: list[WantedTool], tools: ToolGateway) -> list[ToolResult]:
    """Run tools concurrently. The first denied call ends the turn."""
    if len(wanted) > MAX_TOOLS:
        raise ModelOutputInvalid(f"The specialist wants {len(wanted)} tools at once; it may have {MAX_TOOLS}.")
    return await asyncio.gather(*(tools.run(domain, ToolRequest(tool=one.tool, args=one.args)) for one in wanted))


async def apply_state_updates(message: str, session: SessionState, response: SpecialistResponse, now: str) -> UpdatesApplied:
    """Apply the specialist's updates, resume the next goal if the active one is finished, and add both messages to the conversation."""
    before, resumed = session.active_goal, None
    if response.state_updates is not None or (before is not None and before.type in AT_ONCE):
        session = with_updates(session, response.state_updates or StateUpdates(), now=now)
        goal = session.active_goal
        if goal is not None and goal.status == "blocked" and (before is None or goal.id != before.id):
            resumed = goal.next_question
    return UpdatesApplied(session=with_exchange(session, message, _reply(response, resumed)), resumed=resumed)


def _reply(response: SpecialistResponse, resumed: str | None) -> str:
    """Append the open question of a resumed goal to the specialist's message."""
    message = response.message.strip()
    return message if resumed is None or not message else f"{message}\n\n{resumed}"


async def validate_and_save_state(session: SessionState, *, sessions: SessionWriter) -> Saved:
    """Save the session if it is valid and was not changed since it was loaded."""
    checked = try_validate(_CHECK, session)
    wrong = error_summary(checked) if isinstance(checked, ValidationError) else "; ".join(faults(checked))
    if wrong:
        raise StateInvalid(f"The session would not be valid and is not saved: {wrong}.")
    saved = session.model_copy(update={"version": session.version + 1})
    await sessions.save(saved.session_id, saved.model_dump_json(), expected=session.version)
    return Saved(session=saved)


async def write_memory(
    subject: str | None, response: SpecialistResponse, memory_summary: str | None, *, memory: MemoryWriter
) -> Remembered:
    """Write the memories that the specialist requests, after the session is saved."""
    update = response.state_updates.memory_update if response.state_updates else None
    if subject is None or update is None or not update.strip():
        return Remembered()
    line = " ".join(update.split())
    lines = [known for known in (memory_summary or "").splitlines() if known != line]
    while lines and len("\n".join([*lines, line])) > MAX_MEMORY:
        lines.pop(0)
    await memory.remember(subject, "\n".join([*lines, line[:MAX_MEMORY]]))
    return Remembered()


async def finalize_reply(response: SpecialistResponse, resumed: str | None) -> Replied:
    """Reply with the specialist's message and the open question of a resumed goal."""
    reply = _reply(response, resumed)
    if not reply:
        raise ModelOutputInvalid("The specialist's message is empty.")
    return Replied(reply=reply)
