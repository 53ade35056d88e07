"""Values that belong to one event loop, such as connections: another loop cannot use them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["PerEventLoop"]

T = TypeVar("T")


class PerEventLoop(Generic[T]):
    """Holds one value for each event loop, created at first use.

    `release` is called for the values of event loops that have closed, when another loop first needs a value.
    """

    def __init__(self, create: Callable[[], T], *, release: Callable[[T], None] = lambda _: None) -> None:
        self._create = create
        self._release = release
        self._values: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        """Return the value of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._values:
            # A copy of the keys: event loops in other threads may add theirs meanwhile.
            for other in list(self._values):
                if other.is_closed():
                    self._release_one(other)
            self._values[loop] = self._create()
        return self._values[loop]

    def pop(self) -> T | None:
        """Remove and return the value of the running event loop, without releasing it."""
        return self._values.pop(asyncio.get_running_loop(), None)

    def has(self, value: T) -> bool:
        """Return whether this is still the value of the running event loop."""
        return self._values.get(asyncio.get_running_loop()) is value

    def release_all(self) -> None:
        """Release the values of all event loops. The next `get` creates a new one."""
        for loop in list(self._values):
            self._release_one(loop)

    def _release_one(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop in self._values:
            self._release(self._values.pop(loop))
