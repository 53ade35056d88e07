"""The nodes of planner.model_graph: a model chooses the goal of a message."""

from __future__ import annotations

from interlock.capabilities import Message, Model
from interlock_agents.desk.nodes.asking import asked, exactly, said
from interlock_agents.desk.roles import PlannerRequest, PlannerResponse
from interlock_agents.desk.state import Asked, Said, Understood

__all__ = ["model", "parse_json", "prompt"]


async def prompt(request: PlannerRequest) -> Asked:
    """Build the prompt."""
    return Asked(messages=asked(request.model_dump_json(), "planner"))


async def model(messages: tuple[Message, ...], *, model: Model) -> Said:
    """Call the model, and once more if its answer is invalid."""
    return Said(text=await said(model, messages, PlannerResponse))


async def parse_json(text: str) -> Understood:
    """Parse the model's text as a plan."""
    return Understood(response=exactly(PlannerResponse, text))
