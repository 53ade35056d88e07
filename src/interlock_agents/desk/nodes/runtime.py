"""The nodes of specialist.runtime_graph: tools first if they may help, then an answer."""

from __future__ import annotations

from interlock.capabilities import Toolbox
from interlock.errors import ModelOutputInvalid, ToolDenied
from interlock_agents.desk.errors import StateInvalid
from interlock_agents.desk.roles import SpecialistRequest, SpecialistResponse, StructuredSpecialist, ToolPlanner, WantedTool
from interlock_agents.desk.session import Domain, domain_of
from interlock_agents.desk.state import Blocked, Free, Offered, Responded, Spoken

__all__ = ["structured_path", "tool_path", "validate_and_prepare"]


async def validate_and_prepare(specialist: Domain, request: SpecialistRequest) -> Free | Blocked:
    """Refuse a goal of another specialist, and decide whether tools may be used."""
    goal = request.active_goal
    if domain_of(goal.type) != specialist:
        raise StateInvalid(f"Goal '{goal.id}' is '{goal.type}', which is not for '{specialist}'.")
    payload = request.model_dump_json()
    if goal.status != "blocked" and not request.tool_results:
        return Free(payload=payload)
    return Blocked(payload=payload)


async def tool_path(specialist: Domain, payload: str, *, toolbox: Toolbox, planner: ToolPlanner) -> Offered | Spoken:
    """Let the model choose tools. If it chooses none, its text is added to the request."""
    reply = await planner.choose(specialist, payload)
    if reply.calls:
        known = {tool.name for tool in await toolbox.offered(specialist)}
        for call in reply.calls:
            if call.name not in known:
                raise ToolDenied(f"'{call.name}' is not a tool for '{specialist}'.")
        wanted = [WantedTool(tool=call.name, args=call.arguments) for call in reply.calls]
        return Offered(response=SpecialistResponse(tool_requests=wanted))
    if not reply.text.strip():
        raise ModelOutputInvalid("The specialist neither says anything nor wants a tool.")
    request = SpecialistRequest.model_validate_json(payload)
    return Spoken(payload=request.model_copy(update={"said": reply.text}).model_dump_json())


async def structured_path(specialist: Domain, payload: str, *, structured: StructuredSpecialist) -> Responded:
    """Let the model ask for missing fields, or finish the goal."""
    return Responded(response=await structured.answer(specialist, payload))
