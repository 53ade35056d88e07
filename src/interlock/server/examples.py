"""Examples of what to say to an agent, and a demo that says it: both are the scenarios that the tour shows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from interlock.agent import Agent
from interlock.errors import InterlockError
from interlock.runtime.observe import LOGGER
from interlock.server.auth import LOCAL, Principal
from interlock.server.shapes import Example
from interlock.testing.scenarios import Scenario, Turn, load_scenarios

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["examples_of", "run_demo"]

_MOST = 4
_TURN_S = 60.0
_PLAIN = {"human": "wait"}
"""The settings under which a scenario does here what it does in the tour: those of the server."""


def examples_of(agent: Agent, principal: Principal) -> list[Example]:
    """Return a few inputs for an agent, for the roles that the caller has."""
    first = [(scenario, scenario.turns[0]) for scenario in _scenarios(agent)]
    found = [
        Example(text=turn.say, shows=scenario.title, role=turn.role or scenario.role) for scenario, turn in first if turn.say is not None
    ]
    roles = list(dict.fromkeys(example.role for example in found if principal.has(example.role)))
    return [example for role in roles for example in [one for one in found if one.role == role][:_MOST]]


def _scenarios(agent: Agent) -> Iterator[Scenario]:
    if agent.scenes is not None:
        for scenario in load_scenarios(agent.scenes):
            if scenario.tour and dict(scenario.settings) in ({}, _PLAIN):
                yield scenario


async def run_demo(server: Server) -> None:
    """Run the scenarios of every agent, each in a session of its own. A question that ends a scenario is left for a person."""
    await asyncio.gather(*(_run_scenarios(server, agent) for agent in server.agents.values()))


async def _run_scenarios(server: Server, agent: Agent) -> None:
    # The last one comes first, so that the first one is the newest session of the agent.
    for number, scenario in reversed(list(enumerate(_scenarios(agent), start=1))):
        waiting: str | None = None
        for turn in scenario.turns:
            if turn.answer is not None and turn is scenario.turns[-1]:
                break
            try:
                waiting = await _run_turn(server, agent, scenario, turn, session=f"demo-{number}", waiting=waiting)
            except InterlockError as error:
                LOGGER.info("a turn of the demo was refused", extra={"fields": {"agent": agent.name, "code": error.code}})


async def _run_turn(server: Server, agent: Agent, scenario: Scenario, turn: Turn, *, session: str, waiting: str | None) -> str | None:
    """Run one turn of a scenario; return its id if it waits for a person."""
    service = server.service
    if turn.answer is not None:
        stored = None if waiting is None else await service.answer(LOCAL, waiting, turn.answer)
    elif turn.say is None or turn.settings or turn.restart:
        return waiting
    else:
        stored = await service.submit(LOCAL, agent.name, turn.say, session=session, role=turn.role or scenario.role)
    if stored is None:
        return None
    ended = await service.wait(LOCAL, stored.turn, timeout_s=_TURN_S)
    return ended.turn if ended.status == "waiting" else None
