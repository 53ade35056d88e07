"""The nodes of planner.model_graph: ask a model which goal a message is about."""

from __future__ import annotations

from interlock.capabilities import Message, Model
from interlock_agents.desk.nodes.asking import asked, exactly, said
from interlock_agents.desk.roles import PlannerRequest, PlannerResponse
from interlock_agents.desk.state import Asked, Said, Understood

__all__ = ["model", "parse_json", "prompt"]


async def prompt(request: PlannerRequest) -> Asked:
    """Put the request into words."""
    return Asked(messages=asked(request.model_dump_json(), "planner"))


async def model(messages: tuple[Message, ...], *, model: Model) -> Said:
    """Ask the model, and once more if its answer cannot be used."""
    return Said(text=await said(model, messages, PlannerResponse))


async def parse_json(text: str) -> Understood:
    """Take the model's text for a plan, if it is exactly one."""
    return Understood(response=exactly(PlannerResponse, text))
