"""The nodes of specialist.tool_planning_graph: a model chooses tools."""

from __future__ import annotations

from interlock.capabilities import Message, Model, Toolbox
from interlock_agents.desk.nodes.asking import asked
from interlock_agents.desk.session import Domain
from interlock_agents.desk.state import Asked, Chosen

__all__ = ["model", "prompt"]


async def prompt(specialist: Domain, payload: str) -> Asked:
    """Build the prompt."""
    return Asked(messages=asked(payload, specialist, "tools"))


async def model(specialist: Domain, messages: tuple[Message, ...], *, model: Model, toolbox: Toolbox) -> Chosen:
    """Call the model once, with the specialist's tools."""
    return Chosen(reply=await model.reply(messages, tools=await toolbox.offered(specialist)))
