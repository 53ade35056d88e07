"""Time and ids that are the same in every run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["CountingIds", "FixedClock"]


class FixedClock:
    """Tells the same time until it is moved."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def move(self, by: timedelta) -> None:
        """Let time pass."""
        self._now += by

    async def now(self) -> datetime:
        """Return the time it stands at."""
        return self._now


class CountingIds:
    """Makes `id-1`, `id-2`, ..."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._count = 0

    async def new(self) -> str:
        """Return the next id."""
        self._count += 1
        return f"{self._prefix}-{self._count}"
