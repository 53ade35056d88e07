"""The machine's own time and randomness."""

from __future__ import annotations

import os
from datetime import UTC, datetime

__all__ = ["SystemClock", "SystemIds"]


class SystemClock:
    """Tells the machine's time."""

    async def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)


class SystemIds:
    """Makes random identifiers."""

    async def new(self) -> str:
        """Return an identifier that was never returned before."""
        return os.urandom(16).hex()
