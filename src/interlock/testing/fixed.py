"""A clock and ids that give the same values in every run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["CountingIds", "FixedClock"]


class FixedClock:
    """Returns the same time until `move` is called."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def move(self, by: timedelta) -> None:
        """Move the time forward."""
        self._now += by

    async def now(self) -> datetime:
        """Return the current time of this clock."""
        return self._now


class CountingIds:
    """Returns `id-1`, `id-2`, ..."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._count = 0

    async def new(self) -> str:
        """Return the next id."""
        self._count += 1
        return f"{self._prefix}-{self._count}"
