"""The nodes of specialist.structured_graph: ask a model for an answer in JSON."""

from __future__ import annotations

from interlock.capabilities import Message, Model
from interlock_agents.desk.nodes.asking import asked, exactly, said
from interlock_agents.desk.roles import SpecialistResponse
from interlock_agents.desk.session import Domain
from interlock_agents.desk.state import Asked, Parsed, Said

__all__ = ["model", "parse_json", "prompt"]


async def prompt(specialist: Domain, payload: str) -> Asked:
    """Put the request into words."""
    return Asked(messages=asked(payload, specialist, "structured"))


async def model(messages: tuple[Message, ...], *, model: Model) -> Said:
    """Ask the model, and once more if its answer cannot be used."""
    return Said(text=await said(model, messages, SpecialistResponse))


async def parse_json(text: str) -> Parsed:
    """Take the model's text for an answer, if it is exactly one."""
    return Parsed(response=exactly(SpecialistResponse, text))
