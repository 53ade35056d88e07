"""Events on their way from a turn to one who reads them as they come."""

from __future__ import annotations

import asyncio
from collections import deque

from interlock.runtime.events import Event

__all__ = ["Heard"]


class Heard:
    """Keeps events until they are read. One writes, one reads, in one event loop: cheaper than a queue for anybody."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self._has_ended = False
        self._waiting: asyncio.Future[None] | None = None

    def append(self, event: Event) -> None:
        """Keep an event."""
        self.events.append(event)
        if self._waiting is not None:
            self._wake()

    def end(self) -> None:
        """Say that no more come."""
        self._has_ended = True
        self._wake()

    async def wait(self) -> bool:
        """Wait for events; False where there are none and no more come."""
        while not self.events and not self._has_ended:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return bool(self.events)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
