"""The machine's own time and randomness, and the turn's own events."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from pydantic import JsonValue

from interlock.adapters.models.rules import in_pieces
from interlock.capabilities.model import Chunk, ModelReply

__all__ = ["EventProgress", "PlainSpeech", "SystemClock", "SystemIds", "SystemTimer"]


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


class SystemTimer:
    """Waits by the machine's time."""

    async def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        await asyncio.sleep(seconds)


class EventProgress:
    """Has nothing to do: a call of it is an event, which the gate sends."""

    async def emit(self, name: str, data: dict[str, JsonValue]) -> None:
        """Tell whoever listens."""


class PlainSpeech:
    """Says a text word by word."""

    async def say(self, text: str) -> AsyncIterator[Chunk]:
        """Say a text."""
        for piece in in_pieces(ModelReply(text=text)):
            yield piece
