"""Turns with a principal, for every protocol: what a tenant may see, which graphs a role may enter, and how much a key may do."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.discovery import entry_of
from interlock.errors import AgentUnknown, InputSchema, RoleUnknown, TurnUnknown
from interlock.input import check_id, check_session, check_text
from interlock.runtime.turns import ENDED, Load, Page, Policy, StoredTurn, TurnFilter, TurnStatus
from interlock.server.auth import Principal
from interlock.server.events import EventHub
from interlock.server.request_errors import Overloaded, SessionUnknown, TooManyRequests
from interlock.server.routing import RateLimit
from interlock.server.token_limits import TokenLimits
from interlock.spelling import closest

__all__ = ["TurnService", "rests"]

_BUSY: tuple[TurnStatus, ...] = ("queued", "ready", "running")
_LOAD_S = 0.5
"""How old the number of open turns may be. Turns that are accepted here meanwhile are added to it."""


def rests(turn: StoredTurn) -> bool:
    """Return whether a turn has ended or waits for a person."""
    return turn.status in ENDED or turn.status == "waiting"


class TurnService:
    """Submits and reads turns for principals. Things of another tenant do not exist for them."""

    def __init__(self, interlock: Interlock, hub: EventHub, agents: Mapping[str, Agent]) -> None:
        self.interlock = interlock
        self.agents = agents
        self.hub = hub
        self.is_draining = False
        self._rate = RateLimit()
        self._tokens = TokenLimits()
        self._load: tuple[float, list[Load]] = (-_LOAD_S, [])
        self._accepted = 0

    def agent(self, principal: Principal, name: str) -> Agent:
        """Return an agent that the principal may use. Raises AgentUnknown, also where it has none of the agent's roles."""
        may = {one.name: one for one in self.agents.values() if any(principal.has(role) for role in one.entries)}
        if name not in may:
            close = closest(name, may)
            meant = f"Did you mean '{close[0]}'?" if close else f"There are: {', '.join(may) or 'none'}."
            raise AgentUnknown(f"There is no agent '{name}'. {meant}")
        return may[name]

    def role(self, principal: Principal, agent: Agent, role: str | None) -> str | None:
        """Return the role by which a principal enters an agent; without `role`, the only one that it has."""
        may = [one for one in agent.entries if principal.has(one)]
        if role is None and None not in agent.entries and len(may) == 1:
            role = may[0]
        if role is None and may and role not in may:
            first, roles = may[0], " or ".join(f"'{one}'" for one in may)
            named = f"As a model it is named '{agent.name}/{first}', as an assistant '{agent.name}.{first}'."
            raise InputSchema(f"Agent '{agent.name}' is entered by a role: {roles}. {named}")
        if role not in may:
            raise RoleUnknown(f"Agent '{agent.name}' has no role '{role}'.")
        return role

    async def submit(
        self,
        principal: Principal,
        agent: str,
        given: str | Mapping[str, Any],
        *,
        session: str | None = None,
        role: str | None = None,
        key: str | None = None,
        policy: Policy = "enqueue",
        due: float | None = None,
        turn: str | None = None,
        is_exclusive: bool = False,
    ) -> StoredTurn:
        """Accept a turn for a worker. When this returns, the turn is stored.

        With the same `key`, an idempotency key of the tenant, the same turn is returned. `turn` is an id for the turn, and with
        `is_exclusive` it runs alone in its session whatever the agent needs. Raises TooManyRequests and Overloaded.
        """
        chosen = self.agent(principal, agent)
        role = self.role(principal, chosen, role)
        if self.is_draining:
            raise Overloaded
        key = None if key is None else check_id(key, "key")
        if key is None or not await self._find(principal, TurnFilter(key=key), Page(limit=1)):
            await self._check_limits(principal)
        # The id follows from the key, so that a session that is named after its turn is the same when the request comes again.
        own = turn if key is None else hashlib.sha256(f"{principal.tenant}\0{key}".encode()).hexdigest()[:32]
        id_ = await self.interlock.submit(
            chosen,
            given,
            session=session,
            role=role,
            principal=principal.identity,
            tenant=principal.tenant,
            turn=own,
            key=key,
            policy=policy,
            due=due,
            is_exclusive=is_exclusive,
        )
        self._accepted += 1
        stored = await self.get(principal, id_)
        self.hub.note_session(principal.tenant, chosen.name, stored.session)
        return stored

    async def get(self, principal: Principal, turn: str) -> StoredTurn:
        """Return a turn. Raises TurnUnknown, also for a turn of another tenant or of a role that the principal does not have."""
        found = await self.interlock.turns.store.get(check_id(turn, "turn"))
        if found is None or not self.is_visible(principal, found):
            raise TurnUnknown(f"There is no turn '{turn}'.")
        return found

    def is_visible(self, principal: Principal, turn: StoredTurn) -> bool:
        """Return whether a principal may see a turn."""
        return turn.tenant == principal.tenant and principal.has(turn.role) and turn.agent in self.agents

    async def find(
        self,
        principal: Principal,
        *,
        agent: str | None = None,
        session: str | None = None,
        statuses: tuple[TurnStatus, ...] = (),
        page: Page | None = None,
    ) -> list[StoredTurn]:
        """Return turns, newest first. A page may have fewer turns than its limit, where some belong to other roles."""
        if page is not None and page.before is not None:
            await self.get(principal, page.before)
        return await self._find(principal, TurnFilter(agent=agent, session=session, statuses=statuses), page or Page())

    async def session(self, principal: Principal, agent: str, session: str) -> StoredTurn:
        """Return the last turn of a session. Raises SessionUnknown."""
        self.agent(principal, agent)
        found = await self.find(principal, agent=agent, session=check_session(session), page=Page(limit=20))
        if not found:
            raise SessionUnknown(f"There is no session '{session}' of agent '{agent}'.")
        return found[0]

    async def answer(self, principal: Principal, turn: str, text: str, *, key: str | None = None) -> StoredTurn:
        """Answer the question of a turn; a worker resumes it. Who answered, and by which request, is stored with the answer."""
        found = await self.get(principal, turn)
        check_text(text, max_bytes=self.interlock.settings.max_input_bytes)
        key = None if key is None else check_id(key, "key")
        agent = self.agent(principal, found.agent)
        answered = await self.interlock.turns.accept_answer(agent, found, text, by=principal.identity or principal.name, key=key)
        self.hub.note_session(found.tenant, found.agent, found.session)
        return answered

    async def fork(self, principal: Principal, turn: StoredTurn, *, step: int, session: str | None) -> StoredTurn:
        """Accept a turn that runs on from a step of another one, in a new session. When this returns, the turn is stored."""
        if self.is_draining:
            raise Overloaded
        await self._check_limits(principal)
        agent = self.agent(principal, turn.agent)
        forked = await self.interlock.fork(agent, turn.turn, step=step, session=session, principal=principal.identity)
        self._accepted += 1
        stored = await self.get(principal, forked)
        self.hub.note_session(stored.tenant, stored.agent, stored.session)
        return stored

    async def cancel(self, principal: Principal, turn: str, *, is_rollback: bool = False) -> StoredTurn:
        """Cancel a turn: at once, or as soon as its worker hears of it. One that has ended stays as it is."""
        await self.get(principal, turn)
        return await self.interlock.turns.cancel(turn, is_rollback=is_rollback)

    async def wait(self, principal: Principal, turn: str, *, timeout_s: float) -> StoredTurn:
        """Wait until a turn has ended or waits for a person, but no longer than a time; return it as it is then."""
        found = await self.get(principal, turn)
        if not rests(found) and timeout_s > 0:
            await self.hub.until_rest(turn, timeout_s=timeout_s)
            found = await self.get(principal, turn)
        return found

    async def load(self) -> list[Load]:
        """Return how many turns are open, by agent and status; at most half a second old."""
        now = asyncio.get_running_loop().time()
        if now - self._load[0] >= _LOAD_S:
            self._load, self._accepted = (now, await self.interlock.turns.store.load()), 0
        return self._load[1]

    async def _check_limits(self, principal: Principal) -> None:
        queued = sum(load.turns for load in await self.load() if load.status in {"queued", "ready"})
        if queued + self._accepted >= self.interlock.settings.server_queue:
            raise Overloaded("The server has as many turns to run as it may have.")
        limits = principal.key
        if limits is None:
            return
        if limits.turns_at_once is not None:
            mine = TurnFilter(tenant=principal.tenant, principal=principal.identity, statuses=_BUSY, with_hidden=True)
            if len(await self.interlock.turns.store.find(mine, Page(limit=limits.turns_at_once))) >= limits.turns_at_once:
                raise TooManyRequests("The key has reached its limit of turns at once.")
        if limits.tokens_a_day is not None:
            await self._tokens.check(self.interlock.turns.store, principal.tenant, principal.identity, limits.tokens_a_day)
        if limits.turns_a_minute is not None:
            self._rate.take(limits.id, limits.turns_a_minute)

    async def _find(self, principal: Principal, chosen: TurnFilter, page: Page) -> list[StoredTurn]:
        own = replace(chosen, tenant=principal.tenant)
        return [turn for turn in await self.interlock.turns.store.find(own, page) if self.is_visible(principal, turn)]

    def entry(self, turn: StoredTurn) -> str:
        """Return the name of the graph that a turn runs."""
        return entry_of(self.agents[turn.agent], turn.role).name
