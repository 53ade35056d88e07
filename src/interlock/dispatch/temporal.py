"""The dispatcher on Temporal: the turn store keeps the turns, and Temporal chooses the workers that run them.

A session is a workflow, a turn is an activity of it. The worker that gets the activity claims the turn in the turn store, so leases
and epochs protect it as in the embedded dispatcher. The workers of a graph poll a task queue that is named by its fingerprint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Worker

from interlock.agent import Agent
from interlock.dispatch.embedded import Change, EmbeddedDispatcher, SessionLook
from interlock.dispatch.temporal_codec import IdsOnly
from interlock.dispatch.temporal_workflow import SILENCE, SessionWorkflow
from interlock.errors import InputError, InterlockError, StoreUnavailable
from interlock.runtime.turns import ENDED, Claim, StoredTurn, TurnFilter, find_all

__all__ = ["TemporalDispatcher"]

_QUEUE = "interlock"
_BEAT = timedelta(seconds=0.3)
"""How often a worker reports a turn to Temporal, and so how soon it hears that the turn is cancelled."""


class TemporalDispatcher(EmbeddedDispatcher):
    """Accepts turns into a store and signals the workflows of their sessions. Callers wait for what workers store."""

    def __init__(self, *given: Any, url: str | None, namespace: str | None, **options: Any) -> None:
        super().__init__(*given, **options)
        self._caller = None
        self._server: dict[str, Any] = {name: value for name, value in (("target_host", url), ("namespace", namespace)) if value}
        self._connected: Client | None = None
        self._agents: dict[str, Agent] = {}
        self._slots = asyncio.Semaphore()

    async def work(self, agents: Iterable[Agent], *, concurrency: int = 1, on_ready: Callable[[], object] | None = None) -> None:
        """Run the turns that Temporal gives to this process, until cancelled. Turns under way are then given back."""
        self._agents, self._slots = await self._serves(agents), asyncio.Semaphore(concurrency)
        client = await self._client()
        beats = {"max_heartbeat_throttle_interval": _BEAT, "default_heartbeat_throttle_interval": _BEAT}
        # Without a build id, Temporal hashes the code of all modules first, which takes seconds.
        build: dict[str, Any] = {"build_id": self._build or _QUEUE}
        options: dict[str, Any] = {"activities": [self.run_turn], "max_concurrent_activities": concurrency, **beats, **build}
        workers = [Worker(client, task_queue=_queue(fingerprint), **options) for fingerprint in self._agents]
        # Histories are short. Without a cache, no session waits for the worker that had its workflow and died.
        workers.append(Worker(client, task_queue=_QUEUE, workflows=[SessionWorkflow], max_cached_workflows=0, **build))
        running = [asyncio.create_task(worker.run()) for worker in workers]
        keeping = asyncio.create_task(self._retention.keep(self.worker.name, self._agents.keys()))
        try:
            if on_ready is not None:
                on_ready()
            # A process may have died after it stored a turn and before it signalled.
            chosen = TurnFilter(statuses=("queued", "ready", "running"))
            for turn in reversed([turn async for turn in find_all(self.store, chosen)]):
                await self._notify("submit", turn)
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            keeping.cancel()
            await asyncio.gather(*(worker.shutdown() for worker in workers))
            with _translated():
                await asyncio.gather(*running)

    @activity.defn(name="run_turn")
    async def run_turn(self, turn: str) -> str:
        """Claim a turn and run it until it has ended or waits for a person; return its status."""
        running = asyncio.create_task(self._finish(turn))
        while not running.done():
            activity.heartbeat()
            try:
                await asyncio.wait({running}, timeout=_BEAT.total_seconds())
            except asyncio.CancelledError:
                why = activity.cancellation_details()
                if why is None or not why.cancel_requested:
                    running.cancel()
                    await asyncio.wait({running})
                    raise
                with suppress(InterlockError):
                    await self.store.cancel(turn)
                    await self.worker.renew()
        error = running.exception()
        if error is None or isinstance(error, ApplicationError):
            return await running
        # Only its code: a message may have contents in it.
        code = error.code if isinstance(error, InterlockError) else "internal"
        raise ApplicationError(code, type=code, non_retryable=isinstance(error, InputError))

    async def _finish(self, turn: str) -> str:
        look = SessionLook()
        async with self._slots:
            while (stored := await self._stored(turn)).status not in {*ENDED, "waiting"}:
                if (left := (stored.due or 0) - await self.store.now()) > 0:
                    raise ApplicationError("not_due", type="not_due", next_retry_delay=timedelta(seconds=left))
                claim = await super()._claim_in_session(stored, look)
                if claim is None:
                    await self.store.changed(timeout_s=_BEAT.total_seconds())
                else:
                    await self._work(self._agents[stored.fingerprint], claim)
            return stored.status

    async def _claim_in_session(self, turn: StoredTurn, look: SessionLook) -> Claim | None:
        """Claim nothing for a caller."""

    async def _notify(self, change: Change, turn: StoredTurn) -> None:
        """Signal the workflow of the turn's session, which starts where it is not running."""
        with _translated():
            await (await self._client()).start_workflow(
                SessionWorkflow.run,
                dict[str, str](),
                id=f"{turn.tenant or 'default'}/{turn.agent}/{turn.session}",
                task_queue=_QUEUE,
                task_timeout=SILENCE,
                start_signal=change,
                start_signal_args=[turn.turn, _queue(turn.fingerprint)],
                memo={"agent": turn.agent, "session": turn.session},
            )

    async def _client(self) -> Client:
        if self._connected is None:
            # Certificates and keys come from Temporal's own configuration: its file, and the variables TEMPORAL_*.
            options: dict[str, Any] = {"target_host": "localhost:7233", **ClientConfig.load_client_connect_config(), **self._server}
            with _translated():
                self._connected = await Client.connect(**options, data_converter=DataConverter(payload_codec=IdsOnly()))
        return self._connected


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except (RPCError, RuntimeError) as error:
        raise StoreUnavailable(f"Temporal cannot be used: {error}") from error


def _queue(fingerprint: str) -> str:
    return f"{_QUEUE}-{fingerprint[:16]}"
