"""Profiles of users: their permissions and preferences."""

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
    """Reads the profiles of users."""

    async def load(self, user_id: str) -> Profile:
        """Return the profile of a user. An unknown user has the default profile."""
        ...
