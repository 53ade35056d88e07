"""Turns of all agents, submitted while other things happen to their workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random

from interlock import Agent, Interlock
from interlock.errors import StoreError
from interlock.runtime.events import Event
from tests.faults.tally import TALLY

__all__ = ["Load"]

AGENTS = 5
ACCEPTED_WITHIN_S = 60
"""How long a store may refuse a turn that is submitted again and again. No fault lasts as long."""


class Load:
    """Submits turns, always some more than there are workers for. `texts` are the inputs of those that were accepted."""

    def __init__(self, app: Interlock, random: Random, settings: Mapping[str, str], *, followed: float = 0.0) -> None:
        self.texts: dict[str, str] = {}
        self.refused = 0
        """How often the store could not accept a turn. It is then submitted again under the same id."""
        self.followers: dict[str, asyncio.Task[list[Event]]] = {}
        """The events of a share of the turns, as a caller gets them while the turns run."""
        self._followed = followed
        self._app = app
        self._random = random
        self._settings = settings

    async def submit(self, *, is_over: Callable[[], bool], pause_s: float = 0.25) -> None:
        """Submit turns in a few sessions."""
        while not is_over():
            agent, text, session = self._next(len(self.texts) + 1)
            turn = f"turn-{len(self.texts) + 1}"
            async with asyncio.timeout(ACCEPTED_WITHIN_S):
                while not await self._is_accepted(agent, text, session, turn):  # noqa: ASYNC110 - nothing tells when the store is back
                    await asyncio.sleep(0.1)
            self.texts[turn] = text
            if self._random.random() < self._followed:
                self.followers[turn] = asyncio.create_task(self._follow(turn))
            await asyncio.sleep(self._random.random() * pause_s)

    async def _follow(self, turn: str) -> list[Event]:
        return [event async for event in self._app.turns.events(turn)]

    async def _is_accepted(self, agent: Agent | str, text: str, session: str | None, turn: str) -> bool:
        try:
            await self._app.submit(agent, text, session=session, turn=turn)
        except StoreError:
            self.refused += 1
            return False
        return True

    def _next(self, number: int) -> tuple[Agent | str, str, str | None]:
        random = self._random
        # The first turns are of one agent each.
        choice = (number - 0.5) / 10 if number <= AGENTS else random.random()
        if choice < 0.1:
            return "sam", f"hello {number}", None
        if choice < 0.2:
            return "analyst", f"How many orders are there? {number}", f"a{random.randrange(4)}"
        if choice < 0.3 and "session_url" in self._settings:
            return "desk", f"What is {number}+3?", f"d{random.randrange(4)}"
        if choice < 0.4 and "graph_url" in self._settings:
            return "puntini", f"Create a project P{number} with task T{number}", "p"
        return TALLY, f"{'pay' if random.random() < 0.15 else 'text'}-{number}", f"s{random.randrange(8)}"
