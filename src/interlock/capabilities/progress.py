"""Progress: events that a node emits while it runs."""

from __future__ import annotations

from typing import Protocol

from pydantic import JsonValue

from interlock.capabilities.capability import Capability, asks, emits

__all__ = ["Progress"]


class Progress(Capability, Protocol):
    """Emits custom events. They have no effect on the turn."""

    @asks
    @emits("custom")
    async def emit(self, name: str, data: dict[str, JsonValue]) -> None:
        """Emit an `on_custom_event` with this name and data."""
        ...
