"""Adapters for the system clock, random ids, timers, progress events and speech."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from pydantic import JsonValue

from interlock.capabilities.model import Chunk, ModelReply
from interlock.models.rules import split_words

__all__ = ["EventProgress", "PlainSpeech", "SystemClock", "SystemIds", "SystemTimer", "worker_name"]


def worker_name() -> str:
    """Return a name for this process in a turn store, unlike that of any other process on any machine."""
    return f"{platform.node() or 'host'}-{os.getpid()}-{os.urandom(4).hex()}"


class SystemClock:
    """The system clock."""

    async def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)


class SystemIds:
    """Random identifiers of 128 bits."""

    async def new(self) -> str:
        """Return a new identifier."""
        return os.urandom(16).hex()


class SystemTimer:
    """Timer of the event loop."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        await asyncio.sleep(seconds)


class EventProgress:
    """Does nothing itself: the gate emits an event for every call."""

    async def emit(self, name: str, data: dict[str, JsonValue]) -> None:
        """Do nothing."""


class PlainSpeech:
    """Streams a text word by word."""

    async def say(self, text: str) -> AsyncIterator[Chunk]:
        """Yield the words of a text."""
        for chunk in split_words(ModelReply(text=text)):
            yield chunk
