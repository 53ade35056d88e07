"""What may be asked, and what a turn may do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from interlock.capabilities.capability import Capability
from interlock.capabilities.profiles import Profile

__all__ = ["Policy", "Verdict"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a question may be worked on, why not, and with what it may be: tools, new plans, messages kept word for word."""

    allowed: bool
    reason: str = ""
    tools: tuple[str, ...] = ()
    max_retries: int = 2
    window: int = 20


class Policy(Capability, Protocol):
    """Decides by fixed rules. It never asks a model."""

    async def judge(self, profile: Profile, text: str, tools: tuple[str, ...]) -> Verdict:
        """Judge a question of a user; `tools` are the names of those that there are."""
        ...
