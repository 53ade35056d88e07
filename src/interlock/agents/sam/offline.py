"""What sam says where there is no model: enough to see the whole path, and honest about what it is."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.adapters.models.rules import Rules
from interlock.agents.sam.nodes import IMAGE_PROMPT
from interlock.capabilities import Message, Tool

__all__ = ["SamRules"]


class SamRules(Rules):
    """Answers by saying what came in."""

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:  # noqa: ARG002 - sam has no tools
        """Say what came in."""
        said = messages[-1]
        if said.images:
            asked = "" if said.text == IMAGE_PROMPT else f" with “{said.text}”"
            size = f"{len(said.images[0]):,} characters of data URI"
            return f"An image came in{asked} ({size}). No language model is configured to look at it."
        words = len(said.text.split())
        return f"You said: “{said.text}” ({words} {'word' if words == 1 else 'words'}). No language model is configured to say more."
