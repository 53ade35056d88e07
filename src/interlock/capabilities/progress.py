"""Progress: what a node tells whoever follows the turn."""

from __future__ import annotations

from typing import Protocol

from pydantic import JsonValue

from interlock.capabilities.capability import Capability, emits

__all__ = ["Progress"]


class Progress(Capability, Protocol):
    """Tells whoever listens how the turn gets on. It changes nothing."""

    @emits("custom")
    async def emit(self, name: str, data: dict[str, JsonValue]) -> None:
        """Send an `on_custom_event` of this name."""
        ...
