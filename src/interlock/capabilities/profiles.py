"""Who asks: what a user may use, and what the user prefers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from interlock.capabilities.capability import Capability

__all__ = ["Profile", "Profiles"]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A user. `permissions` are names of tools; `*` stands for all of them."""

    user_id: str
    permissions: tuple[str, ...] = ()
    preferences: dict[str, str] = field(default_factory=dict[str, str])


class Profiles(Capability, Protocol):
    """Knows the users."""

    async def load(self, user_id: str) -> Profile:
        """Return a user's profile; somebody who is not known has the one for everybody."""
        ...
