"""What happens to stored turns in time: those that have ended are compressed and later deleted, and those that no worker can run end."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import NoReturn

from pydantic_core import to_json

from interlock.dispatch.results import failed_result
from interlock.errors import InterlockError, VersionUnserved
from interlock.runtime.observe import LOGGER
from interlock.runtime.turns import StoredTurn, TurnEnd, TurnFilter, TurnStore, Writes, find_all

__all__ = ["Retention"]

_INTERVAL_S = 60.0
_UNCOMPRESSED_S = 60.0
"""How long a turn stays as it is after its end: clients that followed it may still read its last events."""
_AT_ONCE = 100
_DAY_S = 24 * 60 * 60


class Retention:
    """Looks after the turns of a store. None keeps turns for ever, and lets those wait for ever that no worker can run."""

    def __init__(self, store: TurnStore, *, days: float | None = None, unserved_s: float | None = None) -> None:
        self._store = store
        self._days = days
        self._unserved_s = unserved_s

    async def keep(self, worker: str, fingerprints: Collection[str]) -> NoReturn:
        """Look after the turns from time to time, until cancelled, for a worker that has these contracts."""
        while True:
            try:
                await self._tidy_all()
                await self.end_unserved(worker, fingerprints)
            except InterlockError as error:
                LOGGER.warning("stored turns are not looked after", extra={"fields": {"worker": worker, "code": error.code}})
            await asyncio.sleep(_INTERVAL_S)

    async def _tidy_all(self) -> None:
        """Compress and delete all that is due, in small transactions: workers write between them."""
        is_left = True
        while is_left:
            is_left = await self.tidy(limit=_AT_ONCE) == _AT_ONCE

    async def tidy(self, *, limit: int = 1000) -> int:
        """Compress turns that have ended, and delete those that ended too long ago: of both so many. Return how many of one at most."""
        now = await self._store.now()
        pruned = 0 if self._days is None else await self._store.prune(ended_before=now - self._days * _DAY_S, limit=limit)
        return max(pruned, await self._store.compact(ended_before=now - _UNCOMPRESSED_S, limit=limit))

    async def end_unserved(self, worker: str, fingerprints: Collection[str]) -> None:
        """End turns that have waited too long for a worker that has their contracts."""
        if self._unserved_s is None:
            return
        before = await self._store.now() - self._unserved_s
        async for turn in find_all(self._store, TurnFilter(statuses=("ready",), with_hidden=True)):
            if turn.fingerprint not in fingerprints and max(turn.created, turn.due or 0) < before:
                with suppress(InterlockError):
                    await self._end(worker, turn)

    async def _end(self, worker: str, turn: StoredTurn) -> None:
        says = f"No worker has the contracts with which turn '{turn.turn}' was accepted (build '{turn.build}')."
        result = failed_result(turn, "error", VersionUnserved(f"{says} Fix: run it again, with the contracts of today."))
        for claim in await self._store.claim(worker, fingerprints={turn.fingerprint}, only=[turn.turn]):
            end = TurnEnd(status="error", result=to_json(result.to_json()), code=VersionUnserved.code)
            await self._store.end(turn.turn, claim.turn.epoch, end, Writes(first_event=len(claim.events)))
