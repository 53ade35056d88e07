"""The nodes of specialist.tool_planning_graph: ask a model which tools it wants."""

from __future__ import annotations

from interlock.capabilities import Message, Model, Toolbox
from interlock_agents.desk.nodes.asking import asked
from interlock_agents.desk.session import Domain
from interlock_agents.desk.state import Asked, Chosen

__all__ = ["model", "prompt"]


async def prompt(specialist: Domain, payload: str) -> Asked:
    """Put the request into words."""
    return Asked(messages=asked(payload, specialist, "tools"))


async def model(specialist: Domain, messages: tuple[Message, ...], *, model: Model, toolbox: Toolbox) -> Chosen:
    """Ask the model once, with the specialist's tools at hand."""
    return Chosen(reply=await model.reply(messages, tools=await toolbox.offered(specialist)))
