"""The policy of an agent: which questions it works on, and with which tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from interlock.capabilities.capability import Capability
from interlock.capabilities.profiles import Profile

__all__ = ["Policy", "Verdict"]


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

    async def judge(self, profile: Profile, text: str, tools: tuple[str, ...]) -> Verdict:
        """Judge a user's question. `tools` are the names of the available tools."""
        ...
