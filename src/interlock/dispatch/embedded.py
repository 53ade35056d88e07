"""The embedded dispatcher: the turn store is the queue, and every process that has it open can run turns.

A process runs the turns of its own callers. A caller whose turn waits for an earlier one of its session also resumes that one,
if its process died. `work` runs what others have submitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import Any, Literal

from pydantic_core import from_json, to_json

from interlock.agent import Agent
from interlock.attempts import wait_until_done
from interlock.capabilities.human import resolve_answer
from interlock.dispatch.reader import POLL_S, TurnReader
from interlock.dispatch.results import failed_result, result_of
from interlock.dispatch.retention import Retention
from interlock.errors import Fenced, InputError, InputSchema, InterlockError, KeyReused, NothingWaits
from interlock.runner import Runner
from interlock.runtime.event_lines import EventDecoder
from interlock.runtime.events import Event, Listener
from interlock.runtime.journal import Entry, key_of
from interlock.runtime.observe import LOGGER
from interlock.runtime.recording import Header, read_header, write_header
from interlock.runtime.turn import TurnRequest, TurnResult
from interlock.runtime.turns import (
    BEGUN,
    CANCELLED,
    ENDED,
    Accepted,
    Claim,
    NewTurn,
    Policy,
    StoredTurn,
    TurnEnd,
    TurnFilter,
    TurnStore,
    Writes,
)
from interlock.runtime.worker import Lease, Worker, decode_entry, encode_entry

__all__ = ["Change", "EmbeddedDispatcher", "SessionLook"]

Change = Literal["submit", "answer", "cancel"]
"""What a caller does to a turn."""

_HELP_S = 1.0
"""How often a caller whose turn is queued looks for a turn of its session whose worker has died."""


class SessionLook:
    """What a caller that waits for its turn has seen of the turns before it."""

    next_at = 0.0
    """When to look again, by the clock of the event loop."""
    ready: frozenset[str] = frozenset()
    """The turns that were ready at the last look."""


class EmbeddedDispatcher(TurnReader):
    """Accepts turns into a store and runs them in this process. `name` identifies the process in the store."""

    def __init__(self, store: TurnStore, runner: Runner, *, name: str, build: str = "", retention: Retention | None = None) -> None:
        super().__init__(store)
        self.worker = Worker(store, name=name)
        self._runner = runner
        self._build = build
        self._retention = retention or Retention(store)
        self._has_run = False
        self._caller: str | None = name
        """The name under which this process claims the turns of its own callers; None where workers run them."""

    async def submit(
        self, agent: Agent, request: TurnRequest, *, key: str | None = None, policy: Policy = "enqueue", due: float | None = None
    ) -> StoredTurn:
        """Accept a turn for a worker to run. When this returns, the turn is durable."""
        return (await self._accept(agent, request, key=key, policy=policy, due=due)).turn

    async def run(
        self, agent: Agent, request: TurnRequest, *, key: str | None = None, policy: Policy = "enqueue", listener: Listener | None = None
    ) -> TurnResult:
        """Accept a turn and run it here. A turn with the same key is not run again: its result is returned."""
        accepting = asyncio.create_task(self._accept(agent, request, key=key, policy=policy, worker=self._caller))
        if await wait_until_done(accepting):
            with suppress(InterlockError):
                await self._give_up(accepting.result())
            raise asyncio.CancelledError
        accepted = accepting.result()
        try:
            # A store that is asked again gives the same claim again, but this process may be running the turn already.
            if accepted.claim is None or self.worker.holds(accepted.turn.turn):
                return await self.result(agent, accepted.turn.turn, listener=listener)
            return await self._execute(agent, accepted.claim, listener)
        except asyncio.CancelledError:
            if accepted.is_new:
                # The callers that waited for the turn do not need it any more.
                with suppress(InterlockError):
                    await asyncio.shield(self.cancel(accepted.turn.turn))
            raise

    async def _give_up(self, accepted: Accepted) -> None:
        """End a turn whose caller was cancelled while it was accepted."""
        if accepted.claim is not None and not self.worker.holds(accepted.turn.turn):
            await self.store.end(accepted.turn.turn, accepted.claim.turn.epoch, CANCELLED, Writes())
        elif accepted.is_new:
            await self.cancel(accepted.turn.turn)

    async def result(self, agent: Agent, turn: str, *, listener: Listener | None = None) -> TurnResult:
        """Wait until a turn has ended or waits for a person; return its result.

        Where no worker runs it, or the one that did has died, it is run here, after the earlier turns of its session.
        """
        decoder, since = EventDecoder(turn), await self.store.changed(timeout_s=0)
        look = SessionLook()
        while True:
            stored = await self._stored(turn)
            if stored.status in ENDED or stored.status == "waiting":
                if listener is not None:
                    await self._show(decoder, turn, listener)
                return result_of(stored)
            claim = await self._claim_in_session(stored, look)
            if claim is None:
                if listener is not None:
                    await self._show(decoder, turn, listener)
                since = await self.store.changed(timeout_s=POLL_S, since=since)
            elif claim.turn.turn != turn:
                with suppress(InterlockError):
                    await self._execute(agent, claim, None)
            else:
                with suppress(Fenced):
                    return await self._execute(agent, claim, _after(decoder.count, listener))

    async def answer(
        self, agent: Agent, turn: StoredTurn, text: str, *, by: str | None = None, listener: Listener | None = None
    ) -> TurnResult:
        """Resume a suspended turn with a person's answer. The same answer may come again, another one is refused.

        Where the caller is cancelled, the answer stays: another process resumes the turn.
        """
        accepted = await self._accept_answer(turn, text, by=by, worker=self._caller)
        if accepted.claim is None:
            return await self.result(agent, turn.turn, listener=listener)
        return await self._execute(agent, accepted.claim, listener, gives_back=True)

    async def accept_answer(
        self, agent: Agent, turn: StoredTurn, text: str, *, by: str | None = None, key: str | None = None
    ) -> StoredTurn:
        """Store a person's answer, for a worker to resume the turn. When this returns, the answer is durable.

        `key` is stored with it: a caller who sends a request again recognises its own answer by it.
        """
        self._runner.check_contracts(agent, turn)
        return (await self._accept_answer(turn, text, by=by, key=key, worker=None)).turn

    async def _accept_answer(self, turn: StoredTurn, text: str, *, by: str | None, worker: str | None, key: str | None = None) -> Accepted:
        if turn.status != "waiting" and turn.answer is not None:
            return await self._answered_before(turn, text)
        answer = to_json({"text": text, "by": by, "at": await self.store.now()} | ({} if key is None else {"key": key}))
        entry = _answered([decode_entry(one) for one in await self.store.journal(turn.turn)], turn.turn, text)
        asked = asyncio.get_running_loop().time()
        try:
            accepted = await self.store.answer(turn.turn, answer, encode_entry(entry), worker=worker, lease_s=self.worker.lease_s)
        except NothingWaits:
            found = await self._stored(turn.turn)
            if found.answer is None or found.answer == turn.answer:
                raise
            return await self._answered_before(found, text)
        await self._notify("answer", accepted.turn)
        return _asked_at(asked, accepted)

    async def _answered_before(self, turn: StoredTurn, text: str) -> Accepted:
        """Return a turn that was answered with the same text. Raises NothingWaits where it was another one."""
        if turn.answer is None or from_json(turn.answer)["text"] != text:
            raise NothingWaits("The question has been answered before, in other words.")
        await self._notify("answer", turn)
        return Accepted(turn=turn, is_new=False)

    async def cancel(self, turn: str, *, is_rollback: bool = False) -> StoredTurn:
        """End a turn as cancelled: at once where no worker runs it, else as soon as its worker hears of it.

        After a rollback it is hidden from the session's history as well.
        """
        cancelled = await self.store.cancel(turn, is_rollback=is_rollback)
        await self.worker.renew()
        await self._notify("cancel", cancelled)
        return cancelled

    async def retry(self, turn: StoredTurn) -> StoredTurn:
        """Accept the input of a turn that has ended as a new turn of its session."""
        if turn.status not in ENDED:
            raise InputSchema(f"Turn '{turn.turn}' has not ended: it is {turn.status}.")
        again = turn.turn.partition("~")
        count = int(again[2] or 1) + 1
        return await self.accept_again(turn, replace(read_header(turn.header), turn=f"{again[0]}~{count}"))

    async def accept_again(self, turn: StoredTurn, header: Header, *, principal: str | None = None) -> StoredTurn:
        """Accept a turn with the header of another turn that was changed, for the caller of that one or for another one."""
        accepted: dict[str, Any] = {field.name: getattr(turn, field.name) for field in fields(NewTurn)}
        changed: dict[str, Any] = {"turn": header.turn, "session": header.session, "header": write_header(header)}
        changed |= {"key": None, "due": None, "principal": principal or turn.principal}
        new = NewTurn(**{**accepted, **changed})
        stored = (await self.store.accept(new)).turn
        await self._notify("submit", stored)
        return stored

    async def waiting(self, agent: Agent, session: str, *, tenant: str = "") -> StoredTurn | None:
        """Return the suspended turn of a session, or the one that was answered and has not ended."""
        # Those that are queued are left out: there may be many, and none of them has an answer.
        chosen = TurnFilter(tenant=tenant, agent=agent.name, session=session, statuses=BEGUN)
        found = [turn for turn in await self.store.find(chosen) if turn.status == "waiting" or turn.answer is not None]
        return found[-1] if found else None

    async def work(self, agents: Iterable[Agent], *, concurrency: int = 1, on_ready: Callable[[], object] | None = None) -> None:
        """Run the turns of these agents that are submitted or left behind, until cancelled. Turns under way are then given back."""
        serves = await self._serves(agents)
        running: set[asyncio.Task[None]] = set()
        news = asyncio.Event()
        claiming: asyncio.Task[list[Claim]] | None = None
        watching = asyncio.create_task(self._watch(news))
        keeping = asyncio.create_task(self._retention.keep(self.worker.name, serves.keys()))
        if on_ready is not None:
            on_ready()
        try:
            while True:
                news.clear()
                free = concurrency - len(running)
                claiming = asyncio.create_task(self._claim_safely(serves, free)) if free else None
                claims = await asyncio.shield(claiming) if claiming else []
                claiming = None
                for claim in claims:
                    task = asyncio.create_task(self._work(serves[claim.turn.fingerprint], claim))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    task.add_done_callback(lambda _: news.set())
                if not claims:
                    await news.wait()
        finally:
            for task in (watching, keeping, *running):
                task.cancel()
            await asyncio.gather(watching, keeping, *running, return_exceptions=True)
            # A claim that was under way is not cut off: no worker would run what it has claimed.
            for claim in [] if claiming is None else await claiming:
                with suppress(InterlockError):
                    await self.store.give_back(claim.turn.turn, claim.turn.epoch)

    async def aclose(self) -> None:
        """Close the store. A process that has run turns compresses and deletes some older ones first."""
        if self._has_run:
            with suppress(InterlockError):
                await self._retention.tidy(limit=100)
        await self.store.aclose()

    async def _serves(self, agents: Iterable[Agent]) -> dict[str, Agent]:
        """Compile the graphs of agents; return the agents by the fingerprints of their graphs."""
        serves: dict[str, Agent] = {}
        for agent in agents:
            for graph in dict.fromkeys(agent.entries.values()):
                serves[self._runner.fingerprint(agent, graph)] = agent
                await asyncio.sleep(0)
        return serves

    async def _notify(self, change: Change, turn: StoredTurn) -> None:
        """Report a change of a turn to its workers. Here they look at the store, which has it."""

    async def _watch(self, news: asyncio.Event) -> None:
        """Report that the store may have changed. Leases end without a change, so it is also looked at from time to time."""
        since: int | None = None
        while True:
            try:
                since = await self.store.changed(timeout_s=POLL_S, since=since)
            except InterlockError:
                await asyncio.sleep(POLL_S)
            news.set()

    async def _claim_safely(self, serves: Mapping[str, Agent], limit: int) -> list[Claim]:
        try:
            if self.worker.may_have_lost:
                # The leases that no other worker has claimed meanwhile are extended, or this process would claim its own turns.
                await self.worker.renew()
            return await self.worker.claim(serves.keys(), limit=limit)
        except InterlockError as error:
            # The store may come back; what it has accepted is not lost.
            LOGGER.warning("no turns can be claimed", extra={"fields": {"worker": self.worker.name, "code": error.code}})
            await asyncio.sleep(POLL_S)
            return []

    async def _work(self, agent: Agent, claim: Claim) -> None:
        """Run one claimed turn that another process accepted. A worker that stops gives it back."""
        lease = Lease(self.store, claim, lease_s=self.worker.lease_s)
        try:
            await self._run_leased(agent, lease, gives_back=True)
        except InterlockError as error:
            fields = {"agent": agent.name, "turn": claim.turn.turn, "code": error.code}
            LOGGER.warning("a turn was not finished here", extra={"fields": fields})
            if isinstance(error, InputError):
                # What is stored of the turn cannot be run, here or elsewhere: without an end it would be claimed for ever.
                result = failed_result(claim.turn, "error", error)
                with suppress(InterlockError):
                    await lease.end(TurnEnd(status="error", result=to_json(result.to_json()), code=error.code))

    async def _run_leased(self, agent: Agent, lease: Lease, *, gives_back: bool) -> TurnResult:
        self._has_run = True
        async with self.worker.holding(lease):
            return await self._runner.execute(agent, lease, gives_back=gives_back, before_end=partial(self._submit_next, agent, lease.turn))

    async def _submit_next(self, agent: Agent, turn: StoredTurn, result: TurnResult) -> None:
        """Accept the turn that the agent starts after this one, which is about to end. It runs when this one has ended.

        An attempt that dies in between is followed by one that accepts the same turn again, under the same id.
        """
        try:
            following = self._runner.following(agent, turn, result)
            if following is not None:
                await self.submit(agent, following, key=following.turn)
        except InputError as error:
            LOGGER.error("no turn follows", extra={"fields": {"agent": agent.name, "turn": turn.turn, "code": error.code}})

    async def _execute(self, agent: Agent, claim: Claim, listener: Listener | None, *, gives_back: bool = False) -> TurnResult:
        lease = Lease(self.store, claim, listener=listener, lease_s=self.worker.lease_s)
        try:
            return await self._run_leased(agent, lease, gives_back=gives_back)
        except Fenced:
            return await self.result(agent, claim.turn.turn, listener=_after(lease.shown, listener))

    async def _claim_in_session(self, turn: StoredTurn, look: SessionLook) -> Claim | None:
        """Claim a turn that is ready or whose worker has died, or an earlier one of its session that was left behind."""
        now = await self.store.now()
        only = [turn.turn] if _is_ready(turn, now) or _is_expired(turn, now) else await self._left_behind(turn, look, now)
        if not only:
            return None
        claims = await self.worker.claim({turn.fingerprint}, only=only)
        return claims[0] if claims else None

    async def _left_behind(self, turn: StoredTurn, look: SessionLook, now: float) -> list[str]:
        """Return, from time to time, the turns of a session that no process runs.

        A turn that has just become ready belongs to its own caller: it is left behind if it is still ready at the next look.
        """
        time = asyncio.get_running_loop().time()
        if time < look.next_at:
            return []
        look.next_at = time + _HELP_S
        # Those that are queued are left out: there may be many, and none of them can be claimed.
        chosen = TurnFilter(tenant=turn.tenant, agent=turn.agent, session=turn.session, statuses=BEGUN, with_hidden=True)
        found = await self.store.find(chosen)
        known, look.ready = look.ready, frozenset(one.turn for one in found if _is_ready(one, now))
        return [one.turn for one in found if _is_expired(one, now) or one.turn in known & look.ready]

    async def _accept(
        self,
        agent: Agent,
        request: TurnRequest,
        *,
        key: str | None,
        policy: Policy,
        due: float | None = None,
        worker: str | None = None,
    ) -> Accepted:
        """Store a turn. An id that the caller did not choose and that is taken is replaced by another one."""
        wanted, number = request.turn, 1
        while True:
            new = self._new(agent, request, key=key, policy=policy, due=due)
            try:
                asked = asyncio.get_running_loop().time()
                accepted = _asked_at(asked, await self.store.accept(new, worker=worker, lease_s=self.worker.lease_s))
            except KeyReused:
                if key is not None:
                    raise
            else:
                if key is not None or accepted.is_new or accepted.claim is not None:
                    if accepted.turn.status not in ENDED:
                        await self._notify("submit", accepted.turn)
                    return accepted
            number += 1
            request.turn = f"{wanted}.{number}"
            if request.session == wanted:
                request.session = request.turn

    def _new(self, agent: Agent, request: TurnRequest, *, key: str | None, policy: Policy, due: float | None = None) -> NewTurn:
        header = self._runner.header(agent, request)
        return NewTurn(
            turn=request.turn,
            tenant=request.tenant,
            agent=agent.name,
            role=request.role,
            session=request.session,
            header=write_header(header),
            fingerprint=header.fingerprint,
            key=key,
            digest=_digest(header, request.principal),
            principal=request.principal,
            build=self._build,
            is_exclusive=request.in_session,
            policy=policy,
            due=due,
        )

    async def _show(self, decoder: EventDecoder, turn: str, listener: Listener) -> None:
        while lines := await self.store.events(turn, after=decoder.count):
            for line in lines:
                listener(decoder.decode(line))


def _asked_at(asked: float, accepted: Accepted) -> Accepted:
    """Return what was accepted, with when its claim was asked for."""
    return accepted if accepted.claim is None else replace(accepted, claim=replace(accepted.claim, asked=asked))


def _is_ready(turn: StoredTurn, now: float) -> bool:
    return turn.status == "ready" and (turn.due is None or turn.due <= now)


def _is_expired(turn: StoredTurn, now: float) -> bool:
    return turn.status == "running" and (turn.lease_until or 0) <= now


def _digest(header: Header, principal: str | None) -> str:
    """Return a hash of who asked for what: the same for the same request, whatever id it got."""
    # A turn without a session of its own gets its id as one.
    session = None if header.session == header.turn else header.session
    return key_of((header.agent, header.graph, header.role, session, header.given, principal), {})


def _after(count: int, listener: Listener | None) -> Listener | None:
    """Return a listener that leaves out the first events, which it has had already."""
    if listener is None or not count:
        return listener

    def show(event: Event) -> None:
        if event["metadata"]["sequence"] > count:
            listener(event)

    return show


def _answered(entries: Iterable[Entry], turn: str, text: str) -> Entry:
    """Return the entry of the question that waits, with a person's answer."""
    asked = [entry for entry in entries if entry.question is not None]
    if not asked or asked[-1].question is None:
        raise NothingWaits(f"No call of turn '{turn}' waits for an answer.")
    return asked[-1].answered(resolve_answer(asked[-1].question, text))
