"""The capabilities of the analyst alone: profiles of users, and the policy that judges their questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Protocol

from interlock import Trusted
from interlock.capabilities.capability import Capability, asks

__all__ = ["Policy", "Profile", "Profiles", "Verdict"]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A user. `permissions` are names of tools; `*` stands for all of them."""

    user_id: str
    permissions: tuple[str, ...] = ()
    preferences: dict[str, str] = field(default_factory=dict[str, str])


class Profiles(Capability, Protocol):
    """Reads the profiles of users."""

    @asks
    async def load(self, user_id: str) -> Annotated[Profile, Trusted]:
        """Return the profile of a user. An unknown user has the default profile."""
        ...


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a question is allowed, the reason if not, and the limits: tools, retries, and messages kept verbatim (`window`)."""

    allowed: bool
    reason: str = ""
    tools: tuple[str, ...] = ()
    max_retries: int = 2
    window: int = 20


class Policy(Capability, Protocol):
    """Decides by fixed rules. It never calls a model."""

    @asks
    async def judge(self, profile: Profile, text: str, tools: tuple[str, ...]) -> Annotated[Verdict, Trusted]:
        """Judge a user's question. `tools` are the names of the available tools."""
        ...
