"""Waiting for changes of a turn store, without missing one between two looks."""

from __future__ import annotations

import asyncio

__all__ = ["TurnChanges"]


class TurnChanges:
    """Counts changes. Belongs to one event loop."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def note(self) -> None:
        """Wake the tasks that wait."""
        self._count += 1
        while self._waiting:
            future = self._waiting.pop()
            if not future.done():
                future.set_result(None)

    async def wait(self, *, timeout_s: float, since: int | None) -> int:
        """Return the number of changes, when it is another than `since` or after a time. Without `since`, wait for the next change."""
        if since is None or since == self._count:
            future = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await asyncio.wait({future}, timeout=timeout_s)
            finally:
                self._waiting.discard(future)
        return self._count
