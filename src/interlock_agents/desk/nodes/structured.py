"""The nodes of specialist.structured_graph: a model answers in JSON."""

from __future__ import annotations

from interlock.capabilities import Message, Model
from interlock_agents.desk.nodes.asking import asked, exactly, said
from interlock_agents.desk.roles import SpecialistResponse
from interlock_agents.desk.session import Domain
from interlock_agents.desk.state import Asked, Parsed, Said

__all__ = ["model", "parse_json", "prompt"]


async def prompt(specialist: Domain, payload: str) -> Asked:
    """Build the prompt."""
    return Asked(messages=asked(payload, specialist, "structured"))


async def model(messages: tuple[Message, ...], *, model: Model) -> Said:
    """Call the model, and once more if its answer is invalid."""
    return Said(text=await said(model, messages, SpecialistResponse))


async def parse_json(text: str) -> Parsed:
    """Parse the model's text as an answer."""
    return Parsed(response=exactly(SpecialistResponse, text))
